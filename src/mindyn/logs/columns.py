"""Columns of a log matched to the joints of a robot, by name."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mindyn.algebra.values import Array
from mindyn.errors import shorten_text
from mindyn.logs.errors import LogError
from mindyn.logs.metadata import ColumnNames, LogMetadata
from mindyn.logs.tables import Chunk, LogTable
from mindyn.robots.robot import Robot

_LOCK_HINT: Final = (
    "unlogged joints are locked by --lock JOINT=VALUE of mindyn identify, in Python by robot.lock({...})"
)

_PATTERN_FIELD: Final = re.compile(r"\{\{|\}\}|\{(i0|i|joint)(?::(0?\d)d?)?\}|[{}]")
"""What patterns may hold; Python's own formatting would give a file's author widths of gigabytes and attributes."""


@dataclass(frozen=True, slots=True)
class ColumnSelection:
    """How a signal is taken from a table: n columns in the robot's order, or the `order` of one array's columns.

    count  columns of the array
    """

    signal: str
    names: tuple[str, ...]
    order: tuple[int, ...] | None = None
    count: int = 0

    def take(self, chunk: Chunk) -> Array:
        """(rows, n) in the robot's order."""
        if self.order is None:
            return np.column_stack([take_column(chunk, name) for name in self.names]).astype(np.float64, copy=False)
        array = chunk[self.names[0]]
        if array.ndim == 1 and self.count == 1:  # a robot of one joint
            array = array[:, None]
        if array.ndim != 2 or array.shape[1] != self.count:
            raise LogError(
                f"array {self.names[0]!r} has shape {array.shape}, but `joints` names {self.count} "
                f"column{'s' * (self.count != 1)}",
                hint="is this the log of another robot?",
            )
        return np.asarray(array[:, self.order], dtype=np.float64)


def take_column(chunk: Chunk, name: str) -> NDArray[Any]:
    """(rows,) one number in each row, of an array of one column too; integers stay integers."""
    values = chunk[name]
    if values.ndim == 2 and values.shape[1] == 1:
        return values[:, 0]
    if values.ndim != 1:
        raise LogError(f"column {name!r} is an array of shape {values.shape}; one number in each row is needed")
    return values


def select_columns(signal: str, statement: LogMetadata, robot: Robot, table: LogTable) -> ColumnSelection:
    """The columns of one signal; the error lists the table's columns and the robot's joints when they do not match."""
    stated = statement.columns[signal]
    if isinstance(stated, str) and "{" not in stated:
        return _select_array(signal, stated, statement.joints, robot, table)
    names = _expand_column_names(signal, stated, statement.joints, robot)
    pairs = zip(names, robot.primary_names, strict=True)
    missing = [f"{name} (of {joint})" for name, joint in pairs if name not in table.names]
    if missing:
        raise LogError(
            f"{table.name} has no {signal} column {', '.join(missing)}; {list_columns_and_joints(table.names, robot)}",
            hint=f"is it the log of another robot, or is the pattern another? {_LOCK_HINT}",
        )
    return ColumnSelection(signal, names)


def list_unused_joints(
    statement: LogMetadata, robot: Robot, tables: Mapping[str, LogTable], used: Collection[str] = ()
) -> list[str]:
    """Joints that the log has by name, in all of the signals of `tables`, and the robot has not.

    used  columns of known meaning, as of time: they name no joint
    """
    around = [_split_pattern(statement.columns[signal]) for signal in tables]
    if None in around or not around:
        return []
    named = [
        {
            name[len(a) : len(name) - len(b)]
            for name in table.names
            if name.startswith(a) and name.endswith(b) and name not in used
        }
        for (a, b), table in zip(filter(None, around), tables.values(), strict=True)
    ]
    return sorted(set.intersection(*named) - {"", *robot.joint_names})


def _split_pattern(stated: ColumnNames) -> tuple[str, str] | None:
    """What a pattern has before and after {joint}; None where it is another."""
    before, mark, after = stated.partition("{joint}") if isinstance(stated, str) else ("", "", "")
    return (before, after) if mark and "{" not in before + after else None


