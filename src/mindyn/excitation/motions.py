"""`Motion`: joint positions as start + basis(t) @ coefficients; a `Family` is the basis and its derivatives."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

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

    @abstractmethod
    def derivative(self, t: ArrayLike, order: int) -> Array:
        """Return positions (order 0), velocities or accelerations (N, n) at times t (N,)."""

    def rows(self, times: Array) -> tuple[Array, Array, Array]:
        """Return q, qd, qdd (N, n) at times (N,)."""
        q, qd, qdd = (self.derivative(times, order) for order in range(3))
        return q, qd, qdd

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
