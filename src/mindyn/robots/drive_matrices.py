"""Drives as matrices: motor positions G q, friction speeds F qd, reflected rotor inertia G^T diag(I_m) G."""

from __future__ import annotations

import numpy as np

from mindyn.algebra.values import Array
from mindyn.notation import DRIVE_PARAMETERS
from mindyn.robots.robot import Robot


def gear_matrix(robot: Robot) -> Array:
    """G (drives, n): motor positions are G q."""
    G = np.zeros((len(robot.drives), robot.joint_count))
    for row, drive in zip(G, robot.drives, strict=True):
        row[robot.joint_index(drive.joint)] = drive.ratio
        for joint, ratio in drive.coupling.items():
            row[robot.joint_index(joint)] = ratio
    return G


def friction_matrix(robot: Robot) -> Array:
    """F (drives, n): the speeds that friction acts on are F qd, those of the motors or of the joints."""
    F = gear_matrix(robot)
    for row, drive in zip(F, robot.drives, strict=True):
        if drive.side == "joint":
            row[:] = 0.0
            row[robot.joint_index(drive.joint)] = 1.0
    return F


def drive_parameters(robot: Robot) -> Array:
    """(4 drives,): rotor inertia, viscous, Coulomb and offset of every drive."""
    return np.array([getattr(drive, name) for drive in robot.drives for name in DRIVE_PARAMETERS])


def reflected_inertia(robot: Robot) -> Array:
    """G^T diag(I_m) G (n, n)."""
    G = gear_matrix(robot)
    return np.asarray(G.T @ np.diag([drive.rotor_inertia for drive in robot.drives]) @ G)
