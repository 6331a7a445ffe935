"""Results for a report: validation, parameters, friction over speed, and comparison with other models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from mindyn.algebra.deviations import MAX_WELL_DETERMINED_DEVIATION, relative_deviation
from mindyn.estimators.estimate import Estimate
from mindyn.estimators.estimate_columns import ESTIMATED, FROM_PRIOR, columns_of
from mindyn.estimators.estimate_parts import FrictionCurve
from mindyn.feasibility.physical_space import space_of
from mindyn.findings import Finding
from mindyn.logs.log import Log
from mindyn.pages.plots import round_to_six_digits
from mindyn.report.data import (
    ErrorColumn,
    ExcitationData,
    FrictionData,
    JointVerdict,
    Numbers,
    ParameterRow,
    ParameterState,
    VerdictData,
)
from mindyn.report.log_views import LogView, thin_values
from mindyn.validation.errors import TorqueError
from mindyn.validation.friction_curves import friction_curve, load_friction
from mindyn.validation.prediction import TorquePrediction
from mindyn.validation.validate import Validation, fit_error, grade_error, validate

CURVE_POINTS: Final = 25
"""Points of a friction curve per direction, on each of a logarithmic and a linear grid."""


def verdict_data(
    verdict: Validation,
    *,
    held_out: bool,
    earlier: Mapping[str, Any] | None = None,
    patterns: Sequence[Finding | None] | None = None,
    consistent_nearby: bool = False,
    findings: Sequence[Finding] = (),
) -> VerdictData:
    """Return the validation result for each joint and in total.

    `earlier` is an earlier result on held-out logs (`Validation.to_dict`). `consistent_nearby` and `findings` are as in
    `VerdictData`.
    """
    e, joint_patterns = verdict.error, patterns or [None] * len(verdict.sentences)
    floors = [float(level) if np.isfinite(level) else None for level in verdict.floor]
    rows = zip(verdict.grades, verdict.sentences, e.rmse, e.relative, floors, joint_patterns, strict=True)
    joints = tuple(
        JointVerdict(grade, sentence, float(rmse), float(relative), floor, pattern)
        for grade, sentence, rmse, relative, floor, pattern in rows
    )
    earlier_total = None if held_out or not earlier else float(earlier["total"])
    return VerdictData(
        held_out,
        grade_error(e.total),
        e.total,
        e.rows,
        joints,
        earlier_total,
        consistent_nearby,
        tuple(findings),
        verdict.total_with_ends,
    )


def parameter_rows(estimate: Estimate, prior: Estimate | None) -> tuple[ParameterRow, ...]:
    """Return all parameters; unidentifiable parameters have no interval, dropped parameters no deviation."""
    formulas = [*estimate.base.shown_expressions, *[""] * (len(estimate.names) - estimate.base.count)]
    rows, not_negative = [], _nonnegative_names(estimate)
    relative = relative_deviation(estimate.beta, estimate.deviations, estimate.intervals)
    columns = zip(*columns_of(estimate).values(), relative.tolist(), formulas, strict=True)
    for k, (name, value, unit, deviation, low, high, state, part, formula) in enumerate(columns):
        clipped = low is not None and low < 0 and name in not_negative
        rows.append(
            ParameterRow(
                name,
                "" if formula == name else formula,
                unit,
                value,
                deviation,
                None if low is None or np.isnan(part) else part,
                0.0 if clipped else low,
                high,
                clipped,
                _parameter_state(state, part, is_finite=bool(np.isfinite(estimate.deviations[k]))),
                None if prior is None else float(prior.beta[k]),
            )
        )
    return tuple(rows)


def _nonnegative_names(estimate: Estimate) -> tuple[str, ...]:
    """Return names of parameters that a constrained fit keeps nonnegative: rotor inertias and friction."""
    if not estimate.constrained:
        return ()
    space = space_of(estimate.regressor)
    others = np.delete(space.matrix, list(space.nonnegative), axis=1)
    kept = (others == 0).all(axis=1) & (space.matrix >= 0).all(axis=1)
    return tuple(name for name, bounded in zip(estimate.names, kept, strict=True) if bounded)


def _parameter_state(state: str, relative: float, *, is_finite: bool) -> ParameterState:
    """Return the state for a report from that of `columns_of`."""
    if state == FROM_PRIOR:
        return FROM_PRIOR if is_finite else "unidentifiable"
    if state != ESTIMATED:
        return "dropped" if state == "dropped" else "unidentifiable"
    if np.isnan(relative):
        return "not significant"
    return "well determined" if relative <= MAX_WELL_DETERMINED_DEVIATION else "poorly determined"


def friction_data(
    estimate: Estimate, prior: Estimate | None, excitation: ExcitationData | None, evidence: Sequence[LogView]
) -> tuple[FrictionData, ...]:
    """Return friction of every joint up to the peak speed of the logs; empty without logs or drives."""
    if excitation is None or not estimate.base.drives:
        return ()
    longest = max((view.prediction for view in evidence), key=lambda prediction: len(prediction.scored))
    bands = {curve.joint: curve for curve in estimate.friction_curves}
    data = []
    for joint, (name, motion) in enumerate(zip(estimate.regressor.joint_names, excitation.joints, strict=True)):
        band = bands.get(name)
        samples = _friction_samples(estimate, joint, longest, band.load if band is not None else 0.0)
        data.append(_friction_data(estimate, prior, joint, motion.speed, samples, band))
    return tuple(data)


def _friction_samples(
    estimate: Estimate, joint: int, prediction: TorquePrediction, load: float
) -> tuple[Numbers, Numbers]:
    """Return speeds and torques of samples around the friction curve."""
    speed = thin_values(prediction.samples.qd[:, joint], prediction.scored)
    residual = thin_values(prediction.residual[:, joint], prediction.scored)
    order = np.argsort(speed)
    sorted_speed = np.array(speed)[order]
    torque = friction_curve(estimate, joint, sorted_speed, load).torque + np.array(residual)[order]
    return tuple(sorted_speed.tolist()), thin_values(torque, np.arange(len(torque)))


def _friction_data(
    estimate: Estimate,
    prior: Estimate | None,
    joint: int,
    fastest: float,
    samples: tuple[Numbers, Numbers],
    band: FrictionCurve | None,
) -> FrictionData:
    """Return the curve of the estimate, with the band of all laws over the speeds driven, or with its own interval."""
    shares = np.unique([*np.geomspace(1e-3, 1.0, CURVE_POINTS), *np.linspace(0.02, 1.0, CURVE_POINTS)])
    half = (fastest or 1.0) * shares
    speeds = np.concatenate([-half[::-1], half])
    load = band.load if band is not None else 0.0
    curve = friction_curve(estimate, joint, speeds, load)
    shown = band or curve
    reach, is_finite = shown.half_width, bool(np.isfinite(shown.half_width).all())
    ends = [round_to_six_digits(end) if is_finite else None for end in (shown.torque - reach, shown.torque + reach)]
    before = None if prior is None else round_to_six_digits(friction_curve(prior, joint, speeds, load).torque)
    return FrictionData(
        round_to_six_digits(speeds),
        round_to_six_digits(curve.torque),
        ends[0],
        ends[1],
        before,
        load_friction(estimate, joint),
        *samples,
        band_speed=round_to_six_digits(shown.speed),
        load=load,
        laws=shown.laws,
    )


def comparison_data(
    name: str,
    estimate: Estimate,
    error: TorqueError,
    others: Mapping[str, Estimate],
    prior: Estimate | None,
    logs: Sequence[Log],
) -> tuple[ErrorColumn, ...]:
    """Return errors of this estimate, others and the prior on the same logs or, without logs, of the fits."""
    columns = [_error_column(name, error, _describe_method(estimate))]
    for title, other in others.items():
        columns.append(_error_column(title, _compute_error(other, estimate, logs), _describe_method(other)))
    if prior is not None and logs:
        columns.append(_error_column("prior", _compute_error(prior, estimate, logs), prior.status))
    return tuple(columns) if len(columns) > 1 else ()


def _describe_method(estimate: Estimate) -> str:
    projection = ", then projected onto the nearest physically consistent values" if estimate.projected else ""
    return f"{estimate.method}{projection}"


def _compute_error(other: Estimate, estimate: Estimate, logs: Sequence[Log]) -> TorqueError:
    """Compute the error of another estimate; one without conditioning uses that of this estimate."""
    if not logs:
        return fit_error(other)
    conditioning = other.conditioning or estimate.conditioning
    return validate(replace(other, settings=replace(other.settings, conditioning=conditioning)), logs).error


def _error_column(name: str, error: TorqueError, about: str) -> ErrorColumn:
    return ErrorColumn(name, tuple(map(float, error.relative)), error.total, about)
