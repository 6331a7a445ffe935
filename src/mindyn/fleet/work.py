"""What a worker does with one log: condition it, gather its R factors, forget its rows."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np

from mindyn.algebra.blas import run_on_one_blas_thread
from mindyn.errors import MindynError, shorten_text
from mindyn.executors import require_polars_threads
from mindyn.fleet.factors import Factor, Generation
from mindyn.fleet.zero_columns import ZeroRegressor
from mindyn.logs.conditioning import Conditioning, require_resolved
from mindyn.logs.errors import LogError
from mindyn.logs.locations import FileLocation
from mindyn.logs.log import Log, hash_sources
from mindyn.logs.pipeline import condition_stream, require_samples
from mindyn.logs.reading import LogScan
from mindyn.reading import ALLOW_OUTSIDE_FILES, describe_exception
from mindyn.regression.gather_blocks import split_stream_into_blocks
from mindyn.regression.information import add_information

CONDITIONED_ROWS: Final = 2**14
"""Rows read and conditioned at once: a worker takes 375 MB, with four times as many 491 in the same time."""
RATE_TOLERANCE: Final = 0.02
"""Part by which a log's own rate may differ from the treatment's."""


@dataclass(frozen=True, slots=True)
class Task:
    """One log to gather.

    place      where it is
    name       what it is called
    version    what tells its bytes from others'
    said       what its path says
    day        days since 1970
    sidecar    what its columns mean, by a sidecar that it shares; None: it has its own
    constants  columns that say what the path does not
    outside_files  whether its sidecar may name files outside of its folder
    """

    place: FileLocation
    name: str
    version: str
    said: Mapping[str, str]
    day: float | None
    sidecar: Mapping[str, Any] | None
    constants: tuple[str, ...] = ()
    outside_files: bool = field(default_factory=ALLOW_OUTSIDE_FILES.get)


@dataclass(frozen=True, slots=True)
class Excluded:
    """A log that is not counted, and why."""

    name: str
    reason: str


@run_on_one_blas_thread
def gather_log(generation: bytes, task: Task) -> Factor | Excluded:
    """The log's factor; whatever is wrong with the log excludes it by name."""
    try:
        return _gather_factor(task, *_open_regressor(generation))
    except MindynError as error:
        return Excluded(task.name, format_reason(error))
    except (OSError, ValueError, ArithmeticError, LookupError, MemoryError) as error:
        return Excluded(task.name, f"it cannot be gathered: {describe_exception(error)}")


def format_reason(error: MindynError) -> str:
    """What is wrong, as a reason in a table."""
    return shorten_text("; ".join(line.strip(" -") for line in error.message.splitlines()), 300)


@lru_cache(maxsize=2)
def _open_regressor(generation: bytes) -> tuple[Generation, ZeroRegressor]:
    """Once for every worker: the kernels are compiled, or come from its own cache on disk."""
    made: Generation = pickle.loads(generation)
    return made, made.regressor


def _gather_factor(task: Task, generation: Generation, regressor: ZeroRegressor) -> Factor:
    treatment = generation.settings
    scan = LogScan(task.place, generation.robot, {}, CONDITIONED_ROWS, task.sidecar, task.outside_files)
    _require_rate(scan, treatment.conditioning or Conditioning())
    stream = condition_stream(scan, generation.robot, treatment.fit_conditioning, block_rows=CONDITIONED_ROWS, fewest=0)
    blocks = split_stream_into_blocks(regressor, stream, treatment)
    require_samples(stream.count, stream.findings)
    total = add_information([block.information for block in blocks])
    said = {**_read_constants(task.place, task.constants), **task.said}
    content = task.version if task.version.startswith("etag:") else _hash_content(task.place)
    notes = tuple(map(str, stream.findings))
    return Factor(task.name, task.version, content, said, task.day, stream.count, total.factors, total.counts, notes)


def _require_rate(scan: LogScan, conditioning: Conditioning) -> None:
    """Rows taken as uniform must be so at the treatment's rate, in every log."""
    first: Log | None = next(iter(scan), None)
    if first is None or len(first) < 2:
        raise LogError("too few rows: none is usable")
    if conditioning.stamps != "uniform":
        return
    rate, own = require_resolved(conditioning.rate_hz, "rate_hz"), 1 / float(np.median(np.diff(first.time)))
    if abs(own / rate - 1) > RATE_TOLERANCE:
        raise LogError(f"its rate is {own:.6g} Hz; the logs that settings were chosen on have {rate:.6g} Hz")


def _read_constants(place: FileLocation, names: Sequence[str]) -> dict[str, str]:
    """Values of columns that are the same in every row."""
    if not names:
        return {}
    import polars as pl

    require_polars_threads()
    frame = pl.scan_parquet(place if isinstance(place, Path) else place.url, glob=False)
    missing = [name for name in names if name not in frame.collect_schema().names()]
    if missing or place.suffix.lower() != ".parquet":
        raise LogError(f"neither its path nor a column says: {', '.join(missing or names)}")
    found = frame.select([pl.col(name).drop_nulls().unique().head(2).implode() for name in names]).collect()
    values = {name: found[name][0].to_list() for name in names}
    for name, given in values.items():
        if len(given) != 1:
            raise LogError(f"its column {name!r} has {'several values' if given else 'no value'}: it names no group")
    return {name: str(given[0]) for name, given in values.items()}


def _hash_content(place: FileLocation) -> str:
    hashes = [source.sha256 for source in hash_sources(place)]
    return f"sha256:{hashes[0] if len(hashes) == 1 else hashlib.sha256(''.join(hashes).encode()).hexdigest()}"
