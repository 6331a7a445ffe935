"""`mindyn count`: count operations of every formulation for a robot, or compare counts with the literature."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Final

import casadi
import typer

from mindyn.cli.arguments import JSON_OPTION, ROBOT_ARGUMENT, with_robot_options
from mindyn.cli.printing import print_json, print_output, print_status, print_table
from mindyn.equations.catalogue import equation
from mindyn.equations.composite_bodies import FORMULATIONS, composite_inertia_matrix
from mindyn.equations.kane import kane_inverse_dynamics
from mindyn.equations.mlc_dynamics import mlc_inverse_dynamics
from mindyn.equations.mlc_inertia import MLC_FORMULATIONS, mlc_inertia_matrix
from mindyn.errors import Code, InputError
from mindyn.hints import Command
from mindyn.identifiability.base_sets import base_parameters
from mindyn.kernels.model import compile_model
from mindyn.kernels.program import OperationCounts, operation_counts
from mindyn.kernels.tracing import trace
from mindyn.papers.operation_tables import PaperRow, TableLine, paper_rows, plain_counts, table_ii
from mindyn.parameters.lin import lin_base, lin_structure
from mindyn.robots.loading import RobotOptions
from mindyn.robots.robot import Robot
from mindyn.robots.table import format_table

PAPER_SIZE = 6
"""Number of joints n at which formulas are evaluated."""

DYNAMICS: Final = {
    "inverse dynamics": "inverse_dynamics",
    "inertia matrix": "inertia_matrix",
    "forward dynamics": "forward_dynamics",
}
REGRESSORS: Final = {"base parameters": "regressor", "standard parameters": "standard_regressor"}


@with_robot_options
def count(
    robot: Annotated[str | None, ROBOT_ARGUMENT] = None,
    papers: Annotated[bool, typer.Option("--papers", help="Compare published operation counts with ours.")] = False,
    as_json: Annotated[bool, JSON_OPTION] = False,
    *,
    options: RobotOptions,
) -> None:
    """Count the multiplications and additions of one evaluation of the dynamics."""
    if papers == (robot is not None):
        raise InputError(
            "count needs either a robot or --papers",
            hint="name a robot, or pass --papers",
            command=Command("count", "puma560"),
            code=Code.MISSING_VALUE,
            subject="robot",
        )
    if robot is None:
        rows, lines = paper_rows(), table_ii()
        if as_json:
            print_json(_papers_data(rows, lines), indent=2)
        else:
            print_output(_papers_text(rows, lines), "      ")
        return
    loaded = options.load(robot)
    counted = list(count_formulations(loaded))
    if as_json:
        print_json(_robot_data(loaded, counted), indent=2)
    else:
        _print_counts(loaded, counted)
    if loaded.has_dependents:
        print_status(
            "note: the counts are those of the kernels of compile_model in the primary joints, which project the "
            "equations of the open tree through the loops; the other formulations are only for open chains"
        )
    elif not loaded.is_serial:
        print_status("note: MLC, Kane's equations and formulations 1-5 are omitted: they are only for serial robots")


@dataclass(frozen=True, slots=True)
class FormulationCount:
    """Operations of one formulation of one equation."""

    equation: str
    formulation: str
    counts: OperationCounts


def count_formulations(robot: Robot) -> Iterator[FormulationCount]:
    """Count every formulation for a robot, with constant parameters and common subexpressions shared."""
    if robot.has_dependents:
        yield from _count_loop_kernels(robot)
        return
    for title, name in DYNAMICS.items():
        method = "Newton-Euler" if title == "inverse dynamics" else "composite bodies"
        method = "cheapest" if title == "forward dynamics" else method
        yield _count_equation(robot, title, f"{method}, standard parameters", name, "standard")
        shortest = "lean recursion" if title == "inverse dynamics" else method
        yield _count_equation(robot, title, f"{shortest}, base values", name, "constant")
        if robot.is_serial and title in SERIAL_FORMULATIONS:
            yield from SERIAL_FORMULATIONS[title](robot)
    for formulation, name in REGRESSORS.items():
        yield _count_equation(robot, "regressor", formulation, name, "constant")


def _count_loop_kernels(robot: Robot) -> Iterator[FormulationCount]:
    """Count the kernels of a robot with dependent joints."""
    model = compile_model(robot, base=base_parameters(robot))
    for title, name in DYNAMICS.items():
        yield FormulationCount(title, "projected, base values", operation_counts(trace(model.casadi(name))))
    for formulation, name in REGRESSORS.items():
        yield FormulationCount("regressor", formulation, operation_counts(trace(model.casadi(name))))


def _count_equation(robot: Robot, title: str, formulation: str, name: str, parameters: Any) -> FormulationCount:
    return FormulationCount(title, formulation, operation_counts(trace(equation(robot, name, parameters=parameters))))


def _count_expression(title: str, formulation: str, inputs: list[Any], result: Any) -> FormulationCount:
    function = casadi.Function("counted", inputs, [result])
    return FormulationCount(title, formulation, operation_counts(trace(function)))


def _count_serial_torques(robot: Robot) -> Iterator[FormulationCount]:
    structure, values = lin_structure(robot), casadi.SX(casadi.DM(lin_base(robot).values))
    motion = [casadi.SX.sym(name, len(robot.joints)) for name in ("q", "qd", "qdd")]
    lin = mlc_inverse_dynamics(structure, values, *motion)
    yield _count_expression("inverse dynamics", "Lin, minimal linear combinations", motion, lin)
    yield _count_expression("inverse dynamics", "Kane, centres of mass", motion, kane_inverse_dynamics(robot, *motion))


def _count_serial_matrices(robot: Robot) -> Iterator[FormulationCount]:
    structure, values = lin_structure(robot), casadi.SX(casadi.DM(lin_base(robot).values))
    q = casadi.SX.sym("q", len(robot.joints))
    for k in FORMULATIONS:
        yield _count_expression(
            "inertia matrix", f"formulation {k}, standard", [q], composite_inertia_matrix(robot, q, k)
        )
    for k in MLC_FORMULATIONS:
        yield _count_expression(
            "inertia matrix", f"formulation {k}, MLC", [q], mlc_inertia_matrix(structure, values, q, k)
        )


SERIAL_FORMULATIONS: dict[str, Callable[[Robot], Iterator[FormulationCount]]] = {
    "inverse dynamics": _count_serial_torques,
    "inertia matrix": _count_serial_matrices,
}
"""Formulations for serial robots only."""


def _print_counts(robot: Robot, counted: list[FormulationCount]) -> None:
    rows: list[tuple[str, ...]] = [("equation", "formulation", "mult.", "add.", "div.", "sincos")]
    for entry in counted:
        rows.append((entry.equation, entry.formulation, *map(str, _list_counts(entry).values())))
    print_output(f"{robot.name}: operations of one evaluation")
    print_output()
    print_table(rows, numbers=range(2, 6))


def _robot_data(robot: Robot, counted: list[FormulationCount]) -> dict[str, object]:
    rows = [{"equation": entry.equation, "formulation": entry.formulation, **_list_counts(entry)} for entry in counted]
    return {"robot": robot.name, "counts": rows}


def _list_counts(entry: FormulationCount) -> dict[str, int]:
    return {name: getattr(entry.counts, name) for name in ("multiplications", "additions", "divisions", "sincos")}


def _papers_text(rows: list[PaperRow], lines: list[TableLine]) -> str:
    parts = [
        "printed = counted from traced equations by the convention of the paper + the differences; numbers are for n "
        "= 6"
    ]
    for title in dict.fromkeys(row.table for row in rows):
        parts += ["", title, *(line for row in rows if row.table == title for line in _row_text(row))]
    parts += ["", "Lin 1995, Table II, operations of one joint"]
    table = [("joint", "line", "printed", "counted", "why")]
    table += [(line.column, line.line, str(line.printed), str(line.counted), line.why) for line in lines]
    parts += [format_table(table), "", "Lin's formulas for robots with general links (not published for the PUMA)"]
    plain = [("robot", "without dead code", "common subexpressions shared")]
    plain += [(name, str(live), str(shared)) for name, live, shared in plain_counts()]
    return "\n".join([*parts, format_table(plain)])


def _row_text(row: PaperRow) -> Iterator[str]:
    n = row.size or PAPER_SIZE
    formula = "" if row.size else f"{row.printed} = "
    yield f"  {row.name}: printed {formula}{row.printed(n)}; counted {row.counted(n)}; without dead code {row.live(n)}"
    for difference in row.differences:
        yield f"    {_format_signed(difference.worth(n))}  {difference.why}"
    if row.note:
        yield f"    {_format_signed(row.unexplained(n))}  {row.note}"


def _format_signed(counts: Any) -> str:
    return f"{counts.multiplications:+d}M {counts.additions:+d}A"


def _papers_data(rows: list[PaperRow], lines: list[TableLine]) -> dict[str, object]:
    return {
        "rows": [_row_data(row) for row in rows],
        "lin_table_ii": [
            {"joint": x.column, "line": x.line, "printed": str(x.printed), "counted": str(x.counted), "why": x.why}
            for x in lines
        ],
        "plain_lin": [
            {"robot": name, "without_dead_code": str(live), "shared": str(shared)}
            for name, live, shared in plain_counts()
        ],
    }


def _row_data(row: PaperRow) -> dict[str, object]:
    n = row.size or PAPER_SIZE
    pairs = {"printed": row.printed(n), "counted": row.counted(n), "without_dead_code": row.live(n)}
    return {
        "table": row.table,
        "row": row.name,
        "printed_formula": str(row.printed),
        "n": n,
        **{name: [c.multiplications, c.additions] for name, c in pairs.items()},
        "differences": [
            {"why": d.why, "multiplications": d.worth(n).multiplications, "additions": d.worth(n).additions}
            for d in row.differences
        ],
        "unexplained": [row.unexplained(n).multiplications, row.unexplained(n).additions],
        "note": row.note,
    }
