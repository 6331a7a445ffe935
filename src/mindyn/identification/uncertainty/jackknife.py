"""Intervals that hold: what blocks of the data, left out in turn, say of the spread beside what the noise model says.

Residuals of a real arm are mostly what the model lacks: they come again with the motion, so that neither their number
nor their correlation in time says how far they move the estimate. Blocks do: left out in turn they give the jackknife

    V = (m - 1) / m  sum_b d_b d_b^T,   d_b = beta without block b - beta

with m blocks: contiguous parts of the logs, or of a motion that repeats its phases, since a repetition is no new
evidence. The model's covariance C becomes S C S with S_k = max(1, sqrt(V_kk / C_kk)), and the quantile is Student's.

A parameter is told by 1 / sum_b h_b^2 blocks in effect, h_b the share of block b in its variance; where these are fewer
than three, blocks cannot say how they differ, and the model's spread stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mindyn.algebra.values import Array
from mindyn.estimators.estimate import Estimate
from mindyn.estimators.estimate_parts import FEWEST_BLOCKS, JackknifeDeviation
from mindyn.findings import Finding, Kind, info
from mindyn.regression.gather_blocks import Block
from mindyn.regression.information import RANK_TOLERANCE, Information

NAMED: Final = 5
"""Parameters named in a sentence."""


def with_jackknife_deviation(found: Estimate, blocks: Sequence[Block]) -> Estimate:
    """The estimate with the covariance S C S, and what it rests on; as it is where there are too few blocks.

    blocks  `RowPointer.evidence` of the rows that it was fitted to
    """
    parts = [block.information for block in blocks if sum(block.information.counts)]
    if len(parts) < FEWEST_BLOCKS or found.joint_weights is None or found.residual_of != "torque":
        return found
    if len(found.joint_weights) != len(parts[0].factors):
        return found
    kept = np.array([name not in found.dropped and name not in found.unidentifiable for name in found.names])
    if not kept.any():
        return found
    deviations, telling = np.zeros(len(kept)), np.zeros(len(kept))
    deviations[kept], telling[kept] = jackknife(parts, found.joint_weights, kept)
    judged = kept & (telling >= FEWEST_BLOCKS) & (found.deviations > 0)
    widened = np.ones(len(kept))
    widened[judged] = np.maximum(1.0, deviations[judged] / found.deviations[judged])
    finite = np.where(np.isfinite(found.covariance), found.covariance, 0.0) * np.outer(widened, widened)
    wider = replace(
        found,
        covariance=np.where(np.isfinite(found.covariance), finite, found.covariance),
        shifts=None if found.shifts is None else found.shifts * widened,
        jackknife=JackknifeDeviation(len(parts), any(block.phase is not None for block in blocks), telling, widened),
    )
    return replace(wider, findings=(*found.findings, *_findings(wider, kept & ~judged)))


def jackknife(parts: Sequence[Information], weights: Array, kept: NDArray[np.bool_]) -> tuple[Array, Array]:
    """Standard deviations of the kept parameters by leaving out parts in turn, and how many parts tell each."""
    stacked = [one.stacked(weights) for one in parts]
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
    """Of a symmetric matrix without its negligible directions; RANK is of R, whose square this is."""
    values, vectors = np.linalg.eigh(matrix)
    large = values > max(RANK_TOLERANCE**2, 1e-14) * values[-1]
    return np.asarray((vectors[:, large] / values[large]) @ vectors[:, large].T)


def _findings(found: Estimate, unjudged: NDArray[np.bool_]) -> list[Finding]:
    names = [name for name, one in zip(found.names, unjudged, strict=True) if one]
    if not names:
        return []
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    told = f"{', '.join(names[:NAMED])}{more}"
    part = "phases of the motion" if found.jackknife and found.jackknife.repeated else "parts of the logs"
    message = f"fewer than three {part} determine {told}: their intervals rest on the noise model alone"
    return [info(Kind.NARROW_INTERVALS, message)]
