"""What parameters that were left out may be, and what the others then are.

They are set to zero because held-out rows do not miss them, which is no proof that they are. What was kept has taken
them over: with A the weighted normal matrix, K what was kept and l what was left out, values move together along

    v_l = e_l - A_KK^-1 A_Kl,

which changes little of the torque on the motion of the logs, and more of it on others.
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


def with_dropped_parameters(found: Estimate, blocks: Sequence[Block]) -> Estimate:
    """The estimate with intervals of what was left out, and the shifts that it may cause.

    blocks  `RowPointer.evidence` of the rows that it was fitted to
    """
    ends, shifts = find_dropped(found, blocks) or (None, None)
    return replace(found, dropped_ends=ends, dropped_shifts=shifts)


def find_dropped(found: Estimate, blocks: Sequence[Block]) -> tuple[Array, Array] | None:
    """(2, p) 95 % intervals of what was left out, by a fit with it, and (k, p) the shifts by what it may be.

    Intervals are NaN of others, and where open; zero is always within.
    """
    parts = [block.information for block in blocks if sum(block.information.counts)]
    weights = found.joint_weights
    if not found.dropped or not parts or weights is None or found.residual_of != "torque":
        return None
    if len(weights) != len(parts[0].factors):
        return None
    information = add_information(parts)
    open_ones = information.unidentifiable(weights)
    asked = np.array([name not in open_ones for name in found.names])
    R, z = information.stacked(weights)
    step = solve(R[:, asked], z)
    white = deviations = np.sqrt(np.maximum(np.diag(step.inverse), 0.0))
    quantiles = np.full(len(deviations), NORMAL_95)
    if len(parts) >= FEWEST_BLOCKS:
        spread, telling = jackknife(parts, weights, asked)
        judged = telling >= FEWEST_BLOCKS
        deviations = np.where(judged, np.maximum(deviations, spread), deviations)
        quantiles = JackknifeDeviation(len(parts), False, telling, np.ones(len(telling))).quantiles
    ends = np.full((2, len(asked)), np.nan)
    ends[0, asked] = np.minimum(0.0, step.beta - quantiles * deviations)
    ends[1, asked] = np.maximum(0.0, step.beta + quantiles * deviations)
    gone = np.array([name in found.dropped for name in found.names])
    ends[:, ~gone] = np.nan
    widened = deviations / np.where(white > 0, white, 1.0)
    places = gone[asked]
    spread_of_gone = step.inverse[np.ix_(places, places)] * np.outer(widened[places], widened[places])
    squares = spread_of_gone + np.outer(step.beta[places], step.beta[places])
    directions = np.eye(len(asked))[asked & gone]
    directions[:, ~gone] = -solve(R[:, ~gone], R[:, asked & gone]).beta.T
    values, vectors = np.linalg.eigh(squares)
    return ends, np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))).T @ directions)
