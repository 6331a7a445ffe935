"""Test whether a mean is significantly positive when the rows of the series depend on each other."""

from __future__ import annotations

from typing import Final

import numpy as np
from scipy.special import stdtrit

from mindyn.algebra.values import Array

BLOCK_COUNT: Final = 20
"""Contiguous blocks that a series is split into."""
SIGNIFICANT_DEVIATIONS: Final = 2.0
"""Standard deviations of the mean, estimated from the blocks, that count as significant."""
SIGNIFICANCE_LEVEL: Final = 0.05
"""One-sided level of tests that decide between candidates by differences on the same blocks."""


def exceeds_zero(mean: float, deviation: float, blocks: int) -> bool:
    """Whether a mean over blocks, with its standard deviation, exceeds zero by Student's one-sided test."""
    return blocks > 1 and mean > float(stdtrit(blocks - 1, 1 - SIGNIFICANCE_LEVEL)) * deviation


def is_significantly_positive(rows: Array, deviations: float = SIGNIFICANT_DEVIATIONS) -> bool:
    """Whether the mean of rows (N,) exceeds zero by `deviations` standard deviations, estimated from contiguous blocks.

    If the rows are the squared residuals of one fit minus those of another, a positive mean shows that the other fit is
    significantly better [Vuong 1989].
    """
    means = np.array([part.mean() for part in np.array_split(rows, min(BLOCK_COUNT, len(rows)))])
    if len(means) < 2:
        return False
    return bool(means.mean() > deviations * means.std(ddof=1) / np.sqrt(len(means)))
