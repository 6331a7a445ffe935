"""Read Parquet as a `LogTable`: slices of row groups, read by polars; dates and durations become nanoseconds."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any, BinaryIO, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray
from polars.exceptions import PanicException, PolarsError

from mindyn.foundation.processes.executors import require_polars_threads
from mindyn.foundation.safe_reading import MAX_ENTRIES, InputBudget, describe_exception
from mindyn.logs.formats.json_table import column_expressions, numbers_in
from mindyn.logs.formats.tables import Chunk, LogTable, split_rows, unreadable_error
from mindyn.logs.locations import FileLocation, RemoteFile, convert_remote_errors, remote_error
from mindyn.logs.log_errors import LogError

_STDERR_LOCK: Final = Lock()
_SAVED_STDERR: list[int | None] = []
MAX_WHOLE_GROUP_ROWS: Final = 2**19
"""Files with larger row groups are decoded to temporary files; 13 columns of such a group take 55 MB."""


class ParquetTable(LogTable):
    """Columns of a Parquet file; lists are arrays, and objects are replaced by their entries by path."""

    form = ".parquet file"

    def __init__(self, path: FileLocation) -> None:
        self.path = path
        self.name = path.name
        with _raise_parquet_errors(path):
            self._footer = read_footer(path)
            self._size = path.stat().st_size if isinstance(path, Path) else path.info().size
            InputBudget(self.name, self._size, LogError).take_keys(len(self._footer[_SCHEMA]))
            frame = self._scan()
            self._entries = column_expressions(frame.collect_schema())
            self.names: tuple[str, ...] = tuple(self._entries)
            self.rows = int(frame.select(pl.len()).collect().item())

    def _scan(self) -> pl.LazyFrame:
        return pl.scan_parquet(self.path if isinstance(self.path, Path) else self.path.url, glob=False)

    def read_chunks(self, names: Collection[str], rows: int) -> Iterator[Chunk]:
        """Yield slices of `rows` rows; every row group is decoded once."""
        self._require_plausible(names)
        groups = group_rows(self._footer)
        if max(groups, default=0) > MAX_WHOLE_GROUP_ROWS:
            yield from self._read_spooled(names, rows)
            return
        frame = self._scan().select([self._entries[name] for name in names])
        for start, count in _plan_fetches(groups, rows):
            piece = self._collect(frame.slice(start, count))
            yield from split_rows({name: numbers_in(piece[name], self.name) for name in names}, rows)

    def _require_plausible(self, names: Collection[str]) -> None:
        """Raise if the page headers of the named columns declare more data than the pages can hold."""
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

    def _read_spooled(self, names: Collection[str], rows: int) -> Iterator[Chunk]:
        """Yield slices from a temporary folder with a file for each column.

        A slice of a row group decodes the whole group: a group of 10 million rows took 1.1 GB for every slice.
        """
        with TemporaryDirectory(prefix="mindyn-") as folder:
            kinds = {}
            for number, name in enumerate(names):
                column = self._collect(self._scan().select(self._entries[name]))[name]
                values = np.ascontiguousarray(numbers_in(column, self.name))
                kinds[name] = (Path(folder) / str(number), values.dtype, values.shape[1:])
                values.tofile(kinds[name][0])
                del column, values
            for start in range(0, self.rows, rows):
                count = min(rows, self.rows - start)
                yield {name: _read_slice(*kind, start, count) for name, kind in kinds.items()}

    def _collect(self, frame: pl.LazyFrame) -> pl.DataFrame:
        with _raise_parquet_errors(self.path):
            return frame.collect()


def _plan_fetches(groups: Sequence[int], rows: int) -> Iterator[tuple[int, int]]:
    """Yield the first row and the number of rows of each read: whole row groups, and several small groups together."""
    start = held = 0
    for group in [*groups, 0]:
        if held and (held >= rows or held + group > MAX_WHOLE_GROUP_ROWS or not group):
            yield start, held
            start, held = start + held, 0
        held += group


@contextmanager
def hide_panic_text() -> Iterator[None]:
    """Hide the text that polars writes to the standard error when it panics on a damaged file.

    The panic hook cannot be turned off, and the exception that follows has the same text. With several threads, the
    first redirects the standard error and the last restores it.
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
    """Redirect the standard error to the null device.

    Return a file descriptor of the original, or None if there is none.
    """
    try:
        sys.stderr.flush()
        before = os.dup(2)
    except (OSError, ValueError, AttributeError):
        return None
    with Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    return before


