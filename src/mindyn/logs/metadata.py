"""`LogMetadata`: what a log's columns mean, in the words of its sidecar file and its caller."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final

from mindyn.errors import suggest_name
from mindyn.logs.errors import ACCEPTABLE_FINDINGS, FaultCollector, LogError
from mindyn.logs.locations import FileLocation
from mindyn.logs.units import UNIT_FACTORS
from mindyn.reading import MAX_SETTINGS_BYTES, are_limits_active, parse_toml, read_toml
from mindyn.schemas import (
    ANY_NUMBER,
    ANY_TEXT,
    POSITIVE_NUMBER,
    Schema,
    allow_also,
    find_violations,
    list_schema,
    quote_value,
    table_schema,
)

SIGNALS: Final = ("position", "velocity", "acceleration", "torque")
ColumnNames = str | Sequence[str] | Mapping[str, str]
SEPARATORS: Final = (",", ";", "\t", " ")
"""Of text files, in the order in which they are tried: names may hold spaces."""
MAX_SKIPPED_ROWS: Final = 1000
"""Lines that may stand between the names of a text file and its numbers."""
PerJoint = Mapping[str, float] | Sequence[float]


@dataclass(frozen=True, slots=True)
class LogMetadata:
    """What the columns of a log mean; the keys of its sidecar TOML file.

    columns          time and, for each signal (position, velocity, acceleration, torque), a pattern ("q{i}" counts
                     joints from 1, "q{i0}" from 0, "{joint}.position" is by name), n names in the robot's order, a
                     table joint -> column, or the name of one array with a column for each of `joints`; time may
                     also be two columns, of seconds and nanoseconds
    units            unit of time and of each signal (see `units.UNIT_FACTORS`); for one signal, also a table joint
                     -> unit
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
    accept           findings that are right in this log (see `findings.ACCEPTABLE_FINDINGS`)
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
        faults = FaultCollector()
        for entry in fields(self):
            for fault in find_key_faults(entry.name, getattr(self, entry.name)):
                faults.found.append(fault)
        faults.raise_all("the log")

    def unit(self, signal: str, joint: str) -> str:
        """The stated unit of a signal of a joint; refuses to guess one."""
        stated = self.units.get(signal)
        if isinstance(stated, Mapping):
            stated = stated.get(joint)
        if stated is None:
            example = next(iter(UNIT_FACTORS[signal]))
            raise LogError(
                f"no unit is stated for {signal}" + (f" of joint {joint!r}" if joint else ""),
                hint=f'state units.{signal} = "{example}" (or {", ".join(list(UNIT_FACTORS[signal])[1:])}) {METADATA_LOCATION}',
            )
        return stated

    def side_of(self, signal: str) -> str:
        """Whether a signal was measured at the motor or at the joint; refuses to guess."""
        side = self.side.get(signal) if isinstance(self.side, Mapping) else self.side
        if side is None:
            raise LogError(
                f"the side of {signal} is not stated: motor values differ from joint values by the gears",
                hint=f'state side = "motor" or "joint", or side.{signal} = ..., {METADATA_LOCATION}',
            )
        return side

    def merged(self, over: Mapping[str, Any]) -> LogMetadata:
        """The statement with the keys of `over` put above it; the tables columns, units and files key by key."""
        made, wrong = self.merged_sound(over)
        faults = FaultCollector()
        faults.found.extend(wrong)
        faults.raise_all("the log")
        return made

    def merged_sound(self, over: Mapping[str, Any]) -> tuple[LogMetadata, list[LogError]]:
        """The statement with those keys of `over` that can be meant so put above it, and the faults of the others."""
        values = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        faults = []
        for name, value in over.items():
            wrong = find_key_faults(name, value) if name in values else [_unknown_key_error(name)]
            faults += wrong
            if not wrong:
                both = isinstance(value, Mapping) and isinstance(values[name], Mapping)
                values[name] = {**values[name], **value} if both else value
        return LogMetadata(**values), faults


METADATA_LOCATION: Final = "in the log's sidecar file or in the call"


def find_key_faults(key: str, value: Any) -> list[LogError]:
    """Return what is wrong with the value of one key of a statement, whatever the log and the robot are."""
    if key == "draft" and value is True:
        return [LogError("the sidecar file is a draft: nobody has confirmed it", hint=_CONFIRM_HINT)]
    entries = value if isinstance(value, Mapping) else {}
    asked = [key] if _is_question(value) else [f"{key}.{name}" for name, one in entries.items() if _is_question(one)]
    known = {name: one for name, one in entries.items() if not _is_question(one)} if entries else value
    found = [
        LogError(f"{one} is still a question", hint=f"put what is right in place of the ? {METADATA_LOCATION}")
        for one in asked
    ]
    if not _is_question(value):
        found += [
            LogError(one.message, hint=one.hint)
            for one in find_violations(known, SIDECAR_SCHEMA["properties"][key], key)
        ]
    if key in ("rows", "times") and not found and value is not None and not value[0] < value[1]:
        found.append(LogError(f"{key} = {quote_value(value)} must begin before it ends", hint=f"like {_EXAMPLES[key]}"))
    return found


def _unknown_key_error(key: object) -> LogError:
    keys = SIDECAR_SCHEMA["properties"]
    message = f"the log's statement has no entry {quote_value(key)}; it may have: {', '.join(keys)}"
    return LogError(message, hint=suggest_name(key, keys, ""))


def _is_question(value: object) -> bool:
    return isinstance(value, str) and value == "?"


