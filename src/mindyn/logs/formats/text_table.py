"""Read CSV and other separated text as a `LogTable`: blocks of whole lines, parsed by polars."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections import Counter
from collections.abc import Collection, Iterator
from itertools import accumulate
from pathlib import Path
from typing import IO, Final

import polars as pl
from polars.exceptions import PolarsError

from mindyn.foundation.errors import Code, list_names, shorten_text
from mindyn.foundation.processes.executors import require_polars_threads
from mindyn.foundation.safe_reading import MAX_COLUMNS
from mindyn.logs.formats.date_stamps import DATE_PATTERN, parse_dates
from mindyn.logs.formats.tables import (
    MAX_LINE_BYTES,
    Chunk,
    LogTable,
    long_line_error,
    read_line_blocks,
    split_rows,
)
from mindyn.logs.log_errors import LogError
from mindyn.logs.metadata import METADATA_LOCATION, SEPARATORS

_LONG_LINE_HINT: Final = "is it a binary file, or a file without line breaks?"
SEARCHED_LINES: Final = 20
"""Lines after the names in which a row of numbers must occur."""
COMMENT_MARKS: Final = (b"#", b"%", b"//")
"""Start of a comment line."""
_SEPARATOR_LINE: Final = re.compile(rb'"?sep=([,;\t])"?')
"""First line that some spreadsheets write."""
_CP1252_LETTERS: Final = frozenset("°µ·²³äöüÄÖÜßéèêàáóíúçñ±")
"""Letters of units and names in Windows-1252, which old programs write."""
_MISSING_VALUES: Final = ("", "nan", "NaN", "NAN", "NA", "null", "-nan", "-nan(ind)")


class TextTable(LogTable):
    """Rows of numbers after a header line; without a header the columns are column_1, column_2, ....

    Comments (`#`, `%`, `//`) and empty lines may come first. The last comment is the header if it has as many cells as
    the next line. A second line of words gives the units; if the first line has repeated or empty names, the second
    line is the second half of the names. Empty lines after the header are ignored. A separator at the end of the rows
    only creates a column without a name. Dates are read as nanoseconds.

    separator  separator of cells; None selects the first separator, among comma, semicolon, tab and space, that splits
               header and rows into the same number of cells
    decimal    "." or ","; None selects a comma if the cells of the first row are numbers only with a comma
    skip_rows  lines after the header to skip (units)
    units      units from a second line of words; empty without such a line
    """

    def __init__(
        self, path: Path, separator: str | None = None, decimal: str | None = None, skip_rows: int = 0
    ) -> None:
        self.path = path
        self.name = path.name
        self.legacy = False
        with self.path.open("rb") as file:
            header_start, separator_line = self._before_header(file)
            file.seek(header_start)
            self._line(file)
            searched = [line for _ in range(SEARCHED_LINES) if (line := self._line(file)).strip()]
            file.seek(header_start)
            lines, blank = [self._line(file) for _ in range(1 + skip_rows)], 0
            while (after := self._line(file)) and not after.strip():
                blank += len(after)
            following = self._line(file)
        header, first = self._text(lines[0]), self._text(after)
        if not header.strip():
            message, hint = f"{path.name} has no line of names", "write the names of the columns in its first line"
            raise LogError(message, hint=hint, code=Code.MISSING_VALUE, subject=path.name)
        self.separator = separator or separator_line or _detect_separator(header, first)
        row = split_line(first, self.separator)
        given = _strip_comment_mark(split_line(header, self.separator), row)
        second = row if not skip_rows and self._are_words(given, row, following) else []
        if second:
            blank += len(after)
            row = split_line(self._text(following), self.separator)
        self.open_ended = len(row) == len(given) + 1 and row[-1] == ""
        self.decimal = decimal or _detect_decimal(row, self.separator)
        named = not all(_is_number(word, self.decimal) for word in given)
        if named and not self._hold_numbers(searched):
            raise LogError(  # do not quote the content: it may be any file
                f"the {SEARCHED_LINES} lines of {path.name} after the first have no row of numbers; is it a log?",
                hint=f"if more lines of text follow the names of the columns, set skip_rows = ... {METADATA_LOCATION}",
                code=Code.WRONG_FORMAT,
                subject=path.name,
            )
        names, self.units = _combine_header_lines(given, second)
        words = [*names, ""] if self.open_ended else names
        self.names = tuple(words) if named else tuple(f"column_{k + 1}" for k in range(len(words)))
        self.data_start = header_start + sum(map(len, lines[: named + skip_rows])) + (blank if named else 0)
        unnamed = f"{path.name} has no line of names: its columns are called column_1 to column_{len(self.names)}"
        self.is_named = named
        self.notes: tuple[str, ...] = () if named else (unnamed,)
        if self.units:
            self.notes = (f"the line after the names of {path.name} has no number: it is read as a line of units",)
        repeated = sorted(name for name, count in Counter(self.names).items() if count > 1)
        if repeated:
            message = f"{path.name} has more than one column named {list_names(repeated)}"
            raise LogError(message, code=Code.DUPLICATE, subject=repeated[0])

    def _hold_numbers(self, lines: list[bytes]) -> bool:
        """Return whether half of the cells of one of the lines are numbers or dates.

        Return True if there are no lines.
        """
        rows = [list(filter(None, split_line(line.decode("utf-8", "replace"), self.separator))) for line in lines]
        numbers = [sum(_is_number(c, self.decimal) or bool(DATE_PATTERN.match(c)) for c in row) for row in rows]
        return not rows or any(2 * count >= len(row) > 0 for count, row in zip(numbers, rows, strict=True))

    def _are_words(self, names: list[str], row: list[str], following: bytes) -> bool:
        """Return whether the line after the names has only words, as many as there are numbers in the next line."""
        if len(row) != len(names) or not any(row) or any(cell and _is_number(cell, ",") for cell in row):
            return False
        numbers = split_line(self._text(following), self.separator)
        decimal = _detect_decimal(numbers, self.separator)
        return len(numbers) == len(row) > 1 and all(
            _is_number(cell, decimal) or DATE_PATTERN.match(cell) for cell in numbers
        )

    def _before_header(self, file: IO[bytes]) -> tuple[int, str | None]:
        """Return the bytes of comments and empty lines before the header, and the separator of a line `sep=;`."""
        start, last, comments, separator_line = 0, 0, 0, None
        while line := self._line(file):
            text = line.lstrip(codecs.BOM_UTF8 + b" \t")
            if match := _SEPARATOR_LINE.fullmatch(text.strip(b"\r\n")):
                start, separator_line = start + len(line), match[1].decode()
                continue
            is_comment = text.startswith(COMMENT_MARKS)
            if not is_comment and text.strip():
                break
            last, comments = (start if is_comment else last), comments + is_comment
            start += len(line)
        if not comments:
            return start, separator_line
        file.seek(last)
        comment, after = self._text(self._line(file)), self._text(line)
        separator = _detect_separator(comment, after)
        row = split_line(after, separator)
        is_header = len(_strip_comment_mark(split_line(comment, separator), row)) == len(row) > 1
        return last if is_header else start, separator_line

    def _line(self, file: IO[bytes]) -> bytes:
        line = file.readline(MAX_LINE_BYTES + 1)
        if len(line) > MAX_LINE_BYTES:
            raise long_line_error(self.name, _LONG_LINE_HINT)
        return line

    def _text(self, line: bytes) -> str:
        try:
            return line.decode("utf-8-sig").strip("\r\n")
        except UnicodeDecodeError as error:
            text = line.decode("cp1252", "replace").strip("\r\n")
            if all((c.isascii() and c.isprintable()) or c in _CP1252_LETTERS or c == "\t" for c in text):
                self.legacy = True
                return text
            wide = line.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
            raise LogError(
                f"{self.name} is not UTF-8 text (byte {error.start}); is it a binary log?",
                hint="it starts like UTF-16: save it as UTF-8" if wide else "",
                code=Code.WRONG_FORMAT,
                subject=self.name,
            ) from error

    def read_chunks(self, names: Collection[str], rows: int) -> Iterator[Chunk]:
        """Yield blocks of whole lines with at most about `rows` rows."""
        before = 0
        for block in self._complete_line_blocks():
            frame = self._parse(block, list(names), before)
            yield from split_rows({name: frame[name].to_numpy() for name in names}, rows)
            before += len(frame)

    def texts(self, rows: int) -> pl.DataFrame:
        """Return at most the first `rows` rows of all columns as text."""
        block = next(self._complete_line_blocks(), b"")
        lines = block.split(b"\n", rows)[:rows]
        return (
            self._read(b"\n".join(lines), pl.String, 0)
            if block
            else pl.DataFrame(schema=dict.fromkeys(self.names, pl.String))
        )

    def _complete_line_blocks(self) -> Iterator[bytes]:
        """Yield blocks of complete lines.

        A last line without line feed is dropped with a note if it has fewer cells than the other lines.
        """
        with self.path.open("rb") as file:
            file.seek(self.data_start)
            for block in read_line_blocks(file, self.name, _LONG_LINE_HINT):
                if block.endswith(b"\n"):
                    yield block
                    continue
                cells = len(split_line(block.decode("utf-8", "replace").strip("\r"), self.separator))
                missing = len(self.names) - cells
                if missing > self.open_ended:
                    self.add_note(
                        f"the last line of {self.name} is truncated after {cells} of {len(self.names)} cells; dropped"
                    )
                else:
                    yield block + self.separator.encode() * max(0, missing)

    def _parse(self, block: bytes, names: list[str], before: int) -> pl.DataFrame:
        if len(self.names) * block.count(b"\n") > 2 * len(block) + MAX_LINE_BYTES:  # a cell takes at least a byte
            raise LogError(
                f"{self.name} has {len(self.names)} columns, but most of its rows have far fewer cells",
                hint="does the first line hold the names of the columns?",
                code=Code.WRONG_SHAPE,
                subject=self.name,
            )
        try:
            return self._read(block, pl.Float64, before).select(names)
        except PolarsError:  # a cell with blanks or a word: parse as text, which is slower but can name the cell
            frame, numbers = self.convert_texts(self._read(block, pl.String, before).select(names))
        for name in names:
            wrong = (
                numbers[name].is_null() & frame[name].is_not_null() & ~frame[name].is_in(_MISSING_VALUES)
            ).arg_true()
            if len(wrong):
                text = frame[name][wrong[0]]
                row = before + wrong[0]
                message = f"column {name!r} of {self.name} holds {shorten_text(text, 40)!r} in row {row}, not a number"
                raise LogError(message, hint=_cell_hint(text, row), code=Code.WRONG_TYPE, subject=name)
        return numbers.with_columns(pl.col(pl.Float64).fill_null(float("nan")))

    def convert_texts(self, texts: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Return cells without blanks and their numbers: dates in nanoseconds, null for words.

        Lines that repeat the names, as in concatenated files, are dropped with a note.
        """
        cells = texts.select(pl.all().str.strip_chars())
        again = cells.select(pl.all_horizontal(pl.col(name) == name for name in cells.columns)).to_series()
        if again.any():
            self.add_note(f"the line of names is repeated in {self.name}: dropped")
            cells = cells.filter(~again.fill_null(value=False))
        points = pl.all() if self.decimal == "." else pl.all().str.replace(",", ".", literal=True)
        numbers = cells.select(points.cast(pl.Float64, strict=False))
        dates = [dated for name in cells.columns if (dated := parse_dates(cells[name])) is not None]
        return cells, numbers.with_columns(dates)

    def _read(self, block: bytes, kind: type[pl.DataType], before: int) -> pl.DataFrame:
        if self.separator == " ":
            block = b"\n".join(b" ".join(line.split()) for line in block.splitlines())
        require_polars_threads()
        try:
            frame = pl.read_csv(
                io.BytesIO(block),
                has_header=False,
                separator=self.separator,
                decimal_comma=self.decimal == "," != self.separator,
                schema=dict.fromkeys(self.names, kind),
                null_values=list(_MISSING_VALUES) if kind is pl.Float64 else None,
                encoding="utf8-lossy" if self.legacy else "utf8",
            )
        except PolarsError as error:
            if kind is pl.Float64:
                raise
            raise LogError(
                f"{self.name} is not a table of {len(self.names)} columns separated by {self.separator!r}: "
                f"{self._odd_row(block, before)}",
                hint=self._separator_hint(block),
                code=Code.WRONG_SHAPE,
                subject=self.name,
            ) from error
        if self.open_ended and frame[""].is_not_null().any():
            row = before + int(frame[""].is_not_null().arg_true()[0])
            message = f"row {row} of {self.name} has {len(self.names)} cells, but its header has {len(self.names) - 1}"
            hint = "name all columns in the header, also a column of row numbers"
            raise LogError(message, hint=hint, code=Code.WRONG_SHAPE, subject=self.name)
        return frame.fill_null(float("nan")) if kind is pl.Float64 else frame

    def _separator_hint(self, block: bytes) -> str:
        row = block.split(b"\n", 1)[0].decode("utf-8", "replace")
        cells = [cell.strip() for cell in row.split(",")]
        is_split = self.separator == "," and len(self.names) < len(cells) <= 2 * len(self.names)
        if is_split and all(map(_is_digits, cells)):
            return "its numbers seem to have decimal commas: export it with decimal points, or with ; between columns"
        return f'if the separator is wrong, set separator = ";" (or ",", "\\t", " ") {METADATA_LOCATION}'

    def _odd_row(self, block: bytes, before: int) -> str:
        """Describe the first row that cannot be read: too many cells, or too few cells in the first row."""
        count = len(self.names)
        for k, line in enumerate(block.splitlines()):
            cells = len(split_line(line.decode("utf-8", "replace"), self.separator))
            if cells > count or (k == 0 and cells < count):
                return f"row {before + k} has {cells} cells"
        return "its quotes do not match"


