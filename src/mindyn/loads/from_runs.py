"""Drive gains and payloads from runs with and without a load.

A load adds Y_load(q, qd, qdd) phi_load to the torque, phi_load its ten parameters in the frame of the link it is on.
Measured signals s = tau / gain then obey: gain_j s_j = Y beta (unloaded), gain_j s_j = Y beta + Y_load phi (loaded).
With phi known, the equations determine the gains; with the gains known, they determine phi [Gautier & Briot 2014].

With physically consistent links, the fit of their parameters x, beta = B x, and the regression of every signal on its
torque alternate, from the gains of the unconstrained fit on. The rows of x exclude the direction that a change of the
gain would explain (variable projection [Kaufman 1975]); without this, the iteration converges slowly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np

from mindyn.algebra.deviations import NORMAL_95
from mindyn.algebra.inertia import mass_com_inertia, phi_about_origin
from mindyn.algebra.poses import Pose
from mindyn.algebra.values import Array, ShortRepr
from mindyn.errors import Code, InputError
from mindyn.estimators.least_squares import LeastSquares
from mindyn.feasibility.constrained_fit import FitProblem
from mindyn.feasibility.physical_space import space_of
from mindyn.feasibility.priors import build_prior
from mindyn.findings import Finding
from mindyn.kernels.model import compile_model
from mindyn.logs.loop_follower import all_joint_positions
from mindyn.logs.samples import Samples
from mindyn.notation import LINK_PARAMETER_UNITS, LINK_PARAMETERS, PARAMETERS_PER_LINK
from mindyn.parameters.parameter import Parameter
from mindyn.regression.accumulators import triangle_of
from mindyn.regression.information import Information, null_space, solve
from mindyn.regression.regressor import Regressor
from mindyn.regression.row_blocks import gather, require_joints
from mindyn.regression.rows import Rows
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


def payload_from_runs(robot: Robot, unloaded: Samples, loaded: Samples, *, link: str | None = None) -> Payload:
    """Fit robot and load together to two runs, and return the load.

    `link` carries the load; by default the last one (with loops: the one end that no loop holds).
    """
    carrier = find_load_carrier(robot, link)
    regressor = Regressor(robot)
    extended = regressor_with_load(regressor, carrier)
    without, with_load = gather(regressor, unloaded), gather(extended, loaded)
    unloaded_fit = LeastSquares().fit(Rows.of_information(regressor, without))
    p = regressor.count
    R, z = without.stacked(unloaded_fit.joint_weights)
    R2, z2 = with_load.stacked(unloaded_fit.joint_weights)
    rows = np.vstack([np.hstack([R, np.zeros((len(R), R2.shape[1] - p))]), R2])
    right = np.concatenate([z, z2])
    solution = solve(rows, right)
    degrees_of_freedom = sum(without.counts) + sum(with_load.counts) - solution.rank
    variance = float(((rows @ solution.beta - right) ** 2).sum()) / degrees_of_freedom
    is_open = np.any(np.abs(null_space(rows)[p:]) > 1e-6, axis=1).tolist()
    unidentifiable = tuple(name for name, undetermined in zip(LINK_PARAMETERS, is_open, strict=True) if undetermined)
    return Payload(carrier, solution.beta[p:], variance * solution.inverse[p:, p:], unidentifiable)


def drive_gains(
    robot: Robot,
    unloaded: Samples,
    loaded: Samples,
    phi: Array | None = None,
    *,
    mass: float | None = None,
    link: str | None = None,
) -> Gains:
    """Estimate drive gains from runs without and with a known load.

    Fits s_j = (Y beta + Y_load phi) / gain_j over both runs: only the torque of the load is known in N m. If only the
    mass is given, the other nine parameters of the load are further unknowns.

    Parameters
    ----------
    robot : Robot
        Robot of the logs.
    unloaded, loaded : Samples
        Runs without and with the load; `tau` contains the signals.
    phi : ndarray, shape (10,), optional
        Parameters of the load in the frame of its link.
    mass : float, optional
        Mass of the load, kg. Give either `phi` or `mass`.
    link : str, optional
        Link that carries the load; the last one by default.

    Returns
    -------
    Gains
        Gain of every joint and its standard deviation.

    Raises
    ------
    InputError
        If neither or both of `phi` and `mass` are given, or the runs do not determine the gains.
    """
    if (phi is None) == (mass is None):
        raise InputError(
            "drive_gains needs either phi or mass of the load",
            hint="give mass=2.8 (kg), for example",
            code=Code.MISSING_VALUE,
            subject="phi, mass",
        )
    carrier = find_load_carrier(robot, link)
    if mass is None:
        load = np.asarray(phi, dtype=np.float64)
    else:
        load = require_positive(mass, "mass", "the mass of the load in kg") * np.eye(PARAMETERS_PER_LINK)[0]
    if load.shape != (PARAMETERS_PER_LINK,):
        raise InputError(
            f"phi must have shape ({PARAMETERS_PER_LINK},), got {load.shape}", code=Code.WRONG_SHAPE, subject="phi"
        )
    if not (isinstance(unloaded, Samples) and isinstance(loaded, Samples)):
        raise InputError(
            "drive_gains needs two runs as Samples",
            hint="convert logs by mindyn.condition(robot, log).samples",
            code=Code.WRONG_TYPE,
            subject="unloaded, loaded",
        )
    Y = _load_regressor(robot, loaded, carrier)
    known = np.asarray(Y @ load)
    if phi is None:
        return _solve_gains(robot, unloaded, loaded, known, Y[:, :, 1:])
    unloaded_joints = [
        name for name, size in zip(robot.primary_names, np.abs(known).max(axis=0), strict=True) if size < 1e-9
    ]
    if unloaded_joints:
        raise InputError(
            f"the load exerts no torque on joint {', '.join(unloaded_joints)}, so its gain is not identifiable",
            code=Code.NOT_IDENTIFIABLE,
            subject=", ".join(unloaded_joints),
        )
    return _solve_gains(robot, unloaded, loaded, known, np.zeros((*known.shape, 0)))


def _solve_gains(robot: Robot, unloaded: Samples, loaded: Samples, known: Array, open_load: Array) -> Gains:
    """Return gains for which signals and torques agree, with noise in the signals.

    Minimises sum_j |s_j - h_j (Y_j beta + L_j x + known_j)|^2 / var_j over beta, x and h = 1 / gain by Gauss-Newton,
    from the solution of the linear equations. In these the signals are columns, and their noise makes the gains too
    small. `open_load` L (N, n, k) are the columns of unknown load parameters.
    """
    regressor = Regressor(robot)
    n, p, k = regressor.joint_count, regressor.count, open_load.shape[2]
    factors: list[tuple[int, Array]] = []
    none = np.zeros((len(unloaded), n, k))
    for samples, torque, load in ((unloaded, np.zeros_like(unloaded.tau), none), (loaded, known, open_load)):
        require_joints(regressor, samples)
        parts = regressor.parts(regressor.positions(samples), samples.qd, samples.qdd)
        for joint, arrays in enumerate(parts):
            columns = np.zeros((len(samples), p + k + 2))
            columns[:, regressor.columns[joint]] = np.concatenate(arrays, axis=1)
            columns[:, p : p + k] = load[:, joint]
            columns[:, p + k] = torque[:, joint]
            columns[:, p + k + 1] = samples.tau[:, joint]
            factors.append((joint, triangle_of(columns)))
    x, h = _fit_linear_gains(robot, factors, n)
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
            hint="record a motion that rotates the load about all axes, or give all ten parameters phi of the load",
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


def load_torque(robot: Robot, samples: Samples, link: str, phi: Array) -> Array:
    """Return the torque (N, n) of the load."""
    return np.asarray(_load_regressor(robot, samples, link) @ phi)


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


MAX_GAIN_ROUNDS: Final = 30
GAIN_TOLERANCE: Final = 1e-6
"""Largest number of rounds, and the relative change of the gains at which they end."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ConsistentGains(ShortRepr):
    """Gains with the deviations of the unconstrained fit, and physical parameters.

    Attributes
    ----------
    gains : Gains
    labels : tuple of str
        Names of the standard and drive parameters x.
    values : ndarray
        Values of x.
    """

    gains: Gains
    labels: tuple[str, ...]
    values: Array


