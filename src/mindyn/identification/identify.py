"""`identify`: from a robot and its logs to an estimate: select, fit, quantify, diagnose.

Detect noise that a controller feeds back: instruments that contain the noise of the columns give biased values.

The test compares the values of a fit that keeps frequencies above the motion with those of a fit that does not:

    d^T (C + C_low)^-1 d  against chi^2 of p,    d = beta - beta_low

Fit the rows of the logs, and iterate until the load of load-dependent friction settles.

Identify a robot with a floating base from logs whose metadata list phases with different contacts.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np
from scipy.special import chdtri

from mindyn.foundation.algebra.blas import run_on_one_blas_thread
from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, InputError, MindynError
from mindyn.foundation.findings import Finding, Kind, Severity, info, warning
from mindyn.identification.diagnostics.data import DiagnosticData
from mindyn.identification.diagnostics.diagnose import diagnose, explain
from mindyn.identification.estimators.estimate import Estimate, Estimator
from mindyn.identification.estimators.estimate_parts import CrossValidated, Identifiability
from mindyn.identification.estimators.least_squares import LeastSquares
from mindyn.identification.feasibility.conic import ConicError
from mindyn.identification.feasibility.intervals import add_physical_intervals
from mindyn.identification.feasibility.physically_consistent import PhysicallyConsistent
from mindyn.identification.gain_stage import GainStage, find_servo
from mindyn.identification.selection.choose import (
    Choice,
    Progress,
    choose,
    highest_filter,
    limits_of,
    require_logs,
    sample_logs,
    tuning_segments,
)
from mindyn.identification.selection.trials import decimation_for, rate_of
from mindyn.identification.uncertainty.covariance import (
    with_dropped_parameters,
    with_jackknife_deviation,
    with_systematic_errors,
)
from mindyn.identification.uncertainty.friction_curves import blocks_with_every_law, with_friction_curves
from mindyn.identification.unknown_gains import Scale
from mindyn.kernels.numerics.second_process import second_process, start_task
from mindyn.logs.conditioning import Conditioning, motion_cutoff, require_resolved
from mindyn.logs.constant_torques import without_constant_torques
from mindyn.logs.log import Log
from mindyn.logs.pipeline import condition
from mindyn.logs.reading import LogScan
from mindyn.logs.resolving import noise_floor_cutoff, resolve_conditioning
from mindyn.logs.samples import Samples
from mindyn.regression.contact_phases import rows_of_logs
from mindyn.regression.friction import Friction
from mindyn.regression.gather_blocks import group_evenly, sources_of
from mindyn.regression.rows import FOLDS, Logs, Rows, build_rows
from mindyn.regression.settings import EquationSettings
from mindyn.robots.robot import Robot

MAX_REFITS: Final = 5
"""Largest number of fits that update the reference of load-dependent friction."""
MAX_SETTLED_CHANGE: Final = 0.01
"""Rms change of the load, relative to it, below which the friction, about a tenth of it, does not change."""
MIN_UNSETTLED_CHANGE: Final = 0.05
"""The same for the load of a single joint; a larger change causes a finding."""


@dataclass(frozen=True, slots=True)
class Fit:
    """Robot, logs and workers of a fit."""

    robot: Robot
    logs: Sequence[Log | LogScan]
    executor: Executor | None

    def run(self, choice: Choice, *, is_given: bool) -> tuple[Estimate, Rows]:
        """Fit by the selected estimator; use least squares if a selected consistent fit does not converge.

        is_given  whether the user gave the estimator
        """
        estimator = choice.estimator
        if self.executor is not None:
            estimator = without_samples(estimator, is_given=is_given)
        rows = self._rows(choice.settings)
        try:
            return self._settle(estimator, rows)
        except ConicError as error:
            if is_given:
                raise
            dropped = tuple(name for name in choice.dropped if name in rows.regressor.names)
            covariance: Literal["white", "correlated"] = "white" if self.executor else "correlated"
            plain = LeastSquares(covariance=covariance, dropped=dropped, friction=limits_of(choice.settings))
            estimate, rows = self._settle(plain, rows)
            message = f"a physically consistent fit was selected, but {error}: the values are those of least squares"
            finding = warning(
                Kind.SELECTED_ESTIMATOR, message, "Export them with --feasible, which makes them consistent"
            )
            return replace(estimate, findings=(*estimate.findings, finding)), rows

    def _rows(self, settings: EquationSettings) -> Rows:
        """Build the equations, without torques that never change."""
        rows = build_rows(self.robot, self.logs, settings, executor=self.executor)
        is_streamed = any(isinstance(log, LogScan) for log in self.logs)
        return rows.without_constant_torques() if is_streamed else rows

    def _settle(self, estimator: Estimator, rows: Rows) -> tuple[Estimate, Rows]:
        """Repeat the fit with its own values as the reference of load-dependent friction until the load settles.

        The estimate stores its own values as the reference, so that a robot built from it has the same torques. The
        last change of the load is below `MAX_SETTLED_CHANGE`, and friction is only a part of the load.
        """
        estimate = estimator.fit(rows)
        for _ in range(MAX_REFITS):
            change, load = load_change(rows, estimate)
            if np.sqrt(change.sum() / max(load.sum(), 1e-300)) < MAX_SETTLED_CHANGE:
                break
            rows = self._rows(estimate.with_own_load().settings)
            estimate = estimator.fit(rows)
        findings = (*estimate.findings, *find_unsettled_loads(rows, estimate))
        return replace(estimate.with_own_load(), findings=findings), rows


def zero_constant_torques(logs: Sequence[Log | LogScan]) -> Sequence[Log | LogScan]:
    """Return the logs with zeros for torques that never change, if all rows are in memory."""
    in_memory = [log for log in logs if isinstance(log, Log)]
    return without_constant_torques(in_memory) if len(in_memory) == len(logs) else logs


def load_change(rows: Rows, estimate: Estimate) -> tuple[Array, Array]:
    """Return (n,) squares of the change of each joint's load, from the rows' reference to the estimate, and of the
    load.

    Both are zero if no friction depends on the load.
    """
    squares = np.zeros((2, len(rows.regressor.columns)))
    if rows.regressor.friction.needs_load:
        reference = np.zeros(len(estimate.beta))
        reference[: rows.regressor.base.count] = rows.regressor.friction.reference
        values = np.where(rows.regressor.rigid, [estimate.beta - reference, reference], 0.0)
        squares = rows.information.without_torques([True] * squares.shape[1]).residuals(values)
    return squares[0], squares[1]


def find_unsettled_loads(rows: Rows, estimate: Estimate) -> list[Finding]:
    """Find joints whose load changed noticeably in the last fit: a small load next to large ones settles slowly."""
    changes = zip(rows.regressor.joint_names, *load_change(rows, estimate), strict=True)
    names = tuple(name for name, change, load in changes if change > MIN_UNSETTLED_CHANGE**2 * load > 0)
    if not names:
        return []
    message = (
        f"the load of {', '.join(names)} has not settled: its load-dependent friction is less certain than its interval"
    )
    remedy = "Move these joints against gravity or with a payload, where their load is large, and identify again"
    return [warning(Kind.NARROW_INTERVALS, message, remedy, names)]


def without_samples(estimator: Estimator, *, is_given: bool) -> Estimator:
    """Return the estimator without its need for samples, which stay with the workers; raise if the user gave one."""
    if estimator.needs == "information":
        return estimator
    if not is_given and isinstance(estimator, (LeastSquares, PhysicallyConsistent)):
        return replace(estimator, covariance="white")
    raise InputError(
        f"{type(estimator).__name__} with these settings needs the samples, which stay with the executor's workers",
        hint='use LeastSquares(covariance="white", robust=False), which needs only R factors; or omit executor=',
        code=Code.UNSUPPORTED,
        subject="executor",
    )


@run_on_one_blas_thread
def identify(
    robot: Robot,
    logs: Logs,
    estimator: Estimator | None = None,
    settings: EquationSettings | None = None,
    *,
    executor: Executor | None = None,
    progress: Progress | None = None,
    scale: Scale = "robot",
) -> Estimate:
    """Estimate the dynamic parameters of a robot from motion logs.

    Every setting that you do not pass is selected by cross-validation on the training rows: filter, delay, friction
    model, and whether the fit is plain least squares or physically consistent.

    Parameters
    ----------
    robot : Robot
        As its file describes it.
    logs : Log, LogScan, or a sequence of them
        `scan_log` streams files that do not fit into memory.
    estimator : Estimator, optional
        How to fit. None: selected among least squares and physically consistent fits.
    settings : EquationSettings, optional
        How logs become equations; its "auto" entries, and its conditioning if it is None, are selected.
        `EquationSettings.automatic(conditioning)` selects all but a conditioning.
    executor : concurrent.futures.Executor, optional
        Its workers turn one log each into R factors, the same bits on any number of workers. Only for estimators that
        need only R factors; a "correlated" covariance that you did not request becomes "white".
    progress : callable, optional
        Called with a status line after each step.
    scale : "robot", "free", mapping or WeighedLoad
        What fixes the common scale of parameters and gains if all gains of the logs are unknown: the gravity parameters
        of the robot file, nothing, a base parameter {name: value}, or a load of known mass (see
        `mindyn.identification.estimate_gains`).

    Returns
    -------
    Estimate
        Values, covariance, findings about the logs, and the settings that were selected.

    Raises
    ------
    InputError
        If no log is given, nothing moves, the torque is zero, or the estimator cannot use `executor`.
    """
    listed = require_logs(logs)
    if phase_logs := list_phase_logs(listed):
        return identify_phases(robot, phase_logs, estimator, settings)
    is_given = estimator is not None and settings is not None and settings.is_selected
    with second_process("mindyn.identification.selection.trials", is_wanted=executor is None and not is_given):
        return _identify_logs(robot, listed, estimator, settings, executor, progress, scale)


def _identify_logs(
    robot: Robot,
    listed: list[Log | LogScan],
    estimator: Estimator | None,
    settings: EquationSettings | None,
    executor: Executor | None,
    progress: Progress | None,
    scale: Scale,
) -> Estimate:
    stage = GainStage.begin(robot, listed, scale)
    listed = listed if stage is None else stage.estimate()[1]
    fit = Fit(robot, zero_constant_torques(listed), executor)
    choice = choose(robot, fit.logs, estimator, settings, progress=progress)
    if stage is not None:  # once more, with the selected filters and friction
        gains, listed = stage.estimate(choice.settings)
        fit = Fit(robot, zero_constant_torques(listed), executor)
    if progress is not None:
        progress("fitting all training rows")
    estimate, rows = fit.run(choice, is_given=estimator is not None)
    estimate = replace(
        estimate,
        findings=(*choice.findings, *estimate.findings, *rows.findings),
        sources=rows.sources,
        cross_validated=choice.score,
        servo=find_servo(listed),
        provenance={**estimate.provenance, "samples": rows.count},
    )
    estimate = estimate if stage is None else stage.add_to(estimate, rows, gains)
    try:
        segments = tuning_segments(sample_logs(listed))
        conditioned = condition(estimate.robot, segments, choice.settings.fit_conditioning)
        samples = conditioned.samples
        law_blocks = start_task(blocks_with_every_law, estimate, robot, segments)
        diagnosed = start_task(_diagnose, DiagnosticData(robot, estimate, rows, samples, segments, conditioned.logs))
        quantified = quantify(estimate, rows, samples)
        quantified = with_friction_curves(quantified, rows, samples, law_blocks())
        biased = instrument_findings(choice.estimator, robot, estimate, listed)
        findings, identifiability = diagnosed()
        described = replace(quantified, identifiable=identifiability)
        return _with_findings(_with_findings(described, biased), findings)
    except MindynError as error:
        why = error.message.splitlines()[0][:200]
        message = f"the intervals include only noise, and the logs were not diagnosed: {why}"
        return _with_findings(estimate, [warning(Kind.NOT_DIAGNOSED, message, "Record a longer motion")])


def _diagnose(data: DiagnosticData) -> tuple[list[Finding], Identifiability]:
    findings = diagnose(data)
    is_usable = all(finding.severity is not Severity.ERROR for finding in findings)
    return findings, Identifiability(is_usable, data.uncertainty)


def quantify(estimate: Estimate, rows: Rows, samples: Samples) -> Estimate:
    """Return the estimate with systematic errors and the deviation between blocks in its covariance and intervals.

    samples  conditioned samples of the logs, or of segments of them
    """
    conditioning = estimate.conditioning
    assert conditioning is not None
    wider = with_systematic_errors(estimate, samples, conditioning, rows.count)
    wider = add_physical_intervals(with_jackknife_deviation(wider, rows.independent_blocks))
    return with_dropped_parameters(wider, rows.independent_blocks)


def _with_findings(estimate: Estimate, findings: list[Finding]) -> Estimate:
    """Return the estimate with more findings, each once, the most serious first."""
    return replace(estimate, findings=tuple(explain(dict.fromkeys((*findings, *estimate.findings)))))


SAME_BAND: Final = 1.2
"""Cut-offs that differ by a smaller factor are not compared."""
LEVEL: Final = 1e-3
"""Nominal probability of a false alarm. Measured at 1e-2 and 1e-4, on both sides of it, with fixed friction. On 40 arms
with 4e-4 rad of noise that is fed back, the test detects fits without a filter in 100 and 100 %, with 32 Hz in 100 and
97 %, and with 12 Hz, where 81 % of the intervals contain the true value, in 35 and 7 %. On 12 arms with 5e-5 rad it
raises no alarm at 12 and 16 Hz, where the intervals are right."""


def instrument_findings(estimator: Estimator, robot: Robot, estimate: Estimate, logs: Logs) -> list[Finding]:
    """Return an error if the values of an instrumental-variables fit change significantly without high frequencies."""
    settings, conditioning = estimate.settings, estimate.settings.conditioning
    if not estimator.filters_alike or not isinstance(conditioning, Conditioning):
        return []
    used, highest = settings.cutoff_hz, highest_filter(conditioning, require_logs(logs))
    if used is not None and used <= SAME_BAND * highest:
        return []
    step = decimation_for(highest, rate_of(conditioning))
    try:
        low = estimator.fit(build_rows(robot, logs, replace(settings, filter_hz=highest, decimation=step)))
    except MindynError:
        return []
    known = np.isfinite(np.diag(estimate.covariance)) & np.isfinite(np.diag(low.covariance))
    covariance = (estimate.covariance + low.covariance)[np.ix_(known, known)]
    scale = np.sqrt(np.maximum(np.diag(covariance), 1e-300))
    change = (estimate.beta - low.beta)[known] / scale
    distance = float(change @ np.linalg.pinv(covariance / scale / scale[:, None], hermitian=True) @ change)
    if distance <= chdtri(max(1, len(change)), LEVEL):
        return []
    kept = "no filter" if used is None else f"a filter of {used:.3g} Hz"
    message = (
        f"the values are biased: with {kept} they differ by up to {float(np.abs(change).max()):.2g} standard "
        f"deviations from those below {highest:.3g} Hz, where the motion is; the controller probably feeds back "
        "the noise of the encoders"
    )
    remedy = f'Pass filter_hz="auto", or filter_hz={highest:.3g} or less.'
    return [Finding(Kind.BIASED_INSTRUMENTS, Severity.ERROR, message, remedy, value=highest, unit="Hz")]


FRICTIONS: Final = (Friction(), Friction("tanh", 0.02), Friction("tanh", 0.1))
"""Friction models that are compared on blocks of rows."""


def list_phase_logs(logs: Sequence[Log | LogScan]) -> list[Log]:
    """Return the logs if their metadata list phases; raise if only some do, or a log is a stream."""
    with_phases = [log for log in logs if log.metadata.phases]
    in_memory = [log for log in with_phases if not isinstance(log, LogScan)]
    if with_phases and len(in_memory) != len(logs):
        raise InputError(
            "logs with phases are read at once, and are not combined with logs without phases",
            hint="omit --stream, and set phases in the sidecar of every log",
            code=Code.UNSUPPORTED,
            subject="phases",
        )
    return in_memory


def identify_phases(
    robot: Robot, logs: Sequence[Log], estimator: Estimator | None, settings: EquationSettings | None
) -> Estimate:
    """Return the estimate, with friction selected by the error on held-out blocks and a filter below the cut-off."""
    asked, used = settings or EquationSettings.automatic(), estimator or LeastSquares()
    if isinstance(used, (LeastSquares, PhysicallyConsistent)):
        used = replace(used, covariance="white")  # phases are R factors alone; blocks show what is correlated
    c, chosen = resolve_conditioning(asked.conditioning or Conditioning(), logs, noise_floor_cutoff)
    rate, cutoff = require_resolved(c.rate_hz, "rate_hz"), motion_cutoff(c)
    filter_hz = asked.filter_hz if asked.filter_hz != "auto" else None if cutoff is None else cutoff / 2
    step = asked.decimation if asked.decimation != "auto" else decimation_for(filter_hz, rate)
    asked = replace(asked, conditioning=c, filter_hz=filter_hz, decimation=step)
    tried = [
        rows_of_logs(robot, logs, replace(asked, friction=friction))
        for friction in (FRICTIONS if asked.friction == "auto" else (asked.friction,))
    ]
    errors = [_block_error(used, candidate) for candidate in tried]
    best = min(range(len(tried)), key=lambda k: errors[k].total)
    estimate = with_jackknife_deviation(used.fit(tried[best]), tried[best].independent_blocks)
    message = f"error on held-out blocks of all phases: {100 * errors[best].total:.3g} %"
    finding = info(Kind.LOG_SETTING, message)
    return replace(
        estimate,
        findings=(finding, *chosen, *(f for log in logs for f in log.findings), *estimate.findings),
        sources=tuple(source for log in logs for source in sources_of(log)),
        cross_validated=replace(errors[best], settings_tried=len(tried)),
    ).with_provenance(samples=sum(tried[best].information.counts) // len(robot.joints))


def _block_error(estimator: Estimator, rows: Rows) -> CrossValidated:
    """Return the error of the torques of folds that were not used in the fit."""
    blocks, squares = rows.independent_blocks, np.zeros(len(rows.regressor.joint_names))
    for held_out in group_evenly(blocks, FOLDS):
        beta = estimator.fit(rows.select(block for block in blocks if block not in held_out)).beta
        squares += sum((block.information.residuals(beta) for block in held_out), np.zeros(len(squares)))
    torques = rows.information.torques()
    seen = torques > 0
    each = np.sqrt(squares[seen] / torques[seen])
    return CrossValidated(float(each.mean()), float(np.sqrt(squares.sum() / torques.sum())), 1)
