"""`mindyn base`: the base parameters of a robot, as formulas."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from mindyn.cli.arguments import JSON_OPTION, ROBOT_ARGUMENT, complete_from, with_robot_options
from mindyn.cli.printing import print_output, print_status, print_table
from mindyn.errors import InputError
from mindyn.identifiability.base_sets import FORMS, base_parameters
from mindyn.parameters.base import BaseParameters
from mindyn.parameters.formula_text import Coefficients, latex_expression, latex_symbol
from mindyn.parameters.geometry_symbols import convert_to_dh_frames, symbolic_expressions
from mindyn.parameters.parameter import list_base_parameters
from mindyn.robots.loading import RobotOptions


@with_robot_options
def base(
    robot: Annotated[str, ROBOT_ARGUMENT],
    form: Annotated[
        str, typer.Option(help=f"One of {', '.join(FORMS)}.", autocompletion=complete_from(FORMS))
    ] = "structural",
    drives: Annotated[bool, typer.Option("--drives", help="With rotor inertia, friction and offsets.")] = False,
    as_json: Annotated[bool, JSON_OPTION] = False,
    latex: Annotated[bool, typer.Option("--latex", help="Print a LaTeX align environment.")] = False,
    symbols: Annotated[bool, typer.Option("--symbols", help="Lengths as symbols in place of numbers.")] = False,
    *,
    options: RobotOptions,
) -> None:
    """The combinations of link parameters that the dynamics depend on."""
    if as_json + latex + symbols > 1:
        raise InputError("--json, --latex and --symbols exclude each other", hint="give one of them")
    loaded = options.load(robot)
    if symbols:
        loaded = convert_to_dh_frames(loaded)
        print_status("note: link parameters in modified DH frames, so that lengths are a_i, d_i")
    found = base_parameters(loaded, form=form, drives=drives)
    if as_json:
        typer.echo(json.dumps(_base_data(found), indent=2))
    elif latex:
        typer.echo(_format_latex(found))
    else:
        _print_base(found, symbolic_expressions(found) if symbols else found.shown_expressions)
    for note in (*found.robot.findings, *found.notes):
        print_status(f"note: {note}")


def _values(found: BaseParameters) -> list[float | None]:
    return list(found.values) if found.robot.has_parameters else [None] * found.count


def _print_base(found: BaseParameters, expressions: tuple[str, ...]) -> None:
    rows = [("name", "value", "unit", "formula")]
    units = [one.unit for one in list_base_parameters(found)]
    for name, value, unit, formula in zip(found.names, _values(found), units, expressions, strict=True):
        rows.append((name, "" if value is None else f"{value:.6g}", unit, formula))
    roles = found.roles()
    groups = {kind: [label for label, role in roles.items() if role == kind] for kind in ("alone", "combined", "none")}
    says = {"alone": "by themselves", "combined": "only in combination", "none": "no effect"}
    print_output(f"{found.robot.name}: {found.count} base parameters of {len(found.labels)} ({found.form})")
    print_output()
    print_table(rows)
    print_output()
    for kind, labels in groups.items():
        print_output(f"{says[kind]}: {', '.join(labels) or '-'}", "  ")


def _format_latex(found: BaseParameters) -> str:
    lines = [
        rf"  {_format_latex_name(name)} &= {latex_expression(Coefficients(found.labels, row))} \\"
        for name, row in zip(found.names, found.matrix, strict=True)
    ]
    return "\n".join([r"\begin{align}", *lines, r"\end{align}"])


def _format_latex_name(name: str) -> str:
    """The symbol of a parameter, marked where others are regrouped into it."""
    return f"{latex_symbol(name.removesuffix('R'))}^{{R}}" if name.endswith("R") else latex_symbol(name)


def _base_data(found: BaseParameters) -> dict[str, object]:
    return {
        "robot": found.robot.name,
        "form": found.form,
        "drives": found.drives,
        "names": list(found.names),
        "expressions": list(found.expressions),
        "values": _values(found),
        "labels": list(found.labels),
        "matrix": found.matrix.tolist(),
        "roles": found.roles(),
        "notes": list(found.notes),
    }
