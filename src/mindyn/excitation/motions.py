"""`Motion`: joint positions as start + basis(t) @ coefficients; a `Family` is the basis and its derivatives.

`Instants`: the basis at fixed times, and motions there as linear maps.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mindyn.algebra.values import Array


@runtime_checkable
class Family(Protocol):
    """Functions of time that start and end at zero, at rest: value, velocity and acceleration zero at both ends."""

    @property
    def count(self) -> int:
        """Return m, the number of functions."""

    def cycles(self, seconds: float) -> float:
        """Return the number of periods of the fastest function in the motion."""

    def basis(self, t: Array, seconds: float, order: int) -> Array:
        """Return the derivatives (N, m) of the given order at times t in [0, seconds]."""

    def to_dict(self) -> dict[str, Any]:
        """Return the settings in types that JSON can store."""


def sample_times(seconds: float, rate_hz: float) -> Array:
    """Return the times (N,) from 0 in steps of 1 / rate_hz to the end."""
    return np.arange(int(seconds * rate_hz + 1e-9) + 1) / rate_hz


class TimedMotion(ABC):
    """Positions of joints and their derivatives as functions of time: the reference of a controller."""

    __slots__ = ()
    seconds: Any

    @abstractmethod
    def derivative(self, t: ArrayLike, order: int) -> Array:
        """Return positions (order 0), velocities or accelerations (N, n) at times t (N,)."""

    def rows(self, times: Array) -> tuple[Array, Array, Array]:
        """Return q, qd, qdd (N, n) at times (N,)."""
        q, qd, qdd = (self.derivative(times, order) for order in range(3))
        return q, qd, qdd

    def sample(self, rate_hz: float) -> tuple[Array, Array, Array, Array]:
        """Return q, qd, qdd (N, n) and t (N,) from 0 to the end."""
        t = sample_times(self.seconds, rate_hz)
        return (*self.rows(t), t)

    def __call__(self, t: float) -> tuple[Array, Array, Array]:
        """Return q, qd, qdd (n,) at time t."""
        q, qd, qdd = self.rows(np.array([t]))
        return q[0], qd[0], qdd[0]


@dataclass(frozen=True, slots=True, eq=False)
class Motion(TimedMotion):
    """q(t) = start + basis(t) @ coefficients on [0, seconds]; at rest in `start` before and after.

    start         (n,) where the motion begins and ends, rad or m
    coefficients  (m, n)
    """

    family: Family
    seconds: float
    start: Array
    coefficients: Array

    def derivative(self, t: ArrayLike, order: int) -> Array:
        """Return positions (order 0), velocities, accelerations or jerks (N, n) at times t (N,)."""
        times = np.atleast_1d(np.asarray(t, dtype=np.float64))
        inside = np.clip(times, 0.0, self.seconds)
        values = self.family.basis(inside, self.seconds, order) @ self.coefficients
        if order == 0:
            return np.asarray(values + self.start)
        values[(times < 0) | (times > self.seconds)] = 0.0
        return np.asarray(values)

    def scaled(self, factor: float) -> Motion:
        """Return the motion with all displacements from the start scaled."""
        return Motion(self.family, self.seconds, self.start, factor * self.coefficients)


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
