"""Feasible values of an estimate, by a constrained fit to its R factor or, if it has none, by a projection.

Both minimise 1/2 |W (B x - beta)|^2 + weight * prior(x). For least squares, W and W beta are the R factor of the
equations; the result is the physically consistent fit, computed without the logs. For other estimates, W^T W is the
inverse of the noise covariance. The prior are the robot file's inertial parameters, and balls of similar mass for links
without parameters. The prior determines directions that the estimate does not determine. Links keep
`MIN_PRIOR_FRACTION` of the pseudo-inertia of the prior, so that M(q) is at least this fraction of the prior's inertia
matrix in every configuration. Masses and centres of mass are plausible (`plausible_limits`), unless the values
contradict that.
"""

from __future__ import annotations

from typing import Final, Literal, get_args

import numpy as np

from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import MindynError, require_choice
from mindyn.identification.estimators.estimate import Estimate
from mindyn.identification.estimators.estimate_records import Physical
from mindyn.identification.estimators.fit_summary import unexplained_fraction
from mindyn.identification.feasibility.conditions.default_limits import plausible_limits
from mindyn.identification.feasibility.conditions.inertia_matrix_family import InertiaMatrixFamily
from mindyn.identification.feasibility.conditions.nearest_values import (
    find_nearest_compact,
    relative_metric,
    root_of_inverse,
)
from mindyn.identification.feasibility.conditions.physical_space import PhysicalSpace, space_of
from mindyn.identification.feasibility.conditions.priors import build_prior
from mindyn.identification.feasibility.fits.constrained_fit import MIN_PRIOR_FRACTION, FitProblem
from mindyn.identification.feasibility.optimisation.conic_program import ConicError
from mindyn.identification.feasibility.projections.positive_definite_projection import find_nearest_positive_definite
from mindyn.regression.information import Information

Level = Literal["consistent", "positive definite"]

PROJECTION_PRIOR_WEIGHT: Final = 1e-2
"""Weight of the prior relative to squared standard deviations of the values."""
MAX_VALUE_MISFIT_RATIO: Final = 1.05
"""Largest misfit of values relative to the smallest possible misfit; limits of friction in least squares increase it by
less.
"""
UNIDENTIFIABLE_DEVIATION: Final = 10.0
"""Standard deviation of unidentifiable parameters, as a multiple of the size of the value."""


def covariance_metric(estimate: Estimate, space: PhysicalSpace) -> Array:
    """Return W (p, p) where W^T W is the inverse of the covariance of noise alone.

    A dropped parameter has no covariance; its standard deviation is taken as the typical size of its kind. An
    unidentifiable parameter may change freely.
    """
    estimate = estimate.by_noise_alone()
    sizes = 1 / np.diag(relative_metric(space, estimate.beta))
    deviations = np.where(np.isfinite(estimate.deviations), estimate.deviations, UNIDENTIFIABLE_DEVIATION * sizes)
    deviations = np.where(deviations > 0, deviations, sizes)
    correlations = estimate.uncertainty.correlations.copy()
    np.fill_diagonal(correlations, 1.0)
    return root_of_inverse(correlations, deviations)


def make_feasible(estimate: Estimate, level: Level = "consistent") -> Estimate:
    """Project an estimate onto feasible values.

    The values change by the smallest distance, measured by the noise covariance. The inertia matrix is then positive
    definite in every configuration.

    Parameters
    ----------
    estimate : Estimate
        Estimate to use.
    level : {"consistent", "positive definite"}
        "consistent": some links with dissipative friction have the values. "positive definite": the inertia matrix is
        positive definite in every configuration, a weaker condition that Yoshida calls possible; links that have these
        values need not exist.

    Returns
    -------
    Estimate
        The estimate with feasible values.

    Raises
    ------
    InputError
        If `level` is unknown.
    """
    require_choice(level, get_args(Level), "level")
    space = space_of(estimate.regressor)
    W = covariance_metric(estimate, space)
    if level == "positive definite":
        return _make_positive_definite(estimate, W)
    fitted = _fit_again(estimate, space) if estimate.values.physical is None else None
    x = space.move_inside(_find_nearest(estimate, space, W) if fitted is None else fitted)
    beta = space.matrix @ x
    distance = float(np.linalg.norm(W @ (beta - estimate.beta)))
    physical = estimate.values.physical
    free = estimate.beta if physical is None else physical.unconstrained
    move = f"moved by {distance:.3g} standard deviations of noise alone to the nearest physically consistent values"
    move += _format_cost(estimate, beta, distance)
    moved = (
        estimate.with_values(
            beta=beta,
            dropped=tuple(name for name in estimate.values.dropped if beta[estimate.names.index(name)] == 0.0),
            physical=Physical(space.labels, x, free, () if physical is None else physical.prior_links),
            projected=True,
        )
        .with_provenance(status=f"{estimate.status} Then {move}.")
        .with_data(factor=None)
        .with_notes(projected={"level": "consistent", "distance": distance})
    )
    return moved.with_own_load()


