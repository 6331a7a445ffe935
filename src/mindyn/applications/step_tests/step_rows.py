"""Rows of step-by-step tests, without accelerations.

    static:             (tau+ + tau-) / 2 = Y(q, 0, 0) beta                             [Yoshida 1996, eq. 3.10-3.11]
    constant velocity:  mean tau = mean Y(q, qd, 0) beta over parts of the motion       [eq. 3.12]
    accelerated:        int tau dt = ([Y_p] + int (Y_0 - Mdot) dt) beta over intervals  [section 3.4.3]

each for the joint whose row the test uses. Each right side is W tau, W (m, N) the weights of N torque readings, and
rows are divided by the Cholesky factor of W W^T: if the readings have independent errors of equal variance, so have the
rows. Errors of the velocities, mainly of differentiated positions, enter through the momentum at the ends of intervals:
D (m, e), each end being shared by two intervals.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal, NamedTuple

import numpy as np

from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code
from mindyn.logs.log import Log
from mindyn.logs.log_errors import LogError
from mindyn.motions.step_plans.candidate_tests import AVERAGED_PARTS
from mindyn.motions.step_plans.step_motions import Breakaways, ConstantSpeed, Sines, StepMotion
from mindyn.regression.integrated import QUADRATURE_ROWS, IntegratedRegressor, quadrature_weights
from mindyn.regression.regressor import Regressor


def mean_speed(log: Log, joint: int) -> float:
    """Return the slope of the line through a joint's positions, in rad/s or m/s."""
    t = log.time - log.time.mean()
    return float(t @ log.q[:, joint] / max(t @ t, 1e-300))


Rule = Literal["trapezoid", "gregory"]
UNEVEN_STAMPS: Final = 1e-3
"""Fraction of a step by which stamps may deviate for Gregory's rule, which needs equal steps."""

SIGN_SPEED: Final = 1e-12
"""rad/s or m/s: a tiny speed that only states a direction."""


class MotionRows(NamedTuple):
    """Rows A (m, p), z (m,) with A beta = z, in N m or N.

    W, D      error of z = W (m, N) times the errors of N torque readings + D (m, e) times those of e momenta
    friction  static, if it is measured
    """

    A: Array
    z: Array
    W: Array
    D: Array
    friction: tuple[float, ...] = ()

    def whiten(self) -> tuple[Array, Array, Array]:
        """Return A, z, D of rows whose reading errors are independent and have the variance of a single reading."""
        root = np.linalg.cholesky(self.W @ self.W.T)
        solved = np.linalg.solve(root, np.column_stack([self.A, self.z, self.D]))
        p = self.A.shape[1]
        return solved[:, :p], solved[:, p], solved[:, p + 1 :]


