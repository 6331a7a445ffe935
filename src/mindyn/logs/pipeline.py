"""`condition` and `condition_stream`: convert logs to samples, at once or block by block, with the same steps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mindyn.foundation.algebra.values import Array, ShortRepr
from mindyn.foundation.errors import Code, pluralise
from mindyn.foundation.findings import Finding, Kind, info
from mindyn.logs.conditioning import (
    ConditionedMotion,
    Conditioning,
    condition_motion,
    edge_rows,
    min_segment_rows,
    reach_rows,
    require_resolved,
)
from mindyn.logs.log import Log
from mindyn.logs.log_errors import LogError
from mindyn.logs.loop_follower import LoopFollower
from mindyn.logs.noise_cutoff import noise_floor_cutoff
from mindyn.logs.number_checks import split_speeds
from mindyn.logs.read_log import LogScan
from mindyn.logs.resolving import estimate_period, resolve_conditioning
from mindyn.logs.samples import Samples
from mindyn.logs.segments import SegmentPiece, SegmentWindow, StepLimits, cut_windows, resample_pieces, split_at_gaps
from mindyn.logs.time_stamps import estimate_even_step, has_bursts
from mindyn.robots.robot import Robot

BLOCK_ROWS: Final = 65_536
MAX_RATE_DIFFERENCE: Final = 2e-3
"""Largest relative difference between the rates of a log and of the settings; accelerations differ by twice that."""
MIN_SAMPLES: Final = 10
"""Fewest samples of a log."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ConditionedSamples(ShortRepr):
    """Samples of logs and their origin.

    samples       motion and torque
    rows          (N,) row of the log's file that each sample comes from (the nearest, if rows were interpolated)
    time          (N,) time of each sample, s: the stamp of its row, unless rows were interpolated
    logs          (N,) index of the log that each sample comes from
    conditioning  settings with every "auto" replaced by the selected value
    findings      dropped rows, gaps and selected settings
    """

    samples: Samples
    rows: NDArray[np.int64]
    time: Array
    logs: NDArray[np.int64]
    conditioning: Conditioning
    findings: tuple[Finding, ...]


