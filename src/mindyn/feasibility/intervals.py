"""Uncertainty after the constraint: intervals of values held to what is physical, and bands of predicted torque.

Values held to a constraint do not scatter about the truth as free ones do: their covariance says little of them.
What data and physics allow says it: with b the values that the data ask for by themselves, C their covariance and

    misfit(beta) = (beta - b)^T C^-1 (beta - b),

the interval of a parameter reaches from its least to its greatest value among physical beta whose misfit is within
t^2 of the least physical misfit, t the quantile of the free intervals: a likelihood-ratio interval, two conic programs
a parameter. Where the constraint does not bind it is the free interval. Where a prior tells more of a value than
the data do, or pulls it out of its interval, these give no interval for it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from mindyn.algebra.values import Array
from mindyn.errors import InputError
from mindyn.estimators.estimate import Estimate
from mindyn.feasibility.conic import ConeRows, ConicProgram
from mindyn.feasibility.nearest import MIN_CORRELATION_EIGENVALUE, find_nearest_consistent, root_of_inverse
from mindyn.feasibility.physical_space import PhysicalSpace, physical_values, space_of
from mindyn.logs.samples import Samples
from mindyn.robots.table import format_table

DEFAULT_LEVEL: Final = 0.95
INTERVAL_MARGIN: Final = 1e-3
"""Standard deviations that intervals are widened by: a solver stops this close to an edge that belongs to them."""
MAX_PRIOR_FRACTION: Final = 0.5
"""Part of a value's certainty that comes from the prior, from which on the data give it no interval."""


@dataclass(frozen=True, slots=True, eq=False)
class Intervals:
    """Of every parameter the interval [low, high] at `level`; NaN where the data give none."""

    names: tuple[str, ...]
    low: Array
    high: Array
    level: float

    def __str__(self) -> str:
        rows = [("parameter", f"{100 * self.level:g} % interval")]
        rows += [
            (name, "-" if np.isnan(a) else f"{a:.5g} to {b:.5g}")
            for name, a, b in zip(self.names, self.low, self.high, strict=True)
        ]
        return format_table(rows)


def constrained_intervals(estimate: Estimate, *, level: float = DEFAULT_LEVEL) -> Intervals:
    """Intervals of every parameter that respect physical consistency, of any estimate.

    A consistent fit remembers what the data say without the constraint, and that is what misfits are measured from.
    """
    if not 0 < level < 1:
        raise InputError(f"level = {level}: a level between 0 and 1 is needed")
    # The quantiles of the estimate are of 95 %; other levels scale them as normal ones do.
    scale = float(ndtri((1 + level) / 2) / ndtri((1 + DEFAULT_LEVEL) / 2))
    low, high = physical_ends(estimate, scale)
    return Intervals(estimate.names, low, high, level)


def add_physical_intervals(estimate: Estimate) -> Estimate:
    """The estimate with intervals of its own, where its values were held to what is physical."""
    held = estimate.physical
    if held is None:
        return estimate
    low, high = physical_ends(estimate)
    if held.prior_fractions is None:  # rounding, and weights of joints that blocks would choose otherwise
        low, high = np.minimum(low, estimate.beta), np.maximum(high, estimate.beta)
    pulled = (estimate.beta < low) | (estimate.beta > high)
    return replace(estimate, physical=replace(held, ends=np.where(pulled, np.nan, np.stack([low, high]))))


def physical_ends(estimate: Estimate, scale: float = 1.0) -> Array:
    """(2, p) the ends; NaN where the data give no interval. `scale` multiplies the quantiles."""
    held, p = estimate.physical, len(estimate.beta)
    told = np.isfinite(estimate.deviations) & (estimate.deviations > 0)
    asked = told & np.array(
        [name not in estimate.dropped and name not in estimate.unidentifiable for name in estimate.names]
    )
    if held is not None and held.prior_fractions is not None:
        asked &= held.prior_fractions <= MAX_PRIOR_FRACTION
    ends = np.full((2, p), np.nan)
    if not asked.any():
        return ends
    space = space_of(estimate.regressor)
    free = estimate.beta if held is None else held.unconstrained
    W = _root_of_inverse(estimate, told)
    further = _fit_conditions(estimate, space)
    nearest = find_nearest_consistent(space, np.where(told, free, 0.0), _expand_columns(W, told, p), further)
    least = float(np.linalg.norm(W @ (nearest.beta - free)[told]))
    numbers = np.flatnonzero(asked)
    deviations = estimate.deviations[numbers]
    quantiles = scale * (estimate.half_widths[numbers] / deviations)
    radii = np.sqrt(least**2 + quantiles**2)
    reached = _find_extremes(space, nearest.x, free, W, told, numbers, deviations, radii, further)
    # A program that was not solved leaves the bound without physics.
    outer = (free[numbers] - nearest.beta[numbers]) / deviations + np.array([[-1.0], [1.0]]) * radii
    reached = np.where(np.isnan(reached), outer, reached) + INTERVAL_MARGIN * np.array([[-1.0], [1.0]])
    ends[:, numbers] = nearest.beta[numbers] + deviations * reached
    signed = {space.labels[k] for k in space.nonnegative}
    zero = np.array([name in signed for name in estimate.names])
    ends[0, zero] = np.maximum(ends[0, zero], 0.0)
    return ends


