"""`identify`: from a robot and its logs to an estimate; what is not stated is chosen inside the training rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final, Protocol

import numpy as np

from mindyn.algebra.blas import on_one_blas_thread
from mindyn.errors import InputError, MindynError
from mindyn.estimators.doubts import doubts
from mindyn.estimators.estimate import Estimate
from mindyn.estimators.least_squares import PLAIN, LeastSquares
from mindyn.estimators.logged_gears import with_logged_gears
from mindyn.estimators.systematic import with_systematic_errors
from mindyn.estimators.trials import Setting, Trials, decimation_for, rate_of
from mindyn.estimators.tuning import Freedom, tuned
from mindyn.logs.cleaning import LARGEST, STILL
from mindyn.logs.conditioning import Conditioning, number
from mindyn.logs.cutoffs import noise_floor_cutoff
from mindyn.logs.log import Log, Source
from mindyn.logs.pipeline import condition, condition_stream
from mindyn.logs.reading import LogScan, sparse
from mindyn.logs.resolving import CUTOFF_NOTE, DELAY_NOTE, resolve
from mindyn.regression.friction import Friction
from mindyn.regression.regressor import Regressor, with_estimated_drives
from mindyn.robots.robot import Robot

TUNING_ROWS: Final = 60_000
"""Rows of the logs that settings are chosen on; of longer logs, evenly spread stretches."""
START_FRICTION: Final = ("tanh", 0.05)


class Estimator(Protocol):
    """What `identify` asks of a fit: an estimate from samples.

    Its `friction`, `filter_hz` and `base`, where it has them, say what columns it uses; where its
    `estimates_drives` is False, the robot is not given drives that it does not state.
    """

    def fit(self, robot: Robot, data: Any, /) -> Estimate:
        """The estimate."""


@on_one_blas_thread
def identify(
    robot: Robot,
    logs: Log | LogScan | Sequence[Log | LogScan],
    estimator: Estimator | None = None,
    conditioning: Conditioning | None = None,
    *,
    progress: Callable[[str], None] = lambda line: None,  # noqa: ARG005
) -> Estimate:
    """The parameters that explain the logs' torque best.

    logs          what `read_log` gives; or `scan_log`, whose rows are never in memory at once
    estimator     given: its friction, filter and left-out parameters are used as they are; None: they are chosen
    conditioning  given: its "auto" entries are chosen, the rest is used as it is; None: all is chosen
    progress      called with a line now and then
    """
    listed = [logs] if isinstance(logs, (Log, LogScan)) else list(logs)
    if not listed:
        raise InputError("no log was given")
    complete = robot
    gear_notes: list[str] = []
    if getattr(estimator, "estimates_drives", True):
        geared, gear_notes = with_logged_gears(robot, [log.statement for log in listed])
        complete = with_estimated_drives(geared)
    base = getattr(estimator, "base", None)
    regressor = Regressor(complete, _start_friction(complete, estimator), base)
    trials = Trials(tuning_stretches(listed), regressor)
    _require_signals(trials.logs)
    setting, notes, score = _chosen(trials, listed, estimator, conditioning, progress)
    fit = estimator or _estimator(setting, trials)
    progress("fitting all training rows")
    # The parallel filter cuts the ends of segments itself.
    cut = setting.conditioning if getattr(fit, "filter_hz", None) is None else replace(setting.conditioning, edge_s=0.0)
    found, rows, made_notes = _fitted(fit, complete, listed, cut)
    found, doubtful = _judged(found, trials.logs, rows, cut, getattr(fit, "decimation", 1))
    return replace(
        found,
        conditioning=setting.conditioning,
        provenance={
            **found.provenance,
            "setting": setting.to_dict(),
            "cross_validated": score,
            "notes": [*doubtful, *gear_notes, *notes, *made_notes],
            "sources": [{"path": s.path, "sha256": s.sha256} for log in listed for s in sources_of(log)],
            "rows": rows,
        },
    )


def _judged(
    found: Estimate, logs: Sequence[Log], rows: int, conditioning: Conditioning, decimation: int
) -> tuple[Estimate, list[str]]:
    """The estimate with systematic errors, and doubts in the logs; stretches too short to judge by say nothing."""
    try:
        samples = condition(logs, found.robot, conditioning).samples
        return with_systematic_errors(found, samples, conditioning, decimation, rows), doubts(found, samples)
    except MindynError as error:
        why = error.message.splitlines()[0][:200]
        return found, [f"intervals are of noise alone, and the log was not doubted: {why}"]


def _require_signals(logs: Sequence[Log]) -> None:
    """Refuses logs without motion, without torque, or with numbers whose squares overflow."""
    if not all((np.abs(array) < LARGEST).all() for log in logs for array in (log.q, log.tau)):
        raise InputError(
            f"positions or torques reach {LARGEST:g}", hint="are missing values written so? leave them out"
        )
    lowest, highest = (end([end(log.q, axis=0) for log in logs], axis=0) for end in (np.min, np.max))
    if (reach := float((highest - lowest).max())) < STILL:
        raise InputError(
            f"nothing moves: positions vary by {reach:.2g} rad or m at most, so there is nothing to identify",
            hint="was the right log given, and do columns.position and units.position say what it holds?",
        )
    if not any(log.tau.any() for log in logs):
        raise InputError("the torque is zero in every row", hint="was the drive's torque logged, or another column?")


def _fitted(
    fit: Estimator, robot: Robot, logs: Sequence[Log | LogScan], settings: Conditioning
) -> tuple[Estimate, int, Sequence[str]]:
    """The fit of all rows, their number, and what was left out; block by block where a log is scanned."""
    if any(isinstance(log, LogScan) for log in logs):
        stream = condition_stream(logs, robot, settings)
        found = fit.fit(robot, stream)
        return found, stream.count, stream.notes
    made = condition(logs, robot, settings)
    return fit.fit(robot, made.samples), len(made.samples), made.notes


def sources_of(log: Log | LogScan) -> tuple[Source, ...]:
    """The files of a log, read or scanned."""
    return log.sources if isinstance(log, Log) else log.sources()


def _logs_speed(log: Log | LogScan) -> bool:
    return log.qd is not None if isinstance(log, Log) else "velocity" in log.signals


def _chosen(
    trials: Trials,
    logs: Sequence[Log | LogScan],
    estimator: Estimator | None,
    conditioning: Conditioning | None,
    progress: Callable[[str], None],
) -> tuple[Setting, tuple[str, ...], dict[str, Any] | None]:
    """The setting, notes on what the logs are like, and the cross-validated error where anything was chosen."""
    given = conditioning or Conditioning()
    logged_speed = all(map(_logs_speed, logs))
    if conditioning is None and logged_speed:
        given = replace(given, velocity="measured")
    resolved, begun = resolve(given, list(logs), noise_floor_cutoff)
    freedom = Freedom(
        cutoff=given.position_cutoff_hz == "auto",
        velocity=conditioning is None and logged_speed,
        delay=conditioning is None,
        filter=estimator is None,
        friction=estimator is None,
        rotors=estimator is None,
    )
    filter_hz = getattr(estimator, "filter_hz", None)
    setting = Setting(resolved, filter_hz, trials.regressor.friction)
    if freedom == Freedom(*([False] * 6)):
        return setting, tuple(begun), None
    setting = tuned(trials, setting, freedom, progress)
    score = trials.score(setting)
    told = _with_choices(begun, setting.conditioning, freedom)
    return setting, tuple(told), {"mean": score.mean, "total": score.total, "settings_tried": trials.count}


def _with_choices(notes: Sequence[str], chosen: Conditioning, freedom: Freedom) -> list[str]:
    """Notes with the cut-off and delay that trials chose in place of those they started from."""
    told = list(notes)
    if freedom.cutoff:
        cutoff = "no filter" if chosen.position_cutoff_hz is None else f"{chosen.position_cutoff_hz:.4g} Hz"
        told = [f"{CUTOFF_NOTE} chosen by cross-validation: {cutoff}"]
        told += [note for note in notes if not note.startswith(CUTOFF_NOTE)]
    if freedom.delay and chosen.delay_s:
        told = [note for note in told if not note.startswith(DELAY_NOTE)]
        told.append(f"{DELAY_NOTE} chosen by cross-validation: {1e3 * number(chosen.delay_s, 'delay_s'):.3g} ms")
    return told


def _start_friction(robot: Robot, estimator: Estimator | None) -> Friction:
    """The estimator's, or a smooth sign; a motor that several joints turn gets joint-side friction beside its own."""
    if estimator is not None:
        return getattr(estimator, "friction", PLAIN)
    coupled = tuple(drive.joint for drive in robot.drives if drive.coupling and drive.side == "motor")
    return Friction("tanh", START_FRICTION[1], (), coupled)


def _estimator(setting: Setting, trials: Trials) -> LeastSquares:
    """The fit that the chosen setting asks for."""
    return LeastSquares(
        covariance="correlated",
        friction=setting.friction,
        filter_hz=setting.filter_hz,
        decimation=decimation_for(setting.filter_hz, rate_of(setting.conditioning)),
        left_out=trials.left_out(setting),
    )


def tuning_stretches(logs: Sequence[Log | LogScan]) -> list[Log]:
    """The logs, or evenly spread stretches of them that have `TUNING_ROWS` rows together."""
    read = [log if isinstance(log, Log) else sparse(log, TUNING_ROWS // len(logs)) for log in logs]
    total = sum(map(len, read))
    if total <= TUNING_ROWS:
        return read
    made = []
    for log in read:
        count = max(1, round(8 * len(log) / total))
        length, step = int(TUNING_ROWS * len(log) / total / count), len(log) // count
        made += [log.take(slice(k * step, k * step + length)) for k in range(count)]
    return made
