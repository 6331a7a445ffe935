"""Compute how far values move between groups of rows under different conditions: speed, load, posture, direction.

Model errors repeat in every block of time, so that a jackknife over blocks hardly includes them. Between fast and slow
rows, or between large and small loads, model errors differ. With the normal equations A beta = g of all rows, and A_k,
g_k of group k,

    s_k = A^-1 (g_k - A_k beta),   V = m / (m - 1) sum_k s_k s_k^T

is the jackknife of m groups to first order, which stays finite where a single group determines a value. Without model
errors, V is the covariance due to noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mindyn.foundation.algebra.blas import run_on_one_blas_thread
from mindyn.foundation.algebra.normal_equations import invert_normal_matrix
from mindyn.foundation.algebra.values import Array
from mindyn.identification.estimators.estimate import Estimate, predict_unfiltered
from mindyn.logs.samples import Samples
from mindyn.regression.condition_groups import group_by_conditions
from mindyn.regression.gather_blocks import blocks_by_label
from mindyn.regression.information import Information

CONDITION_GAIN: Final = 2.0
"""Factor on the mean variance between conditions. Rates: `make study NAME=misfit`."""


@run_on_one_blas_thread
def find_condition_shifts(estimate: Estimate, samples: Samples) -> list[Array]:
    """Return the shifts s (groups, p) of the values for each condition; shifts of parameters that are not fitted are
    zero.

    samples  samples of the fit, or segments of them

    If the fit has no joint weights, the list is empty.
    """
    weights, regressor = estimate.data.joint_weights, estimate.regressor
    if estimate.data.residual_of != "torque" or weights is None or len(weights) != len(regressor.columns):
        return []
    kept = np.array(
        [name not in estimate.values.dropped and name not in estimate.values.unidentifiable for name in estimate.names]
    )
    if not kept.any():
        return []
    load = predict_unfiltered(regressor, np.where(regressor.rigid, estimate.beta, 0.0), samples)
    shifts = []
    for grouping in group_by_conditions(samples, load):
        groups = blocks_by_label(regressor, samples, estimate.settings, grouping.labels, grouping.groups)
        parts = [group.information for group in groups]
        if all(min(part.counts) > 0 for part in parts):
            moved = np.zeros((len(parts), len(kept)))
            moved[:, kept] = shifts_of_groups(parts, weights, kept)
            shifts.append(moved)
    return shifts


def shifts_of_groups(parts: Sequence[Information], weights: Array, kept: NDArray[np.bool_]) -> Array:
    """Return s (groups, kept), relative to the least-squares values of all groups."""
    stacked = [part.stacked(weights) for part in parts]
    normal = np.array([R[:, kept].T @ R[:, kept] for R, _ in stacked])
    right = np.array([R[:, kept].T @ z for R, z in stacked])
    inverse = invert_normal_matrix(normal.sum(axis=0))
    return np.asarray((right - normal @ (inverse @ right.sum(axis=0))) @ inverse)


def excess_of_conditions(
    shifts: Sequence[Array], variances: Array, rows: Array | None = None, gain: float = CONDITION_GAIN
) -> Array:
    """Return by how much the mean variance between conditions exceeds the variances (k,) between blocks; at least zero.

    rows  (k, p) linear functions of the values; None: the values themselves
    gain  factor by which the mean variance is multiplied, because it is uncertain if there are few groups
    """
    if not shifts:
        return np.zeros_like(variances)
    between = variances_of_conditions(shifts, rows).mean(axis=0)
    return np.asarray(np.maximum(0.0, gain * between - variances))


def variances_of_conditions(shifts: Sequence[Array], rows: Array | None = None) -> Array:
    """Return for each condition the variances (conditions, k) of the values, or of linear functions rows (k, p) of the
    values.
    """
    moved = [s if rows is None else s @ rows.T for s in shifts]
    return np.array([len(s) / (len(s) - 1) * (s**2).sum(axis=0) for s in moved])
