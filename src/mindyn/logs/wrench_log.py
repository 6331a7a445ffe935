"""`read_wrench_log`: readings of a force/torque sensor with the poses at which they were taken.

Columns are found by the names that drivers and recorders use (`fx`, `Force X [N]`, `wrench.force.x`,
`/ft/wrench/force/x`, `actual_TCP_force_0`, `O_F_ext_hat_K[0]`). Metadata in the call or in the sidecar file have
priority over the names.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np

from mindyn.foundation.algebra.requirements import require_shape
from mindyn.foundation.algebra.values import Array, ShortRepr
from mindyn.foundation.errors import Code, list_names
from mindyn.foundation.findings import Finding, Kind, info
from mindyn.foundation.schemas import ANY_TEXT, POSITIVE_NUMBER, Schema, list_schema, require_valid_file, table_schema
from mindyn.logs.column_selection import expand_pattern, require_columns, take_column
from mindyn.logs.formats.formats import open_table
from mindyn.logs.formats.tables import join_chunks, rows_of_chunk
from mindyn.logs.log_errors import LogError
from mindyn.logs.metadata import SIDECAR_SCHEMA, LogMetadata, merge_tables, read_sidecar
from mindyn.logs.units import RAD_PER_DEGREE, UNIT_FACTORS
from mindyn.robots.floating_base import rotations_from_quaternions
from mindyn.robots.robot import Robot

WrenchFrame = Literal["sensor", "world"]
ActsOn = Literal["sensor", "tool"]
UNITS: Final[Mapping[str, Mapping[str, float]]] = {
    "force": {"N": 1.0, "kN": 1e3, "mN": 1e-3, "lbf": 4.4482216152605},
    "torque": {
        "N m": 1.0,
        "Nm": 1.0,
        "N mm": 1e-3,
        "Nmm": 1e-3,
        "mN m": 1e-3,
        "mNm": 1e-3,
        "lbf in": 0.1129848290276167,
    },
    "position": {"m": 1.0, "mm": 1e-3},
    "joints": {"rad": 1.0, "deg": RAD_PER_DEGREE},
    "time": UNIT_FACTORS["time"],
}
"""Factor from each unit to SI, by quantity."""
_SIZES: Final = {"force": 3, "torque": 3, "orientation": 4, "rotation_vector": 3, "position": 3}
WRENCH_SCHEMA: Final[Schema] = table_schema(
    {},
    {
        "columns": table_schema(
            {},
            {
                "time": ANY_TEXT,
                "joints": list_schema(ANY_TEXT, "string"),
                **{name: list_schema(ANY_TEXT, minItems=size, maxItems=size) for name, size in _SIZES.items()},
            },
        ),
        "units": table_schema({}, {name: {"enum": list(units)} for name, units in UNITS.items()}),
        "frame": {"enum": ["sensor", "world"]},
        "acts_on": {"enum": ["sensor", "tool"]},
        "rate_hz": POSITIVE_NUMBER,
        **{key: SIDECAR_SCHEMA["properties"][key] for key in ("separator", "decimal", "skip_rows")},
    },
)
"""Metadata of a wrench log.

columns    names of `force`, `torque` and `position` (x, y, z), of the attitude as `orientation` (quaternion x, y, z, w)
           or `rotation_vector`, of `time`, and of `joints` as a pattern such as "q{i}" or a list in the robot's order
