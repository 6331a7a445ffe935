"""`InstrumentalVariables`: model-based accelerations as instruments against the noise of measured ones.

    beta = (sum_i w_i Omega_i^T Y_i)^-1 sum_i w_i Omega_i^T tau_i    [Yoshida 1996, eq. 3.22-3.35]

Y is the regressor at the measured motion, Omega the same with the accelerations that a model expects under the
measured torque. Noise of accelerations is in Y alone, so that Omega^T times it averages out. Noise of the torque is in
Omega too, and leaves a bias of its own: it must be small beside the torque.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mindyn.algebra.values import Array
from mindyn.errors import InputError
from mindyn.estimators.estimate import Estimate
from mindyn.estimators.least_squares import PLAIN, LeastSquares, Weights
from mindyn.estimators.model_acceleration import ModelAcceleration, model_acceleration
from mindyn.estimators.told_directions import told_directions
from mindyn.logs.samples import Samples
from mindyn.parameters.base import BaseParameters
from mindyn.regression.friction import Friction
from mindyn.regression.gathering import blocks, require_samples
from mindyn.regression.information import Information
from mindyn.regression.regressor import ExtraColumn
from mindyn.robots.robot import Robot

SETTLED: Final = 0.01
"""Passes end when no parameter moves by more than this part of its standard deviation ..."""
ROUNDING: Final = 1e-10
"""... or of the largest parameter."""
MOST_INDEFINITE: Final = 0.5
"""Part of the samples without a usable inertia matrix beyond which a model is no instrument."""
WEAKEST: Final = 1e-12
"""Reciprocal condition number of the scaled Omega^T Y below which instruments do not determine the parameters."""


@dataclass(frozen=True, slots=True)
class InstrumentalVariables:
    """Settings of an instrumental-variables fit.

    instrument_model  whose accelerations are the first instruments; None: the least-squares estimate. Where that is
                      indefinite, as slow motion makes it, `mend_possible` gives the nearest one that is not
    passes            most passes; from the second on, the instruments come from the estimate of the pass before
    weights           of the joints' rows, as in `LeastSquares`; "joint" takes those of a least-squares fit
    friction          shape of the friction columns
    extra             declared columns
    filter_hz         low pass on columns, instruments and torque alike
    decimation        of the filtered rows
    base              the base set; the structural one if left out
    """

    instrument_model: Estimate | None = None
    passes: int = 5
    weights: Weights | tuple[float, ...] = "joint"
    friction: Friction = PLAIN
    extra: tuple[ExtraColumn, ...] = ()
    filter_hz: float | None = None
    decimation: int = 1
    base: BaseParameters | None = None

    def __post_init__(self) -> None:
        if self.passes < 1:
            raise InputError(f"passes = {self.passes!r} must be 1 or more")

    def fit(self, robot: Robot, samples: Samples) -> Estimate:
        """The estimate; its status tells where an inertia matrix was indefinite."""
        require_samples(samples, "instrumental variables")
        start = LeastSquares(
            weights=self.weights,
            friction=self.friction,
            extra=self.extra,
            filter_hz=self.filter_hz,
            decimation=self.decimation,
            base=self.base,
        )
        regressor = start.regressor(robot)
        information = start.gather(regressor, samples)
        plain = start.fit(robot, information)
        return self.passes_from(plain, information, samples)

    def passes_from(self, plain: Estimate, information: Information, samples: Samples) -> Estimate:
        """Passes until the estimate settles; where beta starts matters to rounding alone, not to the first solution."""
        basis = told_directions(information.stacked(np.array(plain.provenance["joint_weights"]))[0])
        estimate, model, moved = plain, self._first_model(plain), True
        shares: list[float] = []
        while moved and len(shares) < self.passes:
            instrument = model_acceleration(model.regressor, model.beta, samples)
            _require_definite(instrument, len(shares) + 1)
            shares.append(instrument.indefinite_part)
            step, covariance, rms = self._pass(estimate, samples, instrument, basis)
            moved = _moved(step, estimate.beta, covariance)
            residuals = tuple(replace(one, rms=r) for one, r in zip(plain.residuals, rms, strict=True))
            estimate = replace(estimate, beta=estimate.beta + step, covariance=covariance, residuals=residuals)
            model = estimate
        left = model_acceleration(estimate.regressor, estimate.beta, samples).indefinite_part
        return _reported(estimate, plain, shares, left, settled=not moved)

    def _first_model(self, plain: Estimate) -> Estimate:
        model = self.instrument_model
        if model is None:
            return plain
        if model.robot.joint_names != plain.robot.joint_names:
            raise InputError(
                f"the instrument model is of joints {', '.join(model.robot.joint_names)}; "
                f"the robot has {', '.join(plain.robot.joint_names)}"
            )
        return model

    def _pass(
        self, estimate: Estimate, samples: Samples, instrument: ModelAcceleration, basis: Array
    ) -> tuple[Array, Array, list[float]]:
        """The step of beta, its covariance, and the rms residuals of the joints."""
        weights = np.array(estimate.provenance["joint_weights"])
        weights = weights / weights.max()
        products = _products(estimate, samples, instrument, self.filter_hz, self.decimation)
        A, r = np.zeros((len(basis), len(basis))), np.zeros(len(basis))
        for weight, one in zip(weights, products, strict=True):
            A[np.ix_(one.columns, one.columns)] += weight * one.omega_y
            r[one.columns] += weight * one.omega_e
        inverse = _inverse(A, basis)
        step = inverse @ r
        variances = [one.variance(step[one.columns]) for one in products]
        meat = np.zeros_like(A)
        for weight, variance, one in zip(weights, variances, products, strict=True):
            meat[np.ix_(one.columns, one.columns)] += weight**2 * variance * one.omega_omega
        return step, inverse @ meat @ inverse.T, [float(np.sqrt(v)) for v in variances]


@dataclass(slots=True, eq=False)
class _Products:
    """W^T W of one joint, W = [Omega | Y | e] (rows, 2 k + 1), e = tau - Y beta, for the parameters `columns` (k,).

    Residuals in place of torques keep the solution exact where the start is, although W^T W squares conditions.
    """

    columns: NDArray[np.intp]
    matrix: Array
    rows: int = 0

    def add(self, Omega: Array, Y: Array, e: Array) -> None:
        W = np.column_stack([Omega, Y, e])
        self.matrix += W.T @ W
        self.rows += len(W)

    @property
    def omega_omega(self) -> Array:
        k = len(self.columns)
        return self.matrix[:k, :k]

    @property
    def omega_y(self) -> Array:
        k = len(self.columns)
        return self.matrix[:k, k:-1]

    @property
    def omega_e(self) -> Array:
        return self.matrix[: len(self.columns), -1]

    def variance(self, step: Array) -> float:
        """Mean squared residual e - Y step."""
        x = np.concatenate([np.zeros(len(step)), -step, [1.0]])
        return max(0.0, float(x @ self.matrix @ x)) / max(1, self.rows)


def _products(
    estimate: Estimate, samples: Samples, instrument: ModelAcceleration, cutoff_hz: float | None, decimation: int
) -> list[_Products]:
    """One pass over the samples; those without an instrument are left out."""
    regressor = estimate.regressor
    found = [_Products(c, np.zeros((2 * len(c) + 1, 2 * len(c) + 1))) for c in regressor.columns]
    usable = np.repeat(instrument.definite[:, None], regressor.joint_count, axis=1)
    if samples.usable is not None:
        usable &= samples.usable
    both = zip(
        blocks(regressor, samples, cutoff_hz, decimation),
        blocks(regressor, replace(samples, qdd=instrument.qdd), cutoff_hz, decimation),
        strict=True,
    )
    for (measured, rows), (expected, _) in both:
        for joint, one in enumerate(found):
            kept = usable[rows, joint]
            Z = np.concatenate(measured[joint], axis=1)[kept]
            Omega = np.concatenate(expected[joint], axis=1)[kept, :-1]
            one.add(Omega, Z[:, :-1], Z[:, -1] - Z[:, :-1] @ estimate.beta[one.columns])
    return found


def _inverse(A: Array, basis: Array) -> Array:
    """The inverse of Omega^T Y over the directions that the data tell."""
    small = basis.T @ A @ basis
    sizes = np.linalg.svd(small, compute_uv=False)
    if not sizes[-1] > WEAKEST * sizes[0]:
        raise InputError(
            "the instruments do not determine the parameters: expected and measured motion have too little in common",
            hint="give instrument_model= a better model, or record a motion with larger accelerations",
        )
    return np.asarray(basis @ np.linalg.inv(small) @ basis.T)


def _moved(step: Array, beta: Array, covariance: Array) -> bool:
    """Whether a step is worth another pass."""
    enough = SETTLED * np.sqrt(np.diag(covariance)) + ROUNDING * np.abs(beta).max()
    return bool((np.abs(step) > enough).any())


def _require_definite(instrument: ModelAcceleration, number: int) -> None:
    part = instrument.indefinite_part
    if part > MOST_INDEFINITE:
        raise InputError(
            f"the inertia matrix of the instrument model of pass {number} is indefinite at {100 * part:.3g} % of the "
            "samples: the accelerations that it expects mean nothing",
            hint="give instrument_model= the least-squares estimate mended by mend_possible, or another model that is "
            "possible; or record a motion with larger accelerations",
        )


def _reported(estimate: Estimate, plain: Estimate, shares: list[float], left: float, *, settled: bool) -> Estimate:
    """The estimate with its status, its provenance, and infinite variances of what the data cannot tell."""
    covariance = estimate.covariance.copy()
    for name in plain.untold:
        covariance[plain.names.index(name), plain.names.index(name)] = np.inf
    error = np.sqrt(
        sum(one.rows * one.rms**2 for one in estimate.residuals)
        / max(sum(one.rows * one.rms_torque**2 for one in estimate.residuals), 1e-300)
    )
    told = [
        f"{len(plain.names)} parameters, {len(shares)} passes{'' if settled else ', not settled'}, leave "
        f"{100 * error:.3g} % of the torque unexplained"
    ]
    if max(shares) > 0:
        told.append(
            f"the inertia matrix of the instrument model was indefinite at up to {100 * max(shares):.3g} % of the "
            "samples, which were left out"
        )
    if left > 0:
        told.append(f"the inertia matrix of the estimate is indefinite at {100 * left:.3g} % of the samples")
    if plain.untold:
        told.append(f"the data leave combinations open, among: {', '.join(plain.untold)}")
    provenance = {
        "estimator": "instrumental variables",
        "passes": len(shares),
        "settled": settled,
        "indefinite_parts": shares,
        "indefinite_part_of_estimate": left,
    }
    return replace(
        estimate,
        covariance=covariance,
        status=f"{'; '.join(told)}.",
        provenance={**estimate.provenance, **provenance},
    )
