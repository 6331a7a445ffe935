"""`identify`: from a robot and its logs to an estimate: select, fit, quantify, diagnose."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor

from mindyn.foundation.algebra.blas import run_on_one_blas_thread
from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import MindynError
from mindyn.foundation.findings import Finding, Kind, Severity, warning
from mindyn.identification.diagnostics.data import DiagnosticData
from mindyn.identification.diagnostics.diagnose import diagnose, explain
from mindyn.identification.estimators.estimate import Estimate
from mindyn.identification.estimators.estimator import Estimator
from mindyn.identification.estimators.records import Identifiability
from mindyn.identification.feasibility.intervals import add_physical_intervals
from mindyn.identification.fed_back_noise import find_fed_back_noise
from mindyn.identification.fitting import fit
from mindyn.identification.gains_before_fit import add_uncertainty_of_gains, find_servo, resolve_gains
from mindyn.identification.phases import identify_phases, list_phase_logs
from mindyn.identification.prediction.measured_residuals import with_measured_residuals
from mindyn.identification.selection.choose import Choice, Progress, select
from mindyn.identification.uncertainty.conditions import find_condition_shifts
from mindyn.identification.uncertainty.covariance import (
    with_dropped_parameters,
    with_jackknife_deviation,
    with_systematic_errors,
)
from mindyn.identification.uncertainty.friction_curves import blocks_with_every_law, with_friction_curves
from mindyn.identification.unknown_gains import Scale
from mindyn.kernels.numerics.workers import count_workers, start_task, workers
from mindyn.logs.samples import Samples
from mindyn.regression.experiment import Experiment, count_excerpt_rows
from mindyn.regression.rows import Logs, Rows
from mindyn.regression.settings import EquationSettings
from mindyn.robots.robot import Robot


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
    experiment = Experiment(robot, logs, executor=executor)
    if phase_logs := list_phase_logs(experiment.logs):
        return identify_phases(robot, phase_logs, estimator, settings)
    is_given = estimator is not None and settings is not None and settings.is_selected
    count = count_workers(count_excerpt_rows(experiment), robot.joint_count)
    with workers("mindyn.identification.selection.trials", count, is_wanted=executor is None and not is_given):
        _, known = resolve_gains(experiment, scale)
        choice = select(known, estimator, settings, progress)
        gains, known = resolve_gains(experiment, scale, choice.settings)  # with the selected filters and friction
        if progress is not None:
            progress("fitting all training rows")
        estimate, rows = fit(known, choice, is_given=estimator is not None)
        estimate = describe(estimate, rows, known, choice)
        estimate = add_uncertainty_of_gains(estimate, rows, experiment, gains)
        return quantify_and_diagnose(estimate, rows, known, choice)


def describe(estimate: Estimate, rows: Rows, experiment: Experiment, choice: Choice) -> Estimate:
    """Add findings, sources and the cross-validation error of the selection to the estimate."""
    return (
        estimate.with_provenance(findings=(*choice.findings, *estimate.findings, *rows.findings))
        .with_data(sources=rows.sources, cross_validated=choice.score, servo=find_servo(experiment.logs))
        .with_notes(samples=rows.count)
    )


def quantify_and_diagnose(estimate: Estimate, rows: Rows, experiment: Experiment, choice: Choice) -> Estimate:
    """Add intervals, friction curves and findings, computed on the excerpt of the experiment, to the estimate."""
    try:
        excerpt = experiment.excerpt
        conditioned = excerpt.samples(choice.settings.fit_conditioning)
        samples = conditioned.samples
        law_blocks = start_task(blocks_with_every_law, estimate, excerpt)
        data = DiagnosticData(experiment.robot, estimate, rows, samples, excerpt.logs_in_memory, conditioned.logs)
        diagnosed = start_task(_diagnose, data)
        shifts = find_condition_shifts(estimate, samples)
        quantified = quantify(estimate, rows, samples, shifts)
        quantified = with_friction_curves(quantified, rows, samples, law_blocks(), shifts)
        biased = find_fed_back_noise(choice.estimator, estimate, experiment)
        findings, identifiability = diagnosed()
        described = with_measured_residuals(quantified, excerpt.logs_in_memory).with_data(identifiable=identifiability)
        return _with_findings(_with_findings(described, biased), findings)
    except MindynError as error:
        why = error.message.splitlines()[0][:200]
        message = f"the intervals include only noise, and the logs were not diagnosed: {why}"
        return _with_findings(estimate, [warning(Kind.NOT_DIAGNOSED, message, "Record a longer motion")])


def quantify(estimate: Estimate, rows: Rows, samples: Samples, shifts: Sequence[Array] | None = None) -> Estimate:
    """Add systematic errors and the deviation between blocks to the covariance and the intervals of the estimate.

    samples  conditioned samples of the logs, or of segments of them
    shifts   from `find_condition_shifts`; None: computed here
    """
    conditioning = estimate.settings.conditioning
    assert conditioning is not None
    wider = with_systematic_errors(estimate, samples, conditioning, rows.count)
    moved = find_condition_shifts(estimate, samples) if shifts is None else shifts
    wider = add_physical_intervals(with_jackknife_deviation(wider, rows.independent_blocks, moved))
    return with_dropped_parameters(wider, rows.independent_blocks)


def _diagnose(data: DiagnosticData) -> tuple[list[Finding], Identifiability]:
    findings = diagnose(data)
    is_usable = all(finding.severity is not Severity.ERROR for finding in findings)
    return findings, Identifiability(is_usable, data.uncertainty)


def _with_findings(estimate: Estimate, findings: list[Finding]) -> Estimate:
    """Add findings to the estimate without duplicates, the most serious first."""
    return estimate.with_provenance(findings=tuple(explain(dict.fromkeys((*findings, *estimate.findings)))))
