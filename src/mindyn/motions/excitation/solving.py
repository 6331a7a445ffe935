"""Search for the best motion: sequential quadratic programming from several starts. Every result is made feasible.

Smoothing is reduced in stages: in the first stages, the norm of the criterion and the maxima over time are smooth
approximations, in later stages they are nearly exact. The first stage starts from many motions and continues with the
better half. The other stages continue from its best results, with the curvature of the previous stage. Between the
knots, violations are measured at closely spaced instants, and the constraints of the last stage are tightened by them.
A motion that still violates a limit is shrunk towards its start, where the robot rests within all limits. Searches
start from positions in which the robot can rest, with random motions that are enlarged until they reach a limit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import UnsafeMotionError, list_names
from mindyn.motions.excitation.constraints import sizes
from mindyn.motions.excitation.descent import Descent, Point
from mindyn.motions.excitation.limits import MotionLimits
from mindyn.motions.excitation.motion_safety import random_positions
from mindyn.motions.excitation.motions import Instants, Motion
from mindyn.motions.excitation.problem import Derivatives, Problem


@dataclass(frozen=True, slots=True)
class Stage:
    """Power of the norm of the criterion, sharpness of the maxima, iterations, and largest violation at its end."""

    power: float
    sharpness: float
    iterations: int
    exceeded: float = 0.1


FIRST: Final = (Stage(2.0, 50.0, 15, 0.5), Stage(2.0, 50.0, 20))
STAGES: Final = (Stage(8.0, 100.0, 60), Stage(32.0, 300.0, 100))
LAST: Final = Stage(128.0, 300.0, 100)
STAGE_ENDS: Final = 1e-4
"""Change of the criterion, a logarithm, at which a stage ends."""
BOXES: Final = (np.inf, 0.3, 0.08)
"""Largest change of an unknown in a stage, in units of the limits. The next value is used if a stage passes through an
obstacle: distances between capsules are not convex, so that a long step may end on the other side.
"""
KICK: Final = 0.04
"""Standard deviation of the random change of the best unknowns before a refinement, in units of the limits."""
EXCEEDED: Final = 2.0
"""Weight of a relative violation in comparisons of searches: information grows with the square of the size of a motion.
"""
NEARLY: Final = 0.05
"""If the search is interrupted, an iterate with at most this relative violation is shrunk until it is feasible."""
REPAIRS: Final = 4
"""Largest number of last stages of a search."""
SPARE: Final = 5e-4
"""Fraction of each limit that the last stages leave free, so that their result need not be shrunk."""
HALVINGS: Final = 14
WATCHED: Final = 500
ROUNDS: Final = 4
"""Number of instants with the largest violations from which the factor of shrinking is computed, and how often this
number grows before all instants are used.
"""
POSITIONS: Final = 2000
"""Number of random positions among which feasible rest positions are searched."""
REDRAWS: Final = 12
"""Number of rounds in which some joints of the best positions get new random positions."""
PARENTS: Final = 20
"""Number of best positions from which each round starts."""
REDRAWN: Final = 1.5
"""Mean number of joints that get a new random position."""
DRAWS: Final = 4
"""Number of random motions that are tried for every start that is used."""


class Stopped(Exception):
    """Raised at the deadline, after which the search returns its best motion so far."""


@dataclass(slots=True, eq=False)
class Search:
    """State of a search: the best feasible motion, the best nearly feasible iterate, and all feasible motions."""

    problem: Problem
    dense: Instants
    deadline: float | None = None
    best: Motion | None = None
    value: float = np.inf
    nearly: Array | None = None
    nearly_value: float = np.inf
    evaluations: int = 0
    finished: int = 0
    others: list[tuple[float, Motion]] = field(default_factory=list)

    def results(self, tolerance: float) -> list[Motion]:
        """Return feasible motions, the best first; each of them begins farther than a tolerance from those before.

        tolerance  distance of starts, in units of the joints' ranges
        """
        chosen: list[Motion] = []
        reach = self.problem.limits.reach
        for _, motion in sorted(self.others, key=lambda pair: pair[0]):
            if all(np.abs((motion.start - other.start) / reach).max() > tolerance for other in chosen):
                chosen.append(motion)
        return chosen

    @property
    def is_late(self) -> bool:
        """Return whether the deadline has passed."""
        return self.deadline is not None and monotonic() > self.deadline

    def offer(self, x: Array) -> float:
        """Make a motion feasible, and keep it if it is the best.

        Return its criterion; infinite if it cannot be made feasible.
        """
        motion = feasible(self.problem, self.problem.motion(x), self.dense)
        value = np.inf if motion is None else exact_value(self.problem, motion)
        if motion is not None:
            self.others.append((value, motion))
        if motion is not None and (self.best is None or value < self.value):
            self.best, self.value = motion, value
        return value

    def first_stage(self, begun: Sequence[Array], kept: int) -> list[Point]:
        """Return the best results of the first stage, best first.

        Half of the searches are stopped early. The soft criterion predicts the final one: over 24 searches for a UR10
        their correlation was 0.7, and after 15 iterations the best of 12 are in the better half.
        """
        reached = [Point(x) for x in begun]
        for stage, left in zip(FIRST, (max(kept, -(-len(reached) // 2)), kept), strict=True):
            reached = sorted((self._stage(point, stage) for point in reached), key=self._standing)[:left]
        return reached

    def _standing(self, point: Point) -> float:
        """Return the score that ranks searches in the first stage."""
        exceeded = max(self.problem.excess(point.x, FIRST[1].sharpness)[0].max(), 0.0)
        return float(self.problem.objective(point.x, FIRST[1].power)[0] + EXCEEDED * exceeded)

    def improve(self, begun: Sequence[Point]) -> Iterator[float]:
        """Yield the final criterion of each result of a first stage, in order."""
        for point in begun:
            value = self._finish(self._stage(point, STAGES[0]))
            self.finished += 1
            yield value

    def refine(self, rng: np.random.Generator, count: int) -> float:
        """Search again from points near the best motion, `count` times; return the criterion.

        For a UR10, eight refinements reduced a condition number from 3.24 to 3.16; eight new searches found none below
        3.24.
        """
        for _ in range(count if self.best is not None else 0):
            assert self.best is not None
            x = self.problem.unknowns(self.best)
            self._finish(Point(x + KICK * rng.normal(size=x.shape)))
        return self.value

    def _finish(self, point: Point) -> float:
        """Run the last two stages; return the criterion of the feasible motion.

        The last stage is repeated with larger margins while a limit is exceeded between the knots: shrinking such a
        motion towards its start would cost more, most of all where its start is close to another body.
        """
        point, margin = self._stage(point, STAGES[1]), np.zeros(1)
        seen = self._seen(point.x)
        for _ in range(REPAIRS):
            smooth = self.problem.excess(point.x, LAST.sharpness)[0] + 1
            margin = np.maximum(margin, np.maximum(seen - smooth, 0.0) + SPARE)
            point, before = self._stage(point, LAST, margin), seen.max() - 1
            seen = self._seen(point.x)
            if not 0 < seen.max() - 1 < before / 2:
                break
        return self.offer(point.x)

    def _seen(self, x: Array) -> Array:
        """Return the maximum (w c,) of each constraint at closely spaced instants."""
        return self.problem.greatest_by_segment(self.problem.motion(x), self.dense)

    def _stage(self, point: Point, stage: Stage, margin: Array | float = 0.0) -> Point:
        """Return the result of a stage; if the stage fails, return the point itself."""
        for box in BOXES:
            solution = self._solve(point, stage, margin, box)
            if self.problem.excess(solution.x, stage.sharpness)[0].max() < stage.exceeded:
                return solution
            point = Point(point.x)
        return point

    def _solve(self, point: Point, stage: Stage, margin: Array | float, box: float) -> Point:
        def objective(x: Array) -> tuple[float, Derivatives]:
            if self.is_late:
                raise Stopped
            self.evaluations += 1
            return self.problem.objective(x, stage.power)

        def limits(x: Array) -> tuple[Array, Derivatives]:
            values, jacobian = self.problem.excess(x, stage.sharpness)
            return values + margin, jacobian

        def keep(x: Array, value: float, excess: Array) -> None:
            if excess.max() < NEARLY and value < self.nearly_value:
                self.nearly, self.nearly_value = x, value

        solution = Descent(objective, limits, point, box, STAGE_ENDS).go(stage.iterations, keep)
        return solution if np.isfinite(solution.x).all() else point


def exact_value(problem: Problem, motion: Motion) -> float:
    """Return the exact criterion of a motion, without smoothing."""
    return problem.objective(problem.unknowns(motion))[0]


def feasible(problem: Problem, motion: Motion, instants: Instants) -> Motion | None:
    """Return the motion, shrunk towards its start until every limit holds at all instants; None if even rest violates a
    limit.

    The factor is computed from the instants with the largest violations, and then checked at all instants. For a PUMA
    560 with 20 000 instants this takes two evaluations of 25 ms instead of sixteen.
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
    """Return the factor, by bisection, at which the motion keeps the limits at the instants; 0 if there is none."""
    low, high = 0.0, 1.0
    for _ in range(HALVINGS):
        middle = 1 - 2.0**-8 if high == 1.0 and low == 0.0 else (low + high) / 2
        holds = problem.greatest(motion.scaled(middle), instants).max() <= 1.0
        low, high = (middle, high) if holds else (low, middle)
    return low


