"""`TrialScore` and `Gain`: the error of settings on held-out blocks, and how much one setting gains over another.

Two settings are compared on the same blocks, so that blocks that are hard to predict affect both. The gain

    g_b = ln(error of one setting / error of the other) on block b

therefore varies less from block to block than the errors do. With s the standard deviation of g_b over m blocks, s /
sqrt(m) is the standard deviation of the mean gain. A model with more parameters must gain more than a multiple of this
deviation, as in Breiman et al. [1984], who select the simplest model among those that do not differ significantly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import isinf, prod
from typing import Final, NamedTuple

import numpy as np

from mindyn.foundation.algebra.significance import MIN_IMPROVEMENT_DEVIATIONS, exceeds_zero
from mindyn.foundation.algebra.values import Array

TINY: Final = 1e-300


@dataclass(frozen=True, slots=True, eq=False)
class TrialScore:
    """Error on held-out blocks.

    left, power  (blocks, n) squared residuals and squared torques of each joint
    mean         mean relative error over joints with torque; infinite if there are none
    total        relative error of all joints together
    criterion    geometric mean of both, which is minimised; the mean gives small joints, the total large joints more
    weight
    """

    left: Array
    power: Array
    mean: float = field(init=False)
    total: float = field(init=False)
    criterion: float = field(init=False)

    def __post_init__(self) -> None:
        mean, total = _relative_errors(self.left.sum(axis=0), self.power.sum(axis=0))
        object.__setattr__(self, "mean", float(mean))
        object.__setattr__(self, "total", float(total))
        object.__setattr__(self, "criterion", float(np.sqrt(mean * total)))

    def of_blocks(self) -> Array:
        """Return the criterion (blocks,) of each block, relative to the torque of all blocks."""
        return criterion_of(self.left, self.power.sum(axis=0))


class Gain(NamedTuple):
    """Logarithm of the ratio of two settings' errors.

    mean       mean over all ways to cut blocks
    deviation  standard deviation of the mean over blocks, for the cut with the most blocks
    of_blocks  mean over the blocks of this cut
    blocks     number of these blocks
    """

    mean: float
    deviation: float
    of_blocks: float = 0.0
    blocks: int = 0

    @property
    def is_significant(self) -> bool:
        """Whether the error decreases, and decreases significantly on the blocks by a one-sided paired test."""
        return self.mean > 0 and exceeds_zero(self.of_blocks, self.deviation, self.blocks)

    def is_significantly_above(self, least: float) -> bool:
        """Return whether the gain exceeds `least` and `MIN_IMPROVEMENT_DEVIATIONS` times its deviation."""
        return self.mean > max(least, MIN_IMPROVEMENT_DEVIATIONS * self.deviation)


def error_over(scores: Sequence[TrialScore]) -> float:
    """Return the geometric mean of the errors over several ways to cut blocks."""
    return float(prod(score.criterion for score in scores) ** (1 / len(scores)))


def gain_of(others: Sequence[TrialScore], scores: Sequence[TrialScore]) -> Gain:
    """Return by how much `scores` are lower than `others` on the same blocks, over several ways to cut them.

    The standard deviation comes from the cut with the most blocks.
    """
    if any(isinf(score.criterion) for score in (*others, *scores)):
        return Gain(0.0, float("inf"))
    pairs = list(zip(others, scores, strict=True))
    errors = [[max(score.criterion, TINY) for score in pair] for pair in pairs]
    mean = sum(float(np.log(other / score)) for other, score in errors) / len(pairs)
    other, score = max(pairs, key=lambda pair: len(pair[0].left))
    scored = score.power.any(axis=1)
    gains = np.log(np.maximum(other.of_blocks(), TINY) / np.maximum(score.of_blocks(), TINY))[scored]
    deviation = float(gains.std(ddof=1) / np.sqrt(len(gains))) if len(gains) > 1 else float("inf")
    return Gain(mean, deviation, float(gains.mean()) if len(gains) else 0.0, len(gains))


def joint_gain(others: Sequence[TrialScore], scores: Sequence[TrialScore], joint: int) -> Gain:
    """Return by how much `scores` are lower than `others` for one joint."""

    def of_joint(score: TrialScore) -> TrialScore:
        return TrialScore(score.left[:, [joint]], score.power[:, [joint]]) if len(score.left) else UNSCORED

    return gain_of(*([of_joint(score) for score in group] for group in (others, scores)))


def _relative_errors(left: Array, power: Array) -> tuple[Array, Array]:
    """Return the mean over joints of their relative errors, and the relative error of all joints together, each (...,).

    left and power (..., n) are squared residuals and torques. Errors are infinite if no joint has torque.
    """
    has_torque = power > 0
    shares = np.sqrt(np.where(has_torque, left, 0.0) / np.where(has_torque, power, 1.0))
    has_any, sums = has_torque.any(axis=-1), np.where(has_torque, power, 0.0).sum(axis=-1)
    total = np.sqrt(np.where(has_torque, left, 0.0).sum(axis=-1) / np.where(has_any, sums, 1.0))
    mean = shares.sum(axis=-1) / np.maximum(has_torque.sum(axis=-1), 1)
    return np.where(has_any, mean, np.inf), np.where(has_any, total, np.inf)


def criterion_of(left: Array, power: Array) -> Array:
    """Return the criterion (...,) of squared residuals (..., n) and squared torques (..., n)."""
    mean, total = _relative_errors(left, np.broadcast_to(power, left.shape))
    return np.asarray(np.sqrt(mean * total))


UNSCORED: Final = TrialScore(np.zeros((0, 1)), np.zeros((0, 1)))
"""Score with an infinite error, for settings with too few rows to hold out."""
