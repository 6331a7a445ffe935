"""`choose`: select the estimator and the settings that the user did not give, on the training rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import isinf
from typing import Final

import numpy as np

from mindyn.algebra.blas import run_on_one_blas_thread
from mindyn.algebra.values import ShortRepr
from mindyn.errors import Code, InputError
from mindyn.estimators.estimate import Estimator
from mindyn.estimators.estimate_parts import CrossValidated
from mindyn.estimators.least_squares import LeastSquares
from mindyn.feasibility.physically_consistent import PhysicallyConsistent
from mindyn.findings import Finding, Kind, info, warning
from mindyn.identification.diagnostics.torque import without_constant_torques
from mindyn.identification.selection.candidates import best_estimator
from mindyn.identification.selection.trials import Trial, Trials, decimation_for, rate_of
from mindyn.identification.selection.tune import HIGHEST, SearchSpace, tune_settings
from mindyn.logs.cleaning import MAX_MAGNITUDE, MAX_STILL_RANGE
from mindyn.logs.conditioning import Conditioning, require_resolved
from mindyn.logs.filters import LOWEST_HZ
from mindyn.logs.log import Log
from mindyn.logs.reading import LogScan, sample_segments
from mindyn.logs.resolving import cutoff_finding, delay_finding, noise_floor_cutoff, resolve_conditioning
from mindyn.regression.friction import Friction
from mindyn.regression.regressor import build_regressor
from mindyn.regression.rows import Logs, complete_robot, list_logs
from mindyn.regression.settings import EquationSettings
from mindyn.robots.robot import Robot

Progress = Callable[[str], None]
TUNING_ROWS: Final = 60_000
"""Number of rows that settings are selected on; longer logs give evenly spread segments."""
TUNING_SCANS: Final = 16
"""Largest number of streamed logs that are read to select settings: reading all would cost as much as the fit."""
START_WIDTH: Final = 0.05
"""rad/s of the transition around zero velocity in the friction that trials start from."""
FILTER_TO_MOTION: Final = 4.0
"""The highest cut-off for estimators that noise above the motion biases, in multiples of the motion's own band. With
encoder noise of 4e-4 rad that a controller feeds back, 95.7 % of the 95 % intervals contain the true value at 4 times,
94.9 % at 5 times, and 93 % with two arms of 40 wrong by 300 % and more without a bound (tests/honesty/feedback.py)."""
TOO_SHORT: Final = warning(
    Kind.SHORT_LOG,
    "the logs are too short to select filters and friction on held-out rows: defaults are used",
    "Record a longer motion",
)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Choice(ShortRepr):
    """The estimator and settings that `identify` uses for some logs.

    Attributes
    ----------
    estimator : Estimator
        The given estimator, or the selected one.
    settings : EquationSettings
        Settings without any "auto".
    dropped : tuple of str
        Names of parameters that do not improve the prediction of held-out rows; a given estimator keeps them.
    score : CrossValidated or None
        Error of the selected settings; None if nothing was selected.
    findings : tuple of Finding
        The selected settings, and properties of the logs.
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
    """Select the estimator, the settings and the parameters to drop.

    Given values are not changed.

    Parameters
    ----------
    robot : Robot
        Robot of the logs.
    logs : Log, LogScan, or a sequence of them
        Training logs. Only segments of a `LogScan` are read.
    estimator : Estimator, optional
        By default selected among least squares and physically consistent fits.
    settings : EquationSettings, optional
        Entries that are "auto" are selected, and the conditioning if it is None. By default everything is selected.
    progress : callable, optional
        Called with a status line after each step.

    Returns
    -------
    Choice
        The selected estimator and settings, dropped parameters, the cross-validated error, and findings.

    Raises
    ------
    InputError
        If no log is given, or a log does not belong to the robot.
    LogError
        If the logs have too few rows or no signal.
    """
    listed = sample_logs(require_logs(logs))
    say = progress or (lambda line: None)  # noqa: ARG005
    asked = settings or EquationSettings.automatic()
    wanted = asked if estimator is None else estimator.settings_for(robot, asked)
    # Trials use the full dynamics, also if the estimator uses only a part of it afterwards.
    seen = replace(asked, drives=wanted.drives) if asked.is_selected else asked
    complete, _ = complete_robot(robot, seen, listed)
    start = _start_friction(complete) if isinstance(asked.friction, str) else asked.friction
    unloaded = start.without_load()
    segments = without_constant_torques(tuning_segments(listed))
    trials = Trials(segments, build_regressor(complete, replace(seen, friction=unloaded)))
    require_signals(trials.logs)
    trial, search_space, findings = _start(listed, estimator, asked, unloaded)
    if start.needs_load:
        reference = start.reference or trials.reference(trial)
        trial = trial.with_settings(friction=replace(start, reference=reference))
    score: CrossValidated | None = None
    dropped: tuple[str, ...] = ()
    if search_space.anything:
        trial = tune_settings(trials, trial, search_space, say)
        selected = trials.score(trial)
        if isinf(selected.criterion):
            findings = (*findings, TOO_SHORT)
        else:
            score = CrossValidated(selected.mean, selected.total, trials.count)
            findings = _findings_of_selected(findings, trial.conditioning, search_space)
        dropped = trials.dropped(trial) if search_space.parameters else ()
    if trials.timeline.repeated:
        findings = (*findings, info(Kind.REPEATED_MOTION, trials.timeline.sentence))
    chosen = _with_selected(wanted, trial)
    if estimator is None:
        say("comparing plain and physically consistent fits on held-out blocks")
        estimator, chosen, why = best_estimator(robot, trials, trial, chosen, dropped)
        findings = (*findings, *why)
    elif search_space.friction and chosen.shape.shapes and isinstance(estimator, LeastSquares):
        estimator = replace(estimator, friction="dissipative")  # shapes were selected within these limits
    elif search_space.friction and not isinstance(estimator, PhysicallyConsistent) and trials.needs_limits(trial):
        chosen = replace(chosen, friction=chosen.shape.without_shapes())
    return Choice(estimator, estimator.settings_for(robot, chosen), dropped, score, findings)


