"""`identify_elasticity`: the compliance of joints from logs with positions of motors and links."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mindyn.foundation.algebra.values import Array, ShortRepr
from mindyn.foundation.errors import Code, InputError
from mindyn.identification.elasticity.deflection_rows import (
    DeflectionRows,
    build_deflection_rows,
    link_columns,
)
from mindyn.identification.elasticity.hysteresis import dahl_states
from mindyn.identification.elasticity.joint_fit import (
    ElasticFit,
    JointColumns,
    backlash_shape,
    fit_joint,
    friction_shape,
)
from mindyn.identification.elasticity.records import Elasticity, JointElasticity, State
from mindyn.identification.estimators.estimate import Estimate
from mindyn.logs.log import Log
from mindyn.logs.samples import segment_ends
from mindyn.regression.experiment import Experiment

CURVE_POINTS: Final = 1000
"""Most points of the curve of a joint."""
MAX_INTERVAL_RATIO: Final = 10.0
"""Largest ratio of the ends of an interval whose compliance is determined."""
CERTAIN_LEVEL: Final = 0.99
"""Level of the interval that must exclude zero, so that 1 of 200 rigid joints gets a stiffness."""
MIN_LINK_ERROR: Final = 0.01
"""Least relative deviation of the torque that a link model predicts: in the study elastic-arms, backlash changes the
compliance by up to 1.7 % without a trace in the residual."""
LINK_PART: Final = 0.5
"""Part of the model error of the joint torque that is in the torque through the joint; the rest is friction."""
MIN_INDEPENDENT_FRACTION: Final = 0.2
"""Fraction of the torque's variance that acceleration and velocity leave: a variance inflation of 5."""
MAX_SCALE_ERROR: Final = 0.02
"""Largest relative difference between the slopes of motor and link positions of one joint."""
MIN_UNEXPLAINED_FRACTION: Final = 0.1
"""Fraction of the deflection's power that torques leave, above which positions are tried."""
MIN_COUPLED_FRACTION: Final = 0.5
"""Fraction of the unexplained deflection that positions of the joints explain, above which it is not a deflection."""


def identify_elasticity(estimate: Estimate, logs: Log | Sequence[Log]) -> Elasticity:
    """Estimate stiffness, damping and hysteresis of elastic joints.

    The deflection of a joint is the difference between the positions of its motor and its link. The torque through the
    joint is predicted by the link model of the estimate, or measured by a sensor in the joint. What separates the
    stiffness from rotor inertia and time offsets is assessed first; without it, no stiffness is returned.

    Parameters
    ----------
    estimate : Estimate
        Link model, identified from these or other logs.
    logs : Log or sequence of Log
        Logs with `motor_q` (`columns.motor_position`).

    Returns
    -------
    Elasticity
        Compliance, stiffness, damping and hysteresis of each joint with 95 % intervals, and whether it is determined.

    Raises
    ------
    InputError
        If a log has no motor positions, or has joints that the estimate does not have.

    Examples
    --------
    >>> elasticity = mindyn.identification.identify_elasticity(estimate, log)  # doctest: +SKIP
    >>> print(elasticity.table())  # doctest: +SKIP
    """
    listed = [logs] if isinstance(logs, Log) else list(logs)
    if not isinstance(estimate, Estimate):
        raise InputError(
            f"identify_elasticity needs an estimate, got {type(estimate).__name__}",
            hint="pass the result of mindyn.identify(robot, logs)",
            code=Code.WRONG_TYPE,
            subject="estimate",
        )
    experiment = Experiment(estimate.robot, listed)
    rows = build_deflection_rows(estimate, experiment.logs_in_memory)
    fits = [_fit_deflection(rows, k) for k in range(len(rows.inertia))]
    joints = tuple(_assess_joint(estimate, rows, k, fit) for k, fit in enumerate(fits))
    curves = tuple(_draw_curve(rows, k, joint) for k, joint in enumerate(joints))
    return Elasticity(joints, rows.cutoff_hz, len(rows.kept), experiment.sources, curves)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class DeflectionPrediction(ShortRepr):
    """Measured and predicted deflections of one log.

    Attributes
    ----------
    time : array of shape (N,)
        s.
    torque : array of shape (N, n)
        Torque through the joints, N m or N.
    measured, predicted : array of shape (N, n)
        Deflections, rad or m.
    """

    time: Array
    torque: Array
    measured: Array
    predicted: Array

    @property
    def error(self) -> Array:
        """rms of the error (n,) relative to the rms of the measured deflection around its mean."""
        size = np.maximum(self.measured.std(axis=0), 1e-300)
        return np.asarray(np.sqrt(((self.measured - self.predicted) ** 2).mean(axis=0)) / size)


