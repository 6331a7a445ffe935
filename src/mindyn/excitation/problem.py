"""`Problem`: criterion and constraints of a design as functions of one vector of unknowns, with exact gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from mindyn.algebra.values import Array
from mindyn.excitation.columns import Columns
from mindyn.excitation.constraints import Constraint, Rates, aggregate_values, sizes
from mindyn.excitation.criteria import Criterion
from mindyn.excitation.motions import Family, Instants, Motion, State

SAMPLES_PER_CYCLE: Final = 40
KNOTS_PER_CYCLE: Final = 20
"""Instants of the criterion and of the constraints for every cycle of the fastest function."""
SEGMENTS_PER_CYCLE: Final = 2
"""Segments of the motion per cycle; each series has a separate maximum in each segment."""
MOST_MAXIMA: Final = 600
"""Largest number of maxima, over all series and segments: the time of a solver step is proportional to it."""
SINGULAR_CRITERION: Final = 1e3
"""Value of the criterion if a step of the search leaves parameters unidentifiable."""

Derivatives = Callable[[], Array]
"""Derivatives at a point where the value is known: line searches ask for many values, and few of these."""


def segments_of_cycle(cycles: float, series: int) -> int:
    """Return the number of segments of the motion."""
    return max(1, min(round(SEGMENTS_PER_CYCLE * cycles), MOST_MAXIMA // max(series, 1)))


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """The criterion to minimise, and the constraints.

    samples, knots  where the criterion is summed, and where constraints are aggregated
    weights         (n,) of the joints' rows: 1 / noise variance, times the log's rows for each sample
    earlier         (p, p) information of earlier logs
    scales          (1 + m, n) units of the unknowns: what takes a joint to a limit if it moves by one function alone
    start           (n,) where the motion must begin; None if it is free
    closed_within   ranges (2, n) of the joints within which loops that are solved numerically close. Beyond them, where
                    a search may step, only the position is constrained, and all else is that of the nearest position
                    inside; None for other robots
    """

    columns: Columns
    criterion: Criterion
    constraints: tuple[Constraint, ...]
    family: Family
    seconds: float
    samples: Instants
    knots: Instants
    weights: Array
    earlier: Array
    scales: Array
    start: Array | None = None
    closed_within: Array | None = None

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

    def information(self, x: Array) -> Array:
        """Return S (p, p), the information of earlier logs and this motion."""
        state = self._closed(self.samples.state(self.table(x)))
        return self.earlier + self.columns.information(self.columns.entries(*state[:3]), self.weights)

    def objective(self, x: Array) -> tuple[float, Derivatives]:
        """Return the criterion and a function for its gradient: one adjoint product of the regressor kernel."""
        q, qd, qdd, _ = self._closed(self.samples.state(self.table(x)))
        entries = self.columns.entries(q, qd, qdd)
        value, G = self.criterion.with_gradient(self.earlier + self.columns.information(entries, self.weights))
        if not np.isfinite(value):
            return SINGULAR_CRITERION, lambda: np.zeros_like(x)

        def gradient() -> Array:
            V = self.columns.slopes(entries, self.weights, G)
            return self._of_table(self.samples.pulled_back(*self.columns.pulled_back(q, qd, qdd, V)))

        return value, gradient

    def excess(self, x: Array, sharpness: float) -> tuple[Array, Derivatives]:
        """Return smooth maxima of all series over each segment of the knots, minus 1 (w c,), and their Jacobian.

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
        """Return the largest value by label: a link has several capsules, each with two ends."""
        used: dict[str, float] = {}
        for label, value in zip(self.labels, self.greatest(motion, instants).tolist(), strict=True):
            used[label] = max(value, used.get(label, -np.inf))
        return used

    @property
    def labels(self) -> list[str]:
        """Labels of all series."""
        return [label for constraint in self.constraints for label in constraint.labels]

    def with_power(self, power: float) -> Problem:
        """Return the problem with another smoothness of the criterion."""
        return replace(self, criterion=replace(self.criterion, power=power))

    def _sizes(self, motion: Motion, instants: Instants) -> Iterator[Array]:
        """Yield the values (N, c) of each constraint."""
        for constraint, state in self._states(instants, np.vstack([motion.start, motion.coefficients])):
            yield sizes(constraint, state)

    def _states(self, instants: Instants, z: Array) -> Iterator[tuple[Constraint, State]]:
        """Yield each constraint with the state that it is evaluated at."""
        state = instants.state(z)
        closed = self._closed(state)
        for constraint in self.constraints:
            yield constraint, state if isinstance(constraint, Rates) else closed

    def _closed(self, state: State) -> State:
        return state if self.closed_within is None else (np.clip(state[0], *self.closed_within), *state[1:])

    def _of_table(self, by_z: Array) -> Array:
        """Convert derivatives by z (..., 1 + m, n) to derivatives by x."""
        by_x = by_z * self.scales
        if self.start is not None:
            by_x = by_x[..., 1:, :]
        return by_x.reshape(*by_x.shape[:-2], -1)
