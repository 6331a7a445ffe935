"""`FrictionLimits`: conditions under which fitted friction extrapolates, and the regularisation of its coefficients.

With tau_f(u) the friction of a drive without its torque offset, at joint speeds u up to the velocity limit:

    tau_f(u) u >= 0                  friction takes power, at every load
    d|tau_f| / d|u| >= 0             above the largest Stribeck speed

Both conditions are linear in the coefficients. They are imposed at `SPEED_COUNT` speeds in each direction; conditions
that follow from other conditions are omitted. Load-dependent friction dissipates power at every load if the friction
without load does so, and if f_load +- f_driving >= 0.

At the speeds of a log, the column of a coefficient may be nearly collinear with other friction columns of its joint:
the offset or |u| of a joint that turns in one direction, or viscous friction at one speed. The log then does not
determine the coefficient: large values cancel each other in the log, but not on another motion. After a fit of the
column by the columns of simpler kinds (`FRICTION_ORDER`), a fraction of its squares remains. If this fraction is below
`INDEPENDENT`, a prior around zero adds the missing information.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mindyn.foundation.algebra.values import Array
from mindyn.parameters.base_parameters import BaseParameters
from mindyn.parameters.parameter import Kind, Parameter, friction_label, standard_parameters
from mindyn.regression.friction import Friction
from mindyn.regression.information import Information
from mindyn.regression.regressor import Regressor
from mindyn.robots.friction_laws import FRICTION_LAWS, LOAD_SHAPES, FrictionLaw
from mindyn.robots.robot import Robot

SPEED_COUNT: Final = 50
"""Speeds in each direction at which friction is constrained, denser near zero."""
UNKNOWN_LIMIT_RAD_S: Final = 10.0
"""Velocity limit, rad/s or m/s, of joints whose robot file has none."""
LEAST_LIMIT_RAD_S: Final = 1.0
"""Smallest velocity limit, rad/s or m/s, that is used, because smaller limits in robot files are often placeholders."""
SLOPE_STEP: Final = 1e-4
"""Half of the step, relative to the speed, of the differences that give slopes."""
IMPLIED: Final = 1e-9
"""Relative residual below which a row counts as a nonnegative combination of other rows."""
RIDGE: Final = 1e-10
"""Value that is added to the diagonal of the scaled normal matrix, so that a change in a direction without information
has a small cost.
"""
INDEPENDENT: Final = 0.01
"""Fraction of the squares of a column, left after the other friction of the joint, below which its coefficient has a
prior. Measured on 600 joints (tests/regression/test_friction_priors.py): with random motions of 20 s in both directions
no offset has a prior, and no shape but root friction, which is nearly collinear at any speeds (more than 550 of 600);
if joints never turn back, every offset and |u| has one."""
REGULARISED_KINDS: Final[tuple[Kind, ...]] = ("viscous", "offset", "friction")
FRICTION_ORDER: Final[tuple[Kind, ...]] = ("coulomb", "viscous", "joint_side", "offset", "friction")
"""If two coefficients are collinear, the later kind has the prior; collinear shapes both have one."""
NONNEGATIVE_FRICTION: Final[tuple[Kind, ...]] = ("viscous", "coulomb", "joint_side")


@dataclass(frozen=True, slots=True, eq=False)
class FrictionLimits:
    """Conditions rows (k, p) @ beta >= 0 on the parameters of a regressor."""

    rows: Array

    def apply(self, matrix: Array, beta: Array, kept: NDArray[np.intp]) -> Array:
        """Return the values b within the limits that minimise (b - beta)^T matrix (b - beta).

        Parameters
        ----------
        matrix : numpy.ndarray
            Normal matrix (k, k) of the kept parameters.
        beta : numpy.ndarray
            Values (p,) that minimise the squared residuals.
        kept : numpy.ndarray
            Numbers (k,) of the parameters that may change; all others are zero.

        Returns
        -------
        numpy.ndarray
            Values (p,).
        """
        from scipy.linalg.lapack import dtrtrs
        from scipy.optimize import nnls

        if (self.rows @ beta >= 0).all():
            return beta
        G = self.rows[:, kept]
        G = G[G.any(axis=1)]
        scales = np.sqrt(np.maximum(np.diag(matrix), 1e-300))
        L = np.linalg.cholesky(matrix / np.outer(scales, scales) + RIDGE * np.eye(len(scales)))
        G = G / scales
        G /= np.linalg.norm(G, axis=1, keepdims=True)
        y = beta[kept] * scales
        # The multipliers minimise the dual, |L^-1 G^T m + L^T y|^2 over m >= 0.
        directions = dtrtrs(L, G.T, lower=1)[0]
        multipliers = nnls(directions, -L.T @ y, maxiter=30 * len(G))[0]
        limited = np.zeros_like(beta)
        limited[kept] = (y + dtrtrs(L, directions @ multipliers, lower=1, trans=1)[0]) / scales
        single = np.count_nonzero(self.rows, axis=1) == 1  # rounding may leave -1e-17 in place of zero
        alone = np.flatnonzero(self.rows[single].any(axis=0))
        limited[alone] = np.maximum(limited[alone], 0.0)
        return limited


@lru_cache(maxsize=8)
def friction_limits(regressor: Regressor) -> FrictionLimits:
    """Return the conditions on the parameters of a regressor.

    Combinations that the regressor does not have are not limited.
    """
    columns, matrix = parameters_behind(regressor)
    signed = [k for k, column in enumerate(columns) if column.kind in NONNEGATIVE_FRICTION]
    wanted = np.vstack([np.eye(len(columns))[signed], dissipation_rows(regressor.base, regressor.friction, columns)])
    rows = wanted @ np.linalg.pinv(matrix)
    rows[np.abs(rows) <= IMPLIED * np.abs(rows).max(axis=1, keepdims=True, initial=0.0)] = 0.0
    sizes = np.abs(wanted).max(axis=1, initial=0.0)
    return FrictionLimits(rows[np.abs(rows @ matrix - wanted).max(axis=1, initial=0.0) <= IMPLIED * sizes])


def parameters_behind(regressor: Regressor) -> tuple[tuple[Parameter, ...], Array]:
    """Return standard, drive and friction parameters x of a regressor, and B (p, size) with beta = B x."""
    base = regressor.base
    standard = standard_parameters(base.robot, with_drives=base.with_drives)
    added = regressor.parameters[base.count :]
    matrix = np.zeros((len(regressor.parameters), len(standard) + len(added)))
    matrix[: base.count, : len(standard)] = base.matrix
    matrix[base.count :, len(standard) :] = np.eye(len(added))
    return (*standard, *added), matrix


def dissipation_rows(base: BaseParameters, friction: Friction, columns: tuple[Parameter, ...]) -> Array:
    """Return rows (k, size) with rows @ x >= 0 for every drive with shapes.

    (fv and fc must be nonnegative in addition.)

    If a loop couples drives, only one of them has shapes.
    """
    number_of = {column.identity: k for k, column in enumerate(columns)}
    rows = []
    for drive in base.robot.drives if base.with_drives else ():
        labels = {shape: ("friction", drive.joint, friction_label(shape)) for shape in friction.shapes}
        numbers = {shape: number_of[label] for shape, label in labels.items() if label in number_of}
        loads = [shape for shape in LOAD_SHAPES if shape in numbers]
        for sign in (-1.0, 1.0) if loads else ():
            row = np.zeros(len(columns))
            row[[numbers[shape] for shape in loads]] = [sign if shape == "driving" else 1.0 for shape in loads]
            rows.append(row)
        shapes = tuple(shape for shape in numbers if shape not in LOAD_SHAPES)
        laws = tuple(map(friction.law, shapes))
        places = [number_of["viscous", drive.joint, "fv"], number_of["coulomb", drive.joint, "fc"]] if shapes else []
        ratio = drive.ratio if drive.side == "motor" else 1.0
        scales = np.array([ratio**2, abs(ratio), *(1.0 for _ in shapes)])
        for curve_row in _curve_rows(laws, _velocity_limit(base.robot, drive.joint)) if shapes else ():
            row = np.zeros(len(columns))
            row[[*places, *(numbers[shape] for shape in shapes)]] = scales * curve_row
            rows.append(row)
    return np.array(rows).reshape(-1, len(columns))


def _velocity_limit(robot: Robot, joint: str) -> float:
    limit = robot.joints[robot.joint_index(joint)].limits.velocity
    return max(limit, LEAST_LIMIT_RAD_S) if limit and np.isfinite(limit) else UNKNOWN_LIMIT_RAD_S


@lru_cache(maxsize=1024)
def _curve_rows(laws: tuple[FrictionLaw, ...], limit: float) -> Array:
    """Return conditions (rows, 2 + laws) on fv, fc and the coefficients of laws, all on the joint side.

    Above the speed of a Stribeck law, friction rises; a law of the user may decrease where its formula does.
    """
    speeds = limit * (np.arange(1, SPEED_COUNT + 1) / SPEED_COUNT) ** 2
    slowest = max((_rises_from(law, speeds) for law in laws), default=speeds[0])
    rising = np.append(slowest, speeds[speeds > slowest])
    rows = []
    for direction in (-1.0, 1.0):

        def torques(u: Array, s: float = direction) -> Array:
            """Return |torque| at speeds s u, u > 0, for unit coefficients."""
            columns = [s * law.values(s * u, np.full(len(u), s)) for law in laws]
            return np.column_stack([u, np.ones(len(u)), *columns])

        rows += [torques(speeds), torques(rising * (1 + SLOPE_STEP)) - torques(rising * (1 - SLOPE_STEP))]
    stack = np.vstack(rows)
    # The ends of a curve imply most conditions between them: tried first, they leave a quarter of the work.
    from_ends = np.concatenate([np.minimum(np.arange(len(part)), np.arange(len(part))[::-1]) for part in rows])
    return _without_implied(stack / np.abs(stack).max(axis=1, keepdims=True), np.argsort(from_ends, kind="stable"))


def _rises_from(law: FrictionLaw, speeds: Array) -> float:
    """Return the speed above which friction must rise with the speed, for both signs of the coefficient."""
    if law.name in FRICTION_LAWS:
        return law.constants["speed"] if law.name == "stribeck" else float(speeds[0])
    values = np.abs(law.values(speeds, np.ones(len(speeds))))
    falls = np.flatnonzero(np.diff(values) < 0)
    return float(speeds[0] if not len(falls) else speeds[falls[-1] + 1])


def _without_implied(rows: Array, order: NDArray[np.intp]) -> Array:
    """Return the rows that do not follow from the other rows and from nonnegative fv and fc.

    order  numbers of the rows; rows that probably imply other rows come first
    """
    from scipy.optimize import nnls

    scaled = np.vstack([rows / np.abs(rows).max(axis=0), np.eye(2, rows.shape[1])])
    limits, signs = IMPLIED * np.linalg.norm(scaled, axis=1), [len(rows), len(rows) + 1]

    def is_implied(k: int, others: list[int]) -> bool:
        return bool(nnls(scaled[signs + others].T, scaled[k])[1] <= limits[k])

    different = set(np.unique(rows, axis=0, return_index=True)[1].tolist())  # most laws are odd
    left: list[int] = []
    for k in filter(different.__contains__, order.tolist()):
        left += [] if is_implied(k, left) else [k]
    for k in list(left):
        others = [other for other in left if other != k]
        left = others if is_implied(k, others) else left
    return np.asarray(rows[sorted(left)])


def with_friction_priors(
    information: Information, weights: Array, parameters: Sequence[Parameter]
) -> tuple[Array, Array]:
    """Return R and z of all joints (see `Information.stacked`), extended by the priors of friction coefficients."""
    R, z = information.stacked(weights)
    if not parameters:
        return R, z
    precisions = prior_groups(tuple(parameters)).precisions((R.T @ R)[None])[0]
    rows = np.diag(np.sqrt(precisions))[precisions > 0]
    return np.vstack([R, rows]), np.concatenate([z, np.zeros(len(rows))])


@dataclass(frozen=True, slots=True, eq=False)
class PriorGroups:
    """Coefficients with a prior.

    Each group has the number of a coefficient, and the numbers of simpler friction of its joint.
    """

    groups: tuple[NDArray[np.intp], ...]

    def precisions(self, matrices: Array) -> Array:
        """Return the precisions (f, p) of the priors, computed from normal matrices (f, p, p) or larger ones."""
        precisions = np.zeros(matrices.shape[:2])
        for numbers in self.groups:
            precisions[:, numbers[:, 0]] = prior_precision(matrices[:, numbers[:, :, None], numbers[:, None]])
        return precisions

    def select(self, chosen: NDArray[np.bool_], kept: Sequence[int]) -> PriorGroups:
        """Return the groups whose coefficients are marked in `chosen` (p,), with only those other numbers that are
        kept.
        """
        return _group_by_size(
            [
                [k, *(other for other in others if other in kept)]
                for numbers in self.groups
                for k, *others in numbers.tolist()
                if chosen[k]
            ]
        )


def _group_by_size(groups: Sequence[list[int]]) -> PriorGroups:
    sizes = sorted({len(group) for group in groups} - {1})
    return PriorGroups(tuple(np.array([group for group in groups if len(group) == size]) for size in sizes))


@lru_cache(maxsize=64)
def prior_groups(parameters: tuple[Parameter, ...]) -> PriorGroups:
    """Return the coefficients with a prior, each with the simpler coefficients of the same joint."""
    own: dict[str, list[int]] = {}
    for k, parameter in enumerate(parameters):
        if parameter.kind in FRICTION_ORDER:
            own.setdefault(parameter.link_or_joint, []).append(k)
    groups = []
    for numbers in own.values():
        order = {k: FRICTION_ORDER.index(parameters[k].kind) for k in numbers}
        for k in numbers:
            others = [other for other in numbers if other != k and order[other] <= order[k]]
            if parameters[k].kind in REGULARISED_KINDS:
                groups.append([k, *others])
    return _group_by_size(groups)


def prior_precision(matrices: Array) -> Array:
    """Return the precisions (...,) of priors from normal matrices (..., k, k), in which the column of the coefficient
    comes first.
    """
    sizes = matrices[..., 0, 0]
    scales = np.sqrt(np.maximum(np.diagonal(matrices, axis1=-2, axis2=-1)[..., 1:], 1e-300))
    others = matrices[..., 1:, 1:] / (scales[..., :, None] * scales[..., None, :]) + RIDGE * np.eye(scales.shape[-1])
    mixed = matrices[..., 1:, :1] / scales[..., None]
    left = sizes - (mixed * np.linalg.solve(others, mixed)).sum(axis=(-2, -1))
    return np.asarray(np.maximum(0.0, INDEPENDENT * sizes - np.maximum(left, 0.0)))
