"""`read_log` and `scan_log`: a recording at the joints in SI units, at once or chunk by chunk."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path, PurePath
from typing import Any, Final

import numpy as np

from mindyn.algebra.values import Array
from mindyn.errors import shorten_text
from mindyn.findings import Finding, Kind, info, warning
from mindyn.logs.checks import LogInspector, check_units
from mindyn.logs.cleaning import Cleaner
from mindyn.logs.columns import (
    ColumnSelection,
    list_columns_and_joints,
    list_unused_columns,
    list_unused_joints,
    select_columns,
    take_column,
)
from mindyn.logs.conversion import Conversion, create_conversion
from mindyn.logs.errors import FaultCollector, LogError
from mindyn.logs.formats import open_table
from mindyn.logs.locations import FileLocation, parse_location
from mindyn.logs.log import Log, SourceFile, hash_sources, join_logs
from mindyn.logs.metadata import SIGNALS, ColumnNames, LogMetadata, find_sidecar, read_sidecar
from mindyn.logs.mounting import require_mount
from mindyn.logs.tables import LogTable, count_rows, read_in_step
from mindyn.logs.units import unit_factor
from mindyn.reading import ALLOW_OUTSIDE_FILES, describe_exception
from mindyn.robots.robot import Robot, require_robot

CHUNK_ROWS: Final = 65_536
REQUIRED_SIGNALS: Final = ("position", "torque")


class LogScan:
    """The chunks of one log, read anew by every iteration; each is a `Log`.

    findings what is worth knowing of its columns; after an iteration, of its rows as well
    sidecar  the keys of its sidecar file; None: they are read
    outside_files  whether signals may lie in files outside of the log's folder; None: as the command line says
    """

    def __init__(
        self,
        path: FileLocation,
        robot: Robot,
        stated: Mapping[str, Any],
        chunk_rows: int,
        sidecar: Mapping[str, Any] | None = None,
        outside_files: bool | None = None,
    ) -> None:
        outside_files = ALLOW_OUTSIDE_FILES.get() if outside_files is None else outside_files
        self.path = path
        self.robot = robot
        self.chunk_rows = chunk_rows
        self._made_of = (path, robot, dict(stated), chunk_rows, sidecar, outside_files)
        self.tables: dict[str, LogTable] = {}
        self.picks: dict[str, ColumnSelection] = {}
        faults = FaultCollector()
        sidecar = read_sidecar(path) if sidecar is None else sidecar
        said, wrong = LogMetadata().merged_sound(sidecar)
        said, wrong_too = said.merged_sound(stated)
        faults.found.extend([*wrong, *wrong_too])
        main = open_table(path, robot, said)
        own, _ = LogMetadata().merged(main.stated).merged_sound(sidecar)
        self.statement, _ = own.merged_sound(stated)
        if self.statement.side is None and "side" in {**sidecar, **stated}:
            self.statement = replace(self.statement, side="joint")  # its fault is told already
        if not outside_files:
            _require_inside(path, self.statement.files)
        self.signals = faults.of(lambda: _list_signals(self.statement, main, robot)) or ()
        for signal in self.signals:
            faults.of(partial(self._pick, signal, main))
        self.time_columns = faults.of(lambda: _find_time_columns(self.statement, main, robot)) or ()
        self.conversion: Conversion = create_conversion(self.statement, robot, self.signals, faults)
        faults.of(lambda: require_mount(self.statement, robot))
        faults.raise_all(_describe_source(path, sidecar))
        self.main = main
        used = {*self.time_columns, *(one for pick in self.picks.values() for one in pick.names)}
        needed = {signal: self.tables[signal] for signal in REQUIRED_SIGNALS}
        unused = [
            *_describe_unused_joints(list_unused_joints(self.statement, robot, needed, used)),
            *list_unused_columns(self.statement, robot, self.tables),
        ]
        remedy = "Check that it is the log of this robot"
        self._of_columns = tuple(warning(Kind.UNUSED_COLUMNS, message, remedy) for message in unused)
        self.findings: tuple[Finding, ...] = self._of_columns

    def _pick(self, signal: str, main: LogTable) -> None:
        self.tables[signal] = self._table(signal, main)
        self.picks[signal] = select_columns(signal, self.statement, self.robot, self.tables[signal])

    @property
    def opening(self) -> partial[LogScan]:
        """What opens the log anew, in another process too: no row travels."""
        return partial(LogScan, *self._made_of)

    def _table(self, signal: str, main: LogTable) -> LogTable:
        file = self.statement.files.get(signal)
        return main if file is None else open_table(self.path.parent / file, self.robot, self.statement)

    def sources(self) -> tuple[SourceFile, ...]:
        """The files read, with their hashes."""
        others = dict.fromkeys(self.statement.files[s] for s in self.signals if s in self.statement.files)
        paths = dict.fromkeys([self.path, *(self.path.parent / name for name in others)])
        return tuple(source for path in paths for source in hash_sources(path))

    def __iter__(self) -> Iterator[Log]:
        cleaner = Cleaner(self.path.name, restarts="restarts" in self.statement.accept)
        oddities = LogInspector(self.robot)
        of_units: list[Finding] = []
        usable = (cleaner.clean(self._in_range(whole)) for whole in self._converted(oddities))
        for cleaned in chain(usable, _iterate_rest(cleaner)):
            if not len(cleaned):
                continue
            if cleaner.kept == len(cleaned):
                of_units = check_units(cleaned, self.robot, self.statement.accept)
            oddities.see(cleaned)
            yield cleaned
        if not cleaner.row_count and (self.statement.rows or self.statement.times):
            raise LogError(f"rows and times of {self.path.name} leave no row", hint="rows count from 0, times are in s")
        dropped = cleaner.findings(tuple(self.statement.accept))
        of_files = [info(Kind.FILE_CONTENT, note) for table in self._distinct() for note in table.notes]
        self.findings = (*self._of_columns, *of_files, *of_units, *dropped, *oddities.findings())

    def _converted(self, oddities: LogInspector) -> Iterator[Log]:
        first_row, start = 0, None
        for parts in read_in_step(self._wanted(), self.chunk_rows, self.path.name):
            rows = np.arange(first_row, first_row + count_rows(parts[0]), dtype=np.int64)
            chunks = dict(zip(map(id, self._distinct()), parts, strict=True))
            values = {}
            for signal, pick in self.picks.items():
                logged = pick.take(chunks[id(self.tables[signal])])
                oddities.see_columns(pick, logged)
                values[signal] = self.conversion.apply(signal, logged)
            if not self.time_columns:
                time: Array = rows / float(self.statement.rate_hz or np.nan)
            else:
                stamps = [take_column(chunks[id(self.main)], name) for name in self.time_columns]
                start = [column[0] for column in stamps] if start is None else start
                time = self._seconds([column - first for column, first in zip(stamps, start, strict=True)])
            yield self._log(time, rows, values)
            first_row += len(rows)

    def _log(self, time: Array, rows: np.ndarray[Any, np.dtype[np.int64]], values: Mapping[str, Array]) -> Log:
        qd, qdd = values.get("velocity"), values.get("acceleration")
        names = self.robot.primary_names
        return Log(names, time, values["position"], values["torque"], rows, qd, qdd, self.statement)

    def _seconds(self, since: Sequence[Array]) -> Array:
        """(N,) s of the stamps since the first row; of two columns, whole seconds and nanoseconds."""
        # Divided by a power of ten, not multiplied by 1e-9: a second has the same bits in every unit.
        if len(since) == 2:
            return np.asarray((since[0] * 10**9 + since[1]) / 10**9)
        return np.asarray(since[0] / round(1 / unit_factor("time", self.statement.unit("time", ""), "", "")))

    def _in_range(self, chunk: Log) -> Log:
        """The rows of the chunk that `rows` and `times` of the statement leave."""
        keep = np.ones(len(chunk), dtype=bool)
        if self.statement.rows is not None:
            first, end = self.statement.rows
            keep &= (chunk.rows >= first) & (chunk.rows < end)
        if self.statement.times is not None:
            start, last = self.statement.times
            keep &= (chunk.time >= start) & (chunk.time <= last)
        return chunk if keep.all() else chunk.take(keep)

    def _distinct(self) -> list[LogTable]:
        """The tables, the main one (of the stamps) among them, each once."""
        used = [*self.tables.values(), *([self.main] if self.time_columns else [])]
        return list({id(table): table for table in used}.values())

    def _wanted(self) -> list[tuple[LogTable, list[str]]]:
        wanted = []
        for table in self._distinct():
            picks: list[ColumnSelection] = [self.picks[s] for s in self.signals if self.tables[s] is table]
            names = [name for pick in picks for name in pick.names]
            times = self.time_columns if table is self.main else ()
            wanted.append((table, list(dict.fromkeys([*times, *names]))))
        return wanted


def _iterate_rest(cleaner: Cleaner) -> Iterator[Log]:
    """The rows that waited in the cleaner to the end."""
    rest = cleaner.rest()
    if rest is not None:
        yield rest


def sample_segments(scan: LogScan, rows: int, stretches: int = 8) -> Log:
    """The log, or of one longer than `rows` between a half and all of that number, in evenly spread stretches.

    One pass, in memory for `rows` rows and a chunk. The stretches are at least `stretches`, with gaps between.
    """
    length, every, seen = max(1, rows // (2 * stretches)), 1, 0
    kept: list[Log] = []
    for chunk in scan:
        for start in range(0, len(chunk), length):
            if seen % every == 0:
                # An index array copies: a slice would hold on to the chunk.
                kept.append(chunk.take(np.arange(len(chunk))[start : start + length]))
            seen += 1
            if len(kept) > 2 * stretches:
                kept, every = kept[::2], 2 * every
    if not kept:
        raise LogError(f"{scan.path.name} has no usable rows")
    return replace(join_logs(kept), findings=scan.findings)


def _list_signals(statement: LogMetadata, table: LogTable, robot: Robot) -> tuple[str, ...]:
    missing = [signal for signal in REQUIRED_SIGNALS if signal not in statement.columns]
    if missing:
        raise LogError(
            f"the {' and '.join(missing)} columns of {table.name} are not stated; {list_columns_and_joints(table.names, robot)}",
            hint=f'state columns.{missing[0]} = "q{{i}}" (or "{{joint}}.{missing[0]}", or a list of names) '
            f"in {table.name}.toml beside the log, or in the call",
        )
    return tuple(signal for signal in SIGNALS if signal in statement.columns)


def _require_inside(path: FileLocation, files: Mapping[str, str]) -> None:
    """Raise if a file that holds a signal lies outside of the log's folder, also through a link."""
    for signal, file in files.items():
        inside = not PurePath(file).is_absolute() and ".." not in PurePath(file).parts
        if isinstance(path, Path) and inside:
            try:
                inside = (path.parent / file).resolve().is_relative_to(path.parent.resolve())
            except (OSError, ValueError, RuntimeError) as problem:
                raise LogError(
                    f"files.{signal} = {shorten_text(repr(file), 200)} cannot be the name of a file: {describe_exception(problem)}",
                    hint="name a file in the folder of the log",
                ) from problem
        if not inside:
            raise LogError(
                f"files.{signal} = {shorten_text(repr(file), 200)} lies outside of the folder of {path.name}",
                hint="if you trust the sidecar file: mindyn --outside-files ..., or read_log(..., outside_files=True)",
            )


