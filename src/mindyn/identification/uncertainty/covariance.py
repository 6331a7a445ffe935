"""Widen the covariance by errors that do not average out: timing, finite differences, and model errors (jackknife).

A motion that is delayed by t relative to its torque shifts the estimate by t dbeta/dt. Central differences attenuate
fast motion, so that inertias appear larger. Noise averages out over a long log; these shifts do not. They inflate the
intervals; the estimate does not change.

Residuals of a real arm are mostly model errors. They repeat with the motion, so that neither their number nor their
correlation in time determines how far they move the estimate. Blocks do: omitting each in turn gives the jackknife

    V = (m - 1) / m  sum_b d_b d_b^T,   d_b = beta without block b - beta

with m blocks: contiguous parts of the logs or, if the motion repeats, its phases, since a repetition adds no
information about model errors. The model's covariance C becomes S C S with S_k = max(1, sqrt(V_kk / C_kk)), and the
quantile is Student's.

Contiguous blocks have nearly the same model errors if the motion has the same conditions in each. Groups of rows that
differ in speed, load, posture or direction (`regression.conditions`) have not: for each condition the same sum over its
groups gives V_c, and

    S_k = sqrt((max(C_kk, V_kk) + E_kk) / C_kk),   E_kk = max(0, mean_c V_c,kk - V_kk)

adds the amount by which the values differ more between conditions than between blocks.

Effectively 1 / sum_b h_b^2 blocks determine a parameter, h_b being the fraction of block b in its information. If these
are fewer than three, blocks cannot determine their deviation, and the model's deviation stays.

Compute intervals of dropped parameters, and their effect on the kept ones.

Dropped parameters are set to zero because held-out rows are predicted as well without them, which does not prove that
they are zero. The kept parameters have absorbed them: with A the weighted normal matrix, K the kept parameters and l a
dropped one, values change together along

    v_l = e_l - A_KK^-1 A_Kl,

which changes the torque little on the motion of the logs, and more on other motions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mindyn.foundation.algebra.jackknife import jackknife_variances
from mindyn.foundation.algebra.normal_equations import invert_normal_matrix, solve_normal_equations
from mindyn.foundation.algebra.significance import NORMAL_95
from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, InputError
from mindyn.foundation.findings import Finding, Kind, info
from mindyn.identification.estimators.coloured_noise import colouring_of, joint_rows, shape_noise
from mindyn.identification.estimators.estimate import Estimate, predict_unfiltered
from mindyn.identification.estimators.records import FEWEST_BLOCKS, JackknifeDeviation
from mindyn.identification.uncertainty.conditions import excess_of_conditions
from mindyn.logs.conditioning import Conditioning
from mindyn.logs.samples import Samples
from mindyn.regression.gather_blocks import Block
from mindyn.regression.information import Information, add_information, solve
from mindyn.regression.row_blocks import gather, segment_ends

NAMED: Final = 5
"""Largest number of parameters that a message names."""


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
        """Return (p,) the least-squares solution of Y x = tau, zero for dropped parameters."""
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
        """Return tau - Y x at the rows of the fit, for each joint."""
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
    """Return the estimate with a covariance that includes the shifts by timing and differences.

    samples, conditioning   of the fit; samples may be segments of the logs
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
    """Return dbeta/dt (p,) for a motion delayed by t, the best t in s, and its standard deviation.

    This is one Gauss-Newton step in t and beta together: the part of the torque's slope that no parameter explains is
    compared with the residuals.
    """
    estimate, samples = rows.estimate, rows.samples
    slope = _slope(estimate, samples)
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
    """Return (p,) the shift of the values that more accurate differences would cause.

    A central difference is x' + h^2 x''' / 6 to the next order, h being the step between rows.
    """
    of_speed = (conditioning.velocity == "differentiated") / 6
    of_acceleration = of_speed + 1 / 6 if conditioning.acceleration == "differentiated" else 0.0
    samples = rows.samples
    better = replace(
        samples,
        qd=samples.qd - of_speed * _bend(samples.qd, samples),
        qdd=samples.qdd - of_acceleration * _bend(samples.qdd, samples),
    )
    return rows.explained(_smooth_torque(rows.estimate, samples) - _smooth_torque(rows.estimate, better))


