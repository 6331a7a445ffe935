"""Newton's method on the equations of closed loops, continued from the home configuration in small steps.

Every sample walks a straight line of primary joints from a solved configuration; a step that needs a large correction
is one near a singular configuration, and the sample stops there: no step jumps to another assembly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from threading import local
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mindyn.algebra.values import Array
from mindyn.equations.closing_steps import ClosingSystem, advance
from mindyn.equations.loop_batches import BufferedFunction, evaluate_batch
from mindyn.equations.loop_constraints import ClosingEquations, closing_equations
from mindyn.errors import RobotError

Mask = NDArray[np.bool_]

CLOSED_TOLERANCE: Final = 1e-12
"""A loop is closed when its residual, relative to its length, is smaller."""

POLISHED_RESIDUAL: Final = 1e-15
"""A residual above this can be made smaller: J_d^-1 magnifies what is left of it in every position."""

PLAY_TOLERANCE: Final = 1e-4
"""Directions of c that change by less, relative to the others, and values of c below this, in lengths, are play."""

MIN_SINGULAR_VALUE: Final = 1e-6
"""Singular values of the dependent columns, relative to the loop's length, below this mark a singular configuration."""

MAX_STEP_SIZES: Final = (0.2, 0.02, 0.002)
"""Longest steps of the primary joints, tried in turn, rad or loop lengths."""

MAX_RELATIVE_CORRECTION: Final = 0.5
"""Of the step: a correction beyond this share of a prediction means that the prediction cannot be trusted."""

MIN_FACING: Final = 0.5
"""Below it a loop that holds its turn is nearer to a half turn than to none."""

BUFFERED_ROBOTS_PER_THREAD: Final = 4
"""Robots whose buffers a thread keeps."""

ROWS_PER_MARCH: Final = 64
"""Rows of a motion that are stepped through in one call."""

MAX_NEWTON_ITERATIONS: Final = 12
MAX_DESCENT_ITERATIONS: Final = 60


def _newton_steps(constraints: ClosingEquations, q: Array, dependent: list[int]) -> tuple[Array, Array, Array]:
    """Q corrected in its dependent joints; residual and smallest singular value of each sample."""
    q, units = q.copy(), constraints.units[dependent]
    active = np.arange(len(q))
    residual, smallest = np.full(len(q), np.inf), np.zeros(len(q))
    for _ in range(MAX_NEWTON_ITERATIONS):
        c = evaluate_batch(constraints.residual, q[active])[:, :, 0]
        J_d = evaluate_batch(constraints.jacobian, q[active])[:, :, dependent] * units
        U, s, Vt = np.linalg.svd(J_d, full_matrices=False)
        residual[active], smallest[active] = np.abs(c).max(axis=1), s[:, -1]
        inverse = np.where(s > MIN_SINGULAR_VALUE, 1 / np.maximum(s, MIN_SINGULAR_VALUE), 0.0)
        step = np.einsum("nji,nj,nkj,nk->ni", Vt, inverse, U, c)
        # One more step after closing costs little and brings the residual to rounding.
        done = residual[active] < CLOSED_TOLERANCE
        q[active[:, None], dependent] -= np.clip(step, -1.0, 1.0) * units
        active = active[~done]
        if not active.size:
            break
    return q, residual, smallest


def _minimize_gap(constraints: ClosingEquations, q: Array, dependent: list[int]) -> Array:
    """A configuration at which the loops are least open, downhill from q in the dependent joints (Levenberg)."""
    units = constraints.units[dependent]
    damping, c = 1e-2, evaluate_batch(constraints.residual, q[None])[0, :, 0]
    for _ in range(MAX_DESCENT_ITERATIONS):
        J = evaluate_batch(constraints.jacobian, q[None])[0][:, dependent] * units
        tried = q.copy()
        tried[dependent] -= np.linalg.solve(J.T @ J + damping * np.eye(len(dependent)), J.T @ c) * units
        new = evaluate_batch(constraints.residual, tried[None])[0, :, 0]
        better = new @ new < c @ c
        damping = max(damping / 5, CLOSED_TOLERANCE) if better else damping * 5
        if better:
            q, c = tried, new
    return q


def _candidate_starts(start: Array, dependent: list[int], units: Array) -> list[Array]:
    """The start, and turned ones around it: joints drawn in line are a place that descent does not leave."""
    rng = np.random.default_rng(0)
    starts = [start]
    for size in (0.3, 0.3, 1.0, 1.0, 2.0, 2.0):
        starts.append(start.copy())
        starts[-1][dependent] += rng.uniform(-size, size, len(dependent)) * units[dependent]
    return starts


