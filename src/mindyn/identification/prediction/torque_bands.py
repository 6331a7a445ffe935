"""`torque_bands`: 95 % bands of predicted torque, from the uncertainty of the values and the errors of the model."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from mindyn.foundation.algebra.values import Array
from mindyn.identification.estimators.estimate import Estimate
from mindyn.identification.feasibility.conditions.nearest_values import MIN_CORRELATION_EIGENVALUE
from mindyn.logs.samples import Samples
from mindyn.regression.friction import Friction

REVERSAL_S: Final = 0.1
"""A row is near a reversal of a joint if the joint was or will be at rest within this time at its acceleration. Rates:
`make study NAME=plants`, bands."""


def near_reversals(samples: Samples, friction: Friction) -> NDArray[np.bool_]:
    """Return the rows (N, n) at which a joint is about to reverse, or has just reversed.

    There, a joint sticks for a while, and filters smooth the step of its friction: no function of the velocity predicts
    the torque as well as elsewhere.
    """
    width = friction.width if friction.direction == "tanh" else 0.0
    return np.asarray(np.abs(samples.qd) <= width + REVERSAL_S * np.abs(samples.qdd))


def torque_bands(estimate: Estimate, samples: Samples, *, noise: bool = False) -> tuple[Array, Array]:
    """Compute 95 % bands of predicted torque.

    The bands are wider because dropped parameters may not be zero, and because residuals that are correlated from row
    to row are torque that no parameter explains, if `identify` has quantified both. Near reversals of a joint, these
    residuals are larger.

    Parameters
    ----------
    estimate : Estimate
        Estimate to use.
    samples : Samples
        Samples of a motion.
    noise : bool
        Return bands of measured torque: add the variance of the residuals to that of the parameters.

    Returns
    -------
    tuple of ndarray, shape (N, n)
        Lower and upper torque, N m or N; infinite if an undetermined parameter acts on a sample.
    """
    known = np.isfinite(estimate.deviations)
    if estimate.uncertainty.dropped_ends is not None:  # a dropped parameter without interval is unbounded
        dropped = np.array([name in estimate.values.dropped for name in estimate.names])
        known &= ~(dropped & np.isnan(estimate.uncertainty.dropped_ends).any(axis=0))
    shifts = estimate.uncertainty.dropped_shifts
    values, vectors = np.linalg.eigh(estimate.uncertainty.correlations * np.outer(known, known))
    root = vectors * np.sqrt(np.maximum(values, 0.0)) * np.where(known, estimate.deviations, 0.0)[:, None]
    variance = np.zeros_like(samples.q)
    for direction in (*root.T[values > MIN_CORRELATION_EIGENVALUE], *(() if shifts is None else shifts)):
        variance += estimate.with_values(beta=direction).predict(samples) ** 2
    for k in np.flatnonzero(~known):
        unit = np.where(np.arange(len(known)) == k, 1.0, 0.0)
        variance = np.where(estimate.with_values(beta=unit).predict(samples) == 0, variance, np.inf)
    variance += model_errors(estimate, samples) ** 2
    if noise:
        variance += np.array([joint.rms**2 - joint.alike**2 for joint in estimate.data.residuals])
    predicted, half_width = estimate.predict(samples), estimate.uncertainty.quantile * np.sqrt(variance)
    return predicted - half_width, predicted + half_width


def model_errors(estimate: Estimate, samples: Samples) -> Array:
    """Return the rms torque (N, n) that no parameter explains and that is alike from row to row: larger at rows near
    reversals.
    """
    residuals = estimate.data.residuals
    elsewhere = np.array([joint.alike for joint in residuals])
    at_reversals = np.maximum(elsewhere, [joint.reversal_rms or 0.0 for joint in residuals])
    return np.where(near_reversals(samples, estimate.settings.shape), at_reversals, elsewhere)
