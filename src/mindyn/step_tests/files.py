"""Folders of step-by-step tests: the plan, the motions to command, and the recorded logs."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from io import StringIO
from pathlib import Path
from typing import Final

from mindyn.errors import Code, ExportError, InputError
from mindyn.files import finish_replacement, replace_folder_files, write_file_atomically
from mindyn.logs.log import Log
from mindyn.logs.reading import read_log
from mindyn.reading import read_json
from mindyn.robots.robot import Robot
from mindyn.step_tests.motions import Breakaways
from mindyn.step_tests.plan import StepPlan, load_plan

PLAN: Final = "plan.json"
"""Name of the plan's file in a folder of tests."""


def write_motions(
    plan: StepPlan, folder: str | Path, *, rate_hz: float = 200.0, comments: Sequence[str] = ()
) -> tuple[Path, ...]:
    """Write the plan, and a CSV file of time, position and velocity commands for every motion, in SI units.

    Parameters
    ----------
    plan : StepPlan
        The tests.
    folder : str or Path
        An existing folder.
    rate_hz : float
        Samples per second.
    comments : sequence of str
        Lines at the beginning of every CSV file, such as what was checked.

    Returns
    -------
    tuple of Path
        The written files, the plan first.

    Raises
    ------
    ExportError
        If the folder does not exist.
    """
    # Without commas: readers of logs take a last comment with as many cells as the first row for the header.
    head = [f"# {' '.join(line.replace(',', ';').split())}" for line in comments]
    files = [f"{name}.motion.csv" for name in plan.motions]
    with _replacing(folder, files) as target:
        heads = [*(f"{name}.position" for name in plan.joints), *(f"{name}.velocity" for name in plan.joints)]
        for name, motion in plan.motions.items():
            path = motion.trajectory(rate_hz)
            rows = [[t, *q, *qd] for t, q, qd in zip(path.t, path.q, path.qd, strict=True)]
            lines = [*head, _header(["time", *heads]), *(",".join(repr(float(value)) for value in row) for row in rows)]
            write_file_atomically(target / f"{name}.motion.csv", "\n".join(lines) + "\n")
        plan.save(target / PLAN)
    return tuple(Path(folder) / name for name in (PLAN, *files))


def write_test_logs(logs: Mapping[str, Log], folder: str | Path, robot: Robot, plan: StepPlan) -> tuple[Path, ...]:
    """Write each log as a CSV file with a sidecar, and the plan, which names the motion of each log.

    Parameters
    ----------
    logs : mapping of motion name to Log
        Logs of some or all motions.
    folder : str or Path
        An existing folder.
    robot : Robot
        The robot of the logs.
    plan : StepPlan
        The tests.

    Returns
    -------
    tuple of Path
        The written files, the plan first.

    Raises
    ------
    InputError
        If the plan has no motion of that name.
    ExportError
        If the folder does not exist.
    """
    unknown = [name for name in logs if name not in plan.motions]
    if unknown:
        raise InputError(
            f"the plan has no motion {unknown[0]!r}; it has: {', '.join(plan.motions)}",
            code=Code.UNKNOWN_NAME,
            subject=unknown[0],
        )
    files = [f"{name}.csv{end}" for name in logs for end in ("", ".toml")]
    with _replacing(folder, files) as target:
        for name, log in logs.items():
            # A breakaway is one row, whose velocity gives only the direction.
            accept = ["velocity", "rate"] if isinstance(plan.motions[name], Breakaways) else []
            log.save(target / f"{name}.csv", robot, accept=accept)
        named = {**plan.to_dict(), "logs": {name: f"{name}.csv" for name in logs}}
        write_file_atomically(target / PLAN, json.dumps(named, indent=1) + "\n")
    return tuple(Path(folder) / name for name in (PLAN, *files))


def read_test_logs(folder: str | Path, robot: Robot) -> tuple[StepPlan, dict[str, Log]]:
    """Read the plan of a folder and the logs of its motions.

    The entry "logs" of the plan names the CSV or Parquet file of every motion, each with a sidecar. Motions that it
    does not name have no log.

    Parameters
    ----------
    folder : str or Path
        The folder of the tests.
    robot : Robot
        The robot of the logs.

    Returns
    -------
    tuple of StepPlan and dict of motion name to Log
        The plan, and the logs that the folder has.

    Raises
    ------
    InputError
        If the plan names an unknown motion or a missing file.
    """
    finish_replacement(folder)
    path = Path(folder) / PLAN
    plan = load_plan(path)
    files = read_json(path, "plan of tests", InputError).get("logs", {})
    unknown = [name for name in files if name not in plan.motions]
    if unknown:
        raise InputError(
            f"{path} names a log of {unknown[0]!r}, but the plan has no such motion; it has: {', '.join(plan.motions)}",
            code=Code.UNKNOWN_NAME,
            subject=unknown[0],
        )
    missing = [file for file in files.values() if not (Path(folder) / file).exists()]
    if missing:
        raise InputError(
            f"{path} names the log {missing[0]!r}, but the folder has no such file",
            code=Code.MISSING_FILE,
            subject=missing[0],
        )
    return plan, {name: read_log(Path(folder) / file, robot) for name, file in files.items()}


def _header(names: Sequence[str]) -> str:
    """Return a line of names, quoted if they contain separators or quotes."""
    line = StringIO()
    csv.writer(line, lineterminator="").writerow(names)
    return line.getvalue()


def _replacing(folder: str | Path, names: Sequence[str]) -> AbstractContextManager[Path]:
    if not Path(folder).is_dir():
        raise ExportError(
            f"cannot write tests: no folder {str(folder)!r}",
            hint="create the folder first",
            code=Code.MISSING_FILE,
            subject=folder,
        )
    return replace_folder_files(folder, [PLAN, *names])
