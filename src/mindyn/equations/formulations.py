"""Formulations of inverse dynamics and the inertia matrix by name; "auto" counts operations and takes the cheapest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import casadi

from mindyn.equations.chain import SX, constant, count_instructions, reduced_chain, standard_chain, symbolic_chain
from mindyn.equations.composite_bodies import composite_inertia_matrix
from mindyn.equations.external_inputs import NO_EXTERNAL_INPUTS, ExternalInputs
from mindyn.equations.forward_dynamics import coupled_joints, factor, solve
from mindyn.equations.inertia_matrix import inertia_matrix
from mindyn.equations.kane import kane_inverse_dynamics
from mindyn.equations.lean_dynamics import lean_chain, lean_chain_on_moving_root, lean_inverse_dynamics
from mindyn.equations.mlc_dynamics import mlc_inverse_dynamics
from mindyn.equations.mlc_inertia import mlc_inertia_matrix
from mindyn.equations.newton_euler import inverse_dynamics
from mindyn.errors import Code, InputError, unknown_name_error
from mindyn.parameters.lin import LinStructure, lin_structure, lin_structure_on_moving_root, mlc_matrix
from mindyn.robots.robot import Robot


@dataclass(frozen=True, slots=True)
class Arm:
    """A robot and its link parameters: its own numbers (phi None), or expressions (10 n, 1)."""

    robot: Robot
    phi: SX | None = None

    def mlc(self, structure: LinStructure) -> SX:
        """Return the MLC vector: numbers, or Lin's linear forms of the expressions."""
        K = mlc_matrix(self.robot, structure)
        return casadi.SX(casadi.DM(K @ self.robot.phi)) if self.phi is None else casadi.densify(constant(K) @ self.phi)


FormulationBuilder = Callable[..., SX]
"""(arm, q, qd, qdd, outside) -> tau, or (arm, q) -> M."""


def _lean(arm: Arm, q: SX, qd: SX, qdd: SX, outside: ExternalInputs) -> SX:
    chain = lean_chain(arm.robot) if outside.root is None else lean_chain_on_moving_root(arm.robot)
    return lean_inverse_dynamics(chain, q, qd, qdd, outside)


def _newton_euler(arm: Arm, q: SX, qd: SX, qdd: SX, outside: ExternalInputs) -> SX:
    if arm.phi is not None:
        chain = symbolic_chain(arm.robot, arm.phi)
    else:
        chain = reduced_chain(arm.robot) if outside.root is None else standard_chain(arm.robot)
    return inverse_dynamics(chain, q, qd, qdd, outside.wrenches(len(arm.robot.joints)), outside.root)


def _mlc(arm: Arm, q: SX, qd: SX, qdd: SX, outside: ExternalInputs) -> SX:
    structure = lin_structure(arm.robot) if outside.root is None else lin_structure_on_moving_root(arm.robot)
    return mlc_inverse_dynamics(structure, arm.mlc(structure), q, qd, qdd, outside=outside)


def _composite_bodies(arm: Arm, q: SX) -> SX:
    chain = reduced_chain(arm.robot) if arm.phi is None else symbolic_chain(arm.robot, arm.phi)
    return inertia_matrix(chain, q)


def _mlc_matrix(formulation: int) -> FormulationBuilder:
    def make(arm: Arm, q: SX) -> SX:
        structure = lin_structure(arm.robot)
        return mlc_inertia_matrix(structure, arm.mlc(structure), q, formulation)

    return make


def _composite(formulation: int) -> FormulationBuilder:
    return lambda arm, q: composite_inertia_matrix(arm.robot, q, formulation)


INVERSE_DYNAMICS: dict[str, FormulationBuilder] = {
    "lean": _lean,
    "newton_euler": _newton_euler,
    "mlc": _mlc,
    "kane": lambda arm, q, qd, qdd, outside: kane_inverse_dynamics(arm.robot, q, qd, qdd, outside=outside),
}
"""lean: base values, fewest operations; newton_euler: base values; mlc: Lin 1995; kane: Angeles et al. 1988."""

INERTIA_MATRIX: dict[str, FormulationBuilder] = {
    "composite_bodies": _composite_bodies,
    **{f"formulation_{k}": _composite(k) for k in range(1, 6)},
    **{f"mlc_{k}": _mlc_matrix(k) for k in (1, 2)},
}
"""composite_bodies: base values; formulation_1 .. 5 and mlc_1, mlc_2: Lin & Fang 1999."""

BIAS_FORMULATIONS = {"mlc_1": "mlc", "mlc_2": "mlc"}
"""The inverse dynamics that goes with an inertia matrix in forward dynamics; by default the cheapest."""

ANY_TREE = ("lean", "newton_euler", "composite_bodies")
"""Formulations for trees; the others are for serial robots."""

ANY_PARAMETERS = ("newton_euler", "mlc", "composite_bodies", "mlc_1", "mlc_2")
"""Formulations that take parameters at run time; the others use a robot's own numbers."""


def build_formulation(makers: dict[str, FormulationBuilder], formulation: str, arm: Arm, *motion: Any) -> SX:
    """Return the expression of a formulation, or with "auto" of the one with the fewest operations."""
    if formulation != "auto":
        if formulation not in makers:
            raise unknown_name_error("formulation", formulation, ("auto", *makers))
        if arm.phi is not None and formulation not in ANY_PARAMETERS:
            usable = ", ".join(name for name in makers if name in ANY_PARAMETERS)
            raise InputError(
                f"formulation {formulation!r} needs constant parameters; these take them at run time: {usable}",
                code=Code.UNSUPPORTED,
                subject=formulation,
            )
        return makers[formulation](arm, *motion)
    serial = arm.robot.is_serial
    usable_makers = [
        maker
        for name, maker in makers.items()
        if (serial or name in ANY_TREE) and (arm.phi is None or name in ANY_PARAMETERS)
    ]
    return min((casadi.cse(maker(arm, *motion)) for maker in usable_makers), key=count_instructions)


def accelerations(formulation: str, arm: Arm, q: SX, qd: SX, tau: SX, added_inertia: SX) -> SX:
    """Return qdd (n, 1) with the inertia matrix of a formulation; in MLC, the bias torques use MLC too.

    `added_inertia` (n, n) of the drives is added to M.
    """
    rest = casadi.SX(len(arm.robot.joints), 1)
    bias = build_formulation(
        INVERSE_DYNAMICS, BIAS_FORMULATIONS.get(formulation, "auto"), arm, q, qd, rest, NO_EXTERNAL_INPUTS
    )
    M = build_formulation(INERTIA_MATRIX, formulation, arm, q) + added_inertia
    before = coupled_joints(arm.robot, coupled=True)
    return solve(*factor(casadi.densify(M), before), before, tau - bias)
