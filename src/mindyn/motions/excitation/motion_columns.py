"""`Columns`: the regressor along a motion, its information matrix, and the derivatives of both."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mindyn.equations.identifiability.base_sets import base_parameters
from mindyn.equations.loop_closure import primary_friction
from mindyn.foundation.algebra.values import Array
from mindyn.kernels.model import Model, compile_model
from mindyn.parameters.base_parameters import BaseParameters
from mindyn.parameters.parameter import standard_parameters
from mindyn.parameters.structural import structural_base
from mindyn.robots.robot import Robot

TURNING: Final = 0.05
"""Width of tanh(u / width), relative to the speed limit. In a design, this function replaces the sign in Coulomb
friction.
"""


@dataclass(frozen=True, slots=True, eq=False)
class _Coulomb:
    """The Coulomb column of one drive: row[j] * tanh(row @ qd / width) at joint j.

    places   positions among the entries
    weights  nonzeros of the row
    """

    places: NDArray[np.intp]
    weights: Array
    row: Array
    width: float


class Columns:
    """Regressor Y (N, n, p) of a base set with friction and rotor columns along a motion, stored as its nonzero entries
    (N, e).

    Entries are the structural nonzeros of Y, row by row; Coulomb columns are smooth. The torque of a joint does not
    depend on the links before it or on the friction of other joints; for a 6R arm, two thirds of the products of
    columns are not computed.

    speeds  (n,) speed limits, which determine the width of the smooth sign
    owners  (p,) the last joint whose torque depends on each parameter
    own     (e,) whether an entry is in the row of its parameter's owner. If a robot is identified from the last link to
            the first, these are the columns of joint i: S then has the blocks A_i^T A_i [Lin 1995, eq. 94-116]
    """

    def __init__(self, robot: Robot, *, with_drives: bool, speeds: Array) -> None:
        self.robot = robot
        self.base: BaseParameters = base_of(robot, with_drives=with_drives)
        self.model: Model = compile_model(robot, with_drives=with_drives, base=self.base)
        self._kernel = self.model.kernel("regressor", compact=True)
        self._adjoint = self.model.adjoint("regressor", compact=True)
        self.rows, self.columns = np.divmod(self._kernel.nonzeros("Y"), self.count)
        ends = np.searchsorted(self.rows, np.arange(robot.joint_count + 1))
        self._joints = [slice(int(first), int(last)) for first, last in pairwise(ends)]
        self._blocks = [np.ix_(indices, indices) for indices in (self.columns[joint] for joint in self._joints)]
        self._coulomb = tuple(self._coulomb_columns(speeds)) if with_drives else ()
        self.owners: NDArray[np.intp] = np.zeros(self.count, dtype=np.intp)
        np.maximum.at(self.owners, self.columns, self.rows)
        self.own = self.rows == self.owners[self.columns]

    @property
    def count(self) -> int:
        """Number p of parameters."""
        return self.base.count

    def entries(self, q: Array, qd: Array, qdd: Array) -> Array:
        """Return the entries of Y with the smooth sign."""
        values: Array = self._kernel(q, qd, qdd)
        for column in self._coulomb:
            values[:, column.places] = np.tanh(qd @ column.row / column.width)[:, None] * column.weights
        return values

    def signed_entries(self, q: Array, qd: Array, qdd: Array) -> Array:
        """Return the entries of Y as identification uses it, with the exact sign."""
        return np.asarray(self._kernel(q, qd, qdd))

    def dense(self, entries: Array) -> Array:
        """Return Y (N, n, p) of the entries."""
        return self._kernel.densify("Y", entries)

    def pulled_back(self, q: Array, qd: Array, qdd: Array, V: Array) -> tuple[Array, Array, Array]:
        """Return the derivatives of <V, entries> with respect to q, qd and qdd, (N, n) each."""
        by_q, by_qd, by_qdd = self._adjoint(q, qd, qdd, V)
        for column in self._coulomb:
            slope = (1 - np.tanh(qd @ column.row / column.width) ** 2) / column.width
            by_qd += (slope * (V[:, column.places] @ column.weights))[:, None] * column.row
        return by_q, by_qd, by_qdd

    def information(self, entries: Array, weights: Array) -> Array:
        """Return S (p, p) = sum over samples and joints j of weights[j] Y_j^T Y_j."""
        S = np.zeros((self.count, self.count))
        for joint, block, weight in zip(self._joints, self._blocks, weights, strict=True):
            joint_entries = entries[:, joint]
            S[block] += weight * (joint_entries.T @ joint_entries)
        return S

    def slopes(self, entries: Array, weights: Array, G: Array) -> Array:
        """Return the derivatives (N, e) with respect to the entries of a function f of the information S, given G = d f
        / d S.
        """
        V = np.empty_like(entries)
        for joint, block, weight in zip(self._joints, self._blocks, weights, strict=True):
            np.matmul(entries[:, joint], (2 * weight) * G[block], out=V[:, joint])
        return V

    def _coulomb_columns(self, speeds: Array) -> Iterator[_Coulomb]:
        finite = np.where(np.isfinite(speeds) & (speeds > 0), speeds, 1.0)
        for number, row in zip(*coulomb_columns(self.robot, self.base), strict=True):
            places = np.flatnonzero((self.columns == number) & (row[self.rows] != 0))
            yield _Coulomb(places, row[self.rows[places]], row, float(TURNING * np.abs(row) @ finite))


def base_of(robot: Robot, *, with_drives: bool) -> BaseParameters:
    """Return the base set that identification uses: the structural one, or one that covers loops."""
    return (
        base_parameters(robot, with_drives=with_drives)
        if robot.has_dependents
        else structural_base(robot, with_drives=with_drives)
    )


def coulomb_columns(robot: Robot, base: BaseParameters) -> tuple[list[int], Array]:
    """Return the numbers of the Coulomb parameters, and rows (c, n): each friction acts on the speed rows @ qd.

    Drives that a loop couples share one parameter, which has the position and the name of the first.
    """
    coulomb_labels = [p.name for p in standard_parameters(robot, with_drives=True) if p.kind == "coulomb"]
    rows = primary_friction(robot)  # zero where the speed is that of a dependent joint that is solved for
    named = [(k, name) for k, label in enumerate(coulomb_labels) for name in (label, f"{label}R") if name in base.names]
    named = [(k, name) for k, name in named if rows[k].any()]
    return [base.names.index(name) for _, name in named], rows[[k for k, _ in named]]
