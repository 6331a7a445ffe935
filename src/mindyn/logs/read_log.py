"""`read_log` and `scan_log`: read a recording at the joints in SI units, at once or chunk by chunk."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path, PurePath
from typing import Any, Final

import numpy as np

from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, InputError, shorten_text
from mindyn.foundation.findings import Finding, Kind, info, warning
from mindyn.foundation.hints import Command
from mindyn.foundation.safe_reading import ALLOW_OUTSIDE_FILES
from mindyn.logs.cleaning import Cleaner
from mindyn.logs.column_selection import (
    ColumnSelection,
    list_columns_and_joints,
    list_unused_joints,
    require_columns,
    select_columns,
    take_column,
)
from mindyn.logs.conversion import create_conversion
from mindyn.logs.formats.formats import open_table
from mindyn.logs.formats.tables import LogTable, read_in_step, rows_of_chunk
from mindyn.logs.locations import FileLocation, RemoteFile, parse_location
from mindyn.logs.log import Log, SourceFile, hash_sources, join_logs
from mindyn.logs.log_errors import LogError, raise_together
from mindyn.logs.metadata import (
    SIGNALS,
    TARGET_SIGNALS,
    ColumnNames,
    LogMetadata,
    find_faults,
    find_sidecar,
    read_sidecar,
)
from mindyn.logs.number_checks import LogInspector, check_units
from mindyn.logs.servo_presets import preset_of
from mindyn.logs.servos import Servo, add_servo_torques, fill_gains
from mindyn.logs.still_links import replace_still_links
from mindyn.logs.units import CURRENT_UNITS, unit_factor
from mindyn.robots.floating_base import remove_floating_base
from mindyn.robots.robot import Robot, require_robot

CHUNK_ROWS: Final = 65_536


class LogScan:
    """Iterable of the chunks of a log; each chunk is a `Log`, and every iteration reads the file again.

    findings       findings about its columns; after an iteration, also about its rows
    sidecar        keys of its sidecar file; None reads the file
    outside_files  whether signals may be in files outside the log's folder; None uses the command line option
    """

    def __init__(
        self,
        path: FileLocation,
        robot: Robot,
        metadata: Mapping[str, Any],
        chunk_rows: int,
        sidecar: Mapping[str, Any] | None = None,
        outside_files: bool | None = None,
    ) -> None:
        outside_files = ALLOW_OUTSIDE_FILES.get() if outside_files is None else outside_files
        self.path = path
        self.robot = robot
        self.chunk_rows = chunk_rows
        self._made_of = (path, robot, dict(metadata), chunk_rows, sidecar, outside_files)
        self.picks: dict[str, ColumnSelection] = {}
        sidecar = read_sidecar(path) if sidecar is None else sidecar
        if faults := [*find_faults(sidecar), *find_faults(metadata)]:
            raise_together(faults, _describe_source(path, sidecar), path)
        main = open_table(path, robot, LogMetadata().merge_with(sidecar).merge_with(metadata))
        self.metadata = LogMetadata().merge_with(main.metadata).merge_with(sidecar).merge_with(metadata)
        if self.metadata.base_pose or self.metadata.phases:
            robot = self.robot = remove_floating_base(robot)
        files = self.metadata.files
        if not outside_files:
            _require_inside(path, files)
        self.signals = _list_signals(self.metadata, path, main, robot)
        self.places = {s: path.parent / files[s] if s in files else path for s in self.signals}
        self.tables = {path: main}
        for signal, place in self.places.items():
            if place not in self.tables:
                self.tables[place] = open_table(place, robot, self.metadata)
            self.picks[signal] = select_columns(signal, self.metadata, robot, self.tables[place])
            for other in self.signals[: self.signals.index(signal)]:
                if (self.places[other], self.picks[other]) == (place, self.picks[signal]):
                    message = f"columns.{other} and columns.{signal} of {path.name} are the same columns"
                    raise LogError(message, hint="correct one", code=Code.DUPLICATE, subject=f"columns.{signal}")
        self.base_columns = (*(self.metadata.base_pose or ()), *chain(*self.metadata.wrench_columns.values()))
        require_columns(main, {name: repr(name) for name in self.base_columns}, "column", robot)
        self.time_columns = _find_time_columns(self.metadata, main, robot)
        self.conversion = create_conversion(self.metadata, robot, self.signals)
        has_servo = "target" in self.signals
        self.servo = Servo.from_metadata(self.metadata, robot.primary_names) if has_servo else None
        used = {*self.time_columns, *self.base_columns, *(name for pick in self.picks.values() for name in pick.names)}
        needed = {s: self.tables[place] for s, place in self.places.items() if s in ("position", "torque", "target")}
        unused = list_unused_joints(self.metadata, robot, needed, used)
        message = f"logged joints that the robot does not have are not used: {', '.join(unused)}"
        remedy = "Check that the log belongs to this robot"
        given = LogMetadata().merge_with(sidecar).merge_with(metadata).side
        self._of_columns = (
            *((warning(Kind.UNUSED_COLUMNS, message, remedy),) if unused else ()),
            *_find_assumed_side(main, given, self.signals),
            *_find_unused_current(self.metadata, self.signals),
        )
        self.findings: tuple[Finding, ...] = self._of_columns

    @property
    def opening(self) -> partial[LogScan]:
        """Function that opens the log again, also in another process, without transferring rows."""
        return partial(LogScan, *self._made_of)

    def with_gains(self, gains: Sequence[float]) -> LogScan:
        """Return the log with these gains (n,) or (2 n,) for the joints whose gains are unknown."""
        path, robot, metadata, chunk_rows, sidecar, outside = self._made_of
        filled = fill_gains(self.metadata, robot.primary_names, gains, servo="target" in self.signals)
        return LogScan(path, robot, {**metadata, **filled}, chunk_rows, sidecar, outside)

    def sources(self) -> tuple[SourceFile, ...]:
        """Return the files that are read, with their hashes."""
        rows = None if self.metadata.rows is None else (int(self.metadata.rows[0]), int(self.metadata.rows[1]))
        return tuple(source for path in self.tables for source in hash_sources(path, rows))

    def __iter__(self) -> Iterator[Log]:
        cleaner = Cleaner(self.path.name, restarts="restarts" in self.metadata.accept)
        inspector = LogInspector(self.robot, self.path.name)
        of_units: list[Finding] | None = None
        rows = self.metadata.rows
        chosen = (whole if rows is None else whole.between(*rows) for whole in self._convert_chunks())
        usable: Iterable[Log] = filter(len, chain(map(cleaner.clean, chosen), cleaner.rest()))
        for cleaned in usable if self.servo is None else filter(len, add_servo_torques(self.servo, usable)):
            if of_units is None:
                of_units = check_units(cleaned, self.robot, self.metadata.accept)
            inspector.see(cleaned)
            yield cleaned
        if not cleaner.row_count and rows:
            message, hint = f"rows of {self.path.name} select no row", "rows count from 0"
            raise LogError(message, hint=hint, code=Code.TOO_LITTLE_DATA, subject="rows")
        dropped = cleaner.findings(tuple(self.metadata.accept))
        tables = self.tables.values()
        remedy = "Copy the file again, or check that the recording ends where you expect it"
        lost = [warning(Kind.FILE_CONTENT, loss, remedy) for table in tables for loss in table.losses]
        of_files = [info(Kind.FILE_CONTENT, note) for table in tables for note in table.notes]
        self.findings = (*self._of_columns, *lost, *of_files, *(of_units or ()), *dropped, *inspector.findings())

    def _convert_chunks(self) -> Iterator[Log]:
        first_row, start = 0, None
        wanted = {self.path: [*self.time_columns, *self.base_columns]}
        for signal, pick in self.picks.items():
            wanted.setdefault(self.places[signal], []).extend(pick.names)
        columns = {place: list(dict.fromkeys(names)) for place, names in wanted.items() if names}
        tables = [(self.tables[place], names) for place, names in columns.items()]
        for parts in read_in_step(tables, self.chunk_rows, self.path.name):
            rows = np.arange(first_row, first_row + rows_of_chunk(parts[0]), dtype=np.int64)
            chunks = dict(zip(columns, parts, strict=True))
            values = {}
            for signal, pick in self.picks.items():
                values[signal] = self.conversion.apply(signal, pick.take(chunks[self.places[signal]]))
            if not self.time_columns:
                time: Array = rows / float(self.metadata.rate_hz or np.nan)
            else:
                stamps = [take_column(chunks[self.path], name) for name in self.time_columns]
                start = [column[0] for column in stamps] if start is None else start
                time = self._seconds([column - first for column, first in zip(stamps, start, strict=True)])
            log, poses = self._log(time, rows, values), 7 if self.metadata.base_pose else 0
            if self.base_columns:
                base = np.column_stack([take_column(chunks[self.path], name) for name in self.base_columns])
                log = replace(log, base_pose=base[:, :poses] if poses else None, wrenches=base[:, poses:])
            yield log
            first_row += len(rows)

    def _log(self, time: Array, rows: np.ndarray[Any, np.dtype[np.int64]], values: Mapping[str, Array]) -> Log:
        q, qd, qdd = values["position"], values.get("velocity"), values.get("acceleration")
        tau = values["torque"] if "torque" in values else np.zeros_like(q)
        log = Log(self.robot.primary_names, time, q, tau, rows, qd, qdd, self.metadata)
        target, speed = values.get("target"), values.get("target_velocity")
        return replace(log, target=target, target_velocity=speed, motor_q=values.get("motor_position"))

    def _seconds(self, since: Sequence[Array]) -> Array:
        """Convert stamps to the time (N,) in s since the first row. Two columns are whole seconds and nanoseconds."""
        # Dividing by a power of ten, instead of multiplying by 1e-9, gives a second the same bits in every unit.
        if len(since) == 2:
            return np.asarray((since[0] * 10**9 + since[1]) / 10**9)
        return np.asarray(since[0] / round(1 / unit_factor("time", self.metadata.unit("time", ""), "", "")))


def sample_segments(scan: LogScan, rows: int, segments: int = 8) -> Log:
    """Return the log, or evenly spaced segments of a longer log with between `rows` / 2 and `rows` rows together.

    The function reads the log once, in memory for `rows` rows and a chunk. There are at least `segments` segments with
    gaps between them.
    """
    length, every, seen = max(1, rows // (2 * segments)), 1, 0
    kept: list[Log] = []
    for chunk in scan:
        for start in range(0, len(chunk), length):
            if seen % every == 0:
                # An index array copies the rows; a slice would keep the whole chunk in memory.
                kept.append(chunk.take(np.arange(len(chunk))[start : start + length]))
            seen += 1
            if len(kept) > 2 * segments:
                kept, every = kept[::2], 2 * every
    if not kept:
        message = f"{scan.path.name} has no usable rows"
        raise LogError(message, code=Code.TOO_LITTLE_DATA, subject=scan.path.name)
    return replace(join_logs(kept), findings=scan.findings)


def _list_signals(metadata: LogMetadata, path: FileLocation, table: LogTable, robot: Robot) -> tuple[str, ...]:
    has_torque = "torque" in metadata.columns
    missing = [] if "position" in metadata.columns else ["position"]
    missing += [] if has_torque or "target" in metadata.columns else ["torque"]
    if missing:
        raise LogError(
            f"columns of {table.name} are missing for {' and '.join(missing)}; "
            f"{list_columns_and_joints(table.names, robot)}",
            hint=f"describe the columns in {table.name}.toml next to the log, or in the call, such as "
            f'columns.{missing[0]} = "q{{i}}" or "{{joint}}.{missing[0]}"; this command drafts the file',
            command=Command("log", path, "ROBOT", "--confirm"),
            code=Code.MISSING_VALUE,
            subject=f"columns.{missing[0]}",
        )
    if has_torque and "target" in metadata.columns and is_no_torque(metadata, robot.primary_names):
        unused: tuple[str, ...] = ("torque",)
    else:
        unused = TARGET_SIGNALS if has_torque else ()
    return tuple(signal for signal in SIGNALS if signal in metadata.columns and signal not in unused)


def is_no_torque(metadata: LogMetadata, joints: Sequence[str]) -> bool:
    """Return whether the torque column of a log with targets is a current that does not give a torque.

    Examples are the unsigned supply current of some servos, and a current without gains if kp of the servos is given.
    """
    units = metadata.units.get("torque")
    known = list(units.values()) if isinstance(units, Mapping) else [units]
    if not known or not set(known) <= set(CURRENT_UNITS):
        return False
    presets = [preset_of(metadata.servo, joint) for joint in joints]
    if any(preset is not None and not preset.current_is_torque for preset in presets):
        return True
    return metadata.current_gains is None and metadata.kp is not None


def _find_unused_current(metadata: LogMetadata, signals: Sequence[str]) -> list[Finding]:
    """Return a finding if targets are used in place of a current."""
    if "torque" not in metadata.columns or "torque" in signals:
        return []
    return [info(Kind.LOG_SETTING, "the current does not give a torque: position targets are used instead")]


def _find_assumed_side(table: LogTable, given: object, signals: Sequence[str]) -> list[Finding]:
    """Return a finding if the format of the file, not the user, determines at which side (motor or joint) its signals
    are.
    """
    defined = table.metadata.get("side", {})
    known = given if isinstance(given, Mapping) else {}
    if given is not None and not isinstance(given, Mapping):
        return []
    assumed = [signal for signal in signals if signal in defined and signal not in known]
    listed = " and ".join(filter(None, (", ".join(assumed[:-1]), *assumed[-1:])))
    message = f"{listed} of {table.name} are assumed to be at the joint, as JointState messages define"
    return [info(Kind.LOG_SETTING, message)] if assumed else []


def _require_inside(path: FileLocation, files: Mapping[str, str]) -> None:
    """Raise `LogError` if the file of a signal is outside the log's folder, also through a link."""
    for signal, file in files.items():
        inside = not PurePath(file).is_absolute() and ".." not in PurePath(file).parts
        if isinstance(path, Path) and inside:
            with suppress(OSError, ValueError, RuntimeError):  # an invalid name: opening the file raises an error
                inside = (path.parent / file).resolve().is_relative_to(path.parent.resolve())
        if not inside:
            raise LogError(
                f"files.{signal} = {shorten_text(repr(file), 200)} is outside the folder of {path.name}",
                hint="if you trust the sidecar file, use mindyn --outside-files or read_log(..., outside_files=True)",
                code=Code.UNSAFE_INPUT,
                subject=f"files.{signal}",
            )


