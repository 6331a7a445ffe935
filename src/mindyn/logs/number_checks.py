"""Check the values of a log: wrong units, positions that jump, and columns with a constant value.

Wrong units are degrees instead of radians, mN m instead of N m, a velocity that is not the derivative of the position,
and a target in another unit than the position.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from math import pi
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mindyn.foundation.algebra.values import Array, column_extremes
from mindyn.foundation.findings import Finding, Kind, Severity, warning
from mindyn.logs.log import Log, join_logs
from mindyn.logs.log_errors import require_accepted
from mindyn.logs.servos import find_unknown_gains
from mindyn.logs.time_stamps import MIN_GAP_RATIO, estimate_usual_step
from mindyn.logs.units import UNIT_FACTORS
from mindyn.robots.robot import Robot

DEFAULT_REACH_RAD: Final = 4 * pi
"""Largest plausible |q| of a revolute joint without limits."""
MAX_RMS_EFFORT_RATIO: Final = 20.0
"""Largest plausible ratio of rms torque to effort limit. The usual ratio is 0.05 to 0.5, which a factor of 1000 raises
to 50 or more; a placeholder limit (1000 N m for a 1 t robot) is exceeded by a factor of 3."""
MIN_PEAK_EFFORT_RATIO: Final = 5e-4
"""Smallest plausible ratio of peak torque to effort limit; below it at every joint, the unit is probably wrong."""
PLAUSIBLE_RATES_HZ: Final = (5.0, 40_000.0)
"""Range of plausible rates (exclusive): robots are logged at 40 to 5000 Hz, and units of time differ by 1000."""
MIN_MOTION_RANGE: Final = 0.02
"""rad or m; with a smaller range, encoder steps dominate the motion."""
VELOCITY_FACTORS: Final = {57.29578: "deg/s", 1 / 57.29578: "rad/s for deg/s", 1000.0: "ms for s", 1e-3: "s for ms"}
DEFAULT_SPEED_LIMIT: Final = 10.0
"""Assumed speed limit (rad/s or m/s) of a joint without one: wrists of industrial arms reach it."""
USUAL_SPEED_QUANTILE: Final = 0.9
JUMP_SPEED_RATIO: Final = 5.0
"""A step is a jump if its speed exceeds the speed limit and this multiple of the quantile `USUAL_SPEED_QUANTILE` of
the joint's speeds. The fastest step of a smooth motion is below 2 times the quantile, that of noise below 3 times."""
BEGIN_ROWS: Final = 1000
"""Number of first rows that decide whether rows are a path. The number is limited, so that a stream is split like a log
in memory.
"""
MAX_TARGET_UNIT_ERROR: Final = 0.5
"""Largest relative difference between the slope of targets over positions and that of a wrong unit: servos follow with
a slope of 0.5 to 2, and degrees differ from radians by a factor of 57."""
CONSTANT_TOLERANCE: Final = 1e-12
"""Relative variation below which a column is constant."""


def check_units(log: Log, robot: Robot, accepted: Collection[str]) -> list[Finding]:
    """Return findings on implausible values; raise `LogError` if a unit seems wrong and the user did not accept it."""
    checked = (
        _check_degrees(log, robot, accepted),
        _check_targets(log, accepted),
        _check_torque(log, robot, accepted),
        _check_velocity(log, robot, accepted),
        _check_rate(log, accepted),
    )
    return [finding for finding in (*checked, *_find_limit_violations(log, robot)) if finding]


def reachable_positions(robot: Robot) -> Array:
    """Return the largest |q| (n,) within the limits; without limits, `DEFAULT_REACH_RAD` or infinity."""
    reach = []
    for joint in robot.primary_joints:
        ends = [abs(end) for end in (joint.limits.lower, joint.limits.upper) if end is not None]
        free = DEFAULT_REACH_RAD if joint.kind == "revolute" else np.inf
        reach.append(max(ends) if len(ends) == 2 and max(ends) > 0 else free)
    return np.array(reach)