def _make_positive_definite(estimate: Estimate, W: Array) -> Estimate:
    """Project an estimate onto values with a positive definite inertia matrix."""
    nearest = find_nearest_positive_definite(
        InertiaMatrixFamily(estimate.base), estimate.beta, np.asarray(np.linalg.inv(W))
    )
    move = (
        f"moved by {nearest.distance:.3g} standard deviations of noise alone, which raises the smallest eigenvalue of "
        f"the inertia matrix from {nearest.before:.3g} to {nearest.after:.3g} kg m^2"
    )
    projected = {"level": "positive definite", "distance": nearest.distance, "eps": nearest.eps}
    moved = (
        estimate.with_values(
            beta=nearest.beta,
            dropped=tuple(name for name in estimate.values.dropped if nearest.beta[estimate.names.index(name)] == 0.0),
            projected=estimate.values.projected or nearest.rounds > 0,
        )
        .with_provenance(status=f"{estimate.status} Then {move}." if nearest.rounds else estimate.status)
        .with_notes(projected=projected)
    )
    return moved.with_own_load()


def _find_nearest(estimate: Estimate, space: PhysicalSpace, W: Array) -> Array:
    """Return the nearest physical parameters x. Directions that the values do not determine follow the prior."""
    values = _as_information(space, np.column_stack([W, W @ estimate.beta]), 1)
    try:
        return _solve(estimate, space, values, PROJECTION_PRIOR_WEIGHT)
    except ConicError:  # values known to rounding are matched without a prior
        return find_nearest_compact(space, estimate.beta, W).x


def _fit_again(estimate: Estimate, space: PhysicalSpace) -> Array | None:
    """Return the physical parameters x that fit the equations of the estimate best; None if that is not possible."""
    if estimate.data.factor is None or not explains_values(estimate):
        return None
    rows = sum(residual.rows for residual in estimate.data.residuals)
    zero = tuple(
        k for k, label in enumerate(space.labels) if label in estimate.values.dropped and label in space.drive_labels()
    )
    try:
        return _solve(estimate, space, _as_information(space, estimate.data.factor, rows), 1 / max(rows, 1), zero)
    except MindynError:  # equations without noise
        return None


def explains_values(estimate: Estimate) -> bool:
    """Return whether the values fit the equations about as well as possible.

    If not, the values were changed after the fit.
    """
    if estimate.data.factor is None:
        return False
    kept = np.array([name not in estimate.values.dropped for name in estimate.names], dtype=np.bool_)
    R, z = estimate.data.factor[:, :-1], estimate.data.factor[:, -1]
    least = np.linalg.norm(R[:, kept] @ np.linalg.lstsq(R[:, kept], z, rcond=None)[0] - z)
    return bool(np.linalg.norm(R @ estimate.beta - z) <= MAX_VALUE_MISFIT_RATIO * least)


def _as_information(space: PhysicalSpace, factor: Array, rows: int) -> Information:
    return Information(("values",), space.names, (np.arange(len(space.names)),), (factor,), (rows,))


def _solve(
    estimate: Estimate, space: PhysicalSpace, values: Information, weight: float, zero: tuple[int, ...] = ()
) -> Array:
    """Return the plausible x nearest to the values. If the values contradict the limits, solve without the limits."""
    robot, weights = estimate.robot, np.ones(1)
    limits = plausible_limits(robot, robot).bounds().rows(space)
    problem = FitProblem(space, build_prior(robot, "robot"), zero=zero, floor=MIN_PRIOR_FRACTION, limits=limits)
    problem = problem.with_guesses(values, weights).relax_limits(values, weights, weight)
    return problem.solve(values, weights, weight)


def _format_cost(estimate: Estimate, beta: Array, distance: float) -> str:
    """Return a sentence about the increase of the error on the training rows.

    Without the equations, the squared residuals grow by about the squared distance.
    """
    if not any(residual.rows * residual.rms_torque for residual in estimate.data.residuals):
        return ""
    error = 100 * unexplained_fraction(estimate.data.residuals)
    if estimate.data.factor is not None and explains_values(estimate):
        before, after = (np.linalg.norm(estimate.data.factor @ np.append(-v, 1.0)) for v in (estimate.beta, beta))
        ratio = float(after / before) if before > 0 else 1.0
    else:
        ratio = float(np.hypot(1, distance / np.sqrt(sum(residual.rows for residual in estimate.data.residuals))))
    return f"; the error on the training rows grows from {error:.3g} to about {ratio * error:.3g} %"
