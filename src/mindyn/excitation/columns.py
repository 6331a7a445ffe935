"""`Columns`: the regressor along a motion, the information it gives, and how both change with the motion."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mindyn.algebra.values import Array
from mindyn.equations.loop_closure import primary_friction
from mindyn.identifiability.base_sets import base_parameters
from mindyn.kernels.model import Model, compile_model
from mindyn.notation import DRIVE_PARAMETERS, PARAMETERS_PER_LINK
from mindyn.parameters.base import BaseParameters
from mindyn.parameters.labels import parameter_labels
from mindyn.parameters.structural import structural_base
from mindyn.robots.robot import Robot

TURNING: Final = 0.05
"""In a design Coulomb friction is tanh(u / width), width this part of the speed limit: its sign has no derivative."""


@dataclass(frozen=True, slots=True, eq=False)
class _Coulomb:
    """The Coulomb column of one drive: row[j] * tanh(row @ qd / width) at joint j."""

    column: int
    row: Array
    width: float


class Columns:
    """Y (N, n, p) of the base set with friction and rotor columns, Coulomb columns smooth.

    speeds  (n,) speed limits, which set the width of the smooth sign
    """

    def __init__(self, robot: Robot, *, drives: bool, speeds: Array) -> None:
        self.robot = robot
        self.base: BaseParameters = base_of(robot, drives=drives)
        self.model: Model = compile_model(robot, drives=drives, base=self.base)
        self._kernel = self.model.kernel("regressor")
        self._adjoint = self.model.adjoint("regressor")
        self._coulomb = _coulomb_columns(robot, self.base, speeds) if drives else ()

    @property
    def count(self) -> int:
        """p."""
        return self.base.count

    def regressor(self, q: Array, qd: Array, qdd: Array) -> Array:
        """Y (N, n, p) with the smooth sign."""
        Y: Array = self._kernel(q, qd, qdd)
        for one in self._coulomb:
            Y[:, :, one.column] = np.tanh(qd @ one.row / one.width)[:, None] * one.row
        return Y

    def signed_regressor(self, q: Array, qd: Array, qdd: Array) -> Array:
        """Y (N, n, p) as identification takes it, with the sign itself."""
        Y: Array = self._kernel(q, qd, qdd)
        return Y

    def pulled_back(self, q: Array, qd: Array, qdd: Array, V: Array) -> tuple[Array, Array, Array]:
        """Derivatives of <V, Y> by q, qd, qdd, (N, n) each."""
        by_q, by_qd, by_qdd = self._adjoint(q, qd, qdd, V)
        for one in self._coulomb:
            slope = (1 - np.tanh(qd @ one.row / one.width) ** 2) / one.width
            by_qd += (slope * (V[:, :, one.column] @ one.row))[:, None] * one.row
        return by_q, by_qd, by_qdd

    def information(self, Y: Array, weights: Array) -> Array:
        """S (p, p) = sum over samples and joints j of weights[j] Y_j^T Y_j."""
        rows = (Y * np.sqrt(weights)[:, None]).reshape(-1, Y.shape[2])
        return np.asarray(rows.T @ rows)


class OwnColumns:
    """The columns with every parameter in the rows of one joint alone, the last whose torque it touches.

    What is found at joint i when a robot is identified from the last link to the first: S is then A_i^T A_i of each
    joint in blocks [Lin 1995, eq. 94-116].
    """

    def __init__(self, columns: Columns, Y: Array) -> None:
        self._columns = columns
        touched = np.abs(Y).max(axis=0) > 0
        last = touched.shape[0] - 1 - np.argmax(touched[::-1], axis=0)
        self.owners: NDArray[np.intp] = np.where(touched.any(axis=0), last, 0)
        self._own = np.arange(touched.shape[0])[:, None] == self.owners

    def regressor(self, q: Array, qd: Array, qdd: Array) -> Array:
        """See `Columns`."""
        return np.asarray(self._columns.regressor(q, qd, qdd) * self._own)

    def pulled_back(self, q: Array, qd: Array, qdd: Array, V: Array) -> tuple[Array, Array, Array]:
        """See `Columns`."""
        return self._columns.pulled_back(q, qd, qdd, V * self._own)

    def information(self, Y: Array, weights: Array) -> Array:
        """See `Columns`; of any rows, with others' parameters left out."""
        return self._columns.information(Y * self._own, weights)


def base_of(robot: Robot, *, drives: bool) -> BaseParameters:
    """The base set that identification takes: the structural one, through loops the one that covers them."""
    return base_parameters(robot, drives=drives) if robot.has_dependents else structural_base(robot, drives=drives)


def coulomb_columns(robot: Robot, base: BaseParameters) -> tuple[list[int], Array]:
    """Numbers of the Coulomb parameters, and the rows (c, n) of their drives: the speeds they act on are rows @ qd.

    Drives that a loop keeps in step have one parameter, in place of the first and named after it.
    """
    labels = parameter_labels(robot, drives=True)
    first = PARAMETERS_PER_LINK * robot.joint_count + DRIVE_PARAMETERS.index("coulomb")
    own = [labels[first + len(DRIVE_PARAMETERS) * k] for k in range(len(robot.drives))]
    rows = primary_friction(robot)  # zero where the speed is that of a dependent joint that is solved for
    found = [(k, name) for k, label in enumerate(own) for name in (label, f"{label}R") if name in base.names]
    found = [(k, name) for k, name in found if rows[k].any()]
    return [base.names.index(name) for _, name in found], rows[[k for k, _ in found]]


def _coulomb_columns(robot: Robot, base: BaseParameters, speeds: Array) -> tuple[_Coulomb, ...]:
    numbers, rows = coulomb_columns(robot, base)
    finite = np.where(np.isfinite(speeds) & (speeds > 0), speeds, 1.0)
    return tuple(_Coulomb(k, row, float(TURNING * np.abs(row) @ finite)) for k, row in zip(numbers, rows, strict=True))