def _is_digits(cell: str) -> bool:
    """Return whether a cell has whole digits, perhaps with a sign or an exponent, and no decimal point."""
    return re.fullmatch(r"[-+]?\d+([eE][-+]?\d+)?", cell) is not None


def split_line(line: str, separator: str) -> list[str]:
    """Split a line into cells without quotes and surrounding blanks."""
    if line.count(separator) > MAX_COLUMNS:
        hint = "is it a table of numbers?"
        raise LogError(f"a line has more than {MAX_COLUMNS} cells", hint=hint, code=Code.TOO_LARGE, subject="line")
    if separator == " " and '"' not in line:
        return line.split()
    try:
        cells = next(csv.reader([line], delimiter=separator, skipinitialspace=True), [])
    except csv.Error as error:  # such as a cell of more than 131 072 characters
        message, hint = f"a line cannot be split into cells: {error}", "is it a table of numbers?"
        raise LogError(message, hint=hint, code=Code.UNREADABLE, subject="line") from error
    return [cell.strip() for cell in cells]


def _combine_header_lines(first: list[str], second: list[str]) -> tuple[list[str], dict[str, str]]:
    """Return names and units of the columns; join two lines of names if the first has repeated or empty names."""
    if not second or (all(first) and len(set(first)) == len(first)):
        return first, dict(zip(first, second, strict=False))
    # A cell that spans several columns is written once.
    filled: Iterator[str] = accumulate(first, lambda above, word: word or above)
    return [" ".join(filter(None, pair)) for pair in zip(filled, second, strict=True)], {}


