"""`TotalLeastSquares`: errors in the regressor as well as in the torque.

With Z = [Y | tau] and C the mean of dZ^T dZ of its errors, known up to a factor, x = (beta, -1) minimises |Z x|^2 / x^T
C x: errors increase Z^T Z by C on average, and Z^T Z without them annihilates x. In coordinates in which C is the
identity, x is the right singular vector of Z of the least singular value; directions without errors are solved for by
QR first ("mixed" total least squares) [Van Huffel & Vandewalle 1991, sections 3.5-3.6 and 10.3].

Noise of the measurements, and the errors that it causes in the columns of a regressor.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mindyn.algebra.values import Array
from mindyn.errors import Code, InputError
from mindyn.estimators.estimate import Estimate, Estimator, Needs
from mindyn.estimators.estimate_parts import describe_status, infinite_variances
from mindyn.estimators.least_squares import LeastSquares, Weights, noise_covariance, sandwich
from mindyn.logs.samples import Samples
from mindyn.regression.information import Information, identifiable_directions, solve
from mindyn.regression.regressor import Regressor
from mindyn.regression.row_blocks import blocks
from mindyn.regression.rows import Rows
from mindyn.regression.settings import EquationSettings
from mindyn.robots.robot import Robot


@dataclass(frozen=True, slots=True)
class MeasurementNoise:
    """Standard deviations of independent measurement errors.

    Parameters
    ----------
    position, velocity, acceleration : float or tuple of n float
        In rad or m, per s and per s^2; one number for all joints, or one per joint.
    torque : float or tuple of n float
        In N m or N; must be positive.
    """

    position: float | tuple[float, ...] = 0.0
    velocity: float | tuple[float, ...] = 0.0
    acceleration: float | tuple[float, ...] = 0.0
    torque: float | tuple[float, ...] = 0.0

    def __post_init__(self) -> None:
        for name in ("position", "velocity", "acceleration", "torque"):
            values = np.atleast_1d(getattr(self, name))
            if not (np.isfinite(values).all() and (values >= 0).all()):
                raise InputError(
                    f"noise: {name} = {getattr(self, name)!r} must be a number, zero or more",
                    code=Code.OUT_OF_RANGE,
                    subject=name,
                )
        if not (np.atleast_1d(self.torque) > 0).all():
            raise InputError(
                "noise: torque = 0; a torque without errors leaves total least squares no residual",
                code=Code.OUT_OF_RANGE,
                subject="torque",
            )


def column_errors(regressor: Regressor, samples: Samples, noise: MeasurementNoise, weights: Array) -> Array:
    """Return (p + 1, p + 1) the mean of sum_i weights_i dZ_i^T dZ_i, dZ_i the errors of Z_i = [Y_i | tau_i].

    dZ for an error of one standard deviation sigma in a measured quantity x is (Z(x + sigma) - Z(x - sigma)) / 2: exact
    for accelerations, in which Y is linear, and of second order in sigma for others.
    """
    total = np.zeros((regressor.count + 1, regressor.count + 1))
    n = regressor.joint_count
    for name, given in (("q", noise.position), ("qd", noise.velocity), ("qdd", noise.acceleration)):
        sigmas = _for_joints(given, n)
        for joint in np.flatnonzero(sigmas):
            step = np.zeros(n)
            step[joint] = sigmas[joint]
            value = getattr(samples, name)
            ends = replace(samples, **{name: value + step}), replace(samples, **{name: value - step})
            _add_gram(total, regressor, ends, weights)
    total[-1, -1] += float(weights @ (_for_joints(noise.torque, n) ** 2 * _usable(samples).sum(axis=0)))
    return total


def _for_joints(value: float | tuple[float, ...], n: int) -> Array:
    values = np.atleast_1d(np.asarray(value, dtype=np.float64))
    if values.shape not in ((1,), (n,)):
        raise InputError(
            f"noise: {len(values)} deviations given for {n} joints; one for all, or one for each, is needed",
            code=Code.WRONG_SHAPE,
            subject="noise",
        )
    return np.broadcast_to(values, (n,))


def _add_gram(total: Array, regressor: Regressor, ends: tuple[Samples, Samples], weights: Array) -> None:
    """Add sum_i weights_i dY_i^T dY_i, with dY half the difference of the regressors at two ends."""
    usable = _usable(ends[0])
    for (high, rows), (low, _) in zip(blocks(regressor, ends[0]), blocks(regressor, ends[1]), strict=True):
        for joint, columns in enumerate(regressor.columns):
            dZ = (np.concatenate(high[joint], axis=1) - np.concatenate(low[joint], axis=1)) / 2
            dY = dZ[usable[rows, joint], :-1]
            total[np.ix_(columns, columns)] += weights[joint] * (dY.T @ dY)


def _usable(samples: Samples) -> NDArray[np.bool_]:
    return np.full(samples.q.shape, True) if samples.usable is None else samples.usable


ERROR_FREE: Final = 1e-10
"""Eigenvalues of C (columns of Z scaled to unit length) below this fraction of the largest are rounding."""
WITHOUT_TORQUE: Final = 1e-8
"""Smallest component of the torque in a valid solution."""


@dataclass(frozen=True, slots=True)
class TotalLeastSquares(Estimator):
    """Total-least-squares fit.

    Parameters
    ----------
    noise : MeasurementNoise, optional
        Deviations of the measurements, up to a common factor. Default: errors of all columns, torque included, in
        proportion to their size ("scaled" total least squares). This is worse than least squares for other kinds of
        errors: give the noise if you know it.
    weights : "joint", "ordinary" or tuple of float
        Weights of the joints' rows, as in `LeastSquares`; "joint" uses those of a least-squares fit.
    """

    noise: MeasurementNoise | None = None
    weights: Weights | tuple[float, ...] = "joint"

    @property
    def needs(self) -> Needs:
        """Either "samples", if `noise` is given, or "information"."""
        return "information" if self.noise is None else "samples"

    def settings_for(self, robot: Robot, wanted: EquationSettings) -> EquationSettings:  # noqa: ARG002
        """Return the settings without filter: errors of filtered columns are not independent."""
        return wanted.unfiltered()

    def fit(self, rows: Rows) -> Estimate:
        """Fit the rows; `noise` needs samples as measured."""
        samples = None if self.noise is None else rows.all_samples("total least squares with stated noise")
        if rows.settings.unfiltered() != rows.settings:
            raise InputError(
                "total least squares takes every sample as it is, without the parallel filter",
                code=Code.UNSUPPORTED,
                subject="filter_hz",
            )
        information = rows.information
        plain = LeastSquares(weights=self.weights).fit(rows)
        assert plain.joint_weights is not None
        weights = plain.joint_weights / plain.joint_weights.max()
        R, z = information.stacked(weights)
        Z = np.column_stack([R, z])
        if self.noise is None or samples is None:
            C = np.diag((Z * Z).sum(axis=0) / max(1, sum(information.counts)))
        else:
            C = column_errors(rows.regressor, samples, self.noise, weights)
        solution = total_least_squares(Z, C)
        if idle := information.unused_columns(weights):  # joints without weight determine the remaining directions
            solution = replace(solution, beta=solve(R, R @ solution.beta, idle).beta)
        return _estimate(self, plain, information, weights, solution)


@dataclass(frozen=True, slots=True, eq=False)
class TotalSolution:
    """beta (p,), the estimated factor of C, and the inverse (p, p) of Y^T Y minus its errors."""

    beta: Array
    factor: float
    inverse: Array


def total_least_squares(Z: Array, C: Array) -> TotalSolution:
    """Return beta of x = (beta, -1) that minimises |Z x|^2 / x^T C x; unidentifiable directions stay zero."""
    scales = np.linalg.norm(Z, axis=0)
    scales = np.where(scales > 0, scales, 1.0)
    identifiable = _identifiable_subspace(Z / scales)
    T, exact = _coordinates(identifiable.T @ (C / scales / scales[:, None]) @ identifiable)
    y, factor = _least_direction(Z / scales @ identifiable @ T, exact)
    x = identifiable @ T @ y / scales
    if abs(x[-1]) * scales[-1] <= WITHOUT_TORQUE * np.linalg.norm(x * scales):
        raise InputError(
            "no total-least-squares solution exists: the errors explain a direction without torque",
            hint="record a motion that excites more parameters, drop parameters, or use LeastSquares",
            code=Code.NOT_IDENTIFIABLE,
            subject="torque",
        )
    basis = identifiable[:-1, :-1]
    normal = basis.T @ ((Z.T @ Z - factor * C)[:-1, :-1] / scales[:-1] / scales[:-1, None]) @ basis
    root = basis / scales[:-1, None]
    return TotalSolution(-x[:-1] / x[-1], factor, root @ np.linalg.pinv(normal, hermitian=True) @ root.T)


def _identifiable_subspace(Z: Array) -> Array:
    """Return (p + 1, k + 1) the identifiable parameter directions, then the torque."""
    seen = identifiable_directions(Z[:, :-1])
    projected = np.zeros((len(seen) + 1, seen.shape[1] + 1))
    projected[:-1, :-1], projected[-1, -1] = seen, 1.0
    return projected


def _coordinates(C: Array) -> tuple[Array, int]:
    """Return T with T^T C T = diag(0, ..., 0, 1, ..., 1), and the number of zeros: directions without errors."""
    values, vectors = np.linalg.eigh(C)
    exact = int((values <= ERROR_FREE * values[-1]).sum())
    lengths = np.concatenate([np.ones(exact), np.sqrt(values[exact:])])
    return vectors / lengths, exact


def _least_direction(Z: Array, exact: int) -> tuple[Array, float]:
    """Return y that minimises |Z y|^2 over unit y[exact:], and that minimum."""
    R = np.asarray(np.linalg.qr(Z, mode="r"))
    _, s, Vt = np.linalg.svd(R[exact:, exact:])
    noisy = Vt[-1]
    free = np.linalg.solve(R[:exact, :exact], -R[:exact, exact:] @ noisy)
    return np.concatenate([free, noisy]), float(s[-1] ** 2)


def _estimate(
    settings: TotalLeastSquares, plain: Estimate, information: Information, weights: Array, solution: TotalSolution
) -> Estimate:
    squares, counts = information.residuals(solution.beta), np.array(information.counts)
    covariance = sandwich(solution.inverse, noise_covariance(information, weights, squares / counts))
    rms = np.sqrt(squares / counts)
    moved = np.abs(solution.beta - plain.beta).max() / max(float(np.abs(plain.beta).max()), 1e-300)
    status = (
        f"{len(plain.names) - len(plain.unidentifiable)} parameters with errors in motion and torque; they differ "
        f"from least squares by up to {100 * moved:.3g} % of the largest"
    )
    return replace(
        plain,
        beta=solution.beta,
        covariance=infinite_variances(covariance, plain.names, plain.unidentifiable),
        status=describe_status([status], plain.unidentifiable),
        method="total least squares",
        residuals=tuple(replace(residual, rms=float(r)) for residual, r in zip(plain.residuals, rms, strict=True)),
        provenance={
            **plain.provenance,
            "noise": "in proportion to columns" if settings.noise is None else repr(settings.noise),
            "noise_factor": float(np.sqrt(solution.factor)),
        },
    )
