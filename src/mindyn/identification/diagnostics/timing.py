"""Diagnose the timing: torque that is delayed or leads relative to the motion, at all joints or at one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from mindyn.findings import Finding, Kind, Severity
from mindyn.identification.diagnostics import thresholds as limit
from mindyn.identification.diagnostics.data import DiagnosticData
from mindyn.logs.resolving import estimate_delay

TRIED_S: Final = tuple(times * limit.MIN_JOINT_DELAY_S for times in (-3, -2, 2, 3))
REFINED_S: Final = (-0.02, -0.01, 0.01, 0.02)
"""Shifts around the best of `TRIED_S` that refine the size of a delay."""


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
    smooth, given, n = data.smooth, data.smooth_fit, len(data.joint_names)
    if smooth is None or given is None or n < 2 or data.is_poorly_excited:
        return
    friction = smooth.Y @ data.friction_beta
    is_asked = friction.var(axis=0) < limit.FRICTION_DOMINATED_FRACTION * smooth.tau.var(axis=0)

    def gain_of(joint: int, seconds: float) -> float:
        shifted = smooth.fit(smooth.delayed_torque(joint, seconds))
        return float(np.prod(given.means / shifted.means)) if shifted.are_significantly_below(given) else 0.0

    shifts = np.zeros(n)
    for joint in np.flatnonzero(is_asked).tolist():
        tried = {s: gain_of(joint, s) for s in TRIED_S}
        enough = {
            s: gain for s, gain in tried.items() if gain > (limit.MIN_DELAY_GAIN if s > 0 else limit.MIN_LEAD_GAIN)
        }
        shifts[joint] = max(enough, key=lambda s: enough[s], default=0.0)
    for joint, name in enumerate(data.joint_names):
        others = shifts[is_asked & (np.arange(n) != joint)]
        common = float(np.median(others)) if len(others) else 0.0
        if shifts[joint] and abs(shifts[joint] - common) >= limit.MIN_JOINT_DELAY_S:
            near = (shifts[joint] + step for step in (0.0, *REFINED_S))
            best = max(near, key=lambda seconds: gain_of(joint, seconds))
            remedy = (
                "Log all joints with one clock, or pass one delay_s for each joint in the settings of the conditioning"
            )
            yield _delay_finding(f"joint {name}", (name,), best - common, remedy, Severity.ERROR)


def _delay_finding(whose: str, joints: tuple[str, ...], seconds: float, remedy: str, severity: Severity) -> Finding:
    way = "is delayed by" if seconds > 0 else "leads by"
    relative = "relative to the motion" + (", unlike that of the others" if joints else "")
    message = f"the torque of {whose} {way} {1e3 * abs(seconds):.3g} ms {relative}"
    return Finding(Kind.DELAYED_TORQUE, severity, message, remedy, joints, seconds, "s")
