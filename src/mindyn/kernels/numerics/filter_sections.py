"""Filter the rows of an array by second-order sections of a recursive filter, all columns at once.

SciPy's loop processes one column after another and waits for every sum. Here, each register holds one number of several
columns, and the sums of several registers overlap in time. Operations and their order are SciPy's (`sosfilt`, the
transposed direct form II), so the results are identical. The interpreter lock is released.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Final

from mindyn.foundation.algebra.requirements import require_shape
from mindyn.foundation.algebra.values import Array, native_array
from mindyn.kernels.numerics import masked_vectors
from mindyn.kernels.numerics.arrays import RowBlock, address_of
from mindyn.kernels.numerics.machine import host

_REGISTERS_PER_PANEL: Final = 4
"""Number of registers that are filtered together: the CPU computes the sums of four registers while it waits for one.
"""
_PREFETCH_ROWS: Final = 16
"""Rows that are fetched ahead: in a wide array the rows of a panel are far apart."""
_NUMBERS_PER_BLOCK: Final = 2**15
"""Numbers of a group of rows that is filtered over all columns before the next group: they stay in the cache."""
_POINTERS: Final = (ctypes.c_int64, ctypes.c_int64, *(ctypes.c_void_p, ctypes.c_int64) * 2, *(ctypes.c_void_p,) * 2)


class Cascade:
    """Second-order sections with their state, which changes with each row that is filtered.

    Parameters
    ----------
    sections : ndarray, shape (s, 6)
        As in SciPy: b0 b1 b2 1 a1 a2.
    state : ndarray, shape (s, 2, k)
        Contiguous state of k columns.
    """

    def __init__(self, sections: Array, state: Array) -> None:
        self._coefficients = native_array(sections[:, [0, 1, 2, 4, 5]], "sections")
        self._state = native_array(state, "state")
        self._count, self._width = len(sections), state.shape[2]
        self._tables = address_of(self._coefficients), address_of(self._state)

    def filter_rows(self, x: Array, y: Array) -> None:
        """Filter the rows of x (N, k) and write the result to y, which may be the same array as x.

        x and y are float64 with contiguous columns and any row stride, also a negative one.
        """
        require_shape(x.shape, (len(y), self._width), "x")
        require_shape(y.shape, x.shape, "y")
        if x.size:
            (from_x, step_x, _), (from_y, step_y, _) = RowBlock.from_array(x), RowBlock.from_array(y)
            _function(self._count)(len(x), self._width, from_x, step_x, from_y, step_y, *self._tables)


@cache
def _function(count: int) -> Callable[..., None]:
    return masked_vectors.compile_function("sections", _filter_module(count, host().lanes(64)), *_POINTERS)


def _filter_module(count: int, lanes: int) -> str:
    """Return the IR: blocks of rows with panels of `_REGISTERS_PER_PANEL` registers, then single masked ones."""
    coefficients = [
        masked_vectors.load_and_repeat_lines(f"%c.{k // 5}.{k % 5}", "%c", k, lanes) for k in range(5 * count)
    ]
    return f"""
{masked_vectors.declare_masked(lanes)}
declare void @llvm.prefetch.p0(ptr, i32, i32, i32)

define void @sections(i64 %rows, i64 %width, ptr %x, i64 %xs, ptr %y, i64 %ys, ptr %c, ptr %state) nounwind {{
entry:
  %fitting = udiv i64 {_NUMBERS_PER_BLOCK}, %width
  %none = icmp eq i64 %fitting, 0
  %most = select i1 %none, i64 1, i64 %fitting
  br label %some
some:
  %first = phi i64 [0, %entry], [%next, %some]
  %left = sub i64 %rows, %first
  %last = icmp slt i64 %left, %most
  %now = select i1 %last, i64 %left, i64 %most
  %x.off = mul i64 %first, %xs
  %y.off = mul i64 %first, %ys
  %x.now = getelementptr double, ptr %x, i64 %x.off
  %y.now = getelementptr double, ptr %y, i64 %y.off
  call void @block(i64 %now, i64 %width, ptr %x.now, i64 %xs, ptr %y.now, i64 %ys, ptr %c, ptr %state)
  %next = add i64 %first, %now
  %more = icmp slt i64 %next, %rows
  br i1 %more, label %some, label %end
end:
  ret void
}}

