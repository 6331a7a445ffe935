"""Is a mean surely above zero, told from parts of a series whose rows depend on each other?"""

from __future__ import annotations

from typing import Final

import numpy as np

from mindyn.algebra.values import Array

PARTS: Final = 20
SURE: Final = 2.0
"""Standard deviations of the mean, told from the parts."""


def surely_positive(rows: Array, deviations: float = SURE) -> bool:
    """Whether the mean of rows (N,) is above zero by deviations that `PARTS` contiguous parts of them tell.

    Of squared residuals of two fits, row by row the one's less the other's: whether the other fits better, and not by
    chance [Vuong 1989].
    """
    means = np.array([part.mean() for part in np.array_split(rows, min(PARTS, len(rows)))])
    if len(means) < 2:
        return False
    return bool(means.mean() > deviations * means.std(ddof=1) / np.sqrt(len(means)))
