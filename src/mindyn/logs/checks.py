"""What the numbers of a log give away: units mixed up, positions that jump, columns that hold one value.

Units: degrees for radians, mN m for N m, velocity that is not the derivative.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from math import pi
from typing import Final

import numpy as np

from mindyn.algebra.values import Array, column_ends
from mindyn.logs.columns import Pick
from mindyn.logs.findings import refuse_unless_accepted
from mindyn.logs.log import Log
from mindyn.logs.stamps import LONG, usual_step
from mindyn.logs.units import UNITS
from mindyn.robots.robot import Robot

UNLIMITED_TURN: Final = 4 * pi
"""A revolute joint without limits that turns further than this is suspect, rad."""
EFFORT_EXCESS: Final = 20.0
"""rms torque above this multiple of the effort limit is suspect: 1000 times a usual 0.05 to 0.5 of the limit is 50 or
more, while a placeholder limit (1000 N m for a 1 t robot) is exceeded by 3."""
EFFORT_SHORTFALL: Final = 5e-4
"""Peak torque below this part of every effort limit is suspect when the log states mN m."""
RATES_HZ: Final = (5.0, 40_000.0)
"""Rates at and beyond these are suspect: robots are logged at 40 to 5000 Hz, and units of time are a thousand apart."""
HARDLY: Final = 0.02
"""rad or m: joints that move less show the encoder's steps rather than a motion."""
VELOCITY_FACTORS: Final = {57.29578: "deg/s", 1 / 57.29578: "rad/s for deg/s", 1000.0: "ms for s", 1e-3: "s for ms"}
FASTEST: Final = 10.0
"""Speed (rad/s or m/s) that a joint without a stated speed limit hardly exceeds: wrists of industrial arms reach it."""
USUAL: Final = 0.9
JUMP: Final = 5.0
"""A step is a jump when it is faster than the speed limit, and than this multiple of the speed that the share `USUAL`
of the joint's steps keep: of a smooth motion the fastest step is below 2 of it, of noise below 3."""
ONE_VALUE: Final = 1e-12
"""Values that vary by less, relative, are one value."""


def unit_notes(log: Log, robot: Robot, accepted: Collection[str]) -> tuple[str, ...]:
    """Notes on what looks odd; refuses what looks like a unit mix-up unless it is accepted."""
    found = (
        _degree_note(log, robot, accepted),
        _torque_note(log, robot, accepted),
        _velocity_note(log, accepted),
        _rate_note(log, accepted),
    )
    return tuple(note for note in (*found, *_limit_notes(log, robot)) if note)


def reach_of(robot: Robot) -> Array:
    """(n,) largest |q| that the limits allow; `UNLIMITED_TURN` or infinity without limits."""
    reach = []
    for joint in robot.primary_joints:
        stated = [abs(end) for end in (joint.limits.lower, joint.limits.upper) if end is not None]
        free = UNLIMITED_TURN if joint.kind == "revolute" else np.inf
        reach.append(max(stated) if len(stated) == 2 and max(stated) > 0 else free)
    return np.array(reach)


def _degree_note(log: Log, robot: Robot, accepted: Collection[str]) -> str:
    turning = np.array([joint.kind == "revolute" for joint in robot.primary_joints])
    peak, reach = np.abs(log.q).max(axis=0), reach_of(robot)
    beyond = turning & (peak > np.maximum(2 * reach, pi))
    if not beyond.any() or (np.deg2rad(peak[turning]) > 1.2 * reach[turning]).any():
        return ""
    worst = int(np.argmax(np.where(beyond, peak / reach, 0.0)))
    message = (
        f"positions look like degrees: joint {log.joint_names[worst]} reaches {peak[worst]:.4g} rad, "
        f"its limit is {reach[worst]:.4g} rad; as degrees every joint would be inside its limits"
    )
    hint = 'state units.position = "deg", or side = "motor" with gears'
    return refuse_unless_accepted("degrees", accepted, message, hint)


def _limit_notes(log: Log, robot: Robot) -> list[str]:
    notes = []
    for joint, q in zip(robot.primary_joints, log.q.T, strict=True):
        low, high = joint.limits.lower, joint.limits.upper
        margin = 0.0 if low is None or high is None else 0.01 * (high - low)
        if low is None or high is None or not high > low:
            continue
        # Whole turns make no difference: where an angle wrapped around, nothing says at which it began.
        turns = 2 * pi * np.floor((q.max() - high - margin) / (2 * pi) + 1) if joint.kind == "revolute" else 0.0
        within = [q.min() - by >= low - margin and q.max() - by <= high + margin for by in (0.0, turns)]
        if not any(within):
            notes.append(
                f"joint {joint.name} moves from {q.min():.4g} to {q.max():.4g}, beyond its limits "
                f"{low:.4g} to {high:.4g}: another zero, sign or side, or the log of another robot?"
            )
    return notes


def _torque_note(log: Log, robot: Robot, accepted: Collection[str]) -> str:
    limits = np.array([joint.limits.effort or np.nan for joint in robot.primary_joints])
    if np.isnan(limits).all():
        return ""
    excess = np.sqrt((log.tau**2).mean(axis=0)) / limits
    worst = int(np.nanargmax(excess))
    name, limit = log.joint_names[worst], limits[worst]
    if excess[worst] > EFFORT_EXCESS:
        rms = f"{excess[worst] * limit:.4g} N m"
        message = f"torques look like mN m: joint {name} has rms {rms}, its effort limit is {limit:.4g} N m"
        return refuse_unless_accepted("milli", accepted, message, 'state units.torque = "mN m", or the side and gains')
    peak = np.nanmax(np.abs(log.tau).max(axis=0) / limits)
    if peak < EFFORT_SHORTFALL and not np.isnan(limits).any():
        message = f"torques look a thousand times too small: no joint exceeds {peak:.2g} of its effort limit"
        hint = 'state units.torque = "N m", or side = "motor" with gears'
        return refuse_unless_accepted("milli", accepted, message, hint)
    return ""


