"""`ControlLaw`: a controller as an expression that is compiled and differentiated as part of a step."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache

import casadi
import numpy as np

from mindyn.algebra.values import Array
from mindyn.equations.catalogue import Function
from mindyn.errors import Code, InputError
from mindyn.robots.robot import CACHED_ROBOTS
from mindyn.simulation.controllers import ComputedTorque, ProportionalDerivative, Reference, SineMotion
from mindyn.simulation.inputs import require_real_numbers
from mindyn.simulation.plant import Plant

Signals = Callable[[Array], Mapping[str, Array]]
"""Times (N,) s -> values (N, size) of every signal."""


@dataclass(frozen=True, slots=True, eq=False)
class ControlLaw:
    """Controller tau = function(q, qd, signals(t)).

    Parameters
    ----------
    function : casadi.Function
        Function with inputs named q and qd (n, 1), an input for each signal, and the output tau (n, 1). With solved
        loops, n counts the primary joints, and q may contain the positions of all joints.
    signals : callable
        Function of times (N,) in s that returns a mapping of signal names to values (N, size). The signals q_r and
        qd_r are the reference of the motion.
    """

    function: Function
    signals: Signals


def convert_to_law(controller: ControlLaw | ProportionalDerivative | ComputedTorque) -> ControlLaw:
    """Return the control law of a controller."""
    if isinstance(controller, ControlLaw):
        return controller
    if isinstance(controller, ProportionalDerivative):
        return _create_pd_law(controller)
    if isinstance(controller, ComputedTorque):
        return _create_computed_torque_law(controller)
    raise InputError(
        f"a controller that is simulated with candidates must be an expression, got {type(controller).__name__}",
        hint="pass a ProportionalDerivative, a ComputedTorque, or a ControlLaw(function, signals)",
        code=Code.WRONG_TYPE,
        subject="controller",
    )


def require_law(law: Function, plant: Plant, reserved: Collection[str]) -> None:
    """Raise `InputError` if a function is not a control law of the plant, or an input has a reserved name."""
    n = plant.joint_count
    if law.n_out() != 1 or law.size_out(0) != (n, 1):
        raise InputError(
            f"a control law must have one output of shape ({n}, 1), the torques of the robot's {n} joints; {law.name()!r} "
            f"has {law.n_out()} outputs, the first of shape {law.size_out(0)}",
            code=Code.WRONG_SHAPE,
            subject=law.name(),
        )
    for k, name in enumerate(law.name_in()):
        if name in reserved:
            message = f"the law's input {name!r} has a reserved name; rename it. Reserved: {', '.join(reserved)}"
            raise InputError(message, code=Code.DUPLICATE, subject=name)
        whole = name == "q" and law.size_in(k) == (plant.position_count, 1)
        if name in ("q", "qd") and law.size_in(k) != (n, 1) and not whole:
            message = f"the law's input {name!r} has shape {law.size_in(k)}, but ({n}, 1) is needed"
            raise InputError(message, code=Code.WRONG_SHAPE, subject=name)
        if law.size_in(k)[1] != 1:
            message = f"the law's input {name!r} has shape {law.size_in(k)}, but a signal must have a single column"
            raise InputError(message, code=Code.WRONG_SHAPE, subject=name)


def sample_signals(law: ControlLaw, times: Array) -> dict[str, Array]:
    """Return every signal (N, size) that a law reads, and q_r and qd_r if they are given, at times (N,)."""
    given, function = law.signals(times), law.function
    sizes = {name: function.size_out(0)[0] for name in ("q_r", "qd_r") if name in given}
    sizes |= {name: function.size_in(k)[0] for k, name in enumerate(function.name_in()) if name not in ("q", "qd")}
    if missing := [name for name in sizes if name not in given]:
        message = f"the law reads {', '.join(missing)}, but its signals are: {', '.join(given) or 'none'}"
        raise InputError(message, code=Code.MISSING_VALUE, subject=missing[0])
    return {name: _require_signal(given[name], name, (len(times), size)) for name, size in sizes.items()}


def _require_signal(value: Array, name: str, shape: tuple[int, int]) -> Array:
    array = require_real_numbers(value, f"signal {name!r}")
    if array.shape != shape:
        message = f"signal {name!r} has shape {array.shape}, but {shape} is needed: a row for each time"
        raise InputError(message, code=Code.WRONG_SHAPE, subject=name)
    return array


def sample_reference(reference: Reference, times: Array) -> tuple[Array, Array, Array]:
    """Return q, qd, qdd (N, n) of a reference at times (N,)."""
    if isinstance(reference, SineMotion):
        return reference.rows(times)
    rows = [reference(float(t)) for t in times]
    q, qd, qdd = (np.array([row[k] for row in rows]) for k in range(3))
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
