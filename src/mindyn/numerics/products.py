"""Accumulate products X^T Y of tall arrays with few columns: the sums of normal equations.

BLAS packs its operands, which pays for square matrices only: with the 40 columns of a joint it reaches a third of the
speed that registers allow. Here as many sums as there are registers stay in them over a block of rows that fits the
first-level cache, and nothing is packed. For X^T X only the upper triangle is computed. Rows are added in order. The
interpreter lock is released.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mindyn.algebra.values import Array
from mindyn.errors import Code, InputError
from mindyn.numerics import native
from mindyn.numerics.arrays import RowBlock, address_of
from mindyn.numerics.cache import load_or_build
from mindyn.numerics.machine import host

_REGISTERS_PER_PANEL: Final = 3
"""Registers of columns of Y: with eight columns of X they hold 24 sums, of 32 registers."""
_ROWS_PER_BLOCK: Final = 64
"""Rows after which sums go back to memory: 40 columns of them take 20 kB, of 32 kB of first-level cache."""
_TABLE_FIELDS: Final = {
    **{"x": "ptr", "xs": "i64", "m": "i64"},
    **{"y": "ptr", "ys": "i64", "n": "i64"},
    **{"c": "ptr", "cs": "i64", "upper": "i64"},
}
"""Description of a product for machine code: X, its row stride and columns, the same for Y, the sums and their row
stride, and whether X is Y and one triangle of the sums is enough.
"""
_SUMS_FIELD: Final = list(_TABLE_FIELDS).index("c")


class ProductSums:
    """Products of arrays with the same rows, accumulated in sums; one call adds any range of rows.

    Parameters
    ----------
    squares : sequence of (total, X)
        total (m, m) += X^T X on and above the diagonal; entries below are undefined until `mirror_upper_triangle`.
    products : sequence of (total, X, Y)
        total (m, n) += X^T Y.

    Arrays are float64 (rows, columns) with contiguous columns and any stride between rows. Totals may hold several sums
    (count, m, n), of which a call takes one.
    """

    def __init__(
        self, squares: Sequence[tuple[Array, Array]], products: Sequence[tuple[Array, Array, Array]] = ()
    ) -> None:
        listed = [*((total, X, X, 1) for total, X in squares), *((*operands, 0) for operands in products)]
        self._arrays = listed  # keep them alive while their addresses are used
        self._rows = min((min(len(X), len(Y)) for _, X, Y, _ in listed), default=0)
        entries = [_entry(*operands) for operands in listed if operands[0].size]
        numbers = max((len(total) for total, *_ in listed if total.ndim > 2), default=1)
        self._tables = np.tile(np.array([entry for entry, _ in entries], dtype=np.int64), (numbers, 1, 1))
        if entries:
            apart = np.array([stride for _, stride in entries], dtype=np.int64)
            self._tables[:, :, _SUMS_FIELD] += np.arange(numbers, dtype=np.int64)[:, None] * apart
        self._entries, self._address, self._apart = len(entries), address_of(self._tables), self._tables.strides[0]

    def add(self, rows: slice, number: int = 0) -> None:
        """Add the products of some rows to the sums with this number."""
        first, stop, step = rows.indices(self._rows)
        if self._entries and (count := len(range(first, stop, step))):
            _function()(first, count, step, self._address + number * self._apart, self._entries)


def mirror_upper_triangle(total: Array) -> Array:
    """Copy the entries above the diagonal to below it, in place, and return the matrix."""
    np.copyto(total, total.T, where=_indices_below_diagonal(len(total)))
    return total


@cache
def _indices_below_diagonal(size: int) -> NDArray[np.bool_]:
    return np.tri(size, k=-1, dtype=np.bool_)


def _entry(total: Array, X: Array, Y: Array, same: int) -> tuple[list[int], int]:
    """Return a row of the table, and the number of bytes from the sums of one number to the next."""
    if total.shape[-2:] != (X.shape[1], Y.shape[1]):
        raise InputError(
            f"sums of shape {total.shape} cannot hold the products of {X.shape[1]} and {Y.shape[1]} columns",
            code=Code.WRONG_SHAPE,
            subject="total",
        )
    sums = RowBlock.from_array(total)
    entry = [*RowBlock.from_array(X), *RowBlock.from_array(Y), sums.address, sums.step, same]
    return entry, total.strides[0] if total.ndim > 2 else 0


@cache
def _function() -> Callable[..., None]:
    ir = _module(host().lanes(64))
    code = native.load(load_or_build(("products", ir), lambda: native.assemble(ir)), "each")
    function = ctypes.CFUNCTYPE(None, *(ctypes.c_int64,) * 3, ctypes.c_void_p, ctypes.c_int64)(code.address)
    function.keep_alive = code  # type: ignore[attr-defined]
    return function


def _module(lanes: int) -> str:
    heights = _heights(lanes)
    panels = [(height, count) for height in heights for count in range(1, _REGISTERS_PER_PANEL + 1)]
    taken = [f"    i64 {k}, label %panel.{h}.{v}" for k, (h, v) in enumerate(panels)]
    calls = [
        f"""panel.{h}.{v}:
  call void @panel.{h}.{v}(i64 %some, ptr %xi, i64 %xs, ptr %yj, i64 %ys, i64 %left, ptr %cij, i64 %cs)
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
declare <{lanes} x double> @llvm.masked.load.v{lanes}f64.p0(ptr, i32, <{lanes} x i1>, <{lanes} x double>)
declare void @llvm.masked.store.v{lanes}f64.p0(<{lanes} x double>, ptr, i32, <{lanes} x i1>)
declare <{lanes} x double> @llvm.fmuladd.v{lanes}f64(<{lanes} x double>, <{lanes} x double>, <{lanes} x double>)
{"".join(_panel(h, v, lanes) for h, v in panels)}
define void @each(i64 %first, i64 %rows, i64 %step, ptr %table, i64 %count) nounwind {{
entry:
  br label %one
one:
  %k = phi i64 [0, %entry], [%k.next, %one]
  %at = mul i64 %k, {len(_TABLE_FIELDS)}
{chr(10).join(_load_entry(name, number, kind) for number, (name, kind) in enumerate(_TABLE_FIELDS.items()))}
  %x.off = mul i64 %first, %xs
  %y.off = mul i64 %first, %ys
  %x.first = getelementptr double, ptr %x, i64 %x.off
  %y.first = getelementptr double, ptr %y, i64 %y.off
  %xs.step = mul i64 %xs, %step
  %ys.step = mul i64 %ys, %step
  call void @products(i64 %rows, ptr %x.first, i64 %xs.step, i64 %m, ptr %y.first, i64 %ys.step, i64 %n, ptr %c,
                      i64 %cs, i64 %upper)
  %k.next = add i64 %k, 1
  %more = icmp slt i64 %k.next, %count
  br i1 %more, label %one, label %end
end:
  ret void
}}

