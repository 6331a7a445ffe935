"""Test three effects that the model of a servo neglects: more friction at rest, friction by load, a torque limit.

Each effect is fitted as a fifth value of the joint. It is significant only if the simulation of held-out blocks becomes
better; leaving a block out moves the values by one Gauss-Newton step, as for the intervals. Friction at rest and by
load always widen the intervals of the other values. Friction by load, for example, hardly changes a motion, but it
changes fc.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.stats import wilcoxon

from mindyn.foundation.algebra.values import Array
from mindyn.identification.servos.output_error import JointFit, OutputError, prior_information
from mindyn.identification.servos.rollout import EXTRA_FIELDS

LEVEL: Final = 0.99
"""One-sided level of Wilcoxon's test that held-out blocks gain: a few bad blocks decide a mean, but not the ranks."""
MIN_GAIN: Final = 0.05
"""Smallest gain relative to the cost: smaller ones change no statement."""
MIN_LIMIT_GAIN: Final = 0.5
"""The same for a limit of the drive. On simulated arms with limits of 0.9 to 1.6 N m, 15 of 16 limits that were found
gain 0.6 to 0.99; unmodelled friction of Go2 legs looks like a limit that gains 0.17 to 0.24 and is far too low."""
MIN_ROWS_AT_LIMIT: Final = 5
"""Rows with which a block says something about a limit. The test needs seven such blocks: logs, or windows of few."""
LIMITS: Final = np.geomspace(0.1, 0.95, 24)
"""Limits that are tried first, relative to the largest drive of the fit without a limit."""

Extra = Literal["rest", "loaded", "limit"]
FRICTIONS: Final[tuple[Extra, Extra]] = ("rest", "loaded")


@dataclass(frozen=True, slots=True, eq=False)
class Extension:
    """Significant extra value of a joint.

    extra    its name in `EXTRA_FIELDS`
    value    the value
    fit      fit with five values
    problem  its cost
    gain     gain of held-out blocks relative to the cost with four values
    is_significant  whether most blocks gain
    """

    extra: Extra
    value: float
    fit: JointFit
    problem: OutputError
    gain: float
    is_significant: bool


def find_limit(problem: OutputError, fit: JointFit, blocks: NDArray[np.intp]) -> Extension | None:
    """Return the limit of the drive if it makes held-out blocks better, with damping inside or outside of the limit."""
    error = np.abs(problem.table[:, 0] - problem.table[:, 6])[problem.weights > 0]
    largest = fit.x[0] + np.log(max(float(np.quantile(error, 0.995)), 1e-12))
    candidates = np.column_stack([np.tile(fit.x, (len(LIMITS), 1)), largest + np.log(LIMITS)])
    problems = [_extended_values(problem, "limit", inner) for inner in (0.0, 1.0)]
    starts = [(whole, candidates[int(np.argmin(whole.costs(candidates)))]) for whole in problems]
    whole, x, cost = min(((whole, *whole.improve(start)) for whole, start in starts), key=lambda trial: trial[2])
    if not cost < (1 - MIN_GAIN) * fit.cost:
        return None
    extension = _compare(problem, fit, blocks, "limit", whole, x)
    return extension if extension.is_significant and extension.gain > MIN_LIMIT_GAIN else None


def _blocks_at_limit(problem: OutputError, blocks: NDArray[np.intp], x: Array) -> NDArray[np.bool_]:
    """Return the blocks (blocks,) in which kp (target - q) exceeds the limit of x (5,) in some rows."""
    drive = np.exp(x[0]) * np.abs(problem.table[:, 0] - problem.table[:, 6])
    beyond = (drive > np.exp(x[4])) & (problem.weights > 0)
    return np.asarray(np.bincount(blocks, beyond, int(blocks[-1]) + 1) >= MIN_ROWS_AT_LIMIT)


def find_frictions(problem: OutputError, fit: JointFit, blocks: NDArray[np.intp]) -> tuple[Extension, Extension]:
    """Fit friction at rest and friction by load, each together with the other values."""
    found = []
    for extra in FRICTIONS:
        whole = _extended_values(problem, extra, problem.extras[3])
        found.append(_compare(problem, fit, blocks, extra, whole, np.append(fit.x, 0.0)))
    return found[0], found[1]


def _extended_values(problem: OutputError, extra: Extra, inner: float) -> OutputError:
    extras = (*problem.extras[:3], inner)
    return replace(problem, free=np.append(problem.free, True), extras=extras, extra=extra)


def _compare(
    problem: OutputError, fit: JointFit, blocks: NDArray[np.intp], extra: Extra, whole: OutputError, x: Array
) -> Extension:
    """Return the extension from a start x, with its gain on blocks that are held out."""
    better = whole.refine(x)
    before = _held_out_losses(problem, fit, blocks)
    gains = before - _held_out_losses(whole, better, blocks)
    gain = float(gains.sum() / before.sum()) if before.sum() > 0 else 0.0
    # A limit makes one saturated motion better, and the others because it spoils them no longer: these do not count.
    counts = _blocks_at_limit(whole, blocks, better.x) if extra == "limit" else before > 0
    changed = gains[counts & (gains != 0)]
    is_better = gain > MIN_GAIN and bool(wilcoxon(changed, alternative="greater", method="exact").pvalue < 1 - LEVEL)
    value = float(np.exp(better.x[4]) if extra == "limit" else better.x[4])
    return Extension(extra, value, better, whole, gain, is_better)


def _held_out_losses(problem: OutputError, fit: JointFit, blocks: NDArray[np.intp]) -> Array:
    """Return the loss (blocks,) of each block at the values without it."""
    which, count = np.flatnonzero(problem.free), int(blocks[-1]) + 1
    J, losses = fit.jacobian[:, which], np.zeros(count)
    weighted = J * fit.weights[:, None]
    prior = problem.prior * prior_information(len(fit.x))[np.ix_(which, which)]
    total = weighted.T @ J + prior
    for block in range(count):
        rows = blocks == block
        rest = total - weighted[rows].T @ J[rows]
        step = np.linalg.lstsq(rest, weighted[rows].T @ fit.residuals[rows], rcond=1e-10)[0]
        z = (fit.residuals[rows] + J[rows] @ step) / problem.scale
        losses[block] = (2 * problem.weights[rows] * (np.sqrt(1 + z * z) - 1)).sum()
    return losses


def with_limit(problem: OutputError, extension: Extension) -> OutputError:
    """Return the problem of four values, in which the drive has the torque limit of an extension."""
    extras = list(extension.problem.extras)
    extras[EXTRA_FIELDS.index("limit")] = extension.value
    return replace(problem, extras=tuple(extras))
