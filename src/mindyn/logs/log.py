"""`Log`: measured motion and torque of one recording, at the joints, in SI units."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import PurePath
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mindyn.algebra.values import Array, native_array, require_unmasked
from mindyn.errors import InputError
from mindyn.findings import Finding
from mindyn.logs.cleaning import Cleaner
from mindyn.logs.locations import FileLocation, RemoteFile
from mindyn.logs.metadata import LogMetadata
from mindyn.pages.notebook import NotebookDisplay, Page, draw_page


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file that a log was read from, and the SHA-256 of its bytes; of an object in a store "etag:" and its etag."""

    path: str
    sha256: str


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Log(NotebookDisplay):
    """One recording, joint side, SI; columns in the robot's order, stamps increasing.

    joint_names  n names
    time         (N,) s since the first row of the file
    q, tau       (N, n) rad or m; N m or N
    qd, qdd      (N, n) as logged; None when they are not
    rows         (N,) row of the file that each row comes from
    statement    how the file's columns were read: names, units, side, gears
    sources      files and their hashes
    findings     what was dropped or is worth knowing
    name         what reports call it: the file's name unless it was given another, "" of arrays that have none
    """

    joint_names: tuple[str, ...]
    time: Array
    q: Array
    tau: Array
    rows: NDArray[np.int64]
    qd: Array | None = None
    qdd: Array | None = None
    statement: LogMetadata = field(default_factory=LogMetadata)
    sources: tuple[SourceFile, ...] = ()
    findings: tuple[Finding, ...] = ()
    name: str = ""

    def __post_init__(self) -> None:
        if not self.name and self.sources:
            object.__setattr__(self, "name", PurePath(self.sources[0].path).name)
        shape = (len(self.time), len(self.joint_names))
        for name in ("time", "q", "qd", "qdd", "tau", "rows"):
            array = getattr(self, name)
            if array is None:
                continue
            view = (array if name == "rows" else native_array(array, name)).view()
            if name not in ("time", "rows") and view.shape != shape:
                raise InputError(f"{name} has shape {view.shape}, but {shape} is needed: torque out of step?")
            view.flags.writeable = False
            object.__setattr__(self, name, view)

    def __len__(self) -> int:
        return len(self.time)

    def __repr__(self) -> str:
        seconds = float(self.time[-1] - self.time[0]) if len(self) else 0.0
        return f"Log({len(self)} rows of {len(self.joint_names)} joints over {seconds:.4g} s)"

    def plot(self) -> Page:
        """Position and torque of every joint over time, as a page that notebooks show and `.save(path)` writes."""
        return draw_page(self)

    def take(self, index: slice | NDArray[np.bool_] | NDArray[np.intp]) -> Log:
        """The selected rows."""
        arrays: dict[str, Any] = {name: getattr(self, name) for name in LOG_ARRAYS}
        taken: dict[str, Any] = {name: None if a is None else a[index] for name, a in arrays.items()}
        return replace(self, **taken)

    def followed_by(self, following: Log) -> Log:
        """The log with the rows of the recording that come after it."""
        return join_logs([self, following])

    def between(self, start: int, stop: int) -> Log:
        """The part that comes from rows start <= row < stop of the file."""
        return self.take((self.rows >= start) & (self.rows < stop))


LOG_ARRAYS = tuple(entry.name for entry in fields(Log) if entry.name in ("time", "q", "tau", "rows", "qd", "qdd"))


def log_from_arrays(
    joint_names: Sequence[str],
    time: ArrayLike,
    q: ArrayLike,
    tau: ArrayLike,
    qd: ArrayLike | None = None,
    qdd: ArrayLike | None = None,
    *,
    name: str = "",
) -> Log:
    """A log of joint-side SI arrays that come from no file (a simulation, a test).

    Rows that cannot be used are treated as those of a file: repeated stamps and what is no number are left out with a
    note, rows that came late are put in order, stamps that go back otherwise are refused.

    name  what reports call it
    """
    if isinstance(joint_names, str) or not isinstance(joint_names, Iterable):
        raise InputError(
            f"joint_names is a list of names, got {type(joint_names).__name__}", hint="robot.primary_names of a Robot"
        )
    stamps, positions, torques = (
        _require_floats(values, what) for values, what in ((time, "time"), (q, "q"), (tau, "tau"))
    )
    speeds, accelerations = (None if v is None else _require_floats(v, what) for v, what in ((qd, "qd"), (qdd, "qdd")))
    rows = np.arange(len(stamps), dtype=np.int64)
    cleaner = Cleaner(name or "the log")
    made = Log(tuple(joint_names), stamps, positions, torques, rows, speeds, accelerations, name=name)
    cleaned = join_logs([part for part in (cleaner.clean(made), cleaner.rest()) if part is not None])
    return replace(cleaned, findings=tuple(cleaner.dropped_rows()))


def _require_floats(values: ArrayLike, what: str) -> Array:
    """The values as an array of floats."""
    require_unmasked(values, what)
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{what} holds no numbers: {error}") from None


def join_logs(logs: Sequence[Log]) -> Log:
    """Consecutive chunks of one recording as one log."""
    if len(logs) == 1:
        return logs[0]
    arrays: dict[str, Any] = {name: [getattr(log, name) for log in logs] for name in LOG_ARRAYS}
    whole: dict[str, Any] = {k: None if v[0] is None else np.concatenate(v) for k, v in arrays.items()}
    return replace(logs[0], **whole)


def hash_sources(path: FileLocation) -> tuple[SourceFile, ...]:
    """The file with its hash; for a folder, each file in it."""
    if isinstance(path, RemoteFile):
        return (SourceFile(str(path), path.info().version),)
    files = sorted(entry for entry in path.iterdir() if entry.is_file()) if path.is_dir() else [path]
    sources = []
    for entry in files:
        with entry.open("rb") as stream:
            sources.append(SourceFile(str(entry), hashlib.file_digest(stream, "sha256").hexdigest()))
    return tuple(sources)
