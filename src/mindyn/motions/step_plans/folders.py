"""Folders of step-by-step tests: the plan, the motions to command, and the recorded logs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

from mindyn.foundation.atomic_files import (
    finish_replacement,
    replace_folder_files,
    require_parent,
    write_file_atomically,
)
from mindyn.foundation.errors import Code, InputError
from mindyn.foundation.safe_reading import read_json
from mindyn.logs.log import Log
from mindyn.logs.read_log import read_log
from mindyn.motions.excitation.motion_files import format_samples
from mindyn.motions.step_plans.plan import StepPlan, load_plan
from mindyn.motions.step_plans.step_motions import Breakaways
from mindyn.robots.robot import Robot

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
    files = [f"{name}.motion.csv" for name in plan.motions]
    with _replacing(folder, files) as target:
        for name, motion in plan.motions.items():
            t, q, qd, _ = motion.trajectory(rate_hz)
            text = format_samples(plan.joints, t, {"position": q, "velocity": qd}, comments)
            write_file_atomically(target / f"{name}.motion.csv", text)
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
    plan.require_motions(logs)
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

    The entry "logs" of the plan names the CSV or Parquet file of each motion; each file has a sidecar. Motions that are
    not listed there have no log.

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
    plan.require_motions(files)
    missing = [file for file in files.values() if not (Path(folder) / file).exists()]
    if missing:
        raise InputError(
            f"{path} names the log {missing[0]!r}, but the folder has no such file",
            code=Code.MISSING_FILE,
            subject=missing[0],
        )
    return plan, {name: read_log(Path(folder) / file, robot) for name, file in files.items()}


def _replacing(folder: str | Path, names: Sequence[str]) -> AbstractContextManager[Path]:
    require_parent(Path(folder) / PLAN)
    return replace_folder_files(folder, [PLAN, *names])
