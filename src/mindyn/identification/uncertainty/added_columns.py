"""Fit one column in addition to those of an estimate, such as a drift of friction; blocks give its standard
deviation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np

from mindyn.foundation.algebra.jackknife import jackknife_variances
from mindyn.foundation.algebra.values import Array
from mindyn.identification.estimators.estimate import Estimate
from mindyn.regression.gather_blocks import Block

MIN_BLOCKS: Final = 12
"""Blocks of rows that determine the deviation of a drift or a gain. Rates: not measured."""
RANK_TOLERANCE: Final = 1e-12
"""Eigenvalues of the scaled normal matrix below this fraction of the largest count as zero."""
SEPARATE: Final = 1e-9
"""Smallest fraction of a column's square that the other columns must leave unexplained."""


class Coefficient(NamedTuple):
    """Coefficient of an additional column, its standard deviation over blocks, and the sum of squares that it
    explains.
    """

    value: float
    deviation: float
    explained: float

    def exceeds(self, value: float, deviations: float) -> bool:
        """Return whether the coefficient is larger than a value, and larger than a multiple of its deviation."""
        return abs(self.value) > value and abs(self.value) > deviations * self.deviation


def friction_drifts(estimate: Estimate, blocks: Sequence[Block]) -> list[Coefficient | None]:
    """Return the relative change of friction from the first to the last block, for every joint and for all joints
    together.

    The result is None if fewer than `MIN_BLOCKS` blocks have rows of all joints, or if the other columns explain the
    change.
    """
    blocks, joints = [block for block in blocks if all(block.information.counts)], estimate.regressor.joint_names
    if len(blocks) < MIN_BLOCKS:
        return [None] * (len(joints) + 1)
    friction = np.array(
        [[parameter.is_friction and parameter.link_or_joint == j for parameter in estimate.parameters] for j in joints]
    )
    times = (np.arange(len(blocks)) + 0.5) / len(blocks) - 0.5
    shapes = np.vstack([friction, friction.any(axis=0)]) * estimate.beta
    return fit_added_columns(estimate, blocks, lambda number, R: np.asarray(times[number] * (R @ shapes.T)))


def fit_added_columns(
    estimate: Estimate, blocks: Sequence[Block], columns: Callable[[int, Array], Array]
) -> list[Coefficient | None]:
    """Fit each additional column separately; None for a column if the other columns explain it, or the torque,
    completely.

    columns  function of a block's number and its weighted R (rows, p) that returns the columns (rows, k)
    """
    kept = np.array([name not in estimate.values.dropped for name in estimate.names])
    squares = []
    for number, block in enumerate(blocks):
        R, z = block.information.stacked(estimate.data.joint_weights)
        whole = np.column_stack([R[:, kept], columns(number, R), z])
        squares.append(whole.T @ whole)
    scales = np.sqrt(np.maximum(np.sum(squares, axis=0).diagonal(), 1e-300))
    parts = np.array(squares) / np.outer(scales, scales)
    total, count = parts.sum(axis=0), int(kept.sum())
    whole = _remaining_products(total, count)
    values = _single_coefficients(whole)
    without = np.array([_single_coefficients(_remaining_products(total - part, count)) for part in parts])
    is_finite = np.isfinite(values)
    units = scales[-1] / scales[count:-1]
    differences = without - np.where(is_finite, values, 0.0)
    deviations = np.sqrt(jackknife_variances(differences)) * units
    explained = whole[-1, :-1] * np.where(is_finite, values, 0.0) * scales[-1] ** 2
    return [
        Coefficient(*map(float, numbers)) if finite else None
        for finite, *numbers in zip(is_finite, values * units, deviations, explained, strict=True)
    ]


def _remaining_products(squares: Array, count: int) -> Array:
    """Return the sums of squares of the other columns after removing the first `count` columns."""
    first, cross = squares[:count, :count], squares[:count, count:]
    values, vectors = np.linalg.eigh(first)
    turned = vectors.T @ cross
    large = values > RANK_TOLERANCE * values[-1]
    return np.asarray(squares[count:, count:] - (turned[large].T / values[large]) @ turned[large])


def _single_coefficients(remainder: Array) -> Array:
    """Return the coefficient of each column but the last, each fitted alone; infinite if the first columns explain it
    completely.
    """
    left = np.diag(remainder)[:-1]
    return np.asarray(np.where(left > SEPARATE, remainder[-1, :-1] / np.maximum(left, SEPARATE), np.inf))
