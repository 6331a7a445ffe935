"""Dynamics of robots with closed loops in their primary joints: the open tree's equations projected by W.

tau_p = W^T tau(q, qd, qdd), M_p = W^T M W, Y_p = W^T Y with q = U(p), qd = W pd, qdd = W pdd + Wdot pd, by the
principle of virtual work, because the forces in the pins do no work [Yoshida 1996, eq. 2.136].
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mindyn.algebra.values import Array, ShortRepr
from mindyn.equations.catalogue import equation
from mindyn.equations.drives import load_dependent_extras, load_friction_error
from mindyn.equations.loop_closure import LoopClosure, home_closure, loop_closure
from mindyn.equations.loop_constraints import evaluate_batch, open_tree, to_rows
from mindyn.errors import Code, InputError
from mindyn.parameters.base import BaseParameters
from mindyn.robots.robot import Robot


@dataclass(frozen=True, slots=True)
class TreeState:
    """Motion of all n joints of the open tree for N samples: q, qd, qdd (N, n), and W (N, n, k)."""

    q: Array
    qd: Array
    qdd: Array
    W: Array

    def project(self, tau: Array) -> Array:
        """Return W^T tau (N, k) of torques (N, n) of the tree."""
        return np.asarray((self.W.transpose(0, 2, 1) @ tau[:, :, None])[:, :, 0])


def tree_state(robot: Robot, q: Array, pd: Array, pdd: Array) -> TreeState:
    """Return the motion of all joints at q (N, n), closed, or (N, k) of the primary joints, with their rates (N, k)."""
    closure = home_closure(robot)
    return _state(closure, q if q.shape[1] == len(robot.joints) else closure.positions(q), pd, pdd)


def _state(closure: LoopClosure, q: Array, pd: Array, pdd: Array) -> TreeState:
    W = closure.velocity_matrix(q)
    qd = _project_rows(W, pd)
    return TreeState(q, qd, _project_rows(W, pdd) + closure.acceleration_bias(q, qd), W)


@dataclass(frozen=True, repr=False)
class LoopDynamics(ShortRepr):
    """Equations of motion of a robot with loops in its k primary joints; arrays (..., k) of any batch shape.

    Create it with `loop_dynamics`.

    Attributes
    ----------
    closure : LoopClosure
    drives : bool
        Whether drives are included, on primary and dependent joints alike.
    """

    closure: LoopClosure
    drives: bool = False
    _functions: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def robot(self) -> Robot:
        """The robot with its loops."""
        return self.closure.robot

    @property
    def primary_names(self) -> tuple[str, ...]:
        """Names of the primary joints, in the order of p."""
        return self.closure.primary_names

    def _tree(self, name: str, *columns: Array) -> Array:
        """Return values of an equation of the open tree; its function is traced at the first use."""
        if name not in self._functions:
            if self.drives and (loaded := load_dependent_extras(self.robot)):
                raise load_friction_error(loaded[0], "projected torques of the open tree do not determine it")
            drives = self.drives and not name.startswith("energy")
            self._functions[name] = equation(open_tree(self.robot), name, drives=drives)
        return evaluate_batch(self._functions[name], *columns)

    def _rows(self, value: ArrayLike, what: str) -> tuple[Array, tuple[int, ...]]:
        return to_rows(value, len(self.primary_names), what)

    def motion(self, p: ArrayLike, pd: ArrayLike | None = None, pdd: ArrayLike | None = None) -> TreeState:
        """Return the motion of all joints; velocities and accelerations are zero by default."""
        rows, _ = self._rows(p, "p")
        speeds = np.zeros_like(rows) if pd is None else self._rows(pd, "pd")[0]
        changes = np.zeros_like(rows) if pdd is None else self._rows(pdd, "pdd")[0]
        if not len(rows) == len(speeds) == len(changes):
            raise InputError(
                f"p, pd, pdd must have the same batch shape; got {len(rows)}, {len(speeds)}, {len(changes)} rows",
                code=Code.WRONG_SHAPE,
                subject="p",
            )
        return _state(self.closure, self.closure.positions(rows), speeds, changes)

    def inverse_dynamics(self, p: ArrayLike, pd: ArrayLike, pdd: ArrayLike) -> Array:
        """Compute the torques (..., k) of the primary joints."""
        state = self.motion(p, pd, pdd)
        tau = self._tree("inverse_dynamics", state.q, state.qd, state.qdd)[:, :, 0]
        return state.project(tau).reshape(np.shape(p))

    def bias(self, p: ArrayLike, pd: ArrayLike) -> Array:
        """Compute the torques (..., k) at pdd = 0."""
        return self.inverse_dynamics(p, pd, np.zeros(np.shape(p)))

    def gravity(self, p: ArrayLike) -> Array:
        """Compute the torques (..., k) that hold the robot at rest."""
        state = self.motion(p)
        return state.project(self._tree("gravity", state.q)[:, :, 0]).reshape(np.shape(p))

    def inertia_matrix(self, p: ArrayLike) -> Array:
        """Compute W^T M W (..., k, k)."""
        state = self.motion(p)
        M = state.W.transpose(0, 2, 1) @ self._tree("inertia_matrix", state.q) @ state.W
        return np.asarray(M).reshape(*np.shape(p), M.shape[-1])

    def forward_dynamics(self, p: ArrayLike, pd: ArrayLike, tau: ArrayLike) -> Array:
        """Compute the accelerations pdd (..., k) under torques tau (..., k) of the primary joints."""
        rest = np.asarray(tau, dtype=np.float64) - self.bias(p, pd)
        return np.asarray(np.linalg.solve(self.inertia_matrix(p), rest[..., None])[..., 0])

    def standard_regressor(self, p: ArrayLike, pd: ArrayLike, pdd: ArrayLike) -> Array:
        """Compute Y (..., k, parameters) with tau = Y phi, phi the standard parameters of all links (then of the
        drives).
        """
        state = self.motion(p, pd, pdd)
        Y = state.W.transpose(0, 2, 1) @ self._tree("standard_regressor", state.q, state.qd, state.qdd)
        return np.asarray(Y).reshape(*np.shape(p), Y.shape[-1])

    def regressor(self, p: ArrayLike, pd: ArrayLike, pdd: ArrayLike, base: BaseParameters) -> Array:
        """Compute Y (..., k, count) with tau = Y beta, beta the values of a base set of this robot."""
        if base.drives != self.drives:
            raise InputError(
                f"the base set has drives={base.drives}, the dynamics drives={self.drives}",
                code=Code.DISAGREEMENT,
                subject="drives",
            )
        return np.asarray(self.standard_regressor(p, pd, pdd) @ base.embedding)

    def energy(self, p: ArrayLike, pd: ArrayLike) -> Array:
        """Compute the kinetic and potential energy (..., 2) of all links, without rotors, J."""
        state = self.motion(p, pd)
        return self._tree("energy", state.q, state.qd)[:, :, 0].reshape(*np.shape(p)[:-1], 2)

    def energy_regressor(self, p: ArrayLike, pd: ArrayLike) -> Array:
        """Compute Y (..., 2, 10 n) with (kinetic, potential energy) = Y phi."""
        state = self.motion(p, pd)
        Y = self._tree("energy_regressor", state.q, state.qd)
        return Y.reshape(*np.shape(p)[:-1], *Y.shape[1:])


def _project_rows(W: Array, rows: Array) -> Array:
    return np.asarray((W @ rows[:, :, None])[:, :, 0])


def loop_dynamics(robot: Robot, *, drives: bool = False, home: ArrayLike | None = None) -> LoopDynamics:
    """Create the dynamics of a robot with loops.

    Parameters
    ----------
    robot : Robot
        The robot.
    drives : bool
        Include drives, on primary and dependent joints alike.
    home : array_like, shape (n,), optional
        A closed configuration in the intended assembly; the robot's own by default.

    Returns
    -------
    LoopDynamics
        Functions of the dynamics in the primary joints.

    Raises
    ------
    RobotError
        If a loop does not close near `home`, or the loops do not determine the dependent joints.
    """
    return LoopDynamics(loop_closure(robot, home), drives)
