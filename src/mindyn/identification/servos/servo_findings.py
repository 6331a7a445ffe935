"""Findings about a fit of position servos: what the logs leave open, and what was left out of the fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mindyn.foundation.algebra.values import Array
from mindyn.foundation.findings import Finding, Kind, Severity, info, warning
from mindyn.identification.servos.command_delay import DelayFit
from mindyn.identification.servos.contact_rows import Table
from mindyn.identification.servos.linear_start import typical_values
from mindyn.identification.servos.servo_fits import ServoFits
from mindyn.identification.servos.slipped_rows import Slip
from mindyn.logs.log import Log

SLOW_HALF_WIDTH: Final = 0.6
"""Half width of the interval of log damping above which a slow motion is stated: a factor of 1.8."""
COUPLED_PART: Final = 0.5
"""Rms torque by the motion of other joints, relative to friction, above which friction and armature are uncertain: that
torque is known from smoothed positions only. It is at most 0.08 on an SO-101, and above 5 on an arm of 20 kg without
gears, whose friction is then several times too large."""


def find_about_servos(
    names: Sequence[str], fits: ServoFits, low: Array, still: NDArray[np.bool_], standing: NDArray[np.bool_]
) -> list[Finding]:
    """Return findings about the values of all joints and about the joints that did not move.

    low              (n, 4) lower ends of the intervals; NaN for values that the logs leave open
    still, standing  (n,) joints whose target does not move, and joints that do not follow it
    """
    return [
        *_find_scales(names, fits),
        *_find_still_joints(names, still),
        *_find_standing_joints(names, standing),
        *_find_contradicted_gains(names, fits),
        *_find_applied_delay(fits.delay),
        *_find_open_values(names, fits, low),
        *_find_torque_limits(names, fits),
        *_find_other_frictions(names, fits),
        *_find_coupled_joints(names, fits),
    ]


def _find_scales(names: Sequence[str], fits: ServoFits) -> list[Finding]:
    free = tuple(name for name, has in zip(names, fits.has_scale, strict=True) if not has)
    if not free:
        return []
    gain = float(fits.values[names.index(free[0]), 0])
    origin = "the median of the other joints" if fits.has_scale.any() else "a usual value"
    message = (
        f"the logs do not determine the scale of {', '.join(free)}: only ratios to kp are known; kp = {gain:.3g} is "
        f"assumed, {origin}. The simulated motion does not depend on it"
    )
    remedy = "For torques, give kp of these joints, mount the robot so that gravity loads them, or add a weighed load"
    return [Finding(Kind.FREE_SCALE, info(Kind.FREE_SCALE, "").severity, message, remedy, free)]


def _find_applied_delay(delay: DelayFit | None) -> list[Finding]:
    if delay is None or not delay.is_applied:
        return []
    d, half = 1e3 * delay.delay_s, 1e3 * delay.half_width_s
    message = (
        f"targets act {d:.1f} ms after their stamps (±{half:.1f} ms), at all joints: the delay is applied. Friction "
        "and damping were fitted with it"
    )
    return [replace(info(Kind.APPLIED_DELAY, message), value=delay.delay_s, unit="s")]


def find_left_out_contacts(names: Sequence[str], free: NDArray[np.bool_], table: Table | None) -> list[Finding]:
    """Return a finding about rows that were left out because the tip or a joint touches something.

    free  (N, n) rows without contact
    """
    if free.all():
        return []
    parts = [f"{name}: {100 * part:.2g} %" for name, part in zip(names, 1 - free.mean(axis=0), strict=True) if part > 0]
    where = "hard stops" if table is None else f"{table.tip} below {1e3 * table.height_m:.0f} mm, or hard stops"
    return [info(Kind.CONTACT, f"rows in contact are left out of fit and score ({where})", *parts)]


def find_left_out_slips(slips: Sequence[Slip], logs: Sequence[Log]) -> list[Finding]:
    """Return a finding about parts of logs that were left out because all joints lag."""
    if not slips:
        return []
    cases = ", ".join(
        f"{logs[s.log].name}: {1e3 * s.delay_s:.0f} ms from {s.begin_s - logs[s.log].time[0]:.0f} to "
        f"{s.end_s - logs[s.log].time[0]:.0f} s"
        for s in slips
    )
    message = (
        f"all joints lag more in a part of a log than elsewhere ({cases}): rows were lost, or the servos could not "
        "follow so fast a motion. The part is left out of the fit"
    )
    remedy = "Compare the stamps of targets and positions there, or record slower motion"
    return [Finding(Kind.STAMPS, Severity.WARNING, message, remedy)]


def _find_still_joints(names: Sequence[str], still: NDArray[np.bool_]) -> list[Finding]:
    joints = tuple(name for name, stands in zip(names, still, strict=True) if stands)
    if not joints:
        return []
    message = f"the targets of {', '.join(joints)} do not move: their values are those of a usual servo"
    return [warning(Kind.STILL_JOINT, message, "Record a motion of these joints, or lock them (--lock)", joints)]


def _find_standing_joints(names: Sequence[str], standing: NDArray[np.bool_]) -> list[Finding]:
    joints = tuple(name for name, stays in zip(names, standing, strict=True) if stays)
    if not joints:
        return []
    causes = "it is locked, its servo is off, or friction holds it"
    message = f"{', '.join(joints)} stays where it is while its target moves: {causes}"
    return [warning(Kind.STILL_JOINT, message, "Free the joint, or lock it for mindyn too (--lock)", joints)]


def _find_contradicted_gains(names: Sequence[str], fits: ServoFits) -> list[Finding]:
    """Return a finding if gravity, with the masses of the file, contradicts given gains."""
    found = {name: fits.gain_by_gravity(j) for j, name in enumerate(names)}
    wrong = {name: gains for name, gains in found.items() if gains is not None}
    if not wrong:
        return []
    cases = ", ".join(
        f"{name} {given:.3g} (gravity: {low:.3g} to {high:.3g})" for name, (given, low, high) in wrong.items()
    )
    message = f"given kp contradicts the weight of the robot file: {cases}. Either kp or the masses are wrong"
    remedy = 'Set kp = "unknown" if you trust the masses, or weigh the links'
    return [warning(Kind.CONTRADICTED_GAIN, message, remedy, tuple(wrong))]


def _find_open_values(names: Sequence[str], fits: ServoFits, low: Array) -> list[Finding]:
    found = _find_slow_joints(names, fits, low)
    slow = [name for finding in found for name in finding.joints]
    for place, what in ((1, "damping"), (2, "friction"), (3, "armature")):
        stated = fits.moves & (fits.has_scale if what == "armature" else True)
        if what != "friction":  # both need speed
            stated = stated & [name not in slow for name in names]
        joints = tuple(n for j, n in enumerate(names) if stated[j] and np.isnan(low[j, place]))
        if joints:
            message = f"the logs leave the {what} of {', '.join(joints)} open: usual values decide"
            found.append(warning(Kind.POOR_GAIN, message, "Add a log with faster motion and slow reversals", joints))
    return found


def _find_slow_joints(names: Sequence[str], fits: ServoFits, low: Array) -> list[Finding]:
    """Return a finding on joints too slow for damping: even a usual damping gives less torque than their friction."""
    peaks = np.quantile(np.abs(fits.rows.v), 0.99, axis=0)
    usual = np.array([typical_values(kp)[1] for kp in fits.values[:, 0]])
    needed = fits.values[:, 2] / usual
    is_known = low[:, 1] > np.exp(-SLOW_HALF_WIDTH) * fits.values[:, 1]  # not if it is open
    slow = fits.moves & ~is_known & (peaks < needed)
    joints = tuple(name for name, is_slow in zip(names, slow, strict=True) if is_slow)
    if not joints:
        return []
    cases = ", ".join(
        f"{n} {p:.2g} (needs {v:.2g})" for n, p, v, s in zip(names, peaks, needed, slow, strict=True) if s
    )
    message = f"the motion is too slow for damping and armature; peak speed in rad/s or m/s: {cases}"
    remedy = "Add a log that is faster: below that speed, usual damping gives less torque than friction"
    return [warning(Kind.SLOW_MOTION, message, remedy, joints)]


def _find_torque_limits(names: Sequence[str], fits: ServoFits) -> list[Finding]:
    limits = {name: extras[2] for name, extras in zip(names, fits.extras, strict=True) if np.isfinite(extras[2])}
    if not limits:
        return []
    cases = ", ".join(f"{name} {limit:.3g}" for name, limit in limits.items())
    message = (
        f"the torque of servos is limited (N m or N): {cases}. The limit is part of the model and of exported files"
    )
    return [replace(info(Kind.SATURATED_TORQUE, message), joints=tuple(limits))]


def _find_other_frictions(names: Sequence[str], fits: ServoFits) -> list[Finding]:
    """Return findings about joints whose friction is not one constant, which is all that simulators offer."""
    words = {"rest": "changes with speed by {:.0f} % between rest and motion", "loaded": "is {:.2g} % of the load more"}
    found = []
    best = {
        names[j]: max(some, key=lambda extension: extension.gain * extension.is_significant)
        for j, some in fits.frictions.items()
    }
    for extra, what in words.items():
        some = {name: e for name, e in best.items() if e.extra == extra and e.is_significant}
        if not some:
            continue
        cases = ", ".join(f"{name} {what.format(100 * e.value)}" for name, e in some.items())
        message = (
            f"one constant only approximates the friction: that of {cases}. Values and exported files have the best "
            "constant, and intervals include the difference"
        )
        remedy = "Use the values for simulation; do not read fc as a property of the gear"
        found.append(replace(info(Kind.MISSING_FRICTION, message), remedy=remedy, joints=tuple(some)))
    return found


def _find_coupled_joints(names: Sequence[str], fits: ServoFits) -> list[Finding]:
    coupling = np.sqrt(((fits.rows.load - fits.rows.gravity) ** 2).mean(axis=0))
    joints = tuple(n for n, c, v in zip(names, coupling, fits.values, strict=True) if c > COUPLED_PART * v[2])
    if not joints:
        return []
    message = (
        f"the motion of other joints loads {', '.join(joints)} as much as friction: friction, damping and armature are "
        "less certain than their intervals"
    )
    return [warning(Kind.NARROW_INTERVALS, message, "Record slower motion, or one joint at a time", joints)]
