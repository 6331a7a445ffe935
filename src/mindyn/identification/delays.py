"""Estimate the delay of a torque relative to the motion, with its interval, together with effects that look like a
delay.

A torque that is late by d is, to first order, the torque minus d times its derivative:

    tau_j = Y_j beta + A_j a - d tau_j' + e

A are the columns of the alternatives: friction curves of other shapes, friction that depends on the load, and
accelerations with other amplitudes than those of a rigid body, as an elastic joint causes. In a slow motion, the
alternatives explain nearly the same torque as a delay; the interval of d, a jackknife over blocks of rows, is wide
then. The equation is solved repeatedly, each time with the torque shifted by the last estimate of d.

Rows near a reversal of the joint do not count. A joint that sticks reverses later than its torque, which looks like a
torque that leads: with these rows, the estimates of 40 simulated logs were 4.6 ms too small in the median, without them
0.2 ms, and 37 instead of 15 were within two standard deviations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mindyn.foundation.algebra.significance import NORMAL_95
from mindyn.foundation.algebra.values import Array
from mindyn.identification.smooth_rows import LEAST_NOISE, SmoothRows, invert_normal
from mindyn.regression.regressor import Regressor

BLOCKS: Final = 12
"""Number of contiguous blocks of rows of the jackknife."""
ITERATIONS: Final = 6
REVERSAL_S: Final = 0.1
"""Rows closer to a reversal do not count: half a period of the low pass of smooth rows, over which it spreads steps."""
MIN_STEADY_FRACTION: Final = 0.1
"""If fewer rows of a joint are away from its reversals, all of them count."""
FRICTION_WIDTHS: Final = (0.02, 0.1, 0.3)
"""Widths of the transition of friction around zero velocity, relative to the rms speed, that are tried as alternatives
to a delay.
"""
MIN_DEVIATIONS: Final = 4.0
"""Standard deviations of a delay that count as significant. Rates: `make study NAME=plants`, sound and late."""
CLEAR_DEVIATIONS: Final = 3.0
"""Standard deviations from which on the first step is clear of zero. Of 45 MuJoCo logs delayed by 20 to 60 ms, the two
whose estimates are wrong are not clear; of 30 delayed by 2 to 10 ms, 13 are; of 40 that are not delayed, none.
"""


@dataclass(frozen=True, slots=True)
class Delay:
    """Time by which a torque is delayed, s (negative if it leads), and its standard deviation between blocks.

    first  the first step of the iteration from zero; None if there was none. Where noise or friction exceeds the effect
           of a delay, further steps lead to the delay at which they happen to fit best
    """

    seconds: float
    deviation: float
    first: Delay | None = None

    @property
    def is_significant(self) -> bool:
        """Whether the delay differs from zero by several deviations, and the first step did."""
        return abs(self.seconds) > MIN_DEVIATIONS * self.deviation and (self.first is None or self.first.is_significant)

    @property
    def is_clear(self) -> bool:
        """Whether the delay is significant, and the first step is clear of zero or further steps did not change it."""
        if self.first is None or not abs(self.seconds) > MIN_DEVIATIONS * self.deviation:
            return False
        is_first_clear = abs(self.first.seconds) > CLEAR_DEVIATIONS * self.first.deviation
        return is_first_clear or abs(self.seconds - self.first.seconds) <= self.first.deviation

    @property
    def possible(self) -> tuple[float, float]:
        """Ends of the possible delays: of the 95 % interval, or, if the delay is not clear, of one that contains
        zero and the delays within three deviations of the first step.
        """
        step, deviations = (self, NORMAL_95) if self.is_clear or self.first is None else (self.first, CLEAR_DEVIATIONS)
        half = deviations * step.deviation
        ends = step.seconds - half, step.seconds + half
        return ends if self.is_clear else (min(0.0, ends[0]), max(0.0, ends[1]))


def estimate_delay(
    rows: SmoothRows, regressor: Regressor, joints: Sequence[int] | None = None, start_s: float = 0.0
) -> Delay:
    """Estimate the common delay of the torques of some joints (by default all); the other joints have no delay.

    start_s  approximate delay from which the iteration starts
    """
    moved = range(rows.tau.shape[1]) if joints is None else joints
    rigid = np.where(regressor.rigid, rows.fit_values(), 0.0)
    Y, counts = _add_alternatives(rows, rigid, moved), _counted_rows(rows, moved)
    first, _ = _estimate_step(rows, Y, moved, 0.0, counts, rows.weights)
    delay, weights = Delay(start_s, np.inf, first), rows.weights
    for _ in range(ITERATIONS):
        step, weights = _estimate_step(rows, Y, moved, delay.seconds, counts, weights)
        delay = Delay(delay.seconds + step.seconds, step.deviation, first)
        if not abs(step.seconds) > 0.1 * step.deviation:
            break
    return delay


def _counted_rows(rows: SmoothRows, joints: Sequence[int]) -> NDArray[np.bool_]:
    """Return which rows (N, n) count: of the moved joints, those away from reversals."""
    counts = np.ones(rows.tau.shape, dtype=np.bool_)
    for joint in joints:
        steady = rows.keeps_direction(joint, REVERSAL_S)
        if steady.mean() > MIN_STEADY_FRACTION:
            counts[:, joint] = steady
    return counts


def _estimate_step(
    rows: SmoothRows, Y: Array, joints: Sequence[int], start_s: float, counts: NDArray[np.bool_], weights: Array
) -> tuple[Delay, Array]:
    """Return the delay that remains after the torques are shifted by `start_s`, and the weights of the joints by their
    residuals.
    """
    tau, step_s = rows.tau.copy(), rows.sample_step_s
    Y[:, :, -1] = 0.0
    for joint in joints:
        before, here, after = (rows.delayed_torque(joint, start_s + k * step_s)[:, joint] for k in (-1, 0, 1))
        tau[:, joint], Y[:, joint, -1] = here, (after - before) / (2 * step_s)
    scales = np.sqrt(weights) * counts
    columns, right = Y * scales[:, :, None], tau * scales
    blocks = np.array_split(np.arange(len(tau)), BLOCKS)
    normals, rights = [], []
    for block in blocks:
        flat = columns[block].reshape(-1, Y.shape[2])
        normals.append(flat.T @ flat)
        rights.append(flat.T @ right[block].ravel())
    normal, sums = np.sum(normals, axis=0), np.sum(rights, axis=0)
    beta = invert_normal(normal) @ sums
    without = np.array([-(invert_normal(normal - N) @ (sums - z))[-1] for N, z in zip(normals, rights, strict=True)])
    deviation = float(np.sqrt((BLOCKS - 1) / BLOCKS * ((without - without.mean()) ** 2).sum()))
    squares = ((tau - Y @ beta) ** 2 * counts).sum(axis=0) / np.maximum(counts.sum(axis=0), 1)
    sizes = (tau**2).mean(axis=0)
    least = LEAST_NOISE**2 * np.maximum(sizes, 1e-12 * sizes.max()) + 1e-300
    return Delay(-float(beta[-1]), deviation), np.asarray(1 / np.maximum(squares, least))


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