def _describe_source(path: FileLocation, sidecar: Mapping[str, Any]) -> str:
    file = find_sidecar(path)
    return f"{path.name} in {file.name}" if sidecar and file is not None else path.name


def _find_time_columns(metadata: LogMetadata, table: LogTable, robot: Robot) -> tuple[str, ...]:
    """Return the column of stamps, or the columns of seconds and nanoseconds; none if the rate is given."""
    if metadata.rate_hz is not None:
        return ()
    entry: ColumnNames | None = metadata.columns.get("time")
    columns = (entry,) if isinstance(entry, str) else tuple(entry or ())
    if not columns or isinstance(entry, Mapping) or len(columns) > 2:
        raise LogError(
            f"the time column of {table.name} is missing; {list_columns_and_joints(table.names, robot)}",
            hint='set columns.time = "..." with units.time, or = ["SECONDS", "NANOSECONDS"], or rate_hz = ... if the '
            "rows are uniform",
            code=Code.MISSING_VALUE,
            subject="columns.time",
        )
    hint = f"correct columns.time in {table.name}.toml or in the call"
    require_columns(table, {name: repr(name) for name in columns}, "time column", robot, hint)
    if len(columns) == 1:
        metadata.unit("time", "")
    return columns


def _require_location(path: object) -> None:
    """Raise `InputError` if a value is not a path or URL, such as a table."""
    if isinstance(path, str | os.PathLike | RemoteFile):
        return
    raise InputError(
        f"the log must be a path or URL, got {type(path).__name__}",
        hint="make a log of arrays, tables or dictionaries with log_from_arrays(robot, time, q, tau)",
        code=Code.WRONG_TYPE,
        subject="path",
    )


