"""Parquet as a `Table`: slices of the row groups, read by polars."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray
from polars.exceptions import PolarsError

from mindyn.logs.findings import LogError
from mindyn.logs.parquet_groups import group_rows
from mindyn.logs.tables import Chunk, numbers_of

LARGEST_GROUP: Final = 2_000_000
"""Rows of a row group up to which slices of it are decoded as they are asked for; writers make groups of 1e5 to 1e6."""


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
        if max(group_rows(self.path), default=0) > LARGEST_GROUP:
            yield from self._spooled(names, rows)
            return
        frame = pl.scan_parquet(self.path).select(list(names))
        for start in range(0, self.rows, rows):
            try:
                piece = frame.slice(start, rows).collect()
            except (PolarsError, OSError) as error:
                raise _unreadable(self.path, error) from error
            yield {name: _values(piece[name], self.name) for name in names}

    def _spooled(self, names: Collection[str], rows: int) -> Iterator[Chunk]:
        """Slices out of a temporary folder with one file for each column, decoded one after another.

        A slice of a row group decodes it whole: one of 10 million rows took 1.1 GB, and all of it for every slice.
        """
        with TemporaryDirectory(prefix="mindyn-") as folder:
            kinds = {}
            for number, name in enumerate(names):
                try:
                    column = pl.scan_parquet(self.path).select(name).collect()[name]
                except (PolarsError, OSError) as error:
                    raise _unreadable(self.path, error) from error
                values = np.ascontiguousarray(_values(column, self.name))
                kinds[name] = (Path(folder) / str(number), values.dtype, values.shape[1:])
                values.tofile(kinds[name][0])
                del column, values
            for start in range(0, self.rows, rows):
                count = min(rows, self.rows - start)
                yield {name: _slice(*kind, start, count) for name, kind in kinds.items()}


def _slice(file: Path, dtype: np.dtype[Any], shape: tuple[int, ...], start: int, count: int) -> NDArray[Any]:
    """Rows of a column's file."""
    width = int(np.prod(shape, dtype=np.int64))
    values = np.fromfile(file, dtype, count * width, offset=start * width * dtype.itemsize)
    return values.reshape(count, *shape)


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
