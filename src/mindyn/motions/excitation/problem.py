"""`Problem`: criterion and constraints of a design as functions of one vector of unknowns, with exact gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from mindyn.equations.closed_motion import is_affine
from mindyn.foundation.algebra.values import Array
from mindyn.motions.excitation.constraints import Constraint, Rates, aggregate_values, sizes
from mindyn.motions.excitation.criteria import EXTREME, Name, evaluate_criterion
from mindyn.motions.excitation.limits import STILL, MotionLimits
from mindyn.motions.excitation.motion_columns import Columns
from mindyn.motions.excitation.motions import Fourier, Instants, Motion, State, sample_times

SAMPLES_PER_CYCLE: Final = 40
KNOTS_PER_CYCLE: Final = 20
"""Numbers of instants for every cycle of the fastest function: at which the criterion and the constraints are
evaluated.
"""
SEGMENTS_PER_CYCLE: Final = 2
"""Segments of the motion per cycle; each series has a separate maximum in each segment."""
MOST_MAXIMA: Final = 600
"""Largest number of maxima over all series and segments; the time of a solver step is proportional to this number."""
SINGULAR_CRITERION: Final = 500.0
"""Value of the criterion for a motion with unidentifiable parameters."""

Derivatives = Callable[[], Array]
"""Function for the derivatives at a point whose value is known, because line searches need many values and few
derivatives.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """The criterion to minimise, and the constraints.

    limits          limits of the joints
    criterion       name of the criterion (see `evaluate_criterion`)
    noise           (n,) standard deviation of the torque, in a log at rate_hz
    earlier         (p, p) information of earlier logs
    start           (n,) where the motion must begin; None if it is free
    samples, knots  instants at which the criterion is summed, and at which constraints are aggregated
    weights         (n,) weights of the joints' rows: 1 / noise variance, times the number of rows of the log for each
                    sample
    scales          (1 + m, n) units of the unknowns: the value with which a joint that moves by one function alone
                    reaches a limit
    closed_within   ranges (2, n) of the joints within which numerically solved loops close; None for other robots. A
                    search may step beyond these ranges: then only the position is constrained, and all other series
                    are those of the nearest position inside
    """

    columns: Columns
    limits: MotionLimits
    family: Fourier
    seconds: float
    criterion: Name
    noise: Array
    rate_hz: float
    earlier: Array
    start: Array | None
    constraints: tuple[Constraint, ...]
    samples: Instants = field(init=False)
    knots: Instants = field(init=False)
    weights: Array = field(init=False)
    scales: Array = field(init=False)
    closed_within: Array | None = field(init=False)

    def __post_init__(self) -> None:
        family, seconds, limits = self.family, self.seconds, self.limits
        cycles = family.cycles(seconds)
        samples = Instants.of(family, seconds, int(SAMPLES_PER_CYCLE * cycles) + 1)
        segments = max(1, min(round(SEGMENTS_PER_CYCLE * cycles), MOST_MAXIMA // max(len(self.labels), 1)))
        knots = Instants.of(family, seconds, int(KNOTS_PER_CYCLE * cycles) + 1, segments)
        rows = len(sample_times(seconds, self.rate_hz))
        halves = [np.maximum(h, STILL) for h in (limits.reach, limits.velocity, limits.acceleration, limits.jerk)]
        sizes_of_functions = [np.abs(B[:, 1:]).max(axis=0)[:, None] for B in knots.basis]
        amplitudes = np.min([half / size for half, size in zip(halves, sizes_of_functions, strict=True)], axis=0)
        derived = {
            "samples": samples,
            "knots": knots,
            "weights": rows / self.noise**2 / len(samples.t),
            "scales": np.vstack([np.minimum(halves[0], 1.0), amplitudes]),
            "closed_within": None if is_affine(self.columns.robot) else np.stack([limits.lower, limits.upper]),
        }
        for name, value in derived.items():
            object.__setattr__(self, name, value)

    def unknowns(self, motion: Motion) -> Array:
        """Return the vector x of a motion."""
        z = np.vstack([motion.start, motion.coefficients]) / self.scales
        return np.asarray((z if self.start is None else z[1:]).ravel())

    def table(self, x: Array) -> Array:
        """Return z (1 + m, n) of the unknowns."""
        n = self.scales.shape[1]
        if self.start is None:
            return np.asarray(x.reshape(-1, n) * self.scales)
        return np.vstack([self.start, x.reshape(-1, n) * self.scales[1:]])

    def motion(self, x: Array) -> Motion:
        """Return the motion of the unknowns."""
        z = self.table(x)
        return Motion(self.family, self.seconds, z[0], z[1:])

    def objective(self, x: Array, power: float = EXTREME) -> tuple[float, Derivatives]:
        """Return the criterion, and a function for its gradient, which takes one adjoint product of the regressor
        kernel.
        """
        columns, kept = self.columns, self.columns.own if self.criterion == "joints" else 1.0
        q, qd, qdd, _ = self._clip_to_closed(self.samples.state(self.table(x)))
        entries = columns.entries(q, qd, qdd) * kept
        S = self.earlier + columns.information(entries, self.weights)
        value, G = evaluate_criterion(self.criterion, S, columns.owners, power)

        def gradient() -> Array:
            V = columns.slopes(entries, self.weights, G) * kept
            return self._of_table(self.samples.pulled_back(*columns.pulled_back(q, qd, qdd, V)))

        return (value, gradient) if np.isfinite(value) else (SINGULAR_CRITERION, lambda: np.zeros_like(x))

    def excess(self, x: Array, sharpness: float) -> tuple[Array, Derivatives]:
        """Return smooth maxima of all series over each segment of the knots, minus 1 (w c,), and a function for their
        Jacobian.

        A series has as many peaks as the motion has cycles, and near the optimum most of them are at their limit. With
        a constraint for each peak, a step takes all of them into account.
        """
        maxima = [
            aggregate_values(constraint, self.knots, state, sharpness)
            for constraint, state in self._states(self.knots, self.table(x))
        ]
        values = np.concatenate([value for value, _ in maxima], axis=1).ravel() - 1

        def jacobian() -> Array:
            by_z = np.concatenate([slopes() for _, slopes in maxima], axis=1)
            return self._of_table(by_z.reshape(-1, *by_z.shape[2:]))

        return values, jacobian

    def greatest(self, motion: Motion, instants: Instants) -> Array:
        """Return the largest value (c,) of every series at the instants."""
        return np.concatenate([values.max(axis=0) for values in self._sizes(motion, instants)])

    def greatest_by_segment(self, motion: Motion, instants: Instants) -> Array:
        """Return the largest value (w c,) of every series in each segment of the knots, at ordered instants."""
        ends = np.arange(self.knots.segments) * (self.seconds / self.knots.segments)
        first = np.searchsorted(instants.t, ends)
        maxima = [np.maximum.reduceat(values, first) for values in self._sizes(motion, instants)]
        return np.concatenate(maxima, axis=1).ravel()

    def worst(self, motion: Motion, instants: Instants) -> Array:
        """Return the largest value (N,) of all series at every instant."""
        return np.asarray(np.max([values.max(axis=1) for values in self._sizes(motion, instants)], axis=0))

    def used(self, motion: Motion, instants: Instants) -> dict[str, float]:
        """Return the largest value for each label; a label may belong to several series, such as both ends of all
        capsules of a link.
        """
        used: dict[str, float] = {}
        for label, value in zip(self.labels, self.greatest(motion, instants).tolist(), strict=True):
            used[label] = max(value, used.get(label, -np.inf))
        return used

    @property
    def labels(self) -> list[str]:
        """Labels of all series."""
        return [label for constraint in self.constraints for label in constraint.labels]

    def _sizes(self, motion: Motion, instants: Instants) -> Iterator[Array]:
        """Yield the values (N, c) of each constraint."""
        for constraint, state in self._states(instants, np.vstack([motion.start, motion.coefficients])):
            yield sizes(constraint, state)

    def _states(self, instants: Instants, z: Array) -> Iterator[tuple[Constraint, State]]:
        """Yield each constraint with the state at which it is evaluated."""
        state = instants.state(z)
        closed = self._clip_to_closed(state)
        for constraint in self.constraints:
            yield constraint, state if isinstance(constraint, Rates) else closed

    def _clip_to_closed(self, state: State) -> State:
        return state if self.closed_within is None else (np.clip(state[0], *self.closed_within), *state[1:])

    def _of_table(self, by_z: Array) -> Array:
        """Convert derivatives with respect to z (..., 1 + m, n) to derivatives with respect to x."""
        by_x = by_z * self.scales
        if self.start is not None:
            by_x = by_x[..., 1:, :]
        return by_x.reshape(*by_x.shape[:-2], -1)
