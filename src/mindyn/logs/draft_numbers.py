"""What the numbers of a log say about units, side and time: the evidence behind a drafted sidecar."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import pi
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mindyn.algebra.values import Array
from mindyn.logs.checks import DEFAULT_REACH_RAD, reachable_positions
from mindyn.logs.draft_names import guess_unit, split_words
from mindyn.logs.stamps import MIN_GAP_RATIO, count_restarts, estimate_usual_step
from mindyn.logs.units import UNIT_FACTORS
from mindyn.robots.robot import Robot

USUAL_RATES_HZ: Final = (10.0, 5000.0)
MAX_RATE_IN_SECONDS_HZ: Final = 20_000.0
"""Rates above the usual ones are believed in seconds alone: a step of 0.15 is that of a slow log, not one in ms."""
MIN_CHANGED_FRACTION: Final = 0.3
"""Share of rows whose stamp differs from that before it, from which a time may be one with rows that stand twice."""
MIN_POSITION_RANGE: Final = 1e-3
"""rad, deg, m or mm that positions vary by, below which nothing is said of velocity and torque."""
MIN_SQUARED_CORRELATION: Final = 0.5
"""Squared correlation from which a velocity is that of a position; measured arms: 0.9 and more."""
MIN_RADIAN_PEAK: Final = 0.2
"""A peak below this (as rad) may as well be degrees."""
TIME_WORDS: Final = (
    "stamp",
    "timestamp",
    "stamps",
    "timestamps",
    "time",
    "times",
    "t",
    "sec",
    "secs",
    "seconds",
    "clock",
    "duration",
)
"""Words of columns of time, the likelier before: a message's own stamp is better than the recorder's."""
UNIFORM_STEP_TOLERANCE: Final = 0.05


@dataclass(frozen=True, slots=True, eq=False)
class Clock:
    """The time of a log.

    columns  the column of stamps, or those of seconds and nanoseconds; none where there is no time
    unit     of the stamps; None where it is not known
    seconds  (rows,) since the first row; None where they are not known
    """

    columns: tuple[str, ...] = ()
    unit: str | None = None
    seconds: Array | None = None
    evidence: str = "no column of the file is a time"

    @property
    def restarts(self) -> int:
        """How often the time goes back as of a clock that begins anew."""
        return 0 if self.seconds is None else count_restarts(self.seconds)


def detect_clock(columns: Mapping[str, NDArray[Any]], units: Mapping[str, str] = MappingProxyType({})) -> Clock:
    """The clock of a log: by the columns' names, what a line of units says, and rates that robots are logged at."""
    named = [(rank, name) for name in columns if columns[name].ndim == 1 and (rank := _time_rank(name)) is not None]
    for _, name in sorted(named):
        pair = _find_nanoseconds(name, columns)
        if pair is not None:
            seconds = (columns[name] - columns[name][0]) + 1e-9 * (columns[pair] - columns[pair][0])
            return Clock((name, pair), "s", np.asarray(seconds), f"seconds and nanoseconds, {_describe_rate(seconds)}")
    unused = ""
    for _, name in sorted(named):
        stamps = columns[name]
        steps = np.diff(stamps)
        changes = steps[steps != 0]
        if (
            len(changes) < max(2, MIN_CHANGED_FRACTION * len(steps))
            or not np.isfinite(stamps).all()
            or (changes > 0).mean() < MIN_SQUARED_CORRELATION
        ):
            unused = unused or name
            continue
        step = estimate_usual_step(steps[steps > 0])
        beside = split_words(units.get(name, ""))
        said = guess_unit("time", (*split_words(name), *beside), beside or split_words(name)[-1:])
        fitting = [unit for unit, size in UNIT_FACTORS["time"].items() if _is_usual_rate(1 / (step * size))]
        fitting = fitting or (["s"] if USUAL_RATES_HZ[1] < 1 / step <= MAX_RATE_IN_SECONDS_HZ else [])
        unit = said if said is not None and (said in fitting or not fitting) else fitting[0] if fitting else None
        if unit is None:
            return Clock((name,), None, None, f"a step of {step:.4g} is a usual rate in no unit of time")
        seconds = np.asarray((stamps - stamps[0]) * UNIT_FACTORS["time"][unit])
        how = "the name says so" if unit == said else "the unit in which the rate is usual"
        return Clock((name,), unit, seconds, f"{_describe_rate(seconds)}; {how}")
    return Clock(evidence=f"{unused} does not grow from row to row, or misses values") if unused else Clock()


