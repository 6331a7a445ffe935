"""Parquet as a `Table`: slices of the row groups, read by polars."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from polars.exceptions import PolarsError

from mindyn.logs.findings import LogError
from mindyn.logs.tables import Chunk, numbers_of


class ParquetTable:
    """Columns of a Parquet file; a column of lists is an array with one column for each entry."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = path.name
        self.stated: Mapping[str, Any] = {}
        try:
            frame = pl.scan_parquet(path)
            self.names: tuple[str, ...] = tuple(frame.collect_schema().names())
            self.rows = int(frame.select(pl.len()).collect().item())
        except (PolarsError, OSError) as error:
            raise _unreadable(path, error) from error

    def chunks(self, names: Collection[str], rows: int) -> Iterator[Chunk]:
        """Slices of `rows` rows; only the row groups they touch are decoded."""
        frame = pl.scan_parquet(self.path).select(list(names))
        for start in range(0, self.rows, rows):
            try:
                piece = frame.slice(start, rows).collect()
            except (PolarsError, OSError) as error:
                raise _unreadable(self.path, error) from error
            yield {name: _values(piece[name], self.name) for name in names}


def _values(series: pl.Series, file: str) -> NDArray[Any]:
    if isinstance(series.dtype, (pl.Datetime, pl.Duration)):
        raise LogError(
            f"column {series.name!r} of {file} holds {series.dtype}; mindyn reads stamps as numbers",
            hint="write the stamps as seconds (s) or as integers of ns",
        )
    if isinstance(series.dtype, (pl.List, pl.Array)):
        return np.array(series.to_list(), dtype=np.float64)
    if series.null_count():
        series = series.cast(pl.Float64).fill_null(float("nan"))
    return numbers_of(series.to_numpy(), series.name, file)


def _unreadable(path: Path, error: Exception) -> LogError:
    return LogError(
        f"{path.name} cannot be read as Parquet: {str(error).splitlines()[0]}",
        hint="a Parquet file ends with its index: a truncated copy or an unfinished recording cannot be read",
    )
