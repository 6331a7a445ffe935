"""Drive gains and payloads from runs with and without a load.

A load adds Y_load(q, qd, qdd) phi_load to the torque, phi_load its ten parameters in the frame of the link it is on.
Measured signals s = tau / gain then obey: gain_j s_j = Y beta (unloaded), gain_j s_j = Y beta + Y_load phi (loaded).
With phi known the equations tell the gains; with gains known they tell phi [Gautier & Briot 2014].
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from mindyn.algebra.deviations import NORMAL_95
from mindyn.algebra.inertia import mass_com_inertia, phi_about_origin
from mindyn.algebra.poses import Pose
from mindyn.algebra.values import Array
from mindyn.errors import InputError
from mindyn.estimators.least_squares import LeastSquares
from mindyn.findings import Finding
from mindyn.kernels.model import compile_model
from mindyn.logs.loop_follower import all_joint_positions
from mindyn.logs.samples import Samples
from mindyn.notation import LINK_PARAMETER_UNITS, LINK_PARAMETERS, PARAMETERS_PER_LINK
from mindyn.parameters.parameter import Parameter
from mindyn.regression.information import null_space, solve
from mindyn.regression.regressor import Regressor
from mindyn.regression.row_blocks import gather, require_joints
from mindyn.regression.rows import Rows
from mindyn.regression.triangles import triangle_of
from mindyn.robots.edits import find_load_carrier
from mindyn.robots.robot import Robot

MAX_GAIN_STEPS: Final = 100
GAIN_CHANGE_TOLERANCE: Final = 1e-10
"""Iterations at most, and the relative change of every gain at which they end."""


MAX_LOAD_HALF_WIDTHS: Final = 3.0
"""Half-widths of 95 % intervals within which the nearest load that can exist must lie of what a fit gave: of ten
parameters that are right the chi-square distance is below 2.8 of them in 999 of 1000 runs."""


@dataclass(frozen=True, slots=True, eq=False)
class Gains:
    """N m for each unit of the signal, joint by joint, with standard deviations."""

    joint_names: tuple[str, ...]
    values: Array
    deviations: Array


@dataclass(frozen=True, slots=True, eq=False)
class Payload:
    """The ten parameters of a load in its link's frame, their covariance, and which of them the runs cannot tell.

    phi            of a load that can exist; `unconstrained` what the fit itself gave
    covariance     (10, 10) of the latter
    factor         half-width of a 95 % interval in standard deviations
    """

    link: str
    phi: Array
    covariance: Array
    unidentifiable: tuple[str, ...]
    factor: float = NORMAL_95
    findings: tuple[Finding, ...] = ()
    unconstrained: Array | None = None

    @property
    def mass(self) -> float:
        """kg."""
        return float(self.phi[0])

    @property
    def centre(self) -> Array:
        """(3,) centre of mass in the link's frame, m."""
        return np.asarray(self.phi[1:4] / self.phi[0])

    @property
    def inertia_about_centre(self) -> Array:
        """(3, 3) kg m^2, axes of the link's frame."""
        return mass_com_inertia(self.phi)[2]

    @property
    def half_widths(self) -> Array:
        """(10,) of the 95 % intervals, about what the fit gave."""
        return np.asarray(self.factor * np.sqrt(np.maximum(np.diag(self.covariance), 0.0)))

    @property
    def mass_interval(self) -> tuple[float, float]:
        """95 % interval of the mass, kg."""
        middle = float((self.phi if self.unconstrained is None else self.unconstrained)[0])
        return middle - float(self.half_widths[0]), middle + float(self.half_widths[0])

    @property
    def is_feasible(self) -> bool:
        """Whether a load that can exist lies near what the fit gave: within `MAX_LOAD_HALF_WIDTHS` half-widths of its intervals."""
        if self.unconstrained is None:
            return True
        scale = np.sqrt(np.maximum(np.diag(self.covariance), 1e-300))
        values, vectors = np.linalg.eigh(self.covariance / np.outer(scale, scale))
        moved = vectors.T @ ((self.phi - self.unconstrained) / scale) / np.sqrt(np.maximum(values, 1e-9 * values.max()))
        return bool(np.linalg.norm(moved) <= MAX_LOAD_HALF_WIDTHS * self.factor)

    @property
    def centre_half_widths(self) -> Array:
        """(3,) of the 95 % intervals of the centre, m, by c = mc / m."""
        slopes = np.column_stack([-self.centre, np.eye(3)]) / self.mass
        return np.asarray(self.factor * np.sqrt(np.diag(slopes @ self.covariance[:4, :4] @ slopes.T)))

    def in_frame(self, pose: Pose, name: str) -> Payload:
        """The load in the axes of a frame that has this pose in the link's; its spread is left out."""
        inverse = pose.inverse()
        moved = inverse.apply(self.centre)
        turned = inverse.rotation @ self.inertia_about_centre @ inverse.rotation.T
        phi = phi_about_origin(self.mass, moved, turned)
        return replace(self, link=name, phi=phi, covariance=np.full((10, 10), np.nan), unconstrained=None)


