"""Estimates as commands take them, the folder of a run or a file; what their reports show beside them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import typer

from mindyn.errors import InputError, MindynError
from mindyn.estimators.estimate import Estimate, load_estimate
from mindyn.logs.log import Log
from mindyn.report.inputs import MotionComparison
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


def motion_of(found: Estimate, logs: Sequence[Log]) -> MotionComparison | None:
    """The first log's motion, simulated under its torque; None where that cannot be, and the reason is said."""
    if not logs:
        return None
    try:
        made = simulated_against_measured(found, logs[0].take(slice(0, MOTION_ROWS)))
    except MindynError as refused:
        typer.echo(f"note: no simulated motion in the report: {refused.message}", err=True)
        return None
    return MotionComparison(made.t, made.measured, made.simulated)