def scan_log(
    path: str | FileLocation,
    robot: Robot,
    *,
    columns: Mapping[str, ColumnNames] | None = None,
    units: Mapping[str, str | Mapping[str, str]] | None = None,
    side: str | Mapping[str, str] | None = None,
    metadata: Mapping[str, Any] | None = None,
    outside_files: bool | None = None,
    chunk_rows: int = CHUNK_ROWS,
) -> LogScan:
    """Open a log as an iterable of chunks, for a log that does not fit into memory.

    Metadata that you do not pass is read from the sidecar file: `run1.parquet.toml` or `run1.log.toml`, or else the
    `logs.toml` of the folder.

    Parameters
    ----------
    path : str or Path
        File, or the URL of a Parquet file in an object store, such as "s3://bucket/run.parquet", which is read block by
        block without a local copy.
    robot : Robot
        Robot whose joints were logged.
    columns, units, side : optional
        Keys of `LogMetadata`; they take precedence over the sidecar file.
    metadata : mapping, optional
        Any other keys of `LogMetadata`: rate_hz, gears, files, joints, position_offset, ...
    outside_files : bool, optional
        Whether `files` of a sidecar may be outside the log's folder. Files in `metadata` always may.
    chunk_rows : int
        Most rows of a chunk.

    Returns
    -------
    LogScan
        Iterable of `Log`.

    Raises
    ------
    LogError
        If the file cannot be read, or its metadata is missing or wrong.
    """
    require_robot(robot, "read_log")
    given = {"columns": columns, "units": units, "side": side}
    over = {**(metadata or {}), **{key: value for key, value in given.items() if value is not None}}
    _require_location(path)
    return LogScan(parse_location(path), robot, over, chunk_rows, outside_files="files" in over or outside_files)