@dataclass(eq=False, repr=False)
class SampleStream:
    """Iterable of blocks of samples of one or more logs. Every iteration computes the blocks again.

    A segment may continue from one block to the next, with the same number.

    findings        dropped rows, gaps and selected settings so far
    first_segments  number of the first segment of every log so far
    count           number of samples so far
    """

    logs: Sequence[Log | LogScan]
    robot: Robot
    conditioning: Conditioning
    block_rows: int | None
    choices: Sequence[Finding]
    min_samples: int = MIN_SAMPLES
    first_segments: list[int] = field(default_factory=list, init=False)
    count: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.findings = list(self.choices)

    @property
    def rate_hz(self) -> float:
        """Rate of the samples."""
        return require_resolved(self.conditioning.rate_hz, "rate_hz")

    def __iter__(self) -> Iterator[Samples]:
        return (samples for samples, _, _, _ in self.blocks())

    def blocks(self) -> Iterator[tuple[Samples, NDArray[np.int64], Array, int]]:
        """Yield samples with the file rows that they come from, their times, and the index of their log."""
        c = self.conditioning
        self.findings, self._segment, self.count = list(self.choices), -1, 0
        self.first_segments.clear()
        follower = LoopFollower(self.robot)
        for number_of_log, log in enumerate(self.logs):
            self.first_segments.append(self._segment + 1)
            follower.begin_log()
            chunks: Iterable[Log] = [log] if isinstance(log, Log) else log
            last: tuple[int, int] | None = None
            short: list[Log] = []
            for window in cut_windows(self._uniform(chunks), self.block_rows, reach_rows(c)):
                if len(window.rows) < min_segment_rows(c):
                    short.append(window.rows)
                    continue
                motion = condition_motion(window.rows, c)
                kept = _select_window_rows(window, c)
                index = window.index + kept
                if len(kept):
                    segments = self._number_segments(index, window.segment, last)
                    last = (window.segment, int(index[-1]))
                    self.count += len(kept)
                    rows, time = window.rows.rows[kept], window.rows.time[kept]
                    yield follower.follow(self._samples(motion, kept, segments), rows), rows, time, number_of_log
                elif window.is_last and window.index == 0:
                    short.append(window.rows)
            self.findings.extend([*_report_short_segments(short, c), *log.findings])
        if note := follower.note():
            self.findings.append(info(Kind.FOLLOWED_LOOPS, note))
        require_samples(self.count, self.findings, self.min_samples)

    def _uniform(self, chunks: Iterable[Log]) -> Iterator[SegmentPiece]:
        c = self.conditioning
        rate = require_resolved(c.rate_hz, "rate_hz")
        following = iter(chunks)
        first = next(following)  # a log without usable rows raises an error
        steps = np.diff(first.time) if len(first) > 2 else np.array([1 / rate])
        step = estimate_even_step(steps) if has_bursts(steps) else estimate_period(steps)
        other_rate = abs(step * rate - 1) > MAX_RATE_DIFFERENCE
        if other_rate and c.stamps == "uniform":  # the settings were selected for another rate
            message = f"rows at {1 / step:.6g} Hz are interpolated to the {rate:.6g} Hz of the settings"
            self.findings.append(info(Kind.LOG_SETTING, message))
        limits = StepLimits(
            c.longest_gap_rows * max(1 / rate, step), split_speeds(self.robot, first), max(1 / rate, step)
        )
        parts = self._with_gaps(split_at_gaps(chain([first], following), limits), limits.longest_s)
        return resample_pieces(parts, rate) if other_rate or c.stamps == "measured" else parts

    def _with_gaps(self, parts: Iterator[SegmentPiece], longest: float) -> Iterator[SegmentPiece]:
        gaps: list[tuple[float, int]] = []
        for part in parts:
            if part.is_last and part.gap_s > longest:
                gaps.append((part.gap_s, int(part.rows.rows[-1])))
            yield part
        if gaps:
            (longest, after), count = max(gaps), len(gaps)
            lead = "a gap" if count == 1 else f"{count} gaps, the longest"
            message = f"{lead} of {longest:.4g} s after row {after}: the log is split into {count + 1} segments"
            self.findings.append(info(Kind.SPLIT_LOG, message))

    def _number_segments(
        self, index: NDArray[np.int64], segment: int, last: tuple[int, int] | None
    ) -> NDArray[np.int64]:
        """Assign a new segment number wherever consecutive samples are not neighbours in the same segment."""
        before = last[1] if last is not None and last[0] == segment else -2
        starts = np.diff(index, prepend=before) != 1
        segments = self._segment + np.cumsum(starts)
        self._segment = int(segments[-1])
        return np.asarray(segments, dtype=np.int64)

    def _samples(self, motion: ConditionedMotion, kept_rows: NDArray[np.int64], segments: NDArray[np.int64]) -> Samples:
        c = self.conditioning
        whole = len(kept_rows) == kept_rows[-1] - kept_rows[0] + 1
        taken = slice(int(kept_rows[0]), int(kept_rows[-1]) + 1) if whole else kept_rows  # a slice avoids copies
        q, qd, qdd, tau = (array[taken] for array in motion[:4])
        motor_q = None if motion.motor_q is None else motion.motor_q[taken]
        usable = None if c.slow_speed is None else np.abs(qd) > np.asarray(c.slow_speed)
        return Samples(self.robot.primary_names, q, qd, qdd, tau, self.rate_hz, segments, usable, motor_q=motor_q)


def require_samples(count: int, findings: Sequence[Finding], min_samples: int = MIN_SAMPLES) -> None:
    """Raise `LogError` if there are too few samples."""
    if count < min_samples:
        raise LogError(
            f"too few rows: {count} samples are left after cutting, {min_samples} are needed",
            hint="; ".join([*map(str, findings), "use a longer log, or a smaller edge_s"]),
            code=Code.TOO_LITTLE_DATA,
            subject="samples",
        )


