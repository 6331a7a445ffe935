"""Loads on a link: their parameters, their regressor, and drive gains from a run with a load of known mass.

A load adds Y_load(q, qd, qdd) phi_load to the torque, phi_load its ten parameters in the frame of the link it is on.
Measured signals s = tau / gain then obey: gain_j s_j = Y beta (unloaded), gain_j s_j = Y beta + Y_load phi (loaded)
[Gautier & Briot 2014].
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from mindyn.algebra.deviations import NORMAL_95
from mindyn.algebra.inertia import mass_com_inertia, phi_about_origin
from mindyn.algebra.poses import Pose
from mindyn.algebra.values import Array, ShortRepr
from mindyn.errors import Code, InputError
from mindyn.findings import Finding
from mindyn.kernels.model import compile_model
from mindyn.logs.loop_follower import all_joint_positions
from mindyn.logs.samples import Samples
from mindyn.notation import LINK_PARAMETER_UNITS, LINK_PARAMETERS, PARAMETERS_PER_LINK
from mindyn.parameters.parameter import Parameter
from mindyn.regression.accumulators import triangle_of
from mindyn.regression.information import null_space, solve
from mindyn.regression.regressor import Regressor
from mindyn.regression.row_blocks import require_joints
from mindyn.robots.edits import find_load_carrier
from mindyn.robots.robot import Robot
from mindyn.simulation.inputs import require_positive

MAX_GAIN_STEPS: Final = 100
GAIN_CHANGE_TOLERANCE: Final = 1e-10
"""Largest number of iterations, and the relative change of every gain at which they end."""


MAX_LOAD_HALF_WIDTHS: Final = 3.0
"""Largest distance of the nearest feasible load from the fit, in half-widths of 95 % intervals: for ten correct
parameters, the chi-square distance is below 2.8 of them in 999 of 1000 runs."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Gains(ShortRepr):
    """Drive gains with standard deviations.

    Attributes
    ----------
    joint_names : tuple of str
    values : ndarray, shape (n,)
        N m (or N) per unit of the signal.
    deviations : ndarray, shape (n,)
    """

    joint_names: tuple[str, ...]
    values: Array
    deviations: Array


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Payload(ShortRepr):
    """Ten parameters of a load in the frame of its link.

    Attributes
    ----------
    link : str
    phi : ndarray, shape (10,)
        Parameters of the nearest feasible load.
    covariance : ndarray, shape (10, 10)
        Covariance of the unconstrained parameters.
    unidentifiable : tuple of str
        Parameters that the runs do not determine.
    factor : float
        Half-width of a 95 % interval in standard deviations.
    findings : tuple of Finding
    unconstrained : ndarray, shape (10,), optional
        Parameters of the fit itself.
    gain_deviation : float
        Relative standard deviation of the torque scale that the covariance contains.
    """

    link: str
    phi: Array
    covariance: Array
    unidentifiable: tuple[str, ...]
    factor: float = NORMAL_95
    findings: tuple[Finding, ...] = ()
    unconstrained: Array | None = None
    gain_deviation: float = 0.0

    @property
    def mass(self) -> float:
        """Return the mass, kg."""
        return float(self.phi[0])

    @property
    def centre(self) -> Array:
        """Return the centre of mass (3,) in the link frame, m."""
        return np.asarray(self.phi[1:4] / self.phi[0])

    @property
    def inertia_about_centre(self) -> Array:
        """Return the inertia tensor (3, 3) about the centre of mass, axes of the link frame, kg m^2."""
        return mass_com_inertia(self.phi)[2]

    @property
    def half_widths(self) -> Array:
        """Return the half-widths (10,) of the 95 % intervals about the unconstrained parameters."""
        return np.asarray(self.factor * np.sqrt(np.maximum(np.diag(self.covariance), 0.0)))

    @property
    def mass_interval(self) -> tuple[float, float]:
        """Return the 95 % interval of the mass, kg."""
        middle = float((self.phi if self.unconstrained is None else self.unconstrained)[0])
        return middle - float(self.half_widths[0]), middle + float(self.half_widths[0])

    @property
    def is_feasible(self) -> bool:
        """Return whether a feasible load lies within `MAX_LOAD_HALF_WIDTHS` half-widths of the fit."""
        if self.unconstrained is None:
            return True
        scale = np.sqrt(np.maximum(np.diag(self.covariance), 1e-300))
        values, vectors = np.linalg.eigh(self.covariance / np.outer(scale, scale))
        moved = vectors.T @ ((self.phi - self.unconstrained) / scale) / np.sqrt(np.maximum(values, 1e-9 * values.max()))
        return bool(np.linalg.norm(moved) <= MAX_LOAD_HALF_WIDTHS * self.factor)

    @property
    def centre_half_widths(self) -> Array:
        """Return the half-widths (3,) of the 95 % intervals of the centre, m, by c = mc / m."""
        slopes = np.column_stack([-self.centre, np.eye(3)]) / self.mass
        return np.asarray(self.factor * np.sqrt(np.diag(slopes @ self.covariance[:4, :4] @ slopes.T)))

    def in_frame(self, pose: Pose, name: str) -> Payload:
        """Return the load in the axes of a frame with this pose in the link frame, without its covariance."""
        inverse = pose.inverse()
        centre = inverse.apply(self.centre)
        inertia = inverse.rotation @ self.inertia_about_centre @ inverse.rotation.T
        phi = phi_about_origin(self.mass, centre, inertia)
        return replace(self, link=name, phi=phi, covariance=np.full((10, 10), np.nan), unconstrained=None)