units      of force, torque, position, joints and time
frame      axes of the wrench: those of the sensor, or of the world
acts_on    whether readings are the wrench of the tool on the sensor, or of the sensor on the tool
rate_hz    rate of uniform rows without time column
"""

_AXIS: Final = r"_?(?P<axis>[xyz])"
_PATTERNS: Final = {
    "force": rf"(?:.*_)?(?:f|force|kraft){_AXIS}",
    "torque": rf"(?:.*_)?(?:t|m|tau|torque|moment|trq){_AXIS}",
    "orientation": r"(?:.*_)?(?:q|quat|quaternion|orientation|rotation)_?(?P<axis>[xyzw])",
    "position": rf"(?:.*_)?(?:p|pos|position|translation){_AXIS}|(?P<plain>[xyz])",
    "rotation_vector": rf"(?:.*_)?(?:r|rot|rotvec|rotation_vector){_AXIS}",
}
_NUMBERED_PATTERNS: Final = {
    r".*(?:tcp_force|f_ext_hat_k|wrench|ft|f_t)_?([0-5])": ("force", "torque"),
    r".*tcp_pose_?([0-5])": ("position", "rotation_vector"),
}
"""Six numbered columns, three of each quantity."""
_WORLD_NAMES: Final = re.compile(r"tcp_force|^(?:.*_)?o_f_ext_hat")
"""Signals that robots give in the axes of their base: the TCP force of Universal Robots, O_F_ext_hat_K of Franka."""
_TIME_NAMES: Final = re.compile(r"(?:.*_)?(?:time|timestamp|stamp|t|sec|seconds)(?:_(?P<unit>s|ms|us|ns))?")
_EPOCH_UNITS: Final = ((1e17, 1e-9), (1e14, 1e-6), (1e11, 1e-3))
"""Smallest stamp since 1970 in ns, us and ms, and the unit in s."""
_UNIT_SUFFIX: Final = re.compile(r"\s*[(\[]\s*(?P<unit>[A-Za-z .*·/-]+)\s*[)\]]\s*$")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class WrenchLog(ShortRepr):
    """Readings of a force/torque sensor and the poses at which they were taken, in SI units.

    Parameters
    ----------
    wrench : ndarray, shape (N, 6)
        Moment and force.
    rotation : ndarray, shape (N, 3, 3), optional
        Rotation of the sensor frame in the world. Give this or `q`.
    position : ndarray, shape (N, 3), optional
        Origin of the sensor frame in the world, m; needed for readings in motion.
    q : ndarray, shape (N, n), optional
        Joint positions of the robot that carries the sensor.
    time : ndarray, shape (N,), optional
        Time, s; without it every row is a pose at rest.
    frame : {"sensor", "world"}
        Axes of the wrench; its origin is that of the sensor.
    acts_on : {"sensor", "tool"}, optional
        Whether the wrench is that of the tool on the sensor or the reaction; None: determined from the sign of the
        mass.
    findings : tuple of Finding
        Findings about the log.
    name : str
        Name in reports.

    Raises
    ------
    LogError
        If a shape is wrong, a number is not finite, or the pose is missing.
    """

    wrench: Array
    rotation: Array | None = None
    position: Array | None = None
    q: Array | None = None
    time: Array | None = None
    frame: WrenchFrame = "sensor"
    acts_on: ActsOn | None = None
    findings: tuple[Finding, ...] = ()
    name: str = "the log"

    def __post_init__(self) -> None:
        N = len(self.wrench)
        shapes = {"wrench": (N, 6), "rotation": (N, 3, 3), "position": (N, 3), "time": (N,)}
        for what in ("wrench", "rotation", "position", "q", "time"):
            values = getattr(self, what)
            if values is None:
                continue
            array = np.asarray(values, dtype=np.float64)
            expected = shapes.get(what, (N, array.shape[-1] if array.ndim == 2 else 0))
            require_shape(array.shape, expected, what, LogError)
            if not np.isfinite(array).all():
                message = f"{what} of {self.name} has values that are not numbers"
                raise LogError(message, hint="remove these rows", code=Code.NOT_FINITE, subject=what)
            object.__setattr__(self, what, array)
        if (self.rotation is None) == (self.q is None):
            raise LogError(
                f"{self.name} needs either the sensor's attitude or the joint positions of the robot",
                hint='set columns.orientation = ["qx", "qy", "qz", "qw"], or columns.joints = "q{i}" with a robot',
                code=Code.MISSING_VALUE,
                subject="orientation",
            )

    def __len__(self) -> int:
        return len(self.wrench)


def read_wrench_log(
    path: str | Path, robot: Robot | None = None, metadata: Mapping[str, Any] | None = None
) -> WrenchLog:
    """Read a log of a force/torque sensor.

    Parameters
    ----------
    path : str or pathlib.Path
        CSV, TSV, JSON lines or Parquet file with one row for each reading.
    robot : Robot, optional
        Robot that carries the sensor, if the log has joint positions instead of the attitude of the sensor.
    metadata : mapping, optional
        Columns, units, frame and sign (see `WRENCH_SCHEMA`); they replace those of the sidecar file `LOG.toml`, which
        replace what the names of the columns suggest.

    Returns
    -------
    WrenchLog
        The log, with findings about dropped rows.

    Raises
    ------
    LogError
        If the file cannot be read, or has no wrench or no pose.

    Examples
    --------
    >>> log = read_wrench_log("ft.csv", metadata={"frame": "sensor", "units": {"torque": "N mm"}})  # doctest: +SKIP
    """
    location = Path(path)
    given = merge_tables(read_sidecar(location), metadata or {})
    require_valid_file(given, WRENCH_SCHEMA, f"the metadata of {location.name}", LogError)
    text_format = {key: given[key] for key in ("separator", "decimal", "skip_rows") if key in given}
    table = open_table(location, robot, LogMetadata(**text_format))  # type: ignore[arg-type]  # not read by these formats
    found = find_wrench_columns(table.names)
    columns, units = {**found.columns, **given.get("columns", {})}, {**found.units, **given.get("units", {})}
    if missing := [what for what in ("force", "torque") if what not in columns]:
        raise LogError(
            f"{location.name} has no columns for {list_names(missing)}; its columns are: {list_names(table.names)}",
            hint=f'set columns.{missing[0]} = ["x", "y", "z"] with the names of its columns, in the sidecar file or '
            "in the call",
            code=Code.MISSING_VALUE,
            subject=missing[0],
        )
    joints = _joint_columns(columns.pop("joints", None), robot, table.names)
    wanted = {what: [names] if isinstance(names, str) else list(names) for what, names in columns.items()}
    wanted |= {"joints": joints} if joints else {}
    for what, names in wanted.items():
        require_columns(table, {name: name for name in names}, f"column of {what}", robot)
    every = list(dict.fromkeys(name for names in wanted.values() for name in names))
    chunks = list(table.chunks(every, 65_536))
    if not sum(map(rows_of_chunk, chunks)):
        raise LogError(f"{location.name} has no rows", code=Code.TOO_LITTLE_DATA, subject=location.name)
    whole = join_chunks(chunks)
    values = {
        what: np.column_stack([take_column(whole, name) for name in names]).astype(float)
        * UNITS.get(what, {}).get(units.get(what, ""), 1.0)
        for what, names in wanted.items()
    }
    time = _seconds(values["time"][:, 0], "time" in units) if "time" in values else None
    if "rate_hz" in given:
        time = np.arange(len(values["force"])) / given["rate_hz"]
    return WrenchLog(
        np.hstack([values["torque"], values["force"]]),
        None if joints else _rotations(values),
        None if joints else values.get("position"),
        values.get("joints"),
        time,
        given.get("frame", found.frame),
        given.get("acts_on"),
        _describe_guess(found, given, location.name),
        location.name,
    )


def _seconds(stamps: Array, known: bool) -> Array:
    """Return the time (s) since the first row.

    If the unit is unknown, the magnitude of stamps since 1970 determines it: s, ms, us or ns.
    """
    unit = next((unit for size, unit in _EPOCH_UNITS if stamps[0] > size), 1.0)
    return np.asarray((stamps - stamps[0]) * (1.0 if known else unit))


def _rotations(values: Mapping[str, Array]) -> Array | None:
    if "orientation" in values:
        return rotations_from_quaternions(values["orientation"])
    if "rotation_vector" not in values:
        return None
    half = values["rotation_vector"] / 2
    angle = np.linalg.norm(half, axis=1, keepdims=True)
    return rotations_from_quaternions(np.hstack([half * np.sinc(angle / np.pi), np.cos(angle)]))


def _joint_columns(entry: str | Sequence[str] | None, robot: Robot | None, names: Collection[str]) -> list[str]:
    """Return the columns of the joints of a robot: the given columns, or columns with the names of the joints."""
    if robot is None:
        return []
    if entry is None:
        own = list(robot.primary_names)
        return own if all(name in names for name in own) else []
    if isinstance(entry, str):
        return [expand_pattern(entry, "joints", k, name) for k, name in enumerate(robot.primary_names)]
    return list(entry)


@dataclass(frozen=True, slots=True)
class WrenchColumns:
    """Columns, units and frame that the names of columns suggest."""

    columns: Mapping[str, Any]
    units: Mapping[str, str]
    frame: WrenchFrame


def find_wrench_columns(names: Collection[str]) -> WrenchColumns:
    """Find the columns of force, torque, pose and time among the names of a table."""
    places: dict[str, dict[str, str]] = {}
    units: dict[str, str] = {}
    frame: WrenchFrame = "sensor"
    columns: dict[str, Any] = {}
    for name in names:
        bare = _UNIT_SUFFIX.sub("", name)
        plain = re.sub(r"[^a-z0-9]+", "_", bare.lower()).strip("_")
        for what, axis in _classify(plain):
            places.setdefault(what, {}).setdefault(axis, name)
            if suffix := _UNIT_SUFFIX.search(name):
                units[what] = re.sub(r"[\s.*·-]+", " ", suffix["unit"].strip())
            if what == "force" and _WORLD_NAMES.search(plain):
                frame = "world"
        if "time" not in columns and (match := _TIME_NAMES.fullmatch(plain)) and not _classify(plain):
            columns["time"] = name
            units |= {"time": match["unit"]} if match["unit"] else {}
    for what, size in _SIZES.items():
        axes = "xyzw"[:size]
        if set(axes) <= set(places.get(what, {})):
            columns[what] = [places[what][axis] for axis in axes]
    known = {what: unit for what, unit in units.items() if unit in UNITS.get(what, {})}
    return WrenchColumns(columns, known, frame)


def _classify(plain: str) -> list[tuple[str, str]]:
    """Return the quantity and the axis of a column from its name in lower case with underscores."""
    for pattern, quantities in _NUMBERED_PATTERNS.items():
        if match := re.fullmatch(pattern, plain):
            half, axis = divmod(int(match[1]), 3)
            return [(quantities[half], "xyz"[axis])]
    for what, pattern in _PATTERNS.items():
        if match := re.fullmatch(pattern, plain):
            return [(what, next(axis for axis in match.groups() if axis))]
    return []


def _describe_guess(found: WrenchColumns, given: Mapping[str, Any], name: str) -> tuple[Finding, ...]:
    """Return a finding with the columns and the frame that mindyn recognised."""
    guessed = [f"{what} = {list_names([names] if isinstance(names, str) else names)}"
               for what, names in found.columns.items() if what not in given.get("columns", {})]  # fmt: skip
    frame = [] if "frame" in given else [f"frame = {found.frame}"]
    message = f"recognised in {name}: {'; '.join([*guessed, *frame])}"
    return (info(Kind.LOG_SETTING, message),) if guessed or frame else ()
