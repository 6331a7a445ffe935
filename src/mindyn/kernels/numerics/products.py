"""Accumulate products X^T X of tall arrays with few columns: the sums of normal equations.

BLAS packs its operands, which pays for square matrices only: with the 40 columns of a joint it reaches a third of the
speed that registers allow. Here as many sums as there are registers stay in them over a block of rows that fits the
first-level cache, and nothing is packed. Only the upper triangle is computed. Rows are added in order. The
interpreter lock is released.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mindyn.foundation.algebra.requirements import require_shape
from mindyn.foundation.algebra.values import Array
from mindyn.foundation.once import compute_once
from mindyn.kernels.numerics import vector_ir
from mindyn.kernels.numerics.arrays import RowBlock
from mindyn.kernels.numerics.native import host

_REGISTERS_PER_PANEL: Final = 3
"""Registers of columns: with eight other columns they hold 24 sums, of 32 registers."""
_ROWS_PER_BLOCK: Final = 64
"""Rows after which sums go back to memory: 40 columns of them take 20 kB, of 32 kB of first-level cache."""


class SquareSums:
    """total (m, m) += X^T X for any range of rows of X (rows, m), on and above the diagonal.

    Entries below the diagonal are undefined until `mirror_upper_triangle`. X is float64 with contiguous columns and any
    stride between rows. The total may hold several sums (count, m, m), of which a call takes one.
    """

    def __init__(self, total: Array, X: Array) -> None:
        require_shape(total.shape[-2:], (X.shape[1], X.shape[1]), "total")
        self._arrays = total, X  # keep them alive while their addresses are used
        self._x, self._sums = RowBlock.from_array(X), RowBlock.from_array(total)
        self._apart = total.strides[0] if total.ndim > 2 else 0

    def add(self, rows: slice, number: int = 0) -> None:
        """Add the products of some rows to the sums with this number."""
        first, stop, step = rows.indices(len(self._arrays[1]))
        (x, row, width), (sums, sums_row, _) = self._x, self._sums
        if count := len(range(first, stop, step)):
            given = count, x + 8 * first * row, step * row, width
            _function()(*given, sums + number * self._apart, sums_row)


def mirror_upper_triangle(total: Array) -> Array:
    """Copy the entries above the diagonal to below it, in place, and return the matrix, or matrices (..., m, m)."""
    np.copyto(total, np.swapaxes(total, -1, -2), where=_indices_below_diagonal(total.shape[-1]))
    return total


@cache
def _indices_below_diagonal(size: int) -> NDArray[np.bool_]:
    return np.tri(size, k=-1, dtype=np.bool_)


@compute_once
def _function() -> Callable[..., None]:
    number, pointer = ctypes.c_int64, ctypes.c_void_p
    return vector_ir.compile_function(
        "squares", _module(host().lanes(64)), number, pointer, number, number, pointer, number
    )


def _module(lanes: int) -> str:
    heights = _heights(lanes)
    panels = [(height, count) for height in heights for count in range(1, _REGISTERS_PER_PANEL + 1)]
    taken = [f"    i64 {k}, label %panel.{h}.{v}" for k, (h, v) in enumerate(panels)]
    calls = [
        f"""panel.{h}.{v}:
  call void @panel.{h}.{v}(i64 %some, ptr %xi, ptr %xj, i64 %xs, i64 %left, ptr %cij, i64 %cs)
  br label %along"""
        for h, v in panels
    ]
    chosen = [f"  %h.{len(heights) - 1} = add i64 0, {len(heights) - 1}"]
    for k, height in reversed(list(enumerate(heights[:-1]))):
        chosen += [
            f"  %fits.{k} = icmp sge i64 %below, {height}",
            f"  %h.{k} = select i1 %fits.{k}, i64 {k}, i64 %h.{k + 1}",
        ]
    return f"""
{vector_ir.declare_masked(lanes)}
declare <{lanes} x double> @llvm.fmuladd.v{lanes}f64(<{lanes} x double>, <{lanes} x double>, <{lanes} x double>)
{"".join(_panel(h, v, lanes) for h, v in panels)}
define void @squares(i64 %rows, ptr %x, i64 %xs, i64 %m, ptr %c, i64 %cs) nounwind {{
entry:
  br label %block
block:
  %r = phi i64 [0, %entry], [%r.next, %block_end]
  %xr.off = mul i64 %r, %xs
  %xr = getelementptr double, ptr %x, i64 %xr.off
  %after = sub i64 %rows, %r
  %short = icmp slt i64 %after, {_ROWS_PER_BLOCK}
  %some = select i1 %short, i64 %after, i64 {_ROWS_PER_BLOCK}
  br label %down
down:
  %i = phi i64 [0, %block], [%i.next, %downed]
  %below = sub i64 %m, %i
{chr(10).join(chosen)}
  %height = lshr i64 {heights[0]}, %h.0
  %xi = getelementptr double, ptr %xr, i64 %i
  %ci.off = mul i64 %i, %cs
  %ci = getelementptr double, ptr %c, i64 %ci.off
  %j.first = and i64 %i, {-lanes}
  br label %across
across:
  %j = phi i64 [%j.first, %down], [%j.next, %along]
  %left = sub i64 %m, %j
  %wide = icmp sgt i64 %left, {(_REGISTERS_PER_PANEL - 1) * lanes}
  %left.more = add i64 %left, {lanes - 1}
  %left.vectors = sdiv i64 %left.more, {lanes}
  %vectors = select i1 %wide, i64 {_REGISTERS_PER_PANEL}, i64 %left.vectors
  %xj = getelementptr double, ptr %xr, i64 %j
  %cij = getelementptr double, ptr %ci, i64 %j
  %which.row = mul i64 %h.0, {_REGISTERS_PER_PANEL}
  %which.more = add i64 %which.row, %vectors
  %which = sub i64 %which.more, 1
  switch i64 %which, label %along [
{chr(10).join(taken)}
  ]
{chr(10).join(calls)}
along:
  %j.next = add i64 %j, {_REGISTERS_PER_PANEL * lanes}
  %j.more = icmp slt i64 %j.next, %m
  br i1 %j.more, label %across, label %downed
downed:
  %i.next = add i64 %i, %height
  %i.more = icmp slt i64 %i.next, %m
  br i1 %i.more, label %down, label %block_end
block_end:
  %r.next = add i64 %r, {_ROWS_PER_BLOCK}
  %r.more = icmp slt i64 %r.next, %rows
  br i1 %r.more, label %block, label %end
end:
  ret void
}}
"""


def _heights(lanes: int) -> list[int]:
    """Return the numbers of columns that a panel may have, each half of the previous one."""
    return [height for height in (8, 4, 2, 1) if height <= max(4, lanes)]


def _panel(height: int, vectors: int, lanes: int) -> str:
    """Return sums of `height` columns of X with `vectors` registers of other columns, the last register masked."""
    vector, last = f"<{lanes} x double>", vectors - 1
    cells = [(r, v) for r in range(height) for v in range(vectors)]
    masks = [""] * last + ["%mask"]
    lines = [
        f"define internal void @panel.{height}.{vectors}"
        "(i64 %rows, ptr %x, ptr %y, i64 %xs, i64 %left, ptr %c, i64 %cs) noinline nounwind {",
        "entry:",
        f"  %rest = sub i64 %left, {last * lanes}",
        *vector_ir.mask_lines("%mask", "%rest", lanes),
    ]
    for r, v in cells:
        lines += [
            f"  %c.{r}.{v}.row = mul i64 %cs, {r}",
            f"  %c.{r}.{v}.off = add i64 %c.{r}.{v}.row, {v * lanes}",
            f"  %c.{r}.{v}.p = getelementptr double, ptr %c, i64 %c.{r}.{v}.off",
            vector_ir.load_line(f"%c.{r}.{v}", f"%c.{r}.{v}.p", lanes, masks[v]),
        ]
    lines += [
        "  br label %row",
        "row:",
        "  %n = phi i64 [0, %entry], [%n.next, %row]",
        "  %xp = phi ptr [%x, %entry], [%xp.next, %row]",
        "  %yp = phi ptr [%y, %entry], [%yp.next, %row]",
        *(f"  %s.{r}.{v} = phi {vector} [%c.{r}.{v}, %entry], [%s.{r}.{v}.next, %row]" for r, v in cells),
    ]
    for v in range(vectors):
        lines.append(f"  %y.{v}.p = getelementptr double, ptr %yp, i64 {v * lanes}")
        lines.append(vector_ir.load_line(f"%y.{v}", f"%y.{v}.p", lanes, masks[v]))
    for r in range(height):
        lines += vector_ir.load_and_repeat_lines(f"%x.{r}", "%xp", r, lanes)
        lines += [
            f"  %s.{r}.{v}.next = call {vector} @llvm.fmuladd.v{lanes}f64"
            f"({vector} %x.{r}, {vector} %y.{v}, {vector} %s.{r}.{v})"
            for v in range(vectors)
        ]
    lines += [
        "  %n.next = add i64 %n, 1",
        "  %xp.next = getelementptr double, ptr %xp, i64 %xs",
        "  %yp.next = getelementptr double, ptr %yp, i64 %xs",
        "  %more = icmp slt i64 %n.next, %rows",
        "  br i1 %more, label %row, label %done",
        "done:",
        *(vector_ir.store_line(f"%s.{r}.{v}.next", f"%c.{r}.{v}.p", lanes, masks[v]) for r, v in cells),
        "  ret void",
        "}",
    ]
    return "\n".join(lines) + "\n"
