"""`Statement`: what a log's columns mean, in the words of its sidecar file and its caller."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final

from mindyn.errors import did_you_mean, shortened
from mindyn.logs.findings import FINDINGS, Faults, LogError
from mindyn.logs.places import Place
from mindyn.logs.units import UNITS
from mindyn.reading import LARGEST_SETTINGS, limited, parse_toml, read_toml

SIGNALS: Final = ("position", "velocity", "acceleration", "torque")
ColumnNames = str | Sequence[str] | Mapping[str, str]
SEPARATORS: Final = (",", ";", "\t", " ")
"""Of text files, in the order in which they are tried: names may hold spaces."""
MOST_SKIPPED: Final = 1000
"""Lines that may stand between the names of a text file and its numbers."""
PerJoint = Mapping[str, float] | Sequence[float]


@dataclass(frozen=True, slots=True)
class Statement:
    """What the columns of a log mean; the keys of its sidecar TOML file.

    columns          time and, for each signal (position, velocity, acceleration, torque), a pattern ("q{i}" counts
                     joints from 1, "q{i0}" from 0, "{joint}.position" is by name), n names in the robot's order, a
                     table joint -> column, or the name of one array with a column for each of `joints`; time may
                     also be two columns, of seconds and nanoseconds
    units            unit of time and of each signal (see `units.UNITS`); for one signal, also a table joint -> unit
    side             "motor" or "joint", for all signals or for each in a table; column j is then the motor of joint j
    joints           joint names in the order of an array's columns, or in that in which patterns count; names that the
                     robot has not stand for columns that are not used
    files            signal -> another file, beside the log, that holds its columns row by row
    gears            G of q_motor = G q_joint: n ratios or an n x n matrix in the robot's order; else the robot's drives
    current_gains    N m/A (N/A) at the torque's side, in the robot's order or by joint
    drive_gains      factor on the torque of each joint, after units and gears, as `mindyn.drive_gains` finds them
    position_offset  added to the joint's position, in the position's unit, in the robot's order or by joint
    rate_hz          rows are uniform at this rate (then no time column is read)
    topic            JointState topic of a bag
    separator        between the cells of a text file: ",", ";", "\\t" or " " (any number of blanks); else told from it
    decimal          of the numbers of a text file: "." or ","; else told from its first row
    skip_rows        lines of a text file after its line of names that are left out, such as one of units
    rows             [first, end]: rows of the file that are used, counted from 0, without the last
    times            [first, last]: s after the first row of the file; what lies between is used
    gravity, mount   of the robot when the log was made, as `load_robot` takes them
    draft            true in a sidecar that `mindyn log` wrote and nobody confirmed: it is refused
    accept           findings that are right in this log (see `findings.FINDINGS`)
    """

    columns: Mapping[str, ColumnNames] = field(default_factory=dict)
    units: Mapping[str, str | Mapping[str, str]] = field(default_factory=dict)
    side: str | Mapping[str, str] | None = None
    joints: Sequence[str] | None = None
    files: Mapping[str, str] = field(default_factory=dict)
    gears: Sequence[float] | Sequence[Sequence[float]] | None = None
    current_gains: PerJoint | None = None
    drive_gains: PerJoint | None = None
    position_offset: PerJoint | None = None
    rate_hz: float | None = None
    topic: str | None = None
    separator: str | None = None
    decimal: str | None = None
    skip_rows: int = 0
    rows: Sequence[int] | None = None
    times: Sequence[float] | None = None
    gravity: Sequence[float] | None = None
    mount: str | Sequence[float] | None = None
    draft: bool = False
    accept: Sequence[str] = ()

    def __post_init__(self) -> None:
        faults = Faults()
        for entry in fields(self):
            for fault in faults_of(entry.name, getattr(self, entry.name)):
                faults.found.append(fault)
        faults.raise_all("the log")

    def unit(self, signal: str, joint: str) -> str:
        """The stated unit of a signal of a joint; refuses to guess one."""
        stated = self.units.get(signal)
        if isinstance(stated, Mapping):
            stated = stated.get(joint)
        if stated is None:
            example = next(iter(UNITS[signal]))
            raise LogError(
                f"no unit is stated for {signal}" + (f" of joint {joint!r}" if joint else ""),
                hint=f'state units.{signal} = "{example}" (or {", ".join(list(UNITS[signal])[1:])}) {WHERE}',
            )
        return stated

    def side_of(self, signal: str) -> str:
        """Whether a signal was measured at the motor or at the joint; refuses to guess."""
        side = self.side.get(signal) if isinstance(self.side, Mapping) else self.side
        if side is None:
            raise LogError(
                f"the side of {signal} is not stated: motor values differ from joint values by the gears",
                hint=f'state side = "motor" or "joint", or side.{signal} = ..., {WHERE}',
            )
        return side

    def merged(self, over: Mapping[str, Any]) -> Statement:
        """The statement with the keys of `over` put above it; the tables columns, units and files key by key."""
        made, wrong = self.merged_sound(over)
        faults = Faults()
        faults.found.extend(wrong)
        faults.raise_all("the log")
        return made

    def merged_sound(self, over: Mapping[str, Any]) -> tuple[Statement, list[LogError]]:
        """The statement with those keys of `over` that can be meant so put above it, and the faults of the others."""
        values = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        faults = [fault for key in over if (fault := _unknown("the log's statement", key, tuple(values)))]
        for name, value in over.items():
            wrong = faults_of(name, value) if name in values else []
            faults += wrong
            if name in values and not wrong:
                both = isinstance(value, Mapping) and isinstance(values[name], Mapping)
                values[name] = {**values[name], **value} if both else value
        return Statement(**values), faults


WHERE: Final = "in the log's sidecar file or in the call"


def _unknown(what: str, key: object, valid: Sequence[str]) -> LogError | None:
    if key in valid:
        return None
    return LogError(f"{what} has no entry {key!r}; it may have: {', '.join(valid)}", hint=did_you_mean(key, valid, ""))


def faults_of(key: str, value: Any) -> list[LogError]:
    """What is wrong with the value of one key of a statement, whatever the log and the robot are."""
    if value is None and key in _MAY_BE_LEFT_OUT:
        return []
    if value == "?":
        return [LogError(f"{key} is still a question", hint=f"put what is right in place of the ? {WHERE}")]
    if key in _TABLES and not isinstance(value, Mapping):
        return [LogError(f"{key} = {value!r} must be a table", hint=f"like {_TABLES[key]}")]
    if key in _LISTS and (isinstance(value, str) or not isinstance(value, Sequence | Mapping)):
        return [LogError(f"{key} = {shortened(repr(value), 100)} must be a list", hint=f"like {_LISTS[key]}")]
    questions = [f"{key}.{entry}" for entry, one in value.items() if one == "?"] if isinstance(value, Mapping) else []
    asked = [
        LogError(f"{one} is still a question", hint=f"put what is right in place of the ? {WHERE}") for one in questions
    ]
    return [*asked, *_FAULTS.get(key, lambda _: [])(value)]


def _entry_faults(what: str, valid: Sequence[str]) -> Callable[[Any], list[LogError]]:
    return lambda given: [fault for key in given if (fault := _unknown(what, key, valid))]


def _one_of(key: str, valid: Sequence[str]) -> Callable[[Any], list[LogError]]:
    def faults(value: object) -> list[LogError]:
        if value in valid:
            return []
        return [LogError(f"{key} = {value!r}; it may be: {', '.join(map(repr, valid))}")]

    return faults


def _side_faults(side: Any) -> list[LogError]:
    given = side if isinstance(side, Mapping) else {"": side}
    found = [fault for signal in given if signal and (fault := _unknown("side", signal, SIGNALS))]
    wrong = [one for one in given.values() if one not in (None, "?", "motor", "joint")]
    return [*found, *(LogError(f'side = {one!r}: state "motor" or "joint"') for one in wrong)]


def _skip_faults(rows: Any) -> list[LogError]:
    if type(rows) is int and 0 <= rows <= MOST_SKIPPED:
        return []
    return [LogError(f"skip_rows = {rows!r} must be a number of lines, at most {MOST_SKIPPED}")]


def _rate_faults(rate: Any) -> list[LogError]:
    if isinstance(rate, int | float) and not isinstance(rate, bool) and rate > 0:
        return []
    return [LogError(f"rate_hz = {rate!r} must be positive")]


def _range_faults(key: str, example: str) -> Callable[[Any], list[LogError]]:
    """Of two numbers, first and last, the first not below zero; rows are whole."""

    def faults(ends: Any) -> list[LogError]:
        kinds = int if key == "rows" else int | float
        numbers = [end for end in ends if isinstance(end, kinds) and not isinstance(end, bool)]
        if len(ends) == len(numbers) == 2 and 0 <= numbers[0] < numbers[1]:
            return []
        return [
            LogError(f"{key} = {ends!r} must be two numbers, the first not below 0, the second larger", hint=example)
        ]

    return faults


def _draft_faults(draft: Any) -> list[LogError]:
    if draft is False:
        return []
    return [
        LogError(
            "the sidecar file is a draft: nobody has confirmed it",
            hint="look at its lines, put what is right for each ?, and delete the line `draft = true`; "
            "`mindyn log LOG ROBOT --confirm` does that where no ? is left",
        )
    ]


_TABLES: Final = {
    "columns": 'columns = { time = "t", position = "q{i}", torque = "tau{i}" }',
    "units": 'units = { time = "s", position = "rad", torque = "N m" }',
    "files": 'files = { torque = "torque.csv" }',
}
_LISTS: Final = {
    "accept": 'accept = ["rate"]',
    "joints": 'joints = ["shoulder", "elbow"]',
    "rows": "rows = [100, 5000]",
    "times": "times = [0.5, 20.0]",
    "gravity": "gravity = [0, 0, -9.81]",
    "gears": "gears = [100, 100]",
    "current_gains": "current_gains = [11.2, 11.2]",
    "drive_gains": "drive_gains = [1.05, 0.97]",
    "position_offset": "position_offset = [0, 0]",
}
_FAULTS: Final[dict[str, Callable[[Any], list[LogError]]]] = {
    "columns": _entry_faults("columns", ("time", *SIGNALS)),
    "units": _entry_faults("units", tuple(UNITS)),
    "files": _entry_faults("files", SIGNALS),
    "accept": _entry_faults("accept", FINDINGS),
    "side": _side_faults,
    "separator": _one_of("separator", SEPARATORS),
    "decimal": _one_of("decimal", (".", ",")),
    "skip_rows": _skip_faults,
    "rate_hz": _rate_faults,
    "rows": _range_faults("rows", "rows = [100, 5000] takes the rows 100 to 4999 of the file, counted from 0"),
    "times": _range_faults("times", "times = [0.5, 20.0] takes what lies so many seconds after the first row"),
    "draft": _draft_faults,
}
_MAY_BE_LEFT_OUT: Final = (
    *(
        "side",
        "joints",
        "gears",
        "current_gains",
        "drive_gains",
        "position_offset",
        "rate_hz",
        "topic",
        "separator",
        "decimal",
    ),
    *("rows", "times", "gravity", "mount"),
)


SHARED_SIDECAR: Final = "logs.toml"
"""Says what is in all logs of its folder that have no sidecar of their own."""


def sidecar_path(path: Place) -> Place | None:
    """`run1.parquet.toml` or `run1.log.toml` beside `run1.parquet`, else `logs.toml`; None when there is none."""
    if isinstance(path, Path) and not path.name:  # the folder one stands in, a bag
        path = path.absolute()
    candidates: list[Place] = [path.with_name(path.name + ".toml"), path.with_name(path.stem + ".log.toml")]
    try:
        found = [candidate for candidate in candidates if candidate.exists()]
        if not found and (shared := path.parent / SHARED_SIDECAR).exists():
            return shared
    except (OSError, ValueError):  # a name that the system does not take: the log itself is refused for it
        return None
    if len(found) > 1:
        raise LogError(f"{path.name} has two sidecar files, {found[0].name} and {found[1].name}; keep one")
    return found[0] if found else None


def read_sidecar(path: Place) -> Mapping[str, Any]:
    """The keys of the log's sidecar file; empty when it has none."""
    sidecar = sidecar_path(path)
    return {} if sidecar is None else statement_of(sidecar)


def statement_of(sidecar: Place) -> Mapping[str, Any]:
    """The keys of a sidecar file."""
    if isinstance(sidecar, Path):
        return read_toml(sidecar, "sidecar file", LogError)
    if (size := sidecar.info().size) > LARGEST_SETTINGS and limited():
        raise LogError(f"{sidecar.name} has {size} bytes; a sidecar file has at most {LARGEST_SETTINGS}")
    return parse_toml(sidecar.read_text(), sidecar.name, LogError)