def drive_gains(robot: Robot, unloaded: Samples, loaded: Samples, *, mass: float, link: str | None = None) -> Gains:
    """Estimate drive gains from runs without and with a load of known mass, kg, on a link (by default the last one).

    Minimises sum_j |s_j - h_j (Y_j beta + L_j x + known_j)|^2 / var_j over beta, x and h = 1 / gain by Gauss-Newton,
    from the solution of the linear equations. In these the signals s, `tau` of the runs, are columns, and their noise
    makes the gains too small. L are the columns of the nine unknown parameters x of the load.
    """
    mass = require_positive(mass, "mass", "the mass of the load in kg")
    regressor = Regressor(robot)
    p, carried = regressor.count, PARAMETERS_PER_LINK - 1
    load = _load_regressor(robot, loaded, find_load_carrier(robot, link))
    factors: list[tuple[int, Array]] = []
    for samples, L in ((unloaded, np.zeros((*unloaded.tau.shape, PARAMETERS_PER_LINK))), (loaded, load)):
        require_joints(regressor, samples)
        parts = regressor.parts(regressor.positions(samples), samples.qd, samples.qdd)
        for joint, arrays in enumerate(parts):
            columns = np.zeros((len(samples), p + carried + 2))
            columns[:, regressor.columns[joint]] = np.concatenate(arrays, axis=1)
            columns[:, p:-2], columns[:, -2], columns[:, -1] = (
                L[:, joint, 1:],
                mass * L[:, joint, 0],
                samples.tau[:, joint],
            )
            factors.append((joint, triangle_of(columns)))
    x, h = _fit_linear_gains(robot, factors, regressor.joint_count)
    return _refine_gains(robot, factors, x, h, len(unloaded) + len(loaded))


def _fit_linear_gains(robot: Robot, factors: Sequence[tuple[int, Array]], n: int) -> tuple[Array, Array]:
    """Return beta and x, and 1 / gain, of Y beta + L x - s gain = - known; raise `InputError` if gains stay open."""
    width = factors[0][1].shape[1] - 2
    rows, right = [], []
    for joint, R in factors:
        block = np.zeros((len(R), width + n))
        block[:, :width] = R[:, :width]
        block[:, width + joint] = -R[:, -1]
        rows.append(block)
        right.append(-R[:, -2])
    stacked = np.vstack(rows)
    open_gains = np.any(np.abs(null_space(stacked)[width:]) > 1e-6, axis=1)
    if open_gains.any():
        names = [name for name, is_open in zip(robot.primary_names, open_gains, strict=True) if is_open]
        raise InputError(
            f"the runs do not determine the gain of joint {', '.join(names)}",
            hint="record a motion that rotates the load about all axes",
            code=Code.NOT_IDENTIFIABLE,
            subject=", ".join(names),
        )
    solution = solve(stacked, np.concatenate(right)).beta
    return solution[:width], np.asarray(1 / solution[width:])


