"""`Kernel`: machine code of a CasADi function or a program, for NumPy arrays of any batch shape."""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any

import casadi
import numpy as np

from mindyn.foundation.algebra.values import real_array, require_unmasked
from mindyn.foundation.errors import Code, InputError, unknown_name_error
from mindyn.foundation.processes.cores import split_range
from mindyn.kernels import calling
from mindyn.kernels.array_layout import STAGE_BYTES, Layout
from mindyn.kernels.bound_kernel import BoundKernel
from mindyn.kernels.llvm import emit
from mindyn.kernels.numerics import native
from mindyn.kernels.numerics.arrays import (
    Array,
    address_of,
    batch_shape,
    common_batch,
    contiguous_samples,
    require_arrays,
)
from mindyn.kernels.numerics.cache import load_or_build
from mindyn.kernels.numerics.machine import host
from mindyn.kernels.program import Program
from mindyn.kernels.tracing import trace
from mindyn.kernels.vector_code import Format

_KERNEL_FUNCTION_TYPE = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
"""Type of a compiled kernel; a call through it releases the interpreter lock."""


STREAMED_BYTES, MIN_STREAMED_BYTES = 2**23, 256
"""Size (bytes) of the outputs of a batch, and of one sample, above which outputs are written to memory directly,
without the caches.
"""


