"""Parquet as a `PaperTable`: slices of the row groups, read by polars; dates and durations become nanoseconds."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray
from polars.exceptions import PanicException, PolarsError

from mindyn.executors import require_polars_threads
from mindyn.logs.errors import LogError
from mindyn.logs.locations import FileLocation, RemoteFile, remote_error
from mindyn.logs.nested import column_expressions, numbers_in, stack_lists
from mindyn.logs.tables import Chunk
from mindyn.reading import MAX_ENTRIES, InputBudget, describe_exception

_STDERR_LOCK: Final = Lock()
_SAVED_STDERR: list[int | None] = []
MAX_WHOLE_GROUP_ROWS: Final = 2**19
"""Rows of a row group up to which it is read whole: writers make groups of 1e5 to 1e6; 13 columns take 55 MB."""
MAX_SLICED_GROUP_ROWS: Final = 2_000_000
"""Rows of a row group up to which slices of it are decoded as they are asked for."""


class ParquetTable:
    """Columns of a Parquet file; a list is an array with one column an entry, an object its entries by their path."""

    def __init__(self, path: FileLocation) -> None:
        self.path = path
        self.name = path.name
        self.stated: Mapping[str, Any] = {}
        self.notes: tuple[str, ...] = ()
        try:
            self._footer = read_footer(path)
            self._size = path.stat().st_size if isinstance(path, Path) else path.info().size
            InputBudget(self.name, self._size, LogError).take_keys(len(self._footer[_SCHEMA]))
            with hide_panic_text():
                frame = pl.scan_parquet(self._source, glob=False)
                self._entries = column_expressions(frame.collect_schema())
                self.names: tuple[str, ...] = tuple(self._entries)
                self.rows = int(frame.select(pl.len()).collect().item())
        except (PolarsError, PanicException, OSError) as error:
            raise _parquet_error(path, error) from None

    @property
    def _source(self) -> Path | str:
        return self.path if isinstance(self.path, Path) else self.path.url

    def chunks(self, names: Collection[str], rows: int) -> Iterator[Chunk]:
        """Slices of `rows` rows. Row groups of usual size are fetched and decoded once, larger ones for each slice."""
        self._require_plausible(names)
        groups = group_rows(self._footer)
        if max(groups, default=0) > MAX_SLICED_GROUP_ROWS:
            yield from self._spooled(names, rows)
            return
        frame = pl.scan_parquet(self._source, glob=False).select([self._entries[name] for name in names])
        for start, count in _plan_fetches(groups, rows):
            piece = self._collected(frame.slice(start, count))
            for first in range(0, count, rows):
                yield {name: _to_numbers(piece[name].slice(first, rows), self.name) for name in names}

    def _require_plausible(self, names: Collection[str]) -> None:
        """Raise if pages of the named columns claim more than they can hold; the headers of pages say how much."""
        InputBudget(self.name, self._size, LogError).take_bytes(8 * self.rows * len(names))
        if not isinstance(self.path, Path):
            return
        budget = InputBudget(self.name, self._size, LogError)
        chunks = [
            chunk.get(_CHUNK_METADATA, {}) for group in self._footer[_ROW_GROUPS] for chunk in group[_GROUP_CHUNKS]
        ]
        with self.path.open("rb") as file:
            for about in chunks:
                top = (about[_PATH][0] or b"").decode("utf-8", "replace")
                if not any(name == top or name.startswith(f"{top}.") for name in names):
                    continue
                at = min(about[key] for key in _FIRST_PAGES if about.get(key, 0) > 0)
                end = at + about[_PACKED_BYTES]
                while at < end:
                    file.seek(at)
                    header = _ThriftReader(file.read(_MAX_PAGE_HEADER_BYTES), self.name)
                    page = header.struct()
                    values = max((page[kind][1] for kind in _PAGE_KINDS if kind in page), default=0)
                    budget.take_bytes(max(page[_PAGE_BYTES], 8 * values, _PAGE_COST))
                    at += header.at + max(0, page[_PACKED_PAGE_BYTES])

    def _spooled(self, names: Collection[str], rows: int) -> Iterator[Chunk]:
        """Slices out of a temporary folder with one file for each column, decoded one after another.

        A slice of a row group decodes it whole: one of 10 million rows took 1.1 GB, and all of it for every slice.
        """
        with TemporaryDirectory(prefix="mindyn-") as folder:
            kinds = {}
            for number, name in enumerate(names):
                column = self._collected(pl.scan_parquet(self._source, glob=False).select(self._entries[name]))[name]
                values = np.ascontiguousarray(_to_numbers(column, self.name))
                kinds[name] = (Path(folder) / str(number), values.dtype, values.shape[1:])
                values.tofile(kinds[name][0])
                del column, values
            for start in range(0, self.rows, rows):
                count = min(rows, self.rows - start)
                yield {name: _read_slice(*kind, start, count) for name, kind in kinds.items()}

    def _collected(self, frame: pl.LazyFrame) -> pl.DataFrame:
        try:
            with hide_panic_text():
                return frame.collect()
        except (PolarsError, PanicException, OSError) as error:
            raise _parquet_error(self.path, error) from None


def _plan_fetches(groups: Sequence[int], rows: int) -> Iterator[tuple[int, int]]:
    """First row and number of rows of what is read at once: whole row groups of usual size, else slices of a group."""
    start = held = 0
    for group in [*groups, 0]:
        if held and (held >= rows or held + group > MAX_WHOLE_GROUP_ROWS or not group):
            yield start, held
            start, held = start + held, 0
        if group <= MAX_WHOLE_GROUP_ROWS:
            held += group
            continue
        yield from ((start + first, min(rows, group - first)) for first in range(0, group, rows))
        start += group


@contextmanager
def hide_panic_text() -> Iterator[None]:
    """Keeps what polars writes to the standard error itself, when it panics on a damaged file, from the reader's eyes.

    The text of its panic hook cannot be turned off; the exception that follows says the same. Of several threads the
    first turns it away and the last turns it back.
    """
    require_polars_threads()
    with _STDERR_LOCK:
        _SAVED_STDERR.append(_SAVED_STDERR[0] if _SAVED_STDERR else _silence_stderr())
    try:
        yield
    finally:
        with _STDERR_LOCK:
            before = _SAVED_STDERR.pop()
            if before is not None and not _SAVED_STDERR:
                os.dup2(before, 2)
                os.close(before)


def _silence_stderr() -> int | None:
    """Sends the standard error nowhere; a descriptor of where it went, or None for a process that has none."""
    try:
        sys.stderr.flush()
        before = os.dup(2)
    except (OSError, ValueError, AttributeError):
        return None
    with Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    return before


def _read_slice(file: Path, dtype: np.dtype[Any], shape: tuple[int, ...], start: int, count: int) -> NDArray[Any]:
    """Rows of a column's file."""
    width = int(np.prod(shape, dtype=np.int64))
    values = np.fromfile(file, dtype, count * width, offset=start * width * dtype.itemsize)
    return values.reshape(count, *shape)


