"""Newton's method on the equations of closed loops, in small steps from the home configuration.

Every sample follows a straight line of primary joints from a solved configuration. If a step needs a large correction,
it is near a singular configuration, and the sample stops there: no step can jump to another assembly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from threading import local
from typing import Any, Final

import casadi
import numpy as np
from numpy.typing import NDArray

from mindyn.equations.batch_evaluation import BufferedFunction, evaluate_batch
from mindyn.equations.chain import constant
from mindyn.equations.closing_steps import NEWTON_CORRECTIONS, ClosingSystem
from mindyn.equations.loop_constraints import ClosingEquations, closing_equations
from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, RobotError

Mask = NDArray[np.bool_]

CLOSED_TOLERANCE: Final = 1e-12
"""A loop is closed if its residual, relative to its length, is smaller than this."""

POLISHED_RESIDUAL: Final = 1e-15
"""A residual above this is reduced by further steps, because J_d^-1 amplifies it in every position."""

PLAY_TOLERANCE: Final = 1e-4
"""Play of a loop: directions of c that change by less than this relative to other directions, and values of c below
this relative to the loop's length.
"""

MIN_SINGULAR_VALUE: Final = 1e-6
"""Smaller singular values of the dependent columns, relative to the loop's length, mark a singular configuration."""

MAX_STEP_SIZES: Final = (0.2, 0.02, 0.002)
"""Largest steps of the primary joints, tried in turn, rad or loop lengths."""

MAX_RELATIVE_CORRECTION: Final = 0.5
"""If the correction is larger than this, relative to the predicted step, the prediction is not reliable."""

MIN_FACING: Final = 0.5
"""If `facing` is below this, the rotation of a loop is nearer to a half turn than to zero."""

BUFFERED_ROBOTS_PER_THREAD: Final = 4
"""Number of robots whose buffers a thread keeps."""

MAX_NEWTON_ITERATIONS: Final = 12
MAX_DESCENT_ITERATIONS: Final = 60


Home = tuple[ClosingEquations, Array, tuple[str, ...]]
"""Equations, a configuration (n,) that closes them, and notes on remaining openings."""


def _newton_steps(constraints: ClosingEquations, q: Array, dependent: list[int]) -> tuple[Array, Array, Array]:
    """Return q with corrected dependent joints, and the residual and the smallest singular value of each sample."""
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
        # One more step after closing is cheap and reduces the residual to rounding.
        done = residual[active] < CLOSED_TOLERANCE
        q[active[:, None], dependent] -= np.clip(step, -1.0, 1.0) * units
        active = active[~done]
        if not active.size:
            break
    return q, residual, smallest


def _minimize_gap(constraints: ClosingEquations, q: Array, dependent: list[int]) -> Array:
    """Return the configuration with the smallest opening of the loops: descend from q in the dependent joints
    (Levenberg).
    """
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
    """Return the start, and starts with rotated joints: from a start with joints in line, descent does not move."""
    rng = np.random.default_rng(0)
    starts = [start]
    for size in (0.3, 0.3, 1.0, 1.0, 2.0, 2.0):
        starts.append(start.copy())
        starts[-1][dependent] += rng.uniform(-size, size, len(dependent)) * units[dependent]
    return starts


def home_configuration(constraints: ClosingEquations, dependent: tuple[int, ...], start: Array) -> Array:
    """Return the closed configuration nearest to `start`, with its primary joints unchanged.

    Raise `RobotError` if the loop stays open.
    """
    facing = evaluate_batch(constraints.facing, start[None]).min()
    if np.abs(evaluate_batch(constraints.residual, start[None])).max() < CLOSED_TOLERANCE and facing > MIN_FACING:
        return start
    candidates = [
        _minimize_gap(constraints, candidate, list(dependent))
        for candidate in _candidate_starts(start, list(dependent), constraints.units)
    ]
    q, residual, smallest = _newton_steps(constraints, np.array(candidates), list(dependent))
    facing = evaluate_batch(constraints.facing, q)[:, :, 0].min(axis=1)
    residual = np.where(facing > MIN_FACING, residual, np.inf)  # at half turns c vanishes although the loops are open
    closed = np.flatnonzero((residual < CLOSED_TOLERANCE) & (smallest > MIN_SINGULAR_VALUE))
    if closed.size:
        nearest = np.argmin((np.abs(q[closed] - start) / constraints.units).max(axis=1))
        return np.asarray(q[closed][nearest])
    robot = constraints.robot
    if (residual < CLOSED_TOLERANCE).any():
        return np.asarray(q[int(np.argmin(residual))])
    gaps = min((constraints.gaps(candidate[None])[0] for candidate in candidates), key=max)
    loop = robot.loops[int(np.argmax(gaps))]
    raise RobotError(
        f"loop {loop.name!r} does not close: at the primary positions of the home configuration its {loop.kind} stays "
        f"open by {gaps.max():.3g} m for all nearby positions of {', '.join(loop.dependent)}",
        hint="pass home=, a configuration near which the loop closes, or check the lengths and poses of the loop",
        code=Code.NOT_CONVERGED,
        subject=loop.name,
    )


