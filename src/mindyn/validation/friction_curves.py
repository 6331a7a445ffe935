"""Friction of one joint over its speed, as an estimate has it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from mindyn.algebra.values import Array
from mindyn.equations.loop_closure import home_closure
from mindyn.equations.loop_constraints import primary_joints
from mindyn.estimators.estimate import Estimate
from mindyn.regression.regressor import Regressor

COLUMN_ROUNDING_RATIO: Final = 1e-13
"""Differences of columns below this part of their values at rest are rounding."""


@dataclass(frozen=True, slots=True, eq=False)
class FrictionCurve:
    """Friction torque less its value at rest: speed, torque, half its 95 % interval (infinite where untold)."""

    joint: str
    speed: Array
    torque: Array
    half_width: Array


def friction_curve(estimate: Estimate, joint: int, speeds: ArrayLike) -> FrictionCurve:
    """tau(qd) - tau(0) of a joint that moves alone and steadily: its own motion has no centrifugal torque on it.

    Friction that grows with the load is left out: the curve is that of a joint without load (`load_friction`).
    """
    u = np.asarray(speeds, dtype=np.float64)
    regressor = _steady_regressor(estimate.regressor)
    columns = regressor.columns[joint]
    rest = _rows(regressor, joint, np.zeros(1))
    rows = _rows(regressor, joint, u) - rest
    rows[:, [bool(regressor.parameters[k].load_shape) for k in columns]] = 0.0
    if estimate.robot.loops:  # through a loop a joint's own motion has a centrifugal torque on it
        rows[:, regressor.rigid[columns]] = 0.0
    rows[np.abs(rows) <= COLUMN_ROUNDING_RATIO * np.abs(rest).max()] = 0.0
    whole = np.zeros((len(rows), len(estimate.beta)))
    whole[:, columns] = rows
    return FrictionCurve(regressor.joint_names[joint], u, whole @ estimate.beta, estimate.half_widths_of(whole))


def load_friction(estimate: Estimate, joint: int) -> tuple[float, float] | None:
    """Parts of its load that a joint's friction takes besides, driven and braked; None where none was fitted."""
    name = estimate.regressor.joint_names[joint]
    own = {one.load_shape: k for k, one in enumerate(estimate.parameters) if one.link_or_joint == name}
    if "load" not in own:
        return None
    mean, half = (float(estimate.beta[own[shape]]) if shape in own else 0.0 for shape in ("load", "driving"))
    return mean + half, mean - half


def _steady_regressor(regressor: Regressor) -> Regressor:
    """With the stop operator at its end, where steady motion brings it."""
    if regressor.friction.direction != "stop":
        return regressor
    return regressor.with_friction(replace(regressor.friction, direction="sign", width=0.0))


def _rows(regressor: Regressor, joint: int, speeds: Array) -> Array:
    """A joint's row of the regressor at steady speeds, all joints at zero, or closed at home."""
    still, robot = np.zeros((len(speeds), regressor.joint_count)), regressor.robot
    q = still if not robot.loops else still + home_closure(robot).home[list(primary_joints(robot))]
    qd = still.copy()
    qd[:, joint] = speeds
    directions = regressor.directions(q, qd, np.zeros(len(speeds), dtype=np.int64), 1.0)
    return np.concatenate(regressor.parts(q, qd, still, directions)[joint], axis=1)
