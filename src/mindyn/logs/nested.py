"""Expand columns of objects into their entries by path, and columns of lists into arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from mindyn.algebra.values import Array
from mindyn.errors import Code, list_names
from mindyn.logs.errors import LogError
from mindyn.logs.tables import require_numbers


def column_expressions(schema: Mapping[str, Any]) -> dict[str, pl.Expr]:
    """Return an expression for every column; objects are replaced by their entries, such as `header.stamp.sec`."""
    return {
        path: expression.alias(path)
        for name, kind in schema.items()
        for path, expression in _expand_struct(name, kind, None)
    }


def _expand_struct(name: str, kind: object, outer: pl.Expr | None, path: str = "") -> Iterator[tuple[str, pl.Expr]]:
    whole = pl.col(name) if outer is None else outer.struct.field(name)
    if not isinstance(kind, pl.Struct):
        yield f"{path}{name}", whole
        return
    for field in kind.fields:
        yield from _expand_struct(field.name, field.dtype, whole, f"{path}{name}.")


def stack_lists(lists: pl.Series, file: str) -> Array:
    """Stack lists of k numbers to (rows, k); rows without a list are NaN."""
    widths = lists.drop_nulls().list.len().unique().sort().to_list()
    if len(widths) > 1:
        message = f"the lists {lists.name!r} of {file} have different lengths: {list_names(widths)} entries"
        raise LogError(message, code=Code.WRONG_SHAPE, subject=lists.name)
    filled, width = lists.is_not_null().to_numpy(), widths[0] if widths else 0
    values = np.full((len(lists), width), np.nan)
    if width:
        values[filled] = lists.drop_nulls().explode().cast(pl.Float64).fill_null(np.nan).to_numpy().reshape(-1, width)
    return values


def numbers_in(series: pl.Series, file: str) -> NDArray[Any]:
    """The numbers of a column, NaN where there is none; raises `LogError` if it holds anything else."""
    if not (series.dtype.is_numeric() or series.dtype in (pl.Boolean, pl.Null)):  # before converting to objects
        message = f"column {series.name!r} of {file} holds {series.dtype}, not numbers"
        raise LogError(message, code=Code.WRONG_TYPE, subject=series.name)
    if series.null_count():
        series = series.cast(pl.Float64).fill_null(float("nan"))
    return require_numbers(series.to_numpy(), series.name, file)
