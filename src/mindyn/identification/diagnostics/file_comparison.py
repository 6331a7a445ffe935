"""`FileComparison`: compare the torque of a log with that of the robot file's inertial parameters, joint by joint.

T is the inverse dynamics of the file's parameters; strong joints are those with a large T. Before both torques are
compared, the part that friction, offset and rotor inertia alone explain is removed.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

import numpy as np
from casadi import Function

from mindyn.equations.catalogue import build_equation
from mindyn.equations.loop_equations import loop_equation
from mindyn.foundation.algebra.values import Array
from mindyn.identification.diagnostics import thresholds as limit
from mindyn.identification.smooth_rows import SMOOTH_CUTOFF_HZ
from mindyn.logs.constant_torques import CONSTANT_TORQUE_RANGE
from mindyn.logs.filters import lowpass
from mindyn.logs.samples import Samples, segment_ends
from mindyn.robots.placeholders import has_placeholders
from mindyn.robots.robot import Robot

ROWS: Final = 300
"""Number of evenly spread rows that are compared, after a low pass of `SMOOTH_CUTOFF_HZ`."""
FILE_ACCURACY: Final = 0.05
"""Fraction of a torque that the masses of a robot file never explain, because they are not exact."""
RANK_TOLERANCE: Final = 1e-9
SPEED_WIDTH: Final = 0.05
"""Width of the friction's transition around zero velocity, relative to the rms speed of the joint."""


@dataclass(frozen=True, slots=True, eq=False)
class FileComparison:
    """Motion and torque at the compared rows.

    function  inverse dynamics of the file's inertial parameters
    others    for each joint (N, 4) orthonormal columns of friction, offset and rotor inertia
    tau       (N, n) torque, low-passed
    """

    robot: Robot
    function: Function
    q: Array
    qd: Array
    qdd: Array
    others: tuple[Array, ...]
    tau: Array

    def file_torque(self, gravity: Array | None = None, moved: Array | float = 0.0) -> Array:
        """Return the torque (N, n) of the file's inertial parameters, with another gravity or with positions of joints
        changed.
        """
        motion = ((self.q + moved).T, self.qd.T, self.qdd.T)
        if gravity is None:
            return np.asarray(self.function(*motion)).T
        root_motion = np.zeros((9, len(self.q)))
        root_motion[6:] = (self.robot.gravity - gravity)[:, None]  # an acceleration of the base acts like gravity
        return np.asarray(_torques_on_moving_root(self.robot)(*motion, root_motion)).T

    def compare(self, joint: int, tau: Array, T: Array) -> tuple[float, float, float]:
        """Return the slope between tau (N,) and T (N,), the power of the remaining residual, and the power of tau.

        Friction, offset and rotor inertia are removed from both first.
        """
        others = self.others[joint]
        tau, T = (column - others @ (others.T @ column) for column in (tau, T))
        power = float(T @ T)
        slope = float(T @ tau) / power if power > 0 else 0.0
        rest = tau - slope * T
        return slope, float(rest @ rest), float(tau @ tau)

    def strong(self, T: Array) -> tuple[int, ...]:
        """Return the strong joints: T is large, and the logged torque is not constant."""
        sizes = np.array([self.compare(j, T[:, j], T[:, j])[2] for j in range(T.shape[1])])
        logged = np.ptp(self.tau, axis=0) > CONSTANT_TORQUE_RANGE * np.abs(self.tau).max(axis=0)
        return tuple(int(j) for j in np.flatnonzero((sizes > limit.MIN_COMPARED_FRACTION**2 * sizes.max()) & logged))

    def misfit(self, T: Array, tau: Array | None = None, joints: Collection[int] | None = None) -> Array:
        """Return the arithmetic and the geometric mean (2,) over strong joints of the fraction of power that s T does
        not explain, s >= 0.
        """
        shares = []
        for joint in self.strong(T) if joints is None else joints:
            slope, rest, power = self.compare(joint, (self.tau if tau is None else tau)[:, joint], T[:, joint])
            shares.append(rest / power if slope > 0 and power > 0 else 1.0)
        if not shares:
            return np.ones(2)
        return np.array([np.mean(shares), np.exp(np.mean(np.log(np.array(shares) + FILE_ACCURACY**2)))])

    def corrected_misfit(self, T: Array, other: Array, tau: Array | None = None) -> Array:
        """Return the misfits (2, 2) of T and of another hypothesis, over the joints that are strong in at least one of
        them.

        The other hypothesis may have another torque. If the hypotheses were compared over different joints, a
        hypothesis without the worst joints would appear better.
        """
        joints = sorted({*self.strong(T), *self.strong(other)})
        return np.array([self.misfit(T, joints=joints), self.misfit(other, tau, joints)])

    def lever(self, joint: int) -> float:
        """Return the largest distance, m, between the joint's axis and the weight that it carries, according to the
        file.
        """
        still = np.zeros_like(self.q.T)
        torque = np.abs(np.asarray(self.function(self.q.T, still, still)).T[:, joint]).max()
        carried, masses = {self.robot.primary_joints[joint].child}, 0.0
        for other, link in zip(self.robot.joints, self.robot.links, strict=True):
            if other.parent in carried or other.child in carried:
                carried.add(other.child)
                masses += 0.0 if link.phi is None else float(link.phi[0])
        weight = masses * float(np.linalg.norm(self.robot.gravity))
        return float(torque / weight) if weight > 0 else 0.0

    def slopes(self, T: Array) -> Array:
        """Return the slopes of the strong joints."""
        return np.array([self.compare(joint, self.tau[:, joint], T[:, joint])[0] for joint in self.strong(T)])


