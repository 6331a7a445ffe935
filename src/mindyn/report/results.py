"""What was found: the verdict, every parameter, friction over speed, and other models beside this one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from mindyn.algebra.deviations import MAX_WELL_DETERMINED_DEVIATION, relative_deviation
from mindyn.estimators.estimate import Estimate
from mindyn.feasibility.physical_space import space_of
from mindyn.findings import Finding
from mindyn.logs.log import Log
from mindyn.pages.decimation import round_to_six_digits
from mindyn.report.data import (
    ErrorColumn,
    ExcitationData,
    FrictionData,
    JointVerdict,
    ParameterRow,
    ParameterState,
    VerdictData,
)
from mindyn.report.log_views import LogView, thin_values
from mindyn.validation.errors import TorqueError
from mindyn.validation.friction_curves import FrictionCurve, friction_curve, load_friction
from mindyn.validation.prediction import TorquePrediction
from mindyn.validation.validate import Validation, fit_error, grade_error, validate

CURVE_POINTS: Final = 25
"""Of one direction, so many closer towards rest and as many evenly spread."""


def verdict_data(
    verdict: Validation,
    *,
    held_out: bool,
    before: Mapping[str, Any] | None = None,
    patterns: Sequence[Finding | None] | None = None,
    within: bool = False,
    findings: Sequence[Finding] = (),
) -> VerdictData:
    """The verdict, joint by joint and as a whole; `before`: an earlier one on held-out logs, as `Validation.to_dict`.

    within, findings  as `VerdictData` has them
    """
    e, why = verdict.error, patterns or [None] * len(verdict.sentences)
    floors = [float(one) if np.isfinite(one) else None for one in verdict.floor]
    told = zip(verdict.grades, verdict.sentences, e.rmse, e.relative, floors, why, strict=True)
    joints = tuple(
        JointVerdict(grade, sentence, float(rmse), float(relative), floor, cause.message if cause else "")
        for grade, sentence, rmse, relative, floor, cause in told
    )
    total = None if held_out or not before else float(before["total"])
    return VerdictData(held_out, grade_error(e.total), e.total, e.rows, joints, total, within, tuple(findings))


def parameter_rows(estimate: Estimate, prior: Estimate | None) -> tuple[ParameterRow, ...]:
    """Every parameter; those that could not be told have no interval, those that were left out no deviation."""
    formulas = [*estimate.base.shown_expressions, *[""] * (len(estimate.names) - estimate.base.count)]
    rows, units, ends, not_negative = [], estimate.units, estimate.intervals, _nonnegative_names(estimate)
    relative = relative_deviation(estimate.beta, estimate.deviations, ends)
    for k, name in enumerate(estimate.names):
        value, (low, high) = float(estimate.beta[k]), ends[:, k].tolist()
        state = _parameter_state(estimate, k, relative[k])
        formula = "" if formulas[k] == name else formulas[k]
        before = None if prior is None else float(prior.beta[k])
        sure: tuple[float | None, float | None, float | None, float | None, bool] = (None, None, None, None, False)
        if np.isfinite(low):
            cut = low < 0 and name in not_negative
            part = None if np.isnan(relative[k]) else float(relative[k])
            deviation = None if state == "left out" else float(estimate.deviations[k])
            sure = (deviation, part, 0.0 if cut else low, high, cut)
        rows.append(ParameterRow(name, formula, units[k], value, *sure, state, before))
    return tuple(rows)


def _nonnegative_names(estimate: Estimate) -> tuple[str, ...]:
    """Names of parameters that a constrained fit keeps from being negative: rotor inertias and friction."""
    if not estimate.constrained:
        return ()
    space = space_of(estimate.regressor)
    others = np.delete(space.matrix, list(space.nonnegative), axis=1)
    kept = (others == 0).all(axis=1) & (space.matrix >= 0).all(axis=1)
    return tuple(name for name, bounded in zip(estimate.names, kept, strict=True) if bounded)


def _parameter_state(estimate: Estimate, k: int, relative: float) -> ParameterState:
    name = estimate.names[k]
    if name in estimate.dropped:
        return "left out"
    if name in estimate.unidentifiable or not np.isfinite(estimate.deviations[k]):
        return "unidentifiable"
    if np.isnan(estimate.intervals[0, k]):
        return "from the prior"
    if np.isnan(relative):
        return "near zero"
    return "clear" if relative <= MAX_WELL_DETERMINED_DEVIATION else "rough"


def friction_data(
    estimate: Estimate, prior: Estimate | None, excitation: ExcitationData | None, evidence: Sequence[LogView]
) -> tuple[FrictionData, ...]:
    """Friction of every joint up to the fastest speed of the logs; none where no speed is known."""
    if excitation is None or not estimate.base.drives:
        return ()
    longest = max((one.prediction for one in evidence), key=lambda made: len(made.scored))
    return tuple(
        replace(_friction_data(estimate, prior, joint, one.speed), **_friction_samples(estimate, joint, longest))
        for joint, one in enumerate(excitation.joints)
    )


def _friction_samples(estimate: Estimate, joint: int, made: TorquePrediction) -> dict[str, Any]:
    """Samples about the curve."""
    speed, left = thin_values(made.samples.qd[:, joint], made.scored), thin_values(made.residual[:, joint], made.scored)
    order = np.argsort(speed)
    sorted_speed = np.array(speed)[order]
    torque = friction_curve(estimate, joint, sorted_speed).torque + np.array(left)[order]
    return {"data_speed": tuple(sorted_speed.tolist()), "data_torque": thin_values(torque, np.arange(len(torque)))}


def _friction_data(estimate: Estimate, prior: Estimate | None, joint: int, fastest: float) -> FrictionData:
    shares = np.unique([*np.geomspace(1e-3, 1.0, CURVE_POINTS), *np.linspace(0.02, 1.0, CURVE_POINTS)])
    half = (fastest or 1.0) * shares
    speeds = np.concatenate([-half[::-1], half])
    found: FrictionCurve = friction_curve(estimate, joint, speeds)
    reach, told = found.half_width, bool(np.isfinite(found.half_width).all())
    low, high = (
        (round_to_six_digits(found.torque - reach), round_to_six_digits(found.torque + reach)) if told else (None, None)
    )
    before = None if prior is None else round_to_six_digits(friction_curve(prior, joint, speeds).torque)
    return FrictionData(
        round_to_six_digits(speeds),
        round_to_six_digits(found.torque),
        low,
        high,
        before,
        load_friction(estimate, joint),
    )


def comparison_data(
    name: str,
    estimate: Estimate,
    error: TorqueError,
    others: Mapping[str, Estimate],
    prior: Estimate | None,
    logs: Sequence[Log],
) -> tuple[ErrorColumn, ...]:
    """Errors of this estimate, of others and of the prior on the same logs; of the fits where there are none."""
    columns = [_error_column(name, error, _describe_method(estimate))]
    for title, other in others.items():
        columns.append(_error_column(title, _compute_error(other, estimate, logs), _describe_method(other)))
    if prior is not None and logs:
        columns.append(_error_column("prior", _compute_error(prior, estimate, logs), prior.status))
    return tuple(columns) if len(columns) > 1 else ()


def _describe_method(estimate: Estimate) -> str:
    mended = ", then mended: moved to the nearest values that an arm can have" if estimate.projected else ""
    return f"{estimate.method}{mended}"


def _compute_error(other: Estimate, estimate: Estimate, logs: Sequence[Log]) -> TorqueError:
    """An estimate that was made from samples takes logs as this one does."""
    if not logs:
        return fit_error(other)
    conditioning = other.conditioning or estimate.conditioning
    return validate(replace(other, settings=replace(other.settings, conditioning=conditioning)), logs).error


def _error_column(name: str, error: TorqueError, about: str) -> ErrorColumn:
    return ErrorColumn(name, tuple(map(float, error.relative)), error.total, about)
