"""Residuals of the measured torque: at every row as logged, where those of a fit are filtered and leave rows out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from mindyn.foundation.errors import MindynError
from mindyn.identification.estimators.estimate import Estimate
from mindyn.identification.prediction.prediction import predict_log
from mindyn.identification.prediction.torque_bands import near_reversals
from mindyn.logs.log import Log


def with_measured_residuals(estimate: Estimate, logs: Sequence[Log]) -> Estimate:
    """Return the estimate with errors of the measured torque of each joint over the rows of its logs: the rms, and that
    part near reversals of the joint that is alike from row to row.

    Logs without measured torques, or too short to be conditioned, do not count; without any, nothing changes.
    """
    n = len(estimate.data.residuals)
    squares, products, count, pairs = np.zeros(n), np.zeros(n), 0, np.zeros(n)
    for log in logs:
        try:
            prediction = predict_log(estimate, log)
        except MindynError:
            continue
        residual = prediction.residual[prediction.scored]
        if residual.shape[1] != n or not np.isfinite(residual).all():
            return estimate
        squares += (residual**2).sum(axis=0)
        count += len(residual)
        near = near_reversals(prediction.samples, estimate.settings.shape)[prediction.scored]
        both = near[1:] & near[:-1] & (np.diff(prediction.scored) == 1)[:, None]
        products += np.where(both, residual[1:] * residual[:-1], 0.0).sum(axis=0)
        pairs += both.sum(axis=0)
    if not count:
        return estimate
    rms, at_reversals = np.sqrt(squares / count), np.sqrt(np.maximum(products, 0.0) / np.maximum(pairs, 1))
    residuals = tuple(
        replace(joint, measured_rms=float(whole), reversal_rms=float(part))
        for joint, whole, part in zip(estimate.data.residuals, rms, at_reversals, strict=True)
    )
    return estimate.with_data(residuals=residuals)
