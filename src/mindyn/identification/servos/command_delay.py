"""Fit the delay of targets that all joints of a bus share, and decide whether the fit needs it.

Friction, damping and armature delay a position by far more than a bus does. The delay is therefore estimated together
with them, by Gauss-Newton steps of the Schur complement of all joints, and limited to a few control periods. It is
applied only if zero is outside its interval, and the simulation becomes better than with the other values alone. On an
SO-101, where a free delay was found to be 98 to 175 ms, it is zero in 13 logs and within 6 ms in one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mindyn.foundation.algebra.normal_equations import solve_normal_equations
from mindyn.foundation.algebra.values import Array
from mindyn.identification.servos.joint_tables import ServoRows
from mindyn.identification.servos.output_error import JointFit, OutputError, prior_information
from mindyn.identification.servos.rollout import NO_EXTRAS, simulate_joint

MAX_PERIODS: Final = 3.0
"""Longest delay in periods of the targets."""
DIFFERENCE_S: Final = 0.002
MAX_STEPS: Final = 8
CONVERGED_S: Final = 2e-4
LEVEL: Final = 0.95


@dataclass(frozen=True, slots=True, eq=False)
class JointProblem:
    """Joint that is fitted: number, weights (N,), free values (4,), weight of the prior, and extra values (4,)."""

    joint: int
    weights: Array
    free: NDArray[np.bool_]
    prior: float
    extras: tuple[float, ...] = NO_EXTRAS

    def cost(self, rows: ServoRows) -> OutputError:
        """Return the cost of the joint's simulation over some rows."""
        return OutputError(rows.table(self.joint), self.weights, self.free, self.prior, self.extras)


@dataclass(frozen=True, slots=True, eq=False)
class DelayFit:
    """Estimated delay of targets.

    delay_s       estimated delay
    half_width_s  half width of its 95 % interval, from the deviation between blocks
    is_applied    whether the delay is significant and the simulation becomes better
    rows          rows with targets that act `delay_s` later
    fits          fits of the problems at this delay
    slopes        (joints, 4) change of each x per s of delay
    limit_s       longest delay that was considered
    """

    delay_s: float
    half_width_s: float
    is_applied: bool
    rows: ServoRows
    fits: list[JointFit]
    slopes: list[Array]
    limit_s: float


def fit_delay(
    rows: ServoRows, problems: Sequence[JointProblem], fits: Sequence[JointFit], blocks: NDArray[np.intp]
) -> DelayFit:
    """Return the delay that makes the simulation of all joints best, from fits without a delay."""
    limit = MAX_PERIODS / rows.rate_hz
    before, now, delay, late = list(fits), list(fits), 0.0, rows
    for _ in range(MAX_STEPS):
        score, information, _ = _project(rows, problems, now, delay, blocks)
        if not information.sum() > 0:
            break
        wanted = float(np.clip(delay - score.sum() / information.sum(), 0.0, limit))
        change, delay = wanted - delay, wanted
        late = rows.with_later_targets(delay)
        now = [_refine(late, problem, fit.x) for problem, fit in zip(problems, now, strict=True)]
        if abs(change) < CONVERGED_S:
            break
    score, information, slopes = _project(rows, problems, now, delay, blocks)
    half = _half_width(score, information)
    costs = [sum(fit.cost for fit in some) for some in (before, now)]
    is_better = costs[1] < costs[0]
    return DelayFit(delay, half, bool(is_better and delay > half and delay < limit), late, now, slopes, limit)


def _refine(rows: ServoRows, problem: JointProblem, x: Array) -> JointFit:
    return problem.cost(rows).refine(x)


def _project(
    rows: ServoRows,
    problems: Sequence[JointProblem],
    fits: Sequence[JointFit],
    delay_s: float,
    blocks: NDArray[np.intp],
) -> tuple[Array, Array, list[Array]]:
    """Return score and information (blocks,) of the delay, with all other values adapted to it, and dx/ddelay."""
    ahead, behind = (rows.with_later_targets(delay_s + sign * DIFFERENCE_S) for sign in (1, -1))
    count = int(blocks[-1]) + 1
    score, information, slopes = np.zeros(count), np.zeros(count), []
    for problem, fit in zip(problems, fits, strict=True):
        values, which = problem.cost(rows).values(fit.x[None]), np.flatnonzero(problem.free)
        ends = [simulate_joint(some.table(problem.joint), values)[:, 0] for some in (ahead, behind)]
        slope = np.nan_to_num((ends[0] - ends[1]) / (2 * DIFFERENCE_S))
        J = fit.jacobian[:, which]
        normal = J.T @ (J * fit.weights[:, None]) + problem.prior * prior_information()[np.ix_(which, which)]
        follow = solve_normal_equations(normal, J.T @ (fit.weights * slope))
        rest = slope - J @ follow
        score += np.bincount(blocks, fit.weights * rest * fit.residuals, count)
        information += np.bincount(blocks, fit.weights * rest * slope, count)
        changes = np.zeros(4)
        changes[which] = -follow
        slopes.append(changes)
    return score, information, slopes


def _half_width(score: Array, information: Array) -> float:
    """Return the half width of the interval by the jackknife over blocks."""
    from scipy.special import stdtrit

    used = np.flatnonzero(information != 0)
    total = information.sum()
    if len(used) < 2 or not total > 0:
        return float("inf")
    rest = total - information[used]
    if not (rest > 0).all():  # a single block determines the delay
        return float("inf")
    steps = score[used] / rest
    deviation = np.sqrt((len(used) - 1) / len(used) * ((steps - steps.mean()) ** 2).sum())
    return float(stdtrit(len(used) - 1, (1 + LEVEL) / 2) * deviation)