def predict_deflection(elasticity: Elasticity, estimate: Estimate, log: Log) -> DeflectionPrediction:
    """Predict the deflections of a log, for example a held-out one.

    Parameters
    ----------
    elasticity : Elasticity
        Values of the joints.
    estimate : Estimate
        Link model.
    log : Log
        Log with `motor_q`.

    Returns
    -------
    DeflectionPrediction
        Deflections, with the time offset of the encoders and with the zeros of the encoders in this log.
    """
    rows = build_deflection_rows(estimate, [log])
    predicted = np.column_stack([_predict_joint(joint, rows, k) for k, joint in enumerate(elasticity.joints)])
    time, torque, measured, predicted = (a[rows.kept] for a in (rows.time, rows.torque, rows.deflection, predicted))
    return DeflectionPrediction(time, torque, measured, predicted + (measured - predicted).mean(axis=0))


def _predict_joint(joint: JointElasticity, rows: DeflectionRows, k: int) -> Array:
    """Return the deflections (N,) of a joint at all rows."""
    if not np.isfinite(joint.compliance):
        return np.full(len(rows.time), joint.offset)
    C, torque, speed = joint.compliance, rows.torque[:, k], rows.samples.qd[:, k]
    shapes = joint.backlash / 2 * backlash_shape(torque, joint.torque_range[1] - joint.torque_range[0])
    shapes += joint.friction * friction_shape(speed)
    if joint.hysteresis:
        shapes -= C * joint.hysteresis * dahl_states(torque, joint.hysteresis_width, rows.starts)
    d = C * (torque - joint.rotor_inertia * rows.samples.qdd[:, k]) + joint.time_offset_s * speed + joint.offset
    if np.isfinite(joint.damping):
        d -= C**2 * joint.damping * rows.rate[:, k]
    return np.asarray(d + rows.smooth(shapes))


@dataclass(frozen=True, slots=True, eq=False)
class _Deflection:
    """A joint, its columns and fit, or why its deflection is unusable; `values` are those of the best fit."""

    values: JointElasticity
    columns: JointColumns | None = None
    fit: ElasticFit | None = None


def _fit_deflection(rows: DeflectionRows, k: int) -> _Deflection:
    """Fit the deflection of a joint, unless its motor position does not follow the joint."""
    name, samples, kept = rows.samples.joint_names[k], rows.samples, rows.kept
    torque, owners = rows.torque[kept, k], rows.owners[kept]
    centred = rows.deflection[kept, k] - _group_means(rows.deflection[kept, k], owners)
    size, spread = float(np.sqrt((centred**2).mean())), (float(torque.min()), float(torque.max()))
    q = samples.q[kept]
    q = q - np.column_stack([_group_means(column, owners) for column in q.T])
    offset = float(rows.deflection[kept, k].mean())
    known = JointElasticity(name, "unusable", deviation=size, offset=offset, torque_range=spread)
    if not np.ptp(q[:, k]) > 0 or not size > 0 or spread[0] == spread[1]:
        reason = "it has only one encoder that moves" if np.ptp(q[:, k]) > 0 else "it never moves"
        return _Deflection(replace(known, reason=reason))
    instrument = (rows.instrument[:, k], _differentiate_segments(rows.instrument[:, k], rows))
    columns = JointColumns(
        rows.deflection[:, k],
        rows.torque[:, k],
        rows.rate[:, k],
        *(instrument if rows.has_sensor else (rows.torque[:, k], rows.rate[:, k])),
        samples.qd[:, k],
        samples.qdd[:, k],
        rows.owners,
        rows.starts,
        kept,
        rows.smooth,
        float(rows.inertia[k]) if rows.merged[k] else 0.0,
    )
    fit = fit_joint(columns)
    best = fit.best
    if reason := _find_foreign_positions(q, centred, best.residual, k):
        return _Deflection(replace(known, reason=reason))
    C = best.value("compliance")
    values = replace(
        known,
        compliance=C,
        hysteresis=abs(best.value("hysteresis")) / C if C > 0 else 0.0,
        hysteresis_width=best.width,
        backlash=2 * best.value("backlash"),
        offset=float(np.mean([best.value(term) for term in best.terms if term.startswith("offset")])),
        time_offset_s=best.value("time offset"),
        friction=best.value("friction"),
        rotor_inertia=float(best.rotor_inertia),
        residual=best.residual,
    )
    return _Deflection(values, columns, fit)


def _assess_joint(estimate: Estimate, rows: DeflectionRows, k: int, deflection: _Deflection) -> JointElasticity:
    """Return the elasticity of a joint with intervals, and whether its compliance is determined."""
    fit, columns = deflection.fit, deflection.columns
    if fit is None or columns is None:
        return deflection.values
    links = 0.0 if rows.has_sensor else _model_deviation(estimate, rows, k, fit)
    model = float(np.hypot(links, fit.shape_deviation))
    interval = fit.interval("compliance", model)
    is_sliding = estimate.robot.primary_joints[k].kind == "prismatic"
    state, reason = _assess(fit, interval, model, columns, "m/N" if is_sliding else "rad/(N m)")
    damping, ends = _significant_damping(fit, fit.best.value("compliance"))
    return replace(
        deflection.values,
        state=state,
        reason=reason,
        compliance_interval=interval,
        damping=damping,
        damping_interval=ends,
    )


