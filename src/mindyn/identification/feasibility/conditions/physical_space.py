"""`PhysicalSpace`: standard, drive and friction parameters x with beta = B x, and the conditions that make x physical.

x = (phi of every link, four parameters of every drive, extra torques, friction shapes, joint-side friction). x is
physical if the pseudo-inertia of every link is positive semidefinite, rotor inertia, viscous and Coulomb friction are
nonnegative, and friction with further shapes dissipates power and rises with the speed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from mindyn.foundation.algebra.inertia import phi_from_pseudo_inertia, pseudo_inertia
from mindyn.foundation.algebra.values import Array
from mindyn.foundation.notation import PARAMETERS_PER_LINK
from mindyn.identification.estimators.estimate import Estimate
from mindyn.identification.feasibility.optimisation.conic_program import ConeRows, triangle
from mindyn.parameters.base_parameters import BaseParameters
from mindyn.parameters.parameter import Kind, Parameter
from mindyn.regression.friction_limits import NONNEGATIVE_FRICTION, dissipation_rows, parameters_behind
from mindyn.regression.regressor import Regressor
from mindyn.robots.robot import Robot

MIN_LENGTH_M: Final = 0.05
"""Smallest length unit of inertias, m."""
MIN_INSIDE_EIGENVALUE: Final = 1e-9
"""Smallest eigenvalue of a pseudo-inertia relative to the largest one, or to 1 kg; simulators reject smaller
eigenvalues.
"""
WIDTH_ALLOWANCE: Final = 2.0
"""Largest width of a link relative to its prior."""
UNIT_PSEUDO_INERTIAS: Final = np.stack([pseudo_inertia(unit) for unit in np.eye(PARAMETERS_PER_LINK)])
"""(10, 4, 4) pseudo-inertia of each unit parameter."""
PSEUDO_ROWS: Final = triangle(UNIT_PSEUDO_INERTIAS)
"""(10, 10) with PSEUDO_ROWS @ phi the scaled upper triangle of the pseudo-inertia."""
_NONNEGATIVE_KINDS: Final[tuple[Kind, ...]] = ("rotor", *NONNEGATIVE_FRICTION)


@dataclass(frozen=True, eq=False)
class PhysicalSpace:
    """Physical parameters x of a base set or a regressor.

    parameters    descriptions of beta (p,)
    columns       descriptions of x
    matrix        B (p, size): beta = B x
    nonnegative   indices of x that must not be negative
    braking_rows  (rows, size): braking_rows @ x >= 0 if friction dissipates power and rises (`friction_limits`)
    """

    robot: Robot
    base: BaseParameters
    parameters: tuple[Parameter, ...]
    columns: tuple[Parameter, ...]
    matrix: Array
    nonnegative: tuple[int, ...]
    braking_rows: Array

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of beta."""
        return tuple(parameter.name for parameter in self.parameters)

    @property
    def labels(self) -> tuple[str, ...]:
        """Return the names of x."""
        return tuple(column.name for column in self.columns)

    @property
    def size(self) -> int:
        """Return the length of x."""
        return len(self.columns)

    @property
    def link_count(self) -> int:
        """Return the number of moving links."""
        return len(self.robot.joints)

    @property
    def masses(self) -> slice:
        """Return the slice of the masses in x."""
        return slice(0, PARAMETERS_PER_LINK * self.link_count, PARAMETERS_PER_LINK)

    def link(self, i: int) -> slice:
        """Return the slice of the ten parameters of link i in x."""
        return slice(PARAMETERS_PER_LINK * i, PARAMETERS_PER_LINK * (i + 1))

    @cached_property
    def length(self) -> float:
        """Return the mean distance of consecutive joints, m, which makes kg, kg m and kg m^2 comparable."""
        return max(MIN_LENGTH_M, float(np.mean([s for s in self._joint_distances() if s > 0] or [MIN_LENGTH_M])))

    @cached_property
    def reach(self) -> float:
        """Return the known reach of the robot, m: the sum of joint distances and strokes, or a frame on a link."""
        strokes = [
            (j.limits.upper or 0.0) - (j.limits.lower or 0.0) for j in self.robot.joints if j.kind == "prismatic"
        ]
        frames = [float(np.linalg.norm(frame.pose.translation)) for frame in self.robot.frames]
        return max(10 * MIN_LENGTH_M, sum(self._joint_distances()) + sum(strokes), *frames)

    def _joint_distances(self) -> list[float]:
        """Return the distances of consecutive joints, m."""
        return [float(np.linalg.norm((j.origin @ j.tip).translation)) for j in self.robot.joints]

    @property
    def link_units(self) -> Array:
        """Return the units (10,) of phi: 1 kg, kg times length, kg times length squared."""
        return np.array([1.0, *[self.length] * 3, *[self.length**2] * 6])

    @cached_property
    def units(self) -> Array:
        """Return the units (size,) of x: `link_units` for links; other parameters have the unit in which beta changes
        by 1.
        """
        largest = np.abs(self.matrix).max(axis=0)
        units = 1 / np.where(largest > 0, largest, 1.0)
        units[: PARAMETERS_PER_LINK * self.link_count] = np.tile(self.link_units, self.link_count)
        return units

    def cone_rows(self, units: Array) -> list[ConeRows]:
        """Return the conditions on v with x = units * v: first one semidefinite group for each link, then all other
        conditions.
        """
        rows = []
        # A congruence with diag(1/length, 1/length, 1/length, 1) does not change the signs of the eigenvalues.
        shrink = np.array([*[1 / self.length**2] * 6, *[1 / self.length] * 3, 1.0])
        for i in range(self.link_count):
            matrix = np.zeros((PARAMETERS_PER_LINK, self.size))
            matrix[:, self.link(i)] = shrink[:, None] * PSEUDO_ROWS * units[self.link(i)]
            rows.append(ConeRows("semidefinite", matrix, np.zeros(PARAMETERS_PER_LINK), 4))
        others = np.vstack([np.eye(self.size)[list(self.nonnegative)], self.braking_rows]) * units
        if len(others):
            rows.append(ConeRows("nonnegative", others, np.zeros(len(others))))
        return rows

    def compact_rows(self, prior: Sequence[Array | None] = ()) -> ConeRows:
        """Return rows tr(Sigma) <= r^2 m for every link, which exclude light links with a large inertia.

        The radius r is the reach of the robot, or `WIDTH_ALLOWANCE` times the radius of the link's prior if that is
        larger.
        """
        rows = np.zeros((self.link_count, self.size))
        for i in range(self.link_count):
            phi = prior[i] if prior else None
            square = max(
                self.reach**2, 0.0 if phi is None else WIDTH_ALLOWANCE**2 * (phi[[4, 6, 9]].sum() / 2 / phi[0])
            )
            # tr(Sigma) = tr(J) / 2
            rows[i, self.link(i)] = np.array([square, 0, 0, 0, -0.5, 0, -0.5, 0, 0, -0.5]) / square
        return ConeRows("nonnegative", rows, np.zeros(self.link_count))

    def move_inside(self, x: Array) -> Array:
        """Make every link of x a solid body: eigenvalues at or below zero become slightly positive."""
        moved = x.copy()
        D = np.diag([self.length] * 3 + [1.0])
        for i in range(self.link_count):
            P = np.linalg.solve(D, np.linalg.solve(D, pseudo_inertia(x[self.link(i)])).T)
            values, vectors = np.linalg.eigh(P)
            least = MIN_INSIDE_EIGENVALUE * max(float(values[-1]), 1.0)
            if values[0] < least:
                P = vectors @ np.diag(np.maximum(values, least)) @ vectors.T
                moved[self.link(i)] = phi_from_pseudo_inertia(D @ P @ D)
        signed = list(self.nonnegative)
        moved[signed] = np.maximum(moved[signed], 0.0)
        return moved

    def is_inside(self, x: Array) -> bool:
        """Return whether x is so far inside that `move_inside` would not change it."""
        return bool(np.array_equal(self.move_inside(x), x))

    def smallest_eigenvalue(self, x: Array) -> float:
        """Return the smallest eigenvalue (kg) of the pseudo-inertias at x, with lengths in units of `length`."""
        D = np.diag([1 / self.length] * 3 + [1.0])
        return float(
            min(np.linalg.eigvalsh(D @ pseudo_inertia(x[self.link(i)]) @ D)[0] for i in range(self.link_count))
        )

    def smallest_margin(self, x: Array) -> float:
        """Return the smallest quantity that must not be negative: an eigenvalue, rotor inertia or friction."""
        return float(min([self.smallest_eigenvalue(x), *x[list(self.nonnegative)], *(self.braking_rows @ x)]))

    def drive_labels(self, kind: str | None = None) -> tuple[str, ...]:
        """Return the names of x that do not belong to links, optionally of one kind. A fit can drop these by name."""
        return tuple(column.name for column in self.columns if column.kind != "link" and kind in (None, column.kind))


def space_of(regressor: Regressor) -> PhysicalSpace:
    """Return the physical space of all parameters of a regressor, with friction shapes and joint-side friction."""
    base = regressor.base
    behind, matrix = parameters_behind(regressor)
    brakes = dissipation_rows(base, regressor.friction, behind)
    nonnegative = tuple(k for k, column in enumerate(behind) if column.kind in _NONNEGATIVE_KINDS)
    return PhysicalSpace(base.robot, base, regressor.parameters, behind, matrix, nonnegative, brakes)


def physical_values(estimate: Estimate, space: PhysicalSpace) -> Array | None:
    """Return x of a physically consistent fit; None if the estimate has no such x, or if its beta was changed."""
    physical = estimate.values.physical
    if physical is None or space.labels != physical.labels:
        return None
    return (
        physical.values if np.allclose(space.matrix @ physical.values, estimate.beta, rtol=1e-9, atol=1e-12) else None
    )
