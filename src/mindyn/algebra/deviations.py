"""Precision of a number: its 95 % interval and its standard deviation relative to its value."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from mindyn.algebra.values import Array

NORMAL_95: Final = 1.959963984540054
"""Half width of a 95 % interval in standard deviations."""
MAX_WELL_DETERMINED_DEVIATION: Final = 0.1
"""Largest relative standard deviation of a well determined parameter."""
MIN_IMPROVEMENT_DEVIATIONS: Final = 0.5
"""Standard deviations of its mean over blocks by which a reduction of the error must exceed zero to justify a larger
model. On simulated arms, any value from 0.4 to 3.8 separates those with load-dependent friction from those
without; segments of measured logs of an arm with such friction reach 1."""


def relative_deviation(values: ArrayLike, deviations: ArrayLike, ends: ArrayLike | None = None) -> Array:
    """Return deviation / |value|, NaN where the 95 % interval contains zero and the quotient is meaningless.

    ends  (2, p) of the intervals; None for the normal ones
    """
    sizes, deviations = np.abs(np.asarray(values, dtype=np.float64)), np.asarray(deviations, dtype=np.float64)
    is_nonzero = sizes > NORMAL_95 * deviations
    if ends is not None:
        low, high = np.asarray(ends, dtype=np.float64)
        is_nonzero = ((low > 0) | (high < 0)) & (sizes > 0)
    return np.asarray(np.where(is_nonzero, deviations / np.where(is_nonzero, sizes, 1.0), np.nan))
