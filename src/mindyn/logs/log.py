"""`Log`: measured motion and torque of a recording, at the joints, in SI units; `write_log` writes it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from io import BytesIO
from pathlib import Path, PurePath
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mindyn.foundation.algebra.values import Array, native_array
from mindyn.foundation.atomic_files import write_files_atomically
from mindyn.foundation.errors import Code, InputError, pluralise
from mindyn.foundation.escaping import format_toml_value
from mindyn.foundation.findings import Finding
from mindyn.foundation.pages.notebook_display import NotebookDisplay, Page, draw_page
from mindyn.foundation.processes.executors import require_polars_threads
from mindyn.logs.cleaning import Cleaner
from mindyn.logs.joint_columns import JointColumns, order_columns
from mindyn.logs.locations import FileLocation, RemoteFile
from mindyn.logs.metadata import LogMetadata, si_units
from mindyn.logs.still_links import replace_still_links
from mindyn.logs.time_stamps import sum_recorded_time
from mindyn.robots.robot import Robot


@dataclass(frozen=True, slots=True)
class SourceFile:
    """File of a log with the SHA-256 of its bytes; for an object in a store, "etag:" and its etag.

    rows  (first, end): rows of the file that the log may contain; None for all rows
    """

    path: str
    sha256: str
    rows: tuple[int, int] | None = None

    def overlaps(self, other: SourceFile) -> bool:
        """Return whether both have common rows of the same file, under any name."""
        if self.sha256 != other.sha256 or self.rows is None or other.rows is None:
            return self.sha256 == other.sha256
        return max(self.rows[0], other.rows[0]) < min(self.rows[1], other.rows[1])

    @staticmethod
    def from_dict(saved: Mapping[str, Any]) -> SourceFile:
        """Return the source that an estimate saved."""
        rows = saved.get("rows")
        return SourceFile(saved["path"], saved["sha256"], rows and (rows[0], rows[1]))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Log(NotebookDisplay):
    """Recording of a robot at the joint side in SI units, with columns in the robot's order and increasing stamps.

    Create a log with `read_log` or `log_from_arrays`.

    Parameters
    ----------
    joint_names : tuple of str
        Names of the n joints.
    time : array of shape (N,)
        Time since the first row of the file, in s.
    q : array of shape (N, n)
        Positions, in rad or m.
    tau : array of shape (N, n)
        Torques or forces, in N m or N.
    rows : array of int of shape (N,)
        Row of the file that each row comes from.
    qd, qdd : array of shape (N, n) or None
        Logged velocities (rad/s or m/s) and accelerations (rad/s^2 or m/s^2); None if they were not logged.
    metadata : LogMetadata
        How the columns of the file were read: names, units, side, gears.
    sources : tuple of SourceFile
        Files and their hashes.
    findings : tuple of Finding
        Dropped rows and other findings about the log.
    name : str
        Name in reports; by default the name of the file.
    target, target_velocity : array of shape (N, n) or None
        Targets of position servos (rad or m, rad/s or m/s), from which the torque was computed.
    base_pose : array of shape (N, 7) or None
        Position (m) and quaternion (x, y, z, w) of the trunk of a floating base, whose joints are not among the n.
    wrenches : array of shape (N, 6 k) or None
        Wrenches (N m, N) at the k frames of `metadata.wrench_columns`.
    motor_q : array of shape (N, n) or None
        Positions of the motors divided by the gear ratios, in rad or m; they differ from q where joints are elastic.

    Raises
    ------
    InputError
        If an array has the wrong shape.
    """

    joint_names: tuple[str, ...]
    time: Array
    q: Array
    tau: Array
    rows: NDArray[np.int64]
    qd: Array | None = None
    qdd: Array | None = None
    metadata: LogMetadata = field(default_factory=LogMetadata)
    sources: tuple[SourceFile, ...] = ()
    findings: tuple[Finding, ...] = ()
    name: str = ""
    target: Array | None = None
    target_velocity: Array | None = None
    base_pose: Array | None = None
    wrenches: Array | None = None
    motor_q: Array | None = None

    def __post_init__(self) -> None:
        if not self.name and self.sources:
            object.__setattr__(self, "name", PurePath(self.sources[0].path).name)
        shape = (len(self.time), len(self.joint_names))
        for name in LOG_ARRAYS:
            array = getattr(self, name)
            if array is None:
                continue
            view = (array if name == "rows" else native_array(array, name)).view()
            if name not in ("time", "rows", "base_pose", "wrenches") and view.shape != shape:
                message = f"{name} has shape {view.shape}, but {shape} is needed; is the torque of another recording?"
                raise InputError(message, code=Code.WRONG_SHAPE, subject=name)
            view.flags.writeable = False
            object.__setattr__(self, name, view)

    def __len__(self) -> int:
        return len(self.time)

    def __repr__(self) -> str:
        return f"Log({len(self)} rows of {pluralise(len(self.joint_names), 'joint')} over {self.duration_s:.4g} s)"

    @property
    def duration_s(self) -> float:
        """Recorded time without gaps: the sum of the durations of all segments."""
        return sum_recorded_time(self.time)

    def plot(self) -> Page:
        """Plot position and torque of every joint over time.

        Returns
        -------
        Page
            Page that notebooks show and `save(path)` writes.
        """
        return draw_page("log_page", self)

    def save(self, path: str | Path, robot: Robot, *, accept: Sequence[str] = ()) -> tuple[Path, ...]:
        """Write the log to a CSV or Parquet file, with a sidecar by which `read_log` needs no further arguments.

        Parameters
        ----------
        path : str or Path
            File to write; its ending, .csv or .parquet, selects the format.
        robot : Robot
            Robot of the log; its joints determine the units.
        accept : sequence of str, optional
            Findings that `read_log` accepts in this log.

        Returns
        -------
        tuple of Path
            The log and its sidecar.

        Raises
        ------
        InputError
            If the file has another ending.
        """
        signals = {"position": self.q, "torque": self.tau} | ({} if self.qd is None else {"velocity": self.qd})
        signals |= {} if self.motor_q is None else {"motor_position": self.motor_q}
        return write_log(robot, self.time, signals, Path(path), dict.fromkeys(signals, "joint"), accept)

    def take(self, index: slice | NDArray[np.bool_] | NDArray[np.intp]) -> Log:
        """Return the selected rows as a log."""
        arrays: dict[str, Any] = {name: getattr(self, name) for name in LOG_ARRAYS}
        taken: dict[str, Any] = {name: None if a is None else a[index] for name, a in arrays.items()}
        return replace(self, **taken)

    def followed_by(self, following: Log) -> Log:
        """Return the log with the next rows of the recording appended."""
        return join_logs([self, following])

    def between(self, start: int, stop: int) -> Log:
        """Return the rows of the log that come from rows start <= row < stop of the file."""
        return self.take((self.rows >= start) & (self.rows < stop))


LOG_ARRAYS = ("time", "q", "tau", "rows", "qd", "qdd", "target", "target_velocity", "base_pose", "wrenches", "motor_q")


def log_from_arrays(
    joint_names: Sequence[str] | Robot,
    time: ArrayLike,
    q: JointColumns,
    tau: JointColumns,
    qd: JointColumns | None = None,
    qdd: JointColumns | None = None,
    *,
    motor_q: JointColumns | None = None,
    name: str = "",
) -> Log:
    """Create a log from joint-side arrays, tables or dictionaries in SI units, for example of a simulation.

    Rows are cleaned like those of a file: rows with repeated stamps or values that are not numbers are dropped with a
    finding, and late rows are sorted.

    Parameters
    ----------
    joint_names : sequence of str or Robot
        Names of the n joints, in the order of the columns and of the robot; a robot gives those of its primary joints.
    time : array_like of shape (N,)
        Time stamps, in s.
    q : array_like of shape (N, n), pandas or polars DataFrame, or mapping of str to array_like of shape (N,)
        Positions, in rad or m. Columns of a table or dictionary that has all joint names are taken by name; the columns
        of other tables are in the order of the joints.
    tau : like q
        Torques or forces, in N m or N.
    qd, qdd : like q, optional
        Velocities (rad/s or m/s) and accelerations (rad/s^2 or m/s^2).
    motor_q : like q, optional
        Positions of the motors divided by the gear ratios, in rad or m, beside the positions of the links.
    name : str, optional
        Name in reports.

    Returns
    -------
    Log
        The log, with findings about dropped rows.

    Raises
    ------
    InputError
        If an array has the wrong shape or type.
    LogError
        If the time goes back, or too many rows are unusable.

    Examples
    --------
    >>> import mindyn
    >>> mindyn.log_from_arrays(["joint1"], [0.0, 0.1, 0.2], [[0.0], [0.1], [0.3]], [[1.0], [1.2], [0.9]])
    Log(3 rows of 1 joint over 0.2 s)
    >>> q, tau = {"b": [1.0, 2.0], "a": [3.0, 4.0]}, {"a": [0.0, 1.0], "b": [1.0, 0.0]}
    >>> mindyn.log_from_arrays(["a", "b"], [0.0, 0.1], q, tau).q[0].tolist()
    [3.0, 1.0]
    """
    if isinstance(joint_names, Robot):
        joint_names = joint_names.primary_names
    if isinstance(joint_names, str) or not isinstance(joint_names, Iterable):
        raise InputError(
            f"joint_names must be a list of names, got {type(joint_names).__name__}",
            hint="pass robot.primary_names",
            code=Code.WRONG_TYPE,
            subject="joint_names",
        )
    joint_names = tuple(joint_names)
    signals = {"q": q, "tau": tau, "qd": qd, "qdd": qdd, "motor_q": motor_q}
    given = {"time": time, **{key: order_columns(values, joint_names, key) for key, values in signals.items()}}
    arrays: dict[str, Any] = {key: native_array(values, key) for key, values in given.items() if values is not None}
    cleaner = Cleaner(name or "the log")
    log = Log(joint_names, rows=np.arange(len(arrays["time"]), dtype=np.int64), name=name, **arrays)
    cleaned = join_logs([cleaner.clean(log), *cleaner.rest()])
    return replace_still_links(replace(cleaned, findings=tuple(cleaner.dropped_rows())))


def join_logs(logs: Sequence[Log]) -> Log:
    """Join consecutive chunks of a recording."""
    if len(logs) == 1:
        return logs[0]
    arrays: dict[str, Any] = {name: [getattr(log, name) for log in logs] for name in LOG_ARRAYS}
    whole: dict[str, Any] = {k: None if v[0] is None else np.concatenate(v) for k, v in arrays.items()}
    return replace(logs[0], **whole)


def hash_sources(path: FileLocation, rows: tuple[int, int] | None = None) -> tuple[SourceFile, ...]:
    """Return the file with its hash; for a folder, its files, or the tables of a LeRobot dataset.

    `rows` are those of a `SourceFile`.
    """
    if isinstance(path, RemoteFile):
        return (SourceFile(str(path), path.info().version, rows),)
    sources = []
    for entry in list_sources(path):
        with entry.open("rb") as stream:
            sources.append(SourceFile(str(entry), hashlib.file_digest(stream, "sha256").hexdigest(), rows))
    return tuple(sources)


def list_sources(path: Path) -> list[Path]:
    """Return the files of a log: the file itself, those of a folder, or the tables of a LeRobot dataset."""
    if (path / "meta" / "info.json").is_file():
        return [path / "meta" / "info.json", *sorted((path / "data").glob("chunk-*/*.parquet"))]
    return sorted(entry for entry in path.iterdir() if entry.is_file()) if path.is_dir() else [path]


def group_sources(sources: Sequence[SourceFile]) -> dict[str, list[SourceFile]]:
    """Return the sources by the path of the log that they are part of: a folder of which all files are given, such as a
    bag, or the file itself.
    """
    groups: dict[str, list[SourceFile]] = {}
    given = {Path(source.path) for source in sources}
    for source in sources:
        folders = [folder for folder in list(Path(source.path).parents)[:3] if _is_recording(folder)]
        whole = next((str(folder) for folder in folders if given.issuperset(list_sources(folder))), source.path)
        groups.setdefault(whole, []).append(source)
    return groups


def _is_recording(folder: Path) -> bool:
    """Return whether a folder is a LeRobot dataset, a motion of SAGE or a bag."""
    marks = ("meta/info.json", "state_motor.csv", "metadata.yaml")
    return any((folder / mark).is_file() for mark in marks)


_PLAIN_NAME: Final = re.compile(r"[^\W#][\w. ()/:\[\]-]*(?<! )")
"""Names that a text header can hold unchanged: no separators, quotes, braces, comment marks or outer blanks."""


def write_log(
    robot: Robot,
    time: Array,
    signals: Mapping[str, Array],
    path: Path,
    side: Mapping[str, str],
    accept: Sequence[str] = (),
    remark: str = "",
) -> tuple[Path, ...]:
    """Write a log and its sidecar file, with columns named by joint; return both paths.

    If a joint name cannot be used in the header of every format, all columns are numbered instead.

    time     (N,) s
    signals  position, velocity, torque: (N, n) of the primary joints in SI units
    side     "joint" or "motor" for every signal
    accept   findings of `read_log` to accept in this log
    remark   first line of the sidecar, a comment
    """
    import polars

    if path.suffix not in (".csv", ".parquet"):
        message = f"a log is written as .csv or .parquet, not as {path.name!r}"
        raise InputError(message, code=Code.UNSUPPORTED, subject=path.name)
    by_name = all(_PLAIN_NAME.fullmatch(name) for name in robot.primary_names)
    columns = {"time": time}
    for signal, values in signals.items():
        for k, name in enumerate(robot.primary_names):
            columns[f"{name}.{signal}" if by_name else f"{signal}{k + 1}"] = values[:, k]
    require_polars_threads()
    table = polars.DataFrame(columns)
    content = BytesIO()
    table.write_csv(content) if path.suffix == ".csv" else table.write_parquet(content)
    pattern, units = "{joint}.SIGNAL" if by_name else "SIGNAL{i}", si_units(robot)
    entries = {
        **({} if by_name else {"joints": list(robot.primary_names)}),
        "side": {signal: side[signal] for signal in signals},
        "columns": {"time": "time", **{signal: pattern.replace("SIGNAL", signal) for signal in signals}},
        "units": {"time": "s", **{signal: units[signal] for signal in signals if signal in units}},
        **({"accept": list(accept)} if accept else {}),
    }
    lines = (f"{key} = {format_toml_value(value)}\n" for key, value in entries.items())
    sidecar = "".join([f"# {remark}\n" if remark else "", *lines])
    return write_files_atomically({path: content.getvalue(), path.with_name(path.name + ".toml"): sidecar})