def consistent_drive_gains(
    robot: Robot,
    unloaded: Samples,
    loaded: Samples,
    phi: Array,
    *,
    link: str | None = None,
    prior: Robot | Literal["robot"] | None = None,
    prior_weight: float = 0.0,
) -> ConsistentGains:
    """Estimate drive gains from a known load, with physically consistent links and drives.

    Parameters
    ----------
    robot : Robot
        Robot of the logs.
    unloaded, loaded : Samples
        Runs without and with the load; `tau` contains the signals.
    phi : ndarray, shape (10,)
        Parameters of the load in the frame of its link.
    link : str, optional
        Link that carries the load; the last one by default.
    prior : Robot, "robot" or None
        Prior as in `PhysicallyConsistent`.
    prior_weight : float
        Weight of the prior relative to half the mean squared residual in (N m)^2.

    Returns
    -------
    ConsistentGains
        Gains with standard deviations, and the parameters of links and drives.

    Raises
    ------
    InputError
        If the runs do not determine the gains.
    """
    unconstrained = drive_gains(robot, unloaded, loaded, phi, link=link)  # raises if the gains are not identifiable
    regressor = Regressor(robot)
    space = space_of(regressor)
    carrier = find_load_carrier(robot, link)
    runs = [
        (unloaded, np.zeros_like(unloaded.tau)),
        (loaded, load_torque(robot, loaded, carrier, np.asarray(phi, dtype=np.float64))),
    ]
    problem, factors = FitProblem(space, build_prior(robot, prior)), _factors(regressor, runs)
    gains, beta = unconstrained.values, None
    for _ in range(MAX_GAIN_ROUNDS):
        # Equal weights: weights from residuals would favour small gains, which make residuals small.
        information = _information(regressor, factors, gains, beta, len(unloaded) + len(loaded))
        x = problem.solve(information, np.ones(regressor.joint_count), prior_weight)
        beta, before = space.matrix @ x, gains
        gains = np.array([_gain(R, beta[c]) for R, c in zip(factors, regressor.columns, strict=True)])
        if np.abs(gains / before - 1).max() < GAIN_TOLERANCE:
            break
    return ConsistentGains(Gains(robot.primary_names, gains, unconstrained.deviations), space.labels, x)


