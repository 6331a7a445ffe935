"""`LogTable`: named columns of a log file, read in chunks of rows. Each format has a class of its own (`formats`)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import IO, Any, Final

import numpy as np
from numpy.typing import NDArray

from mindyn.foundation.errors import Code, MindynError
from mindyn.foundation.safe_reading import describe_exception
from mindyn.logs.log_errors import LogError

BLOCK_BYTES: Final = 16 * 2**20
"""Bytes of a text file that are read at once."""
MAX_LINE_BYTES: Final = 2**24
"""Longest line of a text file: a hundred thousand columns take less."""
COPY_HINT: Final = "is the copy complete?"
Chunk = Mapping[str, NDArray[Any]]
"""Columns of some rows: (rows,) numbers, or (rows, k) for a column of arrays."""


class LogTable:
    """Named columns of a log, with a derived class for each format.

    form      name of the format in messages
    name      name of the file in messages
    names     names of its columns
    metadata  metadata that the format itself defines (see `LogMetadata`)
    notes     notes on the file; after its chunks were read, also on its rows
    losses    messages about parts of the file that are missing
    is_named  whether the file has names of its columns
    """

    form: str = "log"
    name: str
    names: Collection[str]
    metadata: Mapping[str, Any] = MappingProxyType({})
    notes: tuple[str, ...] = ()
    losses: tuple[str, ...] = ()
    is_named: bool = True

    def add_note(self, note: str) -> None:
        """Add a note that the file does not have yet, because every reading of the rows makes the same notes."""
        self.notes = (*(known for known in self.notes if known != note), note)

    def chunks(self, names: Collection[str], rows: int) -> Iterator[Chunk]:
        """Yield the named columns, at most about `rows` rows at a time; raise `LogError` where the file is damaged."""
        with raise_as_damaged(self.form, self.name):
            yield from self.read_chunks(names, rows)

    def read_chunks(self, names: Collection[str], rows: int) -> Iterator[Chunk]:
        """Yield the named columns in file order."""
        raise NotImplementedError


@contextmanager
def raise_as_damaged(form: str, name: str) -> Iterator[None]:
    """Raise any error of a reader as `LogError`, including panics of polars, which do not derive from `Exception`."""
    try:
        yield
    except MindynError:
        raise
    except Exception as error:
        raise _damage_error(form, name, error) from error
    except BaseException as error:
        if type(error).__name__ == "PanicException":
            raise _damage_error(form, name, error) from None
        raise


def _damage_error(form: str, name: str, error: BaseException) -> LogError:
    system = isinstance(error, OSError) and error.strerror
    hint = "check the permissions of the file" if isinstance(error, PermissionError) else COPY_HINT
    return unreadable_error(name, "" if system else form, describe_exception(error), hint)


def unreadable_error(name: str, form: str, reason: str, hint: str = COPY_HINT) -> LogError:
    """Return the error for a file that cannot be read as `form`."""
    message = f"{name} cannot be read{f' as {form}' if form else ''}: {reason}"
    return LogError(message, hint=hint, code=Code.UNREADABLE, subject=name)


def read_line_blocks(file: IO[bytes], name: str, hint: str) -> Iterator[bytes]:
    """Yield blocks of whole lines; the last line may lack its line feed. Raise `LogError` if a line is too long."""
    rest = b""
    while data := file.read(BLOCK_BYTES):
        lines, newline, tail = data.rpartition(b"\n")
        if newline:
            yield rest + lines + newline
            rest = tail
        else:
            rest += data
        if len(rest) > MAX_LINE_BYTES:
            raise long_line_error(name, hint)
    if rest.strip():
        yield rest


def long_line_error(name: str, hint: str) -> LogError:
    """Return the error for a text file with a line of more than `MAX_LINE_BYTES`."""
    message = f"{name} has a line of more than {MAX_LINE_BYTES // 2**20} MiB"
    return LogError(message, hint=hint, code=Code.TOO_LARGE, subject=name)


def split_rows(chunk: Chunk, rows: int) -> Iterator[Chunk]:
    """Yield parts of at most `rows` rows."""
    for start in range(0, rows_of_chunk(chunk), rows):
        yield {name: values[start : start + rows] for name, values in chunk.items()}


def rows_of_chunk(chunk: Chunk) -> int:
    """Return the number of rows of a chunk."""
    return len(next(iter(chunk.values())))


def require_numbers(values: NDArray[Any], column: str, file: str) -> NDArray[Any]:
    """Return the values if they are real numbers; keep integers, so that stamps in ns keep every digit."""
    if values.dtype.kind not in "iufb":
        message = f"column {column!r} of {file} holds {values.dtype}, not numbers"
        raise LogError(message, code=Code.WRONG_TYPE, subject=column)
    return values if values.dtype.kind in "iu" else np.asarray(values, dtype=np.float64)


def read_in_step(wanted: Sequence[tuple[LogTable, list[str]]], rows: int, name: str) -> Iterator[list[Chunk]]:
    """Yield chunks of the same `rows` rows of every table; raise `LogError` if the lengths differ."""
    if len(wanted) == 1:
        table, names = wanted[0]
        yield from ([chunk] for chunk in table.chunks(names, rows))
        return
    readers = [regroup_rows(table.chunks(names, rows), rows) for table, names in wanted]
    counts = [0] * len(readers)
    while True:
        parts = [next(reader, None) for reader in readers]
        counts = [count + (rows_of_chunk(part) if part else 0) for count, part in zip(counts, parts, strict=True)]
        if len(set(counts)) > 1:
            rest = [sum(map(rows_of_chunk, reader)) for reader in readers]
            lengths = [f"{t.name} {count + more}" for (t, _), count, more in zip(wanted, counts, rest, strict=True)]
            raise LogError(
                f"the files of {name} have different numbers of rows: {', '.join(lengths)}",
                hint="was a file cut, or recorded at another rate?",
                code=Code.DISAGREEMENT,
                subject=name,
            )
        present = [part for part in parts if part is not None]
        if not present:
            return
        yield present


def regroup_rows(chunks: Iterator[Chunk], rows: int) -> Iterator[Chunk]:
    """Yield the same rows in blocks of exactly `rows`, except for the last block."""
    waiting: list[Chunk] = []
    for chunk in chunks:
        waiting.append(chunk)
        while sum(map(rows_of_chunk, waiting)) >= rows:
            whole = join_chunks(waiting)
            yield {name: values[:rows] for name, values in whole.items()}
            rest = {name: values[rows:] for name, values in whole.items()}
            waiting = [rest] if rows_of_chunk(rest) else []
    if waiting:
        yield join_chunks(waiting)


def join_chunks(chunks: Sequence[Chunk]) -> Chunk:
    """Return the rows of several chunks as one."""
    return {name: np.concatenate([chunk[name] for chunk in chunks]) for name in chunks[0]}
