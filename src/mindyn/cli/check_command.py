"""`mindyn check`: check whether an estimate or a robot file is physically consistent."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from mindyn.cli.arguments import VERBOSE_OPTION, complete_from
from mindyn.cli.check_robot import check_robot_file, is_robot
from mindyn.cli.exit_codes import ExitCode
from mindyn.cli.next_step import print_next_command
from mindyn.cli.printing import print_json, print_output, print_status
from mindyn.cli.runs import load_run_estimate, read_run_record
from mindyn.foundation.errors import Code, InputError, require_choice

if TYPE_CHECKING:
    from mindyn.foundation.algebra.values import Array
    from mindyn.identification.estimators.estimate import Estimate
    from mindyn.identification.feasibility.check_feasible import Feasibility

CHECK_METHODS = ("matrix", "yoshida")
ANSWERS: Final = {True: "yes", False: "no", None: "undecided"}


def check(
    run: Annotated[
        Path,
        typer.Argument(
            help="Folder of `mindyn identify --out`, its estimate.json, or a robot: a .urdf, .xml or .toml file or the "
            "name of a bundled robot."
        ),
    ],
    method: Annotated[
        str,
        typer.Option(
            help="matrix: eigenvalues of the inertia matrix, for any arm. yoshida: Yoshida's cones of its leading "
            "minors, for arms whose inertia matrix depends on at most two angles.",
            autocompletion=complete_from(CHECK_METHODS),
        ),
    ] = "matrix",
    bounds: Annotated[Path | None, typer.Option(help=".toml file with bounds on masses and centres of mass.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, including witnesses.")] = False,
    verbose: Annotated[bool, VERBOSE_OPTION] = False,
) -> None:
    """Check whether an estimate or a robot file is physically consistent; the exit code is 3 if it is not.

    For an estimate, three questions are answered: is the inertia matrix positive definite, can the links and drives be
    physical bodies, and are masses and centres of mass plausible. The exit code is 3 if an answer is no, or if the
    second one could not be decided. Plausibility may stay undecided: it needs bounds, or links with shapes. For a
    robot, each link is checked: can a body have its mass, centre of mass and inertia?
    """
    require_choice(method, CHECK_METHODS, "--method")
    if is_robot(run):
        for option, given in (("--bounds", bounds is not None), ("--method", method != CHECK_METHODS[0])):
            if given:
                message = f"{option} applies to estimates, but {run} is a robot"
                raise InputError(message, hint=f"omit {option}", code=Code.UNSUPPORTED, subject=option)
        check_robot_file(run, as_json=as_json)
    elif method == "yoshida":
        _check_by_cones(load_run_estimate(run), as_json)
    else:
        _check_by_eigenvalues(run, bounds, as_json=as_json, verbose=verbose)


def _check_by_eigenvalues(run: Path, bounds: Path | None, *, as_json: bool, verbose: bool) -> None:
    """Answer the three questions about an estimate, and name the next command."""
    from mindyn.identification.feasibility.check_feasible import check_feasible
    from mindyn.identification.feasibility.conditions.user_bounds import read_bounds
    from mindyn.output.export.write_checks import ROBOT_FILES, choose_format
    from mindyn.output.report.verdict import refit_words

    estimate = load_run_estimate(run)
    feasibility = check_feasible(estimate, None if bounds is None else read_bounds(bounds))
    if as_json:
        print_json(feasibility.to_dict())
    else:
        _print_answers(feasibility, verbose=verbose)
    refuted = feasibility.is_infeasible is not False
    if feasibility.has_plausible_projection:
        to = choose_format(estimate.robot)
        print_next_command("export", run, "--to", to, "--out", ROBOT_FILES[to], *(["--feasible"] if refuted else []))
    else:
        print_next_command(*refit_words(read_run_record(run)))
    if refuted or feasibility.plausible.holds is False:
        raise typer.Exit(ExitCode.NO)


def _print_answers(feasibility: Feasibility, *, verbose: bool) -> None:
    """Print the overall answer, then each question with its reason, shortened unless `verbose`."""
    from mindyn.output.report.verdict import describe_consistency

    print_output(describe_consistency(feasibility.answers))
    for answer in feasibility.answers:
        reason = answer.reason if verbose else f"{answer.reason.split('; ')[0].rstrip('.')}."
        question = answer.question.replace("_", " ")
        print_output(f"  {question:<17}  {ANSWERS[answer.holds]:<9}  {reason}", indent=" " * 32)


def _modify_values(estimate: Estimate) -> tuple[Array, str]:
    """Return values with a positive definite inertia matrix, and the method: Yoshida's, else the nearest ones.

    Both check every configuration before they return; Yoshida's modification fails from values far outside.
    """
    from mindyn.identification.feasibility.projections.positive_definite_projection import project_to_positive_definite
    from mindyn.identification.feasibility.projections.yoshida_projection import project_by_cones

    try:
        return project_by_cones(estimate.base, estimate.base_values), "cones"
    except InputError as error:
        print_status(f"note: {error.message}; these are the nearest positive definite values instead")
        return project_to_positive_definite(estimate.base, estimate.base_values), "projection"


def _check_by_cones(estimate: Estimate, as_json: bool) -> None:
    """Check by Yoshida's cones of the leading minors; print modified values if the answer is no."""
    from mindyn.identification.feasibility.checks.yoshida_cones import check_by_cones

    answer = check_by_cones(estimate.base, estimate.base_values)
    modified: dict[str, float] | None = None
    modified_by: str | None = None
    if not answer.holds:
        values, modified_by = _modify_values(estimate)
        modified = dict(zip(estimate.base.names, values.tolist(), strict=True))
    if as_json:
        print_json({**answer.to_dict(), "modified": modified, "modified_by": modified_by})
    else:
        typer.echo(answer.sentence)
        for name, value in (modified or {}).items():
            typer.echo(f"  {name:<12} {value:12.6g}")
    if not answer.holds:
        raise typer.Exit(ExitCode.NO)
