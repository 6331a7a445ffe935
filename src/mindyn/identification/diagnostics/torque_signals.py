"""Diagnose the torque: constant, saturated, unrelated to the motion, reversed, unexplained, scaled, drifting friction.

A drift and a gain are additional columns of the fit,

    drift    t_b F_j beta     t_b the time of block b, -1/2 to 1/2 through the logs; F_j columns of joint j's friction
    gain     Y_j beta         in the rows of joint j alone

and their coefficients are relative to the friction, or to the torque. The standard deviation of a coefficient comes
from a jackknife over blocks, because the residuals of an arm are correlated over whole motions. Only ratios of gains
are identifiable, because a common factor on all torques is equivalent to other masses.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mindyn.foundation.algebra.values import Array
from mindyn.foundation.findings import Finding, Kind, Severity, warning
from mindyn.identification.diagnostics import thresholds as limit
from mindyn.identification.diagnostics.diagnostic_data import DiagnosticData
from mindyn.identification.diagnostics.residual_patterns import REMEDIES
from mindyn.identification.prediction.noise_floor_error import spectrum
from mindyn.identification.smooth_rows import SMOOTH_CUTOFF_HZ
from mindyn.identification.uncertainty.added_columns import MIN_BLOCKS, fit_added_columns, friction_drifts
from mindyn.logs.constant_torques import is_constant
from mindyn.logs.samples import Samples

UNKNOWN: Final = (
    "Check the sign of the torque, the order of the columns, units, side and gears, that the log is of this robot, and "
    "that its payload and springs are given"
)
COMPARED_ROWS: Final = 2000
ALIKE: Final = 0.7
"""Another joint is also named if its gain explains at least this fraction of the sum of squares that the best gain
explains.
"""


def run(data: DiagnosticData) -> list[Finding]:
    """Return findings on the torque of the logs."""
    checks = (
        _find_constant,
        _find_unsigned,
        _find_saturation,
        _find_unrelated,
        _find_wrong_signs,
        _find_unexplained,
        _find_scaled,
        _find_friction_drift,
    )
    return [finding for check in checks for finding in check(data)]


def _has_values(data: DiagnosticData) -> Array:
    return np.concatenate([log.tau for log in data.logs])


def _find_constant(data: DiagnosticData) -> Iterator[Finding]:
    constant = is_constant(_has_values(data)) & ~np.isin(data.logs[0].joint_names, data.rows.regressor.unforced)
    if constant.any():
        names = tuple(name for name, is_dead in zip(data.logs[0].joint_names, constant, strict=True) if is_dead)
        message = f"the torque of {', '.join(names)} never changes"
        remedy = "Record with torque sensors that work, or select other columns"
        yield Finding(Kind.CONSTANT_TORQUE, Severity.ERROR, message, remedy, names)


def _find_unsigned(data: DiagnosticData) -> Iterator[Finding]:
    """Find torques that stop at zero although the joint moves in both directions."""
    tau, qd = _has_values(data), data.samples.qd
    moves_both_ways = (qd.min(axis=0) < 0) & (qd.max(axis=0) > 0)
    unsigned = tuple(
        name
        for name, column, both in zip(data.logs[0].joint_names, tau.T, moves_both_ways, strict=True)
        if both and np.ptp(column) > 0 and _is_unsigned(column)
    )
    if unsigned:
        message = f"the torque of {', '.join(unsigned)} never changes its sign, although the joint moves both ways"
        remedy = "Log the signed torque or current; its magnitude alone does not identify a robot"
        yield warning(Kind.WRONG_TORQUE_SIGN, message, remedy, unsigned)


def _find_saturation(data: DiagnosticData) -> Iterator[Finding]:
    columns = zip(data.logs[0].joint_names, _has_values(data).T, strict=True)
    fractions = {name: 0.0 if _is_unsigned(tau) else max(_plateau(tau), _plateau(-tau)) for name, tau in columns}
    sizes = {name: x for name, x in fractions.items() if x > limit.MAX_SATURATED_FRACTION}
    if sizes:
        where = ", ".join(f"{name} (one value in {100 * x:.2g} % of the rows)" for name, x in sizes.items())
        message = f"the torque saturates at {where}"
        remedy = "Record a slower motion, within the limits of drives and sensors"
        yield Finding(
            Kind.SATURATED_TORQUE, Severity.ERROR, message, remedy, tuple(sizes), max(sizes.values()), "of the rows"
        )


def _is_unsigned(tau: Array) -> bool:
    """Return whether a torque stops at zero on one side, like the magnitude of a current; zero is not a physical
    limit.
    """
    return bool(tau.min() == 0 or tau.max() == 0)


def _plateau(x: Array) -> float:
    """Return the fraction of rows at the largest value; 0 if that value is a single peak or a rounding step."""
    values, counts = np.unique(x, return_counts=True)
    if len(values) < 2 or counts[-1] <= 2:
        return 0.0
    edges = np.flatnonzero(np.diff(np.concatenate([[0], (x == values[-1]).astype(np.int8), [0]])))
    is_rounded = len(values) < limit.MAX_DISTINCT_FRACTION * len(x)
    if (edges[1::2] - edges[::2]).max() <= 2:
        return 0.0
    if is_rounded and counts[-1] < limit.MIN_SATURATION_RATIO * counts[-2]:
        return 0.0
    return float(counts[-1] / len(x))


def _find_unrelated(data: DiagnosticData) -> Iterator[Finding]:
    smooth = data.smooth
    if smooth is None:
        return
    left = (smooth.residuals**2).sum(axis=0) / smooth.degrees_of_freedom
    fractions = left / np.maximum(smooth.tau.var(axis=0), 1e-300)
    if (fractions > limit.UNRELATED_FRACTION).all():
        remedy = "Check the columns, and that motion and torque come from one recording of this robot"
        value = float(fractions.min())
        message = "the torque does not follow the motion"
        yield Finding(Kind.UNRELATED_TORQUE, Severity.ERROR, message, remedy, value=value, unit="unexplained")


def _find_wrong_signs(data: DiagnosticData) -> Iterator[Finding]:
    """Find joints that friction drives, or whose inertia is negative while friction does not confirm the sign of the
    torque.

    The robot file (`robot_file`) and fits of corrected columns (`wrong_columns`) determine the sign with more
    certainty, so that their findings have priority.
    """
    samples, estimate = data.samples, data.estimate
    enough = len(samples) > limit.MIN_ROWS_PER_PARAMETER * len(estimate.beta)
    if data.correction is not None or not enough or data.is_poorly_excited or data.column_correction is not None:
        return
    rows = np.arange(0, len(samples), 1 + len(samples) // COMPARED_ROWS)
    thinned = replace(samples.take(rows), usable=None)
    delivered = _friction_power(data, thinned)
    is_driven = delivered > limit.SIGN_FRACTION
    is_against = is_driven | (_has_negative_inertia(data, thinned) & (delivered > -limit.SIGN_FRACTION))
    for joint, name in enumerate(data.joint_names):
        if is_against[joint]:
            why = "friction drives it instead of braking it" if is_driven[joint] else "its inertia is negative"
            message = f"the torque of joint {name} may have the wrong sign, or belong to another joint: {why}"
            remedy = "Reverse the sign of its torque column, or correct the order of the columns"
            yield warning(Kind.WRONG_TORQUE_SIGN, message, remedy, (name,), -1.0)


def _friction_power(data: DiagnosticData, samples: Samples) -> Array:
    """Return the power (n,) that friction delivers to each joint, relative to the power of its torque."""
    power = np.abs(samples.tau * samples.qd).sum(axis=0)
    delivered = -(data.predict(data.friction_beta, samples) * samples.qd).sum(axis=0)
    return np.asarray(np.where(power > 0, delivered / np.where(power > 0, power, 1.0), 0.0))


def _has_negative_inertia(data: DiagnosticData, samples: Samples) -> NDArray[np.bool_]:
    """Return for each joint (n,) whether M_jj is negative at every sample and causes a noticeable torque."""
    beta, zeros = data.free_beta, np.zeros_like(samples.q)
    at_rest = data.predict(beta, replace(samples, qdd=zeros))
    flags = []
    for j in range(samples.q.shape[1]):
        unit = zeros + np.eye(samples.q.shape[1])[j]
        M_jj = (data.predict(beta, replace(samples, qdd=unit)) - at_rest)[:, j]
        torque = float(np.linalg.norm(M_jj * samples.qdd[:, j]))
        flags.append(bool(M_jj.max() < 0) and torque > limit.SIGN_FRACTION * np.linalg.norm(samples.tau[:, j]))
    return np.array(flags)


def _find_unexplained(data: DiagnosticData) -> Iterator[Finding]:
    """Compare the residuals with the torque; only the part of the residuals counts that is correlated from row to row,
    unlike noise.
    """
    residuals, samples = data.residuals, data.samples
    same = samples.segments[1:] == samples.segments[:-1]
    lasting = np.maximum(0.0, (residuals[1:] * residuals[:-1])[same].sum(axis=0) / max(1, same.sum()))
    power = (samples.tau**2).mean(axis=0)
    is_large = (power > 0) & (lasting > limit.SENSOR_FRACTION**2 * power.max())
    fractions = np.sqrt(np.where(is_large, lasting / np.where(is_large, power, 1.0), 0.0))
    pairs = zip(samples.joint_names, fractions.tolist(), strict=True)
    joints = {name: x for name, x in pairs if x > limit.UNEXPLAINED_FRACTION}
    if fast := _find_fast_residual(data, lasting, [name in joints for name in samples.joint_names]):
        yield fast
        joints = {name: x for name, x in joints.items() if name not in fast.joints}
    if joints:
        where = ", ".join(f"{name} ({100 * x:.0f} %)" for name, x in joints.items())
        message = f"a large part of the torque of the training rows is unexplained at {where}"
        value = max(joints.values())
        yield warning(Kind.UNEXPLAINED_TORQUE, message, UNKNOWN, tuple(joints), value, "of the torque")


def _find_fast_residual(data: DiagnosticData, lasting: Array, asked: Sequence[bool]) -> Finding | None:
    """Find joints whose lasting residual (n,) lies mostly above the frequencies of smooth rows."""
    if data.smooth is None:
        return None
    slow = (data.smooth.residuals**2).mean(axis=0) / np.maximum(lasting, 1e-300)
    joints = np.flatnonzero(np.array(asked) & (slow < 0.5))
    frequency, power = spectrum(data.residuals, data.samples.segments, data.samples.rate_hz)
    fast = frequency > SMOOTH_CUTOFF_HZ
    if not len(joints) or not fast.any():
        return None
    peaks = frequency[fast][power[fast].argmax(axis=0)]
    names = tuple(data.samples.joint_names[joint] for joint in joints)
    where = ", ".join(f"{name} (most at {peaks[joint]:.3g} Hz)" for name, joint in zip(names, joints, strict=True))
    message = f"most of the unexplained torque lies above the frequencies of the motion: {where}"
    share = float(1 - slow[joints].max())
    return warning(Kind.FAST_RESIDUAL, message, REMEDIES["vibration"], names, share, "of the residual's power")


def _find_friction_drift(data: DiagnosticData) -> Iterator[Finding]:
    if data.is_poorly_excited:
        return
    joints = data.joint_names
    *each, whole = friction_drifts(data.estimate, data.blocks)
    if whole is None or not whole.exceeds(*limit.MIN_DRIFT):
        return
    drifting = {
        name: coefficient.value
        for name, coefficient in zip(joints, each, strict=True)
        if coefficient is not None and coefficient.exceeds(limit.MIN_DRIFT[0], limit.SIGNIFICANT)
    }
    where = ", ".join(f"{name} {100 * value:+.0f} %" for name, value in drifting.items())
    way, why = ("falls", ", as when drives warm up") if whole.value < 0 else ("rises", "")
    size = f"{100 * abs(whole.value):.0f} %{f' ({where})' if where else ''}"
    message = f"friction {way} by {size} from the beginning of the logs to their end{why}: its values are means"
    remedy = "Move the arm until its friction stays constant, then record"
    yield warning(Kind.FRICTION_DRIFT, message, remedy, tuple(drifting), whole.value, "of the friction")


def _find_scaled(data: DiagnosticData) -> Iterator[Finding]:
    blocks, beta = data.independent_blocks, data.estimate.beta
    too_few = len(blocks) < MIN_BLOCKS or len(data.joint_names) < 2
    if too_few or data.is_poorly_excited:
        return
    ends = np.cumsum([len(factor) for factor in blocks[0].information.factors])[:-1]

    def columns(_: int, R: Array) -> Array:
        gains = np.zeros((len(R), len(ends) + 1))
        for joint, rows in enumerate(np.split(np.arange(len(R)), ends)):
            gains[rows, joint] = R[rows] @ beta
        return gains

    coefficients = zip(data.joint_names, fit_added_columns(data.estimate, blocks, columns), strict=True)
    sure = {
        name: coefficient
        for name, coefficient in coefficients
        if coefficient is not None and coefficient.exceeds(*limit.MIN_GAIN_ERROR)
    }
    if not sure:
        return
    first, *others = sorted(sure, key=lambda name: -sure[name].explained)
    if sure[first].value < -1:  # a factor of 1 + value
        message = f"the torque of joint {first} has the opposite sign of the torque that the other joints imply"
        remedy = "Reverse the sign of its torque column, or correct the order of the columns"
        yield warning(Kind.WRONG_TORQUE_SIGN, message, remedy, (first,), 1 + sure[first].value)
        return
    alike = [name for name in others if sure[name].explained > ALIKE * sure[first].explained and sure[name].value > -1]
    sizes = [
        f"{100 * abs(x):.0f} % too {'large' if x > 0 else 'small'}" for x in (sure[n].value for n in (first, *alike))
    ]
    rest = "".join(f", or that of joint {name} {size}" for name, size in zip(alike, sizes[1:], strict=True))
    message = f"the torque of joint {first} is {sizes[0]} relative to the other joints{rest}"
    remedy = "Check its torque constant, gear ratio or sensor gain"
    yield warning(Kind.SCALED_TORQUE, message, remedy, (first, *alike), 1 + sure[first].value)
