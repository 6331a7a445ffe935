"""Ways to write inverse dynamics and the inertia matrix, by name; "auto" counts them and takes the cheapest."""

from __future__ import annotations

from collections.abc import Callable

import casadi

from mindyn.equations.chain import SX, reduced_chain
from mindyn.equations.composite_bodies import composite_inertia_matrix
from mindyn.equations.inertia_matrix import inertia_matrix
from mindyn.equations.kane import kane_inverse_dynamics
from mindyn.equations.lean_dynamics import lean_chain
from mindyn.equations.mlc_dynamics import mlc_inverse_dynamics
from mindyn.equations.mlc_inertia import mlc_inertia_matrix
from mindyn.equations.newton_euler import inverse_dynamics
from mindyn.errors import unknown_name
from mindyn.parameters.lin import lin_base
from mindyn.parameters.lin_structure import lin_structure
from mindyn.robots.robot import Robot

Maker = Callable[..., SX]
"""(robot, q, qd, qdd) -> tau, or (robot, q) -> M."""


def _mlc(robot: Robot, q: SX, qd: SX, qdd: SX) -> SX:
    return mlc_inverse_dynamics(lin_structure(robot), casadi.SX(casadi.DM(lin_base(robot).values)), q, qd, qdd)


def _mlc_matrix(formulation: int) -> Maker:
    def make(robot: Robot, q: SX) -> SX:
        mlc = casadi.SX(casadi.DM(lin_base(robot).values))
        return mlc_inertia_matrix(lin_structure(robot), mlc, q, formulation)

    return make


def _composite(formulation: int) -> Maker:
    return lambda robot, q: composite_inertia_matrix(robot, q, formulation)


INVERSE_DYNAMICS: dict[str, Maker] = {
    "lean": lambda robot, q, qd, qdd: lean_chain(robot).torques(q, qd, qdd),
    "newton_euler": lambda robot, q, qd, qdd: inverse_dynamics(reduced_chain(robot), q, qd, qdd),
    "mlc": _mlc,
    "kane": kane_inverse_dynamics,
}
"""lean: base values, fewest operations; newton_euler: base values; mlc: Lin 1995; kane: Angeles et al. 1988."""

INERTIA_MATRIX: dict[str, Maker] = {
    "composite_bodies": lambda robot, q: inertia_matrix(reduced_chain(robot), q),
    **{f"formulation_{k}": _composite(k) for k in range(1, 6)},
    **{f"mlc_{k}": _mlc_matrix(k) for k in (1, 2)},
}
"""composite_bodies: base values; formulation_1 .. 5 and mlc_1, mlc_2: Lin & Fang 1999."""

ANY_TREE = ("lean", "newton_euler", "composite_bodies")
"""What works on trees; the others are written for serial robots."""


def formulated(makers: dict[str, Maker], formulation: str, robot: Robot, *motion: SX) -> SX:
    """The expression of one formulation, or with "auto" of the one with the fewest operations."""
    if formulation != "auto":
        if formulation not in makers:
            raise unknown_name("formulation", formulation, ("auto", *makers))
        return makers[formulation](robot, *motion)
    usable = [maker for name, maker in makers.items() if robot.is_serial or name in ANY_TREE]
    return min((casadi.cse(maker(robot, *motion)) for maker in usable), key=_operations)


def _operations(expression: SX) -> int:
    return int(casadi.Function("size", casadi.symvar(expression), [expression]).n_instructions())
