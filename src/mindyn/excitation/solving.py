"""Search for the best motion: sequential quadratic programming from several starts, every result made feasible.

Smoothness is taken back in stages: first the criterion's norm and the maxima over time are soft, then sharp. The first
stage is run from several beginnings, the others from the best of what it reached. What the knots did not see is
measured on the dense instants and added to the constraints of a last stage; what then still exceeds a limit is shrunk
towards the start, where the robot stands still within all limits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mindyn.algebra.blas import on_one_blas_thread
from mindyn.algebra.values import Array
from mindyn.excitation.criteria import EXTREME
from mindyn.excitation.instants import Instants
from mindyn.excitation.motions import Motion
from mindyn.excitation.problem import Derivatives, Problem
from mindyn.executors import spread


@dataclass(frozen=True, slots=True)
class Stage:
    """Power of the criterion's norm, sharpness of the maxima, iterations."""

    power: float
    sharpness: float
    iterations: int


FIRST: Final = Stage(2.0, 50.0, 60)
STAGES: Final = (Stage(8.0, 100.0, 60), Stage(32.0, 300.0, 100))
LAST: Final = Stage(128.0, 300.0, 100)
STAGE_ENDS: Final = 1e-5
"""Change of the criterion, a logarithm, at which a stage ends."""
BOXES: Final = (1.0, 0.3, 0.08)
"""How far a stage may move any unknown, in units of the limits; the next where one led through a wall: gaps
between capsules are not convex, and a long step may land behind what it should not touch."""
KICK: Final = 0.04
"""Standard deviation of what is added to the best unknowns before they are refined, in units of the limits."""
LOST: Final = 0.1
"""A stage that ends with a limit exceeded by more has lost its way."""
NEARLY: Final = 0.05
"""An iterate that exceeds limits by less is worth shrinking when the search is stopped."""
HALVINGS: Final = 14
WATCHED: Final = 500
ROUNDS: Final = 4
"""Worst instants on which a motion is shrunk, and how often more of them are taken before all are."""


Step = Callable[["Search", Array], tuple[Array, float]]
"""From unknowns to others, and the criterion of the motion that was offered; infinite where none was."""


class Stopped(Exception):
    """The deadline passed; the search ends with what it has."""


@dataclass(slots=True, eq=False)
class Search:
    """The state of a search: the best feasible motion so far, and the best iterate that is nearly so."""

    problem: Problem
    dense: Instants
    deadline: float | None = None
    best: Motion | None = None
    value: float = np.inf
    nearly: Array | None = None
    nearly_value: float = np.inf
    evaluations: int = 0
    finished: list[float] = field(default_factory=list)

    @property
    def is_late(self) -> bool:
        """Whether the deadline has passed."""
        return self.deadline is not None and monotonic() > self.deadline

    def offer(self, x: Array) -> float:
        """Makes a motion feasible and keeps it if it is the best; its criterion, infinite where that fails."""
        motion = feasible(self.problem, self.problem.motion(x), self.dense)
        if motion is None:
            return np.inf
        value = exact_value(self.problem, motion)
        if self.best is None or value < self.value:
            self.best, self.value = motion, value
        return value

    def first_stage(self, begun: Sequence[Array], kept: int, executor: Executor | None = None) -> list[Array]:
        """Where the first stage leads from every beginning, the best few, best first; by an executor's workers, if any.

        Its soft criterion foretells where the whole search ends: over 24 searches on a UR10 their correlation was 0.7.
        """
        smooth = self.problem.with_power(FIRST.power)
        reached = [x for x, _ in self._spread(Search._begun, begun, executor)]
        return sorted(reached, key=lambda x: smooth.objective(x)[0])[:kept]

    def _begun(self, x: Array) -> tuple[Array, float]:
        return self._stage(x, FIRST, 0.0), np.inf

    def improve(self, begun: Sequence[Array], executor: Executor | None = None) -> Iterator[float]:
        """The criterion reached from each of the outcomes of a first stage, in their order."""
        for _, value in self._spread(Search._improved, begun, executor):
            self.finished.append(value)
            yield value

    def _improved(self, x: Array) -> tuple[Array, float]:
        for stage in STAGES[:-1]:
            x = self._stage(x, stage, 0.0)
        return x, self._ended(x)

    def _spread(self, step: Step, begun: Sequence[Array], executor: Executor | None) -> Iterator[tuple[Array, float]]:
        """A step from every x: here, or in searches of their own whose best motions are taken over in order."""
        if executor is None:
            yield from (step(self, x) for x in begun)
            return
        left = None if self.deadline is None else self.deadline - monotonic()
        for x, value, own in spread(
            executor, _searched_apart, ((self.problem, self.dense, left, step, x) for x in begun)
        ):
            self.evaluations += own.evaluations
            if own.best is not None and (self.best is None or own.value < self.value):
                self.best, self.value = own.best, own.value
            if own.nearly is not None and own.nearly_value < self.nearly_value:
                self.nearly, self.nearly_value = own.nearly, own.nearly_value
            if own.stopped:
                raise Stopped
            yield x, value

    def refine(self, rng: np.random.Generator, count: int) -> float:
        """Searches again from near the best motion, `count` times; the criterion then.

        On a UR10 eight of them took a condition number from 3.24 to 3.16; as many new searches found none below 3.24.
        """
        for _ in range(count if self.best is not None else 0):
            assert self.best is not None
            x = self.problem.unknowns(self.best)
            self._ended(x + KICK * rng.normal(size=x.shape))
        return self.value

    def _ended(self, x: Array) -> float:
        """The last two stages, and the criterion of the feasible motion that they end with."""
        x = self._stage(x, STAGES[-1], 0.0)
        return self.offer(self._stage(x, LAST, self._unseen(x, LAST.sharpness)))

    def _stage(self, x: Array, stage: Stage, margin: Array | float) -> Array:
        """Where a stage leads; x itself where it loses its way."""
        for box in BOXES:
            found = self._solved(x, stage, margin, box)
            if self.problem.excess(found, stage.sharpness)[0].max() < LOST:
                return found
        return x

    def salvage(self) -> None:
        """Offers the best iterate of a search that was stopped."""
        if self.nearly is not None:
            self.offer(self.nearly)

    def _unseen(self, x: Array, sharpness: float) -> Array:
        """(c,) by how much the maxima on the dense instants exceed the smooth ones at the knots."""
        smooth = self.problem.excess(x, sharpness)[0] + 1
        return np.maximum(self.problem.greatest(self.problem.motion(x), self.dense) - smooth, 0.0)

    def _solved(self, x: Array, stage: Stage, margin: Array | float, box: float) -> Array:
        from scipy.optimize import minimize

        limits = _Remembered(lambda x: self.problem.excess(x, stage.sharpness))
        criterion = _Remembered(self.problem.with_power(stage.power).objective)

        def objective(x: Array) -> float:
            if self.is_late:
                raise Stopped
            self.evaluations += 1
            return float(criterion.value(x))

        def keep(x: Array) -> None:
            value = float(criterion.value(x))
            if value < self.nearly_value and (limits.value(x) + margin).max() < NEARLY:
                self.nearly, self.nearly_value = x.copy(), value

        found = minimize(
            objective,
            x,
            jac=criterion.derivatives,
            method="SLSQP",
            bounds=[(v - box, v + box) for v in x],
            constraints={
                "type": "ineq",
                "fun": lambda x: -(limits.value(x) + margin),
                "jac": lambda x: -limits.derivatives(x),
            },
            callback=keep,
            options={"maxiter": stage.iterations, "ftol": STAGE_ENDS},
        )
        return np.asarray(found.x if np.isfinite(found.x).all() else x)


