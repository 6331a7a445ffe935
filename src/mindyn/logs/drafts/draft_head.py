"""Read the first rows of a log without metadata, and guess units, side and time from their values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import pi
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code
from mindyn.foundation.safe_reading import read_json
from mindyn.logs.drafts.draft_names import guess_unit, split_words
from mindyn.logs.formats.array_table import ArrayTable
from mindyn.logs.formats.formats import open_table
from mindyn.logs.formats.lerobot_table import INFO_FILE, is_lerobot_folder, match_motor_names
from mindyn.logs.formats.tables import LogTable, raise_as_damaged
from mindyn.logs.formats.text_table import TextTable
from mindyn.logs.log_errors import LogError
from mindyn.logs.metadata import LogMetadata
from mindyn.logs.number_checks import DEFAULT_REACH_RAD, reachable_positions
from mindyn.logs.time_stamps import count_restarts, estimate_usual_step
from mindyn.logs.units import UNIT_FACTORS
from mindyn.robots.parts import Joint, Link
from mindyn.robots.robot import Robot

DRAFT_ROWS: Final = 20_000
"""Rows that a draft is based on."""
LONG_DRAFT_ROWS: Final = 20 * DRAFT_ROWS
"""Number of rows that are read if nothing moves in the first `DRAFT_ROWS`: recordings often start before the motion."""
MIN_NUMBER_FRACTION: Final = 0.5
"""Smallest fraction of numeric cells in a column of numbers."""


@dataclass(frozen=True, slots=True, eq=False)
class LogHead:
    """First rows of a log.

    columns   name -> (rows,) numbers, or (rows, k) if a cell holds k numbers
    words     name -> first cell of a column without numbers
    metadata  metadata that the format itself defines (see `LogMetadata`)
    notes     notes on the file
    units     name -> unit from a line of units
    empty     columns without any value
    is_named  whether the file names its columns
    """

    columns: Mapping[str, NDArray[Any]]
    words: Mapping[str, str]
    metadata: Mapping[str, Any]
    notes: tuple[str, ...]
    units: Mapping[str, str] = field(default_factory=dict)
    empty: tuple[str, ...] = ()
    is_named: bool = True


def read_log_head(
    path: Path,
    robot: Robot | None,
    rows: int = DRAFT_ROWS,
    metadata: LogMetadata = LogMetadata(),  # noqa: B008
) -> LogHead:
    """Read the first rows of a log file. A bag needs the robot, because its joints are matched by name."""
    is_bag = path.is_dir() or path.suffix.lower() in (".db3", ".mcap")
    if robot is None and is_bag and not is_lerobot_folder(path):
        message = f"{path.name} is a bag, whose joints are matched by name with a robot"
        raise LogError(message, hint="give the robot after the log", code=Code.MISSING_VALUE, subject="robot")
    table = open_table(path, robot or _PLACEHOLDER_ROBOT, metadata)
    with raise_as_damaged(table.form, table.name):
        if isinstance(table, TextTable):
            head = _read_text_head(table, rows)
        elif isinstance(table, ArrayTable):
            head = _read_array_head(table, rows)
        else:
            head = _read_table_head(table, rows)
    if head.columns and not any(len(values) for values in head.columns.values()):
        raise LogError(f"{path.name} has no rows", code=Code.TOO_LITTLE_DATA, subject=path.name)
    return head


_PLACEHOLDER_ROBOT: Final = Robot(
    "placeholder", Link("base"), (Joint("joint", "revolute", "base", "tip"),), (Link("tip"),)
)
"""Robot for readers that require one but do not use it."""


def _read_text_head(table: TextTable, rows: int = DRAFT_ROWS) -> LogHead:
    cells, numbers = table.convert_texts(table.texts(rows))
    columns, words = {}, {}
    for name in cells.columns:
        values = numbers[name].to_numpy()
        filled = int(cells[name].is_not_null().sum())
        if filled and np.isfinite(values).sum() >= MIN_NUMBER_FRACTION * filled:
            columns[name] = values
        elif filled:
            words[name] = str(cells[name].drop_nulls()[0])
    empty = tuple(name for name in cells.columns if name and name not in columns and name not in words)
    return LogHead(columns, words, {}, table.notes, table.units, empty, table.is_named)


def _read_array_head(table: ArrayTable, rows: int = DRAFT_ROWS) -> LogHead:
    columns = table.head(rows)
    # Arrays of the most frequent length are recordings; others are settings.
    lengths = [len(values) for values in columns.values()]
    usual = max(set(lengths), key=lambda length: (lengths.count(length) * (length > 1), length), default=0)
    return LogHead({name: values for name, values in columns.items() if len(values) == usual}, {}, {}, ())


def _read_table_head(table: LogTable, rows: int = DRAFT_ROWS) -> LogHead:
    columns: dict[str, NDArray[Any]] = {}
    words = {}
    for name in table.names:
        try:
            chunk = next(iter(table.chunks([name], rows)), None)
        except LogError as error:
            if error.code is Code.DISAGREEMENT:  # the rows do not belong together, whatever the column
                raise
            words[name] = error.message
            continue
        if chunk is not None:
            columns[name] = chunk[name]
    return LogHead(_keep_equal_lengths(columns, table, rows), words, table.metadata, (*table.losses, *table.notes))


def _keep_equal_lengths(columns: Mapping[str, NDArray[Any]], table: LogTable, rows: int) -> Mapping[str, NDArray[Any]]:
    """Return the columns at the most frequent number of rows: in a bag, messages of a gripper contain no joint of the
    arm.
    """
    lengths = Counter(len(values) for values in columns.values())
    if len(lengths) < 2:
        return columns
    usual = max(lengths, key=lambda length: (lengths[length], length))
    whole = next(name for name, values in columns.items() if len(values) == usual)
    shared = {}
    for name, values in columns.items():
        taken = values if len(values) == usual else next(iter(table.chunks([name, whole], rows)), {name: ()})[name]
        if len(taken) == usual:
            shared[name] = np.asarray(taken)
    return shared


def read_lerobot_names(path: Path, array: str, joints: Sequence[str]) -> list[str] | None:
    """Read the names of an array's columns from LeRobot's meta/info.json, with joints by the robot's names."""
    for folder in list(path.resolve().parents)[:3]:
        info = folder / INFO_FILE
        if info.is_file():
            return match_motor_names(read_json(info, "LeRobot's info.json", LogError), array, joints)
    return None


