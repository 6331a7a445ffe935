"""`ControlLaw`: a controller as an expression, so that it runs and is differentiated inside a compiled step."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache

import casadi
import numpy as np

from mindyn.algebra.values import Array
from mindyn.equations.catalogue import Function
from mindyn.errors import InputError
from mindyn.robots.robot import CACHED_ROBOTS
from mindyn.simulation.controllers import ComputedTorque, ProportionalDerivative, Reference, SineMotion
from mindyn.simulation.inputs import require_real_numbers
from mindyn.simulation.plant import Plant

Signals = Callable[[Array], Mapping[str, Array]]
"""Times (N,) s -> values (N, size) of every signal."""


@dataclass(frozen=True, slots=True, eq=False)
class ControlLaw:
    """tau = function(q, qd, signals of t).

    function  `casadi.Function` of inputs named q, qd (n, 1) and one for each signal, with one output tau (n, 1); of a
              robot whose loops are solved for n are the primary joints, and q may have the positions of all joints
    signals   what else it reads over time; q_r and qd_r are where the motion should be
    """

    function: Function
    signals: Signals


def convert_to_law(controller: ControlLaw | ProportionalDerivative | ComputedTorque) -> ControlLaw:
    """The law of a controller."""
    if isinstance(controller, ControlLaw):
        return controller
    if isinstance(controller, ProportionalDerivative):
        return _create_pd_law(controller)
    if isinstance(controller, ComputedTorque):
        return _create_computed_torque_law(controller)
    raise InputError(
        f"a controller that is simulated with candidates must be an expression, got {type(controller).__name__}",
        hint="give a ProportionalDerivative, a ComputedTorque, or a ControlLaw(function, signals)",
    )


def require_law(law: Function, plant: Plant, reserved: Collection[str]) -> None:
    """Refuses a function that is no law of a plant, or reads what is called like a part of the step around it."""
    n = plant.joint_count
    if law.n_out() != 1 or law.size_out(0) != (n, 1):
        raise InputError(
            f"a law has one output ({n}, 1), torques of the robot's {n} joints; {law.name()!r} gives {law.n_out()} "
            f"outputs, the first of shape {law.size_out(0)}"
        )
    for k, name in enumerate(law.name_in()):
        if name in reserved:
            raise InputError(f"the law's input {name!r} has a name that steps use themselves; give it another")
        whole = name == "q" and law.size_in(k) == (plant.position_count, 1)
        if name in ("q", "qd") and law.size_in(k) != (n, 1) and not whole:
            raise InputError(f"the law's input {name!r} has shape {law.size_in(k)}, but ({n}, 1) is needed")
        if law.size_in(k)[1] != 1:
            raise InputError(f"the law's input {name!r} has shape {law.size_in(k)}, but signals are columns")


def sample_signals(law: ControlLaw, times: Array) -> dict[str, Array]:
    """(N, size) of every signal that a law reads, and of q_r and qd_r where they are given, at times (N,)."""
    given, function = law.signals(times), law.function
    sizes = {name: function.size_out(0)[0] for name in ("q_r", "qd_r") if name in given}
    sizes |= {name: function.size_in(k)[0] for k, name in enumerate(function.name_in()) if name not in ("q", "qd")}
    if missing := [name for name in sizes if name not in given]:
        told = ", ".join(given) or "none"
        raise InputError(f"the law reads {', '.join(missing)}, which its signals do not give; they give: {told}")
    return {name: _require_signal(given[name], name, (len(times), size)) for name, size in sizes.items()}


def _require_signal(value: Array, name: str, shape: tuple[int, int]) -> Array:
    array = require_real_numbers(value, f"signal {name!r}")
    if array.shape != shape:
        raise InputError(f"signal {name!r} has shape {array.shape}, but {shape} is needed: a row for each time")
    return array


def sample_reference(reference: Reference, times: Array) -> tuple[Array, Array, Array]:
    """q, qd, qdd (N, n) of a reference at times (N,)."""
    if isinstance(reference, SineMotion):
        return reference.rows(times)
    found = [reference(float(t)) for t in times]
    q, qd, qdd = (np.array([one[k] for one in found]) for k in range(3))
    return q, qd, qdd


@lru_cache(maxsize=CACHED_ROBOTS)
def _create_pd_law(controller: ProportionalDerivative) -> ControlLaw:
    q, qd, q_r, qd_r = (casadi.SX.sym(name, len(controller.stiffness)) for name in ("q", "qd", "q_r", "qd_r"))
    tau = casadi.DM(controller.stiffness) * (q_r - q) + casadi.DM(controller.damping) * (qd_r - qd)
    function = casadi.Function("law", [q, qd, q_r, qd_r], [tau], ["q", "qd", "q_r", "qd_r"], ["tau"])

    def signals(times: Array) -> dict[str, Array]:
        wanted, speed, _ = sample_reference(controller.reference, times)
        return {"q_r": wanted, "qd_r": speed}

    return ControlLaw(function, signals)


@lru_cache(maxsize=CACHED_ROBOTS)
def _create_computed_torque_law(controller: ComputedTorque) -> ControlLaw:
    plant = controller.plant
    names = ["q", "qd", "q_r", "qd_r", "qdd_r", "friction"]
    q = casadi.SX.sym("q", plant.position_count)
    qd, q_r, qd_r, qdd_r, friction = (casadi.SX.sym(name, plant.joint_count) for name in names[1:])
    stiffness, damping = casadi.DM(controller.stiffness), casadi.DM(controller.damping)
    wanted = qdd_r + stiffness * (q_r - q[plant.primary]) + damping * (qd_r - qd)
    tau = plant.equation("inverse_dynamics")(q, qd, wanted) + friction
    function = casadi.Function("law", [q, qd, q_r, qd_r, qdd_r, friction], [tau], names, ["tau"])

    def signals(times: Array) -> dict[str, Array]:
        position, speed, acceleration = sample_reference(controller.reference, times)
        expected = controller.dry_friction(position, speed)
        return {"q_r": position, "qd_r": speed, "qdd_r": acceleration, "friction": expected}

    return ControlLaw(function, signals)