@dataclass(frozen=True, slots=True, eq=False)
class RowMaker:
    """Builds rows from logs.

    rule       of the integrals: "trapezoid", or "gregory" of sixth order for smooth, uniform samples
    intervals  of an accelerated motion
    slack      N m or N by which a backward breakaway may exceed the forward one
    """

    integrated: IntegratedRegressor
    rule: Rule
    intervals: int
    slack: float

    @property
    def regressor(self) -> Regressor:
        """Regressor of the torque."""
        return self.integrated.torque

    def rows(self, motion: StepMotion, log: Log, row: int) -> MotionRows:
        """Return the rows of a motion's log; `row` is the number of the joint whose torque is used."""
        if isinstance(motion, Breakaways):
            return self._static(motion, log, row)
        if isinstance(motion, ConstantSpeed):
            return self._steady(motion, log, row)
        return self._accelerate(motion, log, row)

    def _static(self, motion: Breakaways, log: Log, row: int) -> MotionRows:
        onsets = breakaway_onsets(motion, log)
        nearest = np.abs(log.q[:, motion.joint, None] - np.array(motion.positions)).argmin(axis=1)
        W, friction = np.zeros((len(motion.positions), len(log))), []
        for k, position in enumerate(motion.positions):
            forward, backward = (np.flatnonzero((nearest == k) & (onsets == way)) for way in (1, -1))
            _require_both_ways(motion, log.joint_names[motion.joint], position, len(forward), len(backward))
            W[k, forward], W[k, backward] = 0.5 / len(forward), 0.5 / len(backward)
            friction.append(float(log.tau[forward, row].mean() - log.tau[backward, row].mean()) / 2)
            if self.regressor.base.with_drives and 2 * friction[-1] < -self.slack:
                raise LogError(
                    f"the log of {motion.name} has inconsistent breakaways: at {position:.4g} joint "
                    f"{log.joint_names[motion.joint]!r} moves forwards at a lower torque than backwards "
                    f"(static friction {friction[-1]:.3g})",
                    hint="correct the sign of the torque, or of the velocity, which gives the direction",
                    code=Code.DISAGREEMENT,
                    subject=log.joint_names[motion.joint],
                )
        A = W @ joint_row(self.regressor, _average_held_joints(motion, log.q), np.zeros_like(log.q), row)
        return MotionRows(A, W @ log.tau[:, row], W, np.zeros((len(W), 0)), tuple(friction))

    def _steady(self, motion: ConstantSpeed, log: Log, row: int) -> MotionRows:
        if len(log) < 2 * AVERAGED_PARTS:
            raise LogError(
                f"the log of {motion.name} has {len(log)} rows; {2 * AVERAGED_PARTS} are needed at least",
                code=Code.TOO_LITTLE_DATA,
                subject=motion.name,
            )
        qd = np.zeros_like(log.q)
        qd[:, motion.joint] = mean_speed(log, motion.joint)
        W = np.zeros((AVERAGED_PARTS, len(log)))
        for k, (a, b) in enumerate(pairwise(np.linspace(0, len(log), AVERAGED_PARTS + 1).astype(int))):
            W[k, a:b] = 1 / (b - a)
        A = W @ joint_row(self.regressor, _average_held_joints(motion, log.q), qd, row)
        return MotionRows(A, W @ log.tau[:, row], W, np.zeros((AVERAGED_PARTS, 0)))

    def _accelerate(self, motion: Sines, log: Log, row: int) -> MotionRows:
        q, qd, t, torques = find_held_motion(motion, log)
        tau = torques[:, row]
        bounds = np.linspace(0, len(t) - 1, self.intervals + 1).astype(int)
        W = self._weights(motion, t, bounds)
        A = W @ joint_row(self.integrated.drift, q, qd, row)
        ends = self.integrated.momentum(q[bounds], qd[bounds])[:, row]
        A[:, : ends.shape[1]] += np.diff(ends, axis=0)
        lengths = np.diff(t[bounds])[:, None]
        D = np.diff(np.eye(self.intervals + 1), axis=0)
        return MotionRows(A / lengths, W @ tau / lengths[:, 0], W / lengths, D / lengths)

    def _weights(self, motion: Sines, t: Array, bounds: Array) -> Array:
        """Return the weights (intervals, N) that integrate rows over each interval; neighbours share a row."""
        fewest = QUADRATURE_ROWS if self.rule == "gregory" else 3
        if np.diff(bounds).min() + 1 < fewest:
            raise LogError(
                f"the log of {motion.name} has {len(t)} rows: too few for {self.intervals} intervals of {fewest} rows",
                code=Code.TOO_LITTLE_DATA,
                subject=motion.name,
            )
        steps = np.diff(t)
        if self.rule == "gregory" and np.abs(steps / steps.mean() - 1).max() > UNEVEN_STAMPS:
            raise LogError(
                f'the log of {motion.name} is not uniform: use rule="trapezoid", or resample it',
                code=Code.UNSUPPORTED,
                subject=motion.name,
            )
        W = np.zeros((self.intervals, len(t)))
        for k, (a, b) in enumerate(pairwise(bounds)):
            if self.rule == "gregory":
                W[k, a : b + 1] = quadrature_weights(b - a + 1) * steps.mean()
            else:
                W[k, a:b] += steps[a:b] / 2
                W[k, a + 1 : b + 1] += steps[a:b] / 2
        return W


