"""Diagnose the timing: torque that is delayed or leads relative to the motion, at all joints or at one.

`delays` fits each delay together with other friction curves and joint elasticity, because a friction or elasticity that
is not modelled leaves residuals that look like a delay.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mindyn.foundation.findings import Finding, Kind, Severity
from mindyn.identification import delays
from mindyn.identification.diagnostics import thresholds as limit
from mindyn.identification.diagnostics.diagnostic_data import DiagnosticData
from mindyn.identification.smooth_rows import SmoothRows
from mindyn.logs.delay_scan import scan_delay


def run(data: DiagnosticData) -> list[Finding]:
    """Return findings on torque that is delayed or leads relative to the motion."""
    return [*_applied_delay(data), *_common_delay(data), *_joint_delays(data)]


def _applied_delay(data: DiagnosticData) -> Iterator[Finding]:
    """Report the delay between torque and motion that the fit corrects, if it is longer than a sample."""
    conditioning = data.estimate.settings.conditioning
    if conditioning is None:
        return
    applied = conditioning.delay_s if isinstance(conditioning.delay_s, tuple) else (conditioning.motion_delay_s,)
    for delay in dict.fromkeys(applied):
        samples = abs(delay) * data.samples.rate_hz
        if samples > 1:
            of_each = zip(data.joint_names, applied, strict=True) if len(applied) > 1 else ()
            joints = tuple(name for name, of_joint in of_each if of_joint == delay)
            way = "lags" if delay > 0 else "leads"
            whose = f" of {', '.join(joints)}" if joints else ""
            interval = "" if joints or data.smooth is None else f"±{_interval_ms(data.smooth, data):.2g} ms, "
            size = f"{1e3 * abs(delay):.3g} ms ({interval}{samples:.3g} samples)"
            message = f"the torque{whose} {way} the motion by {size}, which the fit corrects"
            remedy = (
                "Log torque and position with one clock; set delay_s = 0 in the conditioning to fit without the "
                "correction"
            )
            yield Finding(Kind.APPLIED_DELAY, Severity.INFO, message, remedy, joints, delay, "s")


def _interval_ms(smooth: SmoothRows, data: DiagnosticData) -> float:
    """Return the half-width of the 95 % interval of the common delay, in ms."""
    return 2e3 * delays.estimate_delay(smooth, data.estimate.regressor).deviation


def _common_delay(data: DiagnosticData) -> Iterator[Finding]:
    """At each delay, compare the torque with the part of it that any model could explain."""
    delay, conditioning = scan_delay(data.samples), data.estimate.settings.conditioning
    if conditioning is None or not delay.is_noticeable or abs(delay.seconds) * data.samples.rate_hz < 1:
        return
    whole = conditioning.motion_delay_s + delay.seconds
    remedy = f'Pass delay_s = {whole:.4g} (or "auto") in the settings of the conditioning'
    yield _delay_finding("all joints", (), delay.seconds, remedy, Severity.WARNING)


def _joint_delays(data: DiagnosticData) -> Iterator[Finding]:
    """Find joints whose torque is delayed by another time than that of the others."""
    smooth, n = data.smooth, len(data.joint_names)
    if smooth is None or n < 2 or data.is_poorly_excited or data.column_correction is not None:
        return
    if data.correction is not None and data.correction.kind is Kind.WRONG_TORQUE_SIGN:
        return  # a reversed torque looks like one that is half a period late
    friction = smooth.Y @ data.friction_beta
    is_asked = friction.var(axis=0) < limit.FRICTION_DOMINATED_FRACTION * smooth.tau.var(axis=0)
    least_s = max(limit.MIN_JOINT_DELAY_S, limit.MIN_DELAY_ROWS / data.samples.rate_hz)
    found = {
        joint: delays.estimate_delay(smooth, data.estimate.regressor, [joint])
        for joint in np.flatnonzero(is_asked).tolist()
    }
    for joint, delay in found.items():
        others = [other.seconds for k, other in found.items() if k != joint]
        difference = delay.seconds - (float(np.median(others)) if others else 0.0)
        if abs(difference) < max(least_s, delays.MIN_DEVIATIONS * delay.deviation) or not delay.is_significant:
            continue
        name = data.joint_names[joint]
        remedy = "Log all joints with one clock, or pass one delay_s for each joint in the settings of the conditioning"
        yield _delay_finding(f"joint {name}", (name,), difference, remedy, Severity.WARNING, delay.deviation)


def _delay_finding(
    whose: str, joints: tuple[str, ...], seconds: float, remedy: str, severity: Severity, deviation: float = 0.0
) -> Finding:
    way = "is delayed by" if seconds > 0 else "leads by"
    relative = "relative to the motion" + (", unlike that of the others" if joints else "")
    interval = f" (±{2e3 * deviation:.2g} ms)" if deviation else ""
    message = f"the torque of {whose} {way} {1e3 * abs(seconds):.3g} ms{interval} {relative}"
    return Finding(Kind.DELAYED_TORQUE, severity, message, remedy, joints, seconds, "s")
