"""Compute intervals of dropped parameters, and the effect of dropped parameters on the kept ones.

Dropped parameters are set to zero because held-out rows are predicted as well without them. This does not prove that
they are zero: the kept parameters have absorbed their effect. With A the weighted normal matrix, K the kept parameters
and l a dropped one, values change together along

    v_l = e_l - A_KK^-1 A_Kl,

which changes the torque little on the motion of the logs, and more on other motions.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mindyn.foundation.algebra.significance import NORMAL_95
from mindyn.foundation.algebra.values import Array
from mindyn.identification.estimators.estimate import Estimate
from mindyn.identification.estimators.estimate_records import FEWEST_BLOCKS, JackknifeDeviation
from mindyn.identification.uncertainty.block_deviation import jackknife, list_some, weighted_blocks
from mindyn.regression.gather_blocks import Block
from mindyn.regression.information import add_information, solve


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
        f" Intervals assume that dropped parameters are zero; otherwise {list_some(names)} would change by more than "
        "their deviation."
    )
    return estimate.with_uncertainty(dropped_ends=ends, dropped_shifts=shifts).with_provenance(
        status=estimate.status + (status if names else "")
    )


def find_dropped(estimate: Estimate, blocks: Sequence[Block]) -> tuple[Array, Array] | None:
    """Return 95 % intervals (2, p) of dropped parameters from a fit that includes them, and the shifts (k, p) that they
    may cause.

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