class Kernel:
    """Machine code of `function`, called with one array per input: `kernel(q, qd, qdd)`.

    An input with shape (n, 1) takes arrays (..., n), an input with shape (r, c) takes (..., r, c); batch dimensions
    broadcast. Inputs and outputs named in `matrices` keep (r, c) even if c is one. Inputs named in `shared` are one
    sample for the whole batch, without batch dimensions. Outputs named in `compact` hold only their structural nonzeros
    in row-major order: (..., nnz), at `nonzeros(name)`. One output is returned as an array, several as a tuple. Code is
    compiled at the first use and cached on disk.

    Results are guaranteed for inputs up to 1e60 (float64) or 1e7 (float32); for larger inputs they are correct or an
    error is raised. An input that is not finite is an error. A result that is not finite, by overflow or division by
    zero, is also an error (`not_finite_hint` names the likely cause). `check_finite=False` skips both tests and returns
    NaN.
    """

    def __init__(
        self,
        function: casadi.Function | Program,
        *,
        dtype: Any = np.float64,
        shared: Sequence[str] = (),
        compact: Sequence[str] = (),
        matrices: Sequence[str] = (),
        check_finite: bool = True,
        not_finite_hint: str = "",
    ) -> None:
        self.program = function if isinstance(function, Program) else trace(function, matrices)
        self.dtype = np.dtype(dtype)
        if self.dtype not in (np.dtype(np.float64), np.dtype(np.float32)):
            raise InputError(
                f"dtype must be float64 or float32, got {self.dtype}", code=Code.WRONG_TYPE, subject="dtype"
            )
        self.check_finite = check_finite
        self.not_finite_hint = not_finite_hint
        self.shape_hints: dict[int, str] = {}
        self._input_names = tuple(argument.name for argument in self.program.inputs)
        self._output_names = tuple(argument.name for argument in self.program.outputs)
        self._shared = tuple(sorted(_positions_of_names("input", shared, self._input_names)))
        self._compact = tuple(sorted(_positions_of_names("output", compact, self._output_names)))
        self.input_shapes = tuple(argument.shape for argument in self.program.inputs)
        self.output_shapes = tuple(
            (len(argument.nonzeros),) if k in self._compact else argument.shape
            for k, argument in enumerate(self.program.outputs)
        )
        self._lanes = host().lanes(self.dtype.itemsize * 8)
        self._lock = threading.Lock()
        self._code: dict[tuple[int, bool], native.NativeCode] = {}
        self._run: dict[tuple[int, bool], Callable[..., int]] = {}
        sizes = [prod(shape) * self.dtype.itemsize for shape in self.output_shapes]
        matrices_out = [k for k, output in enumerate(self.program.outputs) if len(output.shape) == 2]
        self._streamed = {k: sizes[k] for k in matrices_out if sizes[k] >= MIN_STREAMED_BYTES}
        fitting = STREAMED_BYTES // sum(self._streamed.values()) if self._streamed else sys.maxsize
        self._most_cached = max(self._lanes, fitting)
        self._one_output = len(self.output_shapes) == 1
        self._direct = calling.DirectCall(self.input_shapes, self.output_shapes, self._shared, self.dtype)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as program and options; the receiving process compiles the machine code."""
        if type(self) is not Kernel:
            raise TypeError(f"a {type(self).__name__} cannot be pickled; pickle its Model")
        options: dict[str, Any] = {
            "dtype": self.dtype.str,
            "shared": [self._input_names[k] for k in self._shared],
            "compact": [self._output_names[k] for k in self._compact],
            "check_finite": self.check_finite,
            "not_finite_hint": self.not_finite_hint,
        }
        return partial(Kernel, self.program, **options), ()

    def __call__(self, *arrays: Any, out: Any = None, threads: int = 1) -> Any:
        """Return the outputs for a batch of samples, in `out` if given, computed by `threads` threads."""
        return self.run(arrays, out, threads)

    def run(self, arrays: tuple[Any, ...], out: Any = None, threads: int = 1) -> Any:
        """Return the outputs like a call; the arrays are given as a tuple, for callers with a million calls per
        second.
        """
        if threads == 1 and not self._is_large(arrays):
            results = self._allocate_results(arrays) if out is None else (out,) if self._one_output else tuple(out)
            status = self._direct.call(*arrays, *results)
            if status != calling.NOT_HANDLED:
                if status:
                    self._raise_not_finite(arrays, results)
                return results[0] if self._one_output else results
        return self._call_batch(arrays, out, threads)

    def nonzeros(self, name: str) -> Array:
        """Return the row-major element numbers of the structural nonzeros of output `name`."""
        (number,) = _positions_of_names("output", [name], self._output_names)
        return np.array(self.program.outputs[number].nonzeros, dtype=np.intp)

    def densify(self, name: str, compact: Array) -> Array:
        """Return the full output (..., r, c) of a compact output (..., nnz)."""
        (number,) = _positions_of_names("output", [name], self._output_names)
        output = self.program.outputs[number]
        dense = np.zeros((*compact.shape[:-1], output.size), compact.dtype)
        dense[..., self.nonzeros(name)] = compact
        return dense.reshape(*compact.shape[:-1], *output.shape)

    def bind(self) -> BoundKernel:
        """Return the machine code with fixed input and output arrays for one sample, for control loops."""
        return BoundKernel(self.code(1), self)

    def compile(self) -> None:
        """Compile or load the code for batches now instead of at the first call."""
        self.code(self._lanes)

    def code(self, width: int, *, streamed: bool = False) -> native.NativeCode:
        """Return machine code for `width` samples at a time; it is compiled or loaded from the cache once."""
        with self._lock:
            if (width, streamed) not in self._code:
                form = Format(self.dtype.itemsize * 8, width, host().fused)
                past_caches = tuple(self._streamed) if streamed else ()
                layout = Layout(form, self._shared, self._compact, self.check_finite, past_caches)
                key = ("kernel", self.program.digest, repr(layout))
                self._code[width, streamed] = native.load(
                    load_or_build(key, lambda: native.assemble_code(emit(self.program, layout))), "kernel"
                )
                if not streamed:
                    self._direct.set_kernel(self._code[width, streamed], batch=width > 1)
            return self._code[width, streamed]

    def _is_large(self, arrays: tuple[Any, ...]) -> bool:
        """Return whether the results of these arrays are too large for the caches."""
        return bool(self._streamed and arrays) and np.size(arrays[0]) > self._most_cached * prod(self.input_shapes[0])

    def _allocate_results(self, arrays: tuple[Any, ...]) -> tuple[Array, ...]:
        """Return arrays for the results with the batch shape of the first argument; None if the first argument is not
        an array.
        """
        first = arrays[0] if arrays else None
        if type(first) is not np.ndarray:
            return ()
        shape = first.shape
        batch = shape[: len(shape) - len(self.input_shapes[0])]
        if self._one_output:
            return (np.empty(batch + self.output_shapes[0], self.dtype),)
        return tuple([np.empty(batch + sample_shape, self.dtype) for sample_shape in self.output_shapes])

    def _call_batch(self, arguments: tuple[Any, ...], out: Any, threads: int) -> Any:
        arrays = self._convert(arguments)
        batch = self._batch(arrays)
        results = self._results(out, batch)
        inputs = zip(arrays, self.input_shapes, strict=True)
        sources = [contiguous_samples(array, shape, batch) for array, shape in inputs]
        targets = [self._choose_target(result, [] if out is None else sources) for result in results]
        places = [
            (target, prod(shape) * self.dtype.itemsize)
            for target, shape in zip(targets, self.output_shapes, strict=True)
        ]
        if self._compute([*sources, *places], prod(batch), threads):
            self._raise_not_finite(arrays, targets)
        for result, target in zip(results, targets, strict=True):
            if target is not result:
                result[...] = target
        return results[0] if len(results) == 1 else tuple(results)

    def _convert(self, arguments: tuple[Any, ...]) -> list[Array]:
        require_arrays(arguments, self._input_names, self.program.name)
        return [real_array(a, self.dtype, name) for a, name in zip(arguments, self._input_names, strict=True)]

    def _batch(self, arrays: list[Array]) -> tuple[int, ...]:
        inputs = zip(arrays, self.input_shapes, self._input_names, strict=True)
        hints = self.shape_hints
        batches = [batch_shape(array.shape, s, name, hints.get(s[-1], "") if s else "") for array, s, name in inputs]
        for k in self._shared:
            if batches[k]:
                raise InputError(
                    f"{self._input_names[k]}: has shape {arrays[k].shape}, but it is shared by all samples: "
                    f"{self.input_shapes[k]} is needed",
                    code=Code.WRONG_SHAPE,
                    subject=self._input_names[k],
                )
        return common_batch(batches, self._input_names)

    def _results(self, out: Any, batch: tuple[int, ...]) -> list[Array]:
        if out is None:
            return [np.empty(batch + shape, self.dtype) for shape in self.output_shapes]
        given = [out] if len(self.output_shapes) == 1 else list(out)
        require_arrays(given, self._output_names, "out")
        for array, shape, name in zip(given, self.output_shapes, self._output_names, strict=True):
            self._check_out(array, batch + shape, name)
        return given

    def _check_out(self, array: Any, shape: tuple[int, ...], name: str) -> None:
        require_unmasked(array, f"out for {name}")
        if not isinstance(array, np.ndarray) or array.dtype != self.dtype or array.shape != shape:
            given = (
                f"{array.dtype} array of shape {array.shape}" if isinstance(array, np.ndarray) else repr(type(array))
            )
            raise InputError(
                f"out for {name}: {given} given, but a {self.dtype} array of shape {shape} is needed",
                code=Code.WRONG_SHAPE,
                subject="out",
            )
        if not array.flags.writeable:
            raise InputError(f"out for {name}: the array is read-only", subject="out", code=Code.NOT_WRITABLE)

    def _choose_target(self, result: Array, sources: list[tuple[Array, int]]) -> Array:
        """Return the array to write into: `result`, or a new array if `result` overlaps an input or is not
        contiguous.
        """
        if result.flags.carray and not any(np.may_share_memory(result, source) for source, _ in sources):
            return result
        return np.empty(result.shape, self.dtype)

    def _compute(self, arrays: list[tuple[Array, int]], count: int, threads: int) -> int:
        width = 1 if count == 1 else self._lanes
        streamed = count > self._most_cached
        if (width, streamed) not in self._run:
            self._run[width, streamed] = _KERNEL_FUNCTION_TYPE(self.code(width, streamed=streamed).address)
        run = self._run[width, streamed]
        entries = [number for array, stride in arrays for number in (address_of(array), stride)]

        def compute(first: int, last: int) -> int:
            if not streamed:
                return run(first, last, (ctypes.c_int64 * len(entries))(*entries))
            line, sizes = width * self.dtype.itemsize, self._streamed.values()
            stages = [np.zeros(2 * max(STAGE_BYTES, width * size) + 16 * line, np.uint8) for size in sizes]
            places = [stage.ctypes.data + -stage.ctypes.data % line for stage in stages]
            first = min(first, last - width)
            status, whole = 0, first + (last - first) // width * width
            # Whole blocks, of which the first lacks its first line; and the last samples, as a block of their own.
            for begin, end in ((first, whole), (first, first + width), (last - width, last)):
                table = [*entries, *places, begin]
                status |= run(begin, end, (ctypes.c_int64 * len(table))(*table))
            return status

        return split_range(compute, count, threads, self._lanes)

    def _raise_not_finite(self, arrays: Sequence[Array], results: Sequence[Array]) -> None:
        """Raise an error that names the first NaN or infinity, if there is one.

        (Large inputs or sums also set the kernel's status.)
        """
        for array, name in zip(arrays, self._input_names, strict=True):
            if (where := _find_not_finite(array)) is not None:
                raise InputError(
                    f"{name}: element {list(where)} is {array[where]}, but finite numbers are needed",
                    code=Code.NOT_FINITE,
                    subject=name,
                )
        for array, name in zip(results, self._output_names, strict=True):
            if (where := _find_not_finite(array)) is not None:
                raise InputError(
                    f"{name}: element {list(where)} is {array[where]}, although all inputs are finite",
                    hint=self._explain_not_finite(arrays),
                    code=Code.NOT_FINITE,
                    subject=name,
                )

    def _explain_not_finite(self, arrays: Sequence[Array]) -> str:
        input_limit = Format(self.dtype.itemsize * 8, 1).input_limit
        for array, name in zip(arrays, self._input_names, strict=True):
            if array.size and (largest := np.abs(array).max()) > input_limit:
                return f"{name} reaches {largest:.3g}; results are guaranteed for inputs up to {input_limit:g}"
        return self.not_finite_hint or "a number exceeded the range of the type, or was divided by zero"


def _find_not_finite(array: Array) -> tuple[int, ...] | None:
    """Return the index of the first element that is NaN or infinite."""
    finite = np.isfinite(array)
    return None if finite.all() else tuple(int(i) for i in np.argwhere(~finite)[0])


def _positions_of_names(kind: str, wanted: Sequence[str], names: tuple[str, ...]) -> list[int]:
    """Return the positions of the wanted names."""
    for name in wanted:
        if name not in names:
            raise unknown_name_error(kind, name, names)
    return [names.index(name) for name in wanted]
