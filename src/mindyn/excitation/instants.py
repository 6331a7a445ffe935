"""`Instants`: a family's functions and their derivatives at fixed times, and motions there as linear maps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mindyn.algebra.values import Array
from mindyn.excitation.motions import Family

State = tuple[Array, Array, Array, Array]
"""q, qd, qdd and the jerk, (N, n) each."""


@dataclass(frozen=True, slots=True, eq=False)
class Instants:
    """Times t (N,) and the basis (N, 1 + m) of every order 0 to 3; the first column is that of the start.

    Unknowns are z (1 + m, n): the start in the first row, the coefficients below it; q = basis[0] @ z.
    """

    t: Array
    basis: tuple[Array, ...]

    @staticmethod
    def of(family: Family, seconds: float, count: int) -> Instants:
        """`count` instants in the middles of equal intervals."""
        return Instants.at(np.asarray((np.arange(count) + 0.5) * (seconds / count), dtype=np.float64), family, seconds)

    @staticmethod
    def at(t: Array, family: Family, seconds: float) -> Instants:
        """The given instants."""
        ones = [np.full((len(t), 1), 1.0 if order == 0 else 0.0) for order in range(4)]
        basis = (np.hstack([one, family.basis(t, seconds, order)]) for order, one in enumerate(ones))
        return Instants(t, tuple(basis))

    def taken(self, rows: NDArray[np.intp]) -> Instants:
        """Some of the instants."""
        return Instants(self.t[rows], tuple(B[rows] for B in self.basis))

    def state(self, z: Array) -> State:
        """Motion at the instants."""
        q, qd, qdd, qddd = (B @ z for B in self.basis)
        return q, qd, qdd, qddd

    def pulled_back(self, *slopes: Array) -> Array:
        """(1 + m, n): derivatives by z of what has derivatives (N, n) by q, qd, ..."""
        return np.asarray(sum(B.T @ slope for B, slope in zip(self.basis, slopes, strict=False)))

    def pulled_back_series(self, *slopes: Array) -> Array:
        """(c, 1 + m, n) for c quantities with derivatives (N, c, n) by q, qd, ..."""
        count, c, n = slopes[0].shape
        flat = sum(B.T @ slope.reshape(count, c * n) for B, slope in zip(self.basis, slopes, strict=False))
        return np.asarray(flat).reshape(-1, c, n).transpose(1, 0, 2)
