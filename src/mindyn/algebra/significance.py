"""Is a mean surely above zero, told from parts of a series whose rows depend on each other?"""

from __future__ import annotations

from typing import Final

import numpy as np

from mindyn.algebra.values import Array

BLOCK_COUNT: Final = 20
SIGNIFICANT_DEVIATIONS: Final = 2.0
"""Standard deviations of the mean, told from the parts."""


def is_significantly_positive(rows: Array, deviations: float = SIGNIFICANT_DEVIATIONS) -> bool:
    """Whether the mean of rows (N,) is above zero by deviations that `BURST_CHECK_PARTS` contiguous parts of them tell.

    Of squared residuals of two fits, row by row the one's less the other's: whether the other fits better, and not by
    chance [Vuong 1989].
    """
    means = np.array([part.mean() for part in np.array_split(rows, min(BLOCK_COUNT, len(rows)))])
    if len(means) < 2:
        return False
    return bool(means.mean() > deviations * means.std(ddof=1) / np.sqrt(len(means)))