def _read_slice(file: Path, dtype: np.dtype[Any], shape: tuple[int, ...], start: int, count: int) -> NDArray[Any]:
    """Read rows of a column from its file."""
    width = int(np.prod(shape, dtype=np.int64))
    values = np.fromfile(file, dtype, count * width, offset=start * width * dtype.itemsize)
    return values.reshape(count, *shape)


@contextmanager
def _raise_parquet_errors(path: FileLocation) -> Iterator[None]:
    try:
        with hide_panic_text():
            yield
    except (PolarsError, PanicException, OSError) as error:
        raise _parquet_error(path, error) from None


def _parquet_error(path: FileLocation, error: BaseException) -> LogError:
    if isinstance(path, RemoteFile) and not isinstance(error, PanicException):
        return remote_error(path, error)
    hint = "a Parquet file ends with its index: a truncated copy or an unfinished recording cannot be read"
    return unreadable_error(path.name, "Parquet", describe_exception(error), hint)


_SCHEMA, _ROW_GROUPS, _GROUP_CHUNKS, _GROUP_ROWS = 2, 4, 1, 3
"""Field numbers of FileMetaData and RowGroup in the format's Thrift definition."""
_CHUNK_METADATA, _PATH, _PACKED_BYTES, _FIRST_PAGES = 3, 3, 7, (9, 11)
"""Field numbers of ColumnChunk and ColumnMetaData: path, size, offsets of the first page and of the dictionary."""
_PAGE_BYTES, _PACKED_PAGE_BYTES, _PAGE_KINDS = 2, 3, (5, 7, 8)
"""Field numbers of PageHeader: sizes, and the headers of each page type, whose first field is the number of values."""
_MAX_PAGE_HEADER_BYTES: Final = 2**16
_PAGE_COST: Final = 2**13
"""Smallest number of bytes that a page counts in the budget: checking a page takes as long as reading this many bytes.
"""
_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 12


def read_footer(path: FileLocation) -> dict[int, Any]:
    """Read the footer of a file (Thrift compact protocol), which polars does not expose."""
    if isinstance(path, Path):
        with path.open("rb") as file:
            return _read_footer(file, path.name)
    with convert_remote_errors(path), path.open() as file:
        return _read_footer(file, path.name)


def _read_footer(file: BinaryIO, name: str) -> dict[int, Any]:
    size = file.seek(0, 2)
    file.seek(max(0, size - 8))
    tail = file.read(8)
    length = int.from_bytes(tail[:4], "little")
    if tail[4:] != b"PAR1" or length > size - 12:
        raise unreadable_error(name, "Parquet", "it does not end like a Parquet file")
    file.seek(size - 8 - length)
    return _ThriftReader(file.read(length), name).struct()


def group_rows(footer: Mapping[int, Any]) -> list[int]:
    """Return the number of rows of every row group."""
    return [group[_GROUP_ROWS] for group in footer[_ROW_GROUPS]]


class _ThriftReader:
    """Reader of the values of a footer or page header."""

    def __init__(self, data: bytes, name: str = "the file") -> None:
        self.data, self.at = data, 0
        self.entries = InputBudget(name, len(data), LogError, MAX_ENTRIES)

    def struct(self) -> dict[int, Any]:
        """Read a struct as fields by number."""
        self.entries.take_keys()
        fields: dict[int, Any] = {}
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._integer()
            kind = head & 15
            fields[number] = kind == _TRUE if kind in (_TRUE, _FALSE) else self._value(kind)
        return fields

    def _value(self, kind: int) -> Any:
        if kind == _STRUCT:
            return self.struct()
        if kind in (_LIST, _SET):
            head = self._byte()
            count = head >> 4 if head >> 4 < 15 else self._varint()
            self.entries.take_keys()
            if count > len(self.data) - self.at:
                raise ValueError(f"a list declares {count} entries, but {len(self.data) - self.at} bytes are left")
            return [self._value(head & 15) for _ in range(count)]
        if kind == _BINARY:
            return self._skip(self._varint())
        if kind == _DOUBLE:
            return self._skip(8)
        return self._byte() if kind in (_TRUE, _FALSE, _BYTE) else self._integer()

    def _skip(self, count: int) -> bytes:
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
                raise ValueError("a number has more than 64 bits")

    def _integer(self) -> int:
        """Decode a zigzag integer: 0, -1, 1, -2, ..."""
        coded = self._varint()
        return (coded >> 1) ^ -(coded & 1)