def joint_row(regressor: Regressor, q: Array, qd: Array, joint: int) -> Array:
    """Return (N, p) one joint's row of a regressor at qdd = 0."""
    directions = regressor.directions(q, qd, np.zeros(len(qd), dtype=np.int64), 1.0)
    Y = np.zeros((len(q), regressor.count))
    Y[:, regressor.columns[joint]] = np.concatenate(regressor.parts(q, qd, np.zeros_like(q), directions)[joint], axis=1)
    return Y


HeldMotion = tuple[Array, Array, Array, Array]
"""q, qd (N, n), t (N,), tau (N, n) of an accelerated motion with held joints at rest."""


def _differentiate(q: Array, t: Array) -> Array:
    """Return central differences; rows without motion get a tiny speed in the direction of the nearest motion.

    Otherwise friction would be missing from the columns, but not from the torque, when a joint starts or stops.
    """
    qd: Array = np.asarray(np.gradient(q, t, axis=0))
    for k in range(qd.shape[1]):
        column = qd[:, k]
        moves, still = np.flatnonzero(column), np.flatnonzero(column == 0)
        if not len(moves):
            continue
        after = moves[np.searchsorted(moves, still).clip(max=len(moves) - 1)]
        before = moves[(np.searchsorted(moves, still) - 1).clip(min=0)]
        pull = np.sign(np.abs(still - before) - np.abs(after - still))  # 1: the following motion is nearer
        column[still] = SIGN_SPEED * (np.sign(column[after]) * (1 + pull) + np.sign(column[before]) * (1 - pull)) / 2
    return qd


def find_held_motion(motion: Sines, log: Log) -> HeldMotion:
    """Return q, qd (N, n), t (N,), tau (N, n) of an accelerated motion; velocities are differentiated if none are
    logged.
    """
    q, qd, kept = _average_held_joints(motion, log.q), np.zeros_like(log.q), slice(None)
    moving = list(motion.joints)
    if log.qd is not None:
        qd[:, moving] = log.qd[:, moving]
    else:
        qd[:, moving] = _differentiate(log.q[:, moving], log.time)
        kept = slice(1, -1)  # the one-sided differences at the ends are of first order only
    return q[kept], qd[kept], log.time[kept], log.tau[kept]


def _average_held_joints(motion: StepMotion, q: Array) -> Array:
    """Replace the positions of held joints by their mean, because their apparent motion is noise."""
    held = np.tile(q.mean(axis=0), (len(q), 1))
    held[:, list(motion.joints)] = q[:, list(motion.joints)]
    return held


def breakaway_onsets(motion: Breakaways, log: Log) -> Array:
    """Return the direction (N,), 1 or -1, of rows in which the joint begins to move; 0 elsewhere.

    A log may contain only breakaways, one row each, or rows at rest between them as well.
    """
    if log.qd is None:
        raise LogError(
            f"the log of {motion.name} has no velocity, whose sign gives the direction of the breakaway",
            hint="give columns.velocity",
            code=Code.MISSING_VALUE,
            subject="velocity",
        )
    ways = np.sign(log.qd[:, motion.joint])
    before = np.concatenate([[0.0], ways[:-1]])
    return np.asarray(np.where(ways != before, ways, 0.0))


def _require_both_ways(motion: Breakaways, joint: str, position: float, forward: int, backward: int) -> None:
    if forward and backward:
        return
    seen = "forwards" if forward else "backwards" if backward else "in no direction"
    raise LogError(
        f"the log of {motion.name} has breakaways of joint {joint!r} at {position:.4g} {seen} only: "
        "a single direction does not separate gravity from friction",
        hint="measure the torque at which the joint begins to move in both directions",
        code=Code.TOO_LITTLE_DATA,
        subject=joint,
    )
