"""`choose`: select the estimator and the settings that the user did not give, using the training rows only.

The candidates are least squares and physically consistent fits, each with and without friction shapes and torque
offsets. The loss of a candidate is the geometric mean of two errors: on held-out blocks, and on held-out rows with
other conditions (`candidates`), which includes extrapolation. If there are few large blocks, the held-out motion
differs from the rest; if there are many small blocks, it is similar. The error on blocks is therefore a geometric mean
over several numbers of blocks.

The ratio of the losses decides, not a test of significance, because a small difference can be significant: least
squares was once selected for a significant gain of 10 % on blocks, and had 2.5 times the error on another motion.
Physical consistency is knowledge, so that it may increase the loss by a tenth. Friction shapes and offsets are
assumptions, so that they must decrease the loss by a twentieth.

If the motion repeats, all rows of the same phase are held out together, because another period contains the same
motion. Where a selection affects the error, each fit repeats it without the held-out rows: least squares selects the
dropped parameters again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import isinf, sqrt
from typing import Final

import numpy as np

from mindyn.foundation.algebra.blas import run_on_one_blas_thread
from mindyn.foundation.algebra.values import ShortRepr
from mindyn.foundation.errors import Code, InputError
from mindyn.foundation.findings import Finding, Kind, info, warning
from mindyn.foundation.processes.workers import forget_shared_data, start_task
from mindyn.identification.estimators.estimate_records import CrossValidated
from mindyn.identification.estimators.estimator import Estimator
from mindyn.identification.estimators.least_squares import LeastSquares
from mindyn.identification.feasibility.fits.physically_consistent import PhysicallyConsistent
from mindyn.identification.selection.candidates import (
    Candidate,
    HoldOuts,
    fit_consistent,
    fit_free,
    fit_least_squares,
    hold_out,
    scores_of_path,
)
from mindyn.identification.selection.folds import Kept
from mindyn.identification.selection.scores import error_over
from mindyn.identification.selection.trials import HIGHEST, Trial, Trials, decimation_for, rate_of
from mindyn.identification.selection.tune import SearchSpace, least_supported, several_foldings, tune_settings
from mindyn.logs.cleaning import MAX_MAGNITUDE, MAX_STILL_RANGE
from mindyn.logs.conditioning import Conditioning, require_resolved
from mindyn.logs.constant_torques import require_torque
from mindyn.logs.log import Log
from mindyn.logs.noise_cutoff import noise_floor_cutoff
from mindyn.logs.read_log import LogScan
from mindyn.logs.resolving import cutoff_finding, delay_finding, resolve_conditioning
from mindyn.parameters.parameter import Kind as ParameterKind
from mindyn.regression.experiment import Experiment
from mindyn.regression.friction import Friction
from mindyn.regression.friction_limits import PriorGroups
from mindyn.regression.regressor import build_regressor
from mindyn.regression.rows import Logs, complete_robot
from mindyn.regression.settings import EquationSettings
from mindyn.robots.friction_laws import LOAD_SHAPES
from mindyn.robots.robot import Robot

CONSISTENCY_PRICE: Final = 1.1
"""Ratio of the loss of a consistent fit to that of least squares up to which it is selected. Rates: `make study
NAME=choices`."""
SIMPLER_PRICE: Final = 1.05
"""Ratio of the losses up to which a fit without friction shapes or offsets is selected. Rates: as above."""


def best_estimator(
    trials: Trials, trial: Trial, settings: EquationSettings, dropped: tuple[str, ...]
) -> tuple[Estimator, EquationSettings, tuple[Finding, ...]]:
    """Return the estimator, its settings, and findings that explain the selection."""
    held = hold_out(trials, settings)
    first = fit_least_squares(held, trial, dropped)
    if isinf(first.error):
        return first.estimator, settings, ()  # nothing can be held out
    variants = list_variants(trials, trial, held)
    parts = {part.rows.settings: part for part in (held, *(part for part, *_ in variants))}
    fits = [start_task(_fit_consistent, part) for part in parts.values()]
    plain = [first, *(fit_least_squares(part, other, names) for part, other, names in variants)]
    consistent = [candidate for fit in fits for candidate in fit()]
    selected, plain_best, consistent_best = decide_between(plain, consistent)
    both = [candidate for candidate in (plain_best, consistent_best) if candidate is not None]
    sizes = "; ".join(f"{fit.words} {100 * fit.error:.3g} % ({100 * fit.error_elsewhere:.3g} %)" for fit in both)
    message = f"{selected.words} was selected; error on held-out blocks (under held-out conditions): {sizes}"
    if consistent_best is not None and consistent_best.loss > plain_best.loss > 0:  # 0 without any noise
        cost = 100 * (consistent_best.loss / plain_best.loss - 1)
        message += f"; physical consistency costs {cost:.2g} % of the error"
    findings = (info(Kind.SELECTED_ESTIMATOR, message), *_find_inconsistent_data(held, consistent_best))
    return selected.estimator, selected.settings, findings


def list_variants(trials: Trials, trial: Trial, held: HoldOuts) -> list[tuple[HoldOuts, Trial, tuple[str, ...]]]:
    """Return equations, trial and dropped parameters of models with and without friction shapes and offsets."""
    settings = held.rows.settings
    kinds: list[tuple[ParameterKind, ...]] = [trial.without]
    if "offset" in trial.without:
        kinds.append(tuple(kind for kind in trial.without if kind != "offset"))
    elif _has_offsets(held):
        kinds.append((*trial.without, "offset"))
    others = _other_frictions(settings.shape)
    building = [start_task(hold_out, trials, replace(settings, friction=friction)) for friction in others]
    parts = [(held, trial)]
    parts += [
        (build(), trial.with_settings(friction=friction)) for build, friction in zip(building, others, strict=True)
    ]
    variants = []
    for part, shaped in parts:
        for without in kinds:
            other = replace(shaped, without=without)
            if other != trial:
                best = least_supported(several_foldings(trials), other)[0] if trial.dropped else other
                variants.append((part, best, trials.dropped(best)))
    return variants


def _has_offsets(held: HoldOuts) -> bool:
    return any(parameter.kind == "offset" for parameter in held.rows.regressor.parameters)


def decide_between(
    plain: list[Candidate], consistent: list[Candidate]
) -> tuple[Candidate, Candidate, Candidate | None]:
    """Return three fits: the selected one, the best least-squares fit, and the best consistent fit.

    The ratio of the losses decides: friction shapes and offsets must lower the loss by the factor `SIMPLER_PRICE`, and
    physical consistency may raise it by the factor `CONSISTENCY_PRICE`.
    """
    best_plain = select_simplest_candidate(plain)
    if not consistent:
        return best_plain, best_plain, None
    best = select_simplest_candidate(consistent)
    return (best if best.loss <= CONSISTENCY_PRICE * best_plain.loss else best_plain), best_plain, best


def select_simplest_candidate(candidates: Sequence[Candidate]) -> Candidate:
    """Return the simplest candidate whose loss is at most `SIMPLER_PRICE` times the smallest loss."""
    least = min(candidate.loss for candidate in candidates)
    near = [candidate for candidate in candidates if candidate.loss <= SIMPLER_PRICE * least]
    return min(near, key=lambda candidate: (*candidate.complexity, candidate.loss))


def _other_frictions(friction: Friction) -> list[Friction]:
    """Return the friction without shapes.

    If load-dependent friction is excluded at some joints, also return it at all joints.
    """
    if not friction.shapes:
        return []
    everywhere = tuple(pair for pair in friction.without if pair[1] not in LOAD_SHAPES)
    more = [] if everywhere == friction.without else [replace(friction, without=everywhere)]
    return [friction.without_shapes(), *more]


def _fit_consistent(held: HoldOuts) -> list[Candidate]:
    """Return consistent fits with and without offsets; the prior are the values of the file.

    Fits that fail are omitted.
    """
    fits = [
        fit_consistent(held, PhysicallyConsistent(covariance="correlated", dropped=dropped))
        for dropped in ((), *([("offset",)] if _has_offsets(held) else []))
    ]
    return [fit for fit in fits if fit is not None]


def _find_inconsistent_data(held: HoldOuts, consistent: Candidate | None) -> list[Finding]:
    """Find data that no physically consistent values explain well, which points to another error."""
    rows = held.rows
    if consistent is None or consistent.settings != rows.settings:
        return []
    information = rows.information
    fitted = sqrt(information.residuals(consistent.beta).sum() / information.residuals(fit_free(rows)).sum())
    every = Kept(list(range(rows.regressor.count)), PriorGroups(()), None)
    held_out = consistent.error / error_over(scores_of_path(held.blocks, every, is_dropping=False))
    ratio = min(fitted, held_out)
    if ratio <= MAX_CONSISTENT_RATIO:
        return []
    message = f"physically consistent values leave {ratio:.2g} times the error of free ones"
    remedy = "Check units, drive gains, gravity and mounting, and that payload and springs are given"
    return [warning(Kind.INCONSISTENT_DATA, message, remedy, value=ratio)]


MAX_CONSISTENT_RATIO: Final = 1.25
"""Largest error of a physically consistent fit relative to an unconstrained one, on its own rows and on held-out
blocks. A sound LWR4+ log, nearly a single sine, has 1.5 on its own rows and 0.99 on held-out blocks. Rates: not
measured.
"""
Progress = Callable[[str], None]
START_WIDTH: Final = 0.05
"""rad/s of the transition around zero velocity in the friction that trials start from."""
FILTER_TO_MOTION: Final = 4.0
"""Highest cut-off, in multiples of the motion's own frequency band, for estimators that are biased by noise above the
motion. With encoder noise of 4e-4 rad that a controller feeds back, 95.7 % of the 95 % intervals contain the true value
at 4 times, 94.9 % at 5 times, and 93 % with two arms of 40 wrong by 300 % and more without a bound
(tests/honesty/feedback.py).
"""
SERVO_FILTER_TO_MOTION: Final = 2.0
"""The same for torques of position servos, which are computed from positions and contain their noise; friction with the
opposite sign of kd could predict this noise. No cut-off is below the motion's band, because a slower filter would
imitate stiction, which lasts shorter in a faster motion. On 30 simulated logs that did not select the rule, it lowers
the error on the last 35 % by 21 %; the error is at most 1.1 times that with a filter of 15 Hz, instead of 4.8 times
(`make study NAME=servo-filters`, --first 30).
"""
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

    Values that you give are not changed.

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
    return select(Experiment(robot, logs), estimator, settings, progress)


def select(
    experiment: Experiment,
    estimator: Estimator | None = None,
    settings: EquationSettings | None = None,
    progress: Progress | None = None,
) -> Choice:
    """Select settings that are not given, on the excerpt of an experiment. Return at once if everything is given."""
    robot, say = experiment.robot, progress or (lambda line: None)  # noqa: ARG005
    asked = settings or EquationSettings.automatic()
    wanted = asked if estimator is None else estimator.settings_for(robot, asked)
    # Trials use the full dynamics, also if the estimator uses only a part of it afterwards.
    seen = replace(asked, drive_parameters=wanted.drive_parameters) if asked.is_selected else asked
    complete, _ = complete_robot(robot, seen, experiment.sampled_logs)
    start = _start_friction(complete) if isinstance(asked.friction, str) else asked.friction
    unloaded, excerpt = start.without_load(), experiment.excerpt
    require_signals(excerpt.logs_in_memory)
    trial, search_space, findings = _starting_trial(experiment.sampled_logs, estimator, asked, unloaded)
    if excerpt.timeline is not None and excerpt.timeline.repeated:
        repeated: tuple[Finding, ...] = (info(Kind.REPEATED_MOTION, excerpt.timeline.sentence),)
    else:
        repeated = ()
    if estimator is not None and not search_space.anything and not (start.needs_load and not start.reference):
        given = _with_selected(wanted, trial.with_settings(friction=start))
        return Choice(estimator, estimator.settings_for(robot, given), (), None, (*findings, *repeated))
    trials = Trials(excerpt, build_regressor(complete, replace(seen, friction=unloaded)))
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
    findings = (*findings, *repeated)
    chosen = _with_selected(wanted, trial)
    if estimator is None:
        say("comparing plain and physically consistent fits on held-out blocks")
        estimator, chosen, why = best_estimator(trials, trial, chosen, dropped)
        findings = (*findings, *why)
    elif search_space.friction and chosen.shape.shapes and isinstance(estimator, LeastSquares):
        estimator = replace(estimator, friction_rule="dissipative")  # shapes were selected within these limits
    elif search_space.friction and not isinstance(estimator, PhysicallyConsistent) and trials.needs_limits(trial):
        chosen = replace(chosen, friction=chosen.shape.without_shapes())
    forget_shared_data()
    return Choice(estimator, estimator.settings_for(robot, chosen), dropped, score, findings)


def _starting_trial(
    logs: Sequence[Log | LogScan], estimator: Estimator | None, asked: EquationSettings, friction: Friction
) -> tuple[Trial, SearchSpace, tuple[Finding, ...]]:
    """Return the trial to start from, the search space, and findings about the logs."""
    given, has_speed = asked.conditioning or Conditioning(), all(_has_signal(log, "velocity", "qd") for log in logs)
    if asked.conditioning is None and has_speed:
        given = replace(given, velocity="measured")
    bound = highest_filter(given, logs) if estimator is not None and estimator.filters_alike else None
    search_space = SearchSpace(asked, has_speed, estimator is not None, bound)
    if any(_has_signal(log, "target", "target") for log in logs):
        rate, band = _motion_band(given, logs)
        if band is not None:
            highest = min(HIGHEST * rate, SERVO_FILTER_TO_MOTION * band)
            search_space = replace(search_space, highest_filter_hz=highest, lowest_hz=band)
    resolved, begun = resolve_conditioning(given, logs, noise_floor_cutoff)
    equations_hz = None if search_space.filter else asked.equations_hz
    return (
        Trial(replace(asked, conditioning=resolved, equations_hz=equations_hz, friction=friction)),
        search_space,
        begun,
    )


def _with_selected(wanted: EquationSettings, trial: Trial) -> EquationSettings:
    """Return the wanted settings, with "auto" entries replaced by the selected values."""
    step = wanted.keep_every
    return replace(
        wanted,
        conditioning=trial.conditioning,
        equations_hz=trial.equations_hz,
        keep_every=decimation_for(trial.equations_hz, rate_of(trial.conditioning)) if isinstance(step, str) else step,
        # The reference of a load refers to the structural base set.
        friction=trial.friction if wanted.base_form == "structural" else trial.friction.without_load(),
    )


def highest_filter(given: Conditioning, logs: Sequence[Log | LogScan]) -> float:
    """Return the highest cut-off (Hz) of the parallel filter for estimators that are biased by noise above the
    motion.
    """
    rate, band = _motion_band(given, logs)
    return HIGHEST * rate if band is None else min(HIGHEST * rate, FILTER_TO_MOTION * band)


def _motion_band(given: Conditioning, logs: Sequence[Log | LogScan]) -> tuple[float, float | None]:
    """Return the rate, and the highest frequency (Hz) at which the motion is above the noise of positions; None if
    there is none.
    """
    resolved, _ = resolve_conditioning(replace(given, motion_hz="auto"), logs, noise_floor_cutoff)
    band = resolved.motion_hz
    return rate_of(resolved), None if band is None else require_resolved(band, "motion_hz")


def _findings_of_selected(
    findings: Sequence[Finding], chosen: Conditioning, search_space: SearchSpace
) -> tuple[Finding, ...]:
    """Replace the initial cut-off and delay in the findings by the selected ones."""
    replaced = {"motion_hz": search_space.cutoff, "delay_s": search_space.delay and bool(chosen.delay_s)}
    others = tuple(
        finding for finding in findings if not any(finding.details == (name,) and new for name, new in replaced.items())
    )
    cutoff = (cutoff_finding(chosen, "by cross-validation"),) if search_space.cutoff else ()
    delay = (delay_finding(chosen, "selected by cross-validation"),) if replaced["delay_s"] else ()
    return (*cutoff, *others, *delay)


def _has_signal(log: Log | LogScan, signal: str, attribute: str) -> bool:
    return getattr(log, attribute) is not None if isinstance(log, Log) else signal in log.signals


def _start_friction(robot: Robot) -> Friction:
    """Return friction with a smooth sign. Drives that move several joints also get joint-side friction."""
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
    require_torque(log.tau for log in logs)