def home_configuration(constraints: ClosingEquations, dependent: tuple[int, ...], start: Array) -> Array:
    """The closed configuration nearest to `start` with its primary joints; a RobotError where the loop stays open."""
    facing = evaluate_batch(constraints.facing, start[None]).min()
    if np.abs(evaluate_batch(constraints.residual, start[None])).max() < CLOSED_TOLERANCE and facing > MIN_FACING:
        return start
    found = [
        _minimize_gap(constraints, one, list(dependent))
        for one in _candidate_starts(start, list(dependent), constraints.units)
    ]
    q, residual, smallest = _newton_steps(constraints, np.array(found), list(dependent))
    facing = evaluate_batch(constraints.facing, q)[:, :, 0].min(axis=1)
    residual = np.where(facing > MIN_FACING, residual, np.inf)  # at half turns c vanishes, but the loops are not closed
    closed = np.flatnonzero((residual < CLOSED_TOLERANCE) & (smallest > MIN_SINGULAR_VALUE))
    if closed.size:
        nearest = np.argmin((np.abs(q[closed] - start) / constraints.units).max(axis=1))
        return np.asarray(q[closed][nearest])
    robot = constraints.robot
    if (residual < CLOSED_TOLERANCE).any():
        return np.asarray(q[int(np.argmin(residual))])
    gaps = min((constraints.gaps(one[None])[0] for one in found), key=max)
    loop = robot.loops[int(np.argmax(gaps))]
    raise RobotError(
        f"loop {loop.name!r} does not close: at the primary positions of the home configuration its {loop.kind} stays "
        f"open by {gaps.max():.3g} m however {', '.join(loop.dependent)} are turned from where they are",
        hint="pass home=, a configuration near which the loop closes, or check the lengths and poses of the loop",
    )


def home_with_play(constraints: ClosingEquations, dependent: tuple[int, ...], start: Array) -> Home | None:
    """Home of loops that close but for play: out of the plane that a planar loop moves in; None where it is more.

    Files round axes and offsets; then the pin of a planar loop never quite closes across its plane. Directions of c
    that no motion changes by more than PLAY are left out, where c stays below PLAY in them too.
    """
    robot = constraints.robot
    rng = np.random.default_rng(0)
    q = start + rng.uniform(-1, 1, (40, len(start))) * constraints.units
    J = np.concatenate(list(evaluate_batch(constraints.jacobian, q) * constraints.units), axis=1)
    kept = []
    for rows in constraints.rows:
        U, s, _ = np.linalg.svd(J[rows], full_matrices=False)
        kept.append(U[:, s > PLAY_TOLERANCE * s[0]])
    if all(S.shape[0] == S.shape[1] for S in kept):
        return None
    planar = closing_equations(robot, tuple(kept))
    try:
        closed = home_configuration(planar, dependent, start)
    except RobotError:
        return None
    c = evaluate_batch(constraints.residual, closed[None])[0, :, 0]
    if np.abs(c).max() > PLAY_TOLERANCE:
        return None
    gaps = constraints.gaps(closed[None])[0]
    loop = robot.loops[int(np.argmax(gaps))]
    note = (
        f"loop {loop.name!r} stays open by {gaps.max():.2g} m across the plane that it moves in, as rounded axes and "
        "offsets leave it: it is closed in that plane"
    )
    return Home(planar, closed, (note,))


