"""Every equation by name, as a `casadi.Function` of a robot: the one list that kernels, C and CUDA are made from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import casadi

from mindyn.equations.certificate import COMPARATORS, ReferenceDynamics, deviation_error, equation_deviation
from mindyn.equations.chain import SX
from mindyn.equations.control import momentum_drift, observer_step, slotine_li_torques
from mindyn.equations.drives import load_dependent_extras, load_friction_error, rotor_energy
from mindyn.equations.formulations import INERTIA_MATRIX, INVERSE_DYNAMICS, accelerations, build_formulation
from mindyn.equations.forward_dynamics import forward_dynamics
from mindyn.equations.inertia_matrix import coriolis_matrix, energy, inertia_matrix
from mindyn.equations.kinematics import forward_kinematics, geometric_jacobian
from mindyn.equations.newton_euler import inverse_dynamics
from mindyn.equations.traces import NEEDS_BEYOND_BASE, Needs, Parameters, Request, Trace, start_trace
from mindyn.errors import InputError, MissingPhysicsError, RobotError, require_choice, unknown_name_error
from mindyn.parameters.base import BaseParameters, has_same_mechanism
from mindyn.parameters.certificate import COMPARED_STATES
from mindyn.parameters.structural import structural_base
from mindyn.robots.robot import Robot

Function = Any
"""casadi.Function."""


@dataclass(frozen=True, slots=True)
class Equation:
    """An equation: names of its inputs and its output, how to trace it, and what it says.

    needs         what it takes of the links: nothing, what torques depend on with the root at rest or moving, or the
                  bodies themselves
    regressor_of  the parameters it is the derivative by, if it is a regressor
    """

    inputs: tuple[str, ...]
    output: str
    trace: Callable[[Trace], SX]
    meaning: str
    needs: Needs = "torques"
    regressor_of: Literal["", "phi", "beta"] = ""


def _inverse_dynamics(t: Trace) -> SX:
    return t.add_drives(t.torques(t["qd"], t["qdd"], outside=t.outside), t["qd"], t["qdd"])


def _inverse_dynamics_with_wrenches(t: Trace) -> SX:
    tau = inverse_dynamics(t.chain, t["q"], t["qd"], t["qdd"], t["wrenches"])
    return t.add_drives(tau, t["qd"], t["qdd"])


def _inertia_matrix(t: Trace) -> SX:
    return inertia_matrix(t.chain, t["q"]) + t.drive_inertia


def _forward_dynamics(t: Trace) -> SX:
    if not t.drives:
        return forward_dynamics(t.chain, t["q"], t["qd"], t["tau"], t.torques(t["qd"], t.rest))
    left = t.subtract_drives(t["tau"], t["qd"])
    return forward_dynamics(t.chain, t["q"], t["qd"], left, t.torques(t["qd"], t.rest), t.drive_inertia)


def _slotine_li(t: Trace) -> SX:
    tau = slotine_li_torques(t.torques, t["qd"], t["qd_r"], t["qdd_r"])
    return t.add_drives(tau, t["qd_r"], t["qdd_r"])


def _observer(t: Trace) -> SX:
    M = _inertia_matrix(t)
    friction = t.add_drives(casadi.SX(t.robot.joint_count, 1), t["qd"], t.rest)
    drift = momentum_drift(M, t.torques(t.rest, t.rest), t["q"], t["qd"]) - friction
    return observer_step(M @ t["qd"], drift, t["tau"], t["state"], t["gain"], t["dt"])


def _regressor(t: Trace) -> SX:
    return casadi.jacobian(_inverse_dynamics(t), t.all_parameters)


def _energy(t: Trace) -> SX:
    kinetic_potential = energy(t.chain, t["q"], t["qd"])
    if not t.drives:
        return kinetic_potential
    return kinetic_potential + casadi.vertcat(rotor_energy(t.robot, t["qd"], t.drive_parameters), 0)


def _energy_regressor(t: Trace) -> SX:
    return casadi.jacobian(_energy(t), t.all_parameters)


EQUATIONS: dict[str, Equation] = {
    "inverse_dynamics": Equation(
        ("q", "qd", "qdd"), "tau", _inverse_dynamics, "joint torques tau = M(q) qdd + C(q, qd) qd + G(q)"
    ),
    "inverse_dynamics_with_wrenches": Equation(
        ("q", "qd", "qdd", "wrenches"),
        "tau",
        _inverse_dynamics_with_wrenches,
        "joint torques while wrenches (moment, force; in link frames) act on the links from outside",
    ),
    "inverse_dynamics_with_tip_wrench": Equation(
        ("q", "qd", "qdd", "tip_wrench"),
        "tau",
        _inverse_dynamics,
        "joint torques of a serial robot while a wrench (moment, force; in its frame) acts on the last link",
    ),
    "inverse_dynamics_on_moving_root": Equation(
        ("q", "qd", "qdd", "root_motion"),
        "tau",
        _inverse_dynamics,
        "joint torques while the root turns and accelerates",
        needs="torques on a moving root",
    ),
    "inertia_matrix": Equation(("q",), "M", _inertia_matrix, "joint-space inertia matrix M(q)"),
    "bias": Equation(
        ("q", "qd"),
        "tau",
        lambda t: t.add_drives(t.torques(t["qd"], t.rest), t["qd"], t.rest),
        "torques at qdd = 0: C(q, qd) qd + G(q)",
    ),
    "gravity": Equation(
        ("q",), "tau", lambda t: t.torques(t.rest, t.rest), "torques G(q) that hold the links, without drives"
    ),
    "coriolis": Equation(
        ("q", "qd"),
        "C",
        lambda t: coriolis_matrix(t.torques(t["qd"], t.rest) - t.torques(t.rest, t.rest), t["qd"]),
        "matrix C(q, qd) of Christoffel's symbols; Mdot - 2 C is skew",
    ),
    "forward_dynamics": Equation(
        ("q", "qd", "tau"), "qdd", _forward_dynamics, "joint accelerations qdd under torques tau"
    ),
    "forward_kinematics": Equation(
        ("q",),
        "X",
        lambda t: forward_kinematics(t.chain, t["q"], t.place),
        "pose (4 x 4) of a link or frame in the root frame",
        needs="nothing",
    ),
    "geometric_jacobian": Equation(
        ("q",),
        "J",
        lambda t: geometric_jacobian(t.chain, t["q"], t.place),
        "matrix J with (w, v) = J qd of a link or frame, in root components",
        needs="nothing",
    ),
    "standard_regressor": Equation(
        ("q", "qd", "qdd"),
        "Y",
        _regressor,
        "matrix Y with tau = Y phi, phi the standard parameters",
        regressor_of="phi",
    ),
    "regressor": Equation(
        ("q", "qd", "qdd"),
        "Y",
        _regressor,
        "matrix Y with tau = Y beta, beta the base parameters",
        regressor_of="beta",
    ),
    "slotine_li": Equation(
        ("q", "qd", "qd_r", "qdd_r"),
        "tau",
        _slotine_li,
        "torques M(q) qdd_r + C(q, qd) qd_r + G(q) of Slotine and Li; drives move with qd_r",
    ),
    "slotine_li_regressor": Equation(
        ("q", "qd", "qd_r", "qdd_r"),
        "Y",
        lambda t: casadi.jacobian(_slotine_li(t), t.all_parameters),
        "matrix Y with M(q) qdd_r + C(q, qd) qd_r + G(q) = Y beta",
        regressor_of="beta",
    ),
    "momentum_observer": Equation(
        ("q", "qd", "tau", "state", "gain", "dt"),
        "step",
        _observer,
        "external torque and next state of a generalised-momentum observer; the state starts as M(q) qd",
    ),
    "energy": Equation(
        ("q", "qd"),
        "E",
        lambda t: _energy(t),
        "kinetic energy, of rotors too where drives take part, and potential energy of the links",
        needs="bodies",
    ),
    "energy_regressor": Equation(
        ("q", "qd"),
        "Y",
        _energy_regressor,
        "matrix Y with (kinetic, potential energy) = Y phi",
        needs="bodies",
        regressor_of="phi",
    ),
}
"""Every equation by its public name."""

SYMBOLS: Mapping[str, str] = {
    "q": "joint positions, rad or m",
    "closure": "how well loops are closed: what is left open, without unit, and how regular they are; see NOTATION",
    "qd": "joint velocities, rad/s or m/s",
    "qdd": "joint accelerations, rad/s^2 or m/s^2",
    "tau": "joint torques or forces, N m or N",
    "qd_r": "reference velocities, rad/s or m/s",
    "qdd_r": "reference accelerations, rad/s^2 or m/s^2",
    "state": "momentum that torques, gravity and the observed torque account for, kg m^2/s",
    "gain": "observer gains of the joints, 1/s",
    "dt": "sampling time, s",
    "step": "external torque, then the next state",
    "tip_wrench": "moment (N m) and force (N) on the last link from outside, in its frame",
    "root_motion": "angular velocity and acceleration (rad/s, rad/s^2) of the root, acceleration of its origin (m/s^2)",
    "wrenches": "moment (N m) and force (N) on each link from outside, in link frames",
    "phi": "standard parameters m, mcx, mcy, mcz, Ixx, Ixy, Iyy, Ixz, Iyz, Izz of every link, kg, kg m, kg m^2",
    "drive_parameters": "rotor inertia, viscous, Coulomb, offset of every drive; coefficients of extra torques",
    "beta": "base parameters",
    "M": "inertia matrix, kg m^2 (revolute)",
    "C": "Coriolis matrix, N m s",
    "Y": "regressor, row-major",
    "E": "kinetic and potential energy, J",
    "X": "homogeneous pose, row-major",
    "J": "geometric Jacobian, angular rows first",
}
"""Inputs and outputs of the equations, for readers of exported sources."""

FRAME_EQUATIONS = ("forward_kinematics", "geometric_jacobian")
"""Equations of a link or frame, which `place` names."""

SERIAL_EQUATIONS = ("inverse_dynamics_with_tip_wrench",)
"""Equations of serial robots: a tree has no one tip (`inverse_dynamics_with_wrenches` takes every link)."""

LOAD_INDEPENDENT_EQUATIONS = (
    "standard_regressor",
    "regressor",
    "slotine_li_regressor",
    "momentum_observer",
)
"""Equations that friction depending on the load of a joint cannot take part in: linear in the parameters, or without
an acceleration to know the load by."""

INVERSE_DYNAMICS_EQUATIONS = ("inverse_dynamics", "inverse_dynamics_with_tip_wrench", "inverse_dynamics_on_moving_root")
"""Equations that a formulation of inverse dynamics makes."""
FORMULATION_CHECK_STATES = 32
"""At which a formulation that was asked for is compared: of nearly degenerate arms some lose digits at a few alone."""


def equation(
    robot: Robot,
    name: str,
    *,
    drives: bool = False,
    parameters: Parameters = "constant",
    base: BaseParameters | None = None,
    place: str | None = None,
    formulation: str | None = None,
    check: bool = True,
    moved: bool = True,
) -> Function:
    """The `casadi.Function` of an equation for a robot.

    drives      the drives take part: rotor inertia, friction, offsets, and their columns in regressors
    parameters  "constant": the robot's own values, through its base parameters where torques alone are asked for;
                "standard": its ten parameters of each link; "input": phi (10 n,) and, with drives, the drive parameters
                (4 drives + extras,) are further inputs; "base": beta is a further input
    base        the base set of "base" and of `regressor`; the structural one if left out
    place       link or frame of forward_kinematics and geometric_jacobian
    formulation of inverse dynamics, inertia_matrix and forward_dynamics (that of its inertia matrix): a name of
                equations/formulations.py, or "auto", which counts the operations of all and takes the cheapest; the
                default is nearly always that. Those in MLC take parameters at run time too
    check       compare it with plain Newton-Euler on standard parameters, and refuse what deviates (2 to 5 ms)
    moved       frames may stand where equations are short; False: where the source has them, with parameters other
                than "constant". Longer, and exact in the last digits of tiny angles and offsets
    """
    if name not in EQUATIONS:
        raise unknown_name_error("equation", name, EQUATIONS)
    entry = EQUATIONS[name]
    asked = Request(drives, parameters, base, place, moved)
    _require_usable(robot, entry, asked, name)
    trace = start_trace(robot, entry.inputs, entry.needs, entry.regressor_of, asked)
    result = casadi.cse(
        entry.trace(trace) if formulation is None else _trace_formulation(trace, name, asked, formulation)
    )
    given = {} if entry.regressor_of else trace.parameters
    inputs = {key: trace[key] for key in entry.inputs} | given
    function = casadi.Function(name, [*inputs.values()], [result], [*inputs], [entry.output])
    if check and name in COMPARATORS:
        _require_agreement(function, robot, asked, COMPARED_STATES if formulation is None else FORMULATION_CHECK_STATES)
    return function


def _require_agreement(function: Function, robot: Robot, asked: Request, states: int) -> None:
    """Refuses an equation that deviates from standard parameters at one of so many states."""
    of = EQUATIONS[function.name()].regressor_of
    base = asked.base
    if of == "beta" or (asked.parameters == "base" and not of):
        base = structural_base(robot, drives=asked.drives) if base is None else base
        if base.survivors is None and base.form == "numeric":
            return  # parameters under constraints: right for those that obey them alone
    witness = ReferenceDynamics(robot, asked.drives, "input" if of else asked.parameters, base, states)
    deviation = equation_deviation(function, witness)
    if deviation.is_wrong:
        hint = 'load with snap=True if the file rounds its angles, or use parameters="standard" and moved=False'
        raise deviation_error(robot, function.name(), deviation, hint)


def _trace_formulation(t: Trace, name: str, asked: Request, formulation: str) -> SX:
    """The equation by a formulation that was asked for by name."""
    if asked.parameters == "standard" or name not in (
        *INVERSE_DYNAMICS_EQUATIONS,
        "inertia_matrix",
        "forward_dynamics",
    ):
        raise InputError(
            f"formulations are of {', '.join(INVERSE_DYNAMICS_EQUATIONS)}, inertia_matrix and forward_dynamics, with constant, input "
            f"or base parameters; not of {name} with {asked.parameters} ones"
        )
    if name in INVERSE_DYNAMICS_EQUATIONS:
        tau = build_formulation(INVERSE_DYNAMICS, formulation, t.arm, t["q"], t["qd"], t["qdd"], t.outside)
        return t.add_drives(tau, t["qd"], t["qdd"])
    if name == "inertia_matrix":
        return build_formulation(INERTIA_MATRIX, formulation, t.arm, t["q"]) + t.drive_inertia
    left = t.subtract_drives(t["tau"], t["qd"]) if t.drives else t["tau"]
    return accelerations(formulation, t.arm, t["q"], t["qd"], left, t.drive_inertia)


def _require_usable(robot: Robot, entry: Equation, asked: Request, name: str) -> None:
    require_choice(asked.parameters, get_args(Parameters), "parameters")
    if robot.has_dependents and entry.needs != "nothing":
        raise RobotError(
            f"robot {robot.name!r} has {robot.dependence}; {name} is an equation of open trees",
            hint="compile_model and loop_equation have the equations in its primary joints",
        )
    if asked.drives and not (robot.drives or robot.extras):
        raise MissingPhysicsError(
            f"robot {robot.name!r} states no drives, but drives=True (--drives) asks for their torques",
            hint="add [[drive]] tables to the robot file, or leave drives out",
        )
    if asked.drives:
        require_load_usable(robot, name, asked.parameters)
    if (asked.place is None) == (name in FRAME_EQUATIONS):
        raise InputError(f"{name} {'needs' if asked.place is None else 'takes no'} place (the name of a link or frame)")
    if asked.base is not None and not has_same_mechanism(asked.base.robot, robot):
        raise InputError(
            f"the base set is of {asked.base.robot.name!r}, whose joints, gears or gravity differ from {robot.name!r}'s"
        )
    if name in SERIAL_EQUATIONS and not robot.is_serial:
        raise RobotError(
            f"{name} is of serial robots, and {robot.name!r} branches: it has no one tip",
            hint="inverse_dynamics_with_wrenches takes a wrench on every link",
        )
    if asked.parameters == "base" and entry.needs in NEEDS_BEYOND_BASE:
        raise InputError(f"{name} depends on more than the base parameters; use parameters='input'")
    if asked.base is not None and asked.base.drives != asked.drives:
        raise InputError(
            f"the base set was made with drives={asked.base.drives}, but drives={asked.drives} is asked for"
        )


def require_load_usable(robot: Robot, name: str, parameters: Parameters | str) -> None:
    """Refuses an equation with drives in which friction that depends on the load cannot take part."""
    if loaded := load_dependent_extras(robot):
        if name in LOAD_INDEPENDENT_EQUATIONS:
            raise load_friction_error(loaded[0], f"{name} is linear in the parameters, or knows no accelerations")
        if name == "forward_dynamics" and parameters not in ("constant", "standard"):
            raise load_friction_error(
                loaded[0], "accelerations are solved for with its own coefficient, not one at run time"
            )
