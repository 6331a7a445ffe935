"""`LogMetadata`: the meaning of a log's columns, from its sidecar file and the call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final

from mindyn.foundation.errors import Code, suggest_name
from mindyn.foundation.hints import Command
from mindyn.foundation.safe_reading import MAX_SETTINGS_BYTES, are_limits_active, parse_toml, read_settings_toml
from mindyn.foundation.schemas import (
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
from mindyn.logs.locations import FileLocation
from mindyn.logs.log_errors import ACCEPTABLE_FINDINGS, LogError, raise_together
from mindyn.logs.servo_presets import PerJointServo
from mindyn.logs.units import UNIT_FACTORS
from mindyn.robots.robot import Robot

SIGNALS: Final = ("position", "velocity", "acceleration", "torque", "target", "target_velocity", "motor_position")
TARGET_SIGNALS: Final = ("target", "target_velocity")
"""Targets of a position servo, which has a torque by its gains; used if the log has no torque."""
ColumnNames = str | Sequence[str] | Mapping[str, str]
SEPARATORS: Final = (",", ";", "\t", " ")
"""Separators of text files, in the order in which they are tried: names may contain spaces."""
MAX_SKIPPED_ROWS: Final = 1000
"""Most lines between the names of a text file and its numbers."""
PerJoint = Mapping[str, float] | Sequence[float]
UNKNOWN: Final = "unknown"
PerJointGain = str | Mapping[str, float | str] | Sequence[float | str]
"""Gains in the robot's order or by joint; "unknown" for all joints or for some joints."""


