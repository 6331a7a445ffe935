"""`mindyn check`: whether an estimate's values are possible, physically consistent and plausible."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Final

import typer

from mindyn.cli.arguments import VERBOSE_OPTION, complete_from
from mindyn.cli.exit_codes import ExitCode
from mindyn.cli.next_step import print_next_command
from mindyn.cli.printing import print_output, print_status
from mindyn.cli.runs import RUN_ARGUMENT, load_run_estimate
from mindyn.errors import InputError, require_choice
from mindyn.estimators.estimate import Estimate
from mindyn.export.writing import ROBOT_FILES, choose_format
from mindyn.feasibility.answer import combine_answers
from mindyn.feasibility.bounds import read_bounds
from mindyn.feasibility.check import Feasibility, check_feasible
from mindyn.feasibility.yoshida_cones import check_by_cones
from mindyn.feasibility.yoshida_projection import project_by_cones
from mindyn.report.summary import FEASIBILITY_ANSWERS, FEASIBLE_WITHIN_UNCERTAINTY

CHECK_METHODS = ("matrix", "yoshida")
ANSWERS: Final = {True: "yes", False: "no", None: "undecided"}


def check(
    run: Annotated[Path, RUN_ARGUMENT],
    method: Annotated[
        str,
        typer.Option(
            help="matrix: eigenvalues of the inertia matrix itself, any arm. yoshida: the cones of its leading minors, "
            "of arms whose matrix depends on two angles at most.",
            autocompletion=complete_from(CHECK_METHODS),
        ),
    ] = "matrix",
    bounds: Annotated[Path | None, typer.Option(help="A .toml with bounds on masses and centres of mass.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, with the witnesses.")] = False,
    verbose: Annotated[bool, VERBOSE_OPTION] = False,
) -> None:
    """Judge an estimate: possible, consistent, plausible? The exit code is 3 when the answer is no.

    It is no where one of the three answers is, and where it could not be decided whether an arm has the values.
    Whether an arm is plausible may stay undecided: that asks for bounds, or for links with shapes.
    """
    require_choice(method, CHECK_METHODS, "--method")
    estimate = load_run_estimate(run)
    if method == "yoshida":
        _check_by_cones(estimate, as_json)
        return
    found = check_feasible(estimate, None if bounds is None else read_bounds(bounds))
    if as_json:
        typer.echo(json.dumps(found.to_dict(), indent=1))
    else:
        _print_answers(found, verbose=verbose)
    refuted = found.is_infeasible is not False
    to = choose_format(estimate.robot)
    print_next_command("export", run, "--to", to, "--out", ROBOT_FILES[to], *(["--feasible"] if refuted else []))
    if refuted or found.plausible.holds is False:
        raise typer.Exit(ExitCode.NO)


def _print_answers(found: Feasibility, *, verbose: bool) -> None:
    """The answer in a sentence, then each question with its reason: the first sentence of it, or with `verbose` all."""
    exists = combine_answers({one.question: one.holds for one in found.answers})
    print_output(FEASIBLE_WITHIN_UNCERTAINTY if found.consistent.within_uncertainty else FEASIBILITY_ANSWERS[exists])
    for one in found.answers:
        reason = one.reason if verbose else first_clause(one.reason)
        print_output(f"  {one.question:<10}  {ANSWERS[one.holds]:<9}  {reason}", indent=" " * 25)


def first_clause(reason: str) -> str:
    """Its first clause."""
    return f"{reason.split('; ')[0].rstrip('.')}."


def _check_by_cones(estimate: Estimate, as_json: bool) -> None:
    """Yoshida's judgement by the cones of the leading minors, and his modification where it is no."""
    answer = check_by_cones(estimate.base, estimate.beta)
    mended: dict[str, float] | None = None
    if not answer.holds:
        try:
            values = project_by_cones(estimate.base, estimate.beta)
            mended = dict(zip(estimate.base.names, values.tolist(), strict=True))
        except InputError as refused:
            print_status(f"note: {refused.message}")
    if as_json:
        typer.echo(json.dumps({**answer.to_dict(), "modified": mended}, indent=1))
    else:
        typer.echo(answer.sentence)
        for name, value in (mended or {}).items():
            typer.echo(f"  {name:<12} {value:12.6g}")
    if not answer.holds:
        raise typer.Exit(ExitCode.NO)
