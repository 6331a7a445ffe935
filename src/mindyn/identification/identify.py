"""`identify`: from a robot and its logs to an estimate.

1. Estimate unknown gains of currents or servos, which turn logged signals into torques.
2. Select the settings that the user did not give, by cross-validation: filter, delay, friction, estimator.
3. Fit all training rows: `fit` filters the logs, builds the equations and solves them.
4. Quantify the uncertainty of the values, and diagnose the logs.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor

from mindyn.foundation.algebra.blas import run_on_one_blas_thread
from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, InputError, MindynError
from mindyn.foundation.findings import Finding, Kind, Severity, warning
from mindyn.foundation.processes.workers import count_workers, start_task, workers
from mindyn.identification.diagnostics.diagnose import diagnose, explain
from mindyn.identification.diagnostics.diagnostic_data import DiagnosticData
from mindyn.identification.estimators.estimate import Estimate
from mindyn.identification.estimators.estimate_records import Identifiability
from mindyn.identification.estimators.estimator import Estimator
from mindyn.identification.feasibility.physical_intervals import add_physical_intervals
from mindyn.identification.fed_back_noise import find_fed_back_noise
from mindyn.identification.fitting import fit
from mindyn.identification.gains_before_fit import add_uncertainty_of_gains, find_servo, resolve_gains
from mindyn.identification.phases import identify_phases, list_phase_logs
from mindyn.identification.prediction.measured_residuals import with_measured_residuals
from mindyn.identification.selection.choose import Choice, Progress, select
from mindyn.identification.uncertainty.block_deviation import with_jackknife_deviation
from mindyn.identification.uncertainty.condition_shifts import find_condition_shifts
from mindyn.identification.uncertainty.dropped_parameters import with_dropped_parameters
from mindyn.identification.uncertainty.friction_curve_intervals import blocks_with_every_law, with_friction_curves
from mindyn.identification.uncertainty.systematic_errors import with_systematic_errors
from mindyn.identification.unknown_gains import Scale
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
        Workers that you provide, on this machine or others. Each of them turns one log into R factors (the triangular
        factors of the equations); the result does not depend on the number of workers. Samples stay in the workers, so
        that an estimator that needs them raises an error, and a "correlated" covariance that you did not request
        becomes "white" (noise without correlation in time). None: mindyn starts its own worker processes.
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
        If no log is given, nothing moves, the torque is zero, the estimator cannot use `executor`, or logs with contact
        phases come with `executor` or `scale`.
    """
    experiment = Experiment(robot, logs, executor=executor)
    if phase_logs := list_phase_logs(experiment.logs):  # floating bases: each phase has other contacts with the ground
        if executor is not None or scale != "robot":
            message = "logs with contact phases accept neither an executor nor a scale"
            hint = "omit them: phases are fitted in this process, to torques"
            raise InputError(message, hint=hint, code=Code.UNSUPPORTED, subject="executor" if executor else "scale")
        if progress is not None:
            progress("fitting phases")
        return identify_phases(robot, phase_logs, estimator, settings)
    nothing_to_select = estimator is not None and settings is not None and settings.is_selected
    count = count_workers(count_excerpt_rows(experiment), robot.joint_count)
    # The longest tasks are trials of settings, so that workers import the module of trials when they start.
    with workers("mindyn.identification.selection.trials", count, is_wanted=executor is None and not nothing_to_select):
        # Settings can only be compared on torques, and gains, which turn currents into torques, depend on the settings:
        # estimate the gains with preliminary settings, select, and estimate them again with the selected settings. If
        # the logs have torques, `resolve_gains` returns the experiment itself.
        _, preliminary = resolve_gains(experiment, scale)
        choice = select(preliminary, estimator, settings, progress)
        gains, with_torques = resolve_gains(experiment, scale, choice.settings)
        if progress is not None:
            progress("fitting all training rows")
        estimate, rows = fit(with_torques, choice, estimator_is_given=estimator is not None)
        estimate = add_findings_and_sources(estimate, rows, with_torques, choice)
        estimate = add_uncertainty_of_gains(estimate, rows, experiment, gains)
        return quantify_and_diagnose(estimate, rows, with_torques, choice)


