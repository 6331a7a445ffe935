"""Select essential parameters: drop those that the data do not support, the least supported first.

Dropping parameter k increases the squared residuals by beta_k^2 / P_kk, where P is the inverse of the normal matrix.
The F statistic is this increase divided by the residual variance. P and beta of the remaining parameters follow by one
downdate, so that the path from all parameters to one parameter takes as long as a few solutions [Hocking 1976].

`reduce_estimate` is Sheu and Walker's reduction of an estimate to the essential components of its link parameters along
a motion.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mindyn.equations.identifiability.reduction import MAX_ENERGY_ERROR, Reduction, reduce_model
from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, InputError
from mindyn.foundation.notation import PARAMETERS_PER_LINK
from mindyn.identification.estimators.estimate import Estimate
from mindyn.identification.estimators.least_squares import LeastSquares
from mindyn.logs.samples import Samples
from mindyn.regression.rows import Rows
from mindyn.robots.parts import Link

RIDGE: Final = 1e-12
"""Value that is added to the diagonal of the scaled normal matrix, so that unidentifiable directions are dropped first.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Elimination:
    """Path of a backward elimination.

    `order[..., i]` is the parameter that is dropped in step i, `increases[..., i]` the increase of the squared
    residuals, and `betas[..., i, :]` (p,) the fit before this step.
    """

    order: NDArray[np.intp]
    betas: Array
    increases: Array


def elimination(matrix: Array, right: Array, most: int | None = None) -> Elimination:
    """Eliminate parameters backwards, starting from the minimisers of b^T matrix b - 2 right^T b, which are betas[...,
    0, :].

    matrix, right  (p, p), (p,) of one fit, or (f, p, p), (f, p) of several
    most           number of parameters to drop; None: all but one
    """
    if right.ndim == 1:
        path = elimination(matrix[None], right[None], most)
        return Elimination(path.order[0], path.betas[0], path.increases[0])
    (fits, count), steps = right.shape, max(right.shape[1] - 1, 0)
    steps = steps if most is None else min(steps, most)
    scales = np.sqrt(np.maximum(np.einsum("fkk->fk", matrix), 1e-300))
    P = np.linalg.inv(matrix / scales[:, None] / scales[:, :, None] + RIDGE * np.eye(count))
    beta = (P @ (right / scales)[..., None])[..., 0]
    left, cost, each = np.ones((fits, count), dtype=bool), np.empty((fits, count)), np.arange(fits)
    order, increases = np.zeros((fits, steps), dtype=np.intp), np.zeros((fits, steps))
    betas = np.empty((fits, steps + 1, count))
    betas[:, 0] = beta
    for step in range(steps):
        cost.fill(np.inf)
        np.divide(beta * beta, np.einsum("fkk->fk", P), out=cost, where=left)
        order[:, step] = k = cost.argmin(axis=1)
        increases[:, step], pivot = cost[each, k], P[each, k, k][:, None]
        column = P[each, :, k]
        beta = beta - column * (beta[each, k][:, None] / pivot)
        P -= column[:, :, None] * (P[each, k] / pivot)[:, None]
        left[each, k] = False
        beta *= left
        betas[:, step + 1] = beta
    return Elimination(order, betas / scales[:, None], increases)


def fit_essential(estimator: LeastSquares, rows: Rows, *, level: float = 0.05) -> Estimate:
    """Fit without the parameters that fail an F test; parameters are dropped one after the other.

    With covariance "correlated" the test uses the effective number of independent rows.

    Parameters
    ----------
    estimator : LeastSquares
        Settings of the fit.
    rows : Rows
        Equations from `build_rows`.
    level : float
        Significance level of the F test, between 0 and 1.

    Returns
    -------
    Estimate
        The fit without the dropped parameters.

    Raises
    ------
    InputError
        If `level` is not between 0 and 1.
    """
    from scipy.special import fdtri

    if not 0 < level < 1:
        raise InputError(f"level = {level!r} must lie between 0 and 1", code=Code.OUT_OF_RANGE, subject="level")
    full, information = estimator.fit(rows), rows.information
    R, z = information.stacked(full.data.joint_weights)
    kept = np.array([name not in estimator.dropped for name in information.names])
    path = elimination(R[:, kept].T @ R[:, kept], R[:, kept].T @ z)
    shares = _effective_fractions(full)
    count = float(np.dot(shares, information.counts))
    # Weighted residuals have unit variance; correlated ones count for as many rows as are independent.
    costs = np.maximum.accumulate(path.increases) * count / sum(information.counts)
    threshold = float(fdtri(1, max(1.0, count - full.beta.size), 1 - level))
    dropped = int(np.searchsorted(costs, threshold))
    names = np.array(information.names)[kept][path.order[:dropped]]
    estimate = replace(estimator, dropped=(*estimator.dropped, *map(str, names))).fit(rows)
    return estimate.with_notes(essential={"level": level, "dropped": names.tolist()})


def _effective_fractions(estimate: Estimate) -> Array:
    """Return the fraction (n,) of independent rows, (1 - r) / (1 + r), from the correlation r of neighbouring rows."""
    correlations = [max(0.0, residual.correlation or 0.0) for residual in estimate.data.residuals]
    return np.array([(1 - r) / (1 + r) for r in correlations])


def reduce_estimate(
    estimate: Estimate, samples: Samples, *, keep: int | None = None, tolerance: float = MAX_ENERGY_ERROR
) -> Reduction:
    """Return the essential components of the link parameters, ranked by their energy along the motion.

    Parameters
    ----------
    estimate : Estimate
        The estimate to reduce.
    samples : Samples
        The motion.
    keep : int, optional
        Number of components to keep; by default as many as `tolerance` needs.
    tolerance : float
        Fraction of the energy that may be missed [Sheu & Walker 1991, section 3.2].

    Returns
    -------
    Reduction
        Components, their energies, and the torque error for every number of components.
    """
    robot = estimate.robot
    phi = estimate.base.embedding @ estimate.base_values
    links = tuple(
        Link(link.name, phi[PARAMETERS_PER_LINK * i : PARAMETERS_PER_LINK * (i + 1)])
        for i, link in enumerate(robot.links)
    )
    rigid = replace(robot, links=links, drives=(), extras=())
    return reduce_model(rigid, samples.q, samples.qd, samples.qdd, keep=keep, tolerance=tolerance)
