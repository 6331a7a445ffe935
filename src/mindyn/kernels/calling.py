"""Call machine code directly with NumPy arrays, without Python in between.

A direct call is a builtin function of CPython whose body is machine code. It checks that every argument is a plain
array of the right type and shape, reads the addresses, releases the interpreter lock if there is much to compute, and
runs the kernel. For other arguments (lists, other types, strided or overlapping arrays, wrong shapes) it returns
`NOT_HANDLED`, and Python code handles the call. A call in a control loop takes 0.6 us this way, and 3.3 us in Python.

The machine code reads NumPy's arrays and CPython's objects by their binary layout. This layout is compared once with
the values that Python reports; if they differ, direct calls are not used.
"""

from __future__ import annotations

import ctypes
import platform
import sys
import sysconfig
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mindyn.foundation.compute_once import compute_once
from mindyn.kernels.numerics import native
from mindyn.kernels.numerics.arrays import Array
from mindyn.kernels.numerics.cache import load_or_build

NOT_HANDLED = -1
"""Result of a direct call that does not accept its arguments, instead of the kernel's status."""

_OBJECT_HEADER_BYTES = object.__basicsize__
_TYPE, _DATA, _NDIM, _DIMENSIONS, _DTYPE, _FLAGS = (
    _OBJECT_HEADER_BYTES - 8,
    _OBJECT_HEADER_BYTES,
    _OBJECT_HEADER_BYTES + 8,
    _OBJECT_HEADER_BYTES + 16,
    _OBJECT_HEADER_BYTES + 40,
    _OBJECT_HEADER_BYTES + 48,
)
"""Offsets of an array's fields: type; address, number and list of dimensions, dtype, flags."""
_CONTIGUOUS_ALIGNED, _WRITEABLE = 0x101, 0x400
"""Flags of C-contiguous and aligned arrays, and of writeable ones."""
_MIN_SAMPLES_WITHOUT_LOCK = 256
"""Number of samples from which on the interpreter lock is released."""
_FASTCALL = 0x80
_WORDS_PER_ARRAY, _FIRST_ARRAY_WORD = 5, 6
"""Numbers that describe an array, and the index of the first one in a description."""

DirectFunction = Callable[..., int]


class DirectCall:
    """Direct call of a kernel: `call(*inputs, *outputs)` returns the kernel's status, or NOT_HANDLED.

    `set_kernel` registers compiled kernels (`single` for one sample, `batch` for several). Until then, calls return
    NOT_HANDLED.
    """

    def __init__(
        self,
        inputs: Sequence[tuple[int, ...]],
        outputs: Sequence[tuple[int, ...]],
        shared: Sequence[int],
        dtype: np.dtype[Any],
    ) -> None:
        shapes = [*inputs, *outputs]
        self._description = np.zeros(_FIRST_ARRAY_WORD + _WORDS_PER_ARRAY * len(shapes), np.int64)
        self._description[2:_FIRST_ARRAY_WORD] = (len(inputs), len(shapes), id(np.ndarray), id(dtype))
        fits = all(1 <= len(shape) <= 2 for shape in shapes) and bool(outputs)
        for k, shape in enumerate(shapes if fits else ()):
            size = int(np.prod(shape)) * dtype.itemsize
            first = _FIRST_ARRAY_WORD + _WORDS_PER_ARRAY * k
            self._description[first : first + _WORDS_PER_ARRAY] = (
                len(shape),
                *shape,
                *[0] * (2 - len(shape)),
                size,
                k in shared,
            )
        self._codes: list[native.NativeCode] = []
        self.call: DirectFunction = _builtin(self._description) if fits and _is_layout_known() else _decline_call

    def set_kernel(self, code: native.NativeCode, *, batch: bool) -> None:
        """Register the kernel for one sample, or for many."""
        self._codes.append(code)
        self._description[int(batch)] = code.address


def _decline_call(*_: object) -> int:
    return NOT_HANDLED


