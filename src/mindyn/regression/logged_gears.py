"""Drives of a robot that states none, from the gear matrix that its logs were converted by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from mindyn.algebra.values import Array
from mindyn.logs.conversion import motor_gears
from mindyn.logs.statement import Statement
from mindyn.robots.drive_matrices import gear_matrix
from mindyn.robots.parts import Drive
from mindyn.robots.robot import Robot


def with_logged_gears(robot: Robot, statements: Sequence[Statement]) -> tuple[Robot, list[str]]:
    """The robot with drives that are coupled as the logs' gear matrices say, and a note; else the robot as it is.

    Rotors and motor friction act on the motors' speeds, which are mixtures of joint speeds where G is not diagonal.
    Of a diagonal G nothing is taken: scaled by a ratio, rotor inertia and friction are the same columns.
    """
    stated = [motor_gears(one, robot) for one in statements if one.gears is not None]
    coupled = [G for G in stated if not np.array_equal(G, np.diag(np.diag(G)))]
    if not coupled or robot.has_dependents:
        return robot, []
    if len(stated) < len(statements) or not all(np.array_equal(G, stated[0]) for G in stated):
        return robot, [
            "the logs state different gears: none of them couples friction and rotors; give the robot drives"
        ]
    G = stated[0]
    if robot.drives:
        same = len(robot.drives) == len(G) and np.allclose(_by_joint(robot), G)
        return robot, [] if same else ["the log's gears are not those of the robot's drives; both were used as stated"]
    if not np.diag(G).all():
        return robot, [
            "the log's gears have a motor that its own joint does not turn: friction and rotors stay uncoupled"
        ]
    drives = tuple(_drive(name, j, G, robot.joint_names) for j, name in enumerate(robot.joint_names))
    said = ", ".join(f"{d.joint} with {', '.join(d.coupling)}" for d in drives if d.coupling)
    return replace(robot, drives=drives), [f"friction and rotors are coupled as the log's gears say: {said}"]


def _drive(name: str, j: int, G: Array, names: Sequence[str]) -> Drive:
    coupling = {other: float(G[j, k]) for k, other in enumerate(names) if k != j and G[j, k]}
    return Drive(name, float(G[j, j]), coupling, side="motor")


def _by_joint(robot: Robot) -> Array:
    driven = [drive.joint for drive in robot.drives]
    return gear_matrix(robot)[[driven.index(name) for name in robot.joint_names]]