def _gain(R: Array, beta: Array) -> float:
    """Return 1 / h that minimises |s - h T|^2, T the torque of model and load."""
    torque = _torque(R, beta)
    return float(torque @ torque / (R[:, -1] @ torque))


def _torque(R: Array, beta: Array) -> Array:
    return np.asarray(R[:, :-2] @ beta + R[:, -2])


def _factors(regressor: Regressor, runs: list[tuple[Samples, Array]]) -> list[Array]:
    """Return R factors of [Y_j | load torque | s_j] of both runs."""
    rows: list[list[Array]] = [[] for _ in range(regressor.joint_count)]
    for samples, torque in runs:
        q = regressor.positions(samples)
        directions = regressor.directions(q, samples.qd, samples.segments, samples.rate_hz)
        parts = regressor.parts(q, samples.qd, samples.qdd, directions)
        for j, arrays in enumerate(parts):
            rows[j].append(np.column_stack([*arrays, torque[:, j], samples.tau[:, j]]))
    return [triangle_of(np.vstack(blocks)) for blocks in rows]


def _information(
    regressor: Regressor, factors: list[Array], gains: Array, beta: Array | None, rows: int
) -> Information:
    """Return Y_j beta = gain_j s_j - load torque, without the direction of the torque of the previous values."""
    blocks = [np.column_stack([R[:, :-2], g * R[:, -1] - R[:, -2]]) for R, g in zip(factors, gains, strict=True)]
    if beta is not None:
        torques = [_torque(R, beta[columns]) for R, columns in zip(factors, regressor.columns, strict=True)]
        blocks = [block - np.outer(T, T @ block) / (T @ T) for block, T in zip(blocks, torques, strict=True)]
    return Information(
        regressor.joint_names,
        regressor.names,
        regressor.columns,
        tuple(triangle_of(block) for block in blocks),
        (rows,) * len(factors),
    )