def _describe_unused_joints(joints: Sequence[str]) -> tuple[str, ...]:
    if not joints:
        return ()
    return (f"logged joints that the robot has not are not used: {', '.join(joints)}",)


def _describe_source(path: FileLocation, sidecar: Mapping[str, Any]) -> str:
    file = find_sidecar(path)
    return f"{path.name} in {file.name}" if sidecar and file is not None else path.name


def _find_time_columns(statement: LogMetadata, table: LogTable, robot: Robot) -> tuple[str, ...]:
    """The column of stamps, or those of whole seconds and nanoseconds; none where a rate is stated."""
    if statement.rate_hz is not None:
        return ()
    stated: ColumnNames | None = statement.columns.get("time")
    columns = (stated,) if isinstance(stated, str) else tuple(stated or ())
    if not columns or isinstance(stated, Mapping) or len(columns) > 2:
        raise LogError(
            f"the time of {table.name} is not stated; {list_columns_and_joints(table.names, robot)}",
            hint='state columns.time = "..." with units.time, or = ["SECONDS", "NANOSECONDS"], or rate_hz = ... if the '
            "rows are uniform",
        )
    for column in columns:
        if column not in table.names:
            raise LogError(
                f"{table.name} has no time column {column!r}; {list_columns_and_joints(table.names, robot)}",
                hint=f"columns.time in {table.name}.toml, or in the call, names it",
            )
    if len(columns) == 1:
        statement.unit("time", "")
    return columns


