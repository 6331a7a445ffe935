"""Estimates as commands take them, the folder of a run or a file; what their reports show beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import typer

from mindyn.errors import InputError, MindynError
from mindyn.estimators.estimate import Estimate, load_estimate
from mindyn.feasibility.check import Feasibility, check_feasible
from mindyn.logs.log import Log
from mindyn.report.inputs import MotionComparison
from mindyn.report.writing import write_report
from mindyn.robots.robot import Robot
from mindyn.validation.trajectories import simulated_against_measured

RUN: Final = typer.Argument(help="A folder that `mindyn identify --out` wrote, or its estimate.json.")
"""For `Annotated[Path, RUN]`."""
MOTION_ROWS: Final = 20_000
"""Rows of a log whose motion is simulated for a report."""


def estimate_of(run: Path) -> Estimate:
    """The estimate of a folder or file."""
    path = run / "estimate.json" if run.is_dir() else run
    if not path.is_file():
        raise InputError(
            f"there is no estimate {str(path)!r}", hint="mindyn identify ROBOT LOG --out FOLDER writes one"
        )
    return load_estimate(path)


def judged_report(
    path: Path,
    found: Estimate,
    held_out: Sequence[Log],
    training: Sequence[Log],
    run: Mapping[str, Any],
    comparison: Mapping[str, Estimate] | None = None,
    prior: Robot | None = None,
) -> Feasibility:
    """`write_report` with what a command adds: whether such a robot can exist, which is returned, and its motion."""
    feasibility = check_feasible(found)
    write_report(
        path,
        found,
        validation_logs=held_out,
        training_logs=training,
        feasibility=feasibility,
        motion=motion_of(found, held_out or training),
        comparison=comparison,
        prior=prior,
        run=run,
    )
    return feasibility


def motion_of(found: Estimate, logs: Sequence[Log]) -> MotionComparison | None:
    """The first log's motion, simulated under its torque; None where that cannot be, and the reason is said."""
    if not logs:
        return None
    try:
        made = simulated_against_measured(found, logs[0].take(slice(0, MOTION_ROWS)))
    except MindynError as refused:
        typer.echo(f"note: no simulated motion in the report: {refused.message}", err=True)
        return None
    return MotionComparison(made.t, made.measured, made.simulated, made.status)
