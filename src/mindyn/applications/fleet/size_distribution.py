"""`SizeDistribution`: the robust distribution of a size among robots, most of which are healthy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from mindyn.foundation.algebra.values import Array

MIN_ROBOTS: Final = 5
"""Smallest number of robots for a comparison with the fleet."""
BIWEIGHT_CUTOFF: Final = 9.0
"""Distance in median absolute deviations beyond which values are ignored [Mosteller & Tukey 1977]."""
BIWEIGHT_EFFICIENCY: Final = 0.85
"""Efficiency of this variance for normal values; that of the median absolute deviation is 0.37."""
MEDIAN_VARIANCE: Final = np.pi / 2
"""Variance of the median of many unit normal values, times their number."""
MAD_TO_SIGMA: Final = 1.4826
"""Ratio of standard deviation to median absolute deviation of normal values."""


@dataclass(frozen=True, slots=True, eq=False)
class FittedSize:
    """Fitted size, its jackknife variance over logs, and the smallest misfit with its cause."""

    value: float
    variance: float
    degrees_of_freedom: int
    misfit: float


@dataclass(frozen=True, slots=True, eq=False)
class SizeDistribution:
    """Distribution of a size among robots.

    centre                     median
    between                    variance between healthy robots
    prior, degrees_of_freedom  variance towards which those of robots are moderated, and its weight in logs
    robots                     number of robots behind `between`
    """

    centre: float
    between: float
    prior: float
    degrees_of_freedom: float
    robots: int

    def deviation(self, size: FittedSize) -> tuple[float, float]:
        """Return the standard deviation of a robot's difference from the centre, and its degrees of freedom."""
        if np.isinf(self.degrees_of_freedom):
            within, freedom = self.prior, 1e6
        else:
            freedom = self.degrees_of_freedom + size.degrees_of_freedom
            within = (self.degrees_of_freedom * self.prior + size.degrees_of_freedom * size.variance) / freedom
        # Welch-Satterthwaite: degrees of freedom of a sum of variances.
        both = within + self.between
        parts = within**2 / freedom + self.between**2 / max(1.0, BIWEIGHT_EFFICIENCY * (self.robots - 1))
        variance = both * (1 + MEDIAN_VARIANCE / self.robots)
        return float(np.sqrt(variance)), float(both**2 / parts) if parts > 0 else freedom


def fit_distribution(sizes: Sequence[FittedSize]) -> SizeDistribution:
    """Fit the distribution."""
    values, variances = np.array([size.value for size in sizes]), np.array([size.variance for size in sizes])
    if len(sizes) < MIN_ROBOTS:
        return SizeDistribution(0.0, 0.0, 0.0, 0.0, len(sizes))
    centre, spread = float(np.median(values)), float(biweight_variance(values))
    prior, freedom = _fit_variance_prior(
        variances, np.array([size.degrees_of_freedom for size in sizes], dtype=np.float64)
    )
    typical = float(np.median(variances)) if not np.isinf(freedom) else prior
    return SizeDistribution(centre, max(0.0, spread - typical), prior, freedom, len(sizes))


def biweight_variance(values: Array) -> Array:
    """Return the variance along the first axis by Tukey's biweight, which ignores outliers.

    It is zero if half of the values are equal.
    """
    distance = values - np.median(values, axis=0)
    limit = BIWEIGHT_CUTOFF * np.median(np.abs(distance), axis=0)
    u = np.square(distance / np.where(limit > 0, limit, np.inf))
    near = np.where(u < 1, 1 - u, 0.0)
    below = np.sum(np.where(u < 1, (1 - u) * (1 - 5 * u), 0.0), axis=0)
    return np.where(limit > 0, len(values) * np.sum(distance**2 * near**4, axis=0) / below**2, 0.0)


def _fit_variance_prior(variances: Array, degrees_of_freedom: Array) -> tuple[float, float]:
    """Fit the inverse chi-square prior of variances; return its scale and degrees of freedom [Smyth 2004, eq. 10]."""
    from scipy import special

    half = degrees_of_freedom / 2
    e = np.log(variances) - special.digamma(half) + np.log(half)
    middle = float(np.median(e))
    excess = (MAD_TO_SIGMA * float(np.median(np.abs(e - middle)))) ** 2 - float(np.mean(special.polygamma(1, half)))
    if excess <= 0:
        return float(np.exp(middle)), float("inf")
    worth = 2 * _inverse_trigamma(excess)
    return float(np.exp(middle + special.digamma(worth / 2) - np.log(worth / 2))), worth


def _inverse_trigamma(y: float) -> float:
    """Return x with trigamma(x) = y, from 1 / x < trigamma(x) < 1 / x + 1 / x^2."""
    from scipy import optimize, special

    largest = (1 + np.sqrt(1 + 4 * y)) / (2 * y)
    return float(optimize.brentq(lambda x: special.polygamma(1, x) - y, 1 / y, largest))