def _slope(estimate: Estimate, samples: Samples) -> Array:
    """Return d tau / d delay (N, n) of the predicted torque if the motion is delayed; friction keeps its direction."""
    tau = _smooth_torque(estimate, samples)
    slope = np.zeros_like(tau)
    for start, stop in segment_ends(samples.segments):
        if stop - start > 1:
            slope[start:stop] = -np.gradient(tau[start:stop], 1.0 / samples.rate_hz, axis=0)
    return slope


def _smooth_torque(estimate: Estimate, samples: Samples) -> Array:
    """Return (N, n) the predicted torque without friction that depends on the direction.

    Reversals affect single rows, which determine the timing less well than they would appear to.
    """
    smooth = np.where([parameter.depends_on_direction for parameter in estimate.parameters], 0.0, estimate.beta)
    return predict_unfiltered(estimate.regressor, smooth, samples)


def _bend(x: Array, samples: Samples) -> Array:
    """Return x[k+1] - 2 x[k] + x[k-1], zero at the ends of segments."""
    bend = np.zeros_like(x)
    within = samples.segments[2:] == samples.segments[:-2]
    bend[1:-1][within] = np.diff(x, n=2, axis=0)[within]
    return bend


def weighted_blocks(estimate: Estimate, blocks: Sequence[Block]) -> list[Block]:
    """Return the blocks with rows; none unless the fit minimises torque residuals with joint weights."""
    weights, filled = estimate.data.joint_weights, [block for block in blocks if sum(block.information.counts)]
    if estimate.data.residual_of != "torque" or weights is None or not filled:
        return []
    return filled if len(weights) == len(filled[0].information.factors) else []


def with_jackknife_deviation(estimate: Estimate, blocks: Sequence[Block], conditions: Sequence[Array] = ()) -> Estimate:
    """Return the estimate with the covariance S C S and the jackknife; unchanged if there are too few blocks.

    blocks      `Rows.independent_blocks` of the rows that were fitted
    conditions  shifts (groups, p) of the values between groups of rows, for each condition (`find_condition_shifts`)
    """
    parts = [block.information for block in weighted_blocks(estimate, blocks)]
    kept = np.array(
        [name not in estimate.values.dropped and name not in estimate.values.unidentifiable for name in estimate.names]
    )
    if len(parts) < FEWEST_BLOCKS or estimate.data.joint_weights is None or not kept.any():
        return estimate
    deviations, block_counts = np.zeros(len(kept)), np.zeros(len(kept))
    deviations[kept], block_counts[kept] = jackknife(parts, estimate.data.joint_weights, kept)
    is_determined = kept & (block_counts >= FEWEST_BLOCKS) & (estimate.deviations > 0)
    inflated = np.ones(len(kept))
    variances = deviations**2 + excess_of_conditions(conditions, deviations**2)
    inflated[is_determined] = np.sqrt(
        np.maximum(1.0, variances[is_determined] / estimate.deviations[is_determined] ** 2)
    )
    finite = np.where(np.isfinite(estimate.covariance), estimate.covariance, 0.0) * np.outer(inflated, inflated)
    wider = estimate.with_uncertainty(
        covariance=np.where(np.isfinite(estimate.covariance), finite, estimate.covariance),
        shifts=None if estimate.uncertainty.shifts is None else estimate.uncertainty.shifts * inflated,
        jackknife=JackknifeDeviation(
            len(parts), any(block.phase is not None for block in blocks), block_counts, inflated
        ),
    )
    return wider.with_provenance(findings=(*estimate.findings, *_findings(wider, kept & ~is_determined)))


def jackknife(parts: Sequence[Information], weights: Array, kept: NDArray[np.bool_]) -> tuple[Array, Array]:
    """Return standard deviations of the kept parameters by omitting parts in turn, and the effective parts for each."""
    stacked = [part.stacked(weights) for part in parts]
    normal = np.array([R[:, kept].T @ R[:, kept] for R, _ in stacked])
    right = np.array([R[:, kept].T @ z for R, z in stacked])
    whole = normal.sum(axis=0)
    inverse = invert_normal_matrix(whole)
    beta = inverse @ right.sum(axis=0)
    # Without block b the normal equations are (A - A_b) d = A_b beta - g_b.
    moved = np.array([solve_normal_equations(whole - A, A @ beta - g) for A, g in zip(normal, right, strict=True)])
    shares = np.einsum("ij,bjk,ki->bi", inverse, normal, inverse) / np.maximum(np.diag(inverse), 1e-300)
    m = len(parts)
    deviations = np.sqrt(jackknife_variances(moved))
    return deviations, 1 / np.maximum((shares**2).sum(axis=0), 1 / m)