class _MethodDefinition(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


@compute_once
def _method() -> tuple[_MethodDefinition, native.NativeCode]:
    code = native.load(load_or_build(("direct call", _IR), lambda: native.assemble_code(_IR)), "call")
    return _MethodDefinition(b"direct", code.address, _FASTCALL, b"(*inputs, *outputs) -> status"), code


def _builtin(description: Array) -> DirectFunction:
    """Create the function object; CPython keeps `description`, its `self`, alive as long as the function."""
    new = ctypes.pythonapi.PyCFunction_NewEx
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    builtin: DirectFunction = new(ctypes.addressof(_method()[0]), description, None)
    return builtin


@compute_once
def _is_layout_known() -> bool:
    """Return whether arrays have the memory layout that the machine code reads."""
    if platform.python_implementation() != "CPython" or sysconfig.get_config_var("Py_GIL_DISABLED"):
        return False
    if ctypes.sizeof(ctypes.c_void_p) != 8 or sys.byteorder != "little":
        return False
    trial = np.arange(24.0).reshape(2, 3, 4)
    fixed = np.frombuffer(bytes(16))
    return all(
        _is_read_correctly(array)
        for array in (trial, trial[1], trial[:, 1:], trial[0].T, trial.astype(np.float32), fixed)
    )


def _is_read_correctly(array: Array) -> bool:
    at = id(array)
    if _half(at + _NDIM) != array.ndim:
        return False
    dimensions = [_number(_number(at + _DIMENSIONS) + 8 * k) for k in range(array.ndim)]
    ordered = _half(at + _FLAGS) & _CONTIGUOUS_ALIGNED == _CONTIGUOUS_ALIGNED
    return (
        _number(at + _TYPE) == id(np.ndarray)
        and _number(at + _DATA) == array.__array_interface__["data"][0]
        and tuple(dimensions) == array.shape
        and _number(at + _DTYPE) == id(array.dtype)
        and ordered == (array.flags.c_contiguous and array.flags.aligned)
        and bool(_half(at + _FLAGS) & _WRITEABLE) == array.flags.writeable
    )


def _number(address: int) -> int:
    return ctypes.c_int64.from_address(address).value


def _half(address: int) -> int:
    return ctypes.c_int32.from_address(address).value


def _load_field(name: str, at: str, offset: int, kind: str = "i64") -> str:
    return f"  %{name}_field = getelementptr i8, ptr {at}, i64 {offset}\n  %{name} = load {kind}, ptr %{name}_field"


def _load_item(name: str, array: str, index: str, kind: str = "i64") -> str:
    return f"  %{name}_at = getelementptr {kind}, ptr {array}, i64 {index}\n  %{name} = load {kind}, ptr %{name}_at"


def _array_words(name: str, index: str) -> str:
    """Return the address of the words that describe array number `index`."""
    return (
        f"  %{name}_offset = mul i64 {index}, {8 * _WORDS_PER_ARRAY}\n"
        f"  %{name}_at = add i64 %{name}_offset, {8 * _FIRST_ARRAY_WORD}\n"
        f"  %{name} = getelementptr i8, ptr %words, i64 %{name}_at"
    )


_IR = f"""
declare ptr @PyLong_FromLongLong(i64)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare i32 @memcmp(ptr, ptr, i64)

define ptr @call(ptr %self, ptr %arguments, i64 %given) nounwind {{
entry:
{_load_field("words", "%self", _DATA, "ptr")}
{_load_field("input_count", "%words", 16)}
{_load_field("array_count", "%words", 24)}
{_load_field("array_type", "%words", 32)}
{_load_field("dtype", "%words", 40)}
  %is_count_right = icmp eq i64 %given, %array_count
  br i1 %is_count_right, label %begin, label %leave

begin:                                   ; the first output has the dimensions of the batch
  %table_size = mul i64 %array_count, 2
  %table = alloca i64, i64 %table_size, align 16
  %ends = alloca i64, i64 %array_count, align 16
{_load_item("out", "%arguments", "%input_count", "ptr")}
{_load_field("out_type", "%out", _TYPE)}
  %out_is_array = icmp eq i64 %out_type, %array_type
  br i1 %out_is_array, label %batch, label %leave
batch:
{_load_field("out_ndim", "%out", _NDIM, "i32")}
  %out_ndim64 = sext i32 %out_ndim to i64
{_load_field("batch_dims", "%out", _DIMENSIONS, "ptr")}
{_array_words("out_words", "%input_count")}
{_load_field("out_own", "%out_words", 0)}
  %batch_ndim = sub i64 %out_ndim64, %out_own
  %batch_possible = icmp sge i64 %batch_ndim, 0
  br i1 %batch_possible, label %counting, label %leave
counting:
  %j = phi i64 [ 0, %batch ], [ %j_next, %count_one ]
  %count = phi i64 [ 1, %batch ], [ %count_next, %count_one ]
  %counted = icmp sge i64 %j, %batch_ndim
  br i1 %counted, label %arrays, label %count_one
count_one:
{_load_item("j_size", "%batch_dims", "%j")}
  %count_next = mul i64 %count, %j_size
  %j_next = add i64 %j, 1
  br label %counting

arrays:                                  ; of each array: its type, its shape, its place
  %k = phi i64 [ 0, %counting ], [ %k_next, %next ]
  %all_kept = icmp sge i64 %k, %array_count
  br i1 %all_kept, label %compute, label %look
look:
{_load_item("array", "%arguments", "%k", "ptr")}
{_load_field("type", "%array", _TYPE)}
  %is_array = icmp eq i64 %type, %array_type
  br i1 %is_array, label %look_on, label %leave
look_on:
{_load_field("its_dtype", "%array", _DTYPE)}
  %dtype_ok = icmp eq i64 %its_dtype, %dtype
{_load_field("flags", "%array", _FLAGS, "i32")}
  %is_input = icmp slt i64 %k, %input_count
  %needed = select i1 %is_input, i32 {_CONTIGUOUS_ALIGNED}, i32 {_CONTIGUOUS_ALIGNED | _WRITEABLE}
  %flags_there = and i32 %flags, %needed
  %flags_ok = icmp eq i32 %flags_there, %needed
  %kind_ok = and i1 %dtype_ok, %flags_ok
{_array_words("own_words", "%k")}
{_load_field("own", "%own_words", 0)}
{_load_field("size", "%own_words", 24)}
{_load_field("shared", "%own_words", 32)}
{_load_field("ndim", "%array", _NDIM, "i32")}
  %ndim64 = sext i32 %ndim to i64
{_load_field("dims", "%array", _DIMENSIONS, "ptr")}
  %extra = sub i64 %ndim64, %own
  %enough = icmp sge i64 %extra, 0
  %shape_possible = and i1 %kind_ok, %enough
  br i1 %shape_possible, label %shape, label %leave
shape:
  %own_dims = getelementptr i64, ptr %dims, i64 %extra
  %own_shape = getelementptr i64, ptr %own_words, i64 1
  %own_bytes = mul i64 %own, 8
  %own_order = call i32 @memcmp(ptr %own_dims, ptr %own_shape, i64 %own_bytes)
  %shape_ok = icmp eq i32 %own_order, 0
  %alone = icmp eq i64 %extra, 0
  %one_for_all = and i1 %alone, %is_input
  %same_ndim = icmp eq i64 %extra, %batch_ndim
  %unshared = icmp eq i64 %shared, 0
  %one_for_each = and i1 %same_ndim, %unshared
  %batch_fits = or i1 %one_for_all, %one_for_each
  %common = select i1 %same_ndim, i64 %extra, i64 0
  %batch_bytes = mul i64 %common, 8
  %batch_order = call i32 @memcmp(ptr %dims, ptr %batch_dims, i64 %batch_bytes)
  %batch_ok = icmp eq i32 %batch_order, 0
  %shapes_ok = and i1 %shape_ok, %batch_ok
  %fits = and i1 %shapes_ok, %batch_fits
  br i1 %fits, label %kept, label %leave
kept:
{_load_field("data", "%array", _DATA)}
  %stride = select i1 %alone, i64 0, i64 %size
  %entry_index = mul i64 %k, 2
  %address_at = getelementptr i64, ptr %table, i64 %entry_index
  store i64 %data, ptr %address_at
  %stride_at = getelementptr i64, ptr %address_at, i64 1
  store i64 %stride, ptr %stride_at
  %samples = select i1 %alone, i64 1, i64 %count
  %bytes = mul i64 %size, %samples
  %end = add i64 %data, %bytes
  %end_at = getelementptr i64, ptr %ends, i64 %k
  store i64 %end, ptr %end_at
  br i1 %is_input, label %next, label %apart
apart:                                   ; no output may lie where an input, or another output, lies
  %i = phi i64 [ 0, %kept ], [ %i_next, %compare ]
  %all_apart = icmp sge i64 %i, %k
  br i1 %all_apart, label %next, label %compare
compare:
  %i_index = mul i64 %i, 2
{_load_item("i_begin", "%table", "%i_index")}
{_load_item("i_end", "%ends", "%i")}
  %is_after = icmp uge i64 %data, %i_end
  %is_before = icmp uge i64 %i_begin, %end
  %is_apart = or i1 %is_after, %is_before
  %i_next = add i64 %i, 1
  br i1 %is_apart, label %apart, label %leave
next:
  %k_next = add i64 %k, 1
  br label %arrays

compute:
  %some = icmp sgt i64 %count, 0
  %is_batch = icmp sgt i64 %count, 1
  %which = zext i1 %is_batch to i64
{_load_item("kernel", "%words", "%which", "ptr")}
  %has_kernel = icmp ne ptr %kernel, null
  %go = and i1 %some, %has_kernel
  br i1 %go, label %run, label %leave
run:
  %long = icmp sge i64 %count, {_MIN_SAMPLES_WITHOUT_LOCK}
  br i1 %long, label %unlocked, label %locked
locked:
  %status_locked = call i64 %kernel(i64 0, i64 %count, ptr %table)
  br label %report
unlocked:
  %state = call ptr @PyEval_SaveThread()
  %status_unlocked = call i64 %kernel(i64 0, i64 %count, ptr %table)
  call void @PyEval_RestoreThread(ptr %state)
  br label %report
leave:
  br label %report
report:
  %number = phi i64 [ %status_locked, %locked ], [ %status_unlocked, %unlocked ], [ {NOT_HANDLED}, %leave ]
  %result = call ptr @PyLong_FromLongLong(i64 %number)
  ret ptr %result
}}
"""