@dataclass(frozen=True, slots=True)
class LogMetadata:
    """Meaning of a log's columns; the fields are the keys of its sidecar TOML file.

    columns          time and, for each signal (position, velocity, acceleration, torque, target, target_velocity,
                     motor_position), a pattern ("q{i}" counts joints from 1, "q{i0}" from 0, "{joint}.position" is by
                     name), n names in the robot's order, a table joint -> column, or the name of an array with a column
                     for each of `joints`; time may also be two columns, of seconds and nanoseconds. motor_position is
                     a second encoder at the motors of elastic joints, where position is that of the links
    units            unit of time and of each signal (see `units.UNIT_FACTORS`), or a table joint -> unit; targets and
                     motor_position have the units of the position by default
    side             "motor" or "joint", for all signals or as a table of signals; column j is the motor of joint j;
                     targets have the side of the position by default
    joints           joint names in the order of an array's columns, or in the order that patterns count; names that the
                     robot does not have mark unused columns
    files            signal -> another file in the log's folder that holds its columns row by row
    gears            G of q_motor = G q_joint: n ratios or an n x n matrix in the robot's order; by default from the
                     robot's drives
    current_gains    N m/A (N/A) at the side of the torque, in the robot's order or by joint; "unknown", or "unknown"
                     for some joints: `identify` estimates them
    kp, kd           gains of position servos at the joint, N m/rad and N m s/rad (N/m, N s/m), in the robot's order or
                     by joint: tau = kp (target - q) + kd (target_velocity - qd); kd = 0 by default; "unknown" as for
                     current_gains
    servo            model of the servos, such as "sts3215" or "xl330", or a table joint -> model: the meaning of the
                     units "tick" (positions, targets) and "count" (velocities, currents), and whether its current is a
                     torque; ticks are zero at the middle of the register unless position_offset is given
    torque_sensor    true if the torque is that of sensors at the links, after gears, rotors and motor friction
    target_delay_s   time from the stamp of a target to its effect on the torque, s
    torque_limit     largest |tau| of a servo, N m (N), in the robot's order or by joint
    base_pose        columns of position (m) and quaternion x, y, z, w of the trunk of a floating base; the other
                     columns are then those of the joints after the base
    phases           contact states of a floating base: tables with times = [first, last] in s (default: all rows) and
                     trunk = "held" (by an unknown wrench), contacts = [frames] with unknown wrenches, contact = "point"
                     (a force, default) or "surface", wrenches = { frame = [six columns] } of the moment and force on
                     the robot in the axes of the frame (N m, N); without these, the robot is in flight
    position_offset  added to the joint's position, in the unit of the position, in the robot's order or by joint
    rate_hz          rate of uniform rows; then no time column is read
    topic            JointState topic of a bag
    separator        separator of a text file: ",", ";", "\\t" or " " (any number of blanks); by default detected
    decimal          decimal mark of a text file: "." or ","; by default detected from its first row
    skip_rows        lines of a text file to skip after its line of names, such as a line of units
    rows             [first, end]: rows of the file to use, counted from 0, without the last
    draft            true in a sidecar that `mindyn log` wrote and nobody confirmed; such a sidecar raises an error
    accept           findings to accept in this log (see `errors.ACCEPTABLE_FINDINGS`)
    """

    columns: Mapping[str, ColumnNames] = field(default_factory=dict)
    units: Mapping[str, str | Mapping[str, str]] = field(default_factory=dict)
    side: str | Mapping[str, str] | None = None
    joints: Sequence[str] | None = None
    files: Mapping[str, str] = field(default_factory=dict)
    gears: Sequence[float] | Sequence[Sequence[float]] | None = None
    current_gains: PerJointGain | None = None
    kp: PerJointGain | None = None
    kd: PerJointGain | None = None
    servo: PerJointServo | None = None
    torque_sensor: bool = False
    target_delay_s: float = 0.0
    torque_limit: PerJoint | None = None
    base_pose: Sequence[str] | None = None
    phases: Sequence[Mapping[str, Any]] = ()
    position_offset: PerJoint | None = None
    rate_hz: float | None = None
    topic: str | None = None
    separator: str | None = None
    decimal: str | None = None
    skip_rows: int = 0
    rows: Sequence[int] | None = None
    draft: bool = False
    accept: Sequence[str] = ()

    def __post_init__(self) -> None:
        raise_together(find_faults({key.name: getattr(self, key.name) for key in fields(self)}), "the log")

    @property
    def wrench_columns(self) -> dict[str, Sequence[str]]:
        """Return the six columns of each frame with a measured wrench in a phase."""
        return {frame: names for phase in self.phases for frame, names in phase.get("wrenches", {}).items()}

    def unit(self, signal: str, joint: str) -> str:
        """Return the unit of a signal of a joint; raise `LogError` if it is missing."""
        unit = self.units.get(signal)
        if unit is None and signal in (*TARGET_SIGNALS, "motor_position"):
            per_second = "/s" if signal == "target_velocity" else ""
            return f"{self.unit('position', joint)}{per_second}"
        if isinstance(unit, Mapping):
            unit = unit.get(joint)
        if unit is None:
            example, *others = UNIT_FACTORS[signal]
            raise LogError(
                f"the unit of {signal} is missing" + (f" for joint {joint!r}" if joint else ""),
                hint=f'set units.{signal} = "{example}" (or {", ".join(others)}) {METADATA_LOCATION}',
                code=Code.MISSING_VALUE,
                subject=f"units.{signal}",
            )
        return unit

    def side_of(self, signal: str) -> str:
        """Return the side ("motor" or "joint") of a signal; raise `LogError` if it is missing."""
        side = self.side.get(signal) if isinstance(self.side, Mapping) else self.side
        if side is None and signal in TARGET_SIGNALS:
            return self.side_of("position")
        if side is None:
            raise LogError(
                f"the side of {signal} is missing: motor values differ from joint values by the gears",
                hint=f'set side = "motor" or "joint", or side.{signal} = ..., {METADATA_LOCATION}',
                code=Code.MISSING_VALUE,
                subject=f"side.{signal}",
            )
        return side

    def merge_with(self, over: Mapping[str, Any]) -> LogMetadata:
        """Return the metadata updated with `over`; tables, such as columns and units, are merged key by key."""
        raise_together(find_faults(over), "the log")
        return LogMetadata(**merge_tables({entry.name: getattr(self, entry.name) for entry in fields(self)}, over))