def _findings(estimate: Estimate, poorly_determined: NDArray[np.bool_]) -> list[Finding]:
    names = [name for name, is_listed in zip(estimate.names, poorly_determined, strict=True) if is_listed]
    if not names:
        return []
    part = (
        "phases of the motion"
        if estimate.uncertainty.jackknife and estimate.uncertainty.jackknife.repeated
        else "parts of the logs"
    )
    message = f"fewer than three {part} determine {_list_some(names)}: their intervals include only the noise model"
    return [info(Kind.NARROW_INTERVALS, message)]


def _list_some(names: Sequence[str]) -> str:
    """Return "a, b and 3 more"."""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"{', '.join(names[:NAMED])}{more}"


def with_dropped_parameters(estimate: Estimate, blocks: Sequence[Block]) -> Estimate:
    """Return the estimate with intervals of the dropped parameters, and the shifts that they may cause.

    blocks  `Rows.independent_blocks` of the rows that were fitted
    """
    if (dropped := find_dropped(estimate, blocks)) is None:
        return estimate.with_uncertainty(dropped_ends=None, dropped_shifts=None)
    ends, shifts = dropped
    sizes = np.linalg.norm(shifts, axis=0)
    is_moved = (estimate.deviations > 0) & (sizes > estimate.deviations)
    names = [estimate.names[k] for k in np.argsort(-sizes / estimate.deviations.clip(1e-100)) if is_moved[k]]
    status = (
        f" Intervals assume that dropped parameters are zero; otherwise {_list_some(names)} would change by more than "
        "their deviation."
    )
    return estimate.with_uncertainty(dropped_ends=ends, dropped_shifts=shifts).with_provenance(
        status=estimate.status + (status if names else "")
    )


def find_dropped(estimate: Estimate, blocks: Sequence[Block]) -> tuple[Array, Array] | None:
    """Return (2, p) 95 % intervals of dropped parameters, from a fit that includes them, and (k, p) the shifts they may
    cause.

    Intervals are NaN for kept parameters and for unidentifiable ones; zero is always inside.
    """
    parts, weights = [block.information for block in weighted_blocks(estimate, blocks)], estimate.data.joint_weights
    if not estimate.values.dropped or not parts or weights is None:
        return None
    information = add_information(parts)
    unidentifiable = information.unidentifiable(weights)
    asked = np.array([name not in unidentifiable for name in estimate.names])
    R, z = information.stacked(weights)
    step = solve(R[:, asked], z)
    white = deviations = np.sqrt(np.maximum(np.diag(step.inverse), 0.0))
    quantiles = np.full(len(deviations), NORMAL_95)
    if len(parts) >= FEWEST_BLOCKS:
        jackknifed, block_counts = jackknife(parts, weights, asked)
        is_determined = block_counts >= FEWEST_BLOCKS
        deviations = np.where(is_determined, np.maximum(deviations, jackknifed), deviations)
        quantiles = JackknifeDeviation(len(parts), False, block_counts, np.ones(len(block_counts))).quantiles
    ends = np.full((2, len(asked)), np.nan)
    ends[0, asked] = np.minimum(0.0, step.beta - quantiles * deviations)
    ends[1, asked] = np.maximum(0.0, step.beta + quantiles * deviations)
    dropped = np.array([name in estimate.values.dropped for name in estimate.names])
    ends[:, ~dropped] = np.nan
    inflated = deviations / np.where(white > 0, white, 1.0)
    places = dropped[asked]
    covariance = step.inverse[np.ix_(places, places)] * np.outer(inflated[places], inflated[places])
    squares = covariance + np.outer(step.beta[places], step.beta[places])
    directions = np.eye(len(asked))[asked & dropped]
    directions[:, ~dropped] = -solve(R[:, ~dropped], R[:, asked & dropped]).beta.T
    values, vectors = np.linalg.eigh(squares)
    return ends, np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))).T @ directions)
