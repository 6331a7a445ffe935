"""Widen the covariance by the deviation of the values between blocks of rows (jackknife), which includes model errors.

Residuals of a real arm are mostly model errors. Model errors repeat with the motion, so that neither the number of
residuals nor their correlation in time determines how far they move the estimate. Blocks do: omitting each block in
turn gives the jackknife

    V = (m - 1) / m  sum_b d_b d_b^T,   d_b = (beta without block b) - beta

with m blocks. Blocks are contiguous parts of the logs or, if the motion repeats, phases of the motion, because a
repetition adds no information about model errors. The covariance C of the noise model becomes S C S with S_k = max(1,
sqrt(V_kk / C_kk)), and the quantile is Student's.

If the motion has the same conditions in each contiguous block, all blocks have nearly the same model errors, and V is
too small. Groups of rows that differ in speed, load, posture or direction (`regression.condition_groups`) have
different model errors. For each condition c, the same sum over its groups gives V_c, and

    S_k = sqrt((max(C_kk, V_kk) + E_kk) / C_kk),   E_kk = max(0, mean_c V_c,kk - V_kk)

adds the amount by which the values differ more between conditions than between blocks.

The effective number of blocks that determine a parameter is 1 / sum_b h_b^2, where h_b is the fraction of its
information in block b. If this number is below three, blocks cannot determine the deviation of the parameter, and the
deviation of the noise model stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mindyn.foundation.algebra.jackknife import jackknife_variances
from mindyn.foundation.algebra.normal_equations import invert_normal_matrix, solve_normal_equations
from mindyn.foundation.algebra.values import Array
from mindyn.foundation.findings import Finding, Kind, info
from mindyn.identification.estimators.estimate import Estimate
from mindyn.identification.estimators.estimate_records import FEWEST_BLOCKS, JackknifeDeviation
from mindyn.identification.uncertainty.condition_shifts import excess_of_conditions
from mindyn.regression.gather_blocks import Block
from mindyn.regression.information import Information

NAMED: Final = 5
"""Largest number of parameters that a message names."""


def weighted_blocks(estimate: Estimate, blocks: Sequence[Block]) -> list[Block]:
    """Return the blocks that have rows; no blocks unless the fit minimises torque residuals with joint weights."""
    weights, filled = estimate.data.joint_weights, [block for block in blocks if sum(block.information.counts)]
    if estimate.data.residual_of != "torque" or weights is None or not filled:
        return []
    return filled if len(weights) == len(filled[0].information.factors) else []


def with_jackknife_deviation(estimate: Estimate, blocks: Sequence[Block], conditions: Sequence[Array] = ()) -> Estimate:
    """Return the estimate with the covariance S C S and the jackknife.

    If there are too few blocks, return it unchanged.

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
    return wider.with_provenance(
        findings=(*estimate.findings, *_narrow_interval_findings(wider, kept & ~is_determined))
    )


def jackknife(parts: Sequence[Information], weights: Array, kept: NDArray[np.bool_]) -> tuple[Array, Array]:
    """Return standard deviations of the kept parameters by omitting each part in turn, and the effective number of
    parts for each.
    """
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


def _narrow_interval_findings(estimate: Estimate, poorly_determined: NDArray[np.bool_]) -> list[Finding]:
    names = [name for name, is_listed in zip(estimate.names, poorly_determined, strict=True) if is_listed]
    if not names:
        return []
    part = (
        "phases of the motion"
        if estimate.uncertainty.jackknife and estimate.uncertainty.jackknife.repeated
        else "parts of the logs"
    )
    message = f"fewer than three {part} determine {list_some(names)}: their intervals include only the noise model"
    return [info(Kind.NARROW_INTERVALS, message)]


def list_some(names: Sequence[str]) -> str:
    """Return "a, b and 3 more"."""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"{', '.join(names[:NAMED])}{more}"
