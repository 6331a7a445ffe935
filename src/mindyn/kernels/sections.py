"""Second-order sections of a recursive filter down the rows of an array, all columns at once.

SciPy's loop goes down one column after another and waits for every sum; here a register holds as many columns as it has
lanes, and the sums of several registers overlap. Operations and their order are SciPy's (`sosfilt`, the transposed
direct form II), so that the numbers are. The interpreter lock is released.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Final

import numpy as np

from mindyn.algebra.values import Array
from mindyn.kernels import native
from mindyn.kernels.cache import cached
from mindyn.kernels.machine import host

_ABREAST: Final = 4
"""Registers of columns that go down the rows together: a section's sums take as long as four of them."""
_AHEAD: Final = 16
"""Rows ahead that are fetched: of a wide array no two rows of a panel are near each other."""
_BLOCK: Final = 2**15
"""Numbers filtered from the first to the last column before the rows go on: they stay in the cache."""
_POINTERS: Final = (ctypes.c_int64, ctypes.c_int64, *(ctypes.c_void_p, ctypes.c_int64) * 2, *(ctypes.c_void_p,) * 2)


def filter_rows(sections: Array, state: Array, x: Array, y: Array) -> None:
    """y, the rows of x (N, k) after the sections; the state is carried on.

    sections  (s, 6) as SciPy has them: b0 b1 b2 1 a1 a2
    state     (s, 2, k), contiguous
    x, y      float64, columns contiguous, rows any (also a negative) distance apart; they may be the same
    """
    coefficients = np.ascontiguousarray(sections[:, [0, 1, 2, 4, 5]])
    assert state.flags.c_contiguous
    (rows, width), size = x.shape, x.itemsize
    if rows == 0 or width == 0:
        return
    assert width == 1 or x.strides[1] == y.strides[1] == size
    function, at = _function(len(sections)), (x.ctypes.data, y.ctypes.data)
    steps, tables = (x.strides[0], y.strides[0]), (coefficients.ctypes.data, state.ctypes.data)
    block = max(1, _BLOCK // width)
    for first in range(0, rows, block):
        x_p, y_p = (address + first * step for address, step in zip(at, steps, strict=True))
        function(min(block, rows - first), width, x_p, steps[0] // size, y_p, steps[1] // size, *tables)


@cache
def _function(count: int) -> Callable[..., None]:
    ir = _module(count, host().lanes(64))
    code = native.load(cached(("sections", ir), lambda: native.assemble(ir)), "sections")
    made = ctypes.CFUNCTYPE(None, *_POINTERS)(code.address)
    made.needs = code  # type: ignore[attr-defined]
    return made


def _module(count: int, lanes: int) -> str:
    """A loop over columns `_ABREAST` registers wide, then one over what is left, a register at a time and masked."""
    return f"""
declare <{lanes} x double> @llvm.masked.load.v{lanes}f64.p0(ptr, i32, <{lanes} x i1>, <{lanes} x double>)
declare void @llvm.masked.store.v{lanes}f64.p0(<{lanes} x double>, ptr, i32, <{lanes} x i1>)

declare void @llvm.prefetch.p0(ptr, i32, i32, i32)

define void @sections(i64 %rows, i64 %width, ptr %x, i64 %xs, ptr %y, i64 %ys, ptr %c, ptr %state) nounwind {{
entry:
{_coefficients(count, lanes)}
  %xs.far = mul i64 %xs, {_AHEAD}
  br label %wide
wide:
  %w = phi i64 [0, %entry], [%w.next, %wide.done]
  %w.next = add i64 %w, {_ABREAST * lanes}
  %w.fits = icmp sle i64 %w.next, %width
  br i1 %w.fits, label %wide.begin, label %rest
{_panel("wide", "%w", count, lanes, _ABREAST, masked=False)}
  br label %wide
rest:
  %r = phi i64 [%w, %wide], [%r.next, %rest.done]
  %r.next = add i64 %r, {lanes}
  %r.over = icmp sge i64 %r, %width
  br i1 %r.over, label %end, label %rest.begin
{_panel("rest", "%r", count, lanes, 1, masked=True)}
  br label %rest
end:
  ret void
}}
"""


def _coefficients(count: int, lanes: int) -> str:
    """%c.s.k, coefficient k of section s in every lane."""
    vector, lines = f"<{lanes} x double>", []
    for s in range(count):
        for k in range(5):
            name = f"%c.{s}.{k}"
            lines += [
                f"  {name}.p = getelementptr double, ptr %c, i64 {5 * s + k}",
                f"  {name}.v = load double, ptr {name}.p",
                f"  {name}.i = insertelement {vector} poison, double {name}.v, i64 0",
                f"  {name} = shufflevector {vector} {name}.i, {vector} poison, <{lanes} x i32> zeroinitializer",
            ]
    return "\n".join(lines)


def _panel(label: str, column: str, count: int, lanes: int, abreast: int, *, masked: bool) -> str:
    """All rows of some columns; begins at `label`.begin and ends inside `label`.done."""
    vector, mask = f"<{lanes} x double>", f"%{label}.mask"
    cells = [(r, s, k) for r in range(abreast) for s in range(count) for k in range(2)]

    def load(name: str, pointer: str) -> str:
        if not masked:
            return f"  {name} = load {vector}, ptr {pointer}, align 8"
        given = f"ptr {pointer}, i32 8, <{lanes} x i1> {mask}, {vector} zeroinitializer"
        return f"  {name} = call {vector} @llvm.masked.load.v{lanes}f64.p0({given})"

    def store(name: str, pointer: str) -> str:
        if not masked:
            return f"  store {vector} {name}, ptr {pointer}, align 8"
        given = f"{vector} {name}, ptr {pointer}, i32 8, <{lanes} x i1> {mask}"
        return f"  call void @llvm.masked.store.v{lanes}f64.p0({given})"

    lines = [f"{label}.begin:"]
    if masked:
        steps = ", ".join(f"i64 {k}" for k in range(lanes))
        lines += [
            f"  %{label}.left = sub i64 %width, {column}",
            f"  %{label}.one = insertelement <{lanes} x i64> poison, i64 %{label}.left, i64 0",
            f"  %{label}.all = shufflevector <{lanes} x i64> %{label}.one, <{lanes} x i64> poison, "
            f"<{lanes} x i32> zeroinitializer",
            f"  {mask} = icmp slt <{lanes} x i64> <{steps}>, %{label}.all",
        ]
    for r, s, k in cells:
        cell = f"%{label}.z.{r}.{s}.{k}"
        lines += [
            f"  {cell}.row = mul i64 %width, {2 * s + k}",
            f"  {cell}.at = add i64 {cell}.row, {column}",
            f"  {cell}.off = add i64 {cell}.at, {r * lanes}",
            f"  {cell}.p = getelementptr double, ptr %state, i64 {cell}.off",
            load(f"{cell}.0", f"{cell}.p"),
        ]
    lines += [
        f"  %{label}.x0 = getelementptr double, ptr %x, i64 {column}",
        f"  %{label}.y0 = getelementptr double, ptr %y, i64 {column}",
        f"  br label %{label}.row",
        f"{label}.row:",
    ]
    for name, first in (("n", "0"), ("xp", f"%{label}.x0"), ("yp", f"%{label}.y0")):
        kind = "i64" if name == "n" else "ptr"
        lines.append(f"  %{label}.{name} = phi {kind} [{first}, %{label}.begin], [%{label}.{name}.next, %{label}.row]")
    for r, s, k in cells:
        cell = f"%{label}.z.{r}.{s}.{k}"
        lines.append(f"  {cell} = phi {vector} [{cell}.0, %{label}.begin], [{cell}.next, %{label}.row]")
    for r in range(abreast):
        given = f"%{label}.v.{r}.0"
        lines += [
            f"  {given}.p = getelementptr double, ptr %{label}.xp, i64 {r * lanes}",
            load(given, f"{given}.p"),
            f"  {given}.f = getelementptr double, ptr {given}.p, i64 %xs.far",
            f"  call void @llvm.prefetch.p0(ptr {given}.f, i32 0, i32 3, i32 1)",
        ]
        for s in range(count):
            lines += _section(f"%{label}", vector, r, s)
        lines += [
            f"  {given}.q = getelementptr double, ptr %{label}.yp, i64 {r * lanes}",
            store(f"%{label}.v.{r}.{count}", f"{given}.q"),
        ]
    lines += [
        f"  %{label}.n.next = add i64 %{label}.n, 1",
        f"  %{label}.xp.next = getelementptr double, ptr %{label}.xp, i64 %xs",
        f"  %{label}.yp.next = getelementptr double, ptr %{label}.yp, i64 %ys",
        f"  %{label}.more = icmp slt i64 %{label}.n.next, %rows",
        f"  br i1 %{label}.more, label %{label}.row, label %{label}.done",
        f"{label}.done:",
    ]
    lines += [store(f"%{label}.z.{r}.{s}.{k}.next", f"%{label}.z.{r}.{s}.{k}.p") for r, s, k in cells]
    return "\n".join(lines)


def _section(label: str, vector: str, r: int, s: int) -> list[str]:
    """y = b0 x + z0; z0 = b1 x - a1 y + z1; z1 = b2 x - a2 y, every product and sum rounded by itself."""
    x, y, z, c, t = (
        f"{label}.v.{r}.{s}",
        f"{label}.v.{r}.{s + 1}",
        f"{label}.z.{r}.{s}",
        f"%c.{s}",
        f"{label}.t.{r}.{s}",
    )
    return [
        f"  {t}.0 = fmul {vector} {c}.0, {x}",
        f"  {y} = fadd {vector} {t}.0, {z}.0",
        f"  {t}.1 = fmul {vector} {c}.1, {x}",
        f"  {t}.2 = fmul {vector} {c}.3, {y}",
        f"  {t}.3 = fsub {vector} {t}.1, {t}.2",
        f"  {z}.0.next = fadd {vector} {t}.3, {z}.1",
        f"  {t}.4 = fmul {vector} {c}.2, {x}",
        f"  {t}.5 = fmul {vector} {c}.4, {y}",
        f"  {z}.1.next = fsub {vector} {t}.4, {t}.5",
    ]
