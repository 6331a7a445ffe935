"""Loops that are solved for, followed along a log: positions of the dependent joints, and how well the loops close.

The assembly is kept from row to row. That is a guess where a log comes to a singular configuration (a dead point)
between two rows: a linkage that passes it and one that turns back have the same primary positions. With s, the bound of
the smallest singular value (see NOTATION.md, closure), rows k and k + 1 a time h apart are refused where

    s_k + h ds_k/dt < 0   or   s_(k+1) - h ds_(k+1)/dt < 0

since the motion would pass s = 0 in between at the speed that it has.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import casadi
import numpy as np
from numpy.typing import NDArray

from mindyn.algebra.values import Array
from mindyn.equations.closed_motion import CLOSURE, closed_motion, is_affine
from mindyn.equations.loop_closure import LoopClosure, home_closure
from mindyn.errors import InputError
from mindyn.kernels.closed_kernel import ClosedKernel
from mindyn.logs.errors import LogError
from mindyn.logs.samples import Samples
from mindyn.robots.robot import CACHED_ROBOTS, Robot

MAX_SPEED_MISMATCH = 0.5
"""Part of the change between two rows that the speeds of a motion may miss."""

DEAD_POINT_HINT = (
    "name the joint that moves the loop through its dead point as the primary one and log that (the others stand in "
    "dependent = ... of the robot file), or leave these rows out"
)


def add_dependent_positions(robot: Robot, q: Array, dependent_q: Array | None) -> Array:
    """Positions (N, n) of all joints of primary ones (N, k) and those of the joints that loops make dependent.

    The primary ones alone where the others are not known or not asked for.
    """
    if dependent_q is None:
        return q
    closure = home_closure(robot)
    if dependent_q.shape[1:] != (len(closure.dependent),):
        names = ", ".join(robot.joint_names[i] for i in closure.dependent)
        raise InputError(f"dependent_q has shape {dependent_q.shape}, but one column for each of {names} is needed")
    whole = np.zeros((len(q), robot.joint_count))
    whole[:, list(closure.primary)] = q
    whole[:, list(closure.dependent)] = dependent_q
    return closure.mimics.fill(whole)


def follow_loops(robot: Robot, samples: Samples) -> Samples:
    """Samples with their closure, as those of logs have it; the same where they have it, or nothing is solved for.

    Rows that are a motion are followed in its order, and refused over a dead point. Others stand each by itself, in the
    assembly that the robot's home reaches.
    """
    if samples.dependent_q is not None or not len(samples) or not robot.loops or is_affine(robot):
        return samples
    if samples.joint_names != robot.primary_names:
        return samples  # refused by name where columns are made of them
    if _is_motion(samples):
        return LoopFollower(robot).follow(samples, np.arange(len(samples)))
    closure = home_closure(robot)
    q = closure.positions(samples.q)
    known, _ = _closure_kernel(robot).run_with_flags(q, samples.qd)
    return replace(samples, dependent_q=q[:, list(closure.dependent)], closure=known[:, :2])


def all_joint_positions(robot: Robot, samples: Samples) -> Array:
    """What kernels take as q: positions (N, n) of all joints where loops are solved for, of the primary ones else."""
    here = follow_loops(robot, samples)
    return add_dependent_positions(robot, here.q, here.dependent_q)


def _is_motion(samples: Samples) -> bool:
    """Whether positions mostly change from row to row as the speeds say."""
    together = samples.segments[1:] == samples.segments[:-1]
    steps = np.diff(samples.q, axis=0)[together] * samples.rate_hz
    speeds = ((samples.qd[1:] + samples.qd[:-1]) / 2)[together]
    if not len(steps):
        return False
    return bool(
        np.median(np.abs(steps - speeds).sum(axis=1)) <= MAX_SPEED_MISMATCH * np.median(np.abs(steps).sum(axis=1))
    )


class LoopFollower:
    """Follows the loops of a robot from one block of a log's samples to the next.

    residual  the largest |c| so far
    margin    the least bound of the smallest singular value so far
    """

    def __init__(self, robot: Robot) -> None:
        self.robot = robot
        self.residual, self.margin = 0.0, np.inf
        self._solved = bool(robot.loops) and not is_affine(robot)
        self.begin_log()

    def begin_log(self) -> None:
        """The next block belongs to another log."""
        self._last: tuple[int, Array, Array, int] | None = None

    def follow(self, samples: Samples, rows: NDArray[np.int64]) -> Samples:
        """The samples with their closure; `rows` (N,) are those of the log's file, for errors."""
        if not self._solved or not len(samples):
            return samples
        closure = home_closure(self.robot)
        q = self._positions(closure, samples, rows)
        known, _ = _closure_kernel(self.robot).run_with_flags(q, samples.qd)
        self._require_no_dead_point(samples, known, rows)
        self.residual = max(self.residual, float(known[:, 0].max()))
        self.margin = min(self.margin, float(known[:, 1].min()))
        self._last = (int(samples.segments[-1]), q[-1], known[-1], int(rows[-1]))
        return replace(samples, dependent_q=q[:, list(closure.dependent)], closure=known[:, :2])

    def note(self) -> str:
        """How well the loops closed; empty where none was followed."""
        if not np.isfinite(self.margin):
            return ""
        names = ", ".join(loop.name for loop in self.robot.loops)
        return (
            f"loops ({names}) were followed along the log: they close to {self.residual:.1e} of their length, and stay "
            f"at least {self.margin:.2g} away from singular configurations (0: singular)"
        )

    def _positions(self, closure: LoopClosure, samples: Samples, rows: NDArray[np.int64]) -> Array:
        found = []
        starts = np.flatnonzero(np.diff(samples.segments, prepend=samples.segments[:1] - 1))
        here = None if self._last is None else self._last[1]
        for first, last in zip(starts, [*starts[1:], len(samples)], strict=True):
            p = samples.q[first:last]
            begun = self._last is not None and first == 0 and self._last[0] == samples.segments[0]
            if here is None:
                here = closure.positions(p[:1])[0]
            elif not begun:
                here = closure.continue_from(here, p[0])
            q, reached = closure.follow(p, here)
            if not reached.all():
                row = int(np.argmin(reached))
                raise self._lost(closure, p[row], rows[first + row])
            found.append(q)
            here = q[-1]
        return np.concatenate(found)

    def _require_no_dead_point(self, samples: Samples, known: Array, rows: NDArray[np.int64]) -> None:
        s, change = known[:, 1], known[:, 2] / samples.rate_hz
        together = samples.segments[1:] == samples.segments[:-1]
        passed = together & ((s[:-1] + change[:-1] < 0) | (s[1:] - change[1:] < 0))
        if passed.any():
            k = int(np.argmax(passed))
            raise self._passed(samples.q[k], rows[k], rows[k + 1])
        if self._last is not None and self._last[0] == samples.segments[0]:
            _, _, before, row = self._last
            if before[1] + before[2] / samples.rate_hz < 0 or s[0] - change[0] < 0:
                raise self._passed(samples.q[0], row, rows[0])

    def _lost(self, closure: LoopClosure, p: Array, row: int) -> LogError:
        if closure.find_reachable(p[None])[1][0]:
            return self._passed(p, row - 1, row)
        why = closure.newton.unreachable_error(p)
        hint = (
            DEAD_POINT_HINT if why.hint else "check the units, signs and zeros of the log and the lengths of the loop"
        )
        return LogError(f"row {row} of the log: {why.message}", hint=hint)

    def _passed(self, p: Array, before: int, after: int) -> LogError:
        where = ", ".join(f"{name} = {value:.4g}" for name, value in zip(self.robot.primary_names, p, strict=True))
        names = ", ".join(self.robot.dependent_names)
        return LogError(
            f"between rows {before} and {after} the log comes to a singular configuration (dead point) of the loops, "
            f"at {where}: whether {names} pass it or turn back there cannot be told from the primary joints",
            hint=DEAD_POINT_HINT,
        )


@lru_cache(maxsize=CACHED_ROBOTS)
def _closure_kernel(robot: Robot) -> ClosedKernel:
    """(q, qd) -> |c|, s, ds/dt."""
    closure = home_closure(robot)
    q, pd = casadi.SX.sym("q", robot.joint_count), casadi.SX.sym("qd", len(closure.primary))
    motion = closed_motion(robot, q, pd)
    direction = casadi.SX(robot.joint_count, 1)
    for column, i in enumerate(closure.primary):
        direction[i] = pd[column]
    change = casadi.jtimes(motion.closure[1], q, direction)
    known = casadi.vertcat(motion.closure, change)
    made = casadi.cse([casadi.densify(known), casadi.densify(motion.closure)])
    return ClosedKernel(robot, casadi.Function("measure", [q, pd], made, ["q", "qd"], ["known", CLOSURE]))