@dataclass(frozen=True, slots=True)
class Home:
    """A closed configuration (n,), the equations that it closes, and notes on what they leave open."""

    constraints: ClosingEquations
    q: Array
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Newton:
    """The numerical closure of loops from a closed configuration `home`."""

    constraints: ClosingEquations
    primary: tuple[int, ...]
    dependent: tuple[int, ...]
    home: Array

    @cached_property
    def system(self) -> ClosingSystem:
        """The closing equations that count, as expressions."""
        return ClosingSystem(self.constraints, self.dependent, self.home)

    @cached_property
    def _advance(self) -> Any:
        return advance(self.system, self.primary, self.constraints.units)

    @cached_property
    def _march(self) -> Any:
        """`ROWS_PER_MARCH` steps of `_advance`, each from where the one before ended."""
        return self._advance.mapaccum("march", ROWS_PER_MARCH)

    @cached_property
    def _moving(self) -> list[int]:
        """Which primary joints move a loop."""
        return [k for k, i in enumerate(self.primary) if any(i in joints for joints in self.constraints.loop_joints)]

    def solve(self, p: Array) -> tuple[Array, Mask]:
        """Joint positions (N, n), and whether each row of p (N, k) was reached from home or from a neighbour."""
        count = len(p)
        q, reached = self.walk(np.repeat(self.home[None], count, axis=0), p)
        while reached.any() and not reached.all():
            lost = np.flatnonzero(~reached)
            nearest = self._nearest(p[reached], p[lost])
            q[lost], found = self.walk(q[reached][nearest], p[lost])
            if not found.any():
                break
            reached[lost[found]] = True
        return q, reached

    @staticmethod
    def _nearest(solved: Array, wanted: Array) -> Array:
        return np.array([int(np.argmin(np.abs(solved - one).max(axis=1))) for one in wanted])

    def along(self, p: Array, start: Array | None = None) -> tuple[Array, Mask]:
        """Joint positions (N, n) of rows that follow from one another, and whether each was reached.

        start  (n,) the closed configuration that the first row follows from; home where it is left out
        """
        walker, marcher = _thread_steppers(self)
        here = self.home if start is None else start
        q = np.repeat(here[None], len(p), axis=0)
        path, ends = self._subdivide_steps(np.vstack([here[list(self.primary)], p]))
        k, patience = 0, 1
        while k < len(p):
            first = ends[k - 1] + 1 if k else 0
            found = marcher.to(here, path[first : first + ROWS_PER_MARCH])
            reached = int(np.searchsorted(ends, first + len(found))) - k
            q[k : k + reached] = found[ends[k : k + reached] - first]
            k += reached
            here = q[k - 1] if reached else here
            if len(found) == ROWS_PER_MARCH and reached:
                patience = 1
                continue
            for row in p[k : k + patience]:  # next to a singular configuration
                one = walker.to(here, row, MAX_STEP_SIZES)
                if one is None:
                    return q, np.arange(len(p)) < k
                q[k] = here = one
                k += 1
            patience = min(2 * patience, ROWS_PER_MARCH)
        return q, np.ones(len(p), dtype=bool)

    def _subdivide_steps(self, p: Array) -> tuple[Array, NDArray[np.int64]]:
        """Rows in between so that no step is longer than the longest, and where each row but the first stands."""
        units = self.constraints.units[[self.primary[i] for i in self._moving]]
        across = np.diff(p, axis=0)
        distances = np.abs(across[:, self._moving] / units).max(axis=1, initial=0.0)
        counts = np.maximum(1, np.ceil(distances / MAX_STEP_SIZES[0])).astype(np.int64)
        ends = np.cumsum(counts) - 1
        row = np.repeat(np.arange(len(counts)), counts)
        part = (np.arange(len(row)) - ends[row] + counts[row]) / counts[row]
        path = p[row] + part[:, None] * across[row]
        path[ends] = p[1:]
        return path, ends

    def walk(self, start: Array, p: Array, steps: Sequence[float] = MAX_STEP_SIZES) -> tuple[Array, Mask]:
        """Every sample from its own closed configuration straight to its primary positions."""
        walker, _ = _thread_steppers(self)
        q, reached = start.copy(), np.zeros(len(p), dtype=bool)
        for k, row in enumerate(p):
            found = walker.to(start[k], row, steps)
            if found is not None:
                q[k], reached[k] = found, True
        return q, reached

    def unreachable_error(self, p: Array) -> RobotError:
        """Why primary positions cannot be reached: the loop stays open, or a singular configuration lies between."""
        walker = _Walker(self)
        walker.to(self.home, p, MAX_STEP_SIZES[-1:])
        stuck = walker.here[None].copy()
        stuck[:, list(self.primary)] = p
        closed, residual, smallest = _newton_steps(self.constraints, stuck, list(self.dependent))
        if residual[0] < CLOSED_TOLERANCE and smallest[0] < MIN_SINGULAR_VALUE:
            return self.singular_error(closed[0], float(smallest[0]))
        gaps = self.constraints.gaps(_minimize_gap(self.constraints, stuck[0], list(self.dependent))[None])[0]
        loop = self.constraints.robot.loops[int(np.argmax(gaps))]
        where = self._where(p)
        if gaps.max() < np.sqrt(CLOSED_TOLERANCE):
            return RobotError(
                f"loop {loop.name!r} reaches {where} only through a singular configuration: its assembly is not kept",
                hint="pass home= of the assembly that is meant, or give the positions in between",
            )
        return RobotError(
            f"loop {loop.name!r} cannot close at {where}: its {loop.kind} stays open by {gaps.max():.3g} m"
        )

    def singular_error(self, q: Array, smallest: float, hint: str = "") -> RobotError:
        """The error that names a singular configuration."""
        robot = self.constraints.robot
        J = evaluate_batch(self.constraints.jacobian, q[None])[0]
        sizes = []
        for rows, loop in zip(self.constraints.rows, robot.loops, strict=True):
            columns = [robot.joint_index(name) for name in loop.dependent]
            own = J[rows, columns] * self.constraints.units[columns]
            sizes.append(float(np.linalg.svd(own, compute_uv=False)[-1]))
        loop = robot.loops[int(np.argmin(sizes))]
        return RobotError(
            f"loop {loop.name!r} is singular at {self._where(q[list(self.primary)])}: it does not determine "
            f"{', '.join(loop.dependent)} there (smallest singular value {smallest:.1e})",
            hint=hint,
        )

    def _where(self, p: Array) -> str:
        names = [self.constraints.robot.joint_names[i] for i in self.primary]
        return ", ".join(f"{name} = {value:.4g}" for name, value in zip(names, p, strict=True))


