"""`validate`: how well an estimate predicts logs that were not used in the fit, compared with other estimates.

`prior_estimate` turns the parameters of a robot file into an estimate, so that it can be validated in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import numpy as np

from mindyn.foundation.algebra.requirements import require_type
from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, InputError, pluralise
from mindyn.foundation.json_values import to_json_value
from mindyn.foundation.pages.notebook_display import NotebookDisplay
from mindyn.identification.estimators.estimate import Estimate
from mindyn.identification.prediction.noise_floor_error import is_at_floor, pool_floors
from mindyn.identification.prediction.prediction import TorquePrediction, pool_errors, predict_log
from mindyn.identification.prediction.prediction_errors import TorqueError
from mindyn.logs.constant_torques import require_torque
from mindyn.logs.log import Log
from mindyn.parameters.base_parameters import all_parameters, has_same_mechanism
from mindyn.robots.robot import Robot
from mindyn.robots.table import format_table

Grade = Literal["good", "noise", "fair", "poor", "unusable"]
"""How well the torque of a joint is predicted; "noise": except for the flat noise of its sensor."""
GRADE_LIMITS: Final[tuple[tuple[float, Grade], ...]] = ((0.1, "good"), (0.3, "fair"), (1.0, "poor"))
"""Largest relative errors of good, fair and poor predictions."""
GRADE_PHRASES: Final[Mapping[Grade, str]] = {
    "good": "is predicted well",
    "noise": "is predicted down to the noise of its sensor",
    "fair": "is predicted fairly well",
    "poor": "is predicted poorly",
    "unusable": "is not predicted",
}
OVERFIT_RATIO: Final = 2.0
"""Ratio of held-out error to training error above which a sentence mentions it."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Validation(NotebookDisplay):
    """Accuracy of an estimate on held-out logs.

    Attributes
    ----------
    error : TorqueError
    sentences : tuple of str
        One sentence for each joint.
    floor : ndarray, shape (n,)
        Rms of the flat noise in the residual, N m or N (see `noise_floor`); NaN if unknown.
    predictions : tuple of TorquePrediction
        Prediction of each log; empty for the rows of the fit.
    """

    error: TorqueError
    sentences: tuple[str, ...]
    floor: Array
    predictions: tuple[TorquePrediction, ...] = ()

    def __repr__(self) -> str:
        joints = pluralise(len(self.sentences), "joint")
        return f"Validation({100 * self.error.total:.3g} % of the torque missed, {joints})"

    def __str__(self) -> str:
        ends = self.total_with_ends
        with_ends = [] if ends is None else [f"total with the ends: {100 * ends:.2f} %"]
        return "\n".join([self.error.table(), *with_ends, "", *self.sentences])

    @property
    def grades(self) -> tuple[Grade, ...]:
        """Return how well each joint is explained."""
        e = self.error
        return tuple(map(grade_joint, e.relative.tolist(), e.rmse.tolist(), self.floor.tolist()))

    @property
    def total_with_ends(self) -> float | None:
        """Return the relative error of all joints including the ends of segments; None if no ends were cut."""
        if not any(len(prediction.ends) for prediction in self.predictions):
            return None
        rows = [(prediction, np.concatenate([prediction.scored, prediction.ends])) for prediction in self.predictions]
        squares = sum(float((prediction.residual[taken] ** 2).sum()) for prediction, taken in rows)
        return float(
            np.sqrt(squares / sum(float((prediction.measured[taken] ** 2).sum()) for prediction, taken in rows))
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the result in types that JSON can store."""
        e = self.error
        return {
            "joints": list(e.joint_names),
            "rmse": e.rmse.tolist(),
            "relative": e.relative.tolist(),
            "noise_floor": to_json_value(self.floor),
            "total": e.total,
            "total_with_ends": self.total_with_ends,
            "rows": e.rows,
            "unscored": e.unscored,
            "sentences": list(self.sentences),
        }


def validate(
    estimate: Estimate, logs: Log | Sequence[Log], *, rows: Sequence[tuple[int, int]] | None = None
) -> Validation:
    """Validate an estimate on logs that were not used in the fit.

    The torque is compared as logged, without filters.

    Parameters
    ----------
    estimate : Estimate
        Estimate to use.
    logs : Log or sequence of Log
        Logs to use.
    rows : sequence of (int, int), optional
        For each log, the rows (start, stop) of its file to score. By default all rows except the ends of segments:
        1 s, or 5 % of a segment that is shorter than 20 s.

    Returns
    -------
    Validation
        Torque error of every joint with a sentence about it, and the predicted torques.

    Raises
    ------
    InputError
        If no log is given, an item is not a `Log`, all torques are zero, or `rows` does not match the logs.
    """
    listed = [logs] if isinstance(logs, Log) else list(logs)
    if not listed:
        raise InputError(
            "no log was given to validate on",
            hint="pass a log that was not used in the fit",
            code=Code.MISSING_VALUE,
            subject="logs",
        )
    for item in listed:
        require_type(item, Log, "logs", "read a file by read_log(path, estimate.robot)")
    require_torque(log.tau for log in listed)
    if rows is not None and len(rows) != len(listed):
        raise InputError(
            f"rows has {len(rows)} entries, but there are {len(listed)} logs", code=Code.DISAGREEMENT, subject="rows"
        )
    predictions = [predict_log(estimate, log, None if rows is None else rows[k]) for k, log in enumerate(listed)]
    return _build_validation(estimate, pool_errors(predictions), pool_floors(predictions), predictions)


def _build_validation(
    estimate: Estimate, error: TorqueError, floor: Array, predictions: Sequence[TorquePrediction] = ()
) -> Validation:
    """Build the validation of an error and the noise floor (n,), NaN where it is unknown."""
    sentences = tuple(_describe_joint(estimate, error, joint, float(rms)) for joint, rms in enumerate(floor))
    return Validation(error, sentences, floor, tuple(predictions))


def validate_fit(estimate: Estimate) -> Validation:
    """Return the validation on the rows of the fit, which is optimistic."""
    error = fit_error(estimate)
    return _build_validation(estimate, error, np.full(len(error.joint_names), np.nan))


def fit_error(estimate: Estimate) -> TorqueError:
    """Return the error on the rows of the fit, which is optimistic."""
    names = tuple(residual.joint for residual in estimate.data.residuals)
    if names != estimate.regressor.joint_names:
        raise InputError(
            f"the fit has no torque residuals of the joints, but of: {', '.join(names) or 'nothing'}",
            hint="call validate(estimate, logs) with logs that were not used in the fit",
            code=Code.UNSUPPORTED,
            subject="residuals",
        )
    rms = np.array([residual.rms for residual in estimate.data.residuals])
    torque = np.array([residual.rms_torque for residual in estimate.data.residuals])
    rows = np.array([residual.rows for residual in estimate.data.residuals])
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = rms / torque
        total = float(np.sqrt((rows * rms**2).sum() / (rows * torque**2).sum()))
    return TorqueError(names, rms, relative, total, int(rows.max(initial=0)))


def grade_error(relative: float) -> Grade:
    """Return the grade of a relative error."""
    return next((grade for bound, grade in GRADE_LIMITS if relative <= bound), "unusable")


def grade_joint(relative: float, rms: float, floor: float) -> Grade:
    """Return the grade of a joint by its relative error, or "noise" if the residual is flat noise."""
    grade = grade_error(relative)
    return "noise" if grade != "good" and is_at_floor(rms, floor) else grade


def _describe_joint(estimate: Estimate, error: TorqueError, joint: int, floor: float) -> str:
    name, relative = error.joint_names[joint], float(error.relative[joint])
    in_fit = _comparable_fit_error(estimate, name)
    unit = "N" if estimate.robot.primary_joints[joint].kind == "prismatic" else "N m"
    rms = float(error.rmse[joint])
    grade = grade_joint(relative, rms, floor)
    if grade == "noise":
        noise = f"{rms:.3g} {unit} rms of flat noise is missed, {100 * relative:.3g} % of its torque"
        return f"{name} {GRADE_PHRASES[grade]}: {noise}."
    worse = f", {relative / in_fit:.1f} times the error of the fit" if relative > OVERFIT_RATIO * in_fit else ""
    part = f"{100 * relative:.3g} % of its torque is missed"
    if relative > 1:
        part = f"the error is {relative:.3g} times the torque: a prediction of zero would be better"
    return f"{name} {GRADE_PHRASES[grade]}: {part} ({rms:.3g} {unit} rms{worse})."


def _comparable_fit_error(estimate: Estimate, joint: str) -> float:
    """Return the relative error of a joint in the fit; NaN if the fit did not compare torques as logged."""
    if estimate.data.residual_of != "torque" or estimate.settings.filtering.equations_hz is not None:
        return float("nan")
    fits = (r.rms / r.rms_torque for r in estimate.data.residuals if r.joint == joint and r.rms_torque > 0)
    return next(fits, float("nan"))


def compare(estimates: Mapping[str, Estimate], logs: Log | Sequence[Log]) -> str:
    """Compare estimates on the same logs.

    Parameters
    ----------
    estimates : Mapping of str to Estimate
        Estimates by name.
    logs : Log or sequence of Log
        Logs to use.

    Returns
    -------
    str
        Table of relative errors of every joint and in total, with one column for each estimate.
    """
    errors = {name: validate(estimate, logs).error for name, estimate in estimates.items()}
    return comparison_table(errors)


def comparison_table(errors: Mapping[str, TorqueError]) -> str:
    """Return a table of the errors of several estimates on the same rows."""
    if not errors:
        raise InputError(
            "no estimate was given to compare",
            hint="pass {name: estimate}",
            code=Code.MISSING_VALUE,
            subject="estimates",
        )
    first = next(iter(errors.values()))
    columns = [[*error.relative, error.total] for error in errors.values()]
    rows = zip((*first.joint_names, "total"), *columns, strict=True)
    texts = [(name, *(f"{100 * value:.2f} %" for value in values)) for name, *values in rows]
    return format_table([("relative error", *errors), *texts])


def prior_estimate(estimate: Estimate, prior: Robot | None = None) -> Estimate | None:
    """Return the model of an estimate with the values of `prior`, by default of the robot of the estimate.

    Drives that the prior does not have get neither friction nor rotor inertia. The result is None without `prior` if
    the robot of the estimate has no inertial parameters.
    """
    robot = prior or estimate.robot
    if prior is None and not robot.has_parameters:
        return None
    known = {drive.joint: drive for drive in robot.drives}
    drives = tuple(
        known.get(drive.joint, replace(drive, rotor_inertia=0.0, viscous=0.0, coulomb=0.0, offset=0.0))
        for drive in estimate.robot.drives
    )
    complete = replace(robot, drives=drives)
    if not has_same_mechanism(complete, estimate.robot):
        raise InputError(
            f"the prior {robot.name!r} has other joints, gears or gravity than {estimate.robot.name!r} of the estimate",
            hint="give the robot file of the estimate, or one that differs in inertial parameters only",
            code=Code.DISAGREEMENT,
            subject=robot.name,
        )
    values = estimate.base.matrix @ all_parameters(complete, with_drives=estimate.base.with_drives)
    return (
        estimate.with_values(
            beta=np.concatenate([values, np.zeros(len(estimate.names) - len(values))]),
            dropped=(),
            unidentifiable=(),
            physical=None,
            projected=False,
        )
        .with_uncertainty(covariance=np.zeros_like(estimate.covariance), shifts=None)
        .with_provenance(status=f"values of the robot file of {robot.name}")
    )