def _refine_gains(robot: Robot, factors: Sequence[tuple[int, Array]], x: Array, h: Array, rows: int) -> Gains:
    """Return gains by Gauss-Newton iteration, with weights from the residuals of each joint."""
    n, width = len(h), len(x)
    x, h = x.copy(), np.where(h > 0, h, np.median(h[h > 0]) if (h > 0).any() else 1.0)
    change = np.inf
    for _ in range(MAX_GAIN_STEPS):
        residuals, slopes = [], []
        for joint, R in factors:
            torque = R[:, :width] @ x + R[:, -2]
            J = np.zeros((len(R), width + n))
            J[:, :width], J[:, width + joint] = h[joint] * R[:, :width], torque
            residuals.append(R[:, -1] - h[joint] * torque)
            slopes.append(J)
        squares = np.zeros(n)
        for (joint, _), e in zip(factors, residuals, strict=True):
            squares[joint] += e @ e
        weights = 1 / np.sqrt(np.maximum(squares / rows, 1e-30 * max(float(squares.max()), 1e-300)))
        scaled = [weights[joint] for joint, _ in factors]
        J = np.vstack([w * block for w, block in zip(scaled, slopes, strict=True)])
        step = solve(J, np.concatenate([w * e for w, e in zip(scaled, residuals, strict=True)]))
        x, h = x + step.beta[:width], h + step.beta[width:]
        change = float(np.abs(step.beta[width:] / h).max())
        if change < GAIN_CHANGE_TOLERANCE:
            break
    if not (change < 1e-3 and (h > 0).all()):
        raise InputError(
            "the gains did not converge: the runs hardly determine them",
            hint="check the mass and the link of the load, or record a motion in which the load exerts larger torques",
            code=Code.NOT_CONVERGED,
            subject="gains",
        )
    gains = 1 / h
    deviations = np.sqrt(np.maximum(np.diag(step.inverse)[width:], 0.0)) * gains**2
    return Gains(robot.primary_names, np.asarray(gains), np.asarray(deviations))


def load_columns(robot: Robot, link: str) -> slice:
    """Return the columns of the ten parameters of a link among all standard parameters."""
    first = PARAMETERS_PER_LINK * robot.link_index(link)
    return slice(first, first + PARAMETERS_PER_LINK)


def _load_regressor(robot: Robot, samples: Samples, link: str) -> Array:
    """Return the columns (N, n, 10) of a load."""
    Y = compile_model(robot).standard_regressor(all_joint_positions(robot, samples), samples.qd, samples.qdd)
    return Y[:, :, load_columns(robot, link)]


def regressor_with_load(plain: Regressor, link: str, phi: Array | None = None) -> Regressor:
    """Return a regressor with ten more columns for every joint, of a load on a link.

    `phi` (10,) of the load is needed for friction that grows with the load of the joints.
    """
    robot = plain.robot
    model, columns = compile_model(robot), load_columns(robot, link)
    return _LoadRegressor(plain, link, phi, lambda q, qd, qdd: model.standard_regressor(q, qd, qdd)[:, :, columns])


class _LoadRegressor(Regressor):
    """Regressor with load columns that act on every joint."""

    def __init__(
        self, plain: Regressor, link: str, phi: Array | None, columns: Callable[[Array, Array, Array], Array]
    ) -> None:
        super().__init__(plain.robot, plain.friction, plain.base, plain.kernel)
        self._load_part, self._phi = columns, phi
        first = self.count
        parts = zip(LINK_PARAMETERS, LINK_PARAMETER_UNITS, strict=True)
        added = tuple(Parameter(f"load_{name}", "link", link, unit, name) for name, unit in parts)
        self.parameters = (*self.parameters, *added)
        self.names = (*self.names, *(parameter.name for parameter in added))
        extra = np.arange(first, first + PARAMETERS_PER_LINK)
        self.columns = tuple(np.concatenate([columns, extra]) for columns in self.columns)

    def parts(
        self, q: Array, qd: Array, qdd: Array, directions: Array | None = None, out: Array | None = None
    ) -> list[list[Array]]:
        """Return the columns of the robot, then those of the load."""
        columns = super().parts(q, qd, qdd, directions, out)
        Y = self._load_part(q, qd, qdd)
        for joint, arrays in enumerate(columns):
            arrays.append(Y[:, joint])
        return columns

    def carried_torque(self, q: Array, qd: Array, qdd: Array) -> Array | None:
        """Return the torque of the load, or None if the load is unknown."""
        return None if self._phi is None else np.asarray(self._load_part(q, qd, qdd) @ self._phi)