def _find_extremes(
    space: PhysicalSpace,
    start: Array,
    free: Array,
    W: Array,
    told: NDArray[np.bool_],
    numbers: NDArray[np.intp],
    deviations: Array,
    radii: Array,
    further: tuple[ConeRows, ...],
) -> Array:
    """(2, k) least and greatest steps of the numbered parameters from `start`, in standard deviations."""
    units = space.units
    program = ConicProgram(space.size)
    B = space.matrix * units
    shift = W @ (space.matrix @ start - free)[told]
    ball = ConeRows("second order", np.vstack([np.zeros(space.size), W @ B[told]]), np.concatenate([[0.0], shift]))
    others = [
        *space.cone_rows(units),
        *(ConeRows(one.kind, one.matrix * units, one.offset, one.order) for one in further),
    ]
    program.add_rows(ball, *(replace(one, offset=one.offset + one.matrix @ (start / units)) for one in others))
    costs = B[numbers] / deviations[:, None]
    return np.array([program.find_least_values(costs, 0, radii), -program.find_least_values(-costs, 0, radii)])


def _root_of_inverse(estimate: Estimate, told: NDArray[np.bool_]) -> Array:
    """W with W^T W the inverse covariance of the told parameters, widened as their intervals are."""
    return root_of_inverse(estimate.correlations[np.ix_(told, told)], estimate.deviations[told])


def _expand_columns(W: Array, told: NDArray[np.bool_], p: int) -> Array:
    """W with columns for all p parameters: those that the data do not tell cost nothing."""
    whole = np.zeros((len(W), p))
    whole[:, told] = W
    return whole


def _fit_conditions(estimate: Estimate, space: PhysicalSpace) -> tuple[ConeRows, ...]:
    """What the fit kept to besides: drive parameters left out, and links no wider than the robot where they are not."""
    made = []
    zero = [k for k, label in enumerate(space.labels) if label in estimate.dropped and label in space.drive_labels()]
    if zero:
        made.append(ConeRows("zero", np.eye(space.size)[zero], np.zeros(len(zero))))
    x, compact = physical_values(estimate, space), space.compact_rows()
    if x is not None and (compact.matrix @ x >= 0).all():
        made.append(compact)
    return tuple(made)


def torque_bands(estimate: Estimate, samples: Samples, *, noise: bool = False) -> tuple[Array, Array]:
    """(N, n) lower and upper torque at 95 %: prediction and half-width by the covariance, blocks included.

    Parameters that were left out may not be zero, and residuals that are alike from row to row show torque that comes
    with the motion and no parameter explains: both widen the bands, where `identify` has told them.

    noise  bands of measured torque: the residuals' spread is added to that of the parameters
    """
    told = np.isfinite(estimate.deviations)
    if estimate.dropped_ends is not None:  # what no interval holds may be anything
        without = np.array([name in estimate.dropped for name in estimate.names])
        told &= ~(without & np.isnan(estimate.dropped_ends).any(axis=0))
    moved = estimate.dropped_shifts
    values, vectors = np.linalg.eigh(estimate.correlations * np.outer(told, told))
    root = vectors * np.sqrt(np.maximum(values, 0.0)) * np.where(told, estimate.deviations, 0.0)[:, None]
    variance = np.zeros_like(samples.q)
    for direction in (*root.T[values > MIN_CORRELATION_EIGENVALUE], *(() if moved is None else moved)):
        variance += replace(estimate, beta=direction).predict(samples) ** 2
    for k in np.flatnonzero(~told):
        unit = np.where(np.arange(len(told)) == k, 1.0, 0.0)
        variance = np.where(replace(estimate, beta=unit).predict(samples) == 0, variance, np.inf)
    variance += np.array([one.rms if noise else one.alike for one in estimate.residuals]) ** 2
    predicted, reach = estimate.predict(samples), estimate.quantile * np.sqrt(variance)
    return predicted - reach, predicted + reach
