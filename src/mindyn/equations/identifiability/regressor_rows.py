"""Rows of the energy regressor and of the torque regressor of a robot, at given states of its primary joints."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mindyn.equations.batch_evaluation import evaluate_batch
from mindyn.equations.catalogue import build_equation
from mindyn.equations.loop_closure import tree_state
from mindyn.equations.loop_constraints import open_tree
from mindyn.foundation.algebra.values import Array
from mindyn.robots.robot import Robot


@dataclass(frozen=True, slots=True)
class Regressors:
    """Regressors of a robot in its primary joints: rows @ phi is an energy or a torque."""

    robot: Robot
    with_drives: bool = False

    def energy_rows(self, q: Array, qd: Array) -> Array:
        """Return rows (N, p) with kinetic plus potential energy = rows @ phi."""
        state = tree_state(self.robot, q, qd)
        regressor = build_equation(open_tree(self.robot), "energy_regressor")
        return np.asarray(evaluate_batch(regressor, state.q, state.qd).sum(axis=1))

    def torque_rows(self, q: Array, qd: Array, qdd: Array) -> Array:
        """Return rows (N, k, p) with tau = rows @ phi."""
        state = tree_state(self.robot, q, qd, qdd)
        regressor = build_equation(open_tree(self.robot), "standard_regressor", with_drives=self.with_drives)
        rows = evaluate_batch(regressor, state.q, state.qd, state.qdd)
        # Without loops the rows stay as they are: the product with W = 1 would spread the NaN of a formula.
        return np.asarray(state.W.transpose(0, 2, 1) @ rows) if self.robot.has_dependents else rows
