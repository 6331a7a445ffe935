"""What moving an estimate's parameters costs: columns (p, k) of moves, each worth one standard deviation."""

from __future__ import annotations

from typing import Final

import numpy as np

from mindyn.algebra.values import Array
from mindyn.errors import InputError
from mindyn.estimators.estimate import Estimate
from mindyn.kernels.model import compile_model
from mindyn.logs.samples import Samples
from mindyn.regression.gathering import gather
from mindyn.regression.information import Information

DROPPED: Final = 1e-14
"""Part of the largest eigenvalue of the correlation matrix below which a direction counts as exactly known."""
WEAKEST: Final = 1e-6
"""Part of the largest singular value of scaled data that directions cost at least."""
STATES: Final = 500
"""Random states at which a parameter's torque is looked at."""
EXACT: Final = 1e-6
"""Residual, as part of the torque, below which a fit counts as that exact."""


def covariance_moves(estimate: Estimate) -> Array:
    """Of the parameters that have a variance: independent directions of their covariance by noise alone."""
    estimate = estimate.by_noise_alone()
    deviations = estimate.deviations
    told = np.flatnonzero(np.isfinite(deviations) & (deviations > 0))
    correlations = estimate.correlations[np.ix_(told, told)]
    eigenvalues, vectors = np.linalg.eigh((correlations + correlations.T) / 2)
    kept = eigenvalues > DROPPED * eigenvalues.max(initial=0.0)
    moves = np.zeros((len(deviations), int(kept.sum())))
    moves[told] = deviations[told, None] * vectors[:, kept] * np.sqrt(eigenvalues[kept])
    return moves


def noticed_moves(estimate: Estimate, q: Array, seed: int) -> Array:
    """(p, p), diagonal: moves of single parameters that as many rows as the fit's would just notice.

    1 / sqrt(sum_j rows_j mean(Y_jk^2) / rms_j^2) at configurations q (N, n) and random speeds and accelerations up to
    1 rad/s and 1 rad/s^2: a stand-in where the covariance says nothing of a parameter and the data are not at hand.
    """
    rng = np.random.default_rng(seed)
    q = q[:STATES]
    qd, qdd = rng.uniform(-1, 1, (2, *q.shape))
    base = estimate.base
    Y = compile_model(base.robot, drives=base.drives, base=base).regressor(q, qd, qdd)
    worth = np.ones(q.shape[1])
    if estimate.residuals:
        rms = np.array([max(one.rms, EXACT * one.rms_torque, 1e-300) for one in estimate.residuals])
        worth = np.array([one.rows for one in estimate.residuals]) / rms**2
    told = np.einsum("j,kjp->p", worth, Y**2) / len(Y)
    sizes = np.zeros(len(estimate.beta))
    sizes[: base.count] = np.where(told > 0, 1 / np.sqrt(np.where(told > 0, told, 1.0)), 0.0)
    return np.diag(sizes)


def data_moves(estimate: Estimate, data: Samples | Information) -> Array:
    """Of all parameters: independent directions of R, |R x|^2 the weighted squared residuals that a move x adds.

    Directions that the data hardly tell cost WEAKEST of the best-told one.
    """
    information = data if isinstance(data, Information) else _information(estimate, data)
    if information.names != estimate.names:
        raise InputError("the data are of other parameters than the estimate's: robot or friction differ")
    left = np.maximum(information.residuals(estimate.beta), EXACT**2 * information.torques())
    R, _ = information.stacked(np.array(information.counts) / np.maximum(left, 1e-300))
    scales = np.linalg.norm(R, axis=0)
    scales = np.where(scales > 0, scales, 1.0)
    _, s, Vt = np.linalg.svd(R / scales, full_matrices=True)
    s = np.maximum(np.append(s, np.zeros(len(Vt) - len(s))), WEAKEST * s.max())
    return np.asarray(Vt.T / s / scales[:, None])


def _information(estimate: Estimate, samples: Samples) -> Information:
    return gather(estimate.regressor, samples, cutoff_hz=estimate.filter_hz, decimation=estimate.treatment.step)