def read_log(
    path: str | FileLocation,
    robot: Robot,
    *,
    columns: Mapping[str, ColumnNames] | None = None,
    units: Mapping[str, str | Mapping[str, str]] | None = None,
    side: str | Mapping[str, str] | None = None,
    metadata: Mapping[str, Any] | None = None,
    outside_files: bool | None = None,
) -> Log:
    """Read a log: measured motion and torque of a robot, at the joints, in SI units.

    Metadata that you do not pass is read from the sidecar file: `run1.parquet.toml` or `run1.log.toml`, or else the
    `logs.toml` of the folder.

    Parameters
    ----------
    path : str or Path
        File, or the URL of a Parquet file in an object store.
    robot : Robot
        Robot whose joints were logged.
    columns, units, side : optional
        Keys of `LogMetadata`; they take precedence over the sidecar file.
    metadata : mapping, optional
        Any other keys of `LogMetadata`: rate_hz, gears, files, joints, position_offset, ...
    outside_files : bool, optional
        Whether `files` of a sidecar may be outside the log's folder. Files in `metadata` always may.

    Returns
    -------
    Log
        The log, with findings about dropped rows and other properties of the file.

    Raises
    ------
    LogError
        If the file cannot be read, its metadata is missing or wrong, or its values contradict the metadata.

    Examples
    --------
    >>> log = mindyn.read_log("run1.csv", robot, units={"position": "deg"})  # doctest: +SKIP
    """
    scan = scan_log(
        path, robot, columns=columns, units=units, side=side, metadata=metadata, outside_files=outside_files
    )
    chunks = list(scan)
    return replace_still_links(replace(join_logs(chunks), sources=scan.sources(), findings=scan.findings))
