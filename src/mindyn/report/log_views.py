"""Data of logs for a report: torques over time, residuals, and the motion of the joints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from mindyn.algebra.values import Array
from mindyn.estimators.estimate import Estimate
from mindyn.logs.cleaning import sum_recorded_time
from mindyn.logs.log import Log
from mindyn.pages.plots import (
    bucket_extremes,
    bucket_rows,
    bucket_times,
    pack_exactly,
    pack_levels,
    round_to_six_digits,
)
from mindyn.report.data import ExcitationData, JointMotion, JointTrace, MotionData, Numbers, ResidualData, TorqueTrace
from mindyn.robots.parts import Limits
from mindyn.validation.prediction import TorquePrediction
from mindyn.validation.residual_spectra import spectrum
from mindyn.validation.trajectories import Trajectories

Role = Literal["held out", "training"]
TOTAL_BUCKETS: Final = 400_000
"""Buckets of all columns of a report together: about 2 MB of text."""
MAX_BUCKETS, MIN_BUCKETS = 16_000, 400
"""Most and fewest buckets of one column."""
HISTOGRAM_BINS: Final = 61
HISTOGRAM_DEVIATIONS: Final = 4.0
"""A histogram covers this many standard deviations on both sides."""
SPECTRUM_POINTS: Final = 240
CLOUD_POINTS: Final = 500
"""Points of a scatter plot."""
COVERAGE_CELLS: Final = (28, 20)
"""Numbers of cells for position and speed."""


@dataclass(frozen=True, slots=True, eq=False)
class LogView:
    """A log, its role, and the prediction of the estimate."""

    name: str
    role: Role
    prediction: TorquePrediction


def view_logs(logs: Sequence[Log], role: Role, predictions: Sequence[TorquePrediction]) -> list[LogView]:
    """Pair every log with its prediction."""
    titles = [log.name or f"{role} array {k}, {log.duration_s:.3g} s" for k, log in enumerate(logs, 1)]
    return [LogView(title, role, prediction) for title, prediction in zip(titles, predictions, strict=True)]


def pack_traces(evidence: Sequence[LogView]) -> tuple[TorqueTrace, ...]:
    """Torques over time, so short that all logs together stay within `PLOT_BUCKETS`."""
    if not evidence:
        return ()
    columns = 3 * len(evidence) * evidence[0].prediction.measured.shape[1]
    buckets = int(np.clip(TOTAL_BUCKETS // columns, MIN_BUCKETS, MAX_BUCKETS))
    return tuple(_pack_trace(view, buckets) for view in evidence)


def _pack_trace(view: LogView, buckets: int) -> TorqueTrace:
    time, count = view.prediction.time, len(view.prediction.time)
    joints = tuple(
        _pack_joint_trace(view.prediction, joint, buckets) for joint in range(view.prediction.measured.shape[1])
    )
    times = pack_exactly(bucket_times(time, buckets))
    seconds, bucket = sum_recorded_time(time), bucket_rows(count, buckets)
    return TorqueTrace(view.name, view.role, count, seconds, bucket, times, joints, _unscored_times(view.prediction))


def _unscored_times(prediction: TorquePrediction) -> tuple[tuple[float, float], ...]:
    """Return the intervals between the last scored sample before and the first one after a gap."""
    unscored = np.ones(len(prediction.time), dtype=bool)
    unscored[prediction.scored] = False
    marks = np.flatnonzero(np.diff(np.concatenate([[False], unscored, [False]]).astype(int)))
    last = len(prediction.time) - 1
    return tuple(
        (float(prediction.time[max(start - 1, 0)]), float(prediction.time[min(stop, last)]))
        for start, stop in zip(marks[::2], marks[1::2], strict=True)
    )


def _pack_joint_trace(prediction: TorquePrediction, joint: int, buckets: int) -> JointTrace:
    measured, predicted, residual = (
        prediction.measured[:, joint],
        prediction.predicted[:, joint],
        prediction.residual[:, joint],
    )
    scored = residual[prediction.scored]
    worst = int(prediction.scored[np.abs(scored).argmax()])
    shown = {
        "measured": pack_levels(bucket_extremes(measured, buckets)),
        "predicted": pack_levels(bucket_extremes(predicted, buckets)),
        # Clip the unscored ends, where filters are one-sided, so that they do not scale the axis.
        "residual": pack_levels(bucket_extremes(np.clip(residual, scored.min(), scored.max()), buckets)),
    }
    return JointTrace(
        **shown,
        low=float(measured.min()),
        high=float(measured.max()),
        rms_error=float(np.sqrt(np.mean(scored**2))),
        largest_error=float(abs(residual[worst])),
        largest_error_s=float(prediction.time[worst]),
    )


def summarize_residuals(evidence: Sequence[LogView]) -> tuple[ResidualData, ...]:
    """Compute histograms over the scored rows of all logs and spectra of the longest log."""
    if not evidence:
        return ()
    longest = max((view.prediction for view in evidence), key=lambda prediction: len(prediction.time))
    segments, rate = longest.samples.segments, longest.samples.rate_hz
    frequency, residual_power = spectrum(longest.residual, segments, rate)
    _, torque_power = spectrum(longest.measured, segments, rate)
    kept = _log_ranges(len(frequency))
    powers = [_average_ranges(power, kept) for power in (residual_power, torque_power)]
    shown = round_to_six_digits(_average_ranges(frequency[:, None], kept)[:, 0])
    left = np.concatenate([view.prediction.residual[view.prediction.scored] for view in evidence])
    return tuple(
        ResidualData(
            *_summarize_histogram(left[:, joint]),
            shown,
            round_to_six_digits(powers[0][:, joint]),
            round_to_six_digits(powers[1][:, joint]),
            thin_values(longest.residual[:, joint], longest.scored),
            _residual_regressors(longest, joint),
        )
        for joint in range(left.shape[1])
    )


def thin_values(values: Array, rows: NDArray[np.intp]) -> Numbers:
    """Return at most `CLOUD_POINTS` evenly spaced values of the rows, with four digits."""
    taken = rows[np.unique(np.linspace(0, len(rows) - 1, CLOUD_POINTS).astype(int))]
    return tuple(float(f"{value:.4g}") for value in values[taken])


def _residual_regressors(prediction: TorquePrediction, joint: int) -> tuple[tuple[str, Numbers], ...]:
    """Return signals that a residual may depend on; the torque is the predicted one, which has no noise."""
    kinds = (("position", prediction.samples.q), ("speed", prediction.samples.qd), ("torque", prediction.predicted))
    return tuple((name, thin_values(values[:, joint], prediction.scored)) for name, values in kinds)


def _summarize_histogram(left: Array) -> tuple[float, float, float, Numbers, Numbers, Numbers]:
    """Return the first fields of `ResidualData`, from the mean to the normal density."""
    mean, deviation = float(left.mean()), float(left.std())
    width = deviation or 1.0
    edges = mean + width * np.linspace(-HISTOGRAM_DEVIATIONS, HISTOGRAM_DEVIATIONS, HISTOGRAM_BINS + 1)
    density = np.histogram(left, edges)[0] / (len(left) * np.diff(edges))
    normal = np.exp(-((np.linspace(-HISTOGRAM_DEVIATIONS, HISTOGRAM_DEVIATIONS, HISTOGRAM_BINS + 1)) ** 2) / 2) / (
        width * np.sqrt(2 * np.pi)
    )
    beyond = float(np.mean(np.abs(left - mean) > 3 * width))
    shapes = round_to_six_digits(edges), round_to_six_digits(density), round_to_six_digits(normal)
    return mean, deviation, beyond, *shapes


def _log_ranges(count: int) -> list[tuple[int, int]]:
    """Return ranges of spectral lines without zero frequency, evenly spaced on a logarithmic axis."""
    if count < 2:
        return []
    marks = np.unique(np.rint(np.geomspace(1, count, SPECTRUM_POINTS + 1)).astype(int))
    return list(zip(marks[:-1].tolist(), marks[1:].tolist(), strict=True))


def _average_ranges(values: Array, ranges: Sequence[tuple[int, int]]) -> Array:
    rows = [values[start:stop].mean(axis=0) for start, stop in ranges]
    return np.array(rows).reshape(len(ranges), values.shape[1])


def summarize_excitation(estimate: Estimate, evidence: Sequence[LogView]) -> ExcitationData | None:
    """Summarize the motion of the joints in the training logs or, without any, in the held-out logs."""
    taken = [view for view in evidence if view.role == "training"] or list(evidence)
    if not taken:
        return None
    q, qd, qdd = (
        np.concatenate([getattr(view.prediction.samples, name) for view in taken]) for name in ("q", "qd", "qdd")
    )
    joints = tuple(
        _summarize_joint_motion(q[:, k], qd[:, k], qdd[:, k], joint.limits)
        for k, joint in enumerate(estimate.robot.primary_joints)
    )
    identifiable = len(estimate.names) - len(estimate.dropped) - len(estimate.unidentifiable)
    condition = estimate.condition_number
    return ExcitationData(taken[0].role, condition, identifiable, sum(view.rows for view in estimate.residuals), joints)


def _summarize_joint_motion(q: Array, qd: Array, qdd: Array, limits: Limits) -> JointMotion:
    fastest = float(np.abs(qd).max())
    reach = [(-fastest, fastest) if fastest else (-1.0, 1.0), _value_range(q)]
    counts, _, _ = np.histogram2d(qd, q, bins=COVERAGE_CELLS[::-1], range=reach)
    levels = np.where(counts > 0, 1 + np.rint(8 * np.sqrt(counts / max(counts.max(), 1))), 0).astype(int)
    rows = tuple("".join(map(str, row)) for row in levels)
    ends = float(q.min()), float(q.max())
    return JointMotion(*ends, limits.lower, limits.upper, fastest, float(np.abs(qdd).max()), rows)


def _value_range(values: Array) -> tuple[float, float]:
    low, high = float(values.min()), float(values.max())
    return (low, high) if high > low else (low - 1, high + 1)


def pack_motion(given: Trajectories | None) -> MotionData | None:
    """Pack simulated and measured positions."""
    if given is None:
        return None
    measured, simulated = (
        tuple(pack_levels(bucket_extremes(column, MAX_BUCKETS)) for column in columns.T)
        for columns in (given.measured, given.simulated)
    )
    times = pack_exactly(bucket_times(given.t, MAX_BUCKETS))
    return MotionData(
        float(given.t[-1] - given.t[0]), given.status, times, measured, simulated, round_to_six_digits(given.rms)
    )
