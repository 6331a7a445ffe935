"""Friction of one joint as a function of its speed, from an estimate."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from mindyn.equations.loop_closure import home_closure
from mindyn.equations.loop_constraints import primary_joints
from mindyn.foundation.algebra.values import Array
from mindyn.identification.estimators.estimate import Estimate
from mindyn.identification.estimators.estimate_records import FrictionCurve
from mindyn.regression.regressor import Regressor

COLUMN_ROUNDING_RATIO: Final = 1e-13
"""Differences of columns, relative to their values at rest, below this are rounding errors."""


def friction_curve(estimate: Estimate, joint: int, speeds: ArrayLike, load: float = 0.0) -> FrictionCurve:
    """Return tau(qd) - tau(0) of a joint that moves alone at constant speed, without centrifugal torque.

    Friction that grows with the load is computed for a mean |load| in N m or N (see `load_friction`), zero by default.
    The half-width of the band is infinite if friction is unidentifiable.
    """
    u = np.asarray(speeds, dtype=np.float64)
    rows = curve_rows(estimate.regressor, joint, u, load)
    name = estimate.regressor.joint_names[joint]
    return FrictionCurve(name, u, rows @ estimate.beta, estimate.uncertainty.half_widths_of(rows), load=load)


def curve_rows(regressor: Regressor, joint: int, speeds: Array, load: float) -> Array:
    """Return rows (k, p) with tau(qd) - tau(0) = rows @ beta for a joint that moves alone under a mean |load|."""
    if regressor.friction.direction == "stop":  # in steady motion, the stop operator is at its limit
        regressor = regressor.with_friction(replace(regressor.friction, direction="sign", width=0.0))
    columns = regressor.columns[joint]
    rest = _constant_speed_rows(regressor, joint, np.zeros(1))
    rows = _constant_speed_rows(regressor, joint, speeds) - rest
    rows[:, [bool(regressor.parameters[k].load_shape) for k in columns]] = 0.0
    if regressor.robot.loops:  # through a loop, the motion of a joint exerts a centrifugal torque on itself
        rows[:, regressor.rigid[columns]] = 0.0
    rows[np.abs(rows) <= COLUMN_ROUNDING_RATIO * np.abs(rest).max()] = 0.0
    columns_of_all = np.zeros((len(rows), regressor.count))
    columns_of_all[:, columns] = rows
    for k, parameter in enumerate(regressor.parameters):
        if parameter.load_shape == "load" and parameter.link_or_joint == regressor.joint_names[joint]:
            columns_of_all[:, k] = load * np.sign(speeds)
    return columns_of_all


def load_friction(estimate: Estimate, joint: int) -> tuple[float, float] | None:
    """Return friction relative to the load of a joint, while the motor drives it and while it brakes; None without such
    friction.
    """
    name = estimate.regressor.joint_names[joint]
    numbers = {
        parameter.load_shape: k for k, parameter in enumerate(estimate.parameters) if parameter.link_or_joint == name
    }
    if "load" not in numbers:
        return None
    mean, half = (float(estimate.beta[numbers[shape]]) if shape in numbers else 0.0 for shape in ("load", "driving"))
    return mean + half, mean - half


def _constant_speed_rows(regressor: Regressor, joint: int, speeds: Array) -> Array:
    """Return the rows of a joint of the regressor at constant speeds, with all joints at zero (with loops, at home)."""
    still, robot = np.zeros((len(speeds), regressor.joint_count)), regressor.robot
    q = still if not robot.loops else still + home_closure(robot).home[list(primary_joints(robot))]
    qd = still.copy()
    qd[:, joint] = speeds
    directions = regressor.directions(q, qd, np.zeros(len(speeds), dtype=np.int64), 1.0)
    return np.concatenate(regressor.parts(q, qd, still, directions)[joint], axis=1)
