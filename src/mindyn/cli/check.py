"""`mindyn check`: whether an estimate's values are possible, physically consistent and plausible."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Final

import typer

from mindyn.cli.arguments import VERBOSE, one_of
from mindyn.cli.exit_codes import ExitCode
from mindyn.cli.next_step import say_next
from mindyn.cli.printing import say, show
from mindyn.cli.runs import RUN, estimate_of
from mindyn.errors import InputError, require_choice
from mindyn.estimators.estimate import Estimate
from mindyn.export.writing import ROBOT_FILES, fitting_format
from mindyn.feasibility.answer import can_exist
from mindyn.feasibility.bounds import read_bounds
from mindyn.feasibility.check import Feasibility, check_feasible
from mindyn.feasibility.yoshida_cones import judge_by_cones
from mindyn.feasibility.yoshida_mending import mend_by_cones
from mindyn.report.summary import AS_LIKELY, PHYSICAL

METHODS = ("matrix", "yoshida")
ANSWERS: Final = {True: "yes", False: "no", None: "undecided"}


def check(
    run: Annotated[Path, RUN],
    method: Annotated[
        str,
        typer.Option(
            help="matrix: eigenvalues of the inertia matrix itself, any arm. yoshida: the cones of its leading minors, "
            "of arms whose matrix depends on two angles at most.",
            autocompletion=one_of(METHODS),
        ),
    ] = "matrix",
    bounds: Annotated[Path | None, typer.Option(help="A .toml with bounds on masses and centres of mass.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, with the witnesses.")] = False,
    verbose: Annotated[bool, VERBOSE] = False,
) -> None:
    """Judge an estimate: possible, consistent, plausible? The exit code is 3 when the answer is no.

    It is no where one of the three answers is, and where it could not be decided whether an arm has the values.
    Whether an arm is plausible may stay undecided: that asks for bounds, or for links with shapes.
    """
    require_choice(method, METHODS, "--method")
    estimate = estimate_of(run)
    if method == "yoshida":
        _by_cones(estimate, as_json)
        return
    found = check_feasible(estimate, None if bounds is None else read_bounds(bounds))
    if as_json:
        typer.echo(json.dumps(found.to_dict(), indent=1))
    else:
        _show(found, verbose=verbose)
    refuted = found.refuted is not False
    to = fitting_format(estimate.robot)
    say_next("export", run, "--to", to, "--out", ROBOT_FILES[to], *(["--mend"] if refuted else []))
    if refuted or found.plausible.holds is False:
        raise typer.Exit(ExitCode.NO)


def _show(found: Feasibility, *, verbose: bool) -> None:
    """The answer in a sentence, then each question with its reason: the first sentence of it, or with `verbose` all."""
    exists = can_exist({one.question: one.holds for one in found.answers})
    show(AS_LIKELY if found.consistent.as_likely else PHYSICAL[exists])
    for one in found.answers:
        reason = one.reason if verbose else shorter(one.reason)
        show(f"  {one.question:<10}  {ANSWERS[one.holds]:<9}  {reason}", indent=" " * 25)


def shorter(reason: str) -> str:
    """Its first clause."""
    return f"{reason.split('; ')[0].rstrip('.')}."


def _by_cones(estimate: Estimate, as_json: bool) -> None:
    """Yoshida's judgement by the cones of the leading minors, and his modification where it is no."""
    answer = judge_by_cones(estimate.base, estimate.beta)
    mended: dict[str, float] | None = None
    if not answer.holds:
        try:
            values = mend_by_cones(estimate.base, estimate.beta)
            mended = dict(zip(estimate.base.names, values.tolist(), strict=True))
        except InputError as refused:
            say(f"note: {refused.message}")
    if as_json:
        typer.echo(json.dumps({**answer.to_dict(), "modified": mended}, indent=1))
    else:
        typer.echo(answer.sentence)
        for name, value in (mended or {}).items():
            typer.echo(f"  {name:<12} {value:12.6g}")
    if not answer.holds:
        raise typer.Exit(ExitCode.NO)
