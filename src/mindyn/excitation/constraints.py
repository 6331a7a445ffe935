"""Constraints on a motion: series over time that must stay at or below 1, with exact derivatives.

A series is a joint's position, velocity, acceleration, jerk or torque relative to its limit, or the approach of two
capsules, or of a capsule and a wall. `aggregate_values` reduces each to a smooth maximum over time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from mindyn.algebra.values import Array
from mindyn.errors import Code, InputError
from mindyn.excitation.clearance import Pairs, Points
from mindyn.excitation.instants import Instants, State
from mindyn.kernels.kernel import Kernel

APPROACH_M: Final = 0.1
"""Distance over which the approach of two surfaces counts from 0 to 1."""


class Constraint(Protocol):
    """c series over time."""

    @property
    def two_sided(self) -> bool:
        """Return whether -1 is a bound too."""

    @property
    def labels(self) -> list[str]:
        """Names of the c series."""

    def values(self, state: State) -> Array:
        """(N, c), at most 1 if the constraint holds."""

    def pulled_back(self, instants: Instants, state: State, weights: Array) -> Array:
        """(w, c, 1 + m, n): derivatives by z of sum_t weights[t] values[t] over each segment."""


@dataclass(frozen=True, slots=True, eq=False)
class Rates:
    """Positions (order 0), velocities, accelerations or jerks of some joints: (rate - middle) / half."""

    order: int
    joints: NDArray[np.intp]
    middle: Array
    half: Array
    names: tuple[str, ...]

    two_sided = True

    @property
    def labels(self) -> list[str]:
        """See `Constraint`."""
        return [f"{('position', 'velocity', 'acceleration', 'jerk')[self.order]} of {name}" for name in self.names]

    def values(self, state: State) -> Array:
        """See `Constraint`."""
        return np.asarray((state[self.order][:, self.joints] - self.middle) / self.half)

    def pulled_back(self, instants: Instants, state: State, weights: Array) -> Array:
        """See `Constraint`."""
        B = instants.by_segment(instants.basis[self.order])
        result = np.zeros((len(B), len(self.joints), B.shape[2], state[0].shape[1]))
        summed = B.swapaxes(1, 2) @ instants.by_segment(weights / self.half)  # (w, 1 + m, c)
        result[:, range(len(self.joints)), :, self.joints] = summed.transpose(2, 0, 1)
        return result


@dataclass(frozen=True, slots=True, eq=False)
class _DependentRates:
    """Rates of c dependent joints, scaled to -1 ... 1 within their limits: (rate - middle) / half."""

    middle: Array
    half: Array
    names: tuple[str, ...]

    two_sided = True

    @property
    def labels(self) -> list[str]:
        """See `Constraint`."""
        return list(self.names)


@dataclass(frozen=True, slots=True, eq=False)
class LinkedRates(_DependentRates):
    """Rates that are linear in those of several joints: rows @ rate.

    rows  (c, n)
    """

    order: int
    rows: Array

    def values(self, state: State) -> Array:
        """See `Constraint`."""
        return np.asarray((state[self.order] @ self.rows.T - self.middle) / self.half)

    def pulled_back(self, instants: Instants, state: State, weights: Array) -> Array:  # noqa: ARG002 - linear
        """See `Constraint`."""
        B = instants.by_segment(instants.basis[self.order])
        summed = B.swapaxes(1, 2) @ instants.by_segment(weights / self.half)
        return np.asarray(summed.swapaxes(1, 2)[:, :, :, None] * self.rows[:, None, :])


@dataclass(frozen=True, slots=True, eq=False)
class SolvedRates(_DependentRates):
    """Rates of dependent joints of numerically solved loops.

    kernel  returns them at (q, qd, ...), with as many inputs as needed; `slopes` returns the derivatives by each input
    """

    kernel: Kernel
    slopes: Kernel

    def values(self, state: State) -> Array:
        """See `Constraint`."""
        return np.asarray((self.kernel(*self._inputs(state)) - self.middle) / self.half)

    def pulled_back(self, instants: Instants, state: State, weights: Array) -> Array:
        """See `Constraint`."""
        result = self.slopes(*self._inputs(state))
        slopes = result if isinstance(result, tuple) else (result,)
        return instants.pulled_back_series(*((weights / self.half)[:, :, None] * J for J in slopes))

    def _inputs(self, state: State) -> tuple[Array, ...]:
        return state[: len(self.kernel.program.inputs)]


@dataclass(frozen=True, slots=True, eq=False)
class Torques:
    """Torques without Coulomb friction, relative to the limits minus Coulomb friction in the worst direction.

    beta     base parameters, with zero Coulomb friction
    allowed  (c,) limits of the joints that have one
    """

    kernel: Kernel
    slopes: Kernel
    beta: Array
    joints: NDArray[np.intp]
    allowed: Array
    names: tuple[str, ...]

    two_sided = True

    @property
    def labels(self) -> list[str]:
        """See `Constraint`."""
        return [f"torque of {name}" for name in self.names]

    def values(self, state: State) -> Array:
        """See `Constraint`."""
        return np.asarray(self.kernel(*state[:3], self.beta)[:, self.joints] / self.allowed)

    def pulled_back(self, instants: Instants, state: State, weights: Array) -> Array:
        """See `Constraint`."""
        scaled = (weights / self.allowed)[:, :, None]
        slopes = [scaled * J[:, self.joints] for J in self.slopes(*state[:3], self.beta)]
        return instants.pulled_back_series(*slopes)


@dataclass(frozen=True, slots=True, eq=False)
class Gaps:
    """Gaps between capsules, at least `clearance` (c,) m."""

    pairs: Pairs
    clearance: Array

    two_sided = False

    @property
    def labels(self) -> list[str]:
        """See `Constraint`."""
        return [f"gap of {name}" for name in self.pairs.names()]

    def values(self, state: State) -> Array:
        """See `Constraint`."""
        return np.asarray(1 - (self.pairs.gaps(state[0]) - self.clearance) / APPROACH_M)

    def pulled_back(self, instants: Instants, state: State, weights: Array) -> Array:
        """See `Constraint`."""
        slopes = self.pairs.with_slopes(state[0])[1]
        return instants.pulled_back_series(-weights[:, :, None] * slopes / APPROACH_M)


@dataclass(frozen=True, slots=True, eq=False)
class Box:
    """A box with faces parallel to the axes of the root frame: a workspace or an obstacle.

    Parameters
    ----------
    lower, upper : array_like, shape (3,)
        Corners in m; infinite entries are no face. A floor is Box(lower=(-inf, -inf, 0)).

    Raises
    ------
    InputError
        If a corner is not three numbers, or the box is empty.
    """

    lower: Array
    upper: Array

    def __init__(self, lower: object = (-np.inf,) * 3, upper: object = (np.inf,) * 3) -> None:
        for name, given in (("lower", lower), ("upper", upper)):
            try:
                array = np.array(given, dtype=np.float64)
            except (TypeError, ValueError):
                array = np.array(np.nan)
            if array.shape != (3,) or np.isnan(array).any():
                raise InputError(
                    f"the {name} corner of a box must be three numbers, got {given!r}",
                    code=Code.WRONG_SHAPE,
                    subject=name,
                )
            object.__setattr__(self, name, array)
        if not (self.lower < self.upper).all():
            raise InputError(
                f"a box from {self.lower.tolist()} to {self.upper.tolist()} has no inside",
                code=Code.OUT_OF_RANGE,
                subject="upper",
            )


@dataclass(frozen=True, slots=True, eq=False)
class Walls:
    """Distances of points, minus their radii, from the faces of a box.

    directions  (c, 3) inward normals, with `offsets` (c,): n . p - offset is the distance of p from its face
    point       (c,) the point of each series
    """

    points: Points
    point: NDArray[np.intp]
    directions: Array
    offsets: Array
    names: tuple[str, ...]

    two_sided = False

    @property
    def labels(self) -> list[str]:
        """See `Constraint`."""
        return list(self.names)

    def values(self, state: State) -> Array:
        """See `Constraint`."""
        P = self.points.positions(state[0])[:, self.point]
        return np.asarray(1 - ((P * self.directions).sum(-1) - self.offsets) / APPROACH_M)

    def pulled_back(self, instants: Instants, state: State, weights: Array) -> Array:
        """See `Constraint`."""
        J = self.points.slopes(state[0])[:, self.point]
        slopes = np.einsum("tcij,ci->tcj", J, self.directions)
        return instants.pulled_back_series(-weights[:, :, None] * slopes / APPROACH_M)


def aggregate_values(
    constraint: Constraint, instants: Instants, state: State, sharpness: float
) -> tuple[Array, Callable[[], Array]]:
    """Return smooth maxima (w, c) over each segment of time, and their derivatives (w, c, 1 + m, n) by z as a function.

    The mean of v with weights exp(sharpness v), over both signs of v if both are bounded: exact for a constant
    series, about 1 / (2 sharpness) below a peak. (The logarithm of a sum lies log(N) / sharpness above a constant.)
    """
    v = instants.by_segment(constraint.values(state))
    signed = np.concatenate([v, -v], axis=1) if constraint.two_sided else v
    weights = np.exp(sharpness * (signed - signed.max(axis=1, keepdims=True)))
    weights /= weights.sum(axis=1, keepdims=True)
    mean = (weights * signed).sum(axis=1)

    def derivatives() -> Array:
        slopes = weights * (1 + sharpness * (signed - mean[:, None]))
        if constraint.two_sided:
            slopes = slopes[:, : v.shape[1]] - slopes[:, v.shape[1] :]
        return constraint.pulled_back(instants, state, slopes.reshape(-1, v.shape[2]))

    return mean, derivatives


def greatest(constraint: Constraint, state: State) -> Array:
    """Return the maxima (c,) over time."""
    return np.asarray(sizes(constraint, state).max(axis=0))


def worst(constraint: Constraint, state: State) -> Array:
    """Return the maxima (N,) over the series."""
    return np.asarray(sizes(constraint, state).max(axis=1))


def sizes(constraint: Constraint, state: State) -> Array:
    """Return the values (N, c), absolute if both signs are bounded."""
    v = constraint.values(state)
    return np.abs(v) if constraint.two_sided else v
