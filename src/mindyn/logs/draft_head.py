"""The first rows of a log of unknown meaning: every column that holds numbers, and the words of those that do not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from mindyn.logs.array_table import ArrayTable, open_arrays
from mindyn.logs.dates import parse_dates
from mindyn.logs.errors import LogError
from mindyn.logs.formats import TEXT_FORMATS, open_table
from mindyn.logs.metadata import LogMetadata
from mindyn.logs.tables import LogTable, raise_as_damaged
from mindyn.logs.text_table import TextTable
from mindyn.reading import read_json, require_file
from mindyn.robots.parts import Joint, Link
from mindyn.robots.robot import Robot

DRAFT_ROWS: Final = 20_000
"""Rows that are looked at."""
LONG_DRAFT_ROWS: Final = 20 * DRAFT_ROWS
"""... where nothing moves in those: arms stand before they are started."""
MIN_NUMBER_FRACTION: Final = 0.5
"""Share of the cells of a column of text from which it holds numbers."""
_ARRAY_SUFFIXES: Final = (".npz", ".mat", ".h5", ".hdf5")


@dataclass(frozen=True, slots=True, eq=False)
class LogHead:
    """What the beginning of a log holds.

    columns  name -> (rows,) numbers, or (rows, k) where a cell holds k of them
    words    name -> the first cell of a column that holds no numbers
    stated   what the format itself says (see `LogMetadata`)
    notes    what is worth knowing of the file
    units    name -> what a line of units says of the column
    empty    columns without any value
    is_named  whether the file names its columns
    """

    columns: Mapping[str, NDArray[Any]]
    words: Mapping[str, str]
    stated: Mapping[str, Any]
    notes: tuple[str, ...]
    units: Mapping[str, str] = field(default_factory=dict)
    empty: tuple[str, ...] = ()
    is_named: bool = True


def read_log_head(path: Path, robot: Robot | None, rows: int = DRAFT_ROWS, topic: str | None = None) -> LogHead:
    """The head of a log file; a bag needs the robot whose joints it is to hold."""
    suffix = path.suffix.lower()
    if suffix in (".db3", ".mcap") or path.is_dir():
        if robot is None:
            raise LogError(f"{path.name} is a bag: its joints are known by name", hint="give the robot after the log")
        return _read_table_head(open_table(path, robot, LogMetadata(topic=topic)), rows)
    require_file(path, "log", LogError)
    if suffix in _ARRAY_SUFFIXES:
        with raise_as_damaged(f"{suffix} file", path.name):
            return _read_array_head(open_arrays(path, 0), rows)
    table = open_table(path, robot or _PLACEHOLDER_ROBOT, LogMetadata())
    return _read_text_head(TextTable(path), rows) if suffix in TEXT_FORMATS else _read_table_head(table, rows)


_PLACEHOLDER_ROBOT: Final = Robot("nobody", Link("base"), (Joint("one", "revolute", "base", "tip"),), (Link("tip"),))
"""For readers that take a robot and do not look at it."""


def _read_text_head(table: TextTable, rows: int = DRAFT_ROWS) -> LogHead:
    frame = table.texts(rows)
    cells = frame.select(pl.all().str.strip_chars())
    cells = table.without_names(cells)
    points = pl.all() if table.decimal == "." else pl.all().str.replace(",", ".", literal=True)
    numbers = cells.select(points.cast(pl.Float64, strict=False))
    columns, words = {}, {}
    for name in frame.columns:
        dated = parse_dates(cells[name])
        values = (numbers[name] if dated is None else dated).to_numpy()
        filled = int(cells[name].is_not_null().sum())
        if filled and np.isfinite(values).sum() >= MIN_NUMBER_FRACTION * filled:
            columns[name] = values
        elif filled:
            words[name] = str(cells[name].drop_nulls()[0])
    empty = tuple(name for name in frame.columns if name and name not in columns and name not in words)
    return LogHead(columns, words, {}, table.notes, table.units, empty, table.is_named)


def _read_array_head(table: ArrayTable, rows: int = DRAFT_ROWS) -> LogHead:
    columns = table.head(rows)
    if not columns:
        return LogHead({}, {}, {}, ())
    # Time runs along the length that most arrays share: others are settings, not recordings.
    lengths = [len(values) for values in columns.values()]
    usual = max(set(lengths), key=lambda length: (lengths.count(length) * (length > 1), length))
    return LogHead({name: values for name, values in columns.items() if len(values) == usual}, {}, {}, ())


def _read_table_head(table: LogTable, rows: int = DRAFT_ROWS) -> LogHead:
    columns: dict[str, NDArray[Any]] = {}
    words = {}
    for name in table.names:
        try:
            chunk = next(iter(table.chunks([name], rows)), None)
        except LogError as error:
            words[name] = error.message
            continue
        if chunk is not None:
            columns[name] = chunk[name]
    return LogHead(_keep_equal_lengths(columns, table, rows), words, table.stated, table.notes)


def _keep_equal_lengths(columns: Mapping[str, NDArray[Any]], table: LogTable, rows: int) -> Mapping[str, NDArray[Any]]:
    """The columns at the rows that most of them have: in a bag, messages of a gripper hold no joint of the arm."""
    lengths = Counter(len(values) for values in columns.values())
    if len(lengths) < 2:
        return columns
    usual = max(lengths, key=lambda length: (lengths[length], length))
    whole = next(name for name, values in columns.items() if len(values) == usual)
    made = {}
    for name, values in columns.items():
        found = values if len(values) == usual else next(iter(table.chunks([name, whole], rows)), {name: ()})[name]
        if len(found) == usual:
            made[name] = np.asarray(found)
    return made


def read_lerobot_names(path: Path, array: str, joints: Sequence[str]) -> list[str] | None:
    """The columns of an array as LeRobot's meta/info.json above the file names them, joints by the robot's names."""
    for folder in list(path.resolve().parents)[:3]:
        info = folder / "meta" / "info.json"
        if info.is_file():
            features = read_json(info, "LeRobot's info.json", LogError).get("features", {})
            names = features.get(array, {}).get("names") if isinstance(features, dict) else None
            flat: object = next(iter(names.values()), []) if isinstance(names, dict) else names
            if isinstance(flat, list) and all(isinstance(name, str) for name in flat):
                meant = {_find_joint_name(name, joints) or name: None for name in flat}
                return list(meant) if set(joints) <= set(meant) and len(meant) == len(flat) else None
    return None


def _find_joint_name(name: str, joints: Sequence[str]) -> str | None:
    """The longest joint name, in full or without its ending `_add_joint`, that stands in a name."""
    known = [joint for joint in joints if joint.removesuffix("_joint") in name.removesuffix(".pos")]
    return max(known, key=len, default=None)
