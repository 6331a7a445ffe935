"""`IdentifiableSubspace`: combinations of parameters that are known so far, and those that further rows add."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mindyn.foundation.algebra.values import Array

NEW: Final = 1e-6
"""Rows determine a new direction if the part of a row outside the known directions is longer than this, relative to the
longest row; columns have unit length over the data. Rounding leaves 1e-13; the weakest of Yoshida's tests (h5) has
1e-3.
"""
FAINT: Final = 1e-3
"""Smallest length of a row that is compared, because shorter rows contain only rounding errors."""


@dataclass(frozen=True, slots=True, eq=False)
class IdentifiableSubspace:
    """Known combinations of parameters: the rows of L (k, p) are orthonormal, and L (scales * beta) is known.

    scales  (p,) lengths of the columns; parameters are counted in units of 1 / scale
    """

    scales: Array
    L: Array

    @staticmethod
    def of(scales: Array, known: NDArray[np.bool_]) -> IdentifiableSubspace:
        """Return the subspace with the marked parameters known. A parameter that no row contains keeps its unit."""
        return IdentifiableSubspace(np.where(scales > 0, scales, 1.0), np.eye(len(scales))[known])

    @property
    def rank(self) -> int:
        """Return the number of known combinations."""
        return len(self.L)

    def scaled(self, A: Array) -> Array:
        """Return rows (m, p) for parameters in units of 1 / scale."""
        return np.asarray(A / self.scales)

    def new(self, A: Array, least: float = NEW) -> tuple[Array, Array, Array]:
        """Return U (m, r), s (r,), N (r, p), where U diag(s) N is the part of the scaled rows outside the known
        directions.
        """
        rows = self.scaled(A)
        outside = rows - (rows @ self.L.T) @ self.L
        outside -= (outside @ self.L.T) @ self.L  # once more, for rounding
        U, s, N = np.linalg.svd(outside, full_matrices=False)
        kept = s > least * np.linalg.norm(rows, axis=1).max(initial=FAINT)
        return U[:, kept], s[kept], N[kept]

    def with_directions(self, N: Array) -> IdentifiableSubspace:
        """Return the subspace with further orthonormal directions, orthogonal to the known ones."""
        return IdentifiableSubspace(self.scales, np.vstack([self.L, N]))

    def identifiable(self) -> NDArray[np.bool_]:
        """Return for each parameter (p,) whether it is known individually."""
        return np.asarray((self.L**2).sum(axis=0) > 1 - NEW)
