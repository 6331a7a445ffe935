"""Friction of dependent joints in loops that are solved numerically.

Friction acts on the speeds F W(q) pd, and its torques on the primary joints are (F W)^T times the torques of the
drives. F (drives, n) are the speeds that friction acts on per joint speed (`friction_matrix`); W (n, k) maps primary
speeds to all joint speeds.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import casadi
import numpy as np

from mindyn.equations.chain import constant
from mindyn.equations.closed_motion import CLOSURE, closed_motion, is_affine
from mindyn.equations.loop_constraints import dependent_joints
from mindyn.foundation.algebra.values import Array
from mindyn.kernels.closed_kernel import ClosedKernel
from mindyn.robots.drive_matrices import friction_matrix
from mindyn.robots.robot import CACHED_ROBOTS, Robot


@dataclass(frozen=True, slots=True, eq=False)
class VaryingFriction:
    """Friction terms whose speeds vary with q.

    Parameters
    ----------
    sources : tuple of int
        Numbers of the drives whose friction varies.
    kernel : ClosedKernel
        q -> F W (sources, k) and the closure.
    moved : ndarray, shape (sources, k)
        Whether a primary joint can move the friction.
    """

    sources: tuple[int, ...]
    kernel: ClosedKernel
    moved: Array

    def rows(self, q: Array) -> Array:
        """Return F W (N, sources, k) at positions (N, k) of the primary or (N, n) of all joints."""
        return np.asarray(self.kernel(q))

    def number(self, source: int) -> int:
        """Return the row number of a drive."""
        return self.sources.index(source)

    def joints(self, source: int) -> tuple[int, ...]:
        """Return the primary joints that can move a friction; none for a drive whose friction does not vary."""
        if source not in self.sources:
            return ()
        return tuple(int(j) for j in np.flatnonzero(self.moved[self.number(source)]))


@lru_cache(maxsize=CACHED_ROBOTS)
def varying_friction(robot: Robot) -> VaryingFriction | None:
    """Return the varying friction of a robot.

    Return None if the friction speeds are fixed combinations of the primary speeds.
    """
    if is_affine(robot):
        return None
    F = friction_matrix(robot)
    sources = np.flatnonzero(F[:, list(dependent_joints(robot))].any(axis=1))
    if not len(sources):
        return None
    kernel, moved = closed_friction_rows(robot, F[sources])
    return VaryingFriction(tuple(map(int, sources)), kernel, moved)


def closed_friction_rows(robot: Robot, F: Array) -> tuple[ClosedKernel, Array]:
    """Return the function q -> F W (rows, k) for given rows F (rows, n), and which entries can differ from zero."""
    q = casadi.SX.sym("q", len(robot.joints))
    motion = closed_motion(robot, q)
    rows = constant(F) @ motion.W
    moved = np.array(casadi.DM(rows.sparsity(), 1), dtype=np.float64)
    outputs = casadi.cse([casadi.densify(rows), casadi.densify(motion.closure)])
    function = casadi.Function("closed_friction_rows", [q], outputs, ["q"], ["rows", CLOSURE])
    return ClosedKernel(robot, function, matrices=["rows"]), moved