def _velocity_note(log: Log, accepted: Collection[str]) -> str:
    """Compare logged velocity with the derivative of position: slope of one on the other, joints together."""
    if log.qd is None or len(log) < 3:
        return ""
    moved = np.ptp(log.q, axis=0) > HARDLY
    steps = np.diff(log.time)
    within = steps <= LONG * np.median(steps)  # what moved during a gap is not known
    change = np.where(moved, np.diff(log.q, axis=0), 0.0)[within]
    # The trapezoidal mean of the velocity over each step is exact to second order, whatever the stamps.
    travelled = (0.5 * (log.qd[1:] + log.qd[:-1]) * steps[:, None])[within]
    power = float((change**2).sum())
    if power == 0.0:
        return ""
    slope = float((change * travelled).sum()) / power
    if 0.5 < slope < 2.0:
        return ""
    named = [word for value, word in VELOCITY_FACTORS.items() if 0.7 < slope / value < 1.4]
    cause = f" ({named[0]}?)" if named else ""
    message = f"logged velocity is {slope:.4g} times the derivative of the position{cause}"
    hint = "check units.velocity, units.position, units.time and side"
    return refuse_unless_accepted("velocity", accepted, message, hint)


def _rate_note(log: Log, accepted: Collection[str]) -> str:
    """The rate of a log that has stamps."""
    stated = log.statement.units.get("time")
    if log.statement.rate_hz is not None or not isinstance(stated, str) or len(log) < 2:
        return ""
    rate = 1 / usual_step(np.diff(log.time))
    if _is_usual(rate):
        return ""
    known = UNITS["time"]
    others = {unit: rate * known[stated] / size for unit, size in known.items()}
    fitting = [f'units.time = "{unit}" would give {other:.4g} Hz' for unit, other in others.items() if _is_usual(other)]
    message = f"the stamps, taken as {stated}, are {rate:.4g} Hz: robots are logged at 40 to 5000 Hz"
    return refuse_unless_accepted("rate", accepted, message, "; ".join(fitting) or "check columns.time and units.time")


def _is_usual(rate_hz: float) -> bool:
    return RATES_HZ[0] < rate_hz < RATES_HZ[1]


@dataclass(frozen=True, slots=True)
class _Jump:
    size: float
    time: float
    row: int


class Oddities:
    """Watches the chunks of one log in order, and reports at the end."""

    def __init__(self, robot: Robot) -> None:
        self.joints = robot.primary_joints
        self.limits = np.array([joint.limits.velocity or FASTEST for joint in self.joints])
        self.largest: list[_Jump | None] = [None] * len(self.joints)
        self.counts = np.zeros(len(self.joints), dtype=int)
        self.last: Log | None = None
        self.ends: dict[str, tuple[Pick, Array, Array]] = {}

    def see_columns(self, pick: Pick, values: Array) -> None:
        """The next rows of a signal as logged, (rows, n)."""
        low, high = column_ends(values, gaps=True)
        if pick.signal in self.ends:
            _, lowest, highest = self.ends[pick.signal]
            low, high = np.fmin(low, lowest), np.fmax(high, highest)
        self.ends[pick.signal] = (pick, low, high)

    def see(self, chunk: Log) -> None:
        """The next usable rows."""
        before = chunk if self.last is None else self.last
        time, q = np.append(before.time[-1], chunk.time), np.vstack([before.q[-1], chunk.q])
        first = 1 if self.last is None else 0  # the first row of all has none before it
        steps, speeds = np.diff(q, axis=0)[first:], np.abs(np.diff(q, axis=0)[first:])
        speeds = speeds / np.diff(time)[first:, None]
        if len(steps):
            usual = np.quantile(speeds, USUAL, axis=0)
            self._count(chunk, first, steps, speeds > np.maximum(self.limits, JUMP * usual))
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

    def notes(self) -> tuple[str, ...]:
        """A sentence on each joint that jumps and each torque or velocity that never changes."""
        return (*self._jump_notes(), *self._constant_notes())

    def _jump_notes(self) -> list[str]:
        notes = []
        for joint, jump, count in zip(self.joints, self.largest, self.counts, strict=True):
            if jump is not None:
                unit = "m" if joint.kind == "prismatic" else "rad"
                rest = f", the largest of {count} such steps" if count > 1 else ""
                notes.append(
                    f"joint {joint.name} jumps by {jump.size:.4g} {unit} at {jump.time:.6g} s (row {jump.row}){rest}: "
                    "bad samples, or an angle that wraps around? they are used as they are"
                )
        return notes

    def _constant_notes(self) -> list[str]:
        notes = []
        still = self._constant("position")
        for signal in ("velocity", "torque"):
            for joint in np.flatnonzero(self._constant(signal) & ~(still & (signal == "velocity"))):
                pick, low, _ = self.ends[signal]
                column = pick.names[joint] if pick.order is None else f"{pick.names[0]}[{pick.order[joint]}]"
                notes.append(
                    f"the {signal} of joint {self.joints[joint].name} never changes: column {column!r} holds "
                    f"{low[joint]:.4g} in every row; is its sensor dead, or was another column meant?"
                )
        return notes

    def _constant(self, signal: str) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """(n,) whether the column of each joint holds one value."""
        if signal not in self.ends:
            return np.zeros(len(self.joints), dtype=bool)
        _, low, high = self.ends[signal]
        return np.asarray(high - low <= ONE_VALUE * np.abs(high))
