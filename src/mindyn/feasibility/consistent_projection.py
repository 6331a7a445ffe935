"""Projection of an estimate onto physically consistent values in the metric of its noise covariance."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from mindyn.algebra.values import Array
from mindyn.estimators.estimate import Estimate
from mindyn.estimators.estimate_parts import Physical
from mindyn.feasibility.nearest import find_nearest_compact, relative_metric, root_of_inverse
from mindyn.feasibility.physical_space import PhysicalSpace, space_of

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


def project_to_consistent(estimate: Estimate) -> Estimate:
    """Project an estimate onto the nearest consistent values in the metric of its covariance."""
    space = space_of(estimate.regressor)
    W = covariance_metric(estimate, space)
    x = space.move_inside(find_nearest_compact(space, estimate.beta, W).x)
    beta = space.matrix @ x
    distance = float(np.linalg.norm(W @ (beta - estimate.beta)))
    physical = estimate.physical
    free = estimate.beta if physical is None else physical.unconstrained
    move = f"moved by {distance:.3g} standard deviations of noise alone to the nearest physically consistent values"
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