def _check_degrees(log: Log, robot: Robot, accepted: Collection[str]) -> Finding | None:
    turning = np.array([joint.kind == "revolute" for joint in robot.primary_joints])
    peak, reach = np.abs(log.q).max(axis=0), reachable_positions(robot)
    beyond = turning & (peak > np.maximum(2 * reach, pi))
    if not beyond.any() or (np.deg2rad(peak[turning]) > 1.2 * reach[turning]).any():
        return None
    worst = int(np.argmax(np.where(beyond, peak / reach, 0.0)))
    message = (
        f"positions look like degrees: joint {log.joint_names[worst]} reaches {peak[worst]:.4g} rad, "
        f"its limit is {reach[worst]:.4g} rad; in degrees, every joint is within its limits"
    )
    hint = 'set units.position = "deg", or side = "motor" with gears'
    return require_accepted("degrees", accepted, message, hint)


def _find_limit_violations(log: Log, robot: Robot) -> list[Finding]:
    findings = []
    for joint, q in zip(robot.primary_joints, log.q.T, strict=True):
        low, high = joint.limits.lower, joint.limits.upper
        margin = 0.0 if low is None or high is None else 0.01 * (high - low)
        if low is None or high is None or not high > low:
            continue
        # Ignore whole turns: the turn at which a wrapped angle began is unknown.
        turns = 2 * pi * np.floor((q.max() - high - margin) / (2 * pi) + 1) if joint.kind == "revolute" else 0.0
        within = [q.min() - by >= low - margin and q.max() - by <= high + margin for by in (0.0, turns)]
        if not any(within):
            reach = f"{q.min():.4g} to {q.max():.4g}, beyond its limits {low:.4g} to {high:.4g}"
            remedy = "Check its zero, sign and side, and that the log belongs to this robot"
            message = f"joint {joint.name} moves from {reach}"
            findings.append(replace(warning(Kind.BEYOND_LIMITS, message, remedy), joints=(joint.name,)))
    return findings


def _check_torque(log: Log, robot: Robot, accepted: Collection[str]) -> Finding | None:
    limits = np.array([joint.limits.effort or np.nan for joint in robot.primary_joints])
    limits[find_unknown_gains(log)] = np.nan
    if np.isnan(limits).all() or not log.tau.any():  # no unit makes a torque of zeros plausible
        return None
    excess = np.sqrt((log.tau**2).mean(axis=0)) / limits
    worst = int(np.nanargmax(excess))
    name, limit = log.joint_names[worst], limits[worst]
    if excess[worst] > MAX_RMS_EFFORT_RATIO:
        rms = f"{excess[worst] * limit:.4g} N m"
        message = f"torques look like mN m: joint {name} has rms {rms}, its effort limit is {limit:.4g} N m"
        return require_accepted("milli", accepted, message, 'set units.torque = "mN m", or side and gears')
    peak = np.nanmax(np.abs(log.tau).max(axis=0) / limits)
    if peak < MIN_PEAK_EFFORT_RATIO and not np.isnan(limits).any():
        message = f"torques look a thousand times too small: no joint exceeds {peak:.2g} of its effort limit"
        hint = 'set units.torque = "N m", or side = "motor" with gears'
        return require_accepted("milli", accepted, message, hint)
    return None


def velocity_slope(q: Array, v: Array, seconds: Array, turn: float = np.inf) -> tuple[float, float]:
    """Return the slope between a logged velocity and the derivative of the position, over all joints, and their squared
    correlation.

    turn  period of wrapped angles; steps of more than half of it are ignored
    """
    steps = np.diff(seconds)
    long = MIN_GAP_RATIO * float(np.median(steps[steps > 0])) if (steps > 0).any() else 0.0
    good = (steps > 0) & (steps <= long) & np.isfinite(q[1:] + q[:-1] + v[1:] + v[:-1]).all(axis=1)
    good &= (np.abs(np.diff(q, axis=0)) < 0.5 * turn).all(axis=1)
    change = np.diff(q, axis=0)[good]
    travelled = 0.5 * (v[1:] + v[:-1])[good] * steps[good, None]
    power, other = float((change**2).sum()), float((travelled**2).sum())
    if power == 0 or other == 0:
        return 0.0, 0.0
    together = float((change * travelled).sum())
    return together / power, together**2 / (power * other)


