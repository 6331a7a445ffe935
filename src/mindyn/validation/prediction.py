"""`TorquePrediction`: the torque of one log beside the torque that an estimate predicts from its motion alone."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mindyn.algebra.values import Array
from mindyn.errors import InputError
from mindyn.estimators.estimate import Estimate
from mindyn.logs.log import Log
from mindyn.logs.samples import Samples
from mindyn.regression.row_blocks import segment_ends
from mindyn.validation.errors import EDGE_S, TorqueError, scored_rows, torque_error


@dataclass(frozen=True, slots=True, eq=False)
class TorquePrediction:
    """Torques of one log at N rows.

    samples    the motion that the prediction is made from
    time       (N,) s
    measured   (N, n) N m or N, as logged
    predicted  (N, n)
    scored     (k,) the rows that the error is taken over
    """

    samples: Samples
    time: Array
    measured: Array
    predicted: Array
    scored: NDArray[np.intp]

    @property
    def error(self) -> TorqueError:
        """The measure, over the scored rows."""
        made = torque_error(self.samples.joint_names, self.measured[self.scored], self.predicted[self.scored])
        return replace(made, unscored=len(self.measured) - len(self.scored))

    @property
    def residual(self) -> Array:
        """(N, n) measured less predicted."""
        return self.measured - self.predicted


def predict_log(estimate: Estimate, log: Log, rows: tuple[int, int] | None = None) -> TorquePrediction:
    """The whole log; its motion may be filtered, its torque is not. `rows` of its file are scored, or all but the ends.

    A log with gaps or uneven stamps is predicted at the uniform samples made of it.
    """
    samples = estimate.samples_of(log)
    predicted = estimate.predict(samples)
    whole = len(samples) == len(log)
    if rows is not None and not whole:
        raise InputError("the log has gaps or uneven stamps: its samples are not its rows, so rows cannot be chosen")
    taken = _inner_rows(samples) if rows is None else _rows_in_range(log, rows)
    if whole:
        return TorquePrediction(samples, log.time, log.tau, predicted, taken)
    return TorquePrediction(samples, np.arange(len(samples)) / samples.rate_hz, samples.tau, predicted, taken)


def _inner_rows(samples: Samples) -> NDArray[np.intp]:
    """All but the ends of every segment: at a gap, too, a filter has one side alone."""
    ends = segment_ends(samples.segments)
    long_enough = [(a, b) for a, b in ends if b - a > 2 * EDGE_S * samples.rate_hz]
    return np.concatenate([a + scored_rows(b - a, samples.rate_hz) for a, b in long_enough or ends])


def _rows_in_range(log: Log, rows: tuple[int, int]) -> NDArray[np.intp]:
    taken = np.flatnonzero((log.rows >= rows[0]) & (log.rows < rows[1]))
    if not len(taken):
        raise InputError(f"the log has no rows from {rows[0]} to {rows[1]}")
    return taken