def add_findings_and_sources(estimate: Estimate, rows: Rows, experiment: Experiment, choice: Choice) -> Estimate:
    """Add findings, source files, the number of rows and the error of the cross-validation to the estimate."""
    return (
        estimate.with_provenance(findings=(*choice.findings, *estimate.findings, *rows.findings))
        .with_data(sources=rows.sources, cross_validated=choice.score, servo=find_servo(experiment.logs))
        .with_notes(samples=rows.count)
    )


def quantify_and_diagnose(estimate: Estimate, rows: Rows, experiment: Experiment, choice: Choice) -> Estimate:
    """Add intervals, friction curves and findings to the estimate.

    They are computed on the excerpt of the experiment: all rows of short logs, evenly spread segments of long ones. If
    the computation fails, return the estimate with a warning.
    """
    try:
        excerpt = experiment.excerpt
        conditioned = excerpt.samples(choice.settings.fit_conditioning)
        samples = conditioned.samples
        # A worker computes each task while this process continues; calling the result waits for it.
        wait_for_law_blocks = start_task(blocks_with_every_law, estimate, excerpt)
        data = DiagnosticData(experiment.robot, estimate, rows, samples, excerpt.logs_in_memory, conditioned.logs)
        wait_for_diagnosis = start_task(_diagnose, data)
        shifts = find_condition_shifts(estimate, samples)
        quantified = quantify(estimate, rows, samples, shifts)
        quantified = with_friction_curves(quantified, rows, samples, wait_for_law_blocks(), shifts)
        noise_findings = find_fed_back_noise(choice.estimator, estimate, experiment)
        log_findings, identifiability = wait_for_diagnosis()
        diagnosed = with_measured_residuals(quantified, excerpt.logs_in_memory).with_data(identifiable=identifiability)
        return _with_findings(_with_findings(diagnosed, noise_findings), log_findings)
    except MindynError as error:
        why = error.message.splitlines()[0][:200]
        message = f"the intervals include only noise, and the logs were not diagnosed: {why}"
        return _with_findings(estimate, [warning(Kind.NOT_DIAGNOSED, message, "Record a longer motion")])


def quantify(estimate: Estimate, rows: Rows, samples: Samples, shifts: Sequence[Array] | None = None) -> Estimate:
    """Add systematic errors and the deviation between blocks to the covariance and the intervals of the estimate.

    The order matters: the deviation between blocks scales a covariance that already includes systematic errors, and
    physical intervals use the covariance that results.

    samples  conditioned samples of the logs, or of segments of them
    shifts   changes of the values between groups of rows under different conditions (speed, load, posture, direction),
             in the units of the parameters, from `find_condition_shifts`; None: computed here
    """
    conditioning = estimate.settings.conditioning
    assert conditioning is not None
    condition_shifts = find_condition_shifts(estimate, samples) if shifts is None else shifts
    estimate = with_systematic_errors(estimate, samples, conditioning, rows.count)
    estimate = with_jackknife_deviation(estimate, rows.independent_blocks, condition_shifts)
    estimate = add_physical_intervals(estimate)
    return with_dropped_parameters(estimate, rows.independent_blocks)


def _diagnose(data: DiagnosticData) -> tuple[list[Finding], Identifiability]:
    findings = diagnose(data)
    is_usable = all(finding.severity is not Severity.ERROR for finding in findings)
    return findings, Identifiability(is_usable, data.uncertainty)


def _with_findings(estimate: Estimate, findings: list[Finding]) -> Estimate:
    """Add findings to the estimate without duplicates, the most serious first."""
    return estimate.with_provenance(findings=tuple(explain(dict.fromkeys((*findings, *estimate.findings)))))
