"""Projection of an estimate onto physically consistent values in the metric of its noise covariance.

minimise 1/2 |W (B x - beta)|^2 + weight * prior(x), W^T W the inverse of the noise covariance. The prior are the robot
file's inertial parameters or, if it has none, equal balls with the least total mass. It determines directions that the
estimate leaves open, and links keep `MIN_PRIOR_FRACTION` of its pseudo-inertia: M(q) is at least that fraction of the
prior's inertia matrix in every configuration.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, Literal, get_args

import numpy as np

from mindyn.foundation.algebra.inertia import phi_about_origin
from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import require_choice
from mindyn.identification.estimators.estimate import Estimate
from mindyn.identification.estimators.estimate_parts import Physical, unexplained_fraction
from mindyn.identification.feasibility.conic import ConicError
from mindyn.identification.feasibility.constrained_fit import MIN_PRIOR_FRACTION, FitProblem
from mindyn.identification.feasibility.inertia_family import InertiaFamily
from mindyn.identification.feasibility.nearest import find_nearest_compact, relative_metric, root_of_inverse
from mindyn.identification.feasibility.physical_space import PhysicalSpace, space_of
from mindyn.identification.feasibility.positive_definite_projection import find_nearest_positive_definite
from mindyn.identification.feasibility.priors import build_prior
from mindyn.regression.information import Information

Level = Literal["consistent", "positive definite"]

PROJECTION_PRIOR_WEIGHT: Final = 1e-2
"""Weight of the prior relative to squared standard deviations of the values."""
MIN_LINK_MASS_KG: Final = 1e-3
BALL_RADIUS_RATIO: Final = 0.1
"""Radius of gyration of a link without a prior, relative to the typical distance of joints."""
UNIDENTIFIABLE_DEVIATION: Final = 10.0
"""Standard deviation of unidentifiable parameters, as a multiple of the size of the value."""


def covariance_metric(estimate: Estimate, space: PhysicalSpace) -> Array:
    """Return W (p, p) with W^T W the inverse of the covariance of noise alone.

    A dropped parameter has no covariance: it may move by the typical size of its kind. An unidentifiable parameter may
    move freely.
    """
    estimate = estimate.by_noise_alone()
    sizes = 1 / np.diag(relative_metric(space, estimate.beta))
    deviations = np.where(np.isfinite(estimate.deviations), estimate.deviations, UNIDENTIFIABLE_DEVIATION * sizes)
    deviations = np.where(deviations > 0, deviations, sizes)
    correlations = estimate.correlations.copy()
    np.fill_diagonal(correlations, 1.0)
    return root_of_inverse(correlations, deviations)


def make_feasible(estimate: Estimate, level: Level = "consistent") -> Estimate:
    """Project an estimate onto feasible values.

    The values move by the smallest distance in the metric of the noise covariance. The inertia matrix is then positive
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
    x = space.move_inside(_find_nearest(estimate, space, W))
    beta = space.matrix @ x
    distance = float(np.linalg.norm(W @ (beta - estimate.beta)))
    physical = estimate.physical
    free = estimate.beta if physical is None else physical.unconstrained
    move = f"moved by {distance:.3g} standard deviations of noise alone to the nearest physically consistent values"
    move += _format_cost(estimate, distance)
    moved = replace(
        estimate,
        beta=beta,
        status=f"{estimate.status} Then {move}.",
        dropped=tuple(name for name in estimate.dropped if beta[estimate.names.index(name)] == 0.0),
        physical=Physical(space.labels, x, free, () if physical is None else physical.prior_links),
        projected=True,
        provenance={**estimate.provenance, "projected": {"level": "consistent", "distance": distance}},
    )
    return moved.with_own_load()


def _make_positive_definite(estimate: Estimate, W: Array) -> Estimate:
    """Project an estimate onto values with a positive definite inertia matrix."""
    nearest = find_nearest_positive_definite(InertiaFamily(estimate.base), estimate.beta, np.asarray(np.linalg.inv(W)))
    move = (
        f"moved by {nearest.distance:.3g} standard deviations of noise alone, which raises the smallest eigenvalue of "
        f"the inertia matrix from {nearest.before:.3g} to {nearest.after:.3g} kg m^2"
    )
    projected = {"level": "positive definite", "distance": nearest.distance, "eps": nearest.eps}
    moved = replace(
        estimate,
        beta=nearest.beta,
        status=f"{estimate.status} Then {move}." if nearest.rounds else estimate.status,
        dropped=tuple(name for name in estimate.dropped if nearest.beta[estimate.names.index(name)] == 0.0),
        projected=estimate.projected or nearest.rounds > 0,
        provenance={**estimate.provenance, "projected": projected},
    )
    return moved.with_own_load()


def _find_nearest(estimate: Estimate, space: PhysicalSpace, W: Array) -> Array:
    """Return the nearest physical parameters x, with directions that the values leave open at the prior."""
    prior = build_prior(estimate.robot, "robot")
    if any(phi is None for phi in prior.links):
        lightest = find_nearest_compact(space, estimate.beta, W).x
        mass = max(float(lightest[space.masses].mean()), MIN_LINK_MASS_KG)
        ball = phi_about_origin(mass, np.zeros(3), mass * (BALL_RADIUS_RATIO * space.length) ** 2 * np.eye(3))
        prior = replace(prior, links=tuple(ball if phi is None else phi for phi in prior.links))
    values = Information(
        ("values",), space.names, (np.arange(len(space.names)),), (np.column_stack([W, W @ estimate.beta]),), (1,)
    )
    problem, weights = FitProblem(space, prior, floor=MIN_PRIOR_FRACTION), np.ones(1)
    try:
        problem = problem.relax_compactness(values, weights, PROJECTION_PRIOR_WEIGHT)
        return problem.solve(values, weights, PROJECTION_PRIOR_WEIGHT)
    except ConicError:  # values known to rounding are matched without a prior
        return find_nearest_compact(space, estimate.beta, W).x


def _format_cost(estimate: Estimate, distance: float) -> str:
    """Describe by how much the error on the training rows grows: squared residuals grow by the squared distance."""
    if not any(residual.rows * residual.rms_torque for residual in estimate.residuals):
        return ""
    rows = sum(residual.rows for residual in estimate.residuals)
    error = 100 * unexplained_fraction(estimate.residuals)
    after = error * np.hypot(1, distance / np.sqrt(rows))
    return f"; the error on the training rows grows from {error:.3g} to about {after:.3g} %"
