"""`Experiment`: a robot, its logs, and all samples and equations that are computed from them.

Only this module knows how logs become samples, and how samples become equations.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import cached_property
from threading import RLock
from typing import Any, Final

from mindyn.foundation.errors import Code, InputError, pluralise
from mindyn.foundation.pages.notebook_display import NotebookDisplay, Page, draw_page
from mindyn.logs.conditioning import Conditioning
from mindyn.logs.constant_torques import without_constant_torques
from mindyn.logs.log import Log, SourceFile
from mindyn.logs.noise_cutoff import noise_floor_cutoff
from mindyn.logs.periods import Timeline, build_timeline
from mindyn.logs.pipeline import ConditionedSamples, SampleStream, condition, condition_stream
from mindyn.logs.read_log import LogScan, sample_segments
from mindyn.logs.resolving import resolve_conditioning
from mindyn.logs.servos import apply_gains
from mindyn.parameters.base_parameters import BaseParameters
from mindyn.regression.gathered_log import sources_of
from mindyn.regression.regressor import Regressor, build_regressor
from mindyn.regression.rows import LogRows, Logs, Rows, complete_robot, list_logs
from mindyn.regression.settings import EquationSettings
from mindyn.robots.robot import Robot, require_robot

EXCERPT_ROWS: Final = 60_000
"""Number of rows on which settings are selected; evenly spread segments are taken from longer logs."""
EXCERPT_SCANS: Final = 16
"""Largest number of streamed logs that are read to select settings; reading all of them would take as long as the fit.
"""
MAX_KEPT_BYTES: Final = 50_000_000
"""Memory (bytes) for the samples of all conditionings that are kept; the latest samples are always kept."""


@dataclass(frozen=True, eq=False, repr=False)
class Experiment(NotebookDisplay):
    """A robot and its logs: samples, equations and periods, each computed once, when it is first used.

    Torques that never change are replaced by zeros, which fits do not weigh.

    Parameters
    ----------
    robot : Robot
        As its file describes it.
    logs : Log, LogScan, or a sequence of them
        Logs of the robot.
    executor : concurrent.futures.Executor, optional
        Each of its workers turns one log into R factors.

    Attributes
    ----------
    robot : Robot
        The robot as given; `regressor` adds the drives that logs and settings imply.
    logs : tuple of Log or LogScan
        The logs, with zeros for torques that never change.

    Raises
    ------
    InputError
        If the robot is not a `Robot`, an item is not a log, or there is none.

    Examples
    --------
    >>> import numpy as np
    >>> robot, t = mindyn.load_robot("planar2"), np.arange(500) / 100
    >>> q = np.column_stack([np.sin(t), np.cos(2 * t)])
    >>> experiment = mindyn.Experiment(robot, mindyn.log_from_arrays(robot.joint_names, t, q, np.cos(q)))
    >>> experiment
    Experiment('planar2', 1 log, 500 rows)
    >>> experiment.samples(mindyn.Conditioning(motion_hz=10.0)).samples.qdd.shape
    (480, 2)
    """

    robot: Robot
    logs: tuple[Log | LogScan, ...]
    executor: Executor | None = None

    def __init__(self, robot: Robot, logs: Logs, *, executor: Executor | None = None) -> None:
        require_robot(robot, "Experiment")
        listed = require_logs(logs)
        in_memory = [log for log in listed if isinstance(log, Log)]
        kept = without_constant_torques(in_memory) if len(in_memory) == len(listed) else listed
        object.__setattr__(self, "robot", robot)
        object.__setattr__(self, "logs", tuple(kept))
        object.__setattr__(self, "executor", executor)
        object.__setattr__(self, "_kept", _SampleCache())

    def __repr__(self) -> str:
        rows = sum(len(log) for log in self.logs if isinstance(log, Log))
        size = "streamed" if self.is_streamed else pluralise(rows, "row")
        return f"Experiment({self.robot.name!r}, {pluralise(len(self.logs), 'log')}, {size})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle robot and logs, without what was computed from them."""
        return Experiment, (self.robot, list(self.logs))

    @property
    def is_streamed(self) -> bool:
        """Whether the rows of a log are read again for every pass, so that none is kept in memory."""
        return any(isinstance(log, LogScan) for log in self.logs)

    @property
    def logs_in_memory(self) -> list[Log]:
        """The logs. Raise an error if one of them is a stream, whose rows are not kept."""
        logs = [log for log in self.logs if isinstance(log, Log)]
        if len(logs) < len(self.logs):
            raise InputError(
                "the rows of streamed logs are not kept",
                hint="use read_log instead of scan_log, or the excerpt of the experiment",
                code=Code.UNSUPPORTED,
                subject="logs",
            )
        return logs

    @property
    def sources(self) -> tuple[SourceFile, ...]:
        """Files of the logs."""
        return tuple(source for log in self.logs for source in sources_of(log))

    @cached_property
    def timeline(self) -> Timeline | None:
        """Timeline that shows where the motion repeats; None for streams."""
        if self.is_streamed:
            return None
        return build_timeline([log.time for log in self.logs_in_memory], [log.q for log in self.logs_in_memory])

    @cached_property
    def sampled_logs(self) -> tuple[Log | LogScan, ...]:
        """Logs on which settings are selected: all logs in memory, and at most `EXCERPT_SCANS` evenly spread
        streams.
        """
        scans = [log for log in self.logs if isinstance(log, LogScan)]
        if len(scans) <= EXCERPT_SCANS:
            return self.logs
        taken = {id(scans[(2 * k + 1) * len(scans) // (2 * EXCERPT_SCANS)]) for k in range(EXCERPT_SCANS)}
        return tuple(log for log in self.logs if isinstance(log, Log) or id(log) in taken)

    @cached_property
    def excerpt(self) -> Experiment:
        """Experiment with the rows on which settings are selected: these logs, or evenly spread segments of them in
        memory.
        """
        segments = cut_segments(self.sampled_logs)
        is_same = len(segments) == len(self.logs) and all(a is b for a, b in zip(segments, self.logs, strict=True))
        return self if is_same else Experiment(self.robot, segments)

    def samples(self, conditioning: Conditioning | None = None) -> ConditionedSamples:
        """Return motion and torque at every row that a fit uses.

        Parameters
        ----------
        conditioning : Conditioning, optional
            How motion and torque are resampled, filtered and differentiated.

        Returns
        -------
        ConditionedSamples
            Samples, and the rows of the logs that they come from.
        """
        key = conditioning or Conditioning()
        kept: _SampleCache = self._kept  # type: ignore[attr-defined]
        return kept.get(key, lambda: condition(self.robot, list(self.logs), key))

    def stream(self, conditioning: Conditioning | None = None) -> SampleStream:
        """Return the samples that `samples` returns, but block by block and without keeping them."""
        return condition_stream(self.robot, list(self.logs), conditioning or Conditioning())

    def regressor(self, settings: EquationSettings, base: BaseParameters | None = None) -> Regressor:
        """Return the columns Y, with the drives that logs and settings imply."""
        complete, _ = complete_robot(self.robot, settings, self.logs)
        return build_regressor(complete, settings, base)

    def equations(self, settings: EquationSettings | None = None, base: BaseParameters | None = None) -> Rows:
        """Return the equations tau = Y beta, as R factors in blocks and as samples, computed when they are used.

        Parameters
        ----------
        settings : EquationSettings, optional
            How samples become equations.
        base : BaseParameters, optional
            Base set in place of the one of the settings.

        Returns
        -------
        Rows
            The equations.
        """
        asked = settings or EquationSettings()
        complete, findings = complete_robot(self.robot, asked, self.logs)
        regressor = build_regressor(complete, asked, base)
        if base is not None:
            asked = replace(asked, base_form=base.form)
        resolved, chosen = resolve_conditioning(asked.conditioning or Conditioning(), self.logs, noise_floor_cutoff)
        asked = replace(asked, conditioning=resolved)
        return Rows(regressor, asked, LogRows(self, complete, asked, base), findings=(*findings, *chosen))

    def plot(self, conditioning: Conditioning | None = None) -> Page:
        """Plot the signals of the logs as recorded, and the samples that a fit uses, over time.

        Parameters
        ----------
        conditioning : Conditioning, optional
            How motion and torque are resampled, filtered and differentiated, such as
            `estimate.settings.fit_conditioning`.

        Returns
        -------
        Page
            Page of the excerpt that notebooks show and `save(path)` writes.
        """
        return draw_page("experiment_page", self, conditioning)

    def with_gains(self, gains: Sequence[float]) -> Experiment:
        """Return the experiment with known gains of currents or position servos.

        Parameters
        ----------
        gains : sequence of float
            For each joint, as `EstimatedGains.values`; then the damping gains, if there are some.
        """
        logs = [apply_gains(log, gains) if isinstance(log, Log) else log.with_gains(gains) for log in self.logs]
        return Experiment(self.robot, logs, executor=self.executor)


class _SampleCache:
    """Cache of the latest samples of several conditionings, limited by `MAX_KEPT_BYTES`; several threads can use it
    safely.
    """

    def __init__(self) -> None:
        self._lock, self._kept = RLock(), OrderedDict[Conditioning, ConditionedSamples]()

    def get(self, key: Conditioning, compute: Callable[[], ConditionedSamples]) -> ConditionedSamples:
        """Return the samples of a conditioning; compute them if they are not in the cache."""
        with self._lock:
            if key not in self._kept:
                if sum(map(_size_bytes, self._kept.values())) > MAX_KEPT_BYTES / 2:
                    self._kept.popitem(last=False)  # before the next samples need memory
                made = compute()
                while self._kept and sum(map(_size_bytes, (*self._kept.values(), made))) > MAX_KEPT_BYTES:
                    self._kept.popitem(last=False)
                self._kept[key] = made
            self._kept.move_to_end(key)
            return self._kept[key]


def _size_bytes(conditioned: ConditionedSamples) -> int:
    samples = conditioned.samples
    return sum(array.nbytes for array in (samples.q, samples.qd, samples.qdd, samples.tau))


def require_logs(logs: Logs) -> list[Log | LogScan]:
    """Return the logs as a list; raise `InputError` if an item is not a log, or there is none."""
    listed = list_logs(logs)
    if listed is None:
        raise InputError(
            f"logs must come from read_log or scan_log, got {type(logs).__name__}",
            hint="read a file by read_log(path, robot); make a log of arrays or tables with log_from_arrays(robot, "
            "time, q, tau); fit samples by estimator.fit(build_rows(robot, samples, settings))",
            code=Code.WRONG_TYPE,
            subject="logs",
        )
    return listed


def count_excerpt_rows(experiment: Experiment) -> int:
    """Return the number of rows on which settings are selected; for streams, the largest possible number."""
    return min(EXCERPT_ROWS, sum(len(log) if isinstance(log, Log) else EXCERPT_ROWS for log in experiment.logs))


def cut_segments(logs: Sequence[Log | LogScan]) -> list[Log]:
    """Return the logs, or evenly spread segments with `EXCERPT_ROWS` rows together."""
    read = [log if isinstance(log, Log) else sample_segments(log, EXCERPT_ROWS // len(logs)) for log in logs]
    total = sum(map(len, read))
    if total <= EXCERPT_ROWS:
        return read
    segments = []
    for log in read:
        count = max(1, round(8 * len(log) / total))
        length, step = int(EXCERPT_ROWS * len(log) / total / count), len(log) // count
        segments += [log.take(slice(k * step, k * step + length)) for k in range(count)]
    return segments
