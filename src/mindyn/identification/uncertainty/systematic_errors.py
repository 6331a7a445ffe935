"""Widen the covariance by errors that do not average out over a long log: timing errors and finite differences.

If the motion is delayed by t relative to the torque, the estimate shifts by t dbeta/dt. Central differences attenuate
fast motion, so that inertias appear larger. Noise averages out over a long log; these shifts do not. The shifts inflate
the intervals; the estimate does not change.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, InputError
from mindyn.identification.estimators.coloured_noise import colouring_of, joint_rows, shape_noise
from mindyn.identification.estimators.estimate import Estimate, predict_unfiltered
from mindyn.logs.conditioning import Conditioning
from mindyn.logs.samples import Samples, segment_ends
from mindyn.regression.information import solve
from mindyn.regression.row_blocks import gather


class FitRows:
    """Rows of an estimate's fit, weighted by its residuals; see `with_systematic_errors`."""

    def __init__(self, estimate: Estimate, samples: Samples) -> None:
        self.estimate, self.samples, self.filtering = estimate, samples, estimate.settings.filtering
        self.residuals = self.rest(samples.tau, estimate.beta)
        squares = np.array([float(e @ e) / len(e) for e in self.residuals])
        power = (samples.tau**2).mean(axis=0)
        # A joint without torque carries no information.
        self.weights = np.where(power > 0, 1 / np.maximum(squares, np.where(power > 0, 1e-24 * power, 1.0)), 0.0)

    def explained(self, tau: Array) -> Array:
        """Return the least-squares solution x (p,) of Y x = tau; zero for dropped parameters."""
        estimate = self.estimate
        data = replace(self.samples, tau=tau)
        information = gather(
            estimate.regressor, data, cutoff_hz=self.filtering.equations_hz, decimation=self.filtering.keep_every
        )
        R, z = information.stacked(self.weights)
        kept = np.array([name not in estimate.values.dropped for name in estimate.names])
        x = np.zeros(len(kept))
        x[kept] = solve(R[:, kept], z).beta
        return x

    def rest(self, tau: Array, x: Array) -> list[Array]:
        """Return the residuals tau - Y x at the rows of the fit, for each joint."""
        estimate, data = self.estimate, replace(self.samples, tau=tau)
        parts: list[list[Array]] = [[] for _ in estimate.regressor.columns]
        for joint, block, _ in joint_rows(estimate.regressor, data, *self.filtering.of_equations):
            parts[joint].append(block @ np.append(-x[estimate.regressor.columns[joint]], 1.0))
        if not all(parts):
            message = "the filters leave no rows from which to compute systematic errors"
            raise InputError(message, hint="record a longer motion", code=Code.TOO_LITTLE_DATA, subject="logs")
        return [np.concatenate(part) for part in parts]


def with_systematic_errors(
    estimate: Estimate, samples: Samples, conditioning: Conditioning, fitted: int | None = None
) -> Estimate:
    """Return the estimate with a covariance that includes the shifts due to timing errors and finite differences.

    samples, conditioning   samples and conditioning of the fit; samples may be segments of the logs
    fitted                  number of samples of the fit; default: that of `samples`
    """
    rows = FitRows(estimate, samples)
    moved, seconds, deviation = timing_error(rows)
    # Segments determine the timing less well than the whole log: their additional noise is subtracted.
    share = min(1.0, len(samples) / fitted) if fitted else 1.0
    seconds = float(np.sign(seconds) * np.sqrt(max(0.0, seconds**2 - (1 - share) * deviation**2)))
    deviation *= float(np.sqrt(share))
    is_kept = np.isfinite(estimate.deviations) & np.array(
        [name not in estimate.values.dropped for name in estimate.names]
    )
    shifts = np.array([moved * np.hypot(seconds, deviation), difference_shift(rows, conditioning)]) * is_kept
    wider = estimate.with_uncertainty(covariance=estimate.covariance + shifts.T @ shifts, shifts=shifts)
    return wider.with_notes(systematic={"timing_s": seconds, "timing_deviation_s": deviation})


def timing_error(rows: FitRows) -> tuple[Array, float, float]:
    """Return dbeta/dt (p,) for a motion that is delayed by t, the best t in s, and the standard deviation of t.

    This is one Gauss-Newton step in t and beta together: the part of the torque's derivative that no parameter explains
    is compared with the residuals.
    """
    estimate, samples = rows.estimate, rows.samples
    slope = _delay_derivative(estimate, samples)
    taken_up = rows.explained(slope)
    alone = rows.rest(slope, taken_up)
    weights, residuals = rows.weights, rows.residuals
    colouring = colouring_of(estimate.regressor, estimate.beta, samples, *rows.filtering.of_equations)
    information = sum(w * float(a @ a) for w, a in zip(weights, alone, strict=True))
    if not information > 0:
        return np.zeros_like(taken_up), 0.0, 0.0
    seconds = sum(w * float(a @ e) for w, a, e in zip(weights, alone, residuals, strict=True)) / information
    spread = 0.0
    for w, a, shape, variance in zip(weights, alone, colouring.coefficients, colouring.variances, strict=True):
        shaped = shape_noise(shape, a[:, None], np.zeros((len(shape) - 1, 1)))
        spread += w**2 * variance * float((shaped**2).sum())
    return -taken_up, float(seconds), float(np.sqrt(spread) / information)


def difference_shift(rows: FitRows, conditioning: Conditioning) -> Array:
    """Return the shift (p,) of the values that more accurate differences would cause.

    To the next order, a central difference is x' + h^2 x''' / 6, where h is the step between rows.
    """
    of_speed = (conditioning.velocity == "differentiated") / 6
    of_acceleration = of_speed + 1 / 6 if conditioning.acceleration == "differentiated" else 0.0
    samples = rows.samples
    better = replace(
        samples,
        qd=samples.qd - of_speed * _second_difference(samples.qd, samples),
        qdd=samples.qdd - of_acceleration * _second_difference(samples.qdd, samples),
    )
    return rows.explained(_smooth_torque(rows.estimate, samples) - _smooth_torque(rows.estimate, better))


def _delay_derivative(estimate: Estimate, samples: Samples) -> Array:
    """Return d tau / d delay (N, n) of the predicted torque for a delayed motion; friction keeps its direction."""
    tau = _smooth_torque(estimate, samples)
    slope = np.zeros_like(tau)
    for start, stop in segment_ends(samples.segments):
        if stop - start > 1:
            slope[start:stop] = -np.gradient(tau[start:stop], 1.0 / samples.rate_hz, axis=0)
    return slope


def _smooth_torque(estimate: Estimate, samples: Samples) -> Array:
    """Return the predicted torque (N, n) without friction that depends on the direction.

    Reversals of friction affect only single rows, whose timing is less accurate than it would appear.
    """
    smooth = np.where([parameter.depends_on_direction for parameter in estimate.parameters], 0.0, estimate.beta)
    return predict_unfiltered(estimate.regressor, smooth, samples)


def _second_difference(x: Array, samples: Samples) -> Array:
    """Return x[k+1] - 2 x[k] + x[k-1], zero at the ends of segments."""
    bend = np.zeros_like(x)
    within = samples.segments[2:] == samples.segments[:-2]
    bend[1:-1][within] = np.diff(x, n=2, axis=0)[within]
    return bend
