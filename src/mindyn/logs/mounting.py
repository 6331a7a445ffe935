"""How the arm was mounted when a log was made: what its sidecar says, beside the robot that reads it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from mindyn.algebra.values import Array
from mindyn.errors import InputError
from mindyn.logs.errors import LogError
from mindyn.logs.locations import FileLocation
from mindyn.logs.metadata import LogMetadata, read_sidecar
from mindyn.robots.edits import with_gravity
from mindyn.robots.robot import Robot

GRAVITY_TOLERANCE: Final = 5e-3
"""Gravities that differ by less of their size are one: 9.78 to 9.83 m/s^2 between equator and pole."""


def logged_gravity(statement: LogMetadata, robot: Robot) -> Array | None:
    """(3,) in the root's frame that the statement's `gravity` and `mount` say; None where it says neither."""
    if statement.gravity is None and statement.mount is None:
        return None
    down = np.array([0.0, 0.0, -float(np.linalg.norm(robot.gravity))])
    return with_gravity(replace(robot, gravity=down), statement.gravity, statement.mount).gravity


def require_mount(statement: LogMetadata, robot: Robot) -> None:
    """Refuse to read a log for a robot under another gravity than the log states."""
    stated = logged_gravity(statement, robot)
    if stated is not None and not _is_same_gravity(stated, robot.gravity):
        raise LogError(
            f"the log was made under a gravity of {_format_vector(stated)} m/s^2 in the root's frame, the robot has "
            f"{_format_vector(robot.gravity)}",
            hint="give the robot --gravity or --mount as the log says, or correct them in the sidecar file",
        )


def apply_logged_mount(robot: Robot, logs: Sequence[FileLocation]) -> Robot:
    """The robot under the gravity that the sidecars of its logs state; refuses logs that differ."""
    said = {path: _read_sidecar_gravity(path, robot) for path in logs}
    stated = {path: gravity for path, gravity in said.items() if gravity is not None}
    if not stated:
        return robot
    first = next(iter(stated.values()))
    other = [
        path
        for path, gravity in said.items()
        if not _is_same_gravity(robot.gravity if gravity is None else gravity, first)
    ]
    if other:
        raise InputError(
            f"{', '.join(path.name for path in other)} was made under another gravity than {next(iter(stated)).name}",
            hint="identify the robot from logs of one mounting at a time",
        )
    return replace(robot, gravity=first)


def _read_sidecar_gravity(path: FileLocation, robot: Robot) -> Array | None:
    sidecar = read_sidecar(path)
    keys = {key: sidecar[key] for key in ("gravity", "mount") if key in sidecar}
    return logged_gravity(LogMetadata().merged(keys), robot)


def _is_same_gravity(one: Array, other: Array) -> bool:
    return bool(np.linalg.norm(one - other) <= GRAVITY_TOLERANCE * max(float(np.linalg.norm(other)), 1e-9))


def _format_vector(gravity: Array) -> str:
    return f"[{', '.join(f'{component:.4g}' for component in gravity + 0.0)}]"
