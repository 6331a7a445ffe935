"""Inflate the covariance to the standard deviation between blocks (jackknife).

Residuals of a real arm are mostly model errors. They repeat with the motion, so that neither their number nor their
correlation in time determines how far they move the estimate. Blocks do: omitting each in turn gives the jackknife

    V = (m - 1) / m  sum_b d_b d_b^T,   d_b = beta without block b - beta

with m blocks: contiguous parts of the logs or, if the motion repeats, its phases, since a repetition adds no
information about model errors. The model's covariance C becomes S C S with S_k = max(1, sqrt(V_kk / C_kk)), and the
quantile is Student's.

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

from mindyn.algebra.deviations import NORMAL_95
from mindyn.algebra.values import Array
from mindyn.estimators.estimate import Estimate
from mindyn.estimators.estimate_parts import FEWEST_BLOCKS, JackknifeDeviation
from mindyn.findings import Finding, Kind, info
from mindyn.regression.gather_blocks import Block
from mindyn.regression.information import RANK_TOLERANCE, Information, add_information, solve

NAMED: Final = 5
"""Largest number of parameters that a message names."""


def weighted_blocks(estimate: Estimate, blocks: Sequence[Block]) -> list[Block]:
    """Return the blocks with rows; none unless the fit minimises torque residuals with joint weights."""
    weights, filled = estimate.joint_weights, [block for block in blocks if sum(block.information.counts)]
    if estimate.residual_of != "torque" or weights is None or not filled:
        return []
    return filled if len(weights) == len(filled[0].information.factors) else []


def with_jackknife_deviation(estimate: Estimate, blocks: Sequence[Block]) -> Estimate:
    """Return the estimate with the covariance S C S and the jackknife; unchanged if there are too few blocks.

    blocks  `Rows.independent_blocks` of the rows that were fitted
    """
    parts = [block.information for block in weighted_blocks(estimate, blocks)]
    kept = np.array([name not in estimate.dropped and name not in estimate.unidentifiable for name in estimate.names])
    if len(parts) < FEWEST_BLOCKS or estimate.joint_weights is None or not kept.any():
        return estimate
    deviations, block_counts = np.zeros(len(kept)), np.zeros(len(kept))
    deviations[kept], block_counts[kept] = jackknife(parts, estimate.joint_weights, kept)
    is_determined = kept & (block_counts >= FEWEST_BLOCKS) & (estimate.deviations > 0)
    inflated = np.ones(len(kept))
    inflated[is_determined] = np.maximum(1.0, deviations[is_determined] / estimate.deviations[is_determined])
    finite = np.where(np.isfinite(estimate.covariance), estimate.covariance, 0.0) * np.outer(inflated, inflated)
    wider = replace(
        estimate,
        covariance=np.where(np.isfinite(estimate.covariance), finite, estimate.covariance),
        shifts=None if estimate.shifts is None else estimate.shifts * inflated,
        jackknife=JackknifeDeviation(
            len(parts), any(block.phase is not None for block in blocks), block_counts, inflated
        ),
    )
    return replace(wider, findings=(*estimate.findings, *_findings(wider, kept & ~is_determined)))


def jackknife(parts: Sequence[Information], weights: Array, kept: NDArray[np.bool_]) -> tuple[Array, Array]:
    """Return standard deviations of the kept parameters by omitting parts in turn, and the effective parts for each."""
    stacked = [part.stacked(weights) for part in parts]
    normal = np.array([R[:, kept].T @ R[:, kept] for R, _ in stacked])
    right = np.array([R[:, kept].T @ z for R, z in stacked])
    scales = np.sqrt(np.maximum(np.einsum("bii->i", normal), 1e-300))
    normal, right = normal / np.outer(scales, scales), right / scales
    whole = normal.sum(axis=0)
    inverse = _inverse(whole)
    beta = inverse @ right.sum(axis=0)
    # Without block b the normal equations are (A - A_b) d = A_b beta - g_b.
    moved = np.array([_inverse(whole - A) @ (A @ beta - g) for A, g in zip(normal, right, strict=True)])
    shares = np.einsum("ij,bjk,ki->bi", inverse, normal, inverse) / np.maximum(np.diag(inverse), 1e-300)
    m = len(parts)
    deviations = np.sqrt((m - 1) / m * (moved**2).sum(axis=0)) / scales
    return deviations, 1 / np.maximum((shares**2).sum(axis=0), 1 / m)


def _inverse(matrix: Array) -> Array:
    """Invert a symmetric matrix without its negligible directions; `RANK_TOLERANCE` refers to R, and this matrix to R^T
    R.
    """
    values, vectors = np.linalg.eigh(matrix)
    large = values > max(RANK_TOLERANCE**2, 1e-14) * values[-1]
    return np.asarray((vectors[:, large] / values[large]) @ vectors[:, large].T)


def _findings(estimate: Estimate, poorly_determined: NDArray[np.bool_]) -> list[Finding]:
    names = [name for name, is_listed in zip(estimate.names, poorly_determined, strict=True) if is_listed]
    if not names:
        return []
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    listed = f"{', '.join(names[:NAMED])}{more}"
    part = "phases of the motion" if estimate.jackknife and estimate.jackknife.repeated else "parts of the logs"
    message = f"fewer than three {part} determine {listed}: their intervals rest on the noise model alone"
    return [info(Kind.NARROW_INTERVALS, message)]


def with_dropped_parameters(estimate: Estimate, blocks: Sequence[Block]) -> Estimate:
    """Return the estimate with intervals of the dropped parameters, and the shifts that they may cause.

    blocks  `Rows.independent_blocks` of the rows that were fitted
    """
    ends, shifts = find_dropped(estimate, blocks) or (None, None)
    return replace(estimate, dropped_ends=ends, dropped_shifts=shifts)


def find_dropped(estimate: Estimate, blocks: Sequence[Block]) -> tuple[Array, Array] | None:
    """Return (2, p) 95 % intervals of dropped parameters, from a fit that includes them, and (k, p) the shifts they may
    cause.

    Intervals are NaN for kept parameters and for unidentifiable ones; zero is always inside.
    """
    parts, weights = [block.information for block in weighted_blocks(estimate, blocks)], estimate.joint_weights
    if not estimate.dropped or not parts or weights is None:
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
    dropped = np.array([name in estimate.dropped for name in estimate.names])
    ends[:, ~dropped] = np.nan
    inflated = deviations / np.where(white > 0, white, 1.0)
    places = dropped[asked]
    covariance = step.inverse[np.ix_(places, places)] * np.outer(inflated[places], inflated[places])
    squares = covariance + np.outer(step.beta[places], step.beta[places])
    directions = np.eye(len(asked))[asked & dropped]
    directions[:, ~dropped] = -solve(R[:, ~dropped], R[:, asked & dropped]).beta.T
    values, vectors = np.linalg.eigh(squares)
    return ends, np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))).T @ directions)
