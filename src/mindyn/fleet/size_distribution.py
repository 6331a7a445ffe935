"""`SizeDistribution`: how a size is distributed among robots, most of them healthy, by estimates that exceptions do not move."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy import special

from mindyn.algebra.values import Array

MIN_ROBOTS: Final = 5
"""Robots among which one can be called an exception."""
BIWEIGHT_CUTOFF: Final = 9.0
"""Median deviations from which values do not count in a variance [Mosteller & Tukey 1977]."""
BIWEIGHT_EFFICIENCY: Final = 0.85
"""Normal values that one value of such a variance is worth; of the median of absolute deviations it would be 0.37."""
MEDIAN_VARIANCE: Final = np.pi / 2
"""Variance of the median of many normal values, times their number."""
MAD_TO_SIGMA: Final = 1.4826
"""From the median of absolute deviations to a standard deviation, for normal values."""


@dataclass(frozen=True, slots=True, eq=False)
class FittedSize:
    """A fitted size, its variance by the jackknife over logs, and the least misfit with its cause."""

    value: float
    variance: float
    degrees_of_freedom: int
    misfit: float


@dataclass(frozen=True, slots=True, eq=False)
class SizeDistribution:
    """How a size is distributed among robots.

    centre          the median
    between         variance between healthy robots
    prior, freedom  variance that robots' own variances are moderated towards, and how many logs it is worth
    robots          number of robots behind `between`
    """

    centre: float
    between: float
    prior: float
    degrees_of_freedom: float
    robots: int

    def deviation(self, size: FittedSize) -> tuple[float, float]:
        """Standard deviation of a robot's size about the centre, and its degrees of freedom."""
        if np.isinf(self.degrees_of_freedom):
            within, freedom = self.prior, 1e6
        else:
            freedom = self.degrees_of_freedom + size.degrees_of_freedom
            within = (self.degrees_of_freedom * self.prior + size.degrees_of_freedom * size.variance) / freedom
        # Welch and Satterthwaite: a sum of variances has the freedom of its parts, by their squares.
        both = within + self.between
        parts = within**2 / freedom + self.between**2 / max(1.0, BIWEIGHT_EFFICIENCY * (self.robots - 1))
        told = both * (1 + MEDIAN_VARIANCE / self.robots)
        return float(np.sqrt(told)), float(both**2 / parts) if parts > 0 else freedom


def fit_distribution(sizes: Sequence[FittedSize]) -> SizeDistribution | None:
    """None where no robot's logs tell the size."""
    if not sizes:
        return None
    values, variances = np.array([one.value for one in sizes]), np.array([one.variance for one in sizes])
    if len(sizes) < MIN_ROBOTS:
        return SizeDistribution(0.0, 0.0, 0.0, 0.0, len(sizes))
    centre, spread = float(np.median(values)), float(biweight_variance(values))
    prior, freedom = _moderation(variances, np.array([one.degrees_of_freedom for one in sizes], dtype=np.float64))
    typical = float(np.median(variances)) if not np.isinf(freedom) else prior
    return SizeDistribution(centre, max(0.0, spread - typical), prior, freedom, len(sizes))


def biweight_variance(values: Array) -> Array:
    """The variance along the first axis by Tukey's biweight, which takes no notice of what is far away.

    Where half of the values are one, it is zero.
    """
    away = values - np.median(values, axis=0)
    reach = BIWEIGHT_CUTOFF * np.median(np.abs(away), axis=0)
    u = np.square(away / np.where(reach > 0, reach, np.inf))
    near = np.where(u < 1, 1 - u, 0.0)
    below = np.sum(np.where(u < 1, (1 - u) * (1 - 5 * u), 0.0), axis=0)
    return np.where(reach > 0, len(values) * np.sum(away**2 * near**4, axis=0) / below**2, 0.0)


def _moderation(variances: Array, degrees_of_freedom: Array) -> tuple[float, float]:
    """Scale and freedom of the inverse chi-square that robots' variances come from [Smyth 2004, eq. 10], by medians."""
    half = degrees_of_freedom / 2
    e = np.log(variances) - special.digamma(half) + np.log(half)
    middle = float(np.median(e))
    excess = (MAD_TO_SIGMA * float(np.median(np.abs(e - middle)))) ** 2 - float(np.mean(special.polygamma(1, half)))
    if excess <= 0:
        return float(np.exp(middle)), float("inf")
    worth = 2 * _inverse_trigamma(excess)
    return float(np.exp(middle + special.digamma(worth / 2) - np.log(worth / 2))), worth


def _inverse_trigamma(y: float) -> float:
    """x with trigamma(x) = y, by Newton's steps on 1 / trigamma, which is nearly straight."""
    x = 0.5 + 1 / y
    for _ in range(50):
        tri = float(special.polygamma(1, x))
        step = tri * (1 - tri / y) / float(special.polygamma(2, x))
        x += step
        if abs(step) < 1e-10 * x:
            break
    return x
