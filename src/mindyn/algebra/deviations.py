"""How sure a number is: half its 95 % interval, and its standard deviation relative to it."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from mindyn.algebra.values import Array

NORMAL_95: Final = 1.959963984540054
"""Half width of a 95 % interval in standard deviations."""
MAX_WELL_DETERMINED_DEVIATION: Final = 0.1
"""A parameter whose standard deviation is a smaller part of its value is clear."""
MIN_IMPROVEMENT_DEVIATIONS: Final = 0.5
"""Standard deviations of its mean over blocks that a difference of errors must exceed where it costs freedom. On
simulated arms any number from 0.4 to 3.8 tells those with friction that grows with the load from those without; parts
of measured logs of an arm that has it reach 1."""


def relative_deviation(values: ArrayLike, deviations: ArrayLike, ends: ArrayLike | None = None) -> Array:
    """deviation / |value|; NaN where the 95 % interval holds zero, since the quotient then says nothing.

    ends  (2, p) of the intervals; None: the normal ones
    """
    sizes, spread = np.abs(np.asarray(values, dtype=np.float64)), np.asarray(deviations, dtype=np.float64)
    told = sizes > NORMAL_95 * spread
    if ends is not None:
        low, high = np.asarray(ends, dtype=np.float64)
        told = ((low > 0) | (high < 0)) & (sizes > 0)
    return np.asarray(np.where(told, spread / np.where(told, sizes, 1.0), np.nan))
