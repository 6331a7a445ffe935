"""`CallList`: collect calls of machine code and run them one after another with one call from Python.

Threads that leave the interpreter for a tenth of a millisecond at a time wait for each other on their return, longer
than they compute. A list of calls leaves the interpreter once for all of them.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any, Final, NamedTuple

import numpy as np

from mindyn.algebra.values import Array
from mindyn.numerics import native
from mindyn.numerics.arrays import address_of, address_of_rows
from mindyn.numerics.cache import load_or_build
from mindyn.numerics.machine import host

_CALL_KINDS: Final = {
    "kernel": ("i64", "i64", "ptr"),
    "sections": ("i64", "i64", "ptr", "i64", "ptr", "i64", "ptr", "ptr"),
    "products": ("i64", "i64", "i64", "ptr", "i64"),
    "scaled": ("i64", "i64", "ptr", "i64", "ptr", "i64", "ptr", "i64"),
}
"""Arguments of the functions that can be listed: of `Kernel`, whose result is kept, of `sections`, of `products`, and
of this module.
"""
_KIND_NUMBERS: Final = {kind: number for number, kind in enumerate(_CALL_KINDS)}
_WORDS_PER_CALL: Final = 2 + max(map(len, _CALL_KINDS.values()))
"""An entry has the kind of function, its address, and its arguments."""


RowPointer = tuple[int, int]
"""Address of the first row, and the numbers from one row to the next, which may be 0."""


class RowBlock(NamedTuple):
    """Memory of the rows of a float64 array (N, width): the address of the first row, and the numbers from one to the
    next.
    """

    address: int
    step: int
    width: int

    @staticmethod
    def from_array(array: Array) -> RowBlock:
        """Return the rows of an array (..., N, width), which must live as long as listed calls use it."""
        return RowBlock(address_of_rows(array), array.strides[-2] // array.itemsize, array.shape[-1])

    def row(self, number: int) -> int:
        """Return the address of a row."""
        return self.address + 8 * number * self.step

    def columns(self, first: int, width: int) -> RowBlock:
        """Return some columns of the same rows."""
        return RowBlock(self.address + 8 * first, self.step, width)


class CallList:
    """Calls in the order in which they are listed; `run` executes them and starts a new list.

    `on_not_finite` is called if a kernel reports that numbers may not be finite.
    """

    def __init__(self, on_not_finite: Callable[[], None] | None = None) -> None:
        self._words: list[int] = []
        self._needs: list[Any] = []
        self._raise_not_finite = on_not_finite

    def keep_alive(self, *objects: Any) -> None:
        """Keep objects alive until the calls have run."""
        self._needs += objects

    def add(self, kind: str, code: native.NativeCode, *arguments: int) -> None:
        """Append a call of a function."""
        self._needs.append(code)  # two threads may have loaded it, and one copy is freed
        self._add(kind, code.address, arguments)

    def _add(self, kind: str, address: int, arguments: tuple[int, ...]) -> None:
        self._words += (_KIND_NUMBERS[kind], address, *arguments, *(0,) * (_WORDS_PER_CALL - 2 - len(arguments)))

    def scale(self, rows: int, width: int, factor: RowPointer, x: RowPointer, y: RowPointer) -> None:
        """Append y = factor x for rows of some width, with one factor per row."""
        self._add("scaled", 0, (rows, width, *x, *y, *factor))

    def run(self) -> None:
        """Run the calls."""
        if self._words:
            table = np.array(self._words, dtype=np.int64)
            status = _function()(address_of(table), len(table) // _WORDS_PER_CALL)
            self._words, self._needs = [], []
            if status and self._raise_not_finite is not None:
                self._raise_not_finite()


@cache
def _function() -> Callable[..., int]:
    ir = _module(host().lanes(64))
    code = native.load(load_or_build(("calls", ir), lambda: native.assemble(ir)), "calls")
    function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)(code.address)
    function.keep_alive = code  # type: ignore[attr-defined]
    return function


def _module(lanes: int) -> str:
    kinds = [f"    i64 {number}, label %{kind}" for kind, number in _KIND_NUMBERS.items()]
    reports = ["[ %kernel.report, %kernel ]", *(f"[ 0, %{kind} ]" for kind in list(_CALL_KINDS)[1:])]
    vector = f"<{lanes} x double>"
    return f"""
declare {vector} @llvm.masked.load.v{lanes}f64.p0(ptr, i32, <{lanes} x i1>, {vector})
declare void @llvm.masked.store.v{lanes}f64.p0({vector}, ptr, i32, <{lanes} x i1>)