define internal void @block(i64 %rows, i64 %width, ptr %x, i64 %xs, ptr %y, i64 %ys, ptr %c, ptr %state) nounwind {{
entry:
{chr(10).join(line for lines in coefficients for line in lines)}
  %xs.far = mul i64 %xs, {_PREFETCH_ROWS}
  br label %wide
wide:
  %w = phi i64 [0, %entry], [%w.next, %wide.done]
  %w.next = add i64 %w, {_REGISTERS_PER_PANEL * lanes}
  %w.fits = icmp sle i64 %w.next, %width
  br i1 %w.fits, label %wide.begin, label %rest
{_panel("wide", "%w", count, lanes, _REGISTERS_PER_PANEL, masked=False)}
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


def _panel(label: str, column: str, count: int, lanes: int, abreast: int, *, masked: bool) -> str:
    """Return the IR for all rows of some columns; it begins at `label`.begin and ends inside `label`.done."""
    vector, mask = f"<{lanes} x double>", f"%{label}.mask" if masked else ""
    cells = [(r, s, k) for r in range(abreast) for s in range(count) for k in range(2)]
    lines = [f"{label}.begin:"]
    if masked:
        lines += [
            f"  %{label}.left = sub i64 %width, {column}",
            *masked_vectors.mask_lines(mask, f"%{label}.left", lanes),
        ]
    for r, s, k in cells:
        cell = f"%{label}.z.{r}.{s}.{k}"
        lines += [
            f"  {cell}.row = mul i64 %width, {2 * s + k}",
            f"  {cell}.at = add i64 {cell}.row, {column}",
            f"  {cell}.off = add i64 {cell}.at, {r * lanes}",
            f"  {cell}.p = getelementptr double, ptr %state, i64 {cell}.off",
            masked_vectors.load_line(f"{cell}.0", f"{cell}.p", lanes, mask),
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
            masked_vectors.load_line(given, f"{given}.p", lanes, mask),
            f"  {given}.f = getelementptr double, ptr {given}.p, i64 %xs.far",
            f"  call void @llvm.prefetch.p0(ptr {given}.f, i32 0, i32 3, i32 1)",
        ]
        for s in range(count):
            lines += _section(f"%{label}", vector, r, s)
        lines += [
            f"  {given}.q = getelementptr double, ptr %{label}.yp, i64 {r * lanes}",
            masked_vectors.store_line(f"%{label}.v.{r}.{count}", f"{given}.q", lanes, mask),
        ]
    lines += [
        f"  %{label}.n.next = add i64 %{label}.n, 1",
        f"  %{label}.xp.next = getelementptr double, ptr %{label}.xp, i64 %xs",
        f"  %{label}.yp.next = getelementptr double, ptr %{label}.yp, i64 %ys",
        f"  %{label}.more = icmp slt i64 %{label}.n.next, %rows",
        f"  br i1 %{label}.more, label %{label}.row, label %{label}.done",
        f"{label}.done:",
    ]
    lines += [
        masked_vectors.store_line(f"%{label}.z.{r}.{s}.{k}.next", f"%{label}.z.{r}.{s}.{k}.p", lanes, mask)
        for r, s, k in cells
    ]
    return "\n".join(lines)


def _section(label: str, vector: str, r: int, s: int) -> list[str]:
    """Return y = b0 x + z0; z0 = b1 x - a1 y + z1; z1 = b2 x - a2 y, with every product and sum rounded separately."""
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