def places_to_stand(problem: Problem, limits: MotionLimits, rng: np.random.Generator) -> Array:
    """Return positions (k, n) at which every constraint holds at rest; if the start is prescribed, only the start.

    If no random position is feasible, some joints of the best positions get new random positions: for a robot with many
    limbs, every random position violates a limit, but usually of only one or two limbs.
    """
    q = random_positions(limits, rng, POSITIONS) if problem.start is None else problem.start[None]
    for left in reversed(range(1 if problem.start is not None else REDRAWS)):
        worst = static_values(problem, q)
        holds = (worst <= 1).all(axis=1)
        if holds.any():
            return np.asarray(q[holds])
        if left:
            best = q[np.maximum(worst - 1, 0).sum(axis=1).argsort()[:PARENTS]]
            redrawn = np.repeat(best, POSITIONS // PARENTS, axis=0)
            chosen = rng.random(redrawn.shape) < REDRAWN / redrawn.shape[1]
            q = np.vstack([best, np.where(chosen, random_positions(limits, rng, len(redrawn)), redrawn)])
    best = int(worst.max(axis=1).argmin())
    broken = [label for label, value in zip(problem.labels, worst[best], strict=True) if value > 1]
    where = (
        "at the given start"
        if problem.start is not None
        else f"at any of {POSITIONS} random positions, nor near the best of them"
    )
    raise UnsafeMotionError(
        f"the robot cannot stand still {where}: {list_names(dict.fromkeys(broken))} "
        f"(best {worst[best].max():.3g} times the limit)",
        subject=broken[0] if broken else "start",
        hint="raise these limits, lower torque_margin or --clearance, or move the obstacle; for the floor: "
        "floor= (--floor) states its height in the root frame",
    )


def static_values(problem: Problem, q: Array) -> Array:
    """Return the values (N, c) of all series at rest, relative to their limits."""
    rest = np.zeros_like(q)
    state = (q, rest, rest, rest)
    return np.concatenate([sizes(constraint, state) for constraint in problem.constraints], axis=1)


def random_motion(problem: Problem, limits: MotionLimits, places: Array, rng: np.random.Generator) -> Motion:
    """Return a motion with random coefficients, scaled so that it reaches a limit at one of the knots."""
    start = places[rng.integers(len(places))]
    drawn = rng.normal(size=(problem.family.count, len(start))) * (limits.reach * ~limits.still)
    motion = feasible(problem, Motion(problem.family, problem.seconds, start, drawn), problem.knots)
    return motion or Motion(problem.family, problem.seconds, start, 1e-6 * drawn)


def good_starts(
    search: Search, limits: MotionLimits, places: Array, rng: np.random.Generator, count: int
) -> list[Motion]:
    """Return the best of several random motions, the best first; at least one motion, even after the deadline."""
    problem, drawn = search.problem, []
    for _ in range(DRAWS * count):
        drawn.append(random_motion(problem, limits, places, rng))
        if search.is_late:
            break
    return sorted(drawn, key=lambda motion: exact_value(problem, motion))[:count]
