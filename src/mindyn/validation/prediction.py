"""`TorquePrediction`: the measured torque of one log and the torque that an estimate predicts from its motion."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mindyn.algebra.values import Array
from mindyn.errors import Code, InputError
from mindyn.estimators.estimate import Estimate
from mindyn.logs.log import Log
from mindyn.logs.samples import Samples
from mindyn.regression.row_blocks import segment_ends
from mindyn.validation.errors import EDGE_S, TorqueError, scored_rows, torque_error


@dataclass(frozen=True, slots=True, eq=False)
class TorquePrediction:
    """Measured and predicted torques of one log at N rows.

    samples    motion from which the torque is predicted
    time       (N,) s
    measured   (N, n) N m or N, as logged
    predicted  (N, n)
    scored     (k,) rows over which the error is computed
    """

    samples: Samples
    time: Array
    measured: Array
    predicted: Array
    scored: NDArray[np.intp]

    @property
    def error(self) -> TorqueError:
        """Return the error over the scored rows."""
        error = torque_error(self.samples.joint_names, self.measured[self.scored], self.predicted[self.scored])
        return replace(error, unscored=len(self.measured) - len(self.scored))

    @property
    def residual(self) -> Array:
        """Return measured minus predicted torque (N, n)."""
        return self.measured - self.predicted


def predict_log(estimate: Estimate, log: Log, rows: tuple[int, int] | None = None) -> TorquePrediction:
    """Predict the torque of a log; its motion may be filtered, its torque is not.

    `rows` of the file are scored, or all but the ends. A log with gaps or uneven timestamps is predicted at uniform
    samples.
    """
    samples = estimate.samples_of(log)
    predicted = estimate.predict(samples)
    whole = len(samples) == len(log)
    if rows is not None and not whole:
        raise InputError(
            "the log has gaps or uneven timestamps, so its samples are not its rows and rows cannot be selected",
            code=Code.UNSUPPORTED,
            subject="rows",
        )
    taken = _inner_rows(samples) if rows is None else _rows_in_range(log, rows)
    if whole:
        return TorquePrediction(samples, log.time, log.tau, predicted, taken)
    return TorquePrediction(samples, np.arange(len(samples)) / samples.rate_hz, samples.tau, predicted, taken)


def _inner_rows(samples: Samples) -> NDArray[np.intp]:
    """Return all rows but the ends of every segment, where filters are one-sided."""
    ends = segment_ends(samples.segments)
    long_enough = [(a, b) for a, b in ends if b - a > 2 * EDGE_S * samples.rate_hz]
    return np.concatenate([a + scored_rows(b - a, samples.rate_hz) for a, b in long_enough or ends])


def _rows_in_range(log: Log, rows: tuple[int, int]) -> NDArray[np.intp]:
    taken = np.flatnonzero((log.rows >= rows[0]) & (log.rows < rows[1]))
    if not len(taken):
        raise InputError(f"the log has no rows from {rows[0]} to {rows[1]}", code=Code.OUT_OF_RANGE, subject="rows")
    return taken
