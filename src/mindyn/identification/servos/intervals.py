"""Intervals of servo values: the deviation between blocks of motion, and errors of the model.

Errors of a simulation are correlated over seconds, so that rows do not count as independent: a block is a log, or a
window of one. Leaving block b out moves the values by one Gauss-Newton step, (H - H_b)^-1 g_b.

Windows of one log share its kind of motion, and therefore the error that the model makes on it. The fit absorbs the
part of that error that looks like a change of its values, and leaves the rest in the residuals. The absorbed part may
be as large as the rest, so that each value may be wrong by the rms residual over its rms effect on the position.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from mindyn.foundation.algebra.jackknife import jackknife_covariance
from mindyn.foundation.algebra.normal_equations import solve_normal_equations
from mindyn.foundation.algebra.values import Array
from mindyn.identification.servos.joint_tables import ServoRows, count_rows
from mindyn.identification.servos.output_error import JointFit

MIN_BLOCKS: Final = 10
"""Logs are cut into windows until there are this many blocks."""
MIN_WINDOW_S: Final = 2.0
LEVEL: Final = 0.95
MAX_VARIANCE: Final = 1.0
"""Largest variance of log values by absorbed errors of the model: usual values of servos are not further apart."""


def number_blocks(rows: ServoRows) -> NDArray[np.intp]:
    """Return the block (N,) of each row: logs, or equal windows of them if there are few."""
    logs = int(rows.log[-1]) + 1
    per_log = -(-MIN_BLOCKS // logs)
    blocks = np.zeros(len(rows.log), dtype=np.intp)
    for log in range(logs):
        where = np.flatnonzero(rows.log == log)
        count = max(1, min(per_log, len(where) // count_rows(MIN_WINDOW_S, rows.rate_hz)))
        blocks[where] = log * per_log + np.arange(len(where)) * count // max(1, len(where))
    return np.unique(blocks, return_inverse=True)[1]


def deviations_between_blocks(
    fit: JointFit, blocks: NDArray[np.intp], free: NDArray[np.bool_], prior: Array
) -> tuple[Array, float]:
    """Return the covariance (n, n) of the n values x by the jackknife, and the t quantile of a 95 % interval.

    prior  (n, n) information of the prior
    """
    from scipy.special import stdtrit

    which, count = np.flatnonzero(free), int(blocks[-1]) + 1
    J = fit.jacobian[:, which]
    weighted = J * fit.weights[:, None]
    gradients = np.array([np.bincount(blocks, column * fit.residuals, count) for column in weighted.T]).T
    normals = np.array([[np.bincount(blocks, a * b, count) for b in J.T] for a in weighted.T]).transpose(2, 0, 1)
    total = normals.sum(axis=0) + prior[np.ix_(which, which)]
    steps = np.array([solve_normal_equations(total - normals[b], gradients[b]) for b in range(count)])
    used = np.flatnonzero(np.abs(gradients).sum(axis=1) > 0)
    shape = (len(fit.x), len(fit.x))
    covariance = np.full(shape, np.inf)
    if len(used) < 2:
        return covariance, np.inf
    change = steps[used] - steps[used].mean(axis=0)
    covariance = np.zeros(shape)
    covariance[np.ix_(which, which)] = jackknife_covariance(change)
    return covariance, float(stdtrit(len(used) - 1, (1 + LEVEL) / 2))


def widen_by_model_error(covariance: Array, fit: JointFit, logs: int, free: NDArray[np.bool_]) -> Array:
    """Return a covariance (4, 4) of log values whose deviations are at least those of absorbed errors of the model.

    The common scale and the three ratios to kp have independent errors, and so have different logs.
    """
    rows = fit.weights > 0
    weights, J = fit.weights[rows], fit.jacobian[rows, :4]
    residual = weights @ fit.residuals[rows] ** 2
    widened: Array = covariance.copy()
    for k in np.flatnonzero(free[:4]):
        direction = np.ones(4) if k == 0 else np.eye(4)[k]  # of log values
        effect = weights @ (J @ direction) ** 2
        absorbed = min(residual / effect / logs, MAX_VARIANCE) if effect > 0 else MAX_VARIANCE
        of_ratio = np.eye(4)[k] - (np.eye(4)[0] if k else 0.0)
        known = float(of_ratio @ covariance @ of_ratio)
        widened += max(absorbed - known, 0.0) * np.outer(direction, direction)
    return widened
