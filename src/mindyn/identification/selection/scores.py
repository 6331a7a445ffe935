"""`TrialScore`: torque error on blocks that were held out, and by how much one is lower than another, with what
deviation.

Two settings are tried on the same blocks, so that what is hard to predict in a block counts for both: the gain

    g_b = ln(error of the one / error of the other) on block b

varies less from block to block than the errors do, and s / sqrt(m), s the standard deviation of the g_b of m blocks, is
the standard deviation of their mean. What adds freedom must gain more than a part of that, as Breiman et al. [1984]
take the plainest model among those that the blocks do not tell apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import isinf, log, prod
from typing import Final, NamedTuple

import numpy as np

from mindyn.algebra.deviations import MIN_IMPROVEMENT_DEVIATIONS
from mindyn.algebra.values import Array

TINY: Final = 1e-300


@dataclass(frozen=True, slots=True, eq=False)
class TrialScore:
    """Error on blocks that were held out.

    left, power  (blocks, n) squared residuals and squared torques of every joint
    mean         over joints with torque of the relative error; infinite where none has any
    total        relative error of all joints together
    criterion    what is minimised: the mean alone serves small joints, the total large ones; the geometric mean of
                 both serves both
    """

    left: Array
    power: Array
    mean: float = field(init=False)
    total: float = field(init=False)
    criterion: float = field(init=False)

    def __post_init__(self) -> None:
        mean, total = _errors(self.left.sum(axis=0), self.power.sum(axis=0))
        object.__setattr__(self, "mean", float(mean))
        object.__setattr__(self, "total", float(total))
        object.__setattr__(self, "criterion", float(np.sqrt(mean * total)))

    def of_blocks(self) -> Array:
        """(blocks,) the criterion of each block, in parts of the whole torque."""
        mean, total = _errors(self.left, np.broadcast_to(self.power.sum(axis=0), self.left.shape))
        return np.asarray(np.sqrt(mean * total))


class Gain(NamedTuple):
    """ln of the error of one setting over that of another, and its standard deviation over blocks."""

    mean: float
    deviation: float

    def is_significantly_above(self, least: float) -> bool:
        """Whether the gain is above `least`, and above its deviation `MIN_IMPROVEMENT_DEVIATIONS` times."""
        return self.mean > max(least, MIN_IMPROVEMENT_DEVIATIONS * self.deviation)


def error_over(scores: Sequence[TrialScore]) -> float:
    """Geometric mean of the errors over several ways to cut blocks."""
    return float(prod(one.criterion for one in scores) ** (1 / len(scores)))


def gain_of(others: Sequence[TrialScore], scores: Sequence[TrialScore]) -> Gain:
    """How much lower `scores` are than `others`, of the same blocks, over several ways to cut them.

    The way with the most blocks tells the deviation.
    """
    if any(isinf(one.criterion) for one in (*others, *scores)):
        return Gain(0.0, float("inf"))
    pairs = list(zip(others, scores, strict=True))
    mean = sum(log(other.criterion / max(one.criterion, TINY)) for other, one in pairs) / len(pairs)
    other, one = max(pairs, key=lambda pair: len(pair[0].left))
    scored = one.power.any(axis=1)
    gains = np.log(np.maximum(other.of_blocks(), TINY) / np.maximum(one.of_blocks(), TINY))[scored]
    return Gain(mean, float(gains.std(ddof=1) / np.sqrt(len(gains))) if len(gains) > 1 else float("inf"))


def as_good_as_best(candidates: Sequence[Sequence[TrialScore]]) -> list[int]:
    """Numbers of the candidates that held-out blocks do not tell from the best one, which is among them."""
    errors = [error_over(one) for one in candidates]
    best = candidates[errors.index(min(errors))]
    return [k for k, one in enumerate(candidates) if one is best or not gain_of(one, best).is_significantly_above(0.0)]


def _errors(left: Array, power: Array) -> tuple[Array, Array]:
    """(...,) mean over joints of the relative error and the total one, of (..., n); infinite without any torque."""
    told = power > 0
    shares = np.sqrt(np.where(told, left, 0.0) / np.where(told, power, 1.0))
    any_told, sums = told.any(axis=-1), np.where(told, power, 0.0).sum(axis=-1)
    total = np.sqrt(np.where(told, left, 0.0).sum(axis=-1) / np.where(any_told, sums, 1.0))
    mean = shares.sum(axis=-1) / np.maximum(told.sum(axis=-1), 1)
    return np.where(any_told, mean, np.inf), np.where(any_told, total, np.inf)


UNSCORED: Final = TrialScore(np.zeros((0, 1)), np.zeros((0, 1)))
"""Where nothing can be held out: an infinite error."""
