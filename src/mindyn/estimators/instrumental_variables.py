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

from mindyn.algebra.values import Array
from mindyn.errors import InputError
from mindyn.estimators.estimate import Estimate
from mindyn.estimators.least_squares import PLAIN, LeastSquares, Weights
from mindyn.estimators.model_acceleration import ModelAcceleration, model_acceleration
from mindyn.logs.samples import Samples
from mindyn.parameters.base import BaseParameters
from mindyn.regression.friction import Friction
from mindyn.regression.gathering import blocks
from mindyn.regression.information import null_space
from mindyn.regression.regressor import ExtraColumn, Regressor
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

    instrument_model  whose accelerations are the first instruments; None: the least-squares estimate
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
        start = LeastSquares(
            weights=self.weights,
            friction=self.friction,
            extra=self.extra,
            filter_hz=self.filter_hz,
            decimation=self.decimation,
            base=self.base,
        )
        regressor = start.regressor(robot)
        plain = start.fit(robot, start.gather(regressor, samples))
        estimate, model = plain, self._first_model(plain)
        basis, shares = _told(plain, regressor, start, samples), []
        for number in range(1, self.passes + 1):
            instrument = model_acceleration(model.regressor, model.beta, samples)
            _require_definite(instrument, number)
            shares.append(instrument.indefinite_part)
            step, covariance, rms = self._pass(estimate, samples, instrument, basis)
            moved = _moved(step, estimate.beta, covariance)
            residuals = tuple(replace(one, rms=r) for one, r in zip(plain.residuals, rms, strict=True))
            estimate = replace(estimate, beta=estimate.beta + step, covariance=covariance, residuals=residuals)
            model = estimate
            if not moved:
                break
        left = model_acceleration(regressor, estimate.beta, samples).indefinite_part
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
        usable = instrument.definite[:, None] & (np.full(samples.q.shape, True) if samples.usable is None else samples.usable)
        measured = replace(samples, usable=usable)
        sums = _sums(estimate, measured, instrument.qdd, self.filter_hz, self.decimation)
        A = sum(w * one.cross for w, one in zip(weights, sums, strict=True))
        r = sum(w * one.right for w, one in zip(weights, sums, strict=True))
        small = basis.T @ A @ basis
        if np.linalg.cond(small) > 1 / WEAKEST:
            raise InputError(
                "the instruments do not determine the parameters: model accelerations and measured ones have little "
                "in common",
                hint="give instrument_model= a better model, or record a motion with larger accelerations",
            )
        inverse = basis @ np.linalg.inv(small) @ basis.T
        step = inverse @ r
        variances = [one.variance(step) for one in sums]
        meat = sum(w * w * v * one.gram for w, v, one in zip(weights, variances, sums, strict=True))
        return step, inverse @ meat @ inverse.T, [float(np.sqrt(v)) for v in variances]


@dataclass(frozen=True, slots=True, eq=False)
class _Sums:
    """Of one joint: Omega^T Y, Omega^T e, Omega^T Omega, e^T e, Y^T e, Y^T Y with e = tau - Y beta, and its rows."""

    cross: Array
    right: Array
    gram: Array
    squares: float
    slope: Array
    normal: Array
    rows: int

    def variance(self, step: Array) -> float:
        """Mean squared residual after a step of beta."""
        return max(0.0, self.squares - 2 * step @ self.slope + step @ self.normal @ step) / max(1, self.rows)


def _sums(
    estimate: Estimate, samples: Samples, instrument: Array, cutoff_hz: float | None, decimation: int
) -> list[_Sums]:
    """One pass over the samples. Residuals in place of torques keep the solution exact where the start is."""
    regressor, p = estimate.regressor, len(estimate.beta)
    n, usable = regressor.robot.joint_count, samples.usable
    assert usable is not None
    arrays = [[np.zeros((p, p)), np.zeros(p), np.zeros((p, p)), 0.0, np.zeros(p), np.zeros((p, p)), 0] for _ in range(n)]
    both = zip(
        blocks(regressor, samples, cutoff_hz, decimation),
        blocks(regressor, replace(samples, qdd=instrument), cutoff_hz, decimation),
        strict=True,
    )
    for (parts, rows), (others, _) in both:
        for joint, columns in enumerate(regressor.columns):
            kept = usable[rows, joint]
            Z = np.concatenate(parts[joint], axis=1)[kept]
            Y, Omega = Z[:, :-1], np.concatenate(others[joint][:-1], axis=1)[kept]
            e = Z[:, -1] - Y @ estimate.beta[columns]
            _add(arrays[joint], columns, Y, Omega, e)
    return [_Sums(*one) for one in arrays]
