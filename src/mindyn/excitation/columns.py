"""`ColumnFunction`: the regressor along a motion, the information it gives, and how both change with the motion."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mindyn.algebra.values import Array
from mindyn.equations.loop_closure import primary_friction
from mindyn.identifiability.base_sets import base_parameters
from mindyn.kernels.model import Model, compile_model
from mindyn.notation import DRIVE_PARAMETERS, PARAMETERS_PER_LINK
from mindyn.parameters.base import BaseParameters, parameter_labels
from mindyn.parameters.structural import structural_base
from mindyn.robots.robot import Robot

TURNING: Final = 0.05
"""In a design Coulomb friction is tanh(u / width), width this part of the speed limit: its sign has no derivative."""


@dataclass(frozen=True, slots=True, eq=False)
class _Coulomb:
    """The Coulomb column of one drive: row[j] * tanh(row @ qd / width) at joint j.

    places  among the entries, and `weights` the nonzeros of the row
    """

    places: NDArray[np.intp]
    weights: Array
    row: Array
    width: float


class Columns:
    """Y (N, n, p) of the base set with friction and rotor columns, Coulomb columns smooth; as its entries (N, e).

    Entries are those of Y that are not zero for every motion, row by row: a joint's torque does not depend on the links
    before it, nor on the friction of others, so that of a 6R arm two thirds of the products of columns are not formed.

    speeds  (n,) speed limits, which set the width of the smooth sign
    """

    def __init__(self, robot: Robot, *, drives: bool, speeds: Array) -> None:
        self.robot = robot
        self.base: BaseParameters = base_of(robot, drives=drives)
        self.model: Model = compile_model(robot, drives=drives, base=self.base)
        self._kernel = self.model.kernel("regressor", compact=True)
        self._adjoint = self.model.adjoint("regressor", compact=True)
        self.rows, self.columns = np.divmod(self._kernel.nonzeros("Y"), self.count)
        ends = np.searchsorted(self.rows, np.arange(len(robot.primary_names) + 1))
        self._joints = [slice(int(first), int(last)) for first, last in pairwise(ends)]
        self._blocks = [np.ix_(own, own) for own in (self.columns[joint] for joint in self._joints)]
        self._coulomb = tuple(self._coulomb_columns(speeds)) if drives else ()

    @property
    def count(self) -> int:
        """p."""
        return self.base.count

    def entries(self, q: Array, qd: Array, qdd: Array) -> Array:
        """Return the entries of Y with the smooth sign."""
        made: Array = self._kernel(q, qd, qdd)
        for one in self._coulomb:
            made[:, one.places] = np.tanh(qd @ one.row / one.width)[:, None] * one.weights
        return made

    def signed_entries(self, q: Array, qd: Array, qdd: Array) -> Array:
        """Return the entries of Y as identification uses it, with the exact sign."""
        made: Array = self._kernel(q, qd, qdd)
        return made

    def dense(self, entries: Array) -> Array:
        """Y (N, n, p) of its entries."""
        return self._kernel.densify("Y", entries)

    def pulled_back(self, q: Array, qd: Array, qdd: Array, V: Array) -> tuple[Array, Array, Array]:
        """Derivatives of <V, entries> by q, qd, qdd, (N, n) each."""
        by_q, by_qd, by_qdd = self._adjoint(q, qd, qdd, V)
        for one in self._coulomb:
            slope = (1 - np.tanh(qd @ one.row / one.width) ** 2) / one.width
            by_qd += (slope * (V[:, one.places] @ one.weights))[:, None] * one.row
        return by_q, by_qd, by_qdd

    def information(self, entries: Array, weights: Array) -> Array:
        """S (p, p) = sum over samples and joints j of weights[j] Y_j^T Y_j."""
        S = np.zeros((self.count, self.count))
        for joint, block, weight in zip(self._joints, self._blocks, weights, strict=True):
            own = entries[:, joint]
            S[block] += weight * (own.T @ own)
        return S

    def slopes(self, entries: Array, weights: Array, G: Array) -> Array:
        """(N, e) derivatives by the entries of what has the symmetric derivatives G by the information."""
        V = np.empty_like(entries)
        for joint, block, weight in zip(self._joints, self._blocks, weights, strict=True):
            np.matmul(entries[:, joint], (2 * weight) * G[block], out=V[:, joint])
        return V

    def _coulomb_columns(self, speeds: Array) -> Iterator[_Coulomb]:
        finite = np.where(np.isfinite(speeds) & (speeds > 0), speeds, 1.0)
        for number, row in zip(*coulomb_columns(self.robot, self.base), strict=True):
            places = np.flatnonzero((self.columns == number) & (row[self.rows] != 0))
            yield _Coulomb(places, row[self.rows[places]], row, float(TURNING * np.abs(row) @ finite))


class OwnColumns:
    """The columns with every parameter in the rows of one joint alone, the last whose torque it touches.

    What is found at joint i when a robot is identified from the last link to the first: S is then A_i^T A_i of each
    joint in blocks [Lin 1995, eq. 94-116].
    """

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self.owners: NDArray[np.intp] = np.zeros(columns.count, dtype=np.intp)
        np.maximum.at(self.owners, columns.columns, columns.rows)
        self._own = columns.rows == self.owners[columns.columns]

    def entries(self, q: Array, qd: Array, qdd: Array) -> Array:
        """See `ColumnFunction`."""
        return np.asarray(self._columns.entries(q, qd, qdd) * self._own)

    def pulled_back(self, q: Array, qd: Array, qdd: Array, V: Array) -> tuple[Array, Array, Array]:
        """See `ColumnFunction`."""
        return self._columns.pulled_back(q, qd, qdd, V * self._own)

    def information(self, entries: Array, weights: Array) -> Array:
        """See `ColumnFunction`; of any entries, with others' parameters left out."""
        return self._columns.information(entries * self._own, weights)

    def slopes(self, entries: Array, weights: Array, G: Array) -> Array:
        """See `ColumnFunction`."""
        return self._columns.slopes(entries, weights, G)


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
