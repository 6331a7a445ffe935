"""Follow the loops of a robot along a log: compute the positions of the dependent joints, and how well the loops close.

The assembly mode is kept from row to row. If the motion passes a singular configuration (dead point) between two rows,
the assembly mode is unknown: a linkage that passes the dead point and a linkage that turns back have the same primary
positions. Let s be the lower bound of the smallest singular value (see NOTATION.md, closure). Rows k and k + 1 with a
time h between them raise an error if

    s_k + h ds_k/dt < 0   or   s_(k+1) - h ds_(k+1)/dt < 0

because the motion would pass s = 0 between the rows at its speed.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

import casadi
import numpy as np
from numpy.typing import NDArray

from mindyn.equations.closed_motion import CLOSURE, closed_motion, is_affine
from mindyn.equations.loop_closure import LoopClosure, home_closure
from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, InputError
from mindyn.logs.log_errors import LogError
from mindyn.logs.samples import Samples
from mindyn.robots.robot import CACHED_ROBOTS, Robot

if TYPE_CHECKING:
    from mindyn.kernels.closed_kernel import ClosedKernel

MAX_SPEED_MISMATCH = 0.5
"""Largest difference between the steps of a motion and the steps that its speeds predict, relative to the steps."""

DEAD_POINT_HINT = (
    "log the joint that moves the loop through its dead point and make it primary (list the others in dependent = ... "
    "of the robot file), or exclude these rows"
)


def add_dependent_positions(robot: Robot, q: Array, dependent_q: Array | None) -> Array:
    """Return the positions (N, n) of all joints from primary positions (N, k) and those of dependent joints.

    Return the primary positions if `dependent_q` is None.
    """
    if dependent_q is None:
        return q
    closure = home_closure(robot)
    if dependent_q.shape[1:] != (len(closure.dependent),):
        names = ", ".join(robot.joint_names[i] for i in closure.dependent)
        message = f"dependent_q has shape {dependent_q.shape}, but one column for each of {names} is needed"
        raise InputError(message, code=Code.WRONG_SHAPE, subject="dependent_q")
    whole = np.zeros((len(q), len(robot.joints)))
    whole[:, list(closure.primary)] = q
    whole[:, list(closure.dependent)] = dependent_q
    return closure.mimics.fill(whole)


def follow_loops(robot: Robot, samples: Samples) -> Samples:
    """Add the closure to samples that do not have it, if the robot has loops that are solved numerically.

    Consecutive rows of a motion are followed in order and raise an error across a dead point. Other rows are solved
    independently, in the assembly mode of the robot's home.
    """
    if samples.dependent_q is not None or not len(samples) or not robot.loops or is_affine(robot):
        return samples
    if samples.joint_names != robot.primary_names:
        return samples  # the regressor raises an error that names the joints
    if _is_motion(samples):
        return LoopFollower(robot).follow(samples, np.arange(len(samples)))
    closure = home_closure(robot)
    q = closure.positions(samples.q)
    known, _ = _closure_kernel(robot).run_with_flags(q, samples.qd)
    return replace(samples, dependent_q=q[:, list(closure.dependent)], closure=known[:, :2])


def all_joint_positions(robot: Robot, samples: Samples) -> Array:
    """Return the positions that kernels take as q: all joints (N, n) if loops are solved numerically, otherwise the
    primary joints.
    """
    here = follow_loops(robot, samples)
    return add_dependent_positions(robot, here.q, here.dependent_q)


def _is_motion(samples: Samples) -> bool:
    """Return whether the samples are consecutive rows of a motion: most steps of the positions agree with the
    speeds.
    """
    together = samples.segments[1:] == samples.segments[:-1]
    steps = np.diff(samples.q, axis=0)[together] * samples.rate_hz
    speeds = ((samples.qd[1:] + samples.qd[:-1]) / 2)[together]
    if not len(steps):
        return False
    return bool(
        np.median(np.abs(steps - speeds).sum(axis=1)) <= MAX_SPEED_MISMATCH * np.median(np.abs(steps).sum(axis=1))
    )


class LoopFollower:
    """Follow the loops of a robot from one block of samples of a log to the next.

    residual  largest |c| of all rows so far
    margin    smallest bound of the smallest singular value so far
    """

    def __init__(self, robot: Robot) -> None:
        self.robot = robot
        self.residual, self.margin = 0.0, np.inf
        self._solved = bool(robot.loops) and not is_affine(robot)
        self.begin_log()

    def begin_log(self) -> None:
        """Forget the last configuration, because another log begins."""
        self._last: tuple[int, Array, Array, int] | None = None

    def follow(self, samples: Samples, rows: NDArray[np.int64]) -> Samples:
        """Return the samples with their closure; `rows` (N,) are rows of the log's file, for errors."""
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
        """Describe how well the loops close; return an empty text if no loop was followed."""
        if not np.isfinite(self.margin):
            return ""
        names = ", ".join(loop.name for loop in self.robot.loops)
        return (
            f"loops ({names}) were followed along the log: they close to {self.residual:.1e} of their length, and stay "
            f"at least {self.margin:.2g} away from singular configurations"
        )

    def _positions(self, closure: LoopClosure, samples: Samples, rows: NDArray[np.int64]) -> Array:
        positions = []
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
                raise self._lost_loop_error(closure, p[row], rows[first + row])
            positions.append(q)
            here = q[-1]
        return np.concatenate(positions)

    def _require_no_dead_point(self, samples: Samples, known: Array, rows: NDArray[np.int64]) -> None:
        segments, q = samples.segments, samples.q
        if self._last is not None:  # the row before this block
            segment, positions, before, row = self._last
            segments, rows, known = np.append(segment, segments), np.append(row, rows), np.vstack([before, known])
            q = np.vstack([positions[list(home_closure(self.robot).primary)], q])
        s, change = known[:, 1], known[:, 2] / samples.rate_hz
        passed = (segments[1:] == segments[:-1]) & ((s[:-1] + change[:-1] < 0) | (s[1:] - change[1:] < 0))
        if passed.any():
            k = int(np.argmax(passed))
            raise self._dead_point_error(q[k], rows[k], rows[k + 1])

    def _lost_loop_error(self, closure: LoopClosure, p: Array, row: int) -> LogError:
        if closure.find_reachable(p[None])[1][0]:
            return self._dead_point_error(p, row - 1, row)
        why = closure.newton.unreachable_error(p)
        hint = (
            DEAD_POINT_HINT if why.hint else "check the units, signs and zeros of the log and the lengths of the loop"
        )
        return LogError(f"row {row} of the log: {why.message}", hint=hint, code=Code.DISAGREEMENT, subject=row)

    def _dead_point_error(self, p: Array, before: int, after: int) -> LogError:
        where = ", ".join(f"{name} = {value:.4g}" for name, value in zip(self.robot.primary_names, p, strict=True))
        names = ", ".join(self.robot.dependent_names)
        return LogError(
            f"between rows {before} and {after} the log reaches a singular configuration (dead point) of the loops, at "
            f"{where}: the primary joints do not determine whether {names} pass it or turn back",
            hint=DEAD_POINT_HINT,
            code=Code.AMBIGUOUS,
            subject=before,
        )


@lru_cache(maxsize=CACHED_ROBOTS)
def _closure_kernel(robot: Robot) -> ClosedKernel:
    """Return the kernel (q, qd) -> |c|, s, ds/dt."""
    from mindyn.kernels.closed_kernel import ClosedKernel  # few robots have loops

    closure = home_closure(robot)
    q, pd = casadi.SX.sym("q", len(robot.joints)), casadi.SX.sym("qd", len(closure.primary))
    motion = closed_motion(robot, q, pd)
    direction = casadi.SX(len(robot.joints), 1)
    for column, i in enumerate(closure.primary):
        direction[i] = pd[column]
    change = casadi.jtimes(motion.closure[1], q, direction)
    known = casadi.vertcat(motion.closure, change)
    outputs = casadi.cse([casadi.densify(known), casadi.densify(motion.closure)])
    return ClosedKernel(robot, casadi.Function("measure", [q, pd], outputs, ["q", "qd"], ["known", CLOSURE]))