def find_home(constraints: ClosingEquations, dependent: tuple[int, ...], start: Array) -> Home:
    """Return the closed configuration nearest to `start`.

    For a planar loop, play perpendicular to its plane is allowed if necessary.
    """
    try:
        return constraints, home_configuration(constraints, dependent, start), ()
    except RobotError:
        with_play = _home_with_play(constraints, dependent, start)
        if with_play is None:
            raise
        return with_play


def _home_with_play(constraints: ClosingEquations, dependent: tuple[int, ...], start: Array) -> Home | None:
    """Return the home of planar loops that close except for play perpendicular to their plane; None if the opening is
    more than play.

    Because files round axes and offsets, the pin of a planar loop may never close exactly in the direction
    perpendicular to its plane. A direction of c is excluded if no motion changes c in it by more than PLAY_TOLERANCE,
    and if c itself is below PLAY_TOLERANCE in it.
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
        f"loop {loop.name!r} stays open by {gaps.max():.2g} m across its plane of motion because axes and offsets are "
        "rounded; it is closed in that plane"
    )
    return planar, closed, (note,)


def advance(system: ClosingSystem, primary: tuple[int, ...], units: Array) -> Any:
    """Return the casadi.Function (closed q (n,), p (k,)) -> q' (n,) near p, and (4,) measures of the step.

    The measures are |c| after the correction, the regularity, and the lengths of the correction and of the predicted
    step, in units of the joints.
    """
    q, p = casadi.SX.sym("q", len(units)), casadi.SX.sym("p", len(primary))
    change = p - q[list(primary)]
    _, J = system.at(q)
    predicted = -(system.inverse(J) @ (J[:, list(primary)] @ change))
    moved = system.move_dependents(q, predicted)
    moved[list(primary)] = p
    corrected = system.correct(moved, NEWTON_CORRECTIONS)
    c, J = system.at(corrected)
    regular = system.regularity(system.inverse(J))
    correction = casadi.norm_inf((corrected - moved) / constant(units))
    step = casadi.vertcat(change / constant(units[list(primary)]), predicted / constant(system.units))
    known = casadi.vertcat(casadi.norm_inf(c), regular, correction, casadi.norm_inf(step))
    outputs: Any = casadi.cse([casadi.densify(corrected), casadi.densify(known)])
    return casadi.Function("advance", [q, p], outputs)


@dataclass(frozen=True)
class Newton:
    """Numerical closure of loops from a closed configuration `home`."""

    constraints: ClosingEquations
    primary: tuple[int, ...]
    dependent: tuple[int, ...]
    home: Array

    @cached_property
    def system(self) -> ClosingSystem:
        """The independent closing equations as expressions."""
        return ClosingSystem(self.constraints, self.dependent, self.home)

    @cached_property
    def _advance(self) -> Any:
        return advance(self.system, self.primary, self.constraints.units)

    @cached_property
    def _moving(self) -> list[int]:
        """Marks of the primary joints that move a loop."""
        return [k for k, i in enumerate(self.primary) if any(i in joints for joints in self.constraints.loop_joints)]

    def solve(self, p: Array) -> tuple[Array, Mask]:
        """Return joint positions (N, n), and whether each row of p (N, k) was reached, from home or from a neighbouring
        row.
        """
        count = len(p)
        q, reached = self.walk(np.repeat(self.home[None], count, axis=0), p)
        while reached.any() and not reached.all():
            lost = np.flatnonzero(~reached)
            nearest = self._nearest(p[reached], p[lost])
            q[lost], is_new = self.walk(q[reached][nearest], p[lost])
            if not is_new.any():
                break
            reached[lost[is_new]] = True
        return q, reached

    @staticmethod
    def _nearest(solved: Array, wanted: Array) -> Array:
        return np.array([int(np.argmin(np.abs(solved - row).max(axis=1))) for row in wanted])

    def along(self, p: Array, start: Array | None = None) -> tuple[Array, Mask]:
        """Return joint positions (N, n) of consecutive rows, and whether each was reached.

        `start` (n,) is the closed configuration before the first row; home by default.
        """
        walker = _thread_walker(self)
        here = self.home if start is None else start
        q, reached = np.repeat(here[None], len(p), axis=0), np.zeros(len(p), dtype=bool)
        for k, row in enumerate(p):
            configuration = walker.walk_to(here, row, MAX_STEP_SIZES)
            if configuration is None:
                break
            q[k] = here = configuration
            reached[k] = True
        return q, reached

    def walk(self, start: Array, p: Array, steps: Sequence[float] = MAX_STEP_SIZES) -> tuple[Array, Mask]:
        """Move every sample from its own closed configuration straight to its primary positions."""
        walker = _thread_walker(self)
        q, reached = start.copy(), np.zeros(len(p), dtype=bool)
        for k, row in enumerate(p):
            configuration = walker.walk_to(start[k], row, steps)
            if configuration is not None:
                q[k], reached[k] = configuration, True
        return q, reached

    def unreachable_error(self, p: Array) -> RobotError:
        """Return the error for positions that cannot be reached: the loop stays open, or a singular configuration lies
        between.
        """
        walker = _Walker(self)
        walker.walk_to(self.home, p, MAX_STEP_SIZES[-1:])
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
                f"loop {loop.name!r} reaches {where} only through a singular configuration: its assembly may change",
                hint="pass home= of the intended assembly, or the positions in between",
                code=Code.NOT_CONVERGED,
                subject=loop.name,
            )
        return RobotError(
            f"loop {loop.name!r} cannot close at {where}: its {loop.kind} stays open by {gaps.max():.3g} m",
            code=Code.OUT_OF_RANGE,
            subject=loop.name,
        )

    def singular_error(self, q: Array, smallest: float, hint: str = "") -> RobotError:
        """Return the error that names a singular configuration."""
        robot = self.constraints.robot
        J = evaluate_batch(self.constraints.jacobian, q[None])[0]
        sizes = []
        for rows, loop in zip(self.constraints.rows, robot.loops, strict=True):
            columns = [robot.joint_index(name) for name in loop.dependent]
            J_loop = J[rows, columns] * self.constraints.units[columns]
            sizes.append(float(np.linalg.svd(J_loop, compute_uv=False)[-1]))
        loop = robot.loops[int(np.argmin(sizes))]
        return RobotError(
            f"loop {loop.name!r} is singular at {self._where(q[list(self.primary)])}: it does not determine "
            f"{', '.join(loop.dependent)} there (smallest singular value {smallest:.1e})",
            hint=hint,
            code=Code.INACCURATE,
            subject=loop.name,
        )

    def _where(self, p: Array) -> str:
        names = [self.constraints.robot.joint_names[i] for i in self.primary]
        return ", ".join(f"{name} = {value:.4g}" for name, value in zip(names, p, strict=True))


_THREAD_STATE = local()
"""Buffers of each thread for its last robots. Threads do not share buffers, and creating buffers takes as long as
solving a motion.
"""


def _thread_walker(newton: Newton) -> _Walker:
    kept: list[tuple[Newton, _Walker]] = getattr(_THREAD_STATE, "kept", [])
    for owner, walker in kept:
        if owner is newton:
            return walker
    walker = _Walker(newton)
    _THREAD_STATE.kept = [(newton, walker), *kept][:BUFFERED_ROBOTS_PER_THREAD]
    return walker


class _Walker:
    """Move from closed configurations straight to primary positions, with a check after every step."""

    def __init__(self, newton: Newton) -> None:
        self._buffered = BufferedFunction(newton._advance)
        self._primary, self._moving = list(newton.primary), newton._moving
        self._units = newton.constraints.units[[newton.primary[k] for k in self._moving]]
        self.here, self.size = newton.home, 0.0

    def walk_to(self, start: Array, p: Array, steps: Sequence[float]) -> Array | None:
        """Return the configuration (n,) at p (k,).

        If a singular configuration lies between, return None; `here` is the last configuration then.
        """
        self.here = start
        if self._step(p) and self.size <= steps[0]:
            return self.here
        self.here = start
        for longest in steps:  # finer steps continue where coarser ones stopped
            before = self.here[self._primary]
            across = p - before
            count = max(1, int(np.ceil(np.abs(across[self._moving] / self._units).max(initial=0.0) / longest)))
            if all(self._step(before + across * (k / count) if k < count else p) for k in range(1, count + 1)):
                return self.here
        return None

    def _step(self, p: Array) -> bool:
        """Predict along W and correct. Return False if the configuration is nearly singular."""
        (q, target), (configuration, known) = self._buffered.inputs, self._buffered.outputs
        q[:], target[:] = self.here, p
        self._buffered.run()
        residual, regular, correction, self.size = known.tolist()
        allowed = MAX_RELATIVE_CORRECTION * self.size + CLOSED_TOLERANCE
        if not (residual < CLOSED_TOLERANCE and regular > MIN_SINGULAR_VALUE and correction <= allowed):  # also NaN
            return False
        if residual > POLISHED_RESIDUAL:  # near singular configurations steps converge slowly
            q[:] = configuration
            self._buffered.run()
        self.here = configuration.copy()
        return True