def _strip_comment_mark(words: list[str], row: list[str]) -> list[str]:
    """Strip the comment mark from the header, unless the mark is the name of a column with a cell in the row."""
    mark = next((mark for mark in map(bytes.decode, COMMENT_MARKS) if words and words[0].startswith(mark)), "")
    if mark and words[0] == mark and len(words) == len(row) + 1:
        return words[1:]
    return [words[0].removeprefix(mark).strip() or words[0], *words[1:]] if words else words


def _detect_separator(header: str, first: str) -> str:
    """Return the separator that splits header and first row into equally many cells; prefer one that gives numbers in
    the row.
    """
    divided = [(s, split_line(header, s), split_line(first, s)) for s in SEPARATORS]
    alike = [(s, row) for s, names, row in divided if len(names) == len(row) > 1]
    numeric = [
        s for s, row in alike if all(_is_number(c, _detect_decimal(row, s)) or DATE_PATTERN.match(c) for c in row)
    ]
    candidates = numeric or [s for s, _ in alike] or [s for s, names, _ in divided if len(names) > 1]
    return candidates[0] if candidates else ","


def _detect_decimal(row: list[str], separator: str) -> str:
    """Return a comma if all cells are numbers only with a decimal comma; "1,234" together with "5.6" stays
    ambiguous.
    """
    row = [cell for cell in row if not DATE_PATTERN.match(cell)]
    if separator == "," or any("." in cell for cell in row) or all(_is_number(cell, ".") for cell in row):
        return "."
    return "," if all(_is_number(cell, ",") for cell in row) else "."


def _cell_hint(text: str, row: int) -> str:
    if _is_number(text, ","):
        return f'if that is a decimal comma, set decimal = "," {METADATA_LOCATION}'
    return f"if that is a line of units, set skip_rows = 1 {METADATA_LOCATION}" if row == 0 else ""


def _is_number(word: str, decimal: str) -> bool:
    try:
        float(word if decimal == "." else word.replace(",", ".", 1))
    except ValueError:
        return word in _MISSING_VALUES
    return True
