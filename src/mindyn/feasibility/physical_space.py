"""`PhysicalSpace`: the standard, drive and friction parameters x behind beta = B x, and which are physical.

x = (phi of every link, four parameters of every drive, extra torques, friction shapes, joint-side friction). Physical
x: every link's pseudo-inertia positive semidefinite, rotor inertia, viscous and Coulomb friction not negative, and
friction with further shapes never driving the joint it should brake.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from mindyn.algebra.inertia import phi_from_pseudo_inertia, pseudo_inertia
from mindyn.algebra.values import Array
from mindyn.estimators.estimate import Estimate
from mindyn.feasibility.conic import ConeRows, triangle
from mindyn.notation import PARAMETERS_PER_LINK
from mindyn.parameters.base import BaseParameters
from mindyn.parameters.parameter import Kind, Parameter, friction_label, list_base_parameters, standard_parameters
from mindyn.regression.friction import SHAPES, Friction
from mindyn.regression.regressor import Regressor
from mindyn.robots.friction_laws import LOAD_SHAPES
from mindyn.robots.robot import Robot

BRAKING_SPEEDS_RAD_S: Final = np.geomspace(1e-3, 10.0, 9)
"""rad/s (m/s) at the joint, either way, at which friction with further shapes must not drive."""
MIN_LENGTH_M: Final = 0.05
"""m; the least length that inertias are measured with."""
MIN_INSIDE_EIGENVALUE: Final = 1e-9
"""Least eigenvalue of a pseudo-inertia that is returned, as part of the largest or of 1 kg (simulators refuse less)."""
WIDTH_ALLOWANCE: Final = 2.0
"""A link may be this many times as wide as it is believed to be."""
_UNIT_TENSORS = np.stack([pseudo_inertia(unit) for unit in np.eye(PARAMETERS_PER_LINK)])
PSEUDO_ROWS: Final = triangle(_UNIT_TENSORS)
"""(10, 10) with PSEUDO_ROWS @ phi the scaled upper triangle of the pseudo-inertia."""
_NONNEGATIVE_KINDS: Final[tuple[Kind, ...]] = ("rotor", "viscous", "coulomb", "joint_side")


@dataclass(frozen=True, eq=False)
class PhysicalSpace:
    """What stands behind the parameters of a base set or a regressor.

    parameters  what beta (p,) is
    behind      what x is
    matrix      B (p, size): beta = B x
    signed      numbers of x that may not be negative
    brakes      (rows, size): brakes @ x >= 0 is friction that brakes at all `BRAKING_SPEEDS_RAD_S`
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
        """Of beta."""
        return tuple(one.name for one in self.parameters)

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of x."""
        return tuple(one.name for one in self.columns)

    @property
    def size(self) -> int:
        """Number of x."""
        return len(self.columns)

    @property
    def link_count(self) -> int:
        """n."""
        return self.robot.joint_count

    @property
    def masses(self) -> slice:
        """The masses in x."""
        return slice(0, PARAMETERS_PER_LINK * self.link_count, PARAMETERS_PER_LINK)

    def link(self, i: int) -> slice:
        """The ten parameters of link i in x."""
        return slice(PARAMETERS_PER_LINK * i, PARAMETERS_PER_LINK * (i + 1))

    @cached_property
    def length(self) -> float:
        """m; mean distance of consecutive joints: what makes kg, kg m and kg m^2 comparable."""
        return max(MIN_LENGTH_M, float(np.mean([s for s in self._steps() if s > 0] or [MIN_LENGTH_M])))

    @cached_property
    def reach(self) -> float:
        """m; how far the robot is known to reach: distances of joints and strokes in all, or a frame on a link."""
        strokes = [
            (j.limits.upper or 0.0) - (j.limits.lower or 0.0) for j in self.robot.joints if j.kind == "prismatic"
        ]
        frames = [float(np.linalg.norm(frame.pose.translation)) for frame in self.robot.frames]
        return max(10 * MIN_LENGTH_M, sum(self._steps()) + sum(strokes), *frames)

    def _steps(self) -> list[float]:
        """m; distances of consecutive joints."""
        return [float(np.linalg.norm((j.origin @ j.tip).translation)) for j in self.robot.joints]

    @property
    def link_units(self) -> Array:
        """(10,) 1 kg, kg times length, kg times its square, as phi has them."""
        return np.array([1.0, *[self.length] * 3, *[self.length**2] * 6])

    @cached_property
    def units(self) -> Array:
        """(size,) `link_units` for link parameters; others so that beta changes by 1."""
        largest = np.abs(self.matrix).max(axis=0)
        units = 1 / np.where(largest > 0, largest, 1.0)
        units[: PARAMETERS_PER_LINK * self.link_count] = np.tile(self.link_units, self.link_count)
        return units

    def cone_rows(self, units: Array | None = None) -> list[ConeRows]:
        """The conditions on v, x = units * v, as rows in cones: one semidefinite group for each link, then the rest."""
        scale = np.ones(self.size) if units is None else units
        rows = []
        # A congruence with diag(1/length, 1/length, 1/length, 1) leaves the sign of the eigenvalues alone.
        shrink = triangle([_squares(1 / self.length)])[:, 0] if units is not None else np.ones(PARAMETERS_PER_LINK)
        for i in range(self.link_count):
            matrix = np.zeros((PARAMETERS_PER_LINK, self.size))
            matrix[:, self.link(i)] = shrink[:, None] * PSEUDO_ROWS * scale[self.link(i)]
            rows.append(ConeRows("semidefinite", matrix, np.zeros(PARAMETERS_PER_LINK), 4))
        others = np.vstack([np.eye(self.size)[list(self.nonnegative)], self.braking_rows]) * scale
        if len(others):
            rows.append(ConeRows("nonnegative", others, np.zeros(len(others))))
        return rows

    def compact_rows(self, believed: Sequence[Array | None] = ()) -> ConeRows:
        """tr(Sigma) <= r^2 m of every link: no light link with the inertia of a heavy one.

        r is the reach, or `WIDTH_ALLOWANCE` times that of a link's believed phi where this is more.
        """
        rows = np.zeros((self.link_count, self.size))
        for i in range(self.link_count):
            phi = believed[i] if believed else None
            square = max(
                self.reach**2, 0.0 if phi is None else WIDTH_ALLOWANCE**2 * (phi[[4, 6, 9]].sum() / 2 / phi[0])
            )
            # tr(Sigma) = tr(J) / 2
            rows[i, self.link(i)] = np.array([square, 0, 0, 0, -0.5, 0, -0.5, 0, 0, -0.5]) / square
        return ConeRows("nonnegative", rows, np.zeros(self.link_count))

    def move_inside(self, x: Array) -> Array:
        """x with every link a solid body: eigenvalues that a solver leaves at zero or below made just positive."""
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
        """Whether `inside` would leave x as it is."""
        return bool(np.array_equal(self.move_inside(x), x))

    def smallest_eigenvalue(self, x: Array) -> float:
        """The smallest eigenvalue of a link's pseudo-inertia at x, kg, lengths in units of `length`."""
        D = np.diag([1 / self.length] * 3 + [1.0])
        return float(
            min(np.linalg.eigvalsh(D @ pseudo_inertia(x[self.link(i)]) @ D)[0] for i in range(self.link_count))
        )

    def smallest_margin(self, x: Array) -> float:
        """The smallest of what must not be negative at x: `smallest_eigenvalue`, rotor inertias, friction."""
        return float(min([self.smallest_eigenvalue(x), *x[list(self.nonnegative)], *(self.braking_rows @ x)]))

    def drive_labels(self, kind: str | None = None) -> tuple[str, ...]:
        """Labels of x that are of no link: these may be left out of a fit by name; those of one kind alone."""
        return tuple(one.name for one in self.columns if one.kind != "link" and kind in (None, one.kind))


