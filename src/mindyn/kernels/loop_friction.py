"""Friction of joints that solved loops make dependent: its speeds are F W(q) pd, its torques on the joints (F W)^T tau.

F (drives, n) has the turns that friction acts on (`friction_matrix`), W (n, k) all joints by the primary ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import casadi
import numpy as np

from mindyn.algebra.values import Array
from mindyn.equations.chain import constant
from mindyn.equations.closed_motion import CLOSURE, closed_motion, is_affine
from mindyn.equations.loop_constraints import dependent_joints
from mindyn.kernels.closed_kernel import ClosedKernel
from mindyn.robots.drive_matrices import friction_matrix
from mindyn.robots.robot import CACHED_ROBOTS, Robot


@dataclass(frozen=True, slots=True, eq=False)
class VaryingFriction:
    """The frictions whose speeds vary with q.

    sources  numbers of their drives
    kernel   q -> F W (sources, k) and the closure
    moved    (sources, k) which primary joints may move them
    """

    sources: tuple[int, ...]
    kernel: ClosedKernel
    moved: Array

    def rows(self, q: Array) -> Array:
        """F W (N, sources, k) at positions (N, k) of the primary or (N, n) of all joints."""
        return np.asarray(self.kernel(q))

    def number(self, source: int) -> int:
        """Where the rows of a drive stand."""
        return self.sources.index(source)

    def joints(self, source: int) -> tuple[int, ...]:
        """Primary joints that may move a friction; none of a drive whose friction does not vary."""
        if source not in self.sources:
            return ()
        return tuple(int(j) for j in np.flatnonzero(self.moved[self.number(source)]))


@lru_cache(maxsize=CACHED_ROBOTS)
def varying_friction(robot: Robot) -> VaryingFriction | None:
    """Those of a robot; None where all friction moves with the primary joints at fixed ratios."""
    if is_affine(robot):
        return None
    F = friction_matrix(robot)
    sources = np.flatnonzero(F[:, list(dependent_joints(robot))].any(axis=1))
    if not len(sources):
        return None
    kernel, moved = friction_rows(robot, F[sources])
    return VaryingFriction(tuple(map(int, sources)), kernel, moved)


def friction_rows(robot: Robot, F: Array) -> tuple[ClosedKernel, Array]:
    """q -> F W (rows, k) of rows F (rows, n), and where it may be other than zero."""
    q = casadi.SX.sym("q", robot.joint_count)
    motion = closed_motion(robot, q)
    rows = constant(F) @ motion.W
    moved = np.array(casadi.DM(rows.sparsity(), 1), dtype=np.float64)
    made = casadi.cse([casadi.densify(rows), casadi.densify(motion.closure)])
    function = casadi.Function("friction_rows", [q], made, ["q"], ["rows", CLOSURE])
    return ClosedKernel(robot, function, matrices=["rows"]), moved