def _check_velocity(log: Log, robot: Robot, accepted: Collection[str]) -> Finding | None:
    """Compare the logged velocity with the derivative of the position by their common slope over all joints."""
    if log.qd is None or len(log) < 3:
        return None
    moved = np.ptp(log.q, axis=0) > MIN_MOTION_RANGE
    if not moved.any():
        return None
    slope, agreement = velocity_slope(_without_jumps(log, robot).q[:, moved], log.qd[:, moved], log.time)
    if 0.5 < slope < 2.0 or (agreement == 0 and log.qd.any()):  # or all motion is in gaps
        return None
    named = [word for value, word in VELOCITY_FACTORS.items() if 0.7 < slope / value < 1.4]
    cause = f" ({named[0]}?)" if named else ""
    message = f"logged velocity is {slope:.4g} times the derivative of the position{cause}"
    hint = "check units.velocity, units.position, units.time and side"
    return require_accepted("velocity", accepted, message, hint)


def _check_targets(log: Log, accepted: Collection[str]) -> Finding | None:
    """Compare targets with positions by their common slope over all joints."""
    if log.target is None or len(log) < 2:
        return None
    q, target = log.q - log.q.mean(axis=0), log.target - log.target.mean(axis=0)
    power = float((q**2).sum())
    slope = float((q * target).sum()) / power if power > 0 else 1.0
    for ratio, read_as, meant in ((180 / pi, "rad", "deg"), (pi / 180, "deg", "rad")):
        if abs(slope / ratio - 1) < MAX_TARGET_UNIT_ERROR:
            message = f"targets are {slope:.3g} times the positions: they look like {meant}, but are read as {read_as}"
            return require_accepted("target", accepted, message, f'set units.target = "{meant}"')
    return None


def _check_rate(log: Log, accepted: Collection[str]) -> Finding | None:
    """Check the rate of a log that has stamps."""
    time_unit = log.metadata.units.get("time")
    if log.metadata.rate_hz is not None or not isinstance(time_unit, str) or len(log) < 2:
        return None
    rate = 1 / estimate_usual_step(np.diff(log.time))
    if _is_plausible_rate(rate):
        return None
    known = UNIT_FACTORS["time"]
    others = {unit: rate * known[time_unit] / size for unit, size in known.items()}
    fitting = [
        f'units.time = "{unit}" would give {other:.4g} Hz'
        for unit, other in others.items()
        if _is_plausible_rate(other)
    ]
    message = f"with stamps in {time_unit}, the rate is {rate:.4g} Hz; robots are usually logged at 40 to 5000 Hz"
    return require_accepted("rate", accepted, message, "; ".join(fitting) or "check columns.time and units.time")


def _is_plausible_rate(rate_hz: float) -> bool:
    return PLAUSIBLE_RATES_HZ[0] < rate_hz < PLAUSIBLE_RATES_HZ[1]


def speed_limits(robot: Robot) -> Array:
    """Return the largest speed (n,) of each joint, in rad/s or m/s: the limit of the robot file, or
    `DEFAULT_SPEED_LIMIT`.
    """
    return np.array([joint.limits.velocity or DEFAULT_SPEED_LIMIT for joint in robot.primary_joints])


def split_speeds(robot: Robot, begin: Log) -> Array:
    """Return the speeds (n,) above which a step ends a segment: a joint cannot move that fast, so that the position
    jumps.

    If the rows of a log are not a path, for example random samples, all steps are fast, including those in `begin`;
    such a log is not split.
    """
    limits = speed_limits(robot)
    if len(begin) > 2 and begin.q.shape[1:] == limits.shape:
        q, time = begin.q[:BEGIN_ROWS], begin.time[:BEGIN_ROWS]
        speeds = np.abs(np.diff(q, axis=0)) / np.diff(time)[:, None]
        limits = np.maximum(limits, np.quantile(speeds, USUAL_SPEED_QUANTILE, axis=0))
    return JUMP_SPEED_RATIO * limits


