"""Motion of all joints of a robot with loops as expressions: Newton's steps from a start, then W and Wdot pd.

    q_d <- q_d - J_d^-1 c(q)         POLISHED times, from the positions of the dependent joints that are given
    W_d = -J_d^-1 J_p                qd = W pd,  qdd = W pdd + Wdot pd,  (Wdot pd)_d = -J_d^-1 Jdot qd

The number of steps is fixed, so that samples stay independent of each other and equal in cost: a start that is off by
1e-4 rad ends at rounding. What is left of c, and how regular J_d is, come out with every sample: where the closure
failed or is nearly singular the result is flagged, not wrong in silence.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import casadi
import numpy as np

from mindyn.algebra.values import Array
from mindyn.equations.chain import SX, constant
from mindyn.equations.loop_batches import evaluated
from mindyn.equations.loop_closure import LoopClosure, closure_of
from mindyn.equations.loop_constraints import ClosingEquations, closing_residual
from mindyn.robots.robot import Robot

POLISHED: Final = 2
"""Newton steps of a kernel."""

CLOSURE: Final = "closure"
"""Name of the output that says how well the loops are closed: |c|, and 1 / |J_d^-1|, which the smallest singular value
of J_d bounds from above; both without unit."""

OPEN: Final = 1e-9
"""|c| above which a loop counts as open, in float64; errors of the torque are of its order."""

IRREGULAR: Final = 1e-4
"""1 / |J_d^-1| below which a result is refused: rounding of q is by then magnified to 1e-8 in W."""

SPANNED: Final = 1e-9
"""Directions of c whose derivatives are smaller, relative to the largest, belong to no motion of the joints."""

KEPT: Final = 16


@dataclass(frozen=True, slots=True)
class ClosedMotion:
    """Motion of all n joints: q, qd, qdd (n,), W (n, k); closure (2,) as `CLOSURE` says."""

    q: SX
    qd: SX
    qdd: SX
    W: SX
    closure: SX


@lru_cache(maxsize=KEPT)
def _independent_rows(robot: Robot) -> Array | None:
    """(m, r) S with S^T c = 0 equivalent to c = 0 and r the number of dependent joints; None where r is not enough.

    A planar loop moves c in a plane of its own, found from the derivatives at random configurations; an overconstrained
    spatial one, such as Bennett's, needs all of c, and Newton's steps of least squares.
    """
    closure = closure_of(robot)
    equations, dependent = closure.constraints, list(closure.dependent)
    assert equations is not None
    rng = np.random.default_rng(0)
    q = closure.home + rng.uniform(-1, 1, (40, robot.joint_count)) * equations.units
    J = evaluated(equations.jacobian, q) * equations.units
    U, s, _ = np.linalg.svd(np.concatenate(list(J), axis=1), full_matrices=False)
    rank = int((s > SPANNED * s[0]).sum())
    if rank != len(dependent):
        return None
    # Equations that stand alone keep their zeros.
    alone = np.flatnonzero(np.linalg.norm(U[:, :rank], axis=1) > 1 - SPANNED)
    return np.eye(len(U))[:, alone] if len(alone) == rank else U[:, :rank]


def is_affine(robot: Robot) -> bool:
    """Whether all dependent joints follow by q = A p + b, so that equations take the primary positions alone."""
    return not robot.loops or closure_of(robot).affine is not None


def closed_motion(robot: Robot, q: SX, pd: SX | None = None, pdd: SX | None = None) -> ClosedMotion:
    """The motion from q (n,), of which dependent positions are a start and those of mimic joints are not read."""
    closure = closure_of(robot)
    equations = closure.constraints
    assert equations is not None
    system = _System(robot, closure, equations)
    for _ in range(POLISHED):
        c, J = system.at(q)
        q = system.moved(q, -(system.inverse(J) @ c))
    c, J = system.at(q)
    inverse = system.inverse(J)
    k = len(closure.primary)
    W_s = casadi.SX(robot.joint_count, k)
    for column, i in enumerate(closure.primary):
        W_s[i, column] = 1
    W_d = -(inverse @ system.columns(J, closure.primary))
    for row, i in enumerate(closure.dependent):
        W_s[i, :] = W_d[row, :]
    free = list(closure.mimics.free)
    A, b = constant(closure.mimics.matrix), constant(closure.mimics.offset)
    W = A @ W_s[free, :]
    whole = A @ q[free] + b
    pd = casadi.SX(k, 1) if pd is None else pd
    qd = W @ pd
    bias = casadi.SX(robot.joint_count, 1)
    change = -(inverse @ system.turning(q, qd))
    for row, i in enumerate(closure.dependent):
        bias[i] = change[row]
    qdd = A @ bias[free] + (casadi.SX(robot.joint_count, 1) if pdd is None else W @ pdd)
    regular = 1 / casadi.norm_fro(system.scaled(inverse))
    return ClosedMotion(whole, qd, qdd, W, casadi.vertcat(casadi.sqrt(casadi.sumsqr(c)), regular))


class _System:
    """S^T c and its Jacobian as functions of expressions, and the inverse of the dependent columns."""

    def __init__(self, robot: Robot, closure: LoopClosure, equations: ClosingEquations) -> None:
        self.dependent = list(closure.dependent)
        self.units = equations.units[self.dependent]
        self.S = _independent_rows(robot)
        x, v = casadi.SX.sym("q", robot.joint_count), casadi.SX.sym("qd", robot.joint_count)
        c = closing_residual(robot, closure.mimics, x, equations.lengths)
        c = c if self.S is None else constant(self.S.T) @ c
        self._c = casadi.Function("c", [x], [c, casadi.jacobian(c, x)])
        self._turning = casadi.Function("turning", [x, v], [casadi.jtimes(casadi.jtimes(c, x, v), x, v)])

    def at(self, q: SX) -> tuple[SX, SX]:
        """c and J (., n)."""
        c, J = self._c(q)
        return c, J

    def columns(self, J: SX, joints: tuple[int, ...]) -> SX:
        """Columns of J for the given joints."""
        return J[:, list(joints)]

    def inverse(self, J: SX) -> SX:
        """J_d^-1, or the pseudo-inverse of what is overconstrained."""
        J_d = casadi.densify(J[:, self.dependent])
        if self.S is not None:
            return casadi.inv(J_d)
        return casadi.inv(J_d.T @ J_d) @ J_d.T

    def scaled(self, inverse: SX) -> SX:
        """The inverse with displacements in their units."""
        return casadi.diag(constant(1 / self.units)) @ inverse

    def moved(self, q: SX, step: SX) -> SX:
        """Q with its dependent joints moved."""
        moved = casadi.SX(q)
        for row, i in enumerate(self.dependent):
            moved[i] = q[i] + step[row]
        return moved

    def turning(self, q: SX, qd: SX) -> SX:
        """(dJ/dt) qd."""
        return self._turning(q, qd)