USUAL_RATES_HZ: Final = (10.0, 5000.0)
MAX_RATE_IN_SECONDS_HZ: Final = 20_000.0
"""Largest rate that is accepted if only seconds fit: a step of 0.15 belongs to a slow log in s, not to one in ms."""
MIN_CHANGED_FRACTION: Final = 0.3
"""Smallest fraction of rows that have a new stamp, in a column of time; logs may contain repeated rows."""
MIN_POSITION_RANGE: Final = 1e-3
"""Range of positions (rad, deg, m or mm) below which velocity and torque give no evidence."""
LAST_TICK: Final = 4095
MIN_REGISTER_PEAK: Final = 720
"""Positions beyond this (two turns in degrees) are ticks of an encoder, not degrees."""
NORMALISED_PEAK: Final = 100.0
"""Largest value of normalised positions."""
MIN_SQUARED_CORRELATION: Final = 0.5
"""Smallest squared correlation of a velocity and its position; measured arms have 0.9 and more."""
MIN_RADIAN_PEAK: Final = 0.2
"""A smaller peak (in rad) may also be in degrees."""
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
"""Words of time columns, the most likely first: the stamp of a message is better than that of the recorder."""
UNIFORM_STEP_TOLERANCE: Final = 0.05
MAX_UNEVENNESS: Final = 0.5
MIN_EVEN_FRACTION: Final = 0.95
"""Columns without a name are stamps if nearly all steps differ from the median by less than half of it; no motion has
such even steps.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Clock:
    """Time of a log.

    columns  the column of stamps, or the columns of seconds and nanoseconds; empty without time
    unit     unit of the stamps; None if unknown
    seconds  (rows,) s since the first row; None if unknown
    rate_hz  rate of a log without time; None if unknown
    """

    columns: tuple[str, ...] = ()
    unit: str | None = None
    seconds: Array | None = None
    evidence: str = "no column of the file is a time"
    rate_hz: float | None = None

    @property
    def restarts(self) -> int:
        """Number of times that the clock restarts."""
        return 0 if self.seconds is None else count_restarts(self.seconds)


def detect_clock(head: LogHead, given: str | None = None) -> Clock:
    """Detect the clock of a log from column names, a line of units, and usual rates of robot logs.

    If the columns have no names, a column with even steps other than 1 is the time.

    given  column of stamps that the user names
    """
    columns = head.columns
    ranks = {name: _time_rank(name) if head.is_named else _even_rank(columns[name]) for name in columns}
    ranks = ranks if given is None else {given: 0}
    named = [(rank, name) for name, rank in ranks.items() if rank is not None and columns[name].ndim == 1]
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
        unit_words = split_words(head.units.get(name, ""))
        named_unit = guess_unit("time", (*split_words(name), *unit_words), unit_words or split_words(name)[-1:])
        fitting = [unit for unit, size in UNIT_FACTORS["time"].items() if _is_usual_rate(1 / (step * size))]
        fitting = fitting or (["s"] if USUAL_RATES_HZ[1] < 1 / step <= MAX_RATE_IN_SECONDS_HZ else [])
        unit = named_unit if named_unit in fitting or not fitting else fitting[0]
        if unit is None:
            return Clock((name,), None, None, f"a step of {step:.4g} is not a usual rate in any unit of time")
        seconds = np.asarray((stamps - stamps[0]) * UNIT_FACTORS["time"][unit])
        how = "unit from the name" if unit == named_unit else "the unit that gives a usual rate"
        return Clock((name,), unit, seconds, f"{_describe_rate(seconds)}; {how}")
    return Clock(evidence=f"{unused} does not increase from row to row, or has missing values") if unused else Clock()


def _time_rank(name: str) -> int | None:
    words = split_words(name)
    ranks = [TIME_WORDS.index(word) for word in words if word in TIME_WORDS]
    return min(ranks) if ranks and not {"delta", "dt", "disc"} & set(words) else None


def _even_rank(stamps: NDArray[Any]) -> int | None:
    """Return 0 for a column that increases evenly, as stamps do; None for other columns and for a counter of rows."""
    steps = np.diff(stamps) if stamps.ndim == 1 else np.zeros(1)
    typical = float(np.median(steps)) if len(steps) else 0.0
    even = typical > 0 and typical != 1 and (np.abs(steps / typical - 1) < MAX_UNEVENNESS).mean() > MIN_EVEN_FRACTION
    return 0 if even else None


def _find_nanoseconds(name: str, columns: Mapping[str, NDArray[Any]]) -> str | None:
    """Return the column of nanoseconds for a column of seconds: `header.stamp.nanosec` for `header.stamp.sec`."""
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
    """Return whether no position changes."""
    return largest_magnitude(np.fmax.reduce(q, axis=0) - np.fmin.reduce(q, axis=0)) < MIN_POSITION_RANGE


def fitting_velocity_units(position: str, slope: float, kind: str) -> list[str]:
    """Return the possible units of a velocity that is `slope` times the derivative of a position in the unit
    `position`.
    """
    sizes = {unit: UNIT_FACTORS["position"][position] / size for unit, size in UNIT_FACTORS["velocity"].items()}
    linear = kind == "prismatic"
    return [u for u, ratio in sizes.items() if u.startswith(("m/", "mm/")) == linear and 0.7 < slope / ratio < 1.4]


@dataclass(frozen=True, slots=True)
class Guess:
    """Guessed unit or side with its evidence; the value is None if the log does not determine it."""

    value: str | None
    evidence: str


def is_normalised(q: Array) -> bool:
    """Return whether positions are normalised to -100 ... 100 as by LeRobot: the largest is 100."""
    peaks = np.nanmax(np.abs(q), axis=0)
    return bool((peaks <= NORMALISED_PEAK + 1e-3).all() and (np.abs(peaks - NORMALISED_PEAK) < 1e-3).any())


def is_register(q: Array) -> bool:
    """Return whether positions are ticks of an encoder: whole numbers from 0 to 4095 around the middle."""
    known = q[np.isfinite(q)]
    is_whole = bool(len(known)) and bool((known == np.round(known)).all())
    return is_whole and known.min() >= 0 and LAST_TICK >= known.max() > MIN_REGISTER_PEAK


def largest_magnitude(values: Array) -> float:
    """Return the largest |value|, ignoring NaN; 0 without values."""
    return float(np.fmax.reduce(np.abs(values), axis=None, initial=0.0))


def guess_position_unit(q: Array, robot: Robot | None, kinds: Sequence[str]) -> Guess:
    """Guess rad or deg (m or mm) from the range of the positions and the robot's limits."""
    peak = largest_magnitude(q)
    if kinds and all(kind == "prismatic" for kind in kinds):
        return Guess("mm" if peak > 20 else "m", f"the largest is {peak:.4g}")
    reach = np.full(q.shape[1], DEFAULT_REACH_RAD) if robot is None else reachable_positions(robot)
    peaks = np.fmax.reduce(np.abs(q), axis=0, initial=0.0)[: len(reach)]
    over = float((peaks / reach).max())
    where = "the limits" if robot is not None else "two turns"
    if over <= 1.05 and peak >= MIN_RADIAN_PEAK:
        return Guess("rad", f"up to {peak:.3g}, within {where} in rad")
    as_degrees = float((np.deg2rad(peaks) / reach).max())
    if peak > 2 * pi and over > 2 and as_degrees <= 1.2:
        return Guess(None, f"up to {peak:.4g}: deg at the joints, or rad at motors with gears")
    return Guess(None, f"up to {peak:.4g}")


def guess_position_side(q: Array, unit: str, robot: Robot | None) -> Guess:
    """Guess that positions are those of the joints, if they lie within the robot's limits."""
    if robot is None:
        return Guess(None, "no robot is given")
    values = np.fmax.reduce(np.abs(q), axis=0, initial=0.0)[: robot.joint_count] * UNIT_FACTORS["position"][unit]
    over = float((values / reachable_positions(robot)).max())
    if over <= 1.5:
        return Guess("joint", f"at most {100 * over:.0f} % of the limits")
    cause = "probably at the motors" if over > 5 else "another zero, or at the motors"
    return Guess(None, f"{over:.3g} times the limits: {cause}")
