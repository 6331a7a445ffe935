"""`validate`: how an estimate predicts logs it has not seen, joint by joint in sentences; k-fold; several estimates.

`prior_estimate` puts what a robot's own description predicts as an estimate, so that it is judged alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from mindyn.algebra.values import Array
from mindyn.errors import InputError
from mindyn.estimators.estimate import Estimate
from mindyn.estimators.estimator import Estimator
from mindyn.logs.conditioning import torque_cutoff
from mindyn.logs.log import Log
from mindyn.logs.samples import Samples
from mindyn.pages.notebook import NotebookDisplay
from mindyn.parameters.base import all_parameters, has_same_mechanism
from mindyn.regression.row_blocks import segment_ends
from mindyn.regression.rows import build_rows
from mindyn.regression.settings import EquationSettings
from mindyn.robots.parts import Drive
from mindyn.robots.robot import Robot
from mindyn.robots.table import format_table
from mindyn.validation.errors import TorqueError, pool_errors, torque_error
from mindyn.validation.noise_floor import is_at_floor, pool_floors
from mindyn.validation.prediction import TorquePrediction, predict_log

Grade = Literal["well", "floor", "roughly", "hardly", "not"]
"""How a joint's torque is explained; "floor": all but the flat noise of its sensor."""
GRADE_LIMITS: Final[tuple[tuple[float, Grade], ...]] = ((0.1, "well"), (0.3, "roughly"), (1.0, "hardly"))
"""Relative errors up to which a joint counts as explained well, roughly, hardly; beyond, it is not."""
GRADE_PHRASES: Final[Mapping[Grade, str]] = {
    "well": "is well explained",
    "floor": "is explained down to the noise of its sensor",
    "roughly": "is roughly explained",
    "hardly": "is hardly explained",
    "not": "is not explained",
}
OVERFIT_RATIO: Final = 2.0
"""A held-out error above this multiple of the training error is said to be one."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Validation(NotebookDisplay):
    """What held-out logs say of an estimate: the error, and a sentence for each joint.

    floor        (n,) rms, N m or N, of the flat noise in what is missed (`noise_floor`); NaN where that is not known
    predictions  of each log that it is on, in their order; none where it is on the rows of the fit
    """

    error: TorqueError
    sentences: tuple[str, ...]
    floor: Array
    predictions: tuple[TorquePrediction, ...] = ()

    def __repr__(self) -> str:
        return f"Verdict({100 * self.error.total:.3g} % of the torque missed, {len(self.sentences)} joints)"

    def __str__(self) -> str:
        return "\n".join([self.error.table(), "", *self.sentences])

    @property
    def grades(self) -> tuple[Grade, ...]:
        """How well each joint is explained."""
        e = self.error
        return tuple(map(grade_joint, e.relative.tolist(), e.rmse.tolist(), self.floor.tolist()))

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        e = self.error
        return {
            "joints": list(e.joint_names),
            "rmse": e.rmse.tolist(),
            "relative": e.relative.tolist(),
            "noise_floor": [float(one) if np.isfinite(one) else None for one in self.floor],
            "total": e.total,
            "rows": e.rows,
            "unscored": e.unscored,
            "sentences": list(self.sentences),
        }


def validate(
    estimate: Estimate, logs: Log | Sequence[Log], *, rows: Sequence[tuple[int, int]] | None = None
) -> Validation:
    """The verdict on logs that were not used in the fit; the torque is compared as logged.

    rows  for each log the rows (start, stop) of its file to score; all but 0.1 s at both ends if left out
    """
    listed = [logs] if isinstance(logs, Log) else list(logs)
    if not listed:
        raise InputError("no log was given")
    if other := next((one for one in listed if not isinstance(one, Log)), None):
        raise InputError(f"{type(other).__name__} is no log", hint="of a file: read_log(path, estimate.robot)")
    if rows is not None and len(rows) != len(listed):
        raise InputError(f"rows to score are given for {len(rows)} logs, but there are {len(listed)}")
    made = [predict_log(estimate, log, None if rows is None else rows[k]) for k, log in enumerate(listed)]
    return validate_predictions(estimate, made)


def validate_predictions(estimate: Estimate, made: Sequence[TorquePrediction]) -> Validation:
    """The verdict that predictions of held-out logs give."""
    return replace(
        _build_validation(estimate, pool_errors([one.error for one in made]), pool_floors(made)),
        predictions=tuple(made),
    )


def _build_validation(estimate: Estimate, error: TorqueError, floor: Array | None = None) -> Validation:
    """The verdict that an error of the estimate gives, and the noise floor (n,) where it is known."""
    below = np.full(len(error.joint_names), np.nan) if floor is None else floor
    sentences = tuple(_describe_joint(estimate, error, joint, float(one)) for joint, one in enumerate(below))
    return Validation(error, sentences, below)


def validate_fit(estimate: Estimate) -> Validation:
    """The verdict on the rows of the fit itself, which flatters."""
    return _build_validation(estimate, fit_error(estimate))


def fit_error(estimate: Estimate) -> TorqueError:
    """The error on the rows of the fit itself, which flatters."""
    names = tuple(one.joint for one in estimate.residuals)
    if names != estimate.regressor.joint_names:
        raise InputError(
            f"the fit did not compare torques of the joints but: {', '.join(names) or 'nothing'}",
            hint="validate(estimate, logs) does, on logs that were not used in the fit",
        )
    rms = np.array([one.rms for one in estimate.residuals])
    torque = np.array([one.rms_torque for one in estimate.residuals])
    rows = np.array([one.rows for one in estimate.residuals])
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = rms / torque
        total = float(np.sqrt((rows * rms**2).sum() / (rows * torque**2).sum()))
    return TorqueError(names, rms, relative, total, int(rows.max(initial=0)))


def grade_error(relative: float) -> Grade:
    """How a torque with this relative error counts."""
    return next((grade for bound, grade in GRADE_LIMITS if relative <= bound), "not")


def grade_joint(relative: float, rms: float, floor: float) -> Grade:
    """How a joint counts: by its relative error, but at the floor where what is missed is flat noise."""
    grade = grade_error(relative)
    return "floor" if grade != "well" and is_at_floor(rms, floor) else grade


def _describe_joint(estimate: Estimate, error: TorqueError, joint: int, floor: float) -> str:
    name, relative = error.joint_names[joint], float(error.relative[joint])
    in_fit = _comparable_fit_error(estimate, name)
    unit = "N" if estimate.robot.primary_joints[joint].kind == "prismatic" else "N m"
    rms = float(error.rmse[joint])
    grade = grade_joint(relative, rms, floor)
    if grade == "floor":
        noise = f"{rms:.3g} {unit} rms of flat noise is missed, {100 * relative:.3g} % of its torque"
        return f"{name} {GRADE_PHRASES[grade]}: {noise}."
    worse = f", {relative / in_fit:.1f} times the error of the fit" if relative > OVERFIT_RATIO * in_fit else ""
    part = f"{100 * relative:.3g} % of its torque is missed"
    if relative > 1:
        part = f"the error is {relative:.3g} times the torque, so that zero would be a better prediction"
    return f"{name} {GRADE_PHRASES[grade]}: {part} ({rms:.3g} {unit} rms{worse})."


def _comparable_fit_error(estimate: Estimate, joint: str) -> float:
    """Relative error of a joint in the fit; NaN where that was not of torques as logged, as held-out rows are."""
    if estimate.residual_of != "torque":
        return float("nan")
    if estimate.filter_hz is not None or (estimate.conditioning and torque_cutoff(estimate.conditioning) is not None):
        return float("nan")
    fits = (one.rms / one.rms_torque for one in estimate.residuals if one.joint == joint and one.rms_torque > 0)
    return next(fits, float("nan"))


def cross_validate(
    estimator: Estimator, robot: Robot, samples: Samples, settings: EquationSettings | None = None, *, folds: int = 5
) -> tuple[TorqueError, ...]:
    """One error for each fold: segments, or contiguous parts of them, held out in turn."""
    numbers = fold_numbers(samples.segments, folds)
    errors = []
    for fold in range(folds):
        held = numbers == fold
        found = estimator.fit(build_rows(robot, _take_rows(samples, ~held, numbers), settings))
        part = _take_rows(samples, held, numbers)
        errors.append(torque_error(samples.joint_names, part.tau, found.predict(part)))
    return tuple(errors)


def fold_numbers(segments: NDArray[np.int64], folds: int) -> NDArray[np.int64]:
    """(N,) fold of each row: whole segments where there are enough, else equal contiguous parts."""
    if folds < 2 or len(segments) < 2 * folds:
        raise InputError(f"{folds} folds of {len(segments)} rows: at least 2 folds of 2 rows are needed")
    ends = segment_ends(segments)
    if len(ends) < folds:
        return np.asarray(np.arange(len(segments)) * folds // len(segments), dtype=np.int64)
    numbers = np.empty(len(segments), dtype=np.int64)
    for k, (start, stop) in enumerate(ends):
        numbers[start:stop] = k * folds // len(ends)
    return numbers


def _take_rows(samples: Samples, rows: NDArray[np.bool_], folds: NDArray[np.int64]) -> Samples:
    """The rows, a new segment wherever the fold changes."""
    arrays: dict[str, Any] = {name: getattr(samples, name)[rows] for name in ("q", "qd", "qdd", "tau")}
    marks = np.stack([samples.segments, folds])[:, rows]
    starts = (np.diff(marks, axis=1, prepend=marks[:, :1] - 1) != 0).any(axis=0)
    usable = None if samples.usable is None else samples.usable[rows]
    return replace(samples, **arrays, segments=np.cumsum(starts).astype(np.int64), usable=usable)


def compare(estimates: Mapping[str, Estimate], logs: Log | Sequence[Log]) -> str:
    """A table: relative error of every joint and in total, one column for each estimate."""
    verdicts = {name: validate(estimate, logs).error for name, estimate in estimates.items()}
    return comparison_table(verdicts)


def comparison_table(errors: Mapping[str, TorqueError]) -> str:
    """Errors of several estimates on the same rows, side by side."""
    if not errors:
        raise InputError("there is nothing to compare")
    first = next(iter(errors.values()))
    value: Callable[[float], str] = lambda x: f"{100 * x:.2f} %"  # noqa: E731
    rows = [("relative error", *errors)]
    for joint, name in enumerate(first.joint_names):
        rows.append((name, *(value(error.relative[joint]) for error in errors.values())))
    return format_table([*rows, ("total", *(value(error.total) for error in errors.values()))])


def prior_estimate(estimate: Estimate, prior: Robot | None = None) -> Estimate | None:
    """The estimate's model with the values that `prior` states; the estimate's own robot if left out.

    Drives that the prior does not state have neither friction nor rotor inertia. None where nothing was given and the
    estimate's robot states no inertial parameters.
    """
    robot = prior or estimate.robot
    if prior is None and not robot.has_parameters:
        return None
    stated = {drive.joint: drive for drive in robot.drives}
    drives = tuple(stated.get(drive.joint, _clear_drive(drive)) for drive in estimate.robot.drives)
    complete = replace(robot, drives=drives)
    if not has_same_mechanism(complete, estimate.robot):
        raise InputError(
            f"the prior {robot.name!r} has other joints, gears or gravity than the estimate's {estimate.robot.name!r}",
            hint="give the description that the estimate was made with, or one that differs in its masses alone",
        )
    values = estimate.base.matrix @ all_parameters(complete, drives=estimate.base.drives)
    return replace(
        estimate,
        beta=np.concatenate([values, np.zeros(len(estimate.names) - len(values))]),
        covariance=np.zeros_like(estimate.covariance),
        status=f"the values that {robot.name} states",
        dropped=(),
        unidentifiable=(),
        shifts=None,
        physical=None,
        projected=False,
    )


def _clear_drive(drive: Drive) -> Drive:
    return replace(drive, rotor_inertia=0.0, viscous=0.0, coulomb=0.0, offset=0.0)
