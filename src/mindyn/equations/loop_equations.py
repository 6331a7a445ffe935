"""Equations of robots with parallelograms as `casadi.Function`s of the primary joints, for kernels and source code.

Where the closure is affine, q = A p + b, the projection is exact algebra: the function is the open tree's, its inputs
substituted and its output projected by the constant A.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import casadi
from numpy.typing import ArrayLike

from mindyn.equations.catalogue import EQUATIONS, equation
from mindyn.equations.chain import SX, constant
from mindyn.equations.forward_dynamics import factor, require_inertia, solve
from mindyn.equations.loop_closure import AffineClosure, affine_closure
from mindyn.equations.loop_constraints import open_tree
from mindyn.equations.traces import Parameters
from mindyn.errors import InputError, RobotError, unknown_name
from mindyn.parameters.base import BaseParameters
from mindyn.robots.robot import Robot

_PROJECTED: dict[str, Callable[[SX, SX], SX]] = {
    "tau": lambda A, tau: A.T @ tau,
    "M": lambda A, M: A.T @ M @ A,
    "C": lambda A, C: A.T @ C @ A,
    "Y": lambda A, Y: A.T @ Y,
    "J": lambda A, J: J @ A,
}
"""What an output of the open tree becomes in the primary joints, where it is not the same."""


def loop_equation(
    robot: Robot,
    name: str,
    *,
    drives: bool = False,
    parameters: Parameters = "constant",
    base: BaseParameters | None = None,
    place: str | None = None,
    home: ArrayLike | None = None,
) -> Any:
    """The `casadi.Function` of an equation in the primary joints of a robot whose loops are parallelograms.

    Inputs q, qd, qdd, tau have one entry for each primary joint; all else is as in `equation`. `regressor` and
    parameters="base" need `base`, a base set of the robot with its loops.
    """
    if name not in EQUATIONS:
        raise unknown_name("equation", name, EQUATIONS)
    if unknown := _without_projection(name):
        raise RobotError(f"{name} is not made for robots with loops: {', '.join(sorted(unknown))} has no projection")
    if base is None and (name == "regressor" or parameters == "base"):
        raise InputError(f"{name} of a robot with loops needs base=, a base set made with its loops")
    affine = affine_closure(robot, home)
    if name == "forward_dynamics":
        return _forward_dynamics(robot, affine, drives=drives, parameters=parameters, base=base)
    tree = equation(open_tree(robot), name, drives=drives, parameters=parameters, base=base, place=place, check=False)
    inputs = _inputs(tree, affine)
    result = tree(*_on_tree(inputs, affine))
    output = tree.name_out(0)
    A = constant(affine.matrix)
    kept = name == "energy_regressor" or output not in _PROJECTED
    projected = result if kept else _PROJECTED[output](A, result)
    return casadi.Function(name, [*inputs.values()], [casadi.cse(projected)], [*inputs], [output])


def has_projection(name: str) -> bool:
    """Whether `loop_equation` makes an equation."""
    return not _without_projection(name)


def _without_projection(name: str) -> set[str]:
    return set(EQUATIONS[name].inputs) - {"q", "qd", "qdd", "tau", "wrenches", "root_motion"}


def _inputs(tree: Any, affine: AffineClosure) -> dict[str, SX]:
    """Symbols of the inputs: primary joints in place of all, the rest as it is."""
    shapes = {tree.name_in(i): tree.size_in(i) for i in range(tree.n_in())}
    small = (affine.matrix.shape[1], 1)
    return {key: casadi.SX.sym(key, *(small if key in ("q", "qd", "qdd") else shape)) for key, shape in shapes.items()}


def _on_tree(inputs: dict[str, SX], affine: AffineClosure) -> list[SX]:
    A, b = constant(affine.matrix), constant(affine.offset)
    lifted = {"q": lambda p: A @ p + b, "qd": lambda p: A @ p, "qdd": lambda p: A @ p}
    return [lifted[key](symbol) if key in lifted else symbol for key, symbol in inputs.items()]


def _forward_dynamics(
    robot: Robot, affine: AffineClosure, *, drives: bool, parameters: Parameters, base: BaseParameters | None
) -> Any:
    """(A^T M A) pdd = tau - A^T bias, by factoring."""
    tree = open_tree(robot)
    M, bias = (
        equation(tree, name, drives=drives, parameters=parameters, base=base, check=False)
        for name in ("inertia_matrix", "bias")
    )
    inputs = _inputs(bias, affine)
    count = affine.matrix.shape[1]
    A, tau = constant(affine.matrix), casadi.SX.sym("tau", count)
    lifted = dict(zip(inputs, _on_tree(inputs, affine), strict=True))
    H = A.T @ M(*(lifted[M.name_in(i)] for i in range(M.n_in()))) @ A
    ancestors = [list(reversed(range(i))) for i in range(count)]
    L, D = factor(casadi.densify(H), ancestors)
    require_inertia(casadi.diag(H), D, inputs["q"], robot.primary_names)
    pdd = solve(L, D, ancestors, tau - A.T @ bias(*lifted.values()))
    given = {"q": inputs["q"], "qd": inputs["qd"], "tau": tau} | inputs
    return casadi.Function("forward_dynamics", [*given.values()], [casadi.cse(pdd)], [*given], ["qdd"])