def payload_from_runs(robot: Robot, unloaded: Samples, loaded: Samples, *, link: str | None = None) -> Payload:
    """The load that explains the difference between two runs; robot and load are fitted together.

    link  that carries the load; the last one if left out (with loops: the one end that no loop holds)
    """
    carrier = find_load_carrier(robot, link)
    regressor = Regressor(robot)
    extended = regressor_with_load(regressor, carrier)
    without, with_load = gather(regressor, unloaded), gather(extended, loaded)
    plain = LeastSquares().fit(Rows.of_information(regressor, without))
    p = regressor.count
    R, z = without.stacked(plain.joint_weights)
    R2, z2 = with_load.stacked(plain.joint_weights)
    rows = np.vstack([np.hstack([R, np.zeros((len(R), R2.shape[1] - p))]), R2])
    right = np.concatenate([z, z2])
    found = solve(rows, right)
    freedom = sum(without.counts) + sum(with_load.counts) - found.rank
    variance = float(((rows @ found.beta - right) ** 2).sum()) / freedom
    open_ones = np.any(np.abs(null_space(rows)[p:]) > 1e-6, axis=1).tolist()
    untold = tuple(name for name, is_open in zip(LINK_PARAMETERS, open_ones, strict=True) if is_open)
    return Payload(carrier, found.beta[p:], variance * found.inverse[p:, p:], untold)


def drive_gains(
    robot: Robot,
    unloaded: Samples,
    loaded: Samples,
    phi: Array | None = None,
    *,
    mass: float | None = None,
    link: str | None = None,
) -> Gains:
    """Gains of the torque signals in `tau` of both runs, from a load of known parameters phi (10,), or of known mass.

    Fits s_j = (Y beta + Y_load phi) / gain_j over both runs: the load's torque is the only one known in N m. With the
    mass alone, the other nine parameters of the load are further unknowns.
    """
    if (phi is None) == (mass is None):
        raise InputError("drive_gains takes the ten parameters phi of the load, or its mass", hint="mass=2.8")
    carrier = find_load_carrier(robot, link)
    if mass is not None and not (np.isfinite(mass) and mass > 0):
        raise InputError(f"the mass of a load is a positive number of kg, got {mass!r}")
    alone = np.zeros(PARAMETERS_PER_LINK)
    alone[0] = 0.0 if mass is None else mass
    stated = alone if phi is None else np.asarray(phi, dtype=np.float64)
    if stated.shape != (PARAMETERS_PER_LINK,):
        raise InputError(f"phi has shape {stated.shape}, but ({PARAMETERS_PER_LINK},) is needed")
    if not (isinstance(unloaded, Samples) and isinstance(loaded, Samples)):
        raise InputError("drive_gains takes two runs as Samples", hint="mindyn.condition(log, robot).samples")
    known = load_torque(robot, loaded, carrier, stated)
    if phi is None:
        Y = compile_model(robot).standard_regressor(all_joint_positions(robot, loaded), loaded.qd, loaded.qdd)
        return _solve_gains(robot, unloaded, loaded, known, Y[:, :, load_columns(robot, carrier)][:, :, 1:])
    blind = [name for name, size in zip(robot.primary_names, np.abs(known).max(axis=0), strict=True) if size < 1e-9]
    if blind:
        raise InputError(f"the load puts no torque on joint {', '.join(blind)}: its gain cannot be told")
    return _solve_gains(robot, unloaded, loaded, known, np.zeros((*known.shape, 0)))


def _solve_gains(robot: Robot, unloaded: Samples, loaded: Samples, known: Array, open_load: Array) -> Gains:
    """Gains by which signals and torques agree; noise is that of the signals.

    Minimises sum_j |s_j - h_j (Y_j beta + L_j x + known_j)|^2 / var_j over beta, x and h = 1 / gain, by Gauss-Newton
    from the solution of the linear equations, in which the signals stand as columns and their noise makes gains small.

    open_load  L (N, n, k): columns of what is not known of the load
    """
    regressor = Regressor(robot)
    n, p, k = regressor.joint_count, regressor.count, open_load.shape[2]
    factors: list[tuple[int, Array]] = []
    none = np.zeros((len(unloaded), n, k))
    for samples, torque, load in ((unloaded, np.zeros_like(unloaded.tau), none), (loaded, known, open_load)):
        require_joints(regressor, samples)
        parts = regressor.parts(regressor.positions(samples), samples.qd, samples.qdd)
        for joint, arrays in enumerate(parts):
            whole = np.zeros((len(samples), p + k + 2))
            whole[:, regressor.columns[joint]] = np.concatenate(arrays, axis=1)
            whole[:, p : p + k] = load[:, joint]
            whole[:, p + k] = torque[:, joint]
            whole[:, p + k + 1] = samples.tau[:, joint]
            factors.append((joint, triangle_of(whole)))
    x, h = _fit_linear_gains(robot, factors, n)
    return _refine_gains(robot, factors, x, h, len(unloaded) + len(loaded))


