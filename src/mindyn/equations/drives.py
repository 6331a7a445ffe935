"""Drives: rotor inertia, friction and offsets, seen from the joints.

q_motor = G q, tau_joint = G^T tau_motor; rotor inertia reflects as G^T diag(I_m) G. Friction and offset act on the
motor's motion G qd or on the joint's own, as each drive states.
"""

from __future__ import annotations

import casadi
import numpy as np

from mindyn.algebra.values import Array
from mindyn.equations.chain import SX, constant
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


def drive_torques(robot: Robot, qd: SX, qdd: SX, parameters: SX | None = None) -> SX:
    """Torques (n, 1) at the joints that the drives themselves take; `parameters` (4 drives,) as symbols."""
    G, F = constant(gear_matrix(robot)), constant(friction_matrix(robot))
    if parameters is None:
        parameters = constant(drive_parameters(robot))
    inertia, viscous, coulomb, offset = (casadi.densify(parameters[k :: len(DRIVE_PARAMETERS)]) for k in range(4))
    speed = casadi.densify(F @ qd)
    friction = viscous * speed + coulomb * casadi.sign(speed) + offset
    return G.T @ (inertia * casadi.densify(G @ qdd)) + F.T @ friction
