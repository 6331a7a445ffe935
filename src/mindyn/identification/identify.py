"""`identify`: from a robot and its logs to an estimate: select, fit, quantify, diagnose."""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import replace

from mindyn.algebra.blas import run_on_one_blas_thread
from mindyn.errors import MindynError
from mindyn.estimators.estimate import Estimate
from mindyn.estimators.estimate_parts import Identifiability
from mindyn.estimators.estimator import Estimator
from mindyn.feasibility.intervals import add_physical_intervals
from mindyn.findings import Finding, Kind, Severity, warning
from mindyn.identification.diagnostics.data import DiagnosticData
from mindyn.identification.diagnostics.diagnose import diagnose, explain
from mindyn.identification.fed_back_noise import instrument_findings
from mindyn.identification.fit import Fit, zero_constant_torques
from mindyn.identification.gain_stage import GainStage, find_servo
from mindyn.identification.selection.choose import Progress, choose, require_logs, sample_logs, tuning_segments
from mindyn.identification.uncertainty.jackknife import with_dropped_parameters, with_jackknife_deviation
from mindyn.identification.uncertainty.systematic_errors import with_systematic_errors
from mindyn.loads.unknown_gains import Scale
from mindyn.logs.pipeline import condition
from mindyn.logs.samples import Samples
from mindyn.regression.rows import Logs, Rows, factors_on_gpu
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
    gpu: bool = False,
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
        need R factors alone; a "correlated" covariance, if it was not asked for, becomes "white".
    gpu : bool
        Turn rows into R factors on a GPU, through CuPy: the CPU's estimate to rounding. For logs in memory and robots
        without loops.
    progress : callable, optional
        Called with a status line after each step.
    scale : "robot", "free", mapping or WeighedLoad
        What fixes the common scale of parameters and gains if all gains of the logs are unknown: the gravity parameters
        of the robot file, nothing, a base parameter {name: value}, or a load of known mass (see
        `mindyn.loads.estimate_gains`).

    Returns
    -------
    Estimate
        Values, covariance, findings about the logs, and the settings that were selected.

    Raises
    ------
    InputError
        If no log is given, nothing moves, the torque is zero, or the estimator cannot use `executor` or `gpu`.
    """
    if gpu:
        factors_on_gpu(logs, executor)  # raises before anything is selected
    stage = GainStage.begin(robot, logs, scale)
    logs = logs if stage is None else stage.estimate()[1]
    fit = Fit(robot, zero_constant_torques(logs), executor, gpu)
    choice = choose(robot, fit.logs, estimator, settings, progress=progress)
    if stage is not None:  # once more, with the selected filters and friction
        gains, logs = stage.estimate(choice.settings)
        fit = Fit(robot, zero_constant_torques(logs), executor, gpu)
    if progress is not None:
        progress("fitting all training rows")
    estimate, rows = fit.run(choice, is_given=estimator is not None)
    estimate = replace(
        estimate,
        findings=(*choice.findings, *estimate.findings, *rows.findings),
        sources=rows.sources,
        cross_validated=choice.score,
        servo=find_servo(logs),
        provenance={**estimate.provenance, "samples": rows.count},
    )
    estimate = estimate if stage is None else stage.add_to(estimate, rows, gains)
    try:
        segments = tuning_segments(sample_logs(require_logs(logs)))
        conditioned = condition(estimate.robot, segments, choice.settings.fit_conditioning)
        samples = conditioned.samples
        quantified = quantify(estimate, rows, samples)
        biased = instrument_findings(choice.estimator, robot, estimate, logs)
        return with_diagnosis(
            _with_findings(quantified, biased),
            DiagnosticData(robot, estimate, rows, samples, segments, conditioned.logs),
        )
    except MindynError as error:
        why = error.message.splitlines()[0][:200]
        message = f"the intervals include only noise, and the logs were not diagnosed: {why}"
        return _with_findings(estimate, [warning(Kind.NOT_DIAGNOSED, message, "Record a longer motion")])


def quantify(estimate: Estimate, rows: Rows, samples: Samples) -> Estimate:
    """Return the estimate with systematic errors and the deviation between blocks in its covariance and intervals.

    samples  conditioned samples of the logs, or of segments of them
    """
    conditioning = estimate.conditioning
    assert conditioning is not None
    wider = with_systematic_errors(estimate, samples, conditioning, rows.count)
    wider = add_physical_intervals(with_jackknife_deviation(wider, rows.independent_blocks))
    return with_dropped_parameters(wider, rows.independent_blocks)


def with_diagnosis(estimate: Estimate, data: DiagnosticData) -> Estimate:
    """Return the estimate with the findings of all diagnostics."""
    findings = diagnose(data)
    is_usable = all(finding.severity is not Severity.ERROR for finding in findings)
    return _with_findings(replace(estimate, identifiable=Identifiability(is_usable, data.uncertainty)), findings)


def _with_findings(estimate: Estimate, findings: list[Finding]) -> Estimate:
    """Return the estimate with more findings, each once, the most serious first."""
    return replace(estimate, findings=tuple(explain(dict.fromkeys((*findings, *estimate.findings)))))
