"""Estimate the delay of a torque relative to the motion, with its interval, together with effects that look like a
delay.

A torque that is late by d is, to first order, the torque minus d times its derivative:

    tau_j = Y_j beta + A_j a - d tau_j' + e

A are the columns of the alternatives: friction curves of other shapes, friction that depends on the load, and
accelerations with other amplitudes than those of a rigid body, as an elastic joint causes. In a slow motion, the
alternatives explain nearly the same torque as a delay; the interval of d, a jackknife over blocks of rows, is wide
then. The equation is solved repeatedly, each time with the torque shifted by the last estimate of d.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from mindyn.foundation.algebra.values import Array
from mindyn.identification.smooth_rows import SmoothRows, invert_normal
from mindyn.regression.regressor import Regressor

BLOCKS: Final = 12
"""Number of contiguous blocks of rows of the jackknife."""
ITERATIONS: Final = 3
FRICTION_WIDTHS: Final = (0.02, 0.1, 0.3)
"""Widths of the transition of friction around zero velocity, relative to the rms speed, that are tried as alternatives
to a delay.
"""
MIN_DEVIATIONS: Final = 4.0
"""Standard deviations of a delay that count as significant. Rates: `make study NAME=plants`, sound and late."""


@dataclass(frozen=True, slots=True)
class Delay:
    """Time by which a torque is delayed, s (negative if it leads), and its standard deviation between blocks."""

    seconds: float
    deviation: float

    @property
    def is_significant(self) -> bool:
        """Whether the delay differs from zero by several deviations."""
        return abs(self.seconds) > MIN_DEVIATIONS * self.deviation


def estimate_delay(rows: SmoothRows, regressor: Regressor, joints: Sequence[int] | None = None) -> Delay:
    """Estimate the common delay of the torques of some joints (by default all); the other joints have no delay."""
    moved = range(rows.tau.shape[1]) if joints is None else joints
    rigid = np.where(regressor.rigid, rows.fit_values(), 0.0)
    Y = _add_alternatives(rows, rigid, moved)
    delay = Delay(0.0, np.inf)
    for _ in range(ITERATIONS):
        step = _estimate_step(rows, Y, moved, delay.seconds)
        delay = Delay(delay.seconds + step.seconds, step.deviation)
        if not abs(step.seconds) > 0.5 * step.deviation:
            break
    return delay


def _estimate_step(rows: SmoothRows, Y: Array, joints: Sequence[int], start_s: float) -> Delay:
    """Return the delay that remains after the torques are shifted by `start_s`."""
    tau, step_s = rows.tau.copy(), rows.sample_step_s
    Y[:, :, -1] = 0.0
    for joint in joints:
        before, here, after = (rows.delayed_torque(joint, start_s + k * step_s)[:, joint] for k in (-1, 0, 1))
        tau[:, joint], Y[:, joint, -1] = here, (after - before) / (2 * step_s)
    scales = np.sqrt(rows.weights)
    columns = (Y * scales[:, None]).reshape(len(Y), -1, Y.shape[2])
    right = tau * scales
    blocks = np.array_split(np.arange(len(tau)), BLOCKS)
    normals, rights = [], []
    for block in blocks:
        flat = columns[block].reshape(-1, Y.shape[2])
        normals.append(flat.T @ flat)
        rights.append(flat.T @ right[block].ravel())
    normal, sums = np.sum(normals, axis=0), np.sum(rights, axis=0)
    value = -float((invert_normal(normal) @ sums)[-1])
    without = np.array([-(invert_normal(normal - N) @ (sums - z))[-1] for N, z in zip(normals, rights, strict=True)])
    deviation = float(np.sqrt((BLOCKS - 1) / BLOCKS * ((without - without.mean()) ** 2).sum()))
    return Delay(value, deviation)


def _add_alternatives(rows: SmoothRows, rigid: Array, joints: Sequence[int]) -> Array:
    """Return columns (N, n, p + k) that include the alternatives for some joints; the last column is the derivative."""
    added = [_alternative_columns(rows, rigid, joint) for joint in joints]
    count = rows.Y.shape[2]
    Y = np.zeros((*rows.Y.shape[:2], count + sum(part.shape[1] for part in added) + 1))
    Y[:, :, :count] = rows.Y
    for joint, part in zip(joints, added, strict=True):
        Y[:, joint, count : count + part.shape[1]] = part
        count += part.shape[1]
    return Y


def _alternative_columns(rows: SmoothRows, rigid: Array, joint: int) -> Array:
    """Return columns (N, k) of friction curves of other shapes and of an elastic joint.

    The deflection of an elastic joint is proportional to its torque, and the error of a rigid model is proportional to
    the second derivative of the deflection. For a sinusoidal motion, this error is a combination of the torque and of
    the accelerations of all joints.
    """
    _, qd, qdd, _ = rows.motion
    speed = qd[:, joint]
    rms = max(float(np.sqrt((speed**2).mean())), 1e-300)
    load = np.abs(rows.Y[:, joint] @ rigid)
    direction = np.tanh(speed / (0.05 * rms))
    shapes = [np.tanh(speed / (width * rms)) for width in FRICTION_WIDTHS]
    shapes += [speed, speed * np.abs(speed), speed**3, (load - load.mean()) * direction]
    columns = np.column_stack([*shapes, qdd])
    return np.asarray(columns / np.maximum(np.linalg.norm(columns, axis=0), 1e-300))
