"""`ReportData`: an estimate with its validation, logs and comparisons, from which sections are drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from mindyn.applications.validation.trajectories import Trajectories
from mindyn.applications.validation.validate import Validation, fit_error, prior_estimate, validate
from mindyn.foundation.errors import Code, InputError, pluralise
from mindyn.foundation.hints import Command
from mindyn.identification.diagnostics.diagnose import explain
from mindyn.identification.elasticity.records import Elasticity
from mindyn.identification.estimators.estimate import Estimate
from mindyn.identification.feasibility.check_feasible import Feasibility
from mindyn.identification.feasibility.checks.answer import Answer
from mindyn.identification.prediction.prediction import TorquePrediction, predict_log
from mindyn.identification.prediction.prediction_errors import TorqueError
from mindyn.logs.log import Log
from mindyn.output.export.write_checks import choose_format
from mindyn.output.report.parameter_rows import ParameterRow, parameter_rows
from mindyn.output.report.verdict import Commands, VerdictData, build_verdict, refit_words
from mindyn.robots.meshes import Meshes
from mindyn.robots.robot import Robot

Role = Literal["held out", "training"]
DEFAULT_ESTIMATE_NAME: Final = "this estimate"
"""Name of the reported estimate in comparisons if its run has none."""


@dataclass(frozen=True, slots=True)
class JointData:
    """Name of a joint and the units of its torque and position."""

    name: str
    torque_unit: str
    position_unit: str


@dataclass(frozen=True, slots=True, eq=False)
class LogView:
    """A log, its role, and the prediction of the estimate."""

    name: str
    role: Role
    prediction: TorquePrediction


@dataclass(frozen=True, slots=True)
class ErrorColumn:
    """Relative errors of one model in the comparison."""

    name: str
    relative: tuple[float, ...]
    total: float
    about: str


@dataclass(frozen=True, slots=True, eq=False)
class ReportData:
    """Everything that a report draws; sections without data are omitted.

    logs        held-out logs, then training logs
    prior       values of the prior model; None if it has none
    comparison  errors of this estimate, of others and of the prior; empty if there is nothing to compare
    others      parameters of the compared estimates
    run         record of the run
    sources     SHA-256 of every file by its path
    elasticity  of the joints; None if it was not identified
    """

    estimate: Estimate
    verdict: VerdictData
    logs: tuple[LogView, ...]
    parameters: tuple[ParameterRow, ...]
    prior: Estimate | None
    feasibility: tuple[Answer, ...]
    motion: Trajectories | None
    comparison: tuple[ErrorColumn, ...]
    others: tuple[tuple[str, tuple[ParameterRow, ...]], ...]
    meshes: Meshes | None
    commands: Commands
    run: Mapping[str, Any]
    sources: Mapping[str, str]
    elasticity: Elasticity | None = None

    @property
    def joints(self) -> tuple[JointData, ...]:
        """Return the primary joints with their units."""
        units = {"revolute": ("N m", "rad"), "prismatic": ("N", "m")}
        return tuple(JointData(joint.name, *units[joint.kind]) for joint in self.estimate.robot.primary_joints)

    def select_logs(self, role: Role) -> tuple[LogView, ...]:
        """Return the logs with a role; all logs if none has it."""
        return tuple(view for view in self.logs if view.role == role) or self.logs


def collect_report_data(
    estimate: Estimate,
    validation_logs: Log | Sequence[Log] = (),
    training_logs: Log | Sequence[Log] = (),
    feasibility: Feasibility | Sequence[Answer] = (),
    motion: Trajectories | None = None,
    comparison: Mapping[str, Estimate] | None = None,
    prior: Robot | None = None,
    run: Mapping[str, Any] | None = None,
    meshes: Meshes | None = None,
    validation: Validation | None = None,
    elasticity: Elasticity | None = None,
) -> ReportData:
    """Validate the estimate and collect everything that a report draws (see `write_report`)."""
    held_out, training = ([logs] if isinstance(logs, Log) else logs for logs in (validation_logs, training_logs))
    _require_agreement(estimate, held_out, motion, validation)
    record, others = run or {}, comparison or {}
    if validation is None and held_out:
        validation = validate(estimate, held_out)
    predictions = () if validation is None else validation.predictions
    logs = (
        *_view_logs(held_out, "held out", predictions),
        *_view_logs(training, "training", [predict_log(estimate, log) for log in training]),
    )
    findings = [*estimate.robot.findings, *estimate.findings]
    if isinstance(feasibility, Feasibility):
        findings += feasibility.findings(estimate)
        feasibility = feasibility.answers
    earlier = record.get("validation")
    scored = predictions or [view.prediction for view in logs]
    verdict = build_verdict(
        estimate, validation, scored, explain(findings), float(earlier["total"]) if earlier else None
    )
    values_before = prior_estimate(estimate, prior)
    given = record.get("robot")
    robot = str(given.get("given", "")) if isinstance(given, Mapping) else ""
    return ReportData(
        estimate,
        verdict,
        logs,
        parameter_rows(estimate, values_before),
        values_before,
        tuple(feasibility),
        motion,
        _compare_models(estimate_name(record), estimate, verdict, others, values_before, held_out),
        tuple((name, parameter_rows(other)) for name, other in others.items()),
        meshes,
        Commands(
            robot,
            str(record.get("folder") or ""),
            choose_format(estimate.robot),
            str(Command(*refit_words(record))) if record.get("command") else "",
        ),
        record,
        _list_sources(estimate, record, (*training, *held_out)),
        elasticity,
    )


def estimate_name(run: Mapping[str, Any]) -> str:
    """Return the name of the estimate of a run in comparisons."""
    return str(run.get("name") or DEFAULT_ESTIMATE_NAME)


def _require_agreement(
    estimate: Estimate, logs: Sequence[Log], motion: Trajectories | None, validation: Validation | None
) -> None:
    joints = estimate.robot.joint_count
    if motion is not None and motion.measured.shape[1] != joints:
        raise InputError(
            f"the motion must have the {joints} joints of the robot, got {motion.measured.shape[1]}",
            code=Code.WRONG_SHAPE,
            subject="motion",
        )
    if validation is not None and len(validation.predictions) != len(logs):
        raise InputError(
            f"the validation is of {pluralise(len(validation.predictions), 'log')}, but {len(logs)} are given",
            hint="pass the logs of the validation, or omit the validation",
            code=Code.DISAGREEMENT,
            subject="validation",
        )


def _view_logs(logs: Sequence[Log], role: Role, predictions: Sequence[TorquePrediction]) -> list[LogView]:
    titles = [log.name or f"{role} array {k}, {log.duration_s:.3g} s" for k, log in enumerate(logs, 1)]
    return [LogView(title, role, prediction) for title, prediction in zip(titles, predictions, strict=True)]


def _compare_models(
    name: str,
    estimate: Estimate,
    verdict: VerdictData,
    others: Mapping[str, Estimate],
    prior: Estimate | None,
    logs: Sequence[Log],
) -> tuple[ErrorColumn, ...]:
    """Return errors of this estimate, others and the prior on the same logs or, without logs, of the fits.

    Torques can be compared only with estimates of the same joints.
    """
    joints = estimate.regressor.joint_names
    errors = tuple(joint.relative for joint in verdict.joints)
    columns = [ErrorColumn(name, errors, verdict.total, _describe_method(estimate))]
    models = [(title, other, _describe_method(other)) for title, other in others.items()]
    models += [("prior", prior, prior.status)] if prior is not None and logs else []
    for title, other, about in models:
        if other.regressor.joint_names == joints:
            error = _compute_error(other, estimate, logs)
            columns.append(ErrorColumn(title, tuple(error.relative.tolist()), error.total, about))
    return tuple(columns) if len(columns) > 1 else ()


def _describe_method(estimate: Estimate) -> str:
    projection = ", then projected onto the nearest physically consistent values" if estimate.values.projected else ""
    return f"{estimate.provenance.method}{projection}"


def _compute_error(other: Estimate, estimate: Estimate, logs: Sequence[Log]) -> TorqueError:
    """Compute the error of another estimate; one without conditioning uses that of this estimate."""
    if not logs:
        return fit_error(other)
    conditioning = other.settings.conditioning or estimate.settings.conditioning
    return validate(other.with_data(settings=replace(other.settings, conditioning=conditioning)), logs).error


def _list_sources(estimate: Estimate, run: Mapping[str, Any], logs: Sequence[Log]) -> dict[str, str]:
    """Return the SHA-256 of every file by its path."""
    sources = (*estimate.data.sources, *(source for log in logs for source in log.sources))
    recorded = {str(entry["path"]): str(entry["sha256"]) for entry in run.get("inputs", ())}
    return recorded | {source.path: source.sha256 for source in sources}
