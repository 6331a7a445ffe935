"""`ControlLaw`: a controller as an expression, so that it runs and is differentiated inside a compiled step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import casadi
import numpy as np

from mindyn.algebra.values import Array
from mindyn.equations.catalogue import Function
from mindyn.errors import InputError
from mindyn.simulation.controllers import ComputedTorque, ProportionalDerivative, Reference, SineMotion
from mindyn.simulation.plant import KEPT

Signals = Callable[[Array], Mapping[str, Array]]
"""Times (N,) s -> values (N, size) of every signal."""


@dataclass(frozen=True, slots=True, eq=False)
class ControlLaw:
    """tau = function(q, qd, signals of t).

    function  `casadi.Function` of inputs named q, qd (n, 1) and one for each signal, with one output tau (n, 1)
    signals   what else it reads over time; q_r and qd_r are where the motion should be
    """

    function: Function
    signals: Signals


@lru_cache(maxsize=KEPT)
def law_of(controller: ControlLaw | ProportionalDerivative | ComputedTorque) -> ControlLaw:
    """The law of a controller."""
    if isinstance(controller, ControlLaw):
        return controller
    if isinstance(controller, ProportionalDerivative):
        return _proportional_derivative(controller)
    if isinstance(controller, ComputedTorque):
        return _computed_torque(controller)
    raise InputError(
        f"a controller that is simulated with candidates must be an expression, got {type(controller).__name__}",
        hint="give a ProportionalDerivative, a ComputedTorque, or a ControlLaw(function, signals)",
    )


def reference_rows(reference: Reference, times: Array) -> tuple[Array, Array, Array]:
    """q, qd, qdd (N, n) of a reference at times (N,)."""
    if isinstance(reference, SineMotion):
        return reference.rows(times)
    found = [reference(float(t)) for t in times]
    q, qd, qdd = (np.array([one[k] for one in found]) for k in range(3))
    return q, qd, qdd


def _proportional_derivative(controller: ProportionalDerivative) -> ControlLaw:
    q, qd, q_r, qd_r = (casadi.SX.sym(name, len(controller.stiffness)) for name in ("q", "qd", "q_r", "qd_r"))
    tau = casadi.DM(controller.stiffness) * (q_r - q) + casadi.DM(controller.damping) * (qd_r - qd)
    function = casadi.Function("law", [q, qd, q_r, qd_r], [tau], ["q", "qd", "q_r", "qd_r"], ["tau"])

    def signals(times: Array) -> dict[str, Array]:
        wanted, speed, _ = reference_rows(controller.reference, times)
        return {"q_r": wanted, "qd_r": speed}

    return ControlLaw(function, signals)


def _computed_torque(controller: ComputedTorque) -> ControlLaw:
    names = ["q", "qd", "q_r", "qd_r", "qdd_r", "friction"]
    q, qd, q_r, qd_r, qdd_r, friction = (casadi.SX.sym(name, len(controller.stiffness)) for name in names)
    stiffness, damping = casadi.DM(controller.stiffness), casadi.DM(controller.damping)
    wanted = qdd_r + stiffness * (q_r - q) + damping * (qd_r - qd)
    tau = controller.plant.equation("inverse_dynamics")(q, qd, wanted) + friction
    function = casadi.Function("law", [q, qd, q_r, qd_r, qdd_r, friction], [tau], names, ["tau"])

    def signals(times: Array) -> dict[str, Array]:
        position, speed, acceleration = reference_rows(controller.reference, times)
        expected = controller.dry_friction(speed)
        return {"q_r": position, "qd_r": speed, "qdd_r": acceleration, "friction": expected}

    return ControlLaw(function, signals)
