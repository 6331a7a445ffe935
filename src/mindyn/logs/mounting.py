"""Compare the mounting of the arm in a log's metadata with that of the robot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from mindyn.algebra.values import Array
from mindyn.errors import Code, InputError
from mindyn.logs.errors import LogError
from mindyn.logs.locations import FileLocation
from mindyn.logs.metadata import LogMetadata, read_sidecar
from mindyn.robots.edits import with_gravity
from mindyn.robots.robot import Robot

GRAVITY_TOLERANCE: Final = 5e-3
"""Relative difference of equal gravities: 9.78 to 9.83 m/s^2 between equator and pole."""


def logged_gravity(metadata: LogMetadata, robot: Robot) -> Array | None:
    """Return the gravity (3,) in the root frame from `gravity` and `mount` of the metadata; None without either."""
    if metadata.gravity is None and metadata.mount is None:
        return None
    down = np.array([0.0, 0.0, -float(np.linalg.norm(robot.gravity))])
    return with_gravity(replace(robot, gravity=down), metadata.gravity, metadata.mount).gravity


def require_mount(metadata: LogMetadata, robot: Robot) -> None:
    """Raise `LogError` if the metadata gives another gravity than the robot has."""
    gravity = logged_gravity(metadata, robot)
    if gravity is not None and not _is_same_gravity(gravity, robot.gravity):
        raise LogError(
            f"the log was recorded with gravity {_format_vector(gravity)} m/s^2 in the root frame, but the robot has "
            f"{_format_vector(robot.gravity)}",
            hint="load the robot with the --gravity or --mount of the log, or correct them in the sidecar file",
            code=Code.DISAGREEMENT,
            subject="gravity",
        )


def apply_logged_mount(robot: Robot, logs: Sequence[FileLocation]) -> Robot:
    """Return the robot with the gravity in the sidecars of its logs; raise `InputError` if logs differ."""
    gravities = {path: _read_sidecar_gravity(path, robot) for path in logs}
    given = {path: gravity for path, gravity in gravities.items() if gravity is not None}
    if not given:
        return robot
    first = next(iter(given.values()))
    other = [
        path
        for path, gravity in gravities.items()
        if not _is_same_gravity(robot.gravity if gravity is None else gravity, first)
    ]
    if other:
        raise InputError(
            f"{', '.join(path.name for path in other)} was recorded with another gravity than {next(iter(given)).name}",
            hint="identify the robot from logs with the same mounting",
            code=Code.DISAGREEMENT,
            subject="gravity",
        )
    return replace(robot, gravity=first)


def _read_sidecar_gravity(path: FileLocation, robot: Robot) -> Array | None:
    sidecar = read_sidecar(path)
    keys = {key: sidecar[key] for key in ("gravity", "mount") if key in sidecar}
    return logged_gravity(LogMetadata().merge_with(keys), robot)


def _is_same_gravity(gravity: Array, other: Array) -> bool:
    return bool(np.linalg.norm(gravity - other) <= GRAVITY_TOLERANCE * max(float(np.linalg.norm(other)), 1e-9))


def _format_vector(gravity: Array) -> str:
    return f"[{', '.join(f'{component:.4g}' for component in gravity + 0.0)}]"
