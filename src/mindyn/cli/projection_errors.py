"""Compute torque errors on the logs of a run before and after its estimate was made feasible."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from mindyn.cli.printing import print_status
from mindyn.cli.runs import read_run_record
from mindyn.foundation.atomic_files import locate_beside
from mindyn.foundation.errors import Code, InputError, MindynError

if TYPE_CHECKING:
    from mindyn.identification.estimators.estimate import Estimate
    from mindyn.logs.log import Log, SourceFile
    from mindyn.robots.robot import Robot

RowsName = Literal["training", "held-out"]


@dataclass(frozen=True, slots=True)
class ErrorChange:
    """Total relative torque error on the training or held-out rows of a run, before and after a projection."""

    rows: RowsName
    before: float
    after: float

    def __str__(self) -> str:
        return f"{self.rows} error: {100 * self.before:.3g} % before making feasible, {100 * self.after:.3g} % after"


def compare_errors(run: Path, before: Estimate, after: Estimate) -> tuple[ErrorChange, ...]:
    """Return the errors of two estimates on the logs of their run; print a note about logs that are not available."""
    from mindyn.applications.validation.validate import validate
    from mindyn.logs.log import group_sources

    changes = []
    sources: dict[RowsName, Sequence[SourceFile]] = {"training": before.data.sources, "held-out": _read_held_out(run)}
    for rows, files in sources.items():
        if not files:
            continue
        try:
            logs = [_read_part(path, parts, before.robot) for path, parts in group_sources(files).items()]
            totals = [validate(estimate, logs).error.total for estimate in (before, after)]
        except MindynError as error:
            print_status(f"note: the {rows} error after making feasible is not known: {error.message}")
            continue
        changes.append(ErrorChange(rows, *totals))
    return tuple(changes)


def _read_held_out(run: Path) -> list[SourceFile]:
    """Return the held-out logs that the record of a run names; empty without a record."""
    from mindyn.logs.log import SourceFile

    folder = run if run.is_dir() else run.parent
    saved = read_run_record(run).get("held_out", [])
    return [SourceFile.from_dict({**entry, "path": locate_beside(entry["path"], folder)}) for entry in saved]


def _read_part(path: str, sources: Sequence[SourceFile], robot: Robot) -> Log:
    """Read the rows of a log; raise `InputError` if a file of it is missing or has changed."""
    from mindyn.logs.log import hash_sources
    from mindyn.logs.read_log import read_log

    if not Path(path).exists():
        raise InputError(f"{path} does not exist", code=Code.MISSING_FILE, subject=path)
    if not {source.sha256 for source in sources} <= {file.sha256 for file in hash_sources(Path(path))}:
        raise InputError(f"{path} has changed since the run", code=Code.DISAGREEMENT, subject=path)
    log = read_log(path, robot)
    return log if sources[0].rows is None else log.between(*sources[0].rows)
