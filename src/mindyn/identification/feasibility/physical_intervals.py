"""Uncertainty of physically constrained values: the intervals that data and physics allow.

Constrained values do not scatter around the true values as unconstrained ones do, so that a covariance describes their
uncertainty poorly. The set of values that data and physics allow is a better description. With b the unconstrained
values, C their covariance and

    misfit(beta) = (beta - b)^T C^-1 (beta - b),

the interval of a parameter extends from its smallest to its largest value among physical beta whose misfit is within
t^2 of the smallest physical misfit, where t is the quantile of the unconstrained intervals. This is a likelihood-ratio
interval from two conic programs per parameter. If the constraint is not active, the interval equals the unconstrained
one. If a prior determines a value more than the data do, or moves it out of its interval, the value has no interval.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mindyn.foundation.algebra.values import Array
from mindyn.foundation.processes.workers import share_tasks
from mindyn.identification.estimators.estimate import Estimate
from mindyn.identification.feasibility.conditions.nearest_values import (
    find_nearest_consistent,
    known_metric,
)
from mindyn.identification.feasibility.conditions.physical_space import PhysicalSpace, physical_values, space_of
from mindyn.identification.feasibility.optimisation.conic_program import (
    COARSE_TOLERANCE,
    DIAGONAL_PLACES,
    ConeRows,
    ConicError,
    ConicProgram,
)
from mindyn.identification.feasibility.optimisation.interior_point import minimise_all

INTERVAL_MARGIN: Final = 1e-3
"""Standard deviations that are added at each end of an interval, because the solver stops this far from the boundary.
"""
SIZE_COST: Final = 1e-7
"""Cost, in standard deviations, of 1 kg of pseudo-inertia, so that values that the data do not determine stay finite.
"""
MAX_PRIOR_FRACTION: Final = 0.5
"""If the prior contributes more than this fraction of the information on a value, the value has no interval."""


def add_physical_intervals(estimate: Estimate) -> Estimate:
    """Add intervals that respect physical consistency to the estimate of a consistent fit.

    `identify` calls this function. Misfits are relative to the unconstrained values that the estimate stores.

    Parameters
    ----------
    estimate : Estimate
        Estimate of `PhysicallyConsistent`; any other is returned unchanged.

    Returns
    -------
    Estimate
        The estimate whose `intervals` are those that data and physics allow.
    """
    physical = estimate.values.physical
    if physical is None:
        return estimate
    low, high = physical_ends(estimate)
    if physical.prior_fractions is None:  # rounding, and joint weights that differ between blocks
        low, high = np.minimum(low, estimate.beta), np.maximum(high, estimate.beta)
    pulled = (estimate.beta < low) | (estimate.beta > high)
    return estimate.with_values(physical=replace(physical, ends=np.where(pulled, np.nan, np.stack([low, high]))))


def physical_ends(estimate: Estimate) -> Array:
    """Return the ends (2, p) of the 95 % intervals, NaN if the data give none."""
    physical, p = estimate.values.physical, len(estimate.beta)
    known = np.isfinite(estimate.deviations) & (estimate.deviations > 0)
    wanted = known & np.array(
        [name not in estimate.values.dropped and name not in estimate.values.unidentifiable for name in estimate.names]
    )
    if physical is not None and physical.prior_fractions is not None:
        wanted &= physical.prior_fractions <= MAX_PRIOR_FRACTION
    ends = np.full((2, p), np.nan)
    if not wanted.any():
        return ends
    space = space_of(estimate.regressor)
    free = estimate.beta if physical is None else physical.unconstrained
    W = known_metric(estimate, known)
    further = _fit_conditions(estimate, space)
    nearest = find_nearest_consistent(space, np.where(known, free, 0.0), W, further)
    least = float(np.linalg.norm(W @ (nearest.beta - free)))
    numbers = np.flatnonzero(wanted)
    deviations = estimate.deviations[numbers]
    radii = np.sqrt(least**2 + (estimate.uncertainty.half_widths[numbers] / deviations) ** 2)
    reached = _find_extremes(space, nearest.x, free, W, numbers, deviations, radii, further)
    # If a program was not solved, the bound without physics remains.
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
    numbers: NDArray[np.intp],
    deviations: Array,
    radii: Array,
    further: tuple[ConeRows, ...],
) -> Array:
    """Return the smallest and largest steps (2, k) from `start` of the numbered parameters, in standard deviations."""
    units, start = space.units, start.copy()
    for rows in further:
        if rows.kind == "zero":
            start[rows.matrix.any(axis=0)] = 0.0  # up to the tolerance of the solver, it is
    B = space.matrix * units
    shift = W @ (space.matrix @ start - free)
    ball = np.vstack([np.zeros(space.size), W @ B])
    others = (*space.cone_rows(units), *(rows.in_units(units) for rows in further))
    conditions = [rows.from_start(start / units) for rows in others]
    # Masses that the values leave open would grow without limit.
    size = sum(rows.matrix[DIAGONAL_PLACES].sum(axis=0) for rows in conditions[: space.link_count])
    costs = np.concatenate([B[numbers], -B[numbers]]) / np.tile(deviations, 2)[:, None]
    programs = []
    for cost, radius in zip(costs, np.tile(radii, 2), strict=True):
        program = ConicProgram(space.size)
        program.add_rows(*conditions, ConeRows("second order", ball, np.concatenate([[radius], shift])))
        program.cost[:] = cost + SIZE_COST * size
        programs.append(program)
    minima = minimise_all(programs, np.zeros(space.size), COARSE_TOLERANCE)
    lost = [k for k, v in enumerate(minima) if v is None]
    found = dict(zip(lost, share_tasks(_least_value, [(programs[k], costs[k]) for k in lost]), strict=True))
    reached = [found[k] if v is None else float(costs[k] @ v) for k, v in enumerate(minima)]
    return np.asarray(np.array(reached).reshape(2, -1) * np.array([[1.0], [-1.0]]))


def _least_value(program: ConicProgram, cost: Array) -> float:
    """Return cost.v at the minimum v of a program by Clarabel, or NaN if none is found."""
    try:
        return float(cost @ program.solve().x)
    except ConicError:
        return float("nan")


def _fit_conditions(estimate: Estimate, space: PhysicalSpace) -> tuple[ConeRows, ...]:
    """Return further conditions of the fit: zero for dropped drive parameters, and compact links if they were."""
    conditions = []
    zero = [
        k for k, label in enumerate(space.labels) if label in estimate.values.dropped and label in space.drive_labels()
    ]
    if zero:
        conditions.append(ConeRows("zero", np.eye(space.size)[zero], np.zeros(len(zero))))
    x, compact = physical_values(estimate, space), space.compact_rows()
    if x is not None and (compact.matrix @ x >= 0).all():
        conditions.append(compact)
    return tuple(conditions)
