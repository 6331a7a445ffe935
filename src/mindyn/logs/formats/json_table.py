"""Read lines of JSON as a `LogTable`: one object per row, nested entries by their path, lists as arrays.

The Parquet reader expands columns of objects and lists by the same functions.
"""

from __future__ import annotations

import io
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray
from polars.exceptions import PolarsError

from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, list_names
from mindyn.foundation.processes.executors import require_polars_threads
from mindyn.foundation.safe_reading import InputBudget
from mindyn.logs.formats.date_stamps import parse_dates
from mindyn.logs.formats.tables import Chunk, LogTable, read_line_blocks, require_numbers, split_rows
from mindyn.logs.log_errors import LogError

_SCHEMA_ROWS: Final = 100
"""Rows whose entries define the columns."""
JOINT_LIST_NAMES: Final = ("name", "names", "joint_names", "joints")
"""Entries that list the joints in the order of the other lists; JointState uses `name`."""


class JsonLinesTable(LogTable):
    """Columns of a file with one JSON object per line; `header.stamp.sec` is an entry of nested objects.

    A list of numbers is an array with one column for each entry. A list of joint names gives the order of the joints in
    its row. Dates are read as nanoseconds.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = path.name
        self._budget = InputBudget(path.name, path.stat().st_size, LogError)
        lines = next(self._blocks(), b"").split(b"\n", _SCHEMA_ROWS)[:_SCHEMA_ROWS]
        first = self._frame(b"\n".join(lines), 0)
        self.names: tuple[str, ...] = tuple(first.columns)
        joints = next((name for name in self.names if name.rpartition(".")[2] in JOINT_LIST_NAMES and len(first)), None)
        listed = first[joints][0].to_list() if joints and first[joints].dtype == pl.List(pl.String) else []
        self.metadata = {"joints": listed} if listed else {}
        self._joint_list = joints if listed else None

    def read_chunks(self, names: Collection[str], rows: int) -> Iterator[Chunk]:
        """Yield blocks of whole lines with at most `rows` rows."""
        before = 0
        for block in self._blocks():
            frame = self._frame(block, before)
            order = self._joint_order(frame, before)
            yield from split_rows({name: self._values(frame, name, before, order) for name in names}, rows)
            before += len(frame)

    def _blocks(self) -> Iterator[bytes]:
        """Yield blocks of lines that are not blank."""
        with self.path.open("rb") as file:
            for block in read_line_blocks(file, self.name, "is it a single JSON array? write one object per line"):
                if lines := b"\n".join(line for line in block.split(b"\n") if line.strip()):
                    yield lines

    def _frame(self, block: bytes, before: int) -> pl.DataFrame:
        if not block:
            hint = "did the recording or the copy fail?"
            raise LogError(f"{self.name} has no lines", hint=hint, code=Code.TOO_LITTLE_DATA, subject=self.name)
        require_polars_threads()
        self._budget.take_json(block)
        InputBudget(self.name, len(block), LogError).take_bytes(8 * self._budget.keys * block.count(b"{"))
        last = before + block.count(b"\n")
        try:
            frame = pl.read_ndjson(io.BytesIO(block), infer_schema_length=None)
        except PolarsError as error:
            raise LogError(
                f"rows {before} to {last} of {self.name} are not JSON objects with the same "
                f"entries, one per line ({type(error).__name__})",
                hint="is the last line truncated, or is it a single JSON array? write one object per line",
                code=Code.UNREADABLE,
                subject=self.name,
            ) from error
        return frame.select(column_expressions(frame.schema).values())

    def _joint_order(self, frame: pl.DataFrame, before: int) -> NDArray[np.intp] | None:
        """Return the positions (rows, n) of the first row's joints in every row; None if all rows list the joints in
        the same order.
        """
        if self._joint_list is None or self._joint_list not in frame.columns:
            return None
        joints = self.metadata["joints"]
        listed = [tuple(names if names is not None else ()) for names in frame[self._joint_list]]
        if set(listed) == {tuple(joints)}:
            return None
        for row, names in enumerate(listed):
            if sorted(map(str, names)) != sorted(joints):
                raise LogError(
                    f"row {before + row} of {self.name} names the joints {list_names(names) or 'none'}, the first row "
                    f"{list_names(joints)}",
                    hint="do several publishers share the topic? write a separate file for each",
                    code=Code.DISAGREEMENT,
                    subject=self._joint_list,
                )
        self.add_note(f"the order of the joints changes between rows of {self.name}: values are assigned by name")
        places = {names: [names.index(joint) for joint in joints] for names in set(listed)}
        return np.array([places[names] for names in listed])

    def _values(self, frame: pl.DataFrame, name: str, before: int, order: NDArray[np.intp] | None) -> NDArray[Any]:
        if name not in frame.columns:
            return np.full(len(frame), np.nan)
        values = numbers_in(frame[name], f"rows {before} to {before + len(frame) - 1} of {self.name}")
        if order is None or values.shape != order.shape:
            return values
        return np.take_along_axis(values, order, axis=1)


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
    """Return the numbers of a column: dates and durations in ns, lists of k numbers as (rows, k), NaN where no number
    is given.

    Raise `LogError` if it holds anything else.
    """
    if isinstance(series.dtype, pl.List | pl.Array):
        return stack_lists(series.cast(pl.List(pl.Float64)), file)
    if isinstance(series.dtype, pl.String) and (dates := parse_dates(series)) is not None:
        series = dates
    elif isinstance(series.dtype, pl.Datetime):
        series = series.dt.epoch("ns")
    elif isinstance(series.dtype, pl.Duration):
        series = series.dt.total_nanoseconds()
    if not (series.dtype.is_numeric() or series.dtype in (pl.Boolean, pl.Null)):  # before converting to objects
        message = f"column {series.name!r} of {file} holds {series.dtype}, not numbers"
        raise LogError(message, code=Code.WRONG_TYPE, subject=series.name)
    if series.null_count():
        series = series.cast(pl.Float64).fill_null(float("nan"))
    return require_numbers(series.to_numpy(), series.name, file)