def _squares(s: float) -> Array:
    d = np.array([s, s, s, 1.0])
    scaled = np.outer(d, d)
    return scaled / np.where(np.eye(4) > 0, 1.0, np.sqrt(2.0))


def space_of_base(base: BaseParameters) -> PhysicalSpace:
    """The space behind a base set alone."""
    behind = standard_parameters(base.robot, drives=base.drives)
    none = np.zeros((0, len(behind)))
    return PhysicalSpace(
        base.robot, base, list_base_parameters(base), behind, base.matrix, _nonnegative_numbers(behind), none
    )


def space_of(regressor: Regressor) -> PhysicalSpace:
    """The space behind all parameters of a regressor: friction shapes and joint-side friction too."""
    base = regressor.base
    inner = standard_parameters(base.robot, drives=base.drives)
    tail = regressor.parameters[base.count :]
    behind = (*inner, *tail)
    matrix = np.zeros((len(regressor.parameters), len(behind)))
    matrix[: base.count, : len(inner)] = base.matrix
    matrix[base.count :, len(inner) :] = np.eye(len(tail))
    brakes = _braking_rows(base, regressor.friction, behind)
    return PhysicalSpace(base.robot, base, regressor.parameters, behind, matrix, _nonnegative_numbers(behind), brakes)


def _nonnegative_numbers(columns: Sequence[Parameter]) -> tuple[int, ...]:
    return tuple(k for k, one in enumerate(columns) if one.kind in _NONNEGATIVE_KINDS)


def _braking_rows(base: BaseParameters, friction: Friction, columns: tuple[Parameter, ...]) -> Array:
    """Rows viscous |u| + coulomb + shapes * sign(u) >= 0 of every drive with shapes at u = +-SPEEDS, joint side.

    Friction that grows with the load takes power by itself, whether the load is driven or braked: f_load +- f_driving
    >= 0. Of drives that a loop keeps in step, one alone has shapes.
    """
    place = {one.identity: k for k, one in enumerate(columns)}
    rows = []
    for drive in base.robot.drives if base.drives else ():
        own = {shape: place.get(("friction", drive.joint, friction_label(shape))) for shape in friction.shapes}
        shapes = [(shape, k) for shape, k in own.items() if k is not None and shape in SHAPES]
        for sign in (-1.0, 1.0) if any(own.get(shape) is not None for shape in LOAD_SHAPES) else ():
            row = np.zeros(len(columns))
            for shape, share in (("load", 1.0), ("driving", sign)):
                if (k := own.get(shape)) is not None:
                    row[k] = share
            rows.append(row)
        ratio = drive.ratio if drive.side == "motor" else 1.0
        for u in np.concatenate([-BRAKING_SPEEDS_RAD_S, BRAKING_SPEEDS_RAD_S]) if shapes else ():
            row = np.zeros(len(columns))
            row[place["viscous", drive.joint, "fv"]] = ratio**2 * abs(u)
            row[place["coulomb", drive.joint, "fc"]] = abs(ratio)
            for shape, k in shapes:
                row[k] = np.sign(u) * SHAPES[shape](np.array([u]), np.array([np.sign(u)]))[0]
            rows.append(row / np.abs(row).max())
    return np.array(rows).reshape(-1, len(columns))


def physical_values(estimate: Estimate, space: PhysicalSpace) -> Array | None:
    """x of a physically consistent fit, where the estimate carries it and still has its beta."""
    held = estimate.physical
    if held is None or space.labels != held.labels:
        return None
    return held.values if np.allclose(space.matrix @ held.values, estimate.beta, rtol=1e-9, atol=1e-12) else None
