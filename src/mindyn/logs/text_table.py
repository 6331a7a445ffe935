"""CSV and other separated text as a `Table`: blocks of whole lines, parsed by polars."""

from __future__ import annotations

import io
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import polars as pl
from polars.exceptions import PolarsError

from mindyn.logs.findings import LogError
from mindyn.logs.tables import Chunk

_BLOCK_BYTES: Final = 16 * 2**20
_MISSING: Final = ("", "nan", "NaN", "NAN", "NA", "null", "-nan", "-nan(ind)")
_SEPARATORS: Final = ",;\t "


class TextTable:
    """Rows of numbers after a header line; without a header the columns are column_1, column_2, ...."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = path.name
        self.stated: Mapping[str, Any] = {}
        with path.open("rb") as file:
            first = file.readline()
        try:
            header = first.decode("utf-8-sig").strip()
        except UnicodeDecodeError as error:
            raise LogError(f"{path.name} is not UTF-8 text (byte {error.start}); is it a binary log?") from error
        self.separator = max(_SEPARATORS, key=header.count)
        words = [word.strip().strip('"') for word in header.split(self.separator) if word or self.separator != " "]
        self.data_start = 0 if all(map(_is_number, words)) else len(first)
        self.names = tuple(words) if self.data_start else tuple(f"column_{k + 1}" for k in range(len(words)))
        repeated = sorted({name for name in self.names if self.names.count(name) > 1})
        if repeated:
            raise LogError(f"{path.name} has more than one column named {', '.join(repeated)}")

    def chunks(self, names: Collection[str], rows: int) -> Iterator[Chunk]:
        """Blocks of whole lines; a block has at most about `rows` rows."""
        before = 0
        for block in self._line_blocks():
            frame = self._parsed(block, list(names), before)
            for start in range(0, len(frame), rows):
                piece = frame[start : start + rows]
                yield {name: piece[name].to_numpy() for name in names}
            before += len(frame)

    def _line_blocks(self) -> Iterator[bytes]:
        with self.path.open("rb") as file:
            file.seek(self.data_start)
            rest = b""
            while data := file.read(_BLOCK_BYTES):
                whole, newline, tail = data.rpartition(b"\n")
                if newline:
                    yield rest + whole + newline
                    rest = tail
                else:
                    rest += data
            if rest.strip():
                yield rest

    def _parsed(self, block: bytes, names: list[str], before: int) -> pl.DataFrame:
        try:
            return self._read(block, pl.Float64).select(names)
        except PolarsError:  # a cell with blanks around its number, or one that is no number: slower, and names it
            frame = self._read(block, pl.String).select(pl.col(names).str.strip_chars())
        numbers = frame.with_columns(pl.col(names).cast(pl.Float64, strict=False))
        for name in names:
            wrong = (numbers[name].is_null() & frame[name].is_not_null() & ~frame[name].is_in(_MISSING)).arg_true()
            if len(wrong):
                text = frame[name][wrong[0]]
                row = before + wrong[0]
                raise LogError(f"column {name!r} of {self.name} holds {text!r} in row {row}, not a number")
        return numbers.fill_null(float("nan"))

    def _read(self, block: bytes, kind: type[pl.DataType]) -> pl.DataFrame:
        if self.separator == " ":
            block = b"\n".join(b" ".join(line.split()) for line in block.splitlines())
        try:
            frame = pl.read_csv(
                io.BytesIO(block),
                has_header=False,
                separator=self.separator,
                schema=dict.fromkeys(self.names, kind),
                null_values=list(_MISSING) if kind is pl.Float64 else None,
            )
        except PolarsError as error:
            if kind is pl.Float64:
                raise
            raise LogError(f"{self.name} is not a table of {len(self.names)} columns: {error}") from error
        return frame.fill_null(float("nan")) if kind is pl.Float64 else frame


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
