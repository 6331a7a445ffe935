"""`mindyn check`: whether an estimate's values are possible, physically consistent and plausible."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from mindyn.cli.runs import RUN, estimate_of
from mindyn.feasibility.bounds_file import read_bounds
from mindyn.feasibility.check import check_feasible


def check(
    run: Annotated[Path, RUN],
    bounds: Annotated[Path | None, typer.Option(help="A .toml with bounds on masses and centres of mass.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, with the witnesses.")] = False,
) -> None:
    """Judge an estimate; the exit code is 1 when no arm can have its values."""
    found = check_feasible(estimate_of(run), None if bounds is None else read_bounds(bounds))
    typer.echo(json.dumps(found.to_dict(), indent=1) if as_json else str(found))
    if found.consistent.holds is False:
        raise typer.Exit(1)