define internal void @products(i64 %rows, ptr %x, i64 %xs, i64 %m, ptr %y, i64 %ys, i64 %n, ptr %c, i64 %cs, i64 %upper)
    nounwind {{
entry:
  %triangle = icmp ne i64 %upper, 0
  br label %block
block:
  %r = phi i64 [0, %entry], [%r.next, %block_end]
  %xr.off = mul i64 %r, %xs
  %yr.off = mul i64 %r, %ys
  %xr = getelementptr double, ptr %x, i64 %xr.off
  %yr = getelementptr double, ptr %y, i64 %yr.off
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
  %aligned = and i64 %i, {-lanes}
  %j.first = select i1 %triangle, i64 %aligned, i64 0
  br label %across
across:
  %j = phi i64 [%j.first, %down], [%j.next, %along]
  %left = sub i64 %n, %j
  %wide = icmp sgt i64 %left, {(_REGISTERS_PER_PANEL - 1) * lanes}
  %left.more = add i64 %left, {lanes - 1}
  %left.vectors = sdiv i64 %left.more, {lanes}
  %vectors = select i1 %wide, i64 {_REGISTERS_PER_PANEL}, i64 %left.vectors
  %yj = getelementptr double, ptr %yr, i64 %j
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
  %j.more = icmp slt i64 %j.next, %n
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


def _load_entry(name: str, number: int, kind: str) -> str:
    """Return the IR that loads an entry of the table."""
    return f"""  %{name}.at = add i64 %at, {number}
  %{name}.p = getelementptr i64, ptr %table, i64 %{name}.at
  %{name} = load {kind}, ptr %{name}.p"""


def _heights(lanes: int) -> list[int]:
    """Return the numbers of columns of X that a panel may have, each half of the previous one."""
    return [height for height in (8, 4, 2, 1) if height <= max(4, lanes)]


def _panel(height: int, vectors: int, lanes: int) -> str:
    """Return sums of `height` columns of X with `vectors` registers of columns of Y, the last register masked."""
    vector, last = f"<{lanes} x double>", vectors - 1
    cells = [(r, v) for r in range(height) for v in range(vectors)]

    def load(name: str, pointer: str, v: int) -> str:
        if v < last:
            return f"  {name} = load {vector}, ptr {pointer}, align 8"
        given = f"ptr {pointer}, i32 8, <{lanes} x i1> %mask, {vector} zeroinitializer"
        return f"  {name} = call {vector} @llvm.masked.load.v{lanes}f64.p0({given})"

    def store(name: str, pointer: str, v: int) -> str:
        if v < last:
            return f"  store {vector} {name}, ptr {pointer}, align 8"
        given = f"{vector} {name}, ptr {pointer}, i32 8, <{lanes} x i1> %mask"
        return f"  call void @llvm.masked.store.v{lanes}f64.p0({given})"

    lines = [
        f"define internal void @panel.{height}.{vectors}"
        "(i64 %rows, ptr %x, i64 %xs, ptr %y, i64 %ys, i64 %left, ptr %c, i64 %cs) noinline nounwind {",
        "entry:",
        f"  %rest = sub i64 %left, {last * lanes}",
        f"  %one = insertelement <{lanes} x i64> poison, i64 %rest, i64 0",
        f"  %all = shufflevector <{lanes} x i64> %one, <{lanes} x i64> poison, <{lanes} x i32> zeroinitializer",
        f"  %mask = icmp slt <{lanes} x i64> <{', '.join(f'i64 {k}' for k in range(lanes))}>, %all",
    ]
    for r, v in cells:
        lines += [
            f"  %c.{r}.{v}.row = mul i64 %cs, {r}",
            f"  %c.{r}.{v}.off = add i64 %c.{r}.{v}.row, {v * lanes}",
            f"  %c.{r}.{v}.p = getelementptr double, ptr %c, i64 %c.{r}.{v}.off",
            load(f"%c.{r}.{v}", f"%c.{r}.{v}.p", v),
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
        lines += [f"  %y.{v}.p = getelementptr double, ptr %yp, i64 {v * lanes}", load(f"%y.{v}", f"%y.{v}.p", v)]
    for r in range(height):
        lines += [
            f"  %x.{r}.p = getelementptr double, ptr %xp, i64 {r}",
            f"  %x.{r}.v = load double, ptr %x.{r}.p",
            f"  %x.{r}.i = insertelement {vector} poison, double %x.{r}.v, i64 0",
            f"  %x.{r} = shufflevector {vector} %x.{r}.i, {vector} poison, <{lanes} x i32> zeroinitializer",
        ]
        lines += [
            f"  %s.{r}.{v}.next = call {vector} @llvm.fmuladd.v{lanes}f64"
            f"({vector} %x.{r}, {vector} %y.{v}, {vector} %s.{r}.{v})"
            for v in range(vectors)
        ]
    lines += [
        "  %n.next = add i64 %n, 1",
        "  %xp.next = getelementptr double, ptr %xp, i64 %xs",
        "  %yp.next = getelementptr double, ptr %yp, i64 %ys",
        "  %more = icmp slt i64 %n.next, %rows",
        "  br i1 %more, label %row, label %done",
        "done:",
        *(store(f"%s.{r}.{v}.next", f"%c.{r}.{v}.p", v) for r, v in cells),
        "  ret void",
        "}",
    ]
    return "\n".join(lines) + "\n"
