"""Match the columns of a log to the joints of a robot by name."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, list_names, pluralise, shorten_text
from mindyn.logs.formats.tables import Chunk, LogTable
from mindyn.logs.log_errors import LogError
from mindyn.logs.metadata import ColumnNames, LogMetadata
from mindyn.robots.robot import Robot

_LOCK_HINT: Final = (
    "lock joints that were not logged with --lock JOINT=VALUE of mindyn identify, or robot.lock({...}) in Python"
)

_PATTERN_FIELD: Final = re.compile(r"\{\{|\}\}|\{(i0|i|joint)(?::(0?\d)d?)?\}|[{}]")
"""Fields of a pattern. Python's own formatting is not used, because the author of a file could then request huge widths
and attributes.
"""


@dataclass(frozen=True, slots=True)
class ColumnSelection:
    """Columns of a signal in a table: n columns in the robot's order, or one array whose columns are taken in `order`.

    count  number of columns of the array
    """

    names: tuple[str, ...]
    order: tuple[int, ...] | None = None
    count: int = 0

    def take(self, chunk: Chunk) -> Array:
        """Return the values of a chunk, (rows, n) in the robot's order."""
        if self.order is None:
            return np.column_stack([take_column(chunk, name) for name in self.names]).astype(np.float64, copy=False)
        array = chunk[self.names[0]]
        if array.ndim == 1 and self.count == 1:  # a robot with a single joint
            array = array[:, None]
        if array.ndim != 2 or array.shape[1] != self.count:
            raise LogError(
                f"array {self.names[0]!r} has shape {array.shape}, but joints names {pluralise(self.count, 'column')}",
                hint="is this the log of another robot?",
                code=Code.WRONG_SHAPE,
                subject=self.names[0],
            )
        return np.asarray(array[:, self.order], dtype=np.float64)


def take_column(chunk: Chunk, name: str) -> NDArray[Any]:
    """Return a column as (rows,), also from an array with a single column; integers stay integers."""
    values = chunk[name]
    if values.ndim == 2 and values.shape[1] == 1:
        return values[:, 0]
    if values.ndim != 1:
        message = f"column {name!r} is an array of shape {values.shape}; a column has one number in each row"
        raise LogError(message, code=Code.WRONG_SHAPE, subject=name)
    return values


def select_columns(signal: str, metadata: LogMetadata, robot: Robot, table: LogTable) -> ColumnSelection:
    """Select the columns of a signal.

    If they do not match the robot, raise an error that lists all columns and joints.
    """
    entry = metadata.columns[signal]
    if isinstance(entry, str) and "{" not in entry:
        return _select_array(signal, entry, metadata.joints, robot, table)
    names = _expand_column_names(signal, entry, metadata.joints, robot)
    shown = {name: f"{name} (of {joint})" for name, joint in zip(names, robot.primary_names, strict=True)}
    hint = f"is the pattern wrong, or is it the log of another robot? {_LOCK_HINT}"
    require_columns(table, shown, f"{signal} column", robot, _find_misspelled(names, table) or hint)
    return ColumnSelection(names)


MIN_SPELLING_SIMILARITY: Final = 0.9
"""Smallest similarity (`difflib`) of a missing column and one that the file has, to ask whether it is misspelled."""


def _find_misspelled(names: Sequence[str], table: LogTable) -> str:
    """Return a hint if the file has no names, or a column with nearly the name of a missing one; otherwise empty."""
    missing = [name for name in names if name not in table.names]
    if not missing:
        return ""
    if not table.is_named:
        return "the file has no line of column names: add one, or name the columns by number, such as column_1"
    unused = [name for name in table.names if name not in names]
    near = {name: get_close_matches(name, unused, 1, MIN_SPELLING_SIMILARITY) for name in missing[:MAX_COMPARED_NAMES]}
    pairs = [f"{found[0]} for {name}" for name, found in near.items() if found]
    return f"is a name misspelled: {list_names(pairs)}? Rename the column, or list the columns" if pairs else ""


MAX_COMPARED_NAMES: Final = 20


def require_columns(table: LogTable, shown: Mapping[str, str], what: str, robot: Robot | None, hint: str = "") -> None:
    """Raise `LogError` if the table lacks columns. `shown` are the names of the columns in the message."""
    if missing := [name for name in shown if name not in table.names]:
        listed = ", ".join(shown[name] for name in missing)
        message = f"{table.name} has no {what} {listed}; {list_columns_and_joints(table.names, robot)}"
        raise LogError(message, hint=hint, code=Code.UNKNOWN_NAME, subject=missing[0])


