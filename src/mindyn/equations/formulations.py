"""Formulations of inverse dynamics and the inertia matrix by name. "auto" counts operations and takes the cheapest."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import casadi

from mindyn.equations.chain import SX, constant, count_instructions
from mindyn.equations.composite_bodies import composite_inertia_matrix
from mindyn.equations.forward_dynamics import Factors
from mindyn.equations.inertia_matrix import inertia_matrix
from mindyn.equations.kane import kane_inverse_dynamics
from mindyn.equations.mlc_dynamics import mlc_inverse_dynamics
from mindyn.equations.mlc_inertia import mlc_inertia_matrix
from mindyn.equations.traces import Trace
from mindyn.foundation.errors import Code, InputError, unknown_name_error
from mindyn.parameters.lin import LinStructure, lin_structure, lin_structure_on_moving_root, mlc_matrix

FormulationBuilder = Callable[..., SX]
"""(trace, qd, qdd) -> tau, or (trace) -> M."""


def _mlc_values(t: Trace, structure: LinStructure) -> SX:
    """Return the MLC vector: numbers, or Lin's linear forms of the expressions."""
    K = mlc_matrix(t.robot, structure)
    return casadi.SX(casadi.DM(K @ t.robot.phi)) if t.phi is None else casadi.densify(constant(K) @ t.phi)


def _mlc(t: Trace, qd: SX, qdd: SX) -> SX:
    structure = lin_structure(t.robot) if t.outside.root is None else lin_structure_on_moving_root(t.robot)
    return mlc_inverse_dynamics(structure, _mlc_values(t, structure), t["q"], qd, qdd, outside=t.outside)


def _mlc_matrix(t: Trace, formulation: int) -> SX:
    structure = lin_structure(t.robot)
    return mlc_inertia_matrix(structure, _mlc_values(t, structure), t["q"], formulation)


INVERSE_DYNAMICS: dict[str, FormulationBuilder] = {
    "lean": lambda t, qd, qdd: t.torques(qd, qdd),
    "newton_euler": lambda t, qd, qdd: t.newton_euler(qd, qdd),
    "mlc": _mlc,
    "kane": lambda t, qd, qdd: kane_inverse_dynamics(t.robot, t["q"], qd, qdd, outside=t.outside),
}
"""lean: base values, fewest operations; newton_euler: base values; mlc: Lin 1995; kane: Angeles et al. 1988."""

INERTIA_MATRIX: dict[str, FormulationBuilder] = {
    "composite_bodies": lambda t: inertia_matrix(t.chain, t["q"]),
    **{f"formulation_{k}": lambda t, k=k: composite_inertia_matrix(t.robot, t["q"], k) for k in range(1, 6)},
    **{f"mlc_{k}": partial(_mlc_matrix, formulation=k) for k in (1, 2)},
}
"""composite_bodies: base values; formulation_1 .. 5 and mlc_1, mlc_2: Lin & Fang 1999."""

BIAS_FORMULATIONS = {"mlc_1": "mlc", "mlc_2": "mlc"}
"""The inverse dynamics that goes with an inertia matrix in forward dynamics; by default the cheapest."""

ANY_TREE = ("lean", "newton_euler", "composite_bodies")
"""Formulations for trees; the others are for serial robots."""

ANY_PARAMETERS = ("newton_euler", "mlc", "composite_bodies", "mlc_1", "mlc_2")
"""Formulations that take parameters at run time; the others use a robot's own numbers."""


def build_formulation(makers: dict[str, FormulationBuilder], formulation: str, t: Trace, *rates: SX) -> SX:
    """Return the expression of a formulation; with "auto", the expression with the fewest operations."""
    usable = [name for name in makers if t.phi is None or name in ANY_PARAMETERS]
    if formulation == "auto":
        fitting = (name for name in usable if t.robot.is_serial or name in ANY_TREE)
        return min((casadi.cse(makers[name](t, *rates)) for name in fitting), key=count_instructions)
    if formulation not in makers:
        raise unknown_name_error("formulation", formulation, ("auto", *makers))
    if formulation not in usable:
        raise InputError(
            f"formulation {formulation!r} needs constant parameters; these take them at run time: {', '.join(usable)}",
            code=Code.UNSUPPORTED,
            subject=formulation,
        )
    return makers[formulation](t, *rates)


def accelerations(formulation: str, t: Trace, tau: SX) -> SX:
    """Return qdd (n, 1) with the inertia matrix of a formulation plus that of the drives.

    In MLC, the bias torques use MLC too.
    """
    bias = build_formulation(INVERSE_DYNAMICS, BIAS_FORMULATIONS.get(formulation, "auto"), t, t["qd"], t.rest)
    return Factors(build_formulation(INERTIA_MATRIX, formulation, t) + t.drive_inertia).solve(tau - bias)