def _draw_curve(rows: DeflectionRows, k: int, joint: JointElasticity) -> Array:
    """Return torque and deflection (k, 2) of a joint, without offset and time offset of its encoders."""
    kept = rows.kept[:: -(-len(rows.kept) // CURVE_POINTS)]
    d = rows.deflection[:, k] - _group_means(rows.deflection[:, k], rows.owners) + joint.offset
    return np.column_stack(
        [rows.torque[kept, k], (d - joint.offset - joint.time_offset_s * rows.samples.qd[:, k])[kept]]
    )


def _assess(
    fit: ElasticFit, interval: tuple[float, float], model: float, columns: JointColumns, unit: str
) -> tuple[State, str]:
    """Return whether the compliance is determined, and why not."""
    low, high = interval
    is_narrow = low > 0 and high < MAX_INTERVAL_RATIO * low
    explained = fit.best.value("compliance") * columns.torque_deviation
    if is_narrow and fit.interval("compliance", model, CERTAIN_LEVEL)[0] > 0 and explained > fit.best.residual:
        return "determined", ""
    part = columns.independent_fraction
    if columns.inertia > 0 and part < MIN_INDEPENDENT_FRACTION:
        return "not separable", (
            "compliance and rotor inertia are not separable: acceleration and velocity of the joint explain all but "
            f"{100 * np.sqrt(part):.2g} % of the torque through it. Load it by gravity, or move other joints faster"
        )
    if low <= 0 <= high:
        return "not visible", f"no elasticity is visible: the compliance is below {high:.2g} {unit}"
    if 0 < explained < fit.best.residual:
        return "not visible", (
            f"the torque explains {1e6 * explained:.2g} urad of the deflection, and {1e6 * fit.best.residual:.2g} urad "
            f"remain unexplained; the compliance is below {high:.2g} {unit}"
        )
    if high < 0:
        return "poorly determined", "the deflection falls with the torque, which no spring does: check signs and zeros"
    return "poorly determined", f"the interval of the compliance is wide, {low:.2g} to {high:.2g} {unit}"


def _significant_damping(fit: ElasticFit, C: float) -> tuple[float, tuple[float, float]]:
    """Return the damping and its interval; NaN if it is not significant.

    A shift of the clock by the time offset of the encoders resembles damping; the interval includes it.
    """
    if C <= 0:
        return np.nan, (np.nan, np.nan)
    low, high = fit.interval("damping")
    shift = C * abs(fit.best.value("time offset"))
    ends = (-high - shift) / C**2, (-low + shift) / C**2
    return (-fit.best.value("damping") / C**2, ends) if ends[0] > 0 else (np.nan, ends)


def _model_deviation(estimate: Estimate, rows: DeflectionRows, k: int, fit: ElasticFit) -> float:
    """Return the standard deviation of the compliance that uncertainty and errors of the link model cause."""
    Y, numbers = link_columns(estimate, rows, k)
    covariance = estimate.covariance[np.ix_(numbers, numbers)]
    known = np.isfinite(np.diag(covariance))
    gradient = -fit.best.value("compliance") * (fit.weights @ Y)[known]
    variance = float(gradient @ covariance[np.ix_(known, known)] @ gradient)
    residual = estimate.data.residuals[k]
    error = residual.rms if residual.correlation is None else residual.alike
    wrong = LINK_PART * error / residual.rms_torque if residual.rms_torque > 0 else 0.0
    relative = np.hypot(wrong, MIN_LINK_ERROR)
    return float(np.hypot(np.sqrt(max(variance, 0.0)), relative * fit.best.value("compliance")))


def _find_foreign_positions(q: Array, d: Array, residual: float, k: int) -> str:
    """Explain why a motor position cannot belong to the joint; return "" if it can.

    q  (N, n) and d (N,) without their means
    """
    slope = float(q[:, k] @ d) / max(float(q[:, k] @ q[:, k]), 1e-300)
    if abs(slope) > MAX_SCALE_ERROR:
        return f"its motor position changes by {1 + slope:.3g} times its position: check units, side and gears"
    left = d - q @ np.linalg.lstsq(q, d, rcond=None)[0]
    unexplained, power = float((left**2).mean()), float((d**2).mean())
    if residual**2 > MIN_UNEXPLAINED_FRACTION * power and unexplained < (1 - MIN_COUPLED_FRACTION) * residual**2:
        torque, positions = (100 * (1 - value / power) for value in (residual**2, unexplained))
        return (
            f"joint positions explain {positions:.3g} % of the difference of its encoders, its torque {torque:.3g} %: "
            "check gears and couplings"
        )
    return ""


def _group_means(values: Array, owners: NDArray[np.int64]) -> Array:
    """Return the mean (N,) of the values of each log at its rows."""
    numbers = np.unique(owners, return_inverse=True)[1]
    means = np.asarray(np.bincount(numbers, values) / np.bincount(numbers))
    return np.asarray(means[numbers])


def _differentiate_segments(values: Array, rows: DeflectionRows) -> Array:
    """Return the derivative (N,) of values in time, within segments."""
    rate = np.zeros(len(values))
    for start, stop in segment_ends(rows.samples.segments):
        if stop - start > 1:
            rate[start:stop] = np.gradient(values[start:stop], rows.time[start:stop])
    return rate