def _to_numbers(series: pl.Series, file: str) -> NDArray[Any]:
    if isinstance(series.dtype, pl.Datetime):
        series = series.dt.epoch("ns")
    if isinstance(series.dtype, pl.Duration):
        series = series.dt.total_nanoseconds()
    if isinstance(series.dtype, (pl.List, pl.Array)):
        return stack_lists(series.cast(pl.List(pl.Float64)), file)
    return numbers_in(series, file)


def _parquet_error(path: FileLocation, error: BaseException) -> LogError:
    if isinstance(path, RemoteFile) and not isinstance(error, PanicException):
        return remote_error(path, error)
    return LogError(
        f"{path.name} cannot be read as Parquet: {describe_exception(error)}",
        hint="a Parquet file ends with its index: a truncated copy or an unfinished recording cannot be read",
    )


_SCHEMA, _ROW_GROUPS, _GROUP_CHUNKS, _GROUP_ROWS = 2, 4, 1, 3
"""Numbers of the fields of FileMetaData and RowGroup in the format's Thrift definition ..."""
_CHUNK_METADATA, _PATH, _PACKED_BYTES, _FIRST_PAGES = 3, 3, 7, (9, 11)
"""... of ColumnChunk and ColumnMetaData: path, size, places of the first page and of the dictionary ..."""
_PAGE_BYTES, _PACKED_PAGE_BYTES, _PAGE_KINDS = 2, 3, (5, 7, 8)
"""... and of PageHeader: sizes, and headers of a kind, whose first field is the number of values."""
_MAX_PAGE_HEADER_BYTES: Final = 2**16
_PAGE_COST: Final = 2**13
"""Bytes that a page counts as at least: to look at one takes as long as to read them."""
_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 12


def read_footer(path: FileLocation) -> dict[int, Any]:
    """The file's footer (Thrift's compact protocol), which polars does not show."""
    with path.open("rb") if isinstance(path, Path) else path.open() as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - 8))
        tail = file.read(8)
        length = int.from_bytes(tail[:4], "little")
        if tail[4:] != b"PAR1" or length > size - 12:
            raise LogError(
                f"{path.name} cannot be read as Parquet: it does not end as a Parquet file does",
                hint="is the copy complete?",
            )
        file.seek(size - 8 - length)
        return _ThriftReader(file.read(length), path.name).struct()


def group_rows(footer: Mapping[int, Any]) -> list[int]:
    """Rows of every row group."""
    return [group[_GROUP_ROWS] for group in footer[_ROW_GROUPS]]


class _ThriftReader:
    """Values of a footer or a header, read one after another."""

    def __init__(self, data: bytes, name: str = "the file") -> None:
        self.data, self.at = data, 0
        self.entries = InputBudget(name, len(data), LogError, MAX_ENTRIES)

    def struct(self) -> dict[int, Any]:
        """Fields by number."""
        self.entries.take_keys()
        found: dict[int, Any] = {}
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._integer()
            kind = head & 15
            found[number] = kind == _TRUE if kind in (_TRUE, _FALSE) else self._value(kind)
        return found

    def _value(self, kind: int) -> Any:
        if kind == _STRUCT:
            return self.struct()
        if kind in (_LIST, _SET):
            head = self._byte()
            count = head >> 4 if head >> 4 < 15 else self._varint()
            self.entries.take_keys()
            if count > len(self.data) - self.at:
                raise ValueError(f"a list declares {count} entries where {len(self.data) - self.at} bytes are left")
            return [self._value(head & 15) for _ in range(count)]
        if kind == _BINARY:
            return self._skipped(self._varint())
        if kind == _DOUBLE:
            return self._skipped(8)
        return self._byte() if kind in (_TRUE, _FALSE, _BYTE) else self._integer()

    def _skipped(self, count: int) -> bytes:
        self.at += count
        return self.data[self.at - count : self.at]

    def _byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def _varint(self) -> int:
        value, shift = 0, 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
            if shift > 63:
                raise ValueError("a number of more than 64 bits")

    def _integer(self) -> int:
        """Zigzag: 0, -1, 1, -2, ..."""
        coded = self._varint()
        return (coded >> 1) ^ -(coded & 1)
