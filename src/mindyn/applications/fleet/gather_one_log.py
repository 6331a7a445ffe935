"""Work on one log: condition it, gather its R factors, and discard its rows."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np

from mindyn.applications.fleet.factor_files import Factor, Generation
from mindyn.applications.fleet.fleet_causes import ZeroRegressor
from mindyn.foundation.algebra.blas import run_on_one_blas_thread
from mindyn.foundation.errors import Code, MindynError, shorten_text
from mindyn.foundation.printable import make_printable
from mindyn.foundation.processes.executors import require_polars_threads
from mindyn.foundation.safe_reading import ALLOW_OUTSIDE_FILES, describe_exception
from mindyn.logs.conditioning import Conditioning, require_resolved
from mindyn.logs.locations import FileLocation, RemoteFile, remote_error
from mindyn.logs.log import Log, hash_sources, list_sources
from mindyn.logs.log_errors import LogError
from mindyn.logs.pipeline import condition_stream, require_samples
from mindyn.logs.read_log import LogScan
from mindyn.regression.gather_blocks import split_stream_into_blocks
from mindyn.regression.information import add_information
from mindyn.robots.robot import Robot

CONDITIONED_ROWS: Final = 2**14
"""Rows read and conditioned at once: a worker needs 375 MB. Four times as many need 491 MB, and are not faster."""
MIN_ROWS: Final = 2
"""Smallest number of rows of a log: fewer have no rate."""
END_BYTES: Final = 2**16
"""Bytes at the beginning and at the end of a file that are compared with other files."""
RATE_TOLERANCE: Final = 0.02
"""Largest relative difference between the rate of a log and that of the settings."""


@dataclass(frozen=True, slots=True)
class Task:
    """Log to gather.

    place      path or URL of the log
    name       its name in reports
    version    identifies its bytes
    fields     fields of its path
    day        days since 1970
    sidecar    meaning of its columns, from a shared sidecar; None: it has its own
    constants  constant columns with fields that the path does not have
    outside_files  whether its sidecar may name files outside of its folder
    """

    place: FileLocation
    name: str
    version: str
    fields: Mapping[str, str]
    day: float | None
    sidecar: Mapping[str, Any] | None
    constants: tuple[str, ...] = ()
    outside_files: bool = field(default_factory=ALLOW_OUTSIDE_FILES.get)


@dataclass(frozen=True, slots=True)
class Excluded:
    """Log that does not count, and the reason."""

    name: str
    reason: str


@run_on_one_blas_thread
def gather_or_exclude(generation: bytes, task: Task) -> Factor | Excluded:
    """Return the factor of a log, or exclude the log by name if anything is wrong with it."""
    opened = _open_regressor(generation)
    try:
        return _gather_factor(task, *opened)
    except Exception as error:  # whatever a library raises for one file, the other logs count
        return Excluded(task.name, explain_failure(task, error))


def explain_failure(task: Task, error: Exception) -> str:
    """Return why a log cannot be used, as one line of a table."""
    if isinstance(error, MindynError):
        return format_reason(error)
    if isinstance(task.place, RemoteFile):  # such a message may contain the credentials of the URL
        return format_reason(remote_error(task.place, error))
    return make_printable(f"it cannot be processed: {describe_exception(error)}")


def open_log(task: Task, robot: Robot, rows: int) -> LogScan:
    """Return the scan of a log in chunks of so many rows."""
    return LogScan(task.place, robot, {}, rows, task.sidecar, task.outside_files)


def require_complete(task: Task, scan: LogScan) -> None:
    """Read a log to its end, and raise an error if it cannot be used."""
    rows = sum(len(chunk) for chunk in scan)
    _require_enough_rows(rows)
    _read_constants(task.place, task.constants)


def format_reason(error: MindynError) -> str:
    """Return the message of an error as one line of a table."""
    return shorten_text("; ".join(line.strip(" -") for line in error.message.splitlines()), 300)


@lru_cache(maxsize=2)
def _open_regressor(generation: bytes) -> tuple[Generation, ZeroRegressor]:
    """Return the generation and its regressor, once per worker; kernels are compiled or come from its cache."""
    opened: Generation = pickle.loads(generation)
    return opened, opened.regressor


def _gather_factor(task: Task, generation: Generation, regressor: ZeroRegressor) -> Factor:
    settings = generation.settings
    scan = open_log(task, generation.robot, CONDITIONED_ROWS)
    _require_rate(scan, settings.conditioning or Conditioning())
    stream = condition_stream(
        generation.robot, scan, settings.fit_conditioning, block_rows=CONDITIONED_ROWS, min_samples=0
    )
    blocks = split_stream_into_blocks(regressor, stream, settings)
    require_samples(stream.count, stream.findings)
    total = add_information([block.information for block in blocks])
    fields = {**_read_constants(task.place, task.constants), **task.fields}
    content = task.version if task.version.startswith("etag:") else _hash_content(task.place)
    return Factor(task.name, task.version, content, fields, task.day, stream.count, total.factors, total.counts)


def _require_enough_rows(rows: int) -> None:
    if rows < MIN_ROWS:
        raise LogError(
            f"the log has {rows} usable rows; at least {MIN_ROWS} are needed",
            hint="did the recording fail, or do columns contain values that are not numbers?",
            code=Code.TOO_LITTLE_DATA,
            subject="log",
        )


def _require_rate(scan: LogScan, conditioning: Conditioning) -> None:
    """Raise `LogError` if a log of uniform rows does not have the rate of the settings."""
    first: Log | None = next(iter(scan), None)
    _require_enough_rows(0 if first is None else len(first))
    if first is None or conditioning.stamps != "uniform":
        return
    rate, log_rate = require_resolved(conditioning.rate_hz, "rate_hz"), 1 / float(np.median(np.diff(first.time)))
    if abs(log_rate / rate - 1) > RATE_TOLERANCE:
        raise LogError(
            f"the log has a rate of {log_rate:.6g} Hz, but the settings were selected for {rate:.6g} Hz",
            code=Code.DISAGREEMENT,
            subject="rate_hz",
        )


def _read_constants(place: FileLocation, names: Sequence[str]) -> dict[str, str]:
    """Return the values of columns that are constant."""
    if not names:
        return {}
    import polars as pl

    require_polars_threads()
    frame = pl.scan_parquet(place if isinstance(place, Path) else place.url, glob=False)
    missing = [name for name in names if name not in frame.collect_schema().names()]
    if missing or place.suffix.lower() != ".parquet":
        raise LogError(
            f"{place.name} has no column {', '.join(missing or names)}, and its path has no such field",
            hint="use these names as fields of the pattern, such as {robot}, or group by columns that the log has",
            code=Code.MISSING_VALUE,
            subject=", ".join(missing or names),
        )
    uniques = frame.select([pl.col(name).drop_nulls().unique().head(2).implode() for name in names]).collect()
    values = {name: uniques[name][0].to_list() for name in names}
    for name, given in values.items():
        if len(given) != 1:
            raise LogError(
                f"its column {name!r} has {'several values' if given else 'no value'}, so it cannot name a group",
                code=Code.AMBIGUOUS,
                subject=name,
            )
    return {name: str(given[0]) for name, given in values.items()}


def _hash_content(place: FileLocation) -> str:
    hashes = [source.sha256 for source in hash_sources(place)]
    return f"sha256:{hashes[0] if len(hashes) == 1 else hashlib.sha256(''.join(hashes).encode()).hexdigest()}"


def compute_fingerprint(task: Task) -> str:
    """Return a hash of the size, the beginning and the end of a log, or of the store's etag; copies have the same hash.

    It does not depend on the path. Hashing all bytes would read the whole fleet before the first log is gathered.
    """
    if not isinstance(task.place, Path):
        return hashlib.sha256(task.version.encode()).hexdigest()
    digest = hashlib.sha256()
    for path in list_sources(task.place):
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(0)
            digest.update(b"%d:" % size + file.read(END_BYTES))
            file.seek(max(0, size - END_BYTES))
            digest.update(file.read(END_BYTES))
    return digest.hexdigest()