_THREAD_STATE = local()
"""Of each thread, what it steps the last robots with: buffers are not shared, and take as long to make as a motion."""


def _thread_steppers(newton: Newton) -> tuple[_Walker, _Marcher]:
    kept: list[tuple[Newton, _Walker, _Marcher]] = getattr(_THREAD_STATE, "kept", [])
    for one, walker, marcher in kept:
        if one is newton:
            return walker, marcher
    made = _Walker(newton), _Marcher(newton)
    _THREAD_STATE.kept = [(newton, *made), *kept][:BUFFERED_ROBOTS_PER_THREAD]
    return made


class _Marcher:
    """Goes through rows that are near one another, one step each: `ROWS_PER_MARCH` of them in one call, 3 times as fast."""

    def __init__(self, newton: Newton) -> None:
        self._made, self._polished = BufferedFunction(newton._march), BufferedFunction(newton._advance)

    def to(self, start: Array, p: Array) -> Array:
        """(M, n) configurations at the first M rows of p (N, k) that each follow in one step that can be trusted."""
        (q, targets), (found, known) = self._made.inputs, self._made.outputs
        q[:] = start
        targets[:] = np.vstack([p, np.repeat(p[-1:], ROWS_PER_MARCH - len(p), axis=0)]).ravel()
        self._made.run()
        rows, (residual, regular, correction, size) = (
            found.reshape(ROWS_PER_MARCH, -1),
            known.reshape(ROWS_PER_MARCH, -1).T,
        )
        good = is_trusted(residual, regular, correction, size)
        count = len(p) if good[: len(p)].all() else int(np.argmin(good))
        for k in np.flatnonzero(residual[:count] > POLISHED_RESIDUAL):
            (here, target), (closer, _) = self._polished.inputs, self._polished.outputs
            here[:], target[:] = rows[k], p[k]
            self._polished.run()
            rows[k] = closer
        return rows[:count].copy()


def is_trusted(residual: Any, regular: Any, correction: Any, size: Any) -> Any:
    """Whether a step ended closed, away from singular configurations, near its prediction; NaN counts as lost."""
    return (
        (residual < CLOSED_TOLERANCE)
        & (regular > MIN_SINGULAR_VALUE)
        & (correction <= MAX_RELATIVE_CORRECTION * size + CLOSED_TOLERANCE)
    )


class _Walker:
    """Goes from closed configurations straight to primary positions, in steps that are checked one by one."""

    def __init__(self, newton: Newton) -> None:
        self._made = BufferedFunction(newton._advance)
        self._primary, self._moving = list(newton.primary), newton._moving
        self._units = newton.constraints.units[[newton.primary[k] for k in self._moving]]
        self.here, self.size = newton.home, 0.0

    def to(self, start: Array, p: Array, steps: Sequence[float]) -> Array | None:
        """(n,) the configuration at p (k,); None, and `here` the last one found, where a singular one lies between."""
        self.here = start
        if self._step(p) and self.size <= steps[0]:
            return self.here
        self.here = start
        for longest in steps:  # finer ones go on from where the coarser ones stopped
            before = self.here[self._primary]
            across = p - before
            count = max(1, int(np.ceil(np.abs(across[self._moving] / self._units).max(initial=0.0) / longest)))
            if all(self._step(before + across * (k / count) if k < count else p) for k in range(1, count + 1)):
                return self.here
        return None

    def _step(self, p: Array) -> bool:
        """One prediction along W and its correction; false where it came near a singular configuration."""
        (q, target), (found, known) = self._made.inputs, self._made.outputs
        q[:], target[:] = self.here, p
        self._made.run()
        residual, regular, correction, self.size = known.tolist()
        if not is_trusted(residual, regular, correction, self.size):
            return False
        if residual > POLISHED_RESIDUAL:  # near singular configurations steps converge slowly
            q[:] = found
            self._made.run()
        self.here = found.copy()
        return True
