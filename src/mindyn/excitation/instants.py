"""`Instants`: a family's functions and their derivatives at fixed times, and motions there as linear maps."""

from __future__ import annotations

from dataclasses import dataclass, replace

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

    segments  w: consecutive parts with equal numbers of instants, over each of which series are summed
    """

    t: Array
    basis: tuple[Array, ...]
    segments: int = 1

    @staticmethod
    def of(family: Family, seconds: float, count: int, segments: int = 1) -> Instants:
        """Return at least `count` instants in the middles of equal intervals, equally many in each segment."""
        whole = -(-count // segments) * segments
        t = np.asarray((np.arange(whole) + 0.5) * (seconds / whole), dtype=np.float64)
        return replace(Instants.at(t, family, seconds), segments=segments)

    @staticmethod
    def at(t: Array, family: Family, seconds: float) -> Instants:
        """Return the given instants."""
        starts = [np.full((len(t), 1), 1.0 if order == 0 else 0.0) for order in range(4)]
        basis = (np.hstack([start, family.basis(t, seconds, order)]) for order, start in enumerate(starts))
        return Instants(t, tuple(basis))

    def taken(self, rows: NDArray[np.intp]) -> Instants:
        """Return some of the instants."""
        return Instants(self.t[rows], tuple(B[rows] for B in self.basis))

    def state(self, z: Array) -> State:
        """Return the motion at the instants."""
        q, qd, qdd, qddd = (B @ z for B in self.basis)
        return q, qd, qdd, qddd

    def pulled_back(self, *slopes: Array) -> Array:
        """Convert derivatives (N, n) by q, qd, ... to derivatives (1 + m, n) by z, summed over all instants."""
        return np.asarray(sum(B.T @ slope for B, slope in zip(self.basis, slopes, strict=False)))

    def pulled_back_series(self, *slopes: Array) -> Array:
        """Convert derivatives (N, c, n) by q, qd, ... to (w, c, 1 + m, n) by z, summed over each segment."""
        _, c, n = slopes[0].shape
        orders = zip(self.basis, slopes, strict=False)
        flat = sum(self.by_segment(B).swapaxes(1, 2) @ self.by_segment(slope).reshape(self.segments, -1, c * n)
                   for B, slope in orders)  # fmt: skip
        return np.asarray(flat).reshape(self.segments, -1, c, n).transpose(0, 2, 1, 3)

    def by_segment(self, series: Array) -> Array:
        """Reshape (N, ...) to (w, N / w, ...)."""
        return series.reshape(self.segments, -1, *series.shape[1:])
