"""`InstrumentalVariables`: model-based accelerations as instruments against noise of measured ones.

    beta = (sum_i w_i Omega_i^T Y_i)^-1 sum_i w_i Omega_i^T tau_i    [Yoshida 1996, eq. 3.22-3.35]

Y is the regressor at the measured motion. Omega is the regressor with the accelerations that a model predicts for the
measured torque. Only Y contains the noise of accelerations, so that its product with Omega averages out. The noise e of
the torque is also in Omega, through the acceleration M^-1 (tau - h): Omega = Omega(qdd) + J M^-1 e, J = dOmega/dqdd.
Then Omega_i^T e_i has the mean J_i M^-1 (column i) var(e_i), which is subtracted; var(e) is estimated from the torque
alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from mindyn.foundation.algebra.requirements import require_count
from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, InputError
from mindyn.identification.estimators.estimate import Estimate
from mindyn.identification.estimators.estimator import Estimator
from mindyn.identification.estimators.instrument_steps import (
    ModelAcceleration,
    model_acceleration,
    repeat_passes,
    report_passes,
)
from mindyn.identification.estimators.least_squares import (
    LeastSquares,
    Weights,
)
from mindyn.logs.filters import lowpass
from mindyn.logs.samples import Samples
from mindyn.regression.information import Information
from mindyn.regression.regressor import Regressor
from mindyn.regression.rows import Rows

MOST_INDEFINITE: Final = 0.5
"""Largest fraction of samples without a usable inertia matrix for a model that gives instruments."""
NORMAL_MEDIAN: Final = 0.6744897501960817
"""Median of the absolute value of a normal variable, in standard deviations."""
IMPULSE_ROWS: Final = 4096
AVERAGED_ROWS: Final = 5000
"""Number of evenly spread rows over which dOmega is averaged."""


@dataclass(frozen=True, slots=True)
class InstrumentalVariables(Estimator):
    """Instrumental-variables fit.

    Parameters
    ----------
    instrument_model : Estimate, optional
        Model whose accelerations are the first instruments. Default: the least-squares estimate. If its inertia matrix
        is not positive definite, as after slow motion, `make_feasible` gives the nearest values with a positive
        definite matrix.
    passes : int
        Largest number of passes; each later pass takes its instruments from the previous estimate.
    weights : "joint", "ordinary" or tuple of float
        Weights of the joints' rows, as in `LeastSquares`; "joint" uses those of a least-squares fit.
    """

    instrument_model: Estimate | None = None
    passes: int = 5
    weights: Weights | tuple[float, ...] = "joint"

    def __post_init__(self) -> None:
        require_count(self.passes, "passes")

    needs = "samples"

    @property
    def filters_alike(self) -> bool:
        """True, because torque and predicted accelerations contain the noise of the columns.

        A controller feeds the noise of encoders back to the torque. Its frequencies are far above those of the motion,
        and filtering only the motion would leave this noise in the torque.
        """
        return True

    def fit(self, rows: Rows) -> Estimate:
        """Fit the rows. The status reports samples at which the inertia matrix is not positive definite."""
        samples = rows.all_samples("instrumental variables")
        plain = LeastSquares(weights=self.weights).fit(rows)
        return self.passes_from(plain, rows.information, samples)

    def passes_from(self, plain: Estimate, information: Information, samples: Samples) -> Estimate:
        """Repeat passes until the estimate converges.

        The initial beta affects only rounding errors of the first solution.
        """
        first, shares = self._first_model(plain), list[float]()

        def instruments(estimate: Estimate, number: int) -> tuple[Samples, list[Array]]:
            model = first if number == 1 else estimate
            instrument = model_acceleration(model.regressor, model.beta, samples)
            _require_definite(instrument, number)
            shares.append(instrument.indefinite_part)
            expected = _expected_columns(samples, instrument)
            return expected, noise_in_both(estimate, expected, instrument.M, plain.settings.filtering.equations_hz)

        estimate, settled = repeat_passes(plain, information, samples, self.passes, instruments)
        left = model_acceleration(estimate.regressor, estimate.beta, samples).indefinite_part
        notes = []
        if max(shares) > 0:
            notes.append(
                f"the inertia matrix of the instrument model was indefinite at up to {100 * max(shares):.3g} % of the "
                "samples, which were excluded"
            )
        if left > 0:
            notes.append(f"the inertia matrix of the estimate is indefinite at {100 * left:.3g} % of the samples")
        reported = report_passes(estimate, "instrumental variables", len(shares), notes, settled=settled)
        return reported.with_notes(indefinite_parts=shares, indefinite_part_of_estimate=left)

    def _first_model(self, plain: Estimate) -> Estimate:
        model = self.instrument_model
        if model is None:
            return plain
        if model.robot.joint_names != plain.robot.joint_names:
            raise InputError(
                f"the instrument model is of joints {', '.join(model.robot.joint_names)}; "
                f"the robot has {', '.join(plain.robot.joint_names)}",
                code=Code.DISAGREEMENT,
                subject="instrument_model",
            )
        return model


def _expected_columns(samples: Samples, instrument: ModelAcceleration) -> Samples:
    """Return the samples with the model's accelerations; unusable where the inertia matrix is indefinite."""
    usable = np.repeat(instrument.definite[:, None], samples.q.shape[1], axis=1)
    if samples.usable is not None:
        usable &= samples.usable
    return replace(samples, qdd=instrument.qdd, usable=usable)