def _select_window_rows(window: SegmentWindow, c: Conditioning) -> NDArray[np.int64]:
    """Return the rows of the window's piece that are not too near an end of the segment."""
    rows = np.arange(window.start, window.stop, dtype=np.int64)
    keep = rows + window.index >= edge_rows(c)
    if window.is_last:
        keep &= rows < len(window.rows) - edge_rows(c)
    return np.asarray(rows[keep])


def _report_short_segments(short: Sequence[Log], c: Conditioning) -> list[Finding]:
    """Report the segments of a log that gave no sample."""
    if not short:
        return []
    rows = short[0].rows
    count = sum(map(len, short))
    where = f"rows {rows[0]} to {rows[-1]}" if len(rows) > 1 else f"row {rows[0]}" if len(rows) else "an empty segment"
    if len(short) > 1:
        where = f"{len(short)} segments between gaps, the first of them {where},"
    why = f"nothing remains after {pluralise(edge_rows(c), 'row')} are cut at both ends"
    return [info(Kind.DROPPED_ROWS, f"{where} ({pluralise(count, 'row')}) dropped: {why}")]


def condition_stream(
    robot: Robot,
    logs: Log | LogScan | Sequence[Log | LogScan],
    conditioning: Conditioning | None = None,
    *,
    block_rows: int | None = BLOCK_ROWS,
    min_samples: int = MIN_SAMPLES,
) -> SampleStream:
    """Convert logs to samples block by block in bounded memory, with the same numbers as `condition`.

    Parameters
    ----------
    robot : Robot
        Robot whose joints were logged.
    logs : Log, LogScan, or a sequence of them
        `scan_log` streams files that do not fit into memory.
    conditioning : Conditioning, optional
        Settings; each "auto" is selected from the first rows of these logs.
    block_rows : int or None
        Approximate number of rows of a block; None makes every segment a block.
    min_samples : int
        Fewest samples of all logs together.

    Returns
    -------
    SampleStream
        Iterable of `Samples`.

    Raises
    ------
    LogError
        If no log is given, or fewer than `min_samples` samples are left.
    """
    listed = _list_logs(logs)
    resolved, choices = resolve_conditioning(conditioning or Conditioning(), listed, noise_floor_cutoff)
    return SampleStream(listed, robot, resolved, block_rows, choices, min_samples)


def condition(
    robot: Robot,
    logs: Log | LogScan | Sequence[Log | LogScan],
    conditioning: Conditioning | None = None,
) -> ConditionedSamples:
    """Convert logs to samples: filter, differentiate, align and decimate the rows.

    Parameters
    ----------
    robot : Robot
        Robot whose joints were logged.
    logs : Log, LogScan, or a sequence of them
        Logs of the robot.
    conditioning : Conditioning, optional
        Settings; each "auto" is selected from the first rows of these logs.

    Returns
    -------
    ConditionedSamples
        Samples, the rows of the logs that they come from, the selected settings, and findings.

    Raises
    ------
    LogError
        If no log is given, or too few samples are left.
    """
    stream = condition_stream(robot, logs, conditioning, block_rows=None)
    blocks = list(stream.blocks())
    rows, time = (np.concatenate([block[k] for block in blocks]) for k in (1, 2))
    owners = np.concatenate([np.full(len(rows), owner, dtype=np.int64) for _, rows, _, owner in blocks])
    samples = join_samples([block for block, _, _, _ in blocks])
    return ConditionedSamples(samples, rows, time, owners, stream.conditioning, tuple(stream.findings))


def join_samples(blocks: Sequence[Samples]) -> Samples:
    """Join consecutive blocks of samples."""
    names = ("q", "qd", "qdd", "tau", "segments", *blocks[0].optional)
    arrays: dict[str, Any] = {name: np.concatenate([getattr(b, name) for b in blocks]) for name in names}
    return replace(blocks[0], **arrays)


def _list_logs(logs: Log | LogScan | Sequence[Log | LogScan]) -> list[Log | LogScan]:
    listed = [logs] if isinstance(logs, (Log, LogScan)) else list(logs)
    if not listed:
        message, hint = "no log was given", "pass the result of read_log or scan_log"
        raise LogError(message, hint=hint, code=Code.MISSING_VALUE, subject="logs")
    return listed
