"""`identify_elasticity`: the compliance of joints from logs with positions of motors and links."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, InputError
from mindyn.identification.elasticity.deflection_rows import DeflectionRows, build_deflection_rows, link_columns
from mindyn.identification.elasticity.hysteresis import dahl_states
from mindyn.identification.elasticity.joint_fit import (
    SMOOTH_SPEED,
    SMOOTH_TORQUE,
    JointColumns,
    JointFit,
    fit_joint,
)
from mindyn.identification.elasticity.records import Elasticity, JointElasticity, State
from mindyn.identification.estimators.estimate import Estimate
from mindyn.logs.log import Log
from mindyn.regression.experiment import Experiment
from mindyn.regression.row_blocks import segment_ends

CURVE_POINTS: Final = 1000
"""Most points of the curve of a joint."""
MAX_INTERVAL_RATIO: Final = 6.0
"""Largest ratio of the ends of an interval whose compliance is determined."""
MIN_SIGNIFICANCE: Final = 4.0
"""Least compliance relative to its standard deviation."""
MAX_SCALE_ERROR: Final = 0.02
"""Largest relative difference between the slopes of motor and link positions of one joint."""
MIN_COUPLED_FRACTION: Final = 0.5
"""Fraction of the unexplained deflection that positions of the joints explain, above which it is no deflection."""


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
    joints, curves = zip(*(_identify_joint(estimate, rows, k) for k in range(len(rows.inertia))), strict=True)
    return Elasticity(joints, rows.cutoff_hz, len(rows), experiment.sources, curves)


@dataclass(frozen=True, slots=True, eq=False)
class DeflectionPrediction:
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
        Deflections, with the time offset of the encoders; their zeros are those of the logs of the elasticity.
    """
    rows = build_deflection_rows(estimate, [log])
    starts = np.array([start for start, _ in segment_ends(rows.samples.segments)], dtype=np.intp)
    predicted = np.zeros_like(rows.deflection)
    for k, joint in enumerate(elasticity.joints):
        predicted[:, k] = _predict_joint(joint, rows, k, starts)
    return DeflectionPrediction(rows.time, rows.torque, rows.deflection, predicted)


def _predict_joint(joint: JointElasticity, rows: DeflectionRows, k: int, starts: Array) -> Array:
    """Return the deflections (N,) of a joint at rows."""
    if not np.isfinite(joint.compliance):
        return np.full(len(rows), joint.offset)
    C, torque, speed = joint.compliance, rows.torque[:, k], rows.samples.qd[:, k]
    spread = joint.torque_range[1] - joint.torque_range[0]
    d = C * (torque - joint.rotor_inertia * rows.samples.qdd[:, k]) + joint.time_offset_s * speed + joint.offset
    d += joint.backlash / 2 * np.tanh(torque / max(SMOOTH_TORQUE * spread, 1e-300))
    d += joint.friction * np.tanh(speed / SMOOTH_SPEED)
    if np.isfinite(joint.damping):
        d -= C**2 * joint.damping * rows.rate[:, k]
    if joint.hysteresis:
        d -= C * joint.hysteresis * dahl_states(torque, joint.hysteresis_width, starts)
    return np.asarray(d)


