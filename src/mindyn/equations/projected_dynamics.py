"""Motion of all joints of a robot with dependent joints: q, qd = W pd, qdd = W pdd + Wdot pd of the open tree."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from mindyn.algebra.values import Array, ShortRepr
from mindyn.equations.loop_closure import LoopClosure, home_closure
from mindyn.robots.robot import Robot


@dataclass(frozen=True, slots=True, repr=False)
class TreeState(ShortRepr):
    """Motion of all n joints of the open tree for N samples: q, qd, qdd (N, n), and W (N, n, k)."""

    q: Array
    qd: Array
    qdd: Array
    W: Array

    def project(self, tau: Array) -> Array:
        """Return W^T tau (N, k) of torques (N, n) of the tree."""
        return np.asarray((self.W.transpose(0, 2, 1) @ tau[:, :, None])[:, :, 0])


def tree_state(robot: Robot, q: ArrayLike, qd: ArrayLike | None = None, qdd: ArrayLike | None = None) -> TreeState:
    """Return the motion of all joints of a robot with dependent joints.

    Parameters
    ----------
    robot : Robot
        Robot with closed loops or mimic joints.
    q : array_like, shape (N, k) or (N, n)
        Positions of the primary joints, or closed positions of all joints.
    qd, qdd : array_like, shape (N, k), optional
        Velocities and accelerations of the primary joints; zero by default.

    Returns
    -------
    TreeState
        `q`, `qd` and `qdd` (N, n) of all joints, and `W` (N, n, k) with qd = W pd.

    Raises
    ------
    RobotError
        If the loops do not close at a position, or are singular there.
    """
    closure = home_closure(robot)
    positions = np.asarray(q, dtype=np.float64)
    if positions.shape[1] != len(robot.joints):
        positions = closure.positions(positions)
    return state_of(closure, positions, qd, qdd)


def state_of(closure: LoopClosure, q: Array, qd: ArrayLike | None = None, qdd: ArrayLike | None = None) -> TreeState:
    """Return the motion at closed positions q (N, n), with rates (N, k) of the primary joints."""
    W = closure.velocity_matrix(q)
    speeds, changes = (
        np.zeros(q.shape) if rate is None else (W @ np.asarray(rate, dtype=np.float64)[:, :, None])[:, :, 0]
        for rate in (qd, qdd)
    )
    return TreeState(q, speeds, changes + closure.acceleration_bias(q, speeds), W)