def require_logs(logs: Logs) -> list[Log | LogScan]:
    """Return the logs as a list; raise `InputError` if an item is not a log, or there is none."""
    listed = list_logs(logs)
    if listed is None:
        raise InputError(
            f"logs must come from read_log or scan_log, got {type(logs).__name__}",
            hint="read a file by read_log(path, robot); fit samples by estimator.fit(build_rows(robot, samples, "
            "settings))",
            code=Code.WRONG_TYPE,
            subject="logs",
        )
    return listed


def sample_logs(logs: list[Log | LogScan]) -> list[Log | LogScan]:
    """Return the logs that settings are selected on: at most `TUNING_SCANS` evenly spread ones of those that stream."""
    scans = [log for log in logs if isinstance(log, LogScan)]
    if len(scans) <= TUNING_SCANS:
        return logs
    taken = {id(scans[(2 * k + 1) * len(scans) // (2 * TUNING_SCANS)]) for k in range(TUNING_SCANS)}
    return [log for log in logs if isinstance(log, Log) or id(log) in taken]


def _start(
    logs: Sequence[Log | LogScan], estimator: Estimator | None, asked: EquationSettings, friction: Friction
) -> tuple[Trial, SearchSpace, tuple[Finding, ...]]:
    """Return the trial to start from, the search space, and findings about the logs."""
    given, has_speed = asked.conditioning or Conditioning(), all(map(_logs_speed, logs))
    if asked.conditioning is None and has_speed:
        given = replace(given, velocity="measured")
    bound = highest_filter(given, logs) if estimator is not None and estimator.filters_alike else None
    search_space = SearchSpace(asked, has_speed, estimator is not None, bound)
    resolved, begun = resolve_conditioning(given, logs, noise_floor_cutoff)
    filter_hz = None if search_space.filter else asked.filter_hz
    return Trial(replace(asked, conditioning=resolved, filter_hz=filter_hz, friction=friction)), search_space, begun


def _with_selected(wanted: EquationSettings, trial: Trial) -> EquationSettings:
    """Return the wanted settings with the entries that the trials selected."""
    step = wanted.decimation
    return replace(
        wanted,
        conditioning=trial.conditioning,
        filter_hz=trial.filter_hz,
        decimation=decimation_for(trial.filter_hz, rate_of(trial.conditioning)) if isinstance(step, str) else step,
        # The reference of a load refers to the structural base set.
        friction=trial.friction if wanted.base_form == "structural" else trial.friction.without_load(),
    )


def highest_filter(given: Conditioning, logs: Sequence[Log | LogScan]) -> float:
    """Return the highest cut-off (Hz) of the parallel filter for estimators that noise above the motion biases."""
    band, _ = resolve_conditioning(replace(given, position_cutoff_hz="auto"), logs, noise_floor_cutoff)
    rate, motion = require_resolved(band.rate_hz, "rate_hz"), band.position_cutoff_hz
    ends = HIGHEST * rate if motion is None else FILTER_TO_MOTION * require_resolved(motion, "position_cutoff_hz")
    return min(HIGHEST * rate, max(LOWEST_HZ, ends))


def _findings_of_selected(
    findings: Sequence[Finding], chosen: Conditioning, search_space: SearchSpace
) -> tuple[Finding, ...]:
    """Replace the initial cut-off and delay in the findings by the selected ones."""
    replaced = {"position_cutoff_hz": search_space.cutoff, "delay_s": search_space.delay and bool(chosen.delay_s)}
    others = tuple(
        finding for finding in findings if not any(finding.details == (name,) and new for name, new in replaced.items())
    )
    cutoff = (cutoff_finding(chosen, "by cross-validation"),) if search_space.cutoff else ()
    delay = (delay_finding(chosen, "selected by cross-validation"),) if replaced["delay_s"] else ()
    return (*cutoff, *others, *delay)


def _logs_speed(log: Log | LogScan) -> bool:
    return log.qd is not None if isinstance(log, Log) else "velocity" in log.signals


def _start_friction(robot: Robot) -> Friction:
    """Return friction with a smooth sign; a motor that moves several joints also gets joint-side friction."""
    coupled = tuple(drive.joint for drive in robot.drives if drive.coupling and drive.side == "motor")
    return Friction("tanh", START_WIDTH, (), coupled)


def never_moves(log: Log) -> bool:
    """Return whether no position of a log changes."""
    return not len(log) or float(np.ptp(log.q, axis=0).max()) < MAX_STILL_RANGE


def require_signals(logs: Sequence[Log]) -> None:
    """Raise `InputError` if the logs have no motion, no torque, or values whose squares overflow."""
    if not all((np.abs(array) < MAX_MAGNITUDE).all() for log in logs for array in (log.q, log.tau)):
        raise InputError(
            f"positions and torques must be below {MAX_MAGNITUDE:g}; larger values often stand for missing ones",
            hint="remove rows whose values are missing",
            code=Code.OUT_OF_RANGE,
            subject="logs",
        )
    lowest, highest = (end([end(log.q, axis=0) for log in logs], axis=0) for end in (np.min, np.max))
    if (reach := float((highest - lowest).max())) < MAX_STILL_RANGE:
        raise InputError(
            f"nothing moves: positions vary by at most {reach:.2g} rad or m, so that nothing is identifiable",
            hint="check that this is the right log, and that columns.position and units.position describe it",
            code=Code.TOO_LITTLE_DATA,
            subject="position",
        )
    if not any(log.tau.any() for log in logs):
        hint = "check that the log has the torque of the drives, and that columns.torque selects it"
        raise InputError("the torque is zero in every row", hint=hint, code=Code.TOO_LITTLE_DATA, subject="torque")


def tuning_segments(logs: Sequence[Log | LogScan]) -> list[Log]:
    """Return the logs, or evenly spread segments of them with `TUNING_ROWS` rows together."""
    read = [log if isinstance(log, Log) else sample_segments(log, TUNING_ROWS // len(logs)) for log in logs]
    total = sum(map(len, read))
    if total <= TUNING_ROWS:
        return read
    segments = []
    for log in read:
        count = max(1, round(8 * len(log) / total))
        length, step = int(TUNING_ROWS * len(log) / total / count), len(log) // count
        segments += [log.take(slice(k * step, k * step + length)) for k in range(count)]
    return segments