def _require_definite(instrument: ModelAcceleration, number: int) -> None:
    part = instrument.indefinite_part
    if part > MOST_INDEFINITE:
        raise InputError(
            f"the inertia matrix of the instrument model of pass {number} is indefinite at {100 * part:.3g} % of the "
            f"samples, so that its accelerations are not usable; at most {100 * MOST_INDEFINITE:g} % are allowed",
            hint="pass make_feasible(estimate) of the least-squares estimate, or another model with a "
            "positive definite inertia matrix, as instrument_model=; or record a motion with larger accelerations",
            code=Code.NOT_FEASIBLE,
            subject="instrument_model",
        )


def torque_noise(samples: Samples) -> Array:
    """Return the standard deviations (n,) of white noise in the torque from the median second difference.

    The median is robust to jumps of friction. The torque without noise has second differences too, but they are small
    if the sample rate is high.
    """
    within = samples.segments[2:] == samples.segments[:-2]
    if not within.any():
        return np.zeros(samples.tau.shape[1])
    bends = np.abs(np.diff(samples.tau, n=2, axis=0)[within])
    return np.asarray(np.median(bends, axis=0) / (NORMAL_MEDIAN * np.sqrt(6.0)))


def noise_in_both(estimate: Estimate, expected: Samples, M: Array, cutoff_hz: float | None) -> list[Array]:
    """Return, for each joint i, the mean (p,) of Omega_i^T e_i over the rows of the fit. Torque noise causes it.

    expected   samples with the accelerations of the instrument model, `usable` where it has some
    M          (N, n, n) inertia matrices of that model
    """
    variances = torque_noise(expected) ** 2 * _filter_columns(cutoff_hz, expected.rate_hz)
    every = slice(None, None, 1 + len(expected) // AVERAGED_ROWS)
    some, M = expected.take(every), M[every]
    assert some.usable is not None
    joints = []
    for joint, (variance, residual) in enumerate(zip(variances, estimate.data.residuals, strict=True)):
        usable = some.usable[:, joint]
        push = np.asarray(np.linalg.inv(M[usable])[:, :, joint], dtype=np.float64)
        mean = _mean_change(estimate.regressor, some.q[usable], some.qd[usable], push, joint)
        rows = residual.rows * float(usable.mean())
        # Bounded by the residual: second differences of coarsely sampled rows would overestimate the noise.
        joints.append(rows * min(variance, residual.rms**2) * mean)
    return joints


def _mean_change(regressor: Regressor, q: Array, qd: Array, push: Array, joint: int) -> Array:
    """Return the mean change (p,) of a joint's columns by accelerations `push` (N, n)."""
    if not len(push):
        return np.zeros(regressor.count)
    directions = regressor.directions(q, qd, np.zeros(len(push), dtype=np.int64), 1.0)
    pushed, coasting = (regressor.dense(regressor.parts(q, qd, qdd, directions)) for qdd in (push, np.zeros_like(push)))
    return np.asarray((pushed - coasting)[:, joint].mean(axis=0))


def _filter_columns(cutoff_hz: float | None, rate_hz: float) -> float:
    """Return the fraction of the variance of white noise that passes the low pass."""
    if cutoff_hz is None:
        return 1.0
    impulse = np.zeros(IMPULSE_ROWS)
    impulse[IMPULSE_ROWS // 2] = 1.0
    return float((lowpass(impulse, cutoff_hz, rate_hz) ** 2).sum())
