"""Errors that residuals hardly show: timing and finite differences as part of the covariance, parameters left out told.

A motion that is late by t against its torque moves the estimate by t dbeta/dt, and central differences make fast motion
slower, so that its inertias seem larger. Noise averages out over a long log, these shifts do not. What the data say of
them widens the intervals; the estimate stays where it is.

What is left out is taken over by what is kept. Intervals take it for zero: where the data cannot tell the two apart,
the shift says nothing of the error, so that it is no part of the covariance but of the status.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
from scipy.signal import lfilter

from mindyn.algebra.values import Array
from mindyn.errors import InputError
from mindyn.estimators.covariance import Colouring, colouring_of, joint_rows
from mindyn.estimators.estimate import Estimate, predict_unfiltered
from mindyn.logs.conditioning import Conditioning
from mindyn.logs.samples import Samples
from mindyn.regression.information import solve
from mindyn.regression.row_blocks import gather, segment_ends

NAMED: Final = 5
"""Parameters named in a sentence."""


class FitRows:
    """Rows as the fit of an estimate sees them, weighted by its residuals there; see `with_systematic_errors`."""

    def __init__(self, found: Estimate, samples: Samples) -> None:
        self.found, self.samples, self.decimation = found, samples, found.settings.step
        self.residuals = self.rest(samples.tau, found.beta)
        squares = np.array([float(e @ e) / len(e) for e in self.residuals])
        power = (samples.tau**2).mean(axis=0)
        # A joint without any torque says nothing.
        self.weights = np.where(power > 0, 1 / np.maximum(squares, np.where(power > 0, 1e-24 * power, 1.0)), 0.0)

    def explained(self, tau: Array, *, all_columns: bool = False) -> Array:
        """(p,) the least-squares solution of Y x = tau, zero for parameters that were left out."""
        found = self.found
        data = replace(self.samples, tau=tau)
        information = gather(found.regressor, data, cutoff_hz=found.filter_hz, decimation=self.decimation)
        R, z = information.stacked(self.weights)
        kept = np.array([all_columns or name not in found.dropped for name in found.names])
        x = np.zeros(len(kept))
        x[kept] = solve(R[:, kept], z).beta
        return x

    def rest(self, tau: Array, x: Array) -> list[Array]:
        """For each joint tau - Y x at the rows of the fit."""
        found, data = self.found, replace(self.samples, tau=tau)
        parts: list[list[Array]] = [[] for _ in found.regressor.columns]
        for joint, block, _ in joint_rows(found.regressor, data, found.filter_hz, self.decimation):
            parts[joint].append(block @ np.append(-x[found.regressor.columns[joint]], 1.0))
        if not all(parts):
            raise InputError("no rows are left to judge by")
        return [np.concatenate(one) for one in parts]

    def colouring(self) -> Colouring:
        """The processes of the residuals."""
        found = self.found
        return colouring_of(found.regressor, found.beta, self.samples, found.filter_hz, self.decimation)


def with_systematic_errors(
    found: Estimate, samples: Samples, conditioning: Conditioning, fitted: int | None = None
) -> Estimate:
    """The estimate with a covariance that includes the shifts by timing and differences.

    samples, conditioning   what it was fitted to, or stretches of that, and how it was made
    fitted                  number of samples of the fit; that of `samples` if left out
    """
    rows = FitRows(found, samples)
    moved, seconds, deviation = timing_error(rows)
    # Of stretches alone the timing is told less well than by the whole: their own noise is taken out of it.
    share = min(1.0, len(samples) / fitted) if fitted else 1.0
    seconds = float(np.sign(seconds) * np.sqrt(max(0.0, seconds**2 - (1 - share) * deviation**2)))
    deviation *= float(np.sqrt(share))
    told = np.isfinite(found.deviations) & np.array([name not in found.dropped for name in found.names])
    shifts = np.array([moved * np.hypot(seconds, deviation), difference_shift(rows, conditioning)]) * told
    wider = replace(found, covariance=found.covariance + shifts.T @ shifts, shifts=shifts)
    by_rest = dropped_shift(rows) * told
    noted = {
        "timing_s": seconds,
        "timing_deviation_s": deviation,
        "moved_by_left_out": {name: float(d) for name, d in zip(found.names, by_rest, strict=True) if d},
    }
    return replace(wider, status=found.status + _describe_rest(wider, by_rest)).with_provenance(systematic=noted)


def _describe_rest(found: Estimate, shift: Array) -> str:
    """Which parameters would move by more than their deviation with none left out, the most moved first."""
    parts = np.abs(shift) / np.where(shift != 0, found.deviations, 1.0)
    order = [k for k in np.argsort(-parts) if parts[k] > 1]
    if not order:
        return ""
    more = f" and {len(order) - NAMED} more" if len(order) > NAMED else ""
    names = ", ".join(found.names[k] for k in order[:NAMED])
    return f" Intervals take what was left out for zero; with it {names}{more} would move by more than their deviation."


def timing_error(rows: FitRows) -> tuple[Array, float, float]:
    """dbeta/dt (p,) of a motion delayed by t, the t in s that the residuals ask for, and its standard deviation.

    One step of Gauss and Newton in t beside beta: the part of the torque's slope that no parameter explains is compared
    with the residuals.
    """
    slope = _slope(rows.found, rows.samples)
    taken_up = rows.explained(slope)
    alone = rows.rest(slope, taken_up)
    weights, residuals, colouring = rows.weights, rows.residuals, rows.colouring()
    information = sum(w * float(a @ a) for w, a in zip(weights, alone, strict=True))
    if not information > 0:
        return np.zeros_like(taken_up), 0.0, 0.0
    seconds = sum(w * float(a @ e) for w, a, e in zip(weights, alone, residuals, strict=True)) / information
    spread = 0.0
    for w, a, shape, variance in zip(weights, alone, colouring.coefficients, colouring.variances, strict=True):
        shaped = lfilter([1.0], shape, a)
        spread += w**2 * variance * float(shaped @ shaped)
    return -taken_up, float(seconds), float(np.sqrt(spread) / information)


def difference_shift(rows: FitRows, conditioning: Conditioning) -> Array:
    """(p,) by how much better differences would move the values.

    A central difference is x' + h^2 x''' / 6 to the next order, h the step between rows.
    """
    if conditioning.differentiation != "central":
        return np.zeros(len(rows.found.names))
    of_speed = (conditioning.velocity == "differentiated") / 6
    of_acceleration = of_speed + 1 / 6 if conditioning.acceleration == "differentiated" else 0.0
    samples, scale = rows.samples, conditioning.decimation**-2
    better = replace(
        samples,
        qd=samples.qd - of_speed * scale * _bend(samples.qd, samples),
        qdd=samples.qdd - of_acceleration * scale * _bend(samples.qdd, samples),
    )
    return rows.explained(_smooth_torque(rows.found, samples) - _smooth_torque(rows.found, better))


def dropped_shift(rows: FitRows) -> Array:
    """(p,) by how much the parameters that were kept would differ if none had been left out."""
    if not rows.found.dropped:
        return np.zeros(len(rows.found.names))
    tau = rows.samples.tau
    return rows.explained(tau, all_columns=True) - rows.explained(tau)


def _slope(found: Estimate, samples: Samples) -> Array:
    """(N, n) derivative of the expected torque by a delay of the motion, friction's direction as it is."""
    tau = _smooth_torque(found, samples)
    slope = np.zeros_like(tau)
    for start, stop in segment_ends(samples.segments):
        if stop - start > 1:
            slope[start:stop] = -np.gradient(tau[start:stop], 1.0 / samples.rate_hz, axis=0)
    return slope


def _smooth_torque(found: Estimate, samples: Samples) -> Array:
    """(N, n) the expected torque without friction that turns over with the direction.

    Where it does is a matter of single rows, which says less of the timing than it would seem.
    """
    smooth = np.where([one.depends_on_direction for one in found.parameters], 0.0, found.beta)
    return predict_unfiltered(found.regressor, smooth, samples)


def _bend(x: Array, samples: Samples) -> Array:
    """x[k+1] - 2 x[k] + x[k-1], zero at the ends of segments."""
    bend = np.zeros_like(x)
    within = samples.segments[2:] == samples.segments[:-2]
    bend[1:-1][within] = np.diff(x, n=2, axis=0)[within]
    return bend
