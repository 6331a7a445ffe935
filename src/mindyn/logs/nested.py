"""Columns of objects and of lists: the entries of objects by their path, lists as arrays with one column an entry."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import polars as pl

from mindyn.algebra.values import Array
from mindyn.errors import listed
from mindyn.logs.errors import LogError


def entries(schema: Mapping[str, Any]) -> dict[str, pl.Expr]:
    """Every column, and in place of one of objects their entries, as `header.stamp.sec`."""
    return {path: expression.alias(path) for name, kind in schema.items() for path, expression in _of(name, kind, None)}


def _of(name: str, kind: object, outer: pl.Expr | None, path: str = "") -> Iterator[tuple[str, pl.Expr]]:
    whole = pl.col(name) if outer is None else outer.struct.field(name)
    if not isinstance(kind, pl.Struct):
        yield f"{path}{name}", whole
        return
    for field in kind.fields:
        yield from _of(field.name, field.dtype, whole, f"{path}{name}.")


def array_of(lists: pl.Series, file: str) -> Array:
    """(rows, k) of lists of k numbers; rows without a list are NaN."""
    widths = lists.drop_nulls().list.len().unique().sort().to_list()
    if len(widths) > 1:
        raise LogError(f"the lists {lists.name!r} of {file} differ in length: {listed(widths)} entries")
    missing = [float("nan")] * (widths[0] if widths else 0)
    return np.array([missing if one is None else one for one in lists.to_list()], dtype=np.float64)