def list_columns_and_joints(columns: Collection[str], robot: Robot) -> str:
    """`the file has: a, b; the robot has the joints: c, d`."""
    shown = list(columns)[:60]
    rest = f" and {len(columns) - len(shown)} more" if len(columns) > len(shown) else ""
    return f"the file has: {', '.join(shown)}{rest}; the robot has the joints: {', '.join(robot.primary_names)}"


def _expand_column_names(
    signal: str, stated: ColumnNames, joints: Sequence[str] | None, robot: Robot
) -> tuple[str, ...]:
    if joints is not None:
        _require_joints("joints", joints, robot)
    if isinstance(stated, str):
        order = list(joints or robot.primary_names)
        return tuple(_expand_pattern(stated, signal, order.index(name), name) for name in robot.primary_names)
    if isinstance(stated, Mapping):
        _require_joints(f"columns.{signal}", list(stated), robot)
        if more := [name for name in stated if name not in robot.primary_names]:
            raise LogError(
                f"columns.{signal} names {', '.join(more)}, which the robot does not have", hint="leave them out"
            )
        return tuple(stated[name] for name in robot.primary_names)
    if len(stated) != len(robot.primary_names):
        raise LogError(
            f"columns.{signal} lists {len(stated)} columns, but the robot has {len(robot.primary_names)} joints: "
            f"{', '.join(robot.primary_names)}"
        )
    return tuple(stated)


def _expand_pattern(pattern: str, signal: str, i: int, joint: str) -> str:
    values = {"i": i + 1, "i0": i, "joint": joint}

    def replaced(field: re.Match[str]) -> str:
        if field[0] in ("{{", "}}"):
            return field[0][0]
        if field[1] is None or (field[2] is not None and field[1] == "joint"):
            raise LogError(
                f"columns.{signal} = {shorten_text(pattern, 200)!r} is not a pattern",
                hint="a pattern may hold {i} (joints counted from 1), {i0} (from 0), {i:02} (with two digits) and "
                "{joint} (the joint's name)",
            )
        return format(values[field[1]], field[2] or "")

    return _PATTERN_FIELD.sub(replaced, pattern)


def _select_array(
    signal: str, name: str, joints: Sequence[str] | None, robot: Robot, table: LogTable
) -> ColumnSelection:
    if name not in table.names:
        raise LogError(f"{table.name} has no {signal} array {name!r}; {list_columns_and_joints(table.names, robot)}")
    if joints is None:
        raise LogError(
            f"columns.{signal} names the array {name!r}, but the order of its columns is not stated",
            hint=f"state joints = {list(robot.primary_names)}, in the order of the array's columns",
        )
    _require_joints("joints", joints, robot)
    return ColumnSelection(
        signal, (name,), tuple(list(joints).index(joint) for joint in robot.primary_names), len(joints)
    )


def _require_joints(what: str, given: Sequence[str], robot: Robot) -> None:
    named = [name for name in given if name in robot.primary_names]
    if sorted(named) != sorted(robot.primary_names):
        raise LogError(
            f"{what} names {', '.join(given)}, but the robot has the joints {', '.join(robot.primary_names)}",
            hint=f"is it the log of another robot? {_LOCK_HINT}",
        )


def list_unused_columns(statement: LogMetadata, robot: Robot, tables: Mapping[str, LogTable]) -> list[str]:
    """Notes on numbered columns that go on past the robot's last joint: a gripper, an axis, or another robot."""
    notes = []
    for signal, table in tables.items():
        stated = statement.columns[signal]
        if not isinstance(stated, str) or "{i" not in stated:
            continue
        more: list[str] = []
        count = len(statement.joints or robot.primary_names)
        while (following := _expand_pattern(stated, signal, count + len(more), "")) in table.names:
            more.append(following)
        if more:
            notes.append(
                f"{signal} columns after those of the robot's {len(robot.primary_names)} joints are not used: "
                f"{', '.join(more)}"
            )
    return notes
