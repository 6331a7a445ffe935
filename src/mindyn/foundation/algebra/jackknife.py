"""The jackknife: a covariance from estimates that leave out one block of the data at a time [Miller 1974].

With m blocks, and d_b = (estimate without block b) - (estimate from all blocks), the covariance is

    V = (m - 1) / m  sum_b d_b d_b^T

This covariance includes noise that is correlated within a block. It does not include errors that are equal in all
blocks.
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
