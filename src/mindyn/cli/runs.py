"""Estimates as commands take them, the folder of a run or a file; what their reports show beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any, Final

import typer

from mindyn.cli.printing import print_findings, print_status, print_table
from mindyn.errors import InputError, MindynError, list_names
from mindyn.estimators.estimate import Estimate, load_estimate
from mindyn.feasibility.check import Feasibility
from mindyn.files import finish_replacement
from mindyn.findings import Finding, Kind, info
from mindyn.logs.conditioning import Conditioning
from mindyn.logs.locations import FileLocation
from mindyn.logs.log import Log, SourceFile
from mindyn.logs.reading import read_log
from mindyn.report.data import VerdictData
from mindyn.report.headlines import GRADE_LABELS
from mindyn.report.inputs import MotionComparison
from mindyn.report.writing import write_report
from mindyn.robots.meshes import Meshes
from mindyn.robots.robot import Robot
from mindyn.validation.trajectories import compare_trajectories
from mindyn.validation.validate import Grade, Validation

RUN_ARGUMENT: Final = typer.Argument(help="A folder that `mindyn identify --out` wrote, or its estimate.json.")
"""For `Annotated[Path, RUN_ARGUMENT]`."""
MAX_MOTION_ROWS: Final = 20_000
"""Rows of a log whose motion is simulated for a report."""


def load_run_estimate(run: Path) -> Estimate:
    """The estimate of a folder or file."""
    finish_replacement(run if run.is_dir() else run.parent)
    path = run / "estimate.json" if run.is_dir() else run
    if not path.is_file():
        raise InputError(
            f"there is no estimate {str(path)!r}", hint="mindyn identify ROBOT LOG --out FOLDER writes one"
        )
    return load_estimate(path)


def read_logs(
    paths: Sequence[FileLocation], robot: Robot, fitted: Conditioning | None = None, *, are_training: bool = False
) -> list[Log]:
    """Read the logs, with a line on stderr for each and for its findings.

    fitted        the conditioning of the estimate that they are compared with
    are_training  the estimate will have their findings
    """
    made = []
    for path in paths:
        log = read_log(path, robot)
        print_status(f"read {path}: {len(log)} rows")
        print_findings(() if are_training else (*log.findings, *find_missing_velocity(fitted, [log])), verbose=True)
        made.append(log)
    return made


def find_missing_velocity(fitted: Conditioning | None, logs: Sequence[Log]) -> list[Finding]:
    """Find logs without the velocity that the fit took as it was measured."""
    if fitted is None or fitted.velocity != "measured":
        return []
    bare = [log.name for log in logs if log.qd is None]
    message = f"{list_names(bare)} holds no velocity, unlike the logs of the fit: mindyn differentiates the position"
    return [info(Kind.LOG_SETTING, message)] if bare else []


TRAINING_LOG_REASON: Final = "how well it is predicted says nothing about other motions"


def require_held_out(
    trained: Sequence[SourceFile], held_out: Sequence[Log], hint: str, because: str = TRAINING_LOG_REASON
) -> None:
    """Refuse to judge by a log that was trained on, under whatever name: its files' bytes are compared."""
    seen = {source.sha256 for source in trained}
    both = [log.sources[0].path for log in held_out if log.sources and {s.sha256 for s in log.sources} <= seen]
    if both:
        raise InputError(f"{', '.join(both)} is a training log: {because}", hint=hint)


GRADE_COLOURS: Final[Mapping[Grade, str]] = {
    "well": "green",
    "floor": "green",
    "roughly": "yellow",
    "hardly": "red",
    "not": "red",
}


def print_verdict(found: Estimate, verdict: VerdictData) -> None:
    """A line for each joint: how much of its torque is missed, and how that counts."""
    rows = [("joint", "missed", "rms", "verdict" if verdict.held_out else "fit of its own rows")]
    for joint, one in zip(found.robot.primary_joints, verdict.joints, strict=True):
        unit = "N" if joint.kind == "prismatic" else "N m"
        part = f"{100 * one.relative:.3g} %" if isfinite(one.relative) else "no torque"
        rows.append((joint.name, part, f"{one.rmse:.3g} {unit}", GRADE_LABELS[one.grade]))
    rows.append(("all joints", f"{100 * verdict.total:.3g} %", "", GRADE_LABELS[verdict.grade]))
    grades = [*(one.grade for one in verdict.joints), verdict.grade]
    print_table(rows, numbers=(1, 2), styles=[GRADE_COLOURS[grade] for grade in grades])


def write_run_report(
    path: Path,
    found: Estimate,
    feasibility: Feasibility,
    held_out: Sequence[Log],
    training: Sequence[Log],
    run: Mapping[str, Any],
    verdict: Validation | None,
    comparison: Mapping[str, Estimate] | None = None,
    prior: Robot | None = None,
    meshes: Meshes | None = None,
) -> None:
    """`write_report` with what a command adds: whether such a robot can exist, and its simulated motion."""
    write_report(
        path,
        found,
        validation_logs=held_out,
        validation=verdict,
        training_logs=training,
        feasibility=feasibility,
        motion=simulate_first_log(found, held_out or training),
        comparison=comparison,
        prior=prior,
        run=run,
        meshes=meshes,
    )


def simulate_first_log(found: Estimate, logs: Sequence[Log]) -> MotionComparison | None:
    """The first log's motion, simulated under its torque; None where that cannot be, and the reason is said."""
    if not logs:
        return None
    try:
        made = compare_trajectories(found, logs[0].take(slice(0, MAX_MOTION_ROWS)))
    except MindynError as refused:
        print_status(f"note: no simulated motion in the report: {refused.message}")
        return None
    return MotionComparison(made.t, made.measured, made.simulated, made.status)
