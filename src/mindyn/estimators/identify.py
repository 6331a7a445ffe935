"""`identify`: from a robot and its logs to an estimate; what is not stated is chosen inside the training rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final, Protocol

from mindyn.errors import InputError
from mindyn.estimators.estimate import Estimate
from mindyn.estimators.least_squares import LeastSquares
from mindyn.estimators.trials import Setting, Trials, decimation_for, rate_of
from mindyn.estimators.tuning import Freedom, tuned
from mindyn.logs.conditioning import Conditioning
from mindyn.logs.cutoffs import noise_floor_cutoff
from mindyn.logs.log import Log
from mindyn.logs.pipeline import condition
from mindyn.logs.resolving import resolve
from mindyn.logs.samples import Samples
from mindyn.parameters.base import BaseParameters
from mindyn.regression.friction import Friction
from mindyn.regression.regressor import ExtraColumn, Regressor, with_estimated_drives
from mindyn.robots.robot import Robot

TUNING_ROWS: Final = 60_000
"""Rows of the logs that settings are chosen on; of longer logs, evenly spread stretches."""
START_FRICTION: Final = ("tanh", 0.05)


class Estimator(Protocol):
    """What `identify` asks of a fit: its columns, its filter, and an estimate from samples."""

    @property
    def friction(self) -> Friction:
        """Shape of the friction columns."""

    @property
    def extra(self) -> tuple[ExtraColumn, ...]:
        """Declared columns."""

    @property
    def filter_hz(self) -> float | None:
        """Low pass on columns and torque alike."""

    @property
    def base(self) -> BaseParameters | None:
        """The base set; the structural one if left out."""

    def fit(self, robot: Robot, data: Samples, /) -> Estimate:
        """The estimate."""


def identify(
    robot: Robot,
    logs: Log | Sequence[Log],
    estimator: Estimator | None = None,
    conditioning: Conditioning | None = None,
    *,
    extra: Sequence[ExtraColumn] = (),
    progress: Callable[[str], None] = lambda line: None,  # noqa: ARG005
) -> Estimate:
    """The parameters that explain the logs' torque best.

    estimator     given: its friction, filter and left-out parameters are used as they are; None: they are chosen
    conditioning  given: its "auto" entries are chosen, the rest is used as it is; None: all is chosen
    extra         declared columns, when no estimator is given
    progress      called with a line now and then
    """
    listed = [logs] if isinstance(logs, Log) else list(logs)
    if not listed:
        raise InputError("no log was given")
    complete = with_estimated_drives(robot)
    columns = tuple(extra) if estimator is None else estimator.extra
    base = None if estimator is None else estimator.base
    regressor = Regressor(complete, _start_friction(complete, estimator), columns, base)
    trials = Trials(tuning_stretches(listed), regressor)
    setting, notes, score = _chosen(trials, listed, estimator, conditioning, progress)
    fit = estimator or _estimator(setting, trials)
    progress("fitting all training rows")
    # The parallel filter cuts the ends of segments itself.
    cut = setting.conditioning if fit.filter_hz is None else replace(setting.conditioning, edge_s=0.0)
    made = condition(listed, complete, cut)
    found = fit.fit(complete, made.samples)
    return replace(
        found,
        conditioning=setting.conditioning,
        provenance={
            **found.provenance,
            "setting": setting.to_dict(),
            "cross_validated": score,
            "notes": [*notes, *made.notes],
            "sources": [{"path": s.path, "sha256": s.sha256} for log in listed for s in log.sources],
            "rows": len(made.samples),
        },
    )


def _chosen(
    trials: Trials,
    logs: Sequence[Log],
    estimator: Estimator | None,
    conditioning: Conditioning | None,
    progress: Callable[[str], None],
) -> tuple[Setting, tuple[str, ...], dict[str, Any] | None]:
    """The setting, notes on what the logs are like, and the cross-validated error where anything was chosen."""
    given = conditioning or Conditioning()
    logged_speed = all(log.qd is not None for log in logs)
    if conditioning is None and logged_speed:
        given = replace(given, velocity="measured")
    resolved, notes = resolve(given, list(logs), noise_floor_cutoff)
    freedom = Freedom(
        cutoff=given.position_cutoff_hz == "auto",
        velocity=conditioning is None and logged_speed,
        delay=conditioning is None,
        filter=estimator is None,
        friction=estimator is None,
        rotors=estimator is None,
    )
    filter_hz = None if estimator is None else estimator.filter_hz
    setting = Setting(resolved, filter_hz, trials.regressor.friction)
    if freedom == Freedom(*([False] * 6)):
        return setting, tuple(notes), None
    setting = tuned(trials, setting, freedom, progress)
    score = trials.score(setting)
    return setting, tuple(notes), {"mean": score.mean, "total": score.total, "settings_tried": trials.count}


def _start_friction(robot: Robot, estimator: Estimator | None) -> Friction:
    """The estimator's, or a smooth sign; a motor that several joints turn gets joint-side friction beside its own."""
    if estimator is not None:
        return estimator.friction
    coupled = tuple(drive.joint for drive in robot.drives if drive.coupling and drive.side == "motor")
    return Friction("tanh", START_FRICTION[1], (), coupled)


def _estimator(setting: Setting, trials: Trials) -> LeastSquares:
    """The fit that the chosen setting asks for."""
    return LeastSquares(
        covariance="correlated",
        friction=setting.friction,
        extra=trials.regressor.extra,
        filter_hz=setting.filter_hz,
        decimation=decimation_for(setting.filter_hz, rate_of(setting.conditioning)),
        left_out=trials.left_out(setting),
    )


def tuning_stretches(logs: Sequence[Log]) -> list[Log]:
    """The logs, or evenly spread stretches of them that have `TUNING_ROWS` rows together."""
    total = sum(map(len, logs))
    if total <= TUNING_ROWS:
        return list(logs)
    made = []
    for log in logs:
        count = max(1, round(8 * len(log) / total))
        length, step = int(TUNING_ROWS * len(log) / total / count), len(log) // count
        made += [log.take(slice(k * step, k * step + length)) for k in range(count)]
    return made
