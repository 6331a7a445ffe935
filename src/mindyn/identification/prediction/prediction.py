"""`TorquePrediction`: the measured torque of one log and the torque that an estimate predicts from its motion."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, InputError
from mindyn.identification.estimators.estimate import Estimate
from mindyn.identification.prediction.prediction_errors import TorqueError, is_scored, scored_rows, torque_error
from mindyn.logs.conditioning import delay_torques
from mindyn.logs.interpolation import interpolate_between_stamps
from mindyn.logs.log import Log
from mindyn.logs.pipeline import ConditionedSamples
from mindyn.logs.samples import Samples, segment_ends
from mindyn.logs.servos import apply_gains


@dataclass(frozen=True, slots=True, eq=False)
class TorquePrediction:
    """Measured and predicted torques of one log at N rows.

    samples    motion at these rows
    time       (N,) s, as logged
    measured   (N, n) N m or N, as logged
    predicted  (N, n) N m or N
    scored     (k,) rows over which the error is computed
    ends       rows at the ends of scored segments that are not scored
    """

    samples: Samples
    time: Array
    measured: Array
    predicted: Array
    scored: NDArray[np.intp]
    ends: NDArray[np.intp] = field(default_factory=lambda: np.zeros(0, dtype=np.intp))

    @property
    def error(self) -> TorqueError:
        """Return the error over the scored rows."""
        return pool_errors([self])

    @property
    def residual(self) -> Array:
        """Return measured minus predicted torque (N, n)."""
        return self.measured - self.predicted


def pool_errors(predictions: Sequence[TorquePrediction]) -> TorqueError:
    """Return the error over the scored rows of all logs."""
    measured, predicted = (
        np.concatenate([getattr(log, name)[log.scored] for log in predictions]) for name in ("measured", "predicted")
    )
    error = torque_error(predictions[0].samples.joint_names, measured, predicted)
    return replace(error, unscored=sum(len(log.measured) - len(log.scored) for log in predictions))


def predict_log(estimate: Estimate, log: Log, rows: tuple[int, int] | None = None) -> TorquePrediction:
    """Predict the torque of a log at its logged stamps. The motion of the log may be filtered, its torque is not.

    The scored rows are `rows` of the file, by default all rows except the ends of segments. Segments that are too short
    to be conditioned are omitted.
    """
    gains = None if estimate.settings.conditioning is None else estimate.settings.conditioning.gains
    log = log if gains is None else apply_gains(log, gains)
    conditioned = estimate.condition_log(log)
    samples, predicted = conditioned.samples, estimate.predict(conditioned.samples)
    if estimate.settings.conditioning is not None:
        for a, b in segment_ends(samples.segments):
            predicted[a:b] = delay_torques(predicted[a:b], estimate.settings.conditioning, samples.rate_hz)
    if not np.array_equal(conditioned.time, log.time):
        log, samples, predicted = _move_to_stamps(conditioned, predicted, log)
    scored, ends = _split_off_ends(samples) if rows is None else (_rows_in_range(log, rows), np.zeros(0, dtype=np.intp))
    return TorquePrediction(samples, log.time, log.tau, predicted, scored, ends)


def _move_to_stamps(conditioned: ConditionedSamples, predicted: Array, log: Log) -> tuple[Log, Samples, Array]:
    """Interpolate samples and predictions, which are uniform in time, at the time stamps of the log.

    Interpolating the measured torque instead would average its noise, and the error would appear smaller.
    """
    samples, kept, segments = conditioned.samples, [], []
    names = ("q", "qd", "qdd", *(name for name in samples.optional if name != "usable"))
    arrays: dict[str, list[Array]] = {name: [] for name in (*names, "predicted")}
    for number, (a, b) in enumerate(segment_ends(samples.segments)):
        time = conditioned.time[a:b]
        first, end = np.searchsorted(log.time, [time[0], time[-1] + 1 / samples.rate_hz])
        kept.append(np.arange(first, end))
        segments.append(np.full(end - first, number, dtype=np.int64))
        for name in arrays:
            values = predicted if name == "predicted" else getattr(samples, name)
            arrays[name].append(interpolate_between_stamps(time, values[a:b], log.time[first:end]))
    moved: dict[str, Any] = {name: np.concatenate(parts) for name, parts in arrays.items()}
    logged = log.take(np.concatenate(kept))
    predicted = moved.pop("predicted")
    steps = sum(float(logged.time[b - 1] - logged.time[a]) for a, b in segment_ends(np.concatenate(segments)))
    rate = (len(logged) - len(kept)) / steps if steps > 0 else samples.rate_hz
    at_stamps = replace(samples, tau=logged.tau, rate_hz=rate, segments=np.concatenate(segments), usable=None, **moved)
    return logged, at_stamps, predicted


def _split_off_ends(samples: Samples) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return all rows except the ends of segments, where filters are one-sided, and the rows at these ends."""
    ends = segment_ends(samples.segments)
    long_enough = [(a, b) for a, b in ends if is_scored(b - a, samples.rate_hz)] or ends
    scored = np.concatenate([a + scored_rows(b - a, samples.rate_hz) for a, b in long_enough])
    return scored, np.setdiff1d(np.concatenate([np.arange(a, b) for a, b in long_enough]), scored)


def _rows_in_range(log: Log, rows: tuple[int, int]) -> NDArray[np.intp]:
    taken = np.flatnonzero((log.rows >= rows[0]) & (log.rows < rows[1]))
    if not len(taken):
        raise InputError(f"the log has no rows from {rows[0]} to {rows[1]}", code=Code.OUT_OF_RANGE, subject="rows")
    return taken