def _fit_linear_gains(robot: Robot, factors: Sequence[tuple[int, Array]], n: int) -> tuple[Array, Array]:
    """Values of beta and x, and 1 / gain, of Y beta + L x - s gain = - known; refused where gains stay open."""
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
        names = [name for name, one in zip(robot.primary_names, open_gains, strict=True) if one]
        raise InputError(
            f"the runs do not tell the gain of joint {', '.join(names)}",
            hint="a motion in which the load turns about all axes, or all ten parameters of the load",
        )
    found = solve(stacked, np.concatenate(right)).beta
    return found[:width], np.asarray(1 / found[width:])


def _refine_gains(robot: Robot, factors: Sequence[tuple[int, Array]], x: Array, h: Array, rows: int) -> Gains:
    """Gauss and Newton's iteration; weights by the residuals of every joint, gains about their first values."""
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
        J = np.vstack([w * one for w, one in zip(scaled, slopes, strict=True)])
        step = solve(J, np.concatenate([w * one for w, one in zip(scaled, residuals, strict=True)]))
        x, h = x + step.beta[:width], h + step.beta[width:]
        change = float(np.abs(step.beta[width:] / h).max())
        if change < GAIN_CHANGE_TOLERANCE:
            break
    if not (change < 1e-3 and (h > 0).all()):
        raise InputError(
            "the gains did not settle: the runs hardly tell them",
            hint="check the load's mass and link, or record a motion in which the load matters more",
        )
    gains = 1 / h
    deviations = np.sqrt(np.maximum(np.diag(step.inverse)[width:], 0.0)) * gains**2
    return Gains(robot.primary_names, np.asarray(gains), np.asarray(deviations))


def load_columns(robot: Robot, link: str) -> slice:
    """Places of a link's ten parameters among all standard ones: those that a load on it changes."""
    first = PARAMETERS_PER_LINK * robot.link_index(link)
    return slice(first, first + PARAMETERS_PER_LINK)


def load_torque(robot: Robot, samples: Samples, link: str, phi: Array) -> Array:
    """(N, n) torque of the load."""
    Y = compile_model(robot).standard_regressor(all_joint_positions(robot, samples), samples.qd, samples.qdd)
    return np.asarray(Y[:, :, load_columns(robot, link)] @ phi)


def regressor_with_load(plain: Regressor, link: str, phi: Array | None = None) -> Regressor:
    """The columns of a regressor and, for every joint, ten more of a load on a link.

    phi  (10,) of the load, for friction that grows with what the joints carry; none where it is left out
    """
    robot = plain.robot
    model, columns = compile_model(robot), load_columns(robot, link)
    return _LoadRegressor(plain, link, phi, lambda q, qd, qdd: model.standard_regressor(q, qd, qdd)[:, :, columns])


class _LoadRegressor(Regressor):
    """A regressor whose load columns act on every joint at once."""

    def __init__(
        self, plain: Regressor, link: str, phi: Array | None, columns: Callable[[Array, Array, Array], Array]
    ) -> None:
        super().__init__(plain.robot, plain.friction, plain.base, plain.kernel)
        self._load_part, self._phi = columns, phi
        first = self.count
        parts = zip(LINK_PARAMETERS, LINK_PARAMETER_UNITS, strict=True)
        added = tuple(Parameter(f"load_{name}", "link", link, unit, name) for name, unit in parts)
        self.parameters = (*self.parameters, *added)
        self.names = (*self.names, *(one.name for one in added))
        extra = np.arange(first, first + PARAMETERS_PER_LINK)
        self.columns = tuple(np.concatenate([columns, extra]) for columns in self.columns)

    def parts(
        self, q: Array, qd: Array, qdd: Array, directions: Array | None = None, out: Array | None = None
    ) -> list[list[Array]]:
        """The robot's columns, then the load's."""
        found = super().parts(q, qd, qdd, directions, out)
        Y = self._load_part(q, qd, qdd)
        for joint, arrays in enumerate(found):
            arrays.append(Y[:, joint])
        return found

    def carried_torque(self, q: Array, qd: Array, qdd: Array) -> Array | None:
        """The torque of the load, where it is known."""
        return None if self._phi is None else np.asarray(self._load_part(q, qd, qdd) @ self._phi)
