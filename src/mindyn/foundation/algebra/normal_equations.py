"""Solve normal equations A x = b for a symmetric positive semi-definite A, with one scaling and one tolerance.

A = Y^T Y is the product of a matrix Y with itself. A is scaled as if the columns of Y had length one. Eigenvectors
whose eigenvalue is a rounding error are omitted, which gives the solution of smallest norm in scaled columns.
`regression.information.solve` uses R factors instead of A, which keep more digits.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from mindyn.foundation.algebra.values import Array

SMALLEST_EIGENVALUE: Final = 1e-14
"""An eigenvalue of the scaled matrix below this fraction of the largest is rounding of its sums."""
NEGLIGIBLE_LENGTH: Final = 1e-12
"""A column shorter than this, relative to the longest, is a rounding error and is not scaled to length one."""


def column_lengths(A: Array) -> Array:
    """Return the lengths (..., p) of the columns of Y, for A = Y^T Y of shape (..., p, p). Negligible columns get
    length one.
    """
    lengths = np.sqrt(np.maximum(np.einsum("...ii->...i", A), 0.0))
    longest = lengths.max(axis=-1, keepdims=True, initial=0.0)
    return np.asarray(np.where(lengths > NEGLIGIBLE_LENGTH * longest, lengths, 1.0))


def invert_normal_matrix(A: Array) -> Array:
    """Return the pseudo-inverse (..., p, p) of A."""
    lengths = column_lengths(A)
    products = lengths[..., :, None] * lengths[..., None, :]
    values, vectors = np.linalg.eigh(A / products)
    kept = values > SMALLEST_EIGENVALUE * values.max(axis=-1, keepdims=True, initial=0.0)
    inverse = np.where(kept, 1 / np.where(kept, values, 1.0), 0.0)
    return np.asarray((vectors * inverse[..., None, :]) @ np.swapaxes(vectors, -1, -2) / products)


def solve_normal_equations(A: Array, b: Array) -> Array:
    """Return x (p,) with A x = b, the shortest one in scaled columns if A is singular."""
    return np.asarray(invert_normal_matrix(A) @ b)