def scan_log(
    path: str | FileLocation,
    robot: Robot,
    *,
    columns: Mapping[str, ColumnNames] | None = None,
    units: Mapping[str, str | Mapping[str, str]] | None = None,
    side: str | Mapping[str, str] | None = None,
    stated: Mapping[str, Any] | None = None,
    outside_files: bool | None = None,
    chunk_rows: int = CHUNK_ROWS,
) -> LogScan:
    """The log as an iterable of chunks of at most `chunk_rows` rows, for a log larger than memory.

    What is not given is taken from the sidecar file (`run1.parquet.toml` or `run1.log.toml`, else the `logs.toml`
    of its folder); see `LogMetadata`.

    path                   of a file; or the URL of a Parquet file in an object store, such as "s3://bucket/run.parquet",
                           which is read block by block without a local copy
    columns, units, side   as in `LogMetadata`; above the sidecar's
    stated                 any other key of `LogMetadata`: rate_hz, gears, files, joints, position_offset, ...
    outside_files          whether a sidecar's `files` may lie outside of the log's folder; those of `stated` may
    """
    require_robot(robot, "a log is read for")
    given = {"columns": columns, "units": units, "side": side}
    over = {**(stated or {}), **{key: value for key, value in given.items() if value is not None}}
    return LogScan(parse_location(path), robot, over, chunk_rows, outside_files="files" in over or outside_files)


def read_log(
    path: str | FileLocation,
    robot: Robot,
    *,
    columns: Mapping[str, ColumnNames] | None = None,
    units: Mapping[str, str | Mapping[str, str]] | None = None,
    side: str | Mapping[str, str] | None = None,
    stated: Mapping[str, Any] | None = None,
    outside_files: bool | None = None,
) -> Log:
    """The whole log; arguments as for `scan_log`."""
    scan = scan_log(path, robot, columns=columns, units=units, side=side, stated=stated, outside_files=outside_files)
    chunks = list(scan)
    return replace(join_logs(chunks), sources=scan.sources(), findings=scan.findings)
