"""Check the numbers of a log: wrong units, positions that jump, and columns that hold a single value.

Unit errors: degrees for radians, mN m for N m, a velocity that is not the derivative of the position, and a target in
another unit than the position.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from math import pi
from typing import Final

import numpy as np

from mindyn.algebra.values import Array, column_extremes
from mindyn.findings import Finding, Kind, Severity, warning
from mindyn.logs.columns import ColumnSelection
from mindyn.logs.errors import require_accepted
from mindyn.logs.log import Log
from mindyn.logs.servos import find_unknown_gains
from mindyn.logs.stamps import MIN_GAP_RATIO, estimate_usual_step
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
        _check_velocity(log, accepted),
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
    if np.isnan(limits).all():
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


def _check_velocity(log: Log, accepted: Collection[str]) -> Finding | None:
    """Compare the logged velocity with the derivative of the position by their common slope over all joints."""
    if log.qd is None or len(log) < 3:
        return None
    moved = np.ptp(log.q, axis=0) > MIN_MOTION_RANGE
    steps = np.diff(log.time)
    within = steps <= MIN_GAP_RATIO * np.median(steps)  # the motion during a gap is unknown
    change = np.where(moved, np.diff(log.q, axis=0), 0.0)[within]
    # The trapezoidal mean of the velocity over each step is exact to second order, whatever the stamps.
    travelled = (0.5 * (log.qd[1:] + log.qd[:-1]) * steps[:, None])[within]
    power = float((change**2).sum())
    if power == 0.0:
        return None
    slope = float((change * travelled).sum()) / power
    if 0.5 < slope < 2.0:
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


@dataclass(frozen=True, slots=True)
class _Jump:
    size: float
    time: float
    row: int


class LogInspector:
    """Inspect the chunks of a log in order, and report jumps and constant velocities at the end."""

    def __init__(self, robot: Robot) -> None:
        self.joints = robot.primary_joints
        self.limits = np.array([joint.limits.velocity or DEFAULT_SPEED_LIMIT for joint in self.joints])
        self.largest: list[_Jump | None] = [None] * len(self.joints)
        self.counts = np.zeros(len(self.joints), dtype=int)
        self.last: Log | None = None
        self.ends: dict[str, tuple[ColumnSelection, Array, Array]] = {}

    def see_columns(self, pick: ColumnSelection, values: Array) -> None:
        """Inspect the next rows (rows, n) of a signal as logged."""
        low, high = column_extremes(values, gaps=True)
        if pick.signal in self.ends:
            _, lowest, highest = self.ends[pick.signal]
            low, high = np.fmin(low, lowest), np.fmax(high, highest)
        self.ends[pick.signal] = (pick, low, high)

    def see(self, chunk: Log) -> None:
        """Inspect the next usable rows."""
        before = chunk if self.last is None else self.last
        time, q = np.append(before.time[-1], chunk.time), np.vstack([before.q[-1], chunk.q])
        first = 1 if self.last is None else 0  # the first row of the log has no predecessor
        steps, speeds = np.diff(q, axis=0)[first:], np.abs(np.diff(q, axis=0)[first:])
        speeds = speeds / np.diff(time)[first:, None]
        if len(steps):
            usual = np.quantile(speeds, USUAL_SPEED_QUANTILE, axis=0)
            self._count(chunk, first, steps, speeds > np.maximum(self.limits, JUMP_SPEED_RATIO * usual))
        self.last = chunk.take(slice(len(chunk) - 1, None))

    def _count(
        self, chunk: Log, first: int, steps: Array, jumps: np.ndarray[tuple[int, int], np.dtype[np.bool_]]
    ) -> None:
        self.counts += jumps.sum(axis=0)
        for joint in np.flatnonzero(jumps.any(axis=0)):
            at = int(np.argmax(np.abs(steps[:, joint]) * jumps[:, joint]))
            known = self.largest[joint]
            if known is None or abs(steps[at, joint]) > abs(known.size):
                row = at + first
                self.largest[joint] = _Jump(float(steps[at, joint]), float(chunk.time[row]), int(chunk.rows[row]))

    def findings(self) -> list[Finding]:
        """Return a finding on each joint that jumps and each velocity that never changes."""
        return [*self._jumps(), *self._constant_velocities()]

    def _jumps(self) -> Iterator[Finding]:
        for joint, jump, count in zip(self.joints, self.largest, self.counts, strict=True):
            if jump is not None:
                unit = "m" if joint.kind == "prismatic" else "rad"
                rest = f", the largest of {count} such steps" if count > 1 else ""
                message = (
                    f"joint {joint.name} jumps by {jump.size:.4g} {unit} at {jump.time:.6g} s (row {jump.row}){rest}"
                )
                remedy = "Exclude bad samples and unwrap the angle; mindyn uses these rows unchanged"
                yield Finding(
                    Kind.POSITION_JUMP, Severity.WARNING, message, remedy, (joint.name,), float(jump.size), unit
                )

    def _constant_velocities(self) -> Iterator[Finding]:
        for joint in np.flatnonzero(self._constant("velocity") & ~self._constant("position")):
            pick, low, _ = self.ends["velocity"]
            column = pick.names[joint] if pick.order is None else f"{pick.names[0]}[{pick.order[joint]}]"
            name = self.joints[joint].name
            message = (
                f"the velocity of joint {name} never changes: column {column!r} holds {low[joint]:.4g} in every row"
            )
            remedy = "Check its sensor, or select another column"
            yield Finding(Kind.CONSTANT_VELOCITY, Severity.WARNING, message, remedy, (name,))

    def _constant(self, signal: str) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Return whether the column of each joint is constant, (n,)."""
        if signal not in self.ends:
            return np.zeros(len(self.joints), dtype=bool)
        _, low, high = self.ends[signal]
        return np.asarray(high - low <= CONSTANT_TOLERANCE * np.abs(high))