def merge_tables(below: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of both tables.

    If both have a key, the value of `over` is used; nested tables are merged too.
    """
    merged = dict(below)
    for key, value in over.items():
        both = isinstance(value, Mapping) and isinstance(below.get(key), Mapping)
        merged[key] = {**below[key], **value} if both else value
    return merged


METADATA_LOCATION: Final = "in the log's sidecar file or in the call"


def find_faults(metadata: Mapping[str, Any]) -> list[LogError]:
    """Return the errors in keys and values that can be found without the log and the robot."""
    return [fault for key, value in metadata.items() for fault in find_key_faults(key, value)]


def find_key_faults(key: str, value: Any) -> list[LogError]:
    """Return the errors in a key and its value that can be found without the log and the robot."""
    if key not in SIDECAR_SCHEMA["properties"]:
        return [_unknown_key_error(key)]
    if key == "draft" and value is True:
        message = "the sidecar file is a draft that nobody has confirmed"
        hint = "check its lines, replace each ?, and delete the line `draft = true`, which this does too"
        command = Command("log", "LOG", "ROBOT", "--confirm")
        return [LogError(message, hint=hint, command=command, code=Code.MISSING_VALUE, subject=key)]
    entries = value if isinstance(value, Mapping) else {}
    asked = [key] if _is_question(value) else [f"{key}.{name}" for name, v in entries.items() if _is_question(v)]
    known = {name: v for name, v in entries.items() if not _is_question(v)} if entries else value
    hint = f"replace the ? {METADATA_LOCATION}"
    errors = [
        LogError(f"{name} is still a question", hint=hint, code=Code.MISSING_VALUE, subject=name) for name in asked
    ]
    if not _is_question(value):
        violations = find_violations(known, SIDECAR_SCHEMA["properties"][key], key)
        errors += [LogError(v.message, hint=v.hint, code=Code.INVALID_VALUE, subject=key) for v in violations]
    if key == "rows" and not errors and value is not None and not value[0] < value[1]:
        message = f"{key} = {quote_value(value)} must begin before it ends"
        errors.append(LogError(message, hint=f"such as {key} = {_KEYS[key][1]}", code=Code.OUT_OF_RANGE, subject=key))
    return errors


def _unknown_key_error(key: object) -> LogError:
    keys = SIDECAR_SCHEMA["properties"]
    message = f"the log's metadata has no entry {quote_value(key)}; it may have: {', '.join(keys)}"
    return LogError(message, hint=suggest_name(key, keys, ""), code=Code.UNKNOWN_NAME, subject=key)


def _is_question(value: object) -> bool:
    return isinstance(value, str) and value == "?"


_SIDE: Final = allow_also({}, "motor", "joint")
_PER_JOINT: Final = list_schema(ANY_NUMBER, "object", "null")
_PER_JOINT_GAIN: Final = allow_also(list_schema(allow_also(ANY_NUMBER, UNKNOWN), "object", "null"), UNKNOWN)
_PER_JOINT_TEXT: Final[Schema] = {"type": ["string", "object"], "additionalProperties": ANY_TEXT}
_ROW: Final = {"type": "integer", "minimum": 0, "maximum": 2**53}
_PHASE: Final = table_schema(
    {},
    {
        "times": list_schema({"type": "number", "minimum": 0}, minItems=2, maxItems=2),
        "trunk": {"enum": ["held"]},
        "contacts": list_schema(ANY_TEXT, minItems=1),
        "contact": {"enum": ["point", "surface"]},
        "wrenches": {"type": "object", "additionalProperties": list_schema(ANY_TEXT, minItems=6, maxItems=6)},
    },
)
_KEYS: Final[Mapping[str, tuple[Schema, str]]] = {
    "columns": (
        table_schema(
            {},
            {
                "time": list_schema(ANY_TEXT, "string"),
                **dict.fromkeys(SIGNALS, list_schema(ANY_TEXT, "string", "object")),
            },
        ),
        '{ time = "t", position = "q{i}", torque = "tau{i}" }',
    ),
    "units": (
        table_schema({}, {"time": ANY_TEXT, **dict.fromkeys(SIGNALS, _PER_JOINT_TEXT)}),
        '{ time = "s", position = "rad", torque = "N m" }',
    ),
    "side": (
        {
            **table_schema({}, dict.fromkeys(SIGNALS, _SIDE)),
            **allow_also({"type": "object"}, "motor", "joint", null=True),
        },
        '"motor", or side = { position = "motor", torque = "joint" }',
    ),
    "joints": (list_schema(ANY_TEXT, "null"), '["shoulder", "elbow"]'),
    "files": (table_schema({}, dict.fromkeys(SIGNALS, ANY_TEXT)), '{ torque = "torque.csv" }'),
    "gears": (list_schema(list_schema(ANY_NUMBER, "number"), "null"), "[100, 100]"),
    "current_gains": (_PER_JOINT_GAIN, "[11.2, 11.2]"),
    "kp": (_PER_JOINT_GAIN, "[20.0, 20.0]"),
    "kd": (_PER_JOINT_GAIN, "[0.5, 0.5]"),
    "servo": ({"type": ["string", "object", "null"], "additionalProperties": ANY_TEXT}, '"sts3215"'),
    "torque_sensor": ({"type": "boolean"}, "true"),
    "target_delay_s": ({"type": "number", "minimum": 0, "maximum": 1}, "0.005"),
    "torque_limit": (list_schema(POSITIVE_NUMBER, "object", "null"), "[23.7, 23.7]"),
    "base_pose": (list_schema(ANY_TEXT, "null", minItems=7, maxItems=7), '["x", "y", "z", "qx", "qy", "qz", "qw"]'),
    "phases": (list_schema(_PHASE), '[{ times = [0, 5], trunk = "held" }, { times = [5, 9], contacts = ["foot"] }]'),
    "position_offset": (_PER_JOINT, "[0, 0]"),
    "rate_hz": (allow_also(POSITIVE_NUMBER, null=True), "1000"),
    "topic": (allow_also(ANY_TEXT, null=True), ""),
    "separator": ({"enum": [*SEPARATORS, None]}, ""),
    "decimal": ({"enum": [".", ",", None]}, ""),
    "skip_rows": ({"type": "integer", "minimum": 0, "maximum": MAX_SKIPPED_ROWS}, ""),
    "rows": (
        list_schema(_ROW, "null", minItems=2, maxItems=2),
        "[100, 5000], which selects rows 100 to 4999 of the file, counted from 0",
    ),
    "draft": ({"type": "boolean"}, ""),
    "accept": (list_schema({"enum": ACCEPTABLE_FINDINGS}), '["rate"]'),
}
"""Schema of each key, and an example."""
SIDECAR_SCHEMA: Final[Schema] = {
    "title": "The sidecar file of a log",
    **table_schema({}, {key: {**v, **({"examples": [f"{key} = {e}"]} if e else {})} for key, (v, e) in _KEYS.items()}),
}
"""JSON Schema of a sidecar file: the keys of `LogMetadata`."""


def si_units(robot: Robot) -> dict[str, dict[str, str]]:
    """Return the SI unit of each joint's position, velocity and torque, which are also those of JointState.msg."""
    units = {"position": ("rad", "m"), "velocity": ("rad/s", "m/s"), "torque": ("N m", "N")}
    return {key: {j.name: pair[j.kind == "prismatic"] for j in robot.primary_joints} for key, pair in units.items()}


def si_torque_unit(robot: Robot) -> str | dict[str, str]:
    """Return the SI unit of the torque, per joint if the robot has revolute and prismatic joints."""
    units = si_units(robot)["torque"]
    return units if len(set(units.values())) > 1 else next(iter(units.values()))


SHARED_SIDECAR_NAME: Final = "logs.toml"
"""Sidecar of all logs of a folder that have no sidecar of their own."""


def find_sidecar(path: FileLocation) -> FileLocation | None:
    """Return the sidecar of `run1.parquet`: `run1.parquet.toml`, `run1.log.toml` or `logs.toml`; None without one."""
    if isinstance(path, Path) and not path.name:  # the current folder is a bag
        path = path.absolute()
    candidates: list[FileLocation] = [path.with_name(path.name + ".toml"), path.with_name(path.stem + ".log.toml")]
    try:
        sidecars = [candidate for candidate in candidates if candidate.exists()]
        if not sidecars and (shared := path.parent / SHARED_SIDECAR_NAME).exists():
            return shared
    except (OSError, ValueError):  # an invalid file name: opening the log itself raises the error
        return None
    if len(sidecars) > 1:
        message = f"{path.name} has two sidecar files, {sidecars[0].name} and {sidecars[1].name}; keep one"
        raise LogError(message, code=Code.AMBIGUOUS, subject=path.name)
    return sidecars[0] if sidecars else None


def read_sidecar(path: FileLocation) -> Mapping[str, Any]:
    """Read the keys of the log's sidecar file; return an empty mapping if it has none."""
    sidecar = find_sidecar(path)
    return {} if sidecar is None else parse_sidecar(sidecar)


def parse_sidecar(sidecar: FileLocation) -> Mapping[str, Any]:
    """Read the keys of a sidecar file."""
    if isinstance(sidecar, Path):
        return read_settings_toml(sidecar, "sidecar file", LogError, _SIDECAR_HINT)
    if (size := sidecar.info().size) > MAX_SETTINGS_BYTES and are_limits_active():
        message = f"{sidecar.name} has {size} bytes; a sidecar file has at most {MAX_SETTINGS_BYTES}"
        raise LogError(message, code=Code.TOO_LARGE, subject=sidecar.name)
    return parse_toml(sidecar.read_text(), sidecar.name, LogError, _SIDECAR_HINT)


_SIDECAR_HINT: Final = 'text needs quotes, such as side = "joint"'
