"""Diagnose the timing: torque that is delayed or leads relative to the motion, at all joints or at one.

A friction curve of another shape and an elastic joint leave residuals that a shift of the torque explains too. The
delay of one joint is therefore reported only if it explains more than these alternatives do together, on blocks of the
log that were not fitted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np

from mindyn.algebra.values import Array
from mindyn.findings import Finding, Kind, Severity
from mindyn.identification.diagnostics import thresholds as limit
from mindyn.identification.diagnostics.data import DiagnosticData, SmoothRows
from mindyn.logs.resolving import estimate_delay

TRIED_S: Final = tuple(times * limit.MIN_JOINT_DELAY_S for times in (-3, -2, 2, 3))
REFINED_S: Final = (-0.02, -0.01, 0.01, 0.02)
"""Shifts around the best of `TRIED_S` that refine the size of a delay."""
FRICTION_WIDTHS: Final = (0.02, 0.1, 0.3)
"""Widths, relative to the rms speed, of transitions around zero velocity that friction may have instead of a delay."""


def run(data: DiagnosticData) -> list[Finding]:
    """Return findings about torque that is delayed or leads relative to the motion."""
    return [*_applied_delay(data), *_common_delay(data), *_joint_delays(data)]


def _applied_delay(data: DiagnosticData) -> Iterator[Finding]:
    """Report the delay between torque and motion that the fit compensates for, if it is longer than a sample."""
    conditioning = data.estimate.conditioning
    if conditioning is None:
        return
    delays = conditioning.delay_s if isinstance(conditioning.delay_s, tuple) else (conditioning.motion_delay_s,)
    for delay in dict.fromkeys(delays):
        samples = abs(delay) * data.samples.rate_hz * conditioning.decimation
        if samples > 1:
            of_each = zip(data.joint_names, delays, strict=True) if len(delays) > 1 else ()
            joints = tuple(name for name, of_joint in of_each if of_joint == delay)
            way = "lags" if delay > 0 else "leads"
            whose = f" of {', '.join(joints)}" if joints else ""
            size = f"{1e3 * abs(delay):.3g} ms ({samples:.3g} samples)"
            message = f"the torque{whose} {way} the motion by {size}, which the fit corrects"
            remedy = (
                "Log torque and position with one clock; set delay_s = 0 in the conditioning to fit without the "
                "correction"
            )
            yield Finding(Kind.APPLIED_DELAY, Severity.INFO, message, remedy, joints, delay, "s")


def _common_delay(data: DiagnosticData) -> Iterator[Finding]:
    """Compare the torque with the part that any model could explain, at each delay."""
    delay, conditioning = estimate_delay(data.samples), data.estimate.conditioning
    if conditioning is None or not delay.is_noticeable or abs(delay.seconds) * data.samples.rate_hz < 1:
        return
    whole = conditioning.motion_delay_s + delay.seconds
    remedy = f'Pass delay_s = {whole:.4g} (or "auto") in the settings of the conditioning'
    yield _delay_finding("all joints", (), delay.seconds, remedy, Severity.WARNING)


def _joint_delays(data: DiagnosticData) -> Iterator[Finding]:
    """Find joints whose torque fits much better when shifted by another time than that of the others."""
    smooth, n = data.smooth, len(data.joint_names)
    if smooth is None or n < 2 or data.is_poorly_excited:
        return
    friction = smooth.Y @ data.friction_beta
    is_asked = friction.var(axis=0) < limit.FRICTION_DOMINATED_FRACTION * smooth.tau.var(axis=0)
    least_s = max(limit.MIN_JOINT_DELAY_S, limit.MIN_DELAY_ROWS / data.samples.rate_hz)
    compared = {joint: _DelayComparison(data, smooth, joint) for joint in np.flatnonzero(is_asked).tolist()}
    shifts = np.zeros(n)
    for joint, comparison in compared.items():
        tried = {s: comparison.gain(s) for s in TRIED_S if abs(s) >= least_s}
        enough = {
            s: gain for s, gain in tried.items() if gain > (limit.MIN_DELAY_GAIN if s > 0 else limit.MIN_LEAD_GAIN)
        }
        shifts[joint] = max(enough, key=lambda s: enough[s], default=0.0)
    for joint, comparison in compared.items():
        others = shifts[is_asked & (np.arange(n) != joint)]
        common = float(np.median(others)) if len(others) else 0.0
        if shifts[joint] and abs(shifts[joint] - common) >= limit.MIN_JOINT_DELAY_S:
            near = (shifts[joint] + step for step in (0.0, *REFINED_S))
            best = max(near, key=comparison.gain)
            name = data.joint_names[joint]
            remedy = (
                "Log all joints with one clock, or pass one delay_s for each joint in the settings of the conditioning"
            )
            yield _delay_finding(f"joint {name}", (name,), best - common, remedy, Severity.WARNING)


class _DelayComparison:
    """Compare delays of one joint's torque with the alternatives: more friction columns and an elastic joint.

    The alternatives are columns of every fit, with and without a delay, so that a delay gains only by what they leave.
    """

    def __init__(self, data: DiagnosticData, smooth: SmoothRows, joint: int) -> None:
        self.joint = joint
        columns = _alternative_columns(data, smooth, joint)
        Y = np.zeros((*smooth.Y.shape[:2], smooth.Y.shape[2] + columns.shape[1]))
        Y[:, :, : smooth.Y.shape[2]] = smooth.Y
        Y[:, joint, smooth.Y.shape[2] :] = columns
        self.rows = replace(smooth, Y=Y)
        self.given = self.rows.fit_held_out()

    def gain(self, seconds: float) -> float:
        """Return how many times the product of mean squared residuals falls; 0 if the fall is not significant."""
        shifted = self.rows.fit_held_out(self.rows.delayed_torque(self.joint, seconds))
        if not shifted.are_significantly_below(self.given):
            return 0.0
        return float(np.prod(self.given.means / np.maximum(shifted.means, 1e-300)))


def _alternative_columns(data: DiagnosticData, smooth: SmoothRows, joint: int) -> Array:
    """Return columns (N, c) of friction curves of other shapes and of an elastic joint.

    The deflection of an elastic joint is proportional to its torque tau, and what the model misses to its second
    derivative; over a sine of the motion that is a combination of tau and of the accelerations of all joints, which
    have other amplitudes than the rigid body allows.
    """
    _, qd, qdd, _ = smooth.motion
    speed = qd[:, joint]
    rms = max(float(np.sqrt((speed**2).mean())), 1e-300)
    load = np.abs(smooth.Y[:, joint] @ np.where(data.estimate.regressor.rigid, data.free_beta, 0.0))
    direction = np.tanh(speed / (0.05 * rms))
    shapes = [np.tanh(speed / (width * rms)) for width in FRICTION_WIDTHS]
    shapes += [speed, speed * np.abs(speed), speed**3, (load - load.mean()) * direction]
    columns = np.column_stack([*shapes, qdd])
    return np.asarray(columns / np.maximum(np.linalg.norm(columns, axis=0), 1e-300))


def _delay_finding(whose: str, joints: tuple[str, ...], seconds: float, remedy: str, severity: Severity) -> Finding:
    way = "is delayed by" if seconds > 0 else "leads by"
    relative = "relative to the motion" + (", unlike that of the others" if joints else "")
    message = f"the torque of {whose} {way} {1e3 * abs(seconds):.3g} ms {relative}"
    return Finding(Kind.DELAYED_TORQUE, severity, message, remedy, joints, seconds, "s")