_CONFIRM_HINT: Final = (
    "look at its lines, put what is right for each ?, and delete the line `draft = true`; "
    "`mindyn log LOG ROBOT --confirm` does that where no ? is left"
)
_EXAMPLES: Final = {
    "columns": 'columns = { time = "t", position = "q{i}", torque = "tau{i}" }',
    "units": 'units = { time = "s", position = "rad", torque = "N m" }',
    "side": 'side = "motor", or side = { position = "motor", torque = "joint" }',
    "files": 'files = { torque = "torque.csv" }',
    "accept": 'accept = ["rate"]',
    "joints": 'joints = ["shoulder", "elbow"]',
    "rows": "rows = [100, 5000], which takes the rows 100 to 4999 of the file, counted from 0",
    "times": "times = [0.5, 20.0], which takes what lies so many seconds after the first row",
    "gravity": "gravity = [0, 0, -9.81]",
    "gears": "gears = [100, 100]",
    "current_gains": "current_gains = [11.2, 11.2]",
    "drive_gains": "drive_gains = [1.05, 0.97]",
    "position_offset": "position_offset = [0, 0]",
    "rate_hz": "rate_hz = 1000",
}
_SIDE: Final = allow_also({}, "motor", "joint")
_PER_JOINT: Final = list_schema(ANY_NUMBER, "object", "null")
_PER_JOINT_TEXT: Final[Schema] = {"type": ["string", "object"], "additionalProperties": ANY_TEXT}
_ROW: Final = {"type": "integer", "minimum": 0, "maximum": 2**53}
_KEYS: Final[Mapping[str, Schema]] = {
    "columns": table_schema(
        {},
        {"time": list_schema(ANY_TEXT, "string"), **dict.fromkeys(SIGNALS, list_schema(ANY_TEXT, "string", "object"))},
    ),
    "units": table_schema({}, {"time": ANY_TEXT, **dict.fromkeys(SIGNALS, _PER_JOINT_TEXT)}),
    "side": {
        **table_schema({}, dict.fromkeys(SIGNALS, _SIDE)),
        **allow_also({"type": "object"}, "motor", "joint", null=True),
    },
    "joints": list_schema(ANY_TEXT, "null"),
    "files": table_schema({}, dict.fromkeys(SIGNALS, ANY_TEXT)),
    "gears": list_schema(list_schema(ANY_NUMBER, "number"), "null"),
    "current_gains": _PER_JOINT,
    "drive_gains": _PER_JOINT,
    "position_offset": _PER_JOINT,
    "rate_hz": allow_also(POSITIVE_NUMBER, null=True),
    "topic": allow_also(ANY_TEXT, null=True),
    "separator": {"enum": [*SEPARATORS, None]},
    "decimal": {"enum": [".", ",", None]},
    "skip_rows": {"type": "integer", "minimum": 0, "maximum": MAX_SKIPPED_ROWS},
    "rows": list_schema(_ROW, "null", minItems=2, maxItems=2),
    "times": list_schema({"type": "number", "minimum": 0}, "null", minItems=2, maxItems=2),
    "gravity": list_schema(ANY_NUMBER, "null", minItems=3, maxItems=3),
    "mount": list_schema(ANY_NUMBER, "string", "null", minItems=3, maxItems=3),
    "draft": {"type": "boolean"},
    "accept": list_schema({"enum": ACCEPTABLE_FINDINGS}),
}
SIDECAR_SCHEMA: Final[Schema] = {
    "title": "The sidecar file of a log",
    **table_schema(
        {}, {key: {**one, **({"examples": [_EXAMPLES[key]]} if key in _EXAMPLES else {})} for key, one in _KEYS.items()}
    ),
}
"""The JSON Schema of a sidecar file: the keys of `LogMetadata`."""


SHARED_SIDECAR_NAME: Final = "logs.toml"
"""Says what is in all logs of its folder that have no sidecar of their own."""


def find_sidecar(path: FileLocation) -> FileLocation | None:
    """`run1.parquet.toml` or `run1.log.toml` beside `run1.parquet`, else `logs.toml`; None when there is none."""
    if isinstance(path, Path) and not path.name:  # the folder one stands in, a bag
        path = path.absolute()
    candidates: list[FileLocation] = [path.with_name(path.name + ".toml"), path.with_name(path.stem + ".log.toml")]
    try:
        found = [candidate for candidate in candidates if candidate.exists()]
        if not found and (shared := path.parent / SHARED_SIDECAR_NAME).exists():
            return shared
    except (OSError, ValueError):  # a name that the system does not take: the log itself is refused for it
        return None
    if len(found) > 1:
        raise LogError(f"{path.name} has two sidecar files, {found[0].name} and {found[1].name}; keep one")
    return found[0] if found else None


def read_sidecar(path: FileLocation) -> Mapping[str, Any]:
    """The keys of the log's sidecar file; empty when it has none."""
    sidecar = find_sidecar(path)
    return {} if sidecar is None else parse_sidecar(sidecar)


def parse_sidecar(sidecar: FileLocation) -> Mapping[str, Any]:
    """The keys of a sidecar file."""
    if isinstance(sidecar, Path):
        return read_toml(sidecar, "sidecar file", LogError)
    if (size := sidecar.info().size) > MAX_SETTINGS_BYTES and are_limits_active():
        raise LogError(f"{sidecar.name} has {size} bytes; a sidecar file has at most {MAX_SETTINGS_BYTES}")
    return parse_toml(sidecar.read_text(), sidecar.name, LogError)