define i64 @calls(ptr %table, i64 %count) nounwind {{
entry:
  br label %one
one:
  %k = phi i64 [ 0, %entry ], [ %k.next, %made ]
  %status = phi i64 [ 0, %entry ], [ %status.next, %made ]
  %offset = mul i64 %k, {_WORDS_PER_CALL}
  %at = getelementptr i64, ptr %table, i64 %offset
  %kind = load i64, ptr %at
  %f.p = getelementptr i64, ptr %at, i64 1
  %f = load ptr, ptr %f.p
  switch i64 %kind, label %unknown [
{chr(10).join(kinds)}
  ]
{"".join(_call(kind, types) for kind, types in _CALL_KINDS.items())}
unknown:
  br label %made
made:
  %report = phi i64 {", ".join(reports)}, [ 1, %unknown ]
  %status.next = or i64 %status, %report
  %k.next = add i64 %k, 1
  %more = icmp slt i64 %k.next, %count
  br i1 %more, label %one, label %end
end:
  ret i64 %status.next
}}

define internal void @scaled(i64 %rows, i64 %width, ptr %x, i64 %xs, ptr %y, i64 %ys, ptr %f, i64 %fs) nounwind {{
entry:
  %narrow = icmp eq i64 %width, 1
  br i1 %narrow, label %number, label %row
number:
  %n = phi i64 [ 0, %entry ], [ %n.next, %number ]
  %xp = phi ptr [ %x, %entry ], [ %xp.next, %number ]
  %yp = phi ptr [ %y, %entry ], [ %yp.next, %number ]
  %fp = phi ptr [ %f, %entry ], [ %fp.next, %number ]
  %xn = load double, ptr %xp
  %fn = load double, ptr %fp
  %yn = fmul double %xn, %fn
  store double %yn, ptr %yp
  %xp.next = getelementptr double, ptr %xp, i64 %xs
  %yp.next = getelementptr double, ptr %yp, i64 %ys
  %fp.next = getelementptr double, ptr %fp, i64 %fs
  %n.next = add i64 %n, 1
  %n.more = icmp slt i64 %n.next, %rows
  br i1 %n.more, label %number, label %end
row:
  %r = phi i64 [ 0, %entry ], [ %r.next, %done ]
  %x.off = mul i64 %r, %xs
  %y.off = mul i64 %r, %ys
  %f.off = mul i64 %r, %fs
  %xr = getelementptr double, ptr %x, i64 %x.off
  %yr = getelementptr double, ptr %y, i64 %y.off
  %fr = getelementptr double, ptr %f, i64 %f.off
  %factor = load double, ptr %fr
  %factor.i = insertelement {vector} poison, double %factor, i64 0
  %factors = shufflevector {vector} %factor.i, {vector} poison, <{lanes} x i32> zeroinitializer
  br label %some
some:
  %j = phi i64 [ 0, %row ], [ %j.next, %some ]
  %left = sub i64 %width, %j
  %left.i = insertelement <{lanes} x i64> poison, i64 %left, i64 0
  %all = shufflevector <{lanes} x i64> %left.i, <{lanes} x i64> poison, <{lanes} x i32> zeroinitializer
  %mask = icmp slt <{lanes} x i64> <{", ".join(f"i64 {k}" for k in range(lanes))}>, %all
  %xj = getelementptr double, ptr %xr, i64 %j
  %yj = getelementptr double, ptr %yr, i64 %j
  %v = call {vector} @llvm.masked.load.v{lanes}f64.p0(ptr %xj, i32 8, <{lanes} x i1> %mask, {vector} zeroinitializer)
  %w = fmul {vector} %v, %factors
  call void @llvm.masked.store.v{lanes}f64.p0({vector} %w, ptr %yj, i32 8, <{lanes} x i1> %mask)
  %j.next = add i64 %j, {lanes}
  %j.more = icmp slt i64 %j.next, %width
  br i1 %j.more, label %some, label %done
done:
  %r.next = add i64 %r, 1
  %r.more = icmp slt i64 %r.next, %rows
  br i1 %r.more, label %row, label %end
end:
  ret void
}}
"""


def _call(kind: str, types: tuple[str, ...]) -> str:
    """Return the block of IR that calls a function of a kind."""
    lines = [f"{kind}:"]
    for k, argument_type in enumerate(types):
        lines += [
            f"  %{kind}.{k}.p = getelementptr i64, ptr %at, i64 {k + 2}",
            f"  %{kind}.{k} = load {argument_type}, ptr %{kind}.{k}.p",
        ]
    given = ", ".join(f"{argument_type} %{kind}.{k}" for k, argument_type in enumerate(types))
    calls = {"kernel": f"%kernel.report = call i64 %f({given})", "scaled": f"call void @scaled({given})"}
    lines += [f"  {calls.get(kind, f'call void %f({given})')}", "  br label %made", ""]
    return "\n".join(lines)
