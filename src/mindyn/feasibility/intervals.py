"""Uncertainty after the constraint: intervals of consistent values, and bands of predicted torque.

Draws beta ~ N(estimate without the constraint, covariance), each moved to the nearest consistent values in the metric
of the covariance (a projected posterior). Quantiles of the moved draws are the intervals: they keep to what is
physical, and where the constraint does not bind they are the usual ones.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from mindyn.algebra.values import Array
from mindyn.errors import InputError
from mindyn.estimators.estimate import Estimate
from mindyn.feasibility.conic import ConicError
from mindyn.feasibility.make_consistent import covariance_metric
from mindyn.feasibility.nearest import nearest_consistent
from mindyn.feasibility.physical_space import space_of
from mindyn.logs.samples import Samples
from mindyn.robots.table import text_table

DRAWS: Final = 200
LEVEL: Final = 0.95
LEEWAY: Final = 1e-3
"""Standard deviations that intervals are widened by: a solver stops this close to an edge that belongs to them."""
MOST_FAILED: Final = 0.05
"""Part of the draws that the solver may fail on."""


@dataclass(frozen=True, slots=True, eq=False)
class Intervals:
    """Of every parameter the interval [low, high] at `level`, from `draws` (k, p) of consistent values."""

    names: tuple[str, ...]
    low: Array
    high: Array
    level: float
    draws: Array

    def __str__(self) -> str:
        rows = [("parameter", f"{100 * self.level:g} % interval")]
        rows += [(n, f"{a:.5g} to {b:.5g}") for n, a, b in zip(self.names, self.low, self.high, strict=True)]
        return text_table(rows)


def constrained_intervals(estimate: Estimate, *, level: float = LEVEL, draws: int = DRAWS, seed: int = 0) -> Intervals:
    """Intervals of every parameter that respect physical consistency.

    A consistent fit remembers what the data say without the constraint, and that is where the draws are centred.
    Parameters that the data cannot tell stay where the estimate has them: data give no interval for those.
    """
    if not 0 < level < 1 or draws < 2:
        raise InputError(f"level = {level}, draws = {draws}: a level between 0 and 1 and at least 2 draws are needed")
    space = space_of(estimate.regressor)
    W = covariance_metric(estimate, space)
    moved = []
    for drawn in _drawn(estimate, draws, seed):
        try:
            moved.append(nearest_consistent(space, drawn, W).beta)
        except ConicError:
            continue
    if len(moved) < (1 - MOST_FAILED) * draws:
        raise InputError(f"only {len(moved)} of {draws} draws could be made consistent; is the covariance meaningful?")
    found = np.array(moved)
    low, high = np.quantile(found, [(1 - level) / 2, (1 + level) / 2], axis=0)
    leeway = LEEWAY * np.where(np.isfinite(estimate.deviations), estimate.deviations, 0.0)
    signed = {space.labels[k] for k in space.signed}
    least = np.array([0.0 if name in signed else -np.inf for name in space.names])
    return Intervals(estimate.names, np.maximum(low - leeway, least), high + leeway, level, found)


def torque_bands(
    estimate: Estimate, samples: Samples, intervals: Intervals, *, noise: bool = False
) -> tuple[Array, Array]:
    """(N, n) lower and upper torque at the intervals' level, over the draws of consistent parameters.

    noise  bands of measured torque: the residuals' spread is added to that of the parameters
    """
    torques = np.array([replace(estimate, beta=beta).predict(samples) for beta in intervals.draws])
    if noise:
        rng = np.random.default_rng(len(torques))
        spread = np.array([one.rms for one in estimate.residuals])
        torques += spread * rng.standard_normal(torques.shape)
    low, high = np.quantile(torques, [(1 - intervals.level) / 2, (1 + intervals.level) / 2], axis=0)
    return low, high


def _drawn(estimate: Estimate, draws: int, seed: int) -> Array:
    """(draws, p) of N(values without the constraint, covariance); what the data cannot tell does not vary."""
    centre = estimate.beta if estimate.physical is None else estimate.physical.unconstrained
    told = np.isfinite(estimate.deviations)
    centre = np.where(told, centre, estimate.beta)
    deviations = np.where(told, estimate.deviations, 0.0)
    correlations = estimate.correlations * np.outer(told, told)
    values, vectors = np.linalg.eigh(correlations)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    normal = np.random.default_rng(seed).standard_normal((draws, len(centre)))
    return np.asarray(centre + (normal @ root.T) * deviations)
