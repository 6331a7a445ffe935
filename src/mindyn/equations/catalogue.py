"""Catalogue of all equations by name, as `casadi.Function`s of a robot; kernels, C and CUDA are generated from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import casadi

from mindyn.equations.chain import SX
from mindyn.equations.drives import load_dependent_extras, load_friction_error, require_drives, rotor_energy
from mindyn.equations.equation_verification import COMPARATORS, ReferenceDynamics, deviation_error, equation_deviation
from mindyn.equations.forward_dynamics import forward_dynamics
from mindyn.equations.inertia_matrix import coriolis_matrix, energy, inertia_matrix, observer_step
from mindyn.equations.kinematics import forward_kinematics, geometric_jacobian
from mindyn.equations.newton_euler import inverse_dynamics
from mindyn.equations.traces import NEEDS_BEYOND_BASE, Needs, Parameters, Request, Trace, start_trace
from mindyn.foundation.errors import Code, InputError, RobotError, require_choice, unknown_name_error
from mindyn.parameters.base_parameters import BaseParameters, has_same_mechanism
from mindyn.parameters.base_set_verification import COMPARED_STATES
from mindyn.parameters.structural import structural_base
from mindyn.robots.robot import Robot

Function = Any
"""casadi.Function."""


@dataclass(frozen=True, slots=True)
class Equation:
    """An equation: names of its inputs and its output, a function that traces it, and its meaning.

    needs         information about the links: nothing, torques with the root at rest or moving, or the bodies
    regressor_of  the parameters with respect to which the equation is differentiated, if it is a regressor
    """

    inputs: tuple[str, ...]
    output: str
    trace: Callable[[Trace], SX]
    meaning: str
    needs: Needs = "torques"
    regressor_of: Literal["", "phi", "beta"] = ""


def _inverse_dynamics(t: Trace) -> SX:
    return t.add_drives(t.torques(t["qd"], t["qdd"]), t["qd"], t["qdd"])


def _inverse_dynamics_with_wrenches(t: Trace) -> SX:
    tau = inverse_dynamics(t.chain, t["q"], t["qd"], t["qdd"], t["wrenches"])
    return t.add_drives(tau, t["qd"], t["qdd"])


def _inertia_matrix(t: Trace) -> SX:
    return inertia_matrix(t.chain, t["q"]) + t.drive_inertia


def _forward_dynamics(t: Trace) -> SX:
    left, inertia = (t.subtract_drives(t["tau"], t["qd"]), t.drive_inertia) if t.with_drives else (t["tau"], None)
    return forward_dynamics(t.chain, t["q"], t["qd"], left, t.torques(t["qd"], t.rest), inertia)


def _observer(t: Trace) -> SX:
    M = _inertia_matrix(t)
    friction = t.add_drives(casadi.SX(len(t.robot.joints), 1), t["qd"], t.rest)
    momentum = M @ t["qd"]
    # dT/dq - G(q), T = qd.M qd / 2: the terms of the momentum's rate besides drive and external torques.
    drift = casadi.gradient(casadi.dot(t["qd"], momentum) / 2, t["q"]) - t.torques(t.rest, t.rest) - friction
    return observer_step(momentum, drift, t["tau"], t["state"], t["gain"], t["dt"])


def _regressor(torques: Callable[[Trace], SX]) -> Callable[[Trace], SX]:
    return lambda t: casadi.jacobian(torques(t), t.all_parameters)


def _energy(t: Trace) -> SX:
    kinetic_potential = energy(t.chain, t["q"], t["qd"])
    if not t.with_drives:
        return kinetic_potential
    return kinetic_potential + casadi.vertcat(rotor_energy(t.robot, t["qd"], t.drive_parameters), 0)


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
        lambda t: forward_kinematics(t.chain, t["q"], t.link),
        "pose (4 x 4) of a link or frame in the root frame",
        needs="nothing",
    ),
    "geometric_jacobian": Equation(
        ("q",),
        "J",
        lambda t: geometric_jacobian(t.chain, t["q"], t.link),
        "matrix J with (w, v) = J qd of a link or frame, in root components",
        needs="nothing",
    ),
    "standard_regressor": Equation(
        ("q", "qd", "qdd"),
        "Y",
        _regressor(_inverse_dynamics),
        "matrix Y with tau = Y phi, phi the standard parameters",
        regressor_of="phi",
    ),
    "regressor": Equation(
        ("q", "qd", "qdd"),
        "Y",
        _regressor(_inverse_dynamics),
        "matrix Y with tau = Y beta, beta the base parameters",
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
        _energy,
        "kinetic energy, with drives including rotors, and potential energy of the links",
        needs="bodies",
    ),
    "energy_regressor": Equation(
        ("q", "qd"),
        "Y",
        _regressor(_energy),
        "matrix Y with (kinetic, potential energy) = Y phi",
        needs="bodies",
        regressor_of="phi",
    ),
}
"""All equations by their public names."""

SYMBOLS: Mapping[str, str] = {
    "q": "joint positions, rad or m",
    "closure": "how well loops are closed: remaining gap, without unit, and regularity; see NOTATION",
    "qd": "joint velocities, rad/s or m/s",
    "qdd": "joint accelerations, rad/s^2 or m/s^2",
    "tau": "joint torques or forces, N m or N",
    "state": "momentum explained by torques, gravity and the observed torque, kg m^2/s",
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
"""Equations of a link or frame, which `link` names."""

SERIAL_EQUATIONS = ("inverse_dynamics_with_tip_wrench",)
"""Equations of serial robots: a tree has several tips (`inverse_dynamics_with_wrenches` takes every link)."""

LOAD_INDEPENDENT_EQUATIONS = (
    "standard_regressor",
    "regressor",
    "momentum_observer",
)
"""Equations that cannot include load-dependent friction, because they are linear in the parameters, or have no
acceleration, which determines the load.
"""

INVERSE_DYNAMICS_EQUATIONS = ("inverse_dynamics", "inverse_dynamics_with_tip_wrench", "inverse_dynamics_on_moving_root")
"""Equations that a formulation of inverse dynamics can compute."""
FORMULATION_CHECK_STATES = 32
"""Number of states at which a requested formulation is compared: for nearly degenerate arms some formulations lose
digits at a few states only.
"""


def build_equation(
    robot: Robot,
    name: str,
    *,
    with_drives: bool = False,
    parameters: Parameters = "constant",
    base: BaseParameters | None = None,
    link: str | None = None,
    formulation: str | None = None,
    check: bool = True,
    moved: bool = True,
) -> Function:
    """Create the `casadi.Function` of an equation for a robot.

    Parameters
    ----------
    robot : Robot
        The robot.
    name : str
        Name of the equation, a key of `EQUATIONS`.
    with_drives : bool
        Include rotor inertia, friction, offsets, and their columns in regressors.
    parameters : {"constant", "standard", "input", "base"}
        "constant": the robot's own values, through its base parameters if only torques are needed. "standard": the ten
        standard parameters of each link. "input": phi (10 n,) and, with drives, the drive parameters (4 drives +
        extras,) are further inputs. "base": beta is a further input.
    base : BaseParameters, optional
        Base set that beta (`parameters="base"`) and the regressor belong to. Default: the structural base set.
    link : str, optional
        Link or frame of forward_kinematics and geometric_jacobian.
    formulation : str, optional
        Formulation of inverse dynamics, inertia_matrix or forward_dynamics (that of its inertia matrix): a name in
        equations/formulations.py, or "auto", which counts the operations of all formulations and takes the cheapest.
        The default is nearly always the cheapest. Formulations in MLC also take parameters at run time.
    check : bool
        Compare the result with plain Newton-Euler on standard parameters, and raise an error if it deviates (2 to 5
        ms).
    moved : bool
        Whether frames may be moved to shorten the equation. False keeps the frames of the source, for parameters other
        than "constant": the equation is longer, and exact in the last digits of tiny angles and offsets.

    Returns
    -------
    casadi.Function
        The equation with named inputs and outputs.

    Raises
    ------
    UnknownNameError
        If there is no such equation, formulation, link or frame.
    InputError
        If an option does not apply to the equation.
    RobotError
        If the equation deviates from Newton-Euler, or the robot does not support it.
    """
    if name not in EQUATIONS:
        raise unknown_name_error("equation", name, EQUATIONS)
    entry = EQUATIONS[name]
    asked = Request(with_drives, parameters, base, link, moved)
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
    """Raise an error if the equation deviates from standard parameters at one of `states` random states."""
    of = EQUATIONS[function.name()].regressor_of
    base = asked.base
    if of == "beta" or (asked.parameters == "base" and not of):
        base = structural_base(robot, with_drives=asked.with_drives) if base is None else base
        if base.survivors is None and base.form == "numeric":
            return  # a constrained set is valid only for parameters that satisfy the constraints
    witness = ReferenceDynamics(robot, asked.with_drives, "input" if of else asked.parameters, base, states)
    deviation = equation_deviation(function, witness)
    if deviation.is_wrong:
        hint = 'load with snap=True if the file rounds its angles, or use parameters="standard" and moved=False'
        raise deviation_error(robot, function.name(), deviation, hint)


def _trace_formulation(t: Trace, name: str, asked: Request, formulation: str) -> SX:
    """Return the equation in the requested formulation."""
    from mindyn.equations.formulations import INERTIA_MATRIX, INVERSE_DYNAMICS, accelerations, build_formulation

    if asked.parameters == "standard" or name not in (
        *INVERSE_DYNAMICS_EQUATIONS,
        "inertia_matrix",
        "forward_dynamics",
    ):
        raise InputError(
            f"formulations exist for {', '.join(INVERSE_DYNAMICS_EQUATIONS)}, inertia_matrix and forward_dynamics, "
            f"with constant, input or base parameters; got {name} with {asked.parameters} parameters",
            code=Code.UNSUPPORTED,
            subject=name,
        )
    if name in INVERSE_DYNAMICS_EQUATIONS:
        tau = build_formulation(INVERSE_DYNAMICS, formulation, t, t["qd"], t["qdd"])
        return t.add_drives(tau, t["qd"], t["qdd"])
    if name == "inertia_matrix":
        return build_formulation(INERTIA_MATRIX, formulation, t) + t.drive_inertia
    return accelerations(formulation, t, t.subtract_drives(t["tau"], t["qd"]) if t.with_drives else t["tau"])


def _require_usable(robot: Robot, entry: Equation, asked: Request, name: str) -> None:
    require_choice(asked.parameters, get_args(Parameters), "parameters")
    if robot.has_dependents and entry.needs != "nothing":
        raise RobotError(
            f"{name} is an equation of open trees, and robot {robot.name!r} has {robot.dependence}",
            hint="use compile_model or loop_equation, which have the equations in its primary joints",
            code=Code.UNSUPPORTED,
            subject=robot.name,
        )
    if asked.with_drives:
        require_drives(robot)
        require_load_usable(robot, name, asked.parameters)
    if (asked.link is None) == (name in FRAME_EQUATIONS):
        raise InputError(
            f"{name} {'needs' if asked.link is None else 'takes no'} link (the name of a link or frame)",
            subject="link",
            code=Code.MISSING_VALUE if asked.link is None else Code.UNSUPPORTED,
        )
    if asked.base is not None and not has_same_mechanism(asked.base.robot, robot):
        raise InputError(
            f"the base set belongs to {asked.base.robot.name!r}, whose joints, gears or gravity differ from those of "
            f"{robot.name!r}",
            code=Code.DISAGREEMENT,
            subject=asked.base.robot.name,
        )
    if name in SERIAL_EQUATIONS and not robot.is_serial:
        raise RobotError(
            f"{name} is for serial robots, and {robot.name!r} branches: it has several tips",
            hint="use inverse_dynamics_with_wrenches, which takes a wrench on every link",
            code=Code.UNSUPPORTED,
            subject=robot.name,
        )
    if asked.parameters == "base" and entry.needs in NEEDS_BEYOND_BASE:
        raise InputError(
            f"{name} depends on more than the base parameters; use parameters='input'",
            code=Code.UNSUPPORTED,
            subject=name,
        )
    if asked.base is not None and asked.base.with_drives != asked.with_drives:
        raise InputError(
            f"the base set has with_drives={asked.base.with_drives}, but with_drives={asked.with_drives} is requested",
            code=Code.DISAGREEMENT,
            subject="with_drives",
        )


def require_load_usable(robot: Robot, name: str, parameters: Parameters | str) -> None:
    """Raise an error if an equation with drives cannot include load-dependent friction."""
    if loaded := load_dependent_extras(robot):
        if name in LOAD_INDEPENDENT_EQUATIONS:
            raise load_friction_error(loaded[0], f"{name} is linear in the parameters, or has no accelerations")
        if name == "forward_dynamics" and parameters not in ("constant", "standard"):
            raise load_friction_error(loaded[0], "forward dynamics needs its coefficient as a constant")
