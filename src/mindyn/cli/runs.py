"""Load the estimate of a run, read logs, and write reports, for several commands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

from mindyn.cli.choices import SERVO_FILE
from mindyn.cli.printing import print_findings, print_status, print_table
from mindyn.foundation.atomic_files import finish_replacement
from mindyn.foundation.errors import Code, InputError, MindynError, list_names
from mindyn.foundation.findings import Finding, Kind, info
from mindyn.foundation.hints import Command
from mindyn.foundation.safe_reading import read_json
from mindyn.logs.locations import FileLocation

if TYPE_CHECKING:
    from mindyn.applications.validation.trajectories import Trajectories
    from mindyn.applications.validation.validate import Grade
    from mindyn.identification.elasticity.records import Elasticity
    from mindyn.identification.estimators.estimate import Estimate
    from mindyn.logs.conditioning import Conditioning
    from mindyn.logs.log import Log, SourceFile
    from mindyn.output.report.verdict import VerdictData
    from mindyn.robots.robot import Robot

RUN_ARGUMENT: Final = typer.Argument(help="Folder of `mindyn identify --out`, or its estimate.json.")
"""For `Annotated[Path, RUN_ARGUMENT]`."""
RUN_RECORD: Final = "run.json"
CALIBRATION_FILE: Final = "calibration.json"
"""File of a run folder with the torque scale by a weighed payload; a new run removes it."""
MAX_MOTION_ROWS: Final = 20_000
"""Most rows of a log whose motion is simulated for a report."""


def load_run_estimate(run: Path) -> Estimate:
    """Load the estimate of a run folder or file."""
    from mindyn.identification.estimators.estimate import load_estimate

    finish_replacement(run if run.is_dir() else run.parent)
    path = run / "estimate.json" if run.is_dir() else run
    if (run / SERVO_FILE).is_file():
        raise InputError(
            f"the run {str(run)!r} has servos and no dynamic parameters",
            hint="export it, or identify the masses too with --no-servo",
            command=Command("export", run, "--to", "mjcf", "--out", "model.xml"),
            code=Code.UNSUPPORTED,
            subject=run,
        )
    if not path.is_file():
        raise InputError(
            f"the estimate '{path}' does not exist",
            hint="write one",
            command=Command("identify", "ROBOT", "LOG", "--out", run),
            code=Code.MISSING_FILE,
            subject=path,
        )
    if path.suffix != ".json":
        raise InputError(
            f"'{run}' is not a run of `mindyn identify`",
            hint="give the folder of its --out, or the estimate.json inside; is the order of the arguments right?",
            code=Code.WRONG_FORMAT,
            subject=run,
        )
    return load_estimate(path)


def load_run_elasticity(run: Path) -> Elasticity:
    """Load the elasticity of the joints of a run."""
    from mindyn.identification.elasticity.records import ELASTICITY_FILE, load_elasticity

    path = (run if run.is_dir() else run.parent) / ELASTICITY_FILE
    if not path.is_file():
        raise InputError(
            f"the run {str(run)!r} has no elasticity of its joints",
            hint="estimate it from logs with positions of motors and links",
            command=Command("elasticity", run, "LOG", "--save"),
            code=Code.MISSING_FILE,
            subject=path,
        )
    return load_elasticity(path)


def read_run_record(run: Path) -> dict[str, Any]:
    """Read the record of a run folder or of the folder of its estimate; empty if there is none."""
    path = (run if run.is_dir() else run.parent) / RUN_RECORD
    return read_json(path, "record of a run", InputError) if path.is_file() else {}


def read_logs(
    paths: Sequence[FileLocation], robot: Robot, fitted: Conditioning | None = None, *, are_training: bool = False
) -> list[Log]:
    """Read logs and print a status line and the findings of each.

    fitted        conditioning of the estimate, to report differences
    are_training  do not print findings, because the estimate will include them
    """
    from mindyn.logs.read_log import read_log

    logs = []
    for path in paths:
        log = read_log(path, robot)
        print_status(f"read {path}: {len(log)} rows")
        print_findings(() if are_training else (*log.findings, *find_missing_velocity(fitted, [log])), verbose=True)
        logs.append(log)
    return logs


def find_missing_velocity(fitted: Conditioning | None, logs: Sequence[Log]) -> list[Finding]:
    """Find logs without velocity if the fit used measured velocity."""
    if fitted is None or fitted.velocity != "measured":
        return []
    bare = [log.name for log in logs if log.qd is None]
    message = f"{list_names(bare)} has no velocity, unlike the logs of the fit: mindyn differentiates the position"
    return [info(Kind.LOG_SETTING, message)] if bare else []


TRAINING_LOG_REASON: Final = "its error says nothing about other motions"


def require_held_out(
    trained: Sequence[SourceFile], held_out: Sequence[Log], hint: str, because: str = TRAINING_LOG_REASON
) -> None:
    """Raise `InputError` if a held-out log has rows of a training log under any name; file hashes are compared."""
    both = [
        log.sources[0].path
        for log in held_out
        if log.sources and all(any(source.overlaps(other) for other in trained) for source in log.sources)
    ]
    if both:
        raise InputError(
            f"{', '.join(both)} is a training log: {because}",
            hint=hint,
            code=Code.DISAGREEMENT,
            subject=Path(both[0]).name,
        )


GRADE_COLOURS: Final[Mapping[Grade, str]] = {
    "good": "green",
    "noise": "green",
    "fair": "yellow",
    "poor": "red",
    "unusable": "red",
}


def print_verdict(verdict: VerdictData) -> None:
    """Print the torque error and grade of each joint."""
    from mindyn.output.report.verdict import format_grade

    rows = [("joint", "held-out error" if verdict.held_out else "training error", "rms", "grade")]
    for joint in verdict.joints:
        part = f"{100 * joint.relative:.3g} %" if isfinite(joint.relative) else "no torque"
        rows.append((joint.name, part, f"{joint.rmse:.3g} {joint.unit}", format_grade(joint.grade)))
    total = None if verdict.is_uninformative else verdict.grade
    rows.append(("all joints", f"{100 * verdict.total:.3g} %", "", format_grade(total)))
    grades = [*(joint.grade for joint in verdict.joints), total]
    print_table(rows, styles=[GRADE_COLOURS[grade or "unusable"] for grade in grades])


def simulate_first_log(estimate: Estimate, logs: Sequence[Log], notes: list[str] | None = None) -> Trajectories | None:
    """Simulate the motion of the first log under its torque; if that fails, return None.

    notes  gets the reason, which is printed otherwise
    """
    from mindyn.applications.validation.trajectories import compare_trajectories

    if not logs:
        return None
    try:
        return compare_trajectories(estimate, logs[0].take(slice(0, MAX_MOTION_ROWS)))
    except MindynError as error:
        note = f"note: no simulated motion in the report: {error.message}"
        if notes is None:
            print_status(note)
        else:
            notes.append(note)
        return None
