"""`mindyn count`: count operations of every formulation for a robot."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Final

import casadi

from mindyn.cli.arguments import JSON_OPTION, ROBOT_ARGUMENT, with_robot_options
from mindyn.cli.printing import print_json, print_output, print_status, print_table
from mindyn.equations.catalogue import equation
from mindyn.equations.composite_bodies import FORMULATIONS, composite_inertia_matrix
from mindyn.equations.kane import kane_inverse_dynamics
from mindyn.equations.mlc_dynamics import mlc_inverse_dynamics
from mindyn.equations.mlc_inertia import MLC_FORMULATIONS, mlc_inertia_matrix
from mindyn.identifiability.base_sets import base_parameters
from mindyn.kernels.model import compile_model
from mindyn.kernels.program import OperationCounts, operation_counts
from mindyn.kernels.tracing import trace
from mindyn.parameters.lin import lin_base, lin_structure
from mindyn.robots.loading import RobotOptions
from mindyn.robots.robot import Robot

DYNAMICS: Final = {
    "inverse dynamics": "inverse_dynamics",
    "inertia matrix": "inertia_matrix",
    "forward dynamics": "forward_dynamics",
}
REGRESSORS: Final = {"base parameters": "regressor", "standard parameters": "standard_regressor"}


@with_robot_options
def count(
    robot: Annotated[str, ROBOT_ARGUMENT],
    as_json: Annotated[bool, JSON_OPTION] = False,
    *,
    options: RobotOptions,
) -> None:
    """Count the multiplications and additions of one evaluation of the dynamics."""
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
    print_table(rows)


def _robot_data(robot: Robot, counted: list[FormulationCount]) -> dict[str, object]:
    rows = [{"equation": entry.equation, "formulation": entry.formulation, **_list_counts(entry)} for entry in counted]
    return {"robot": robot.name, "counts": rows}


def _list_counts(entry: FormulationCount) -> dict[str, int]:
    return {name: getattr(entry.counts, name) for name in ("multiplications", "additions", "divisions", "sincos")}