def list_unused_joints(
    metadata: LogMetadata, robot: Robot, tables: Mapping[str, LogTable], used: Collection[str] = ()
) -> list[str]:
    """List joints that the robot does not have, but that the log names in every signal of `tables`, and numbered
    columns.

    Joints that the user holds are not listed, because their columns are left out on purpose.

    used  columns with a known meaning, such as time and those of the robot's joints
    """
    named, numbered = [], set[str]()
    for signal, table in tables.items():
        entry = metadata.columns[signal]
        if not isinstance(entry, str) or len(fields := list(_PATTERN_FIELD.finditer(entry))) != 1:
            continue
        before, after = entry[: fields[0].start()], entry[fields[0].end() :]
        matching = [name for name in table.names if name.startswith(before) and name.endswith(after)]
        joints = {name: name[len(before) : len(name) - len(after)] for name in matching if name not in used}
        if fields[0][1] == "joint":
            named.append(set(joints.values()) - {"", *robot.joint_names, *robot.selection.lock})
        else:
            numbered |= {name for name, number in joints.items() if number.isdigit()}
    return sorted(numbered.union(set.intersection(*named) if tables and len(named) == len(tables) else ()))


def list_columns_and_joints(columns: Collection[str], robot: Robot | None) -> str:
    """Format `the file has: a, b; the robot has the joints: c, d`."""
    joints = "" if robot is None else f"; the robot has the joints: {', '.join(robot.primary_names)}"
    return f"the file has: {list_names(columns, 60)}{joints}"


def _expand_column_names(
    signal: str, entry: ColumnNames, joints: Sequence[str] | None, robot: Robot
) -> tuple[str, ...]:
    if joints is not None:
        _require_joints("joints", joints, robot)
    if isinstance(entry, str):
        order = list(joints or robot.primary_names)
        return tuple(expand_pattern(entry, signal, order.index(name), name) for name in robot.primary_names)
    if isinstance(entry, Mapping):
        _require_joints(f"columns.{signal}", list(entry), robot)
        if more := [name for name in entry if name not in robot.primary_names]:
            message = f"columns.{signal} names {', '.join(more)}, which the robot does not have"
            raise LogError(message, hint="remove these entries", code=Code.UNKNOWN_NAME, subject=more[0])
        return tuple(entry[name] for name in robot.primary_names)
    if len(entry) != robot.joint_count:
        raise LogError(
            f"columns.{signal} lists {pluralise(len(entry), 'column')}, but the robot has "
            f"{pluralise(robot.joint_count, 'joint')}: {', '.join(robot.primary_names)}",
            code=Code.WRONG_SHAPE,
            subject=f"columns.{signal}",
        )
    return tuple(entry)


def expand_pattern(pattern: str, signal: str, i: int, joint: str) -> str:
    """Return the column of joint number `i`, counted from 0, that a pattern of a signal names."""
    values = {"i": i + 1, "i0": i, "joint": joint}

    def expand_field(field: re.Match[str]) -> str:
        if field[0] in ("{{", "}}"):
            return field[0][0]
        if field[1] is None or (field[2] is not None and field[1] == "joint"):
            raise LogError(
                f"columns.{signal} = {shorten_text(pattern, 200)!r} is not a pattern",
                hint="a pattern may contain {i} (joints counted from 1), {i0} (from 0), {i:02} (with two digits) and "
                "{joint} (the joint's name)",
                code=Code.INVALID_VALUE,
                subject=f"columns.{signal}",
            )
        return format(values[field[1]], field[2] or "")

    return _PATTERN_FIELD.sub(expand_field, pattern)


def _select_array(
    signal: str, name: str, joints: Sequence[str] | None, robot: Robot, table: LogTable
) -> ColumnSelection:
    require_columns(table, {name: repr(name)}, f"{signal} array", robot)
    if joints is None:
        raise LogError(
            f"columns.{signal} names the array {name!r}, but the order of its columns is missing",
            hint=f"set joints = {list(robot.primary_names)}, in the order of the array's columns",
            code=Code.MISSING_VALUE,
            subject="joints",
        )
    _require_joints("joints", joints, robot)
    return ColumnSelection((name,), tuple(list(joints).index(joint) for joint in robot.primary_names), len(joints))


def _require_joints(what: str, given: Sequence[str], robot: Robot) -> None:
    named = [name for name in given if name in robot.primary_names]
    if sorted(named) != sorted(robot.primary_names):
        raise LogError(
            f"{what} names {', '.join(given)}, but the robot has the joints {', '.join(robot.primary_names)}",
            hint=f"is it the log of another robot? {_LOCK_HINT}",
            code=Code.DISAGREEMENT,
            subject=what,
        )
