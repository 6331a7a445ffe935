"""Drives as matrices: motor positions G q, friction speeds F qd, reflected rotor inertia G^T diag(I_m) G."""

from __future__ import annotations

from typing import Final

import numpy as np

from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import RobotError
from mindyn.foundation.notation import DRIVE_PARAMETERS
from mindyn.robots.robot import Robot

MAX_GEAR_CONDITION: Final = 1e12
"""Largest `gear_condition` at which motor positions determine joint positions."""


def gear_matrix(robot: Robot) -> Array:
    """Return G (drives, n): motor positions are G q."""
    G = np.zeros((len(robot.drives), len(robot.joints)))
    for row, drive in zip(G, robot.drives, strict=True):
        row[robot.joint_index(drive.joint)] = drive.ratio
        for joint, ratio in drive.coupling.items():
            row[robot.joint_index(joint)] = ratio
    return G


def friction_matrix(robot: Robot) -> Array:
    """Return F (drives, n): friction acts on the speeds F qd of the motors or joints."""
    F = gear_matrix(robot)
    for row, drive in zip(F, robot.drives, strict=True):
        if drive.side == "joint":
            row[:] = 0.0
            row[robot.joint_index(drive.joint)] = 1.0
    return F


def drive_load_matrix(robot: Robot) -> Array:
    """Return L (n, drives): joint loads (..., n) @ L are the loads of the drives' friction, converted to the joint
    side.

    A motor carries its part of the joint torques, G^-T tau, times its ratio; friction at the joint side carries the
    torque of its joint. Only drives of primary joints have a load: the load of a dependent joint is a force inside the
    loop, which the joint torques do not determine (see `explain_unknown_load`).
    """
    joints = [robot.joint_index(name) for name in robot.primary_names]
    primary = [k for k, drive in enumerate(robot.drives) if drive.joint in robot.primary_names]
    L = np.zeros((len(robot.joints), len(robot.drives)))
    inverse = np.linalg.inv(gear_matrix(robot)[np.ix_(primary, joints)])
    L[np.ix_(joints, primary)] = inverse * np.array([robot.drives[k].ratio for k in primary])
    for k in primary:
        if robot.drives[k].side == "joint":
            L[:, k] = np.eye(len(robot.joints))[robot.joint_index(robot.drives[k].joint)]
    return L


def explain_unknown_load(robot: Robot) -> str:
    """Return why the torques of the primary joints do not determine the loads of the drives; "" if they do."""
    joints = [robot.joint_index(name) for name in robot.primary_names]
    primary = [k for k, drive in enumerate(robot.drives) if drive.joint in robot.primary_names]
    if len(primary) != len(joints):
        return "a joint has no drive"
    G = gear_matrix(robot)[primary]
    if np.delete(G, joints, axis=1).any():
        return "a motor turns with a dependent joint, whose load the joint torques do not determine"
    return "the gear matrix is singular" if gear_condition(G[:, joints]) > MAX_GEAR_CONDITION else ""


def drive_parameters(robot: Robot) -> Array:
    """Return the drive parameters (4 drives + extras,): rotor inertia, viscous and Coulomb friction and offset of each
    drive, then the coefficients of extra torques.
    """
    values = [getattr(drive, name) for drive in robot.drives for name in DRIVE_PARAMETERS]
    return np.array([*values, *(extra.coefficient for extra in robot.extras)])


def reflected_inertia(robot: Robot) -> Array:
    """Return G^T diag(I_m) G (n, n)."""
    G = gear_matrix(robot)
    return np.asarray(G.T @ np.diag([drive.rotor_inertia for drive in robot.drives]) @ G)


def require_invertible_gears(robot: Robot, G: Array) -> Array:
    """Return G; raise `RobotError` if the motors do not determine the joints."""
    condition = gear_condition(G)
    if condition > MAX_GEAR_CONDITION:
        raise RobotError(
            f"the gear matrix of robot {robot.name!r} is singular (condition {condition:.1e}): "
            "the motor positions do not determine the joint positions",
            hint="check the couplings of the drives",
            subject=robot.name,
        )
    return G


def gear_condition(G: Array) -> float:
    """Return the condition number of a gear matrix (n, n).

    Its rows are first scaled to length 1, so that gear ratios have no effect.
    """
    return float(np.linalg.cond(G / np.maximum(np.abs(G).max(axis=1, keepdims=True), np.finfo(float).tiny)))
