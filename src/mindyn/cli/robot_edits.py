"""What options of a command change of the robot that it is given: drives from a file, joints held."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import isfinite
from pathlib import Path

from mindyn.errors import InputError
from mindyn.robots.files import read_text
from mindyn.robots.robot import Robot
from mindyn.robots.toml_reader import read_drives


def edited_robot(robot: Robot, drives: Path | None, locked: Sequence[str]) -> Robot:
    """The robot with the drives of a file above its own, then with the joints of `JOINT=VALUE` held."""
    if drives is not None:
        stated = {drive.joint: drive for drive in (*robot.drives, *read_drives(read_text(drives)))}
        robot = replace(robot, drives=tuple(stated.values()))
    return robot.lock(dict(map(_held, locked))) if locked else robot


def _held(text: str) -> tuple[str, float]:
    name, _, value = text.rpartition("=")
    try:
        position = float(value)
        if not isfinite(position):
            raise ValueError(value)
        return name, position
    except ValueError as error:
        raise InputError(f"--lock {text!r} is not JOINT=VALUE", hint="like --lock gripper=0.02, in rad or m") from error
