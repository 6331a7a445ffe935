"""Drives as matrices: motor positions G q, friction speeds F qd, reflected rotor inertia G^T diag(I_m) G."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from mindyn.algebra.values import Array
from mindyn.errors import InputError, MissingPhysicsError, RobotError
from mindyn.notation import DRIVE_PARAMETERS
from mindyn.robots.robot import Robot

MAX_GEAR_CONDITION: Final = 1e12
"""`gear_condition` above which motors do not determine joints."""


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


def drive_load_matrix(robot: Robot) -> Array:
    """L (n, drives): loads of the drives' friction, joint side, are load @ L for loads (..., n) of the joints.

    A motor carries what its gears make of the joints' torques, G^-T tau, times its own ratio; friction at the joint
    side carries its joint's. All of it is of primary joints: drives of dependent ones have no share, for what their
    pins carry is a force of the loop, which no torque tells (see `explain_unknown_load`).
    """
    joints = [robot.joint_index(name) for name in robot.primary_names]
    own = [k for k, drive in enumerate(robot.drives) if drive.joint in robot.primary_names]
    L = np.zeros((robot.joint_count, len(robot.drives)))
    inverse = np.linalg.inv(gear_matrix(robot)[np.ix_(own, joints)])
    L[np.ix_(joints, own)] = inverse * np.array([robot.drives[k].ratio for k in own])
    for k in own:
        if robot.drives[k].side == "joint":
            L[:, k] = np.eye(robot.joint_count)[robot.joint_index(robot.drives[k].joint)]
    return L


def explain_unknown_load(robot: Robot) -> str:
    """Why the loads of the drives are not known of the torques of the primary joints; empty where they are."""
    joints = [robot.joint_index(name) for name in robot.primary_names]
    own = [k for k, drive in enumerate(robot.drives) if drive.joint in robot.primary_names]
    if len(own) != len(joints):
        return "a joint has no drive, whose friction it would be"
    G = gear_matrix(robot)[own]
    if np.delete(G, joints, axis=1).any():
        return "a motor turns with a dependent joint, whose pin carries what no torque tells"
    return "the gear matrix is singular" if gear_condition(G[:, joints]) > MAX_GEAR_CONDITION else ""


def drive_parameters(robot: Robot) -> Array:
    """(4 drives + extras,): rotor inertia, viscous, Coulomb, offset of every drive; then the extras' coefficients."""
    values = [getattr(drive, name) for drive in robot.drives for name in DRIVE_PARAMETERS]
    return np.array([*values, *(extra.coefficient for extra in robot.extras)])


def reflected_inertia(robot: Robot) -> Array:
    """G^T diag(I_m) G (n, n)."""
    G = gear_matrix(robot)
    return np.asarray(G.T @ np.diag([drive.rotor_inertia for drive in robot.drives]) @ G)


def joint_to_motor_motion(robot: Robot, joints: ArrayLike) -> Array:
    """Motor positions, velocities or accelerations (..., drives) of joint ones (..., n): G q."""
    return np.asarray(_require_columns(joints, robot.joint_count, "joints") @ gear_matrix(robot).T)


def motor_to_joint_motion(robot: Robot, motors: ArrayLike) -> Array:
    """Joint positions, velocities or accelerations (..., n) of motor ones (..., n): G^-1 q_motor."""
    G = invertible_gear_matrix(robot)
    return np.asarray(np.linalg.solve(G, _require_columns(motors, len(G), "motors")[..., None])[..., 0])


def motor_to_joint_torques(robot: Robot, motors: ArrayLike) -> Array:
    """Joint torques (..., n) of transmitted motor torques (..., drives): G^T tau_motor."""
    return np.asarray(_require_columns(motors, len(robot.drives), "motor torques") @ gear_matrix(robot))


def joint_to_motor_torques(robot: Robot, joints: ArrayLike) -> Array:
    """Motor torques (..., n) that give joint torques (..., n): G^-T tau [Yoshida 1996, eq. 3.7]."""
    G = invertible_gear_matrix(robot)
    return np.asarray(np.linalg.solve(G.T, _require_columns(joints, len(G), "joint torques")[..., None])[..., 0])


def _require_columns(values: ArrayLike, count: int, what: str) -> Array:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim == 0 or array.shape[-1] != count:
        raise InputError(f"{what} have shape {array.shape}, but (..., {count}) is needed")
    return array


def invertible_gear_matrix(robot: Robot) -> Array:
    """G (n, n), refused where it does not determine the joints from the motors."""
    require_drives(robot, robot.joint_names)
    return require_invertible_gears(robot, gear_matrix(robot))


def require_drives(robot: Robot, joints: Sequence[str]) -> None:
    """Refuses a robot that states no drive of one of the joints."""
    driven = {drive.joint for drive in robot.drives}
    missing = [name for name in joints if name not in driven]
    if missing:
        raise MissingPhysicsError(
            f"robot {robot.name!r} states no drive of: {', '.join(missing)}",
            hint="add a [[drive]] table for each joint to the robot file",
        )


def require_invertible_gears(robot: Robot, G: Array) -> Array:
    """G itself, refused where it does not determine the joints from the motors."""
    condition = gear_condition(G)
    if condition > MAX_GEAR_CONDITION:
        raise RobotError(
            f"the gear matrix of robot {robot.name!r} is singular (condition {condition:.1e}): "
            "its motors do not determine its joints",
            hint="check the couplings",
        )
    return G


def gear_condition(G: Array) -> float:
    """Condition number of a gear matrix (n, n) whose rows are scaled to 1: ratios alone do not make it large."""
    return float(np.linalg.cond(G / np.maximum(np.abs(G).max(axis=1, keepdims=True), np.finfo(float).tiny)))