def _identify_joint(estimate: Estimate, rows: DeflectionRows, k: int) -> tuple[JointElasticity, Array]:
    """Return the elasticity of a joint, and its curve of torque and deflection."""
    name, samples = rows.samples.joint_names[k], rows.samples
    starts = np.array([start for start, _ in segment_ends(samples.segments)], dtype=np.intp)
    d, torque = rows.deflection[:, k], rows.torque[:, k]
    centred = d - _group_means(d, rows.owners)
    size, spread = float(np.sqrt((centred**2).mean())), (float(torque.min()), float(torque.max()))
    q = samples.q - np.column_stack([_group_means(column, rows.owners) for column in samples.q.T])
    taken = slice(None, None, -(-len(d) // CURVE_POINTS))
    if not np.ptp(samples.q[:, k]) > 0 or not size > 0 or spread[0] == spread[1]:
        reason = "its deflection or the torque through it never changes"
        return JointElasticity(name, "unusable", reason, deviation=size), np.column_stack([torque, centred])[taken]
    columns = JointColumns(
        d,
        torque,
        rows.rate[:, k],
        rows.instrument[:, k] if rows.has_sensor else torque,
        _derivative(rows.instrument[:, k], rows) if rows.has_sensor else rows.rate[:, k],
        samples.qd[:, k],
        samples.qdd[:, k],
        rows.owners,
        starts,
        float(rows.inertia[k]) if rows.merged[k] else 0.0,
    )
    fit = fit_joint(columns)
    model = 0.0 if rows.has_sensor else _model_deviation(estimate, rows, k, fit)
    interval = fit.interval("compliance", model)
    best = fit.best
    C = best.value("compliance")
    offsets = [best.value(term) for term in best.terms if term.startswith("offset")]
    shift = samples.qd[:, k] * best.value("time offset")
    curve = np.column_stack([torque, centred - shift + shift.mean()])[taken]
    if reason := _find_foreign_positions(q, centred, best.residual, k):
        return JointElasticity(name, "unusable", reason, deviation=size, offset=float(np.mean(offsets)), torque_range=spread), curve
    state, reason = _assess(fit, interval, model, columns)
    damping, ends = _damping(fit, C)
    return JointElasticity(
        name,
        state,
        reason,
        C,
        interval,
        damping,
        ends,
        hysteresis=-best.value("hysteresis") / C if C > 0 else 0.0,
        hysteresis_width=best.width,
        backlash=2 * best.value("backlash"),
        offset=float(np.mean(offsets)),
        time_offset_s=best.value("time offset"),
        friction=best.value("friction"),
        rotor_inertia=best.rotor,
        deviation=size,
        residual=best.residual,
        torque_range=spread,
    ), curve


def _assess(
    fit: JointFit, interval: tuple[float, float], model: float, columns: JointColumns
) -> tuple[State, str]:
    """Return whether the compliance is determined, and why not."""
    low, high = interval
    deviation = np.hypot(fit.best.deviation("compliance"), model)
    is_narrow = low > 0 and high < MAX_INTERVAL_RATIO * low
    if is_narrow and fit.best.value("compliance") > MIN_SIGNIFICANCE * deviation:
        return "determined", ""
    if columns.inertia > 0:
        without = [f for f in fit.plausible if f.rotor == 0] or [min(fit.plausible, key=lambda f: f.rotor)]
        ends = fit.interval("compliance", model, without)
        if ends[1] - ends[0] < 0.5 * (high - low):
            part = 100 * np.sqrt(_independent_fraction(columns))
            return "not separable", (
                f"compliance and rotor inertia cannot be told apart: only {part:.2g} % of the torque through the joint "
                "is independent of its acceleration. Load the joint by gravity, or move other joints faster"
            )
    if low <= 0 <= high:
        return "rigid", f"no elasticity is visible: the compliance is below {high:.2g} rad/(N m)"
    if high < 0:
        return "poorly determined", "the deflection falls with the torque, which no spring does: check signs and zeros"
    return "poorly determined", f"the interval of the compliance is wide, {low:.2g} to {high:.2g} rad/(N m)"


def _independent_fraction(c: JointColumns) -> float:
    """Return the fraction of the torque's variance that acceleration and velocity do not explain."""
    X = np.column_stack([c.qdd, c.qd, *((c.owners == owner).astype(float) for owner in np.unique(c.owners))])
    left = c.torque - X @ np.linalg.lstsq(X, c.torque, rcond=None)[0]
    centred = c.torque - _group_means(c.torque, c.owners)
    return float((left**2).sum() / max((centred**2).sum(), 1e-300))


def _damping(fit: JointFit, C: float) -> tuple[float, tuple[float, float]]:
    """Return the damping and its interval; NaN if it is not significant.

    A shift of the clock by the time offset of the encoders resembles damping; the interval includes it.
    """
    fits = [entry for entry in fit.plausible if "damping" in entry.terms]
    if not fits or C <= 0:
        return np.nan, (np.nan, np.nan)
    least = min(fits, key=lambda entry: entry.score)
    low, high = fit.interval("damping", 0.0, fits)
    shift = C * abs(fit.best.value("time offset"))
    ends = (-high - shift) / C**2, (-low + shift) / C**2
    return (-least.value("damping") / C**2, ends) if ends[0] > 0 else (np.nan, ends)


def _model_deviation(estimate: Estimate, rows: DeflectionRows, k: int, fit: JointFit) -> float:
    """Return the standard deviation of the compliance due to that of the link model."""
    Y, numbers = link_columns(estimate, rows, k)
    covariance = estimate.covariance[np.ix_(numbers, numbers)]
    known = np.isfinite(np.diag(covariance))
    gradient = -fit.best.value("compliance") * (fit.weights @ Y)[known]
    return float(np.sqrt(max(gradient @ covariance[np.ix_(known, known)] @ gradient, 0.0)))


def _find_foreign_positions(q: Array, d: Array, residual: float, k: int) -> str:
    """Return why the motor position is not that of the joint, or an empty text.

    q  (N, n) and d (N,) without their means
    """
    slope = float(q[:, k] @ d / max(q[:, k] @ q[:, k], 1e-300))
    if abs(slope) > MAX_SCALE_ERROR:
        return f"its motor position changes by {1 + slope:.3g} times its position: check units, side and gears"
    left = d - q @ np.linalg.lstsq(q, d, rcond=None)[0]
    unexplained = float((left**2).mean())
    if residual**2 > 0.1 * float((d**2).mean()) and unexplained < (1 - MIN_COUPLED_FRACTION) * residual**2:
        part = 100 * (1 - unexplained / float((d**2).mean()))
        return (
            f"positions of the joints explain {part:.3g} % of the difference of its encoders, the torque less: the "
            "encoders have different scales, or the motor moves other joints too"
        )
    return ""


def _group_means(values: Array, owners: Array) -> Array:
    """Return the mean (N,) of the values of each log at its rows."""
    numbers = np.unique(owners, return_inverse=True)[1]
    return np.asarray((np.bincount(numbers, values) / np.bincount(numbers))[numbers])


def _derivative(values: Array, rows: DeflectionRows) -> Array:
    """Return the derivative (N,) of values in time, within segments."""
    rate = np.zeros(len(values))
    for start, stop in segment_ends(rows.samples.segments):
        if stop - start > 1:
            rate[start:stop] = np.gradient(values[start:stop], rows.time[start:stop])
    return rate
