"""Errors that no residual shows: the torque's timing and the parameters left out, as an addition to the covariance.

A motion moved by t against its torque moves the estimate by t dbeta/dt, and leaving parameters out moves the others to
where those would not have put them. Noise averages out over a long log, these shifts do not. What the data say of both
widens the intervals; the estimate stays where it is.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
from scipy.signal import lfilter

from mindyn.algebra.values import Array
from mindyn.estimators.covariance import Colouring, colouring_of, joint_rows
from mindyn.estimators.estimate import Estimate, unfiltered_prediction
from mindyn.logs.samples import Samples
from mindyn.regression.gathering import gather, segment_ends
from mindyn.regression.information import solve

JUMPS: Final = ("fc", "f_")
"""Beginnings of the names of friction that turns over with the direction. Where it does is a matter of single rows,
which says less of the timing than it would seem: the smooth torque alone is asked."""


class _Columns:
    """Rows as the fit of an estimate sees them, weighted by its residuals there."""

    def __init__(self, found: Estimate, samples: Samples, decimation: int) -> None:
        self.found, self.samples, self.decimation = found, samples, decimation
        self.residuals = self.rest(samples.tau, found.beta)
        floors = 1e-24 * np.maximum((samples.tau**2).mean(axis=0), 1e-300)
        self.weights = np.array(
            [1 / max(float(e @ e) / len(e), f) for e, f in zip(self.residuals, floors, strict=True)]
        )

    def explained(self, tau: Array, *, all_columns: bool = False) -> Array:
        """(p,) the least-squares solution of Y x = tau, zero for parameters that were left out."""
        found = self.found
        data = replace(self.samples, tau=tau)
        information = gather(found.regressor, data, cutoff_hz=found.filter_hz, decimation=self.decimation)
        R, z = information.stacked(self.weights)
        kept = np.array([all_columns or name not in found.left_out for name in found.names])
        x = np.zeros(len(kept))
        x[kept] = solve(R[:, kept], z).beta
        return x

    def rest(self, tau: Array, x: Array) -> list[Array]:
        """For each joint tau - Y x at the rows of the fit."""
        found, data = self.found, replace(self.samples, tau=tau)
        parts: list[list[Array]] = [[] for _ in found.regressor.columns]
        for joint, rows, _ in joint_rows(found.regressor, data, found.filter_hz, self.decimation):
            parts[joint].append(rows @ np.append(-x[found.regressor.columns[joint]], 1.0))
        return [np.concatenate(one) for one in parts]

    def colouring(self) -> Colouring:
        found = self.found
        return colouring_of(found.regressor, found.beta, self.samples, found.filter_hz, self.decimation)


def with_systematic_errors(found: Estimate, samples: Samples, decimation: int) -> Estimate:
    """The estimate with a covariance that includes the shifts by timing and by parameters left out.

    samples, decimation   what it was fitted to
    """
    columns = _Columns(found, samples, decimation)
    moved, seconds, deviation = timing_error(columns)
    shifts = [moved * np.hypot(seconds, deviation), left_out_shift(columns)]
    told = np.isfinite(found.deviations) & np.array([name not in found.left_out for name in found.names])
    covariance = found.covariance.copy()
    for shift in shifts:
        covariance += np.outer(shift * told, shift * told)
    noted = {"timing_s": seconds, "timing_deviation_s": deviation}
    return replace(found, covariance=covariance).with_provenance(systematic=noted)


def timing_error(columns: _Columns) -> tuple[Array, float, float]:
    """dbeta/dt (p,) of a motion later by t, how late the residuals say it is, s, and the standard deviation of that.

    One step of Gauss and Newton in t beside beta: the part of the torque's slope that no parameter explains is compared
    with the residuals.
    """
    slope = _slope(columns.found, columns.samples)
    taken_up = columns.explained(slope)
    alone = columns.rest(slope, taken_up)
    weights, residuals, colouring = columns.weights, columns.residuals, columns.colouring()
    information = sum(w * float(a @ a) for w, a in zip(weights, alone, strict=True))
    if not information > 0:
        return np.zeros_like(taken_up), 0.0, 0.0
    seconds = sum(w * float(a @ e) for w, a, e in zip(weights, alone, residuals, strict=True)) / information
    spread = 0.0
    for w, a, shape, variance in zip(weights, alone, colouring.coefficients, colouring.variances, strict=True):
        shaped = lfilter([1.0], shape, a)
        spread += w**2 * variance * float(shaped @ shaped)
    return taken_up, float(seconds), float(np.sqrt(spread) / information)


def left_out_shift(columns: _Columns) -> Array:
    """(p,) by how much the parameters that were kept would differ if none had been left out."""
    if not columns.found.left_out:
        return np.zeros(len(columns.found.names))
    tau = columns.samples.tau
    return columns.explained(tau, all_columns=True) - columns.explained(tau)


def _slope(found: Estimate, samples: Samples) -> Array:
    """(N, n) derivative of the expected torque by a delay of the motion, friction's direction as it is."""
    smooth = np.where([name.startswith(JUMPS) for name in found.names], 0.0, found.beta)
    tau = unfiltered_prediction(found.regressor, smooth, samples)
    slope = np.zeros_like(tau)
    for start, stop in segment_ends(samples.segments):
        if stop - start > 1:
            slope[start:stop] = -np.gradient(tau[start:stop], 1.0 / samples.rate_hz, axis=0)
    return slope
