"""Read the first rows of a log without metadata: columns of numbers, and the first cell of other columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mindyn.errors import Code
from mindyn.logs.array_table import ArrayTable, open_arrays
from mindyn.logs.errors import LogError
from mindyn.logs.formats import TEXT_FORMATS, open_table
from mindyn.logs.lerobot_table import INFO_FILE, is_lerobot_folder, match_motor_names
from mindyn.logs.metadata import LogMetadata
from mindyn.logs.tables import LogTable, raise_as_damaged
from mindyn.logs.text_table import TextTable
from mindyn.reading import read_json, require_file
from mindyn.robots.parts import Joint, Link
from mindyn.robots.robot import Robot

DRAFT_ROWS: Final = 20_000
"""Rows that a draft is based on."""
LONG_DRAFT_ROWS: Final = 20 * DRAFT_ROWS
"""Rows if nothing moves in the first `DRAFT_ROWS`: recordings often start before the motion."""
MIN_NUMBER_FRACTION: Final = 0.5
"""Smallest fraction of numeric cells in a column of numbers."""
_ARRAY_SUFFIXES: Final = (".npz", ".mat", ".h5", ".hdf5")


@dataclass(frozen=True, slots=True, eq=False)
class LogHead:
    """First rows of a log.

    columns   name -> (rows,) numbers, or (rows, k) if a cell holds k numbers
    words     name -> first cell of a column without numbers
    metadata  metadata that the format itself defines (see `LogMetadata`)
    notes     notes on the file
    units     name -> unit from a line of units
    empty     columns without any value
    is_named  whether the file names its columns
    """

    columns: Mapping[str, NDArray[Any]]
    words: Mapping[str, str]
    metadata: Mapping[str, Any]
    notes: tuple[str, ...]
    units: Mapping[str, str] = field(default_factory=dict)
    empty: tuple[str, ...] = ()
    is_named: bool = True


def read_log_head(
    path: Path,
    robot: Robot | None,
    rows: int = DRAFT_ROWS,
    metadata: LogMetadata = LogMetadata(),  # noqa: B008
) -> LogHead:
    """Read the first rows of a log file; a bag needs the robot, because its joints are matched by name."""
    suffix, is_folder = path.suffix.lower(), path.is_dir()
    if robot is None and (suffix in (".db3", ".mcap") or is_folder) and not is_lerobot_folder(path):
        message = f"{path.name} is a bag, whose joints are matched by name with a robot"
        raise LogError(message, hint="give the robot after the log", code=Code.MISSING_VALUE, subject="robot")
    if suffix in _ARRAY_SUFFIXES and not is_folder:
        require_file(path, "log", LogError)
        with raise_as_damaged(f"{suffix} file", path.name):
            return _read_array_head(open_arrays(path, 0), rows)
    table = open_table(path, robot or _PLACEHOLDER_ROBOT, metadata)
    if suffix in TEXT_FORMATS and not is_folder:
        return _read_text_head(TextTable(path, metadata.separator, metadata.decimal, metadata.skip_rows), rows)
    return _read_table_head(table, rows)


_PLACEHOLDER_ROBOT: Final = Robot(
    "placeholder", Link("base"), (Joint("joint", "revolute", "base", "tip"),), (Link("tip"),)
)
"""Robot for readers that require one but do not use it."""


def _read_text_head(table: TextTable, rows: int = DRAFT_ROWS) -> LogHead:
    cells, numbers = table.convert_texts(table.texts(rows))
    columns, words = {}, {}
    for name in cells.columns:
        values = numbers[name].to_numpy()
        filled = int(cells[name].is_not_null().sum())
        if filled and np.isfinite(values).sum() >= MIN_NUMBER_FRACTION * filled:
            columns[name] = values
        elif filled:
            words[name] = str(cells[name].drop_nulls()[0])
    empty = tuple(name for name in cells.columns if name and name not in columns and name not in words)
    return LogHead(columns, words, {}, table.notes, table.units, empty, table.is_named)


def _read_array_head(table: ArrayTable, rows: int = DRAFT_ROWS) -> LogHead:
    columns = table.head(rows)
    # Arrays of the most frequent length are recordings; others are settings.
    lengths = [len(values) for values in columns.values()]
    usual = max(set(lengths), key=lambda length: (lengths.count(length) * (length > 1), length), default=0)
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
    return LogHead(_keep_equal_lengths(columns, table, rows), words, table.metadata, table.notes)


def _keep_equal_lengths(columns: Mapping[str, NDArray[Any]], table: LogTable, rows: int) -> Mapping[str, NDArray[Any]]:
    """Return the columns at the rows that most of them share: in a bag, gripper messages hold no joint of the arm."""
    lengths = Counter(len(values) for values in columns.values())
    if len(lengths) < 2:
        return columns
    usual = max(lengths, key=lambda length: (lengths[length], length))
    whole = next(name for name, values in columns.items() if len(values) == usual)
    shared = {}
    for name, values in columns.items():
        taken = values if len(values) == usual else next(iter(table.chunks([name, whole], rows)), {name: ()})[name]
        if len(taken) == usual:
            shared[name] = np.asarray(taken)
    return shared


def read_lerobot_names(path: Path, array: str, joints: Sequence[str]) -> list[str] | None:
    """Read the names of an array's columns from LeRobot's meta/info.json, with joints by the robot's names."""
    for folder in list(path.resolve().parents)[:3]:
        info = folder / INFO_FILE
        if info.is_file():
            return match_motor_names(read_json(info, "LeRobot's info.json", LogError), array, joints)
    return None
