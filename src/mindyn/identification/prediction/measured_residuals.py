"""Residuals of the measured torque: at every row as logged, where those of a fit are filtered and leave rows out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from mindyn.foundation.errors import MindynError
from mindyn.identification.estimators.estimate import Estimate
from mindyn.identification.prediction.prediction import predict_log
from mindyn.logs.log import Log


def with_measured_residuals(estimate: Estimate, logs: Sequence[Log]) -> Estimate:
    """Return the estimate with the rms error of the measured torque of each joint over the rows of its logs.

    Logs without measured torques, or too short to be conditioned, do not count; without any, nothing changes.
    """
    squares, count = np.zeros(len(estimate.data.residuals)), 0
    for log in logs:
        try:
            prediction = predict_log(estimate, log)
        except MindynError:
            continue
        residual = prediction.residual[prediction.scored]
        if residual.shape[1] != len(squares) or not np.isfinite(residual).all():
            return estimate
        squares += (residual**2).sum(axis=0)
        count += len(residual)
    if not count:
        return estimate
    residuals = zip(estimate.data.residuals, np.sqrt(squares / count).tolist(), strict=True)
    return estimate.with_data(residuals=tuple(replace(joint, measured_rms=rms) for joint, rms in residuals))
