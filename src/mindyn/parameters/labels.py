"""Names of standard and drive parameters: `Izz3`, `mcx3`, `Im2` (rotor inertia), `fv2`, `fc2`, `fo2`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mindyn.notation import DRIVE_PARAMETERS, LINK_PARAMETERS
from mindyn.robots.robot import Robot

DRIVE_SYMBOLS: Final[Mapping[str, str]] = {"rotor_inertia": "Im", "viscous": "fv", "coulomb": "fc", "offset": "fo"}


def parameter_labels(robot: Robot, *, drives: bool) -> tuple[str, ...]:
    """Return symbol and joint number of every parameter, in the order of phi and, with `drives`, of drives."""
    links = [f"{symbol}{i + 1}" for i in range(robot.joint_count) for symbol in LINK_PARAMETERS]
    numbers = [robot.joint_index(drive.joint) + 1 for drive in robot.drives] if drives else []
    extras = [extra.name for extra in robot.extras] if drives else []
    return (*links, *(f"{DRIVE_SYMBOLS[name]}{i}" for i in numbers for name in DRIVE_PARAMETERS), *extras)