def compare_with_file(robot: Robot, samples: Samples) -> FileComparison | None:
    """Compare a log with the robot file. Return None if loops, missing masses or too few rows make this impossible."""
    n = len(samples.joint_names)
    if robot.loops or not states_masses(robot) or len(samples) < limit.MIN_ROWS_PER_PARAMETER * n:
        return None
    cutoff = min(SMOOTH_CUTOFF_HZ, 0.2 * samples.rate_hz)
    ends = segment_ends(samples.segments)
    smooth = [
        np.concatenate([lowpass(array[a:b], cutoff, samples.rate_hz) for a, b in ends])
        for array in (samples.q, samples.qd, samples.qdd, samples.tau)
    ]
    rows = np.linspace(0, len(samples) - 1, min(ROWS, len(samples))).astype(int)
    q, qd, qdd, tau = (array[rows] for array in smooth)
    others = tuple(_other_columns(qd[:, j], qdd[:, j]) for j in range(n))
    bare = replace(robot, drives=(), extras=())
    comparison = FileComparison(bare, _build_torques(bare, "inverse_dynamics"), q, qd, qdd, others, tau)
    return comparison if comparison.strong(comparison.file_torque()) else None


@lru_cache(maxsize=2)
def _torques_on_moving_root(robot: Robot) -> Function:
    return _build_torques(robot, "inverse_dynamics_on_moving_root")


def _build_torques(robot: Robot, name: str) -> Function:
    """Return an inverse dynamics of a robot without loops, as a function of its primary joints."""
    function: Function = (loop_equation if robot.mimics else build_equation)(robot, name)
    return function


def states_masses(robot: Robot) -> bool:
    """Return whether all links have masses and centres that are not placeholders.

    Invalid inertia tensors are allowed.
    """
    if any(link.phi is None for link in robot.links):
        return False
    return not has_placeholders(robot) and any(link.phi is not None and link.phi[:4].any() for link in robot.links)


def _other_columns(qd: Array, qdd: Array, offset: float = 1.0) -> Array:
    width = SPEED_WIDTH * float(np.sqrt((qd**2).mean()))
    direction = np.tanh(qd / width) if width > 0 else np.zeros_like(qd)
    columns = np.column_stack([np.full_like(qd, offset), qd, direction, qdd])
    sizes = np.linalg.norm(columns, axis=0)
    vectors, values, _ = np.linalg.svd(columns[:, sizes > 0] / sizes[sizes > 0], full_matrices=False)
    return np.asarray(vectors[:, values > RANK_TOLERANCE * values[0]])
