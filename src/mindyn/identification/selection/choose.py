"""`choose`: estimator and treatment for logs; what is not stated is chosen inside the training rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import isinf
from typing import Final

import numpy as np

from mindyn.algebra.blas import run_on_one_blas_thread
from mindyn.errors import InputError
from mindyn.estimators.estimate_parts import CrossValidated
from mindyn.estimators.estimator import Estimator
from mindyn.findings import Finding, Kind, info, warning
from mindyn.identification.diagnostics.torque import without_constant_torques
from mindyn.identification.selection.candidates import best_estimator
from mindyn.identification.selection.trials import Setting, Trials
from mindyn.identification.selection.tune import HIGHEST, LOWEST_HZ, SearchSpace, tune_settings
from mindyn.logs.cleaning import MAX_MAGNITUDE, MAX_STILL_RANGE
from mindyn.logs.conditioning import Conditioning, require_resolved
from mindyn.logs.cutoffs import noise_floor_cutoff
from mindyn.logs.log import Log
from mindyn.logs.reading import LogScan, sample_segments
from mindyn.logs.resolving import cutoff_finding, delay_finding, resolve_conditioning
from mindyn.regression.friction import Friction
from mindyn.regression.regressor import build_regressor
from mindyn.regression.rows import Logs, complete_robot, list_logs
from mindyn.regression.settings import EquationSettings
from mindyn.robots.robot import Robot

Progress = Callable[[str], None]
TUNING_ROWS: Final = 60_000
"""Rows of the logs that settings are chosen on; of longer logs, evenly spread stretches."""
TUNING_SCANS: Final = 16
"""Of more logs that stream, so many are read to choose settings: reading all would cost as much as the fit."""
START_WIDTH: Final = 0.05
"""rad/s over which the direction turns in the friction that trials start from."""
FILTER_TO_MOTION: Final = 4.0
"""The highest cut-off for estimators that noise above the motion biases, in multiples of the motion's own band. With
encoder noise of 4e-4 rad that a controller feeds back, 95.7 % of the 95 % intervals hold the truth at 4 times, 94.9 %
at 5 times, and 93 % with two arms of 40 wrong by 300 % and more without a bound (tests/honesty/feedback.py)."""
TOO_SHORT: Final = warning(
    Kind.SHORT_LOG,
    "the logs are too short to select filters and friction by rows that are held out: the usual ones are used",
    "Record a longer motion",
)


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """What logs are to be identified by.

    estimator  the one given; else least squares without `dropped`
    treatment  without any "auto"
    left_out   names of parameters that held-out rows do not miss; an estimator that was given leaves them in
    score      the error by which this was chosen; None where nothing was left to choose
    findings   what was selected, and what the logs are like
    """

    estimator: Estimator
    settings: EquationSettings
    dropped: tuple[str, ...]
    score: CrossValidated | None
    findings: tuple[Finding, ...]


@run_on_one_blas_thread
def choose(
    robot: Robot,
    logs: Logs,
    estimator: Estimator | None = None,
    settings: EquationSettings | None = None,
    *,
    progress: Progress | None = None,
) -> Choice:
    """Estimator, treatment and columns to leave out; what is given is not chosen.

    logs       what `read_log` gives; or `scan_log`, of which stretches are read
    estimator  None: least squares, without the parameters that held-out rows do not miss
    treatment  its "auto" entries are chosen, and its conditioning where it is None; None: all of it is
    progress   called with a line now and then
    """
    listed = sample_logs(require_logs(logs))
    say = progress or (lambda line: None)  # noqa: ARG005
    asked = settings or EquationSettings.automatic()
    wanted = asked if estimator is None else estimator.settings_for(robot, asked)
    # Trials are of the whole dynamics, whatever part of it the estimator looks at afterwards.
    seen = replace(asked, drives=wanted.drives) if asked.is_selected else asked
    complete, _ = complete_robot(robot, seen, listed)
    start = _start_friction(complete) if isinstance(asked.friction, str) else asked.friction
    unloaded = start.without_load()
    stretches = without_constant_torques(tuning_segments(listed))
    trials = Trials(stretches, build_regressor(complete, replace(seen, friction=unloaded)))
    require_signals(trials.logs)
    setting, freedom, findings = _start(listed, estimator, asked, unloaded)
    if start.needs_load:
        reference = start.reference or trials.reference(setting)
        setting = replace(setting, friction=replace(start, reference=reference))
    score: CrossValidated | None = None
    left_out: tuple[str, ...] = ()
    if freedom.anything:
        setting = tune_settings(trials, setting, freedom, say)
        found = trials.score(setting)
        if isinf(found.criterion):
            findings = (*findings, TOO_SHORT)
        else:
            score = CrossValidated(found.mean, found.total, trials.count)
            findings = _with_selected(findings, setting.conditioning, freedom)
        left_out = trials.dropped(setting) if freedom.rotors else ()
    if trials.timeline.repeated:
        findings = (*findings, info(Kind.REPEATED_MOTION, trials.timeline.sentence))
    chosen = setting.settings(wanted)
    if estimator is None:
        say("comparing plain and physically consistent fits on held-out blocks")
        estimator, why = best_estimator(robot, trials, setting, chosen, left_out)
        findings = (*findings, *why)
    return Choice(estimator, estimator.settings_for(robot, chosen), left_out, score, findings)


def require_logs(logs: Logs) -> list[Log | LogScan]:
    """The logs as a list; refuses none, and what is no log."""
    listed = list_logs(logs)
    if listed is None:
        raise InputError(
            f"{type(logs).__name__} is no log: settings are chosen from what read_log or scan_log gives",
            hint="of a file: read_log(path, robot); of samples: estimator.fit(rows_of(robot, samples, treatment))",
        )
    return listed


def sample_logs(logs: list[Log | LogScan]) -> list[Log | LogScan]:
    """The logs that settings are chosen on: of more than `TUNING_SCANS` that stream, as many evenly spread ones."""
    scans = [log for log in logs if isinstance(log, LogScan)]
    if len(scans) <= TUNING_SCANS:
        return logs
    taken = {id(scans[(2 * k + 1) * len(scans) // (2 * TUNING_SCANS)]) for k in range(TUNING_SCANS)}
    return [log for log in logs if isinstance(log, Log) or id(log) in taken]


def _start(
    logs: Sequence[Log | LogScan], estimator: Estimator | None, asked: EquationSettings, friction: Friction
) -> tuple[Setting, SearchSpace, tuple[Finding, ...]]:
    """Where trials start from, what they may choose, and findings on what the logs are like."""
    given = asked.conditioning or Conditioning()
    logged_speed = all(map(_logs_speed, logs))
    if asked.conditioning is None and logged_speed:
        given = replace(given, velocity="measured")
    resolved, begun = resolve_conditioning(given, logs, noise_floor_cutoff)
    free_filter, free_friction = asked.filter_hz == "auto", asked.friction == "auto"
    freedom = SearchSpace(
        cutoff=given.position_cutoff_hz == "auto",
        velocity=asked.conditioning is None and logged_speed,
        delay=asked.conditioning is None,
        filter=free_filter,
        friction=free_friction,
        rotors=estimator is None or free_filter or free_friction,
        highest_filter_hz=None if estimator is None or not estimator.filters_alike else highest_filter(given, logs),
    )
    return Setting(resolved, None if free_filter else asked.cutoff_hz, friction), freedom, begun


def highest_filter(given: Conditioning, logs: Sequence[Log | LogScan]) -> float:
    """Return the highest cut-off (Hz) of the parallel filter for estimators that noise above the motion biases."""
    band, _ = resolve_conditioning(replace(given, position_cutoff_hz="auto"), logs, noise_floor_cutoff)
    rate, motion = require_resolved(band.rate_hz, "rate_hz"), band.position_cutoff_hz
    ends = HIGHEST * rate if motion is None else FILTER_TO_MOTION * require_resolved(motion, "position_cutoff_hz")
    return min(HIGHEST * rate, max(LOWEST_HZ, ends))


def _with_selected(findings: Sequence[Finding], chosen: Conditioning, search_space: SearchSpace) -> tuple[Finding, ...]:
    """Return the findings with the cut-off and delay that trials selected in place of those they started from."""
    replaced = {"position_cutoff_hz": search_space.cutoff, "delay_s": search_space.delay and bool(chosen.delay_s)}
    others = tuple(one for one in findings if not any(one.details == (name,) and new for name, new in replaced.items()))
    cutoff = (cutoff_finding(chosen, "by cross-validation"),) if search_space.cutoff else ()
    delay = (delay_finding(chosen, "selected by cross-validation"),) if replaced["delay_s"] else ()
    return (*cutoff, *others, *delay)


def _logs_speed(log: Log | LogScan) -> bool:
    return log.qd is not None if isinstance(log, Log) else "velocity" in log.signals


def _start_friction(robot: Robot) -> Friction:
    """A smooth sign; a motor that several joints turn gets joint-side friction beside its own."""
    coupled = tuple(drive.joint for drive in robot.drives if drive.coupling and drive.side == "motor")
    return Friction("tanh", START_WIDTH, (), coupled)


def never_moves(log: Log) -> bool:
    """Whether no position of a log changes."""
    return not len(log) or float(np.ptp(log.q, axis=0).max()) < MAX_STILL_RANGE


def require_signals(logs: Sequence[Log]) -> None:
    """Refuses logs without motion, without torque, or with numbers whose squares overflow."""
    if not all((np.abs(array) < MAX_MAGNITUDE).all() for log in logs for array in (log.q, log.tau)):
        raise InputError(
            f"positions or torques reach {MAX_MAGNITUDE:g}", hint="are missing values written so? leave them out"
        )
    lowest, highest = (end([end(log.q, axis=0) for log in logs], axis=0) for end in (np.min, np.max))
    if (reach := float((highest - lowest).max())) < MAX_STILL_RANGE:
        raise InputError(
            f"nothing moves: positions vary by {reach:.2g} rad or m at most, so there is nothing to identify",
            hint="was the right log given, and do columns.position and units.position say what it holds?",
        )
    if not any(log.tau.any() for log in logs):
        raise InputError("the torque is zero in every row", hint="was the drive's torque logged, or another column?")


def tuning_segments(logs: Sequence[Log | LogScan]) -> list[Log]:
    """The logs, or evenly spread stretches of them that have `TUNING_ROWS` rows together."""
    read = [log if isinstance(log, Log) else sample_segments(log, TUNING_ROWS // len(logs)) for log in logs]
    total = sum(map(len, read))
    if total <= TUNING_ROWS:
        return read
    made = []
    for log in read:
        count = max(1, round(8 * len(log) / total))
        length, step = int(TUNING_ROWS * len(log) / total / count), len(log) // count
        made += [log.take(slice(k * step, k * step + length)) for k in range(count)]
    return made
