"""Expressions of Newton steps that close loops.

The steps are q_d <- q_d - J_d^-1 c(q), where J_d and J_p are the columns of dc/dq for the dependent and for the primary
joints.
"""

from __future__ import annotations

from typing import Final

import casadi
import numpy as np

from mindyn.equations.batch_evaluation import evaluate_batch
from mindyn.equations.chain import SX, constant
from mindyn.equations.loop_constraints import ClosingEquations, closing_residual
from mindyn.foundation.algebra.values import Array

SPAN_TOLERANCE: Final = 1e-9
"""Directions of c whose derivatives are smaller than this, relative to the largest derivative, do not change when
joints move.
"""

NEWTON_CORRECTIONS: Final = 4
"""Newton steps after a prediction along a motion: they reduce a prediction error of 0.1 rad to a rounding error."""


def independent_rows(equations: ClosingEquations, dependent: tuple[int, ...], home: Array) -> Array | None:
    """Return S (m, r), where S^T c = 0 is equivalent to c = 0 and r is the number of dependent joints; None if r
    equations are not enough.

    For a planar loop, c varies in a plane, which is computed from the derivatives at random configurations. An
    overconstrained spatial loop, such as Bennett's, needs all of c and least-squares Newton steps.
    """
    rng = np.random.default_rng(0)
    q = home + rng.uniform(-1, 1, (40, len(home))) * equations.units
    J = evaluate_batch(equations.jacobian, q) * equations.units
    U, s, _ = np.linalg.svd(np.concatenate(list(J), axis=1), full_matrices=False)
    rank = int((s > SPAN_TOLERANCE * s[0]).sum())
    if rank != len(dependent):
        return None
    # Uncoupled equations keep their zeros.
    alone = np.flatnonzero(np.linalg.norm(U[:, :rank], axis=1) > 1 - SPAN_TOLERANCE)
    return np.eye(len(U))[:, alone] if len(alone) == rank else U[:, :rank]


class ClosingSystem:
    """S^T c and its Jacobian as functions of expressions, with the inverse of the dependent columns."""

    def __init__(self, equations: ClosingEquations, dependent: tuple[int, ...], home: Array) -> None:
        self.dependent = list(dependent)
        self.units = equations.units[self.dependent]
        self.S = independent_rows(equations, dependent, home)
        x, v = casadi.SX.sym("q", len(home)), casadi.SX.sym("qd", len(home))
        c = closing_residual(equations.robot, equations.mimics, x, equations.lengths, equations.kept)
        c = c if self.S is None else constant(self.S.T) @ c
        self._c = casadi.Function("c", [x], [c, casadi.jacobian(c, x)])
        self.jacobian_rate = casadi.Function("turning", [x, v], [casadi.jtimes(casadi.jtimes(c, x, v), x, v)])
        """(q, qd) -> (dJ/dt) qd."""

    def at(self, q: SX) -> tuple[SX, SX]:
        """Return c and J (., n)."""
        c, J = self._c(q)
        return c, J

    def inverse(self, J: SX) -> SX:
        """Return J_d^-1, or the pseudo-inverse if the loop is overconstrained."""
        J_d = casadi.densify(J[:, self.dependent])
        if self.S is not None:
            return casadi.inv(J_d)
        return casadi.inv(J_d.T @ J_d) @ J_d.T

    def regularity(self, inverse: SX) -> SX:
        """Return 1 / |J_d^-1|, with displacements in the units of the joints.

        This is at most the smallest singular value of J_d.
        """
        return 1 / casadi.norm_fro(casadi.diag(constant(1 / self.units)) @ inverse)

    def move_dependents(self, q: SX, step: SX) -> SX:
        """Return q with its dependent joints moved by a step."""
        moved = casadi.SX(q)
        moved[self.dependent] += step
        return moved

    def correct(self, q: SX, times: int) -> SX:
        """Return q after Newton steps."""
        for _ in range(times):
            c, J = self.at(q)
            q = self.move_dependents(q, -(self.inverse(J) @ c))
        return q
