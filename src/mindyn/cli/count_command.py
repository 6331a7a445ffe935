"""`mindyn count`: count operations of every formulation for a robot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final

from mindyn.cli.arguments import JSON_OPTION, ROBOT_ARGUMENT, with_robot_options
from mindyn.cli.printing import print_json, print_output, print_status, print_table
from mindyn.kernels.operation_counts import operation_counts

if TYPE_CHECKING:
    from mindyn.equations.traces import Parameters
    from mindyn.robots.loading import RobotOptions
    from mindyn.robots.robot import Robot

DYNAMICS: Final = {
    "inverse dynamics": "inverse_dynamics",
    "inertia matrix": "inertia_matrix",
    "forward dynamics": "forward_dynamics",
}
REGRESSORS: Final = {"base parameters": "regressor", "standard parameters": "standard_regressor"}
OPERATIONS: Final = ("multiplications", "additions", "divisions", "sincos")
TREE_FORMULATIONS: Final[Mapping[str, Mapping[str, Parameters]]] = {
    "inverse dynamics": {"Newton-Euler, standard parameters": "standard", "lean recursion, base values": "constant"},
    "inertia matrix": {
        "composite bodies, standard parameters": "standard",
        "composite bodies, base values": "constant",
    },
    "forward dynamics": {"cheapest, standard parameters": "standard", "cheapest, base values": "constant"},
}
"""Formulations for any tree, and how link parameters enter them."""


def serial_formulations() -> Mapping[str, Mapping[str, str]]:
    """Return further formulations, for serial robots only."""
    from mindyn.equations.composite_bodies import FORMULATIONS
    from mindyn.equations.mlc_inertia import MLC_FORMULATIONS

    return {
        "inverse dynamics": {"Lin, minimal linear combinations": "mlc", "Kane, centres of mass": "kane"},
        "inertia matrix": {f"formulation {k}, standard": f"formulation_{k}" for k in FORMULATIONS}
        | {f"formulation {k}, MLC": f"mlc_{k}" for k in MLC_FORMULATIONS},
    }


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
        print_json({"robot": loaded.name, "counts": counted}, indent=2)
    else:
        print_output(f"{loaded.name}: operations of one evaluation")
        print_output()
        rows = [tuple(map(str, entry.values())) for entry in counted]
        print_table([("equation", "formulation", "mult.", "add.", "div.", "sincos"), *rows])
    if loaded.has_dependents:
        print_status(
            "note: the counts are those of the kernels of compile_model in the primary joints, which project the "
            "equations of the open tree through the loops; the other formulations are only for open chains"
        )
    elif not loaded.is_serial:
        print_status("note: MLC, Kane's equations and formulations 1-5 are omitted: they are only for serial robots")


def count_formulations(robot: Robot) -> Iterator[dict[str, str | int]]:
    """Count every formulation for a robot, with constant parameters and common subexpressions shared."""
    from mindyn.equations.catalogue import build_equation
    from mindyn.equations.identifiability.base_sets import base_parameters
    from mindyn.kernels.model import compile_model
    from mindyn.kernels.tracing import trace

    def count(title: str, formulation: str, function: Any) -> dict[str, str | int]:
        counts = operation_counts(trace(function))
        return {"equation": title, "formulation": formulation} | {name: getattr(counts, name) for name in OPERATIONS}

    if robot.has_dependents:
        model = compile_model(robot, base=base_parameters(robot))
        for title, name in DYNAMICS.items():
            yield count(title, "projected, base values", model.casadi(name))
        for formulation, name in REGRESSORS.items():
            yield count("regressor", formulation, model.casadi(name))
        return
    for title, name in DYNAMICS.items():
        for formulation, parameters in TREE_FORMULATIONS[title].items():
            yield count(title, formulation, build_equation(robot, name, parameters=parameters))
        for formulation, key in serial_formulations().get(title, {}).items() if robot.is_serial else ():
            yield count(title, formulation, build_equation(robot, name, formulation=key, check=False))
    for formulation, name in REGRESSORS.items():
        yield count("regressor", formulation, build_equation(robot, name))
