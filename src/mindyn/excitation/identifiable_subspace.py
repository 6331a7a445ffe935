"""`IdentifiableSubspace`: the combinations of parameters that are known so far, and what further rows add to them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mindyn.algebra.values import Array

NEW: Final = 1e-6
"""Rows determine a direction if their part outside the known ones is longer than this, relative to the longest row;
columns have unit length over the data. Rounding leaves 1e-13; the weakest one of Yoshida's tests (h5) has 1e-3."""
FAINT: Final = 1e-3
"""Rows shorter than this count as this long: where nothing acts, all is rounding."""


@dataclass(frozen=True, slots=True, eq=False)
class IdentifiableSubspace:
    """L (k, p), orthonormal rows: L (scales * beta) is known.

    scales  (p,) lengths of the columns; parameters are counted in units of 1 / scale
    """

    scales: Array
    L: Array

    @staticmethod
    def of(scales: Array, known: NDArray[np.bool_]) -> IdentifiableSubspace:
        """With the marked parameters known, and those that no row sees counted in their own units."""
        return IdentifiableSubspace(np.where(scales > 0, scales, 1.0), np.eye(len(scales))[known])

    @property
    def rank(self) -> int:
        """Number of known combinations."""
        return len(self.L)

    def scaled(self, A: Array) -> Array:
        """Rows (m, p) for parameters in units of 1 / scale."""
        return np.asarray(A / self.scales)

    def new(self, A: Array, least: float = NEW) -> tuple[Array, Array, Array]:
        """U (m, r), s (r,), N (r, p) with U diag(s) N the part of the scaled rows outside the known combinations."""
        rows = self.scaled(A)
        outside = rows - (rows @ self.L.T) @ self.L
        outside -= (outside @ self.L.T) @ self.L  # once more, for rounding
        U, s, N = np.linalg.svd(outside, full_matrices=False)
        kept = s > least * np.linalg.norm(rows, axis=1).max(initial=FAINT)
        return U[:, kept], s[kept], N[kept]

    def with_directions(self, N: Array) -> IdentifiableSubspace:
        """The subspace with further orthonormal directions, orthogonal to the known ones."""
        return IdentifiableSubspace(self.scales, np.vstack([self.L, N]))

    def identifiable(self) -> NDArray[np.bool_]:
        """(p,) which parameters are known by themselves."""
        return np.asarray((self.L**2).sum(axis=0) > 1 - NEW)
