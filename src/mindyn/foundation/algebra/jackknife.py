"""The jackknife: how far an estimate moves if each block of its data is left out in turn [Miller 1974].

With m blocks and d_b the estimate without block b minus the estimate from all blocks, the covariance is

    V = (m - 1) / m  sum_b d_b d_b^T

It measures noise whose correlation does not reach from block to block, not errors that repeat in all blocks.
"""

from __future__ import annotations

import numpy as np

from mindyn.foundation.algebra.values import Array


def jackknife_covariance(shifts: Array) -> Array:
    """Return the covariance (p, p) from the shifts (m, p) of an estimate without each block."""
    m = len(shifts)
    return np.asarray((m - 1) / m * shifts.T @ shifts)


def jackknife_variances(shifts: Array, axis: int = 0) -> Array:
    """Return the variances of estimates from their shifts, with the blocks along one axis."""
    m = shifts.shape[axis]
    return np.asarray((m - 1) / m * (shifts**2).sum(axis=axis))
