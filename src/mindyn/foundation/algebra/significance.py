"""Test whether the mean of rows that depend on each other is significantly positive, and compute relative
deviations.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from mindyn.foundation.algebra.values import Array

NORMAL_95: Final = 1.959963984540054
"""Half width of a 95 % interval in standard deviations."""
MAX_WELL_DETERMINED_DEVIATION: Final = 0.1
"""Largest relative standard deviation of a well determined parameter."""
MIN_IMPROVEMENT_DEVIATIONS: Final = 0.5
"""Standard deviations of its mean over blocks by which a reduction of the error must exceed zero to justify a larger
model. On simulated arms, any value from 0.4 to 3.8 separates those with load-dependent friction from those
without; segments of measured logs of an arm with such friction reach 1."""


def relative_deviation(values: ArrayLike, deviations: ArrayLike, ends: ArrayLike | None = None) -> Array:
    """Return deviation / |value| for each value. The result is NaN if the 95 % interval contains zero, because the
    quotient has no meaning then.

    ends  (2, p) ends of the intervals; None: intervals of a normal distribution
    """
    sizes, deviations = np.abs(np.asarray(values, dtype=np.float64)), np.asarray(deviations, dtype=np.float64)
    is_nonzero = sizes > NORMAL_95 * deviations
    if ends is not None:
        low, high = np.asarray(ends, dtype=np.float64)
        is_nonzero = ((low > 0) | (high < 0)) & (sizes > 0)
    return np.asarray(np.where(is_nonzero, deviations / np.where(is_nonzero, sizes, 1.0), np.nan))


BLOCK_COUNT: Final = 20
"""Contiguous blocks that a series is split into."""
SIGNIFICANT_DEVIATIONS: Final = 2.0
"""Standard deviations of the mean, estimated from the blocks, that count as significant."""
SIGNIFICANCE_LEVEL: Final = 0.05
"""One-sided level of tests that decide between candidates by differences on the same blocks."""


def exceeds_zero(mean: float, deviation: float, blocks: int) -> bool:
    """Return whether a mean over blocks exceeds zero significantly, by Student's one-sided test with the given standard
    deviation.
    """
    from scipy.special import stdtrit

    return blocks > 1 and mean > float(stdtrit(blocks - 1, 1 - SIGNIFICANCE_LEVEL)) * deviation


def is_significantly_positive(rows: Array, deviations: float = SIGNIFICANT_DEVIATIONS) -> bool:
    """Return whether the mean of rows (N,) exceeds zero by at least `deviations` standard deviations of the mean,
    estimated from contiguous blocks.

    If the rows are the squared residuals of one fit minus those of another, a positive mean shows that the other fit is
    significantly better [Vuong 1989].
    """
    means = np.array([part.mean() for part in np.array_split(rows, min(BLOCK_COUNT, len(rows)))])
    if len(means) < 2:
        return False
    return bool(means.mean() > deviations * means.std(ddof=1) / np.sqrt(len(means)))
