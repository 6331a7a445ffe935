"""`mindyn check`: whether an estimate's values are possible, physically consistent and plausible."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from mindyn.cli.exit_codes import ExitCode
from mindyn.cli.runs import RUN, estimate_of
from mindyn.feasibility.bounds import read_bounds
from mindyn.feasibility.check import check_feasible


def check(
    run: Annotated[Path, RUN],
    bounds: Annotated[Path | None, typer.Option(help="A .toml with bounds on masses and centres of mass.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, with the witnesses.")] = False,
) -> None:
    """Judge an estimate: possible, consistent, plausible? The exit code is 3 when the answer is no.

    It is no where one of the three answers is, and where it could not be decided whether an arm has the values.
    Whether an arm is plausible may stay undecided: that asks for bounds, or for links with shapes.
    """
    found = check_feasible(estimate_of(run), None if bounds is None else read_bounds(bounds))
    typer.echo(json.dumps(found.to_dict(), indent=1) if as_json else str(found))
    if found.refuted is not False or found.plausible.holds is False:
        raise typer.Exit(ExitCode.NO)
