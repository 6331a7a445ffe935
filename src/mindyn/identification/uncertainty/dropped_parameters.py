"""Compute intervals of dropped parameters, and their effect on the kept ones.

Dropped parameters are set to zero because held-out rows are predicted as well without them, which does not prove that
they are zero. The kept parameters have absorbed them: with A the weighted normal matrix, K the kept parameters and l a
dropped one, values change together along

    v_l = e_l - A_KK^-1 A_Kl,

which changes the torque little on the motion of the logs, and more on other motions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from mindyn.algebra.deviations import NORMAL_95
from mindyn.algebra.values import Array
from mindyn.estimators.estimate import Estimate
from mindyn.estimators.estimate_parts import FEWEST_BLOCKS, JackknifeDeviation
from mindyn.identification.uncertainty.jackknife import jackknife
from mindyn.regression.gather_blocks import Block
from mindyn.regression.information import add_information, solve


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
    parts = [block.information for block in blocks if sum(block.information.counts)]
    weights = estimate.joint_weights
    if not estimate.dropped or not parts or weights is None or estimate.residual_of != "torque":
        return None
    if len(weights) != len(parts[0].factors):
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