@dataclass(frozen=True, slots=True, eq=False)
class _Apart:
    """What a search elsewhere ended with."""

    best: Motion | None
    value: float
    nearly: Array | None
    nearly_value: float
    evaluations: int
    stopped: bool


@on_one_blas_thread
def _searched_apart(
    problem: Problem, dense: Instants, left_s: float | None, step: Step, x: Array
) -> tuple[Array, float, _Apart]:
    """One step of a search by itself, on whatever machine; `left_s` seconds remain."""
    search = Search(problem, dense, None if left_s is None else monotonic() + left_s)
    stopped, value = False, np.inf
    try:
        x, value = step(search, x)
    except Stopped:
        stopped = True
    ended = _Apart(search.best, search.value, search.nearly, search.nearly_value, search.evaluations, stopped)
    return x, value, ended


class _Remembered:
    """A function with derivatives, and what it gave at the last point: solvers ask for them apart, and again."""

    def __init__(self, function: Callable[[Array], tuple[Any, Derivatives]]) -> None:
        self._function = function
        self._x: Array | None = None
        self._value: Any = None
        self._derivatives: Derivatives | None = None

    def value(self, x: Array) -> Any:
        """The function's value."""
        if self._x is None or not np.array_equal(x, self._x):
            self._x = x.copy()
            self._value, self._derivatives = self._function(x)
        return self._value

    def derivatives(self, x: Array) -> Array:
        """The function's derivatives."""
        self.value(x)
        assert self._derivatives is not None
        return self._derivatives()


def exact_value(problem: Problem, motion: Motion) -> float:
    """The criterion of a motion, without smoothing."""
    sharp = problem.with_power(EXTREME)
    return sharp.criterion.value(sharp.information(sharp.unknowns(motion)))


def feasible(problem: Problem, motion: Motion, instants: Instants) -> Motion | None:
    """The motion, shrunk towards its start until every limit holds at all instants; None where even rest does not.

    How much is found out on the worst instants alone, and then checked on all: of 20 000 that takes a PUMA 560 two
    evaluations of 25 ms in place of sixteen.
    """
    rows: NDArray[np.intp] = np.zeros(0, dtype=np.intp)
    shrunk = motion
    for _ in range(ROUNDS):
        values = problem.worst(shrunk, instants)
        if values.max() <= 1.0:
            return shrunk
        rows = np.union1d(rows, np.argsort(values)[-WATCHED:])
        factor = _largest_factor(problem, motion, instants.taken(rows))
        if factor == 0.0:
            return None
        shrunk = motion.scaled(factor)
    factor = _largest_factor(problem, motion, instants)
    return motion.scaled(factor) if factor > 0 else None


def _largest_factor(problem: Problem, motion: Motion, instants: Instants) -> float:
    """By which the motion keeps to the limits at the instants, of a bisection; 0 where none was found."""
    low, high = 0.0, 1.0
    for _ in range(HALVINGS):
        middle = 1 - 2.0**-8 if high == 1.0 and low == 0.0 else (low + high) / 2
        holds = problem.greatest(motion.scaled(middle), instants).max() <= 1.0
        low, high = (middle, high) if holds else (low, middle)
    return low