def _time_rank(name: str) -> int | None:
    words = split_words(name)
    ranks = [TIME_WORDS.index(word) for word in words if word in TIME_WORDS]
    return min(ranks) if ranks and not {"delta", "dt", "disc"} & set(words) else None


def _find_nanoseconds(name: str, columns: Mapping[str, NDArray[Any]]) -> str | None:
    """The column of nanoseconds that belongs to one of seconds, as `header.stamp.nanosec` to `header.stamp.sec`."""
    for seconds, nanoseconds in (("sec", "nanosec"), ("sec", "nsec"), ("secs", "nsecs"), ("sec", "nanosecs")):
        if name.endswith(seconds) and not name.endswith(nanoseconds):
            other = name.removesuffix(seconds) + nanoseconds
            if other in columns and columns[other].ndim == 1:
                return other
    return None


def _is_usual_rate(rate_hz: float) -> bool:
    return USUAL_RATES_HZ[0] <= rate_hz <= USUAL_RATES_HZ[1]


def _describe_rate(seconds: Array) -> str:
    steps = np.diff(seconds)
    step = estimate_usual_step(steps[steps > 0]) if (steps > 0).any() else np.nan
    off = float((np.abs(steps / step - 1) > UNIFORM_STEP_TOLERANCE).mean())
    rest = f", {100 * off:.0f} % of the steps differ from it" if off > 0.01 else ""
    return f"{1 / step:.5g} Hz{rest}"


def is_still(q: Array) -> bool:
    """Whether no position moves."""
    return largest_magnitude(np.fmax.reduce(q, axis=0) - np.fmin.reduce(q, axis=0)) < MIN_POSITION_RANGE


def velocity_slope(q: Array, v: Array, seconds: Array, turn: float = np.inf) -> tuple[float, float]:
    """Slope of a logged velocity on the derivative of the position, and their squared correlation, joints together.

    turn  at which angles wrap around: steps by more than half of it say nothing
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


def fitting_velocity_units(position: str, slope: float, kind: str) -> list[str]:
    """Units of a velocity that is `slope` times the derivative of a position in the unit `position`."""
    sizes = {unit: UNIT_FACTORS["position"][position] / size for unit, size in UNIT_FACTORS["velocity"].items()}
    linear = kind == "prismatic"
    return [u for u, ratio in sizes.items() if u.startswith(("m/", "mm/")) == linear and 0.7 < slope / ratio < 1.4]


@dataclass(frozen=True, slots=True)
class Guess:
    """What a number suggests: a unit or side, None where it decides nothing, and the evidence."""

    value: str | None
    evidence: str


def largest_magnitude(values: Array) -> float:
    """The largest of |values| that are numbers; 0 where none is."""
    return float(np.fmax.reduce(np.abs(values), axis=None, initial=0.0))


def guess_position_unit(q: Array, robot: Robot | None, kinds: Sequence[str]) -> Guess:
    """rad or deg (m or mm), by the range of the positions and the robot's limits."""
    peak = largest_magnitude(q)
    if kinds and all(kind == "prismatic" for kind in kinds):
        return Guess("mm" if peak > 20 else "m", f"the largest is {peak:.4g}")
    reach = np.full(q.shape[1], DEFAULT_REACH_RAD) if robot is None else reachable_positions(robot)
    peaks = np.fmax.reduce(np.abs(q), axis=0, initial=0.0)[: len(reach)]
    over = float((peaks / reach).max())
    where = "the limits" if robot is not None else "four half turns"
    if over <= 1.05 and peak >= MIN_RADIAN_PEAK:
        return Guess("rad", f"up to {peak:.3g}, within {where} as rad")
    as_degrees = float((np.deg2rad(peaks) / reach).max())
    if peak > 2 * pi and over > 2 and as_degrees <= 1.2:
        return Guess(None, f"up to {peak:.4g}: deg at the joints, or rad at motors behind gears")
    return Guess(None, f"up to {peak:.4g}")


def guess_position_side(q: Array, unit: str, robot: Robot | None) -> Guess:
    """Joint side where the positions, in their unit, lie within the robot's limits."""
    if robot is None:
        return Guess(None, "no robot is given")
    values = np.fmax.reduce(np.abs(q), axis=0, initial=0.0)[: len(robot.primary_names)] * UNIT_FACTORS["position"][unit]
    over = float((values / reachable_positions(robot)).max())
    if over <= 1.5:
        return Guess("joint", f"{100 * over:.0f} % of the limits at most")
    turns = "motors turn so far, joints do not" if over > 5 else "another zero, or motors"
    return Guess(None, f"{over:.3g} times the limits: {turns}")
