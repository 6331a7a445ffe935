"""Estimates as commands take them: the folder of a run, or a file."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import typer

from mindyn.errors import InputError
from mindyn.estimators.estimate import Estimate, load_estimate

RUN: Final = typer.Argument(help="A folder that `mindyn identify --out` wrote, or its estimate.json.")
"""For `Annotated[Path, RUN]`."""


def estimate_of(run: Path) -> Estimate:
    """The estimate of a folder or file."""
    path = run / "estimate.json" if run.is_dir() else run
    if not path.is_file():
        raise InputError(
            f"there is no estimate {str(path)!r}", hint="mindyn identify ROBOT LOG --out FOLDER writes one"
        )
    return load_estimate(path)