def _find_jumps(log: Log, limits: Array) -> NDArray[np.bool_]:
    """Return a mask (N - 1, n) of the steps that are jumps."""
    speeds = np.abs(np.diff(log.q, axis=0)) / np.diff(log.time)[:, None]
    usual = np.quantile(speeds, USUAL_SPEED_QUANTILE, axis=0)
    return np.asarray(speeds > np.maximum(limits, JUMP_SPEED_RATIO * usual))


def _without_jumps(log: Log, robot: Robot) -> Log:
    """Return the log without jumps of positions: each jump is subtracted from all later rows."""
    jumps = _find_jumps(log, speed_limits(robot))
    if not jumps.any():
        return log
    removed = np.cumsum(np.where(jumps, np.diff(log.q, axis=0), 0.0), axis=0)
    return replace(log, q=log.q - np.vstack([np.zeros((1, log.q.shape[1])), removed]))


class LogInspector:
    """Inspect the chunks of a log in order, and report jumps and constant velocities at the end.

    name  of the file, for messages
    """

    def __init__(self, robot: Robot, name: str = "") -> None:
        self.joints, self.name = robot.primary_joints, name
        self.limits = speed_limits(robot)
        self.largest: list[tuple[float, float, int] | None] = [None] * len(self.joints)  # size, time and row of a jump
        self.counts = np.zeros(len(self.joints), dtype=int)
        self.last: Log | None = None
        self.ends: dict[str, tuple[Array, Array]] = {}

    def see(self, chunk: Log) -> None:
        """Inspect the next usable rows."""
        for name, values in (("q", chunk.q), ("qd", chunk.qd)):
            if values is not None:
                low, high = column_extremes(values)
                lowest, highest = self.ends.get(name, (low, high))
                self.ends[name] = np.minimum(low, lowest), np.maximum(high, highest)
        rows = chunk if self.last is None else join_logs([self.last, chunk])
        steps = np.diff(rows.q, axis=0)
        if len(steps):
            jumps = _find_jumps(rows, self.limits)
            self.counts += jumps.sum(axis=0)
            for joint in np.flatnonzero(jumps.any(axis=0)):
                at = int(np.argmax(np.abs(steps[:, joint]) * jumps[:, joint]))
                size, known = float(steps[at, joint]), self.largest[joint]
                if known is None or abs(size) > abs(known[0]):
                    self.largest[joint] = (size, float(rows.time[at + 1]), int(rows.rows[at + 1]))
        self.last = chunk.take(slice(len(chunk) - 1, None))

    def findings(self) -> list[Finding]:
        """Return a finding on each joint that jumps and each velocity that never changes."""
        return [*self._jumps(), *self._constant_velocities()]

    def _jumps(self) -> Iterator[Finding]:
        for joint, jump, count in zip(self.joints, self.largest, self.counts, strict=True):
            if jump is not None:
                size, time, row = jump
                unit = "m" if joint.kind == "prismatic" else "rad"
                rest = f", the largest of {count} such steps" if count > 1 else ""
                where = f"row {row} of {self.name}" if self.name else f"row {row}"
                message = f"joint {joint.name} jumps by {size:.4g} {unit} at {time:.6g} s ({where}){rest}"
                remedy = "Exclude bad samples and unwrap the angle; mindyn does not differentiate across large jumps"
                yield Finding(Kind.POSITION_JUMP, Severity.WARNING, message, remedy, (joint.name,), size, unit)

    def _constant_velocities(self) -> Iterator[Finding]:
        if "qd" not in self.ends:
            return
        rests, is_constant = (high - low <= CONSTANT_TOLERANCE * np.abs(high) for low, high in self.ends.values())
        for joint in np.flatnonzero(is_constant & ~rests):
            name = self.joints[joint].name
            message = f"the velocity of joint {name} never changes: it is {self.ends['qd'][0][joint]:.4g} in every row"
            remedy = "Check its sensor, or select another column"
            yield Finding(Kind.CONSTANT_VELOCITY, Severity.WARNING, message, remedy, (name,))
