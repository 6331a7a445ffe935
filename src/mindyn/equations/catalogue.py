"""Every equation by name, as a `casadi.Function` of a robot: the one list that kernels, C and CUDA are made from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, get_args

import casadi

from mindyn.equations.chain import SX, Chain, constant, kinematic_chain, reduced_chain, standard_chain, symbolic_chain
from mindyn.equations.control import momentum_drift, observer_step, slotine_li_torques
from mindyn.equations.drives import drive_torques, rotor_energy
from mindyn.equations.energy import energy
from mindyn.equations.formulations import INERTIA_MATRIX, INVERSE_DYNAMICS, formulated
from mindyn.equations.forward_dynamics import forward_dynamics
from mindyn.equations.inertia_matrix import coriolis_matrix, inertia_matrix
from mindyn.equations.kinematics import forward_kinematics, geometric_jacobian
from mindyn.equations.lean_dynamics import LeanChain, lean_chain
from mindyn.equations.newton_euler import inverse_dynamics
from mindyn.errors import InputError, MissingPhysicsError, RobotError, require_choice, unknown_name
from mindyn.notation import PARAMETERS_PER_LINK
from mindyn.parameters.base import BaseParameters, same_mechanism
from mindyn.parameters.structural import structural_base
from mindyn.robots.drive_matrices import drive_parameters, reflected_inertia
from mindyn.robots.robot import Robot

Function = Any
"""casadi.Function."""

Parameters = Literal["constant", "standard", "input", "base"]
"""How link parameters enter: the robot's base values as constants; its ten parameters of each link as constants; phi
as an input; beta as an input."""


@dataclass(frozen=True, slots=True)
class Trace:
    """What an equation is traced from: the robot, its symbols by name, and whether drives take part.

    make_chain        makes the chain; it is made once, and only for equations that use it
    lean              the robot's own base values for the lean recursion, where torques alone are asked for
    parameters        the symbols of parameters that are inputs, or that a regressor is the derivative by
    drive_parameters  (4 drives + extras,) expressions, or None for the robot's own values
    """

    robot: Robot
    make_chain: Callable[[], Chain]
    lean: LeanChain | None
    symbols: dict[str, SX]
    parameters: dict[str, SX]
    drives: bool
    drive_parameters: SX | None
    place: str

    def __getitem__(self, name: str) -> SX:
        return self.symbols[name]

    @property
    def chain(self) -> Chain:
        """The chain, with parameters as they enter."""
        return self.make_chain()

    def torques(self, qd: SX, qdd: SX) -> SX:
        """Inverse dynamics of the rigid chain, by the shortest recursion at hand."""
        if self.lean is not None:
            return self.lean.torques(self["q"], qd, qdd)
        return inverse_dynamics(self.chain, self["q"], qd, qdd)

    def with_drives(self, tau: SX, qd: SX, qdd: SX) -> SX:
        """Tau, plus what the drives take where they take part."""
        if not self.drives:
            return tau
        return tau + drive_torques(self.robot, self["q"], qd, qdd, self.drive_parameters)

    @property
    def rest(self) -> SX:
        """Zero joint velocity or acceleration."""
        return casadi.SX(self.robot.joint_count, 1)

    @property
    def all_parameters(self) -> SX:
        """The column of parameters that a regressor is the derivative by."""
        return casadi.vertcat(*self.parameters.values())


@dataclass(frozen=True, slots=True)
class Equation:
    """An equation: names of its inputs and its output, how to trace it, and what it says.

    needs         what it takes of the links: nothing, what torques depend on, or the bodies themselves
    regressor_of  the parameters it is the derivative by, if it is a regressor
    """

    inputs: tuple[str, ...]
    output: str
    trace: Callable[[Trace], SX]
    meaning: str
    needs: Literal["nothing", "torques", "bodies"] = "torques"
    regressor_of: Literal["", "phi", "beta"] = ""


def _inverse_dynamics(t: Trace) -> SX:
    return t.with_drives(t.torques(t["qd"], t["qdd"]), t["qd"], t["qdd"])


def _inverse_dynamics_with_wrenches(t: Trace) -> SX:
    tau = inverse_dynamics(t.chain, t["q"], t["qd"], t["qdd"], t["wrenches"])
    return t.with_drives(tau, t["qd"], t["qdd"])


def _inertia_matrix(t: Trace) -> SX:
    M = inertia_matrix(t.chain, t["q"])
    if not t.drives:
        return M
    if t.drive_parameters is None:
        return M + casadi.SX(casadi.DM(reflected_inertia(t.robot)))
    qdd = casadi.SX.sym("qdd", t.robot.joint_count)
    return M + casadi.jacobian(drive_torques(t.robot, t["q"], t.rest, qdd, t.drive_parameters), qdd)


def _forward_dynamics(t: Trace) -> SX:
    if not t.drives:
        return forward_dynamics(t.chain, t["q"], t["qd"], t["tau"], t.torques(t["qd"], t.rest))
    left = t["tau"] - drive_torques(t.robot, t["q"], t["qd"], t.rest, t.drive_parameters)
    qdd = casadi.SX.sym("qdd", t.robot.joint_count)
    added = casadi.jacobian(drive_torques(t.robot, t["q"], t.rest, qdd, t.drive_parameters), qdd)
    return forward_dynamics(t.chain, t["q"], t["qd"], left, t.torques(t["qd"], t.rest), added)


def _slotine_li(t: Trace) -> SX:
    tau = slotine_li_torques(t.torques, t["qd"], t["qd_r"], t["qdd_r"])
    return t.with_drives(tau, t["qd_r"], t["qdd_r"])


def _observer(t: Trace) -> SX:
    M = _inertia_matrix(t)
    friction = t.with_drives(casadi.SX(t.robot.joint_count, 1), t["qd"], t.rest)
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
    "inertia_matrix": Equation(("q",), "M", _inertia_matrix, "joint-space inertia matrix M(q)"),
    "bias": Equation(
        ("q", "qd"),
        "tau",
        lambda t: t.with_drives(t.torques(t["qd"], t.rest), t["qd"], t.rest),
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

PLACED = ("forward_kinematics", "geometric_jacobian")
"""Equations of a link or frame, which `place` names."""


def equation(
    robot: Robot,
    name: str,
    *,
    drives: bool = False,
    parameters: Parameters = "constant",
    base: BaseParameters | None = None,
    place: str | None = None,
    formulation: str | None = None,
) -> Function:
    """The `casadi.Function` of an equation for a robot.

    drives      the drives take part: rotor inertia, friction, offsets, and their columns in regressors
    parameters  "constant": the robot's own values, through its base parameters where torques alone are asked for;
                "standard": its ten parameters of each link; "input": phi (10 n,) and, with drives, the drive parameters
                (4 drives + extras,) are further inputs; "base": beta is a further input
    base        the base set of "base" and of `regressor`; the structural one if left out
    place       link or frame of forward_kinematics and geometric_jacobian
    formulation of inverse_dynamics and inertia_matrix, with constant parameters: a name of equations/formulations.py,
                or "auto", which counts the operations of all and takes the cheapest; the default is nearly always that
    """
    if name not in EQUATIONS:
        raise unknown_name("equation", name, EQUATIONS)
    entry = EQUATIONS[name]
    asked = Request(drives, parameters, base, place)
    _require_usable(robot, entry, asked, name)
    trace = _start(robot, entry, asked)
    result = casadi.cse(entry.trace(trace) if formulation is None else _formulated(trace, name, asked, formulation))
    given = {} if entry.regressor_of else trace.parameters
    inputs = {key: trace[key] for key in entry.inputs} | given
    return casadi.Function(name, [*inputs.values()], [result], [*inputs], [entry.output])


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked of `equation`."""

    drives: bool
    parameters: str
    base: BaseParameters | None
    place: str | None


def _formulated(t: Trace, name: str, asked: Request, formulation: str) -> SX:
    """The equation by a formulation that was asked for by name."""
    if asked.parameters != "constant" or name not in ("inverse_dynamics", "inertia_matrix"):
        raise InputError(
            f"formulations are of inverse_dynamics and inertia_matrix with constant parameters, not of {name}"
        )
    robot = t.robot
    if name == "inverse_dynamics":
        tau = formulated(INVERSE_DYNAMICS, formulation, robot, t["q"], t["qd"], t["qdd"])
        return t.with_drives(tau, t["qd"], t["qdd"])
    M = formulated(INERTIA_MATRIX, formulation, robot, t["q"])
    return M + casadi.SX(casadi.DM(reflected_inertia(robot))) if t.drives else M


def _require_usable(robot: Robot, entry: Equation, asked: Request, name: str) -> None:
    require_choice(asked.parameters, get_args(Parameters), "parameters")
    if robot.loops and entry.needs != "nothing":
        raise RobotError(
            f"robot {robot.name!r} has closed loops ({', '.join(loop.name for loop in robot.loops)}); "
            f"{name} is an equation of open trees",
            hint="compile_model takes robots with parallelograms, loop_dynamics any single loop",
        )
    if asked.drives and not (robot.drives or robot.extras):
        raise MissingPhysicsError(
            f"robot {robot.name!r} states no drives, but drives=True (--drives) asks for their torques",
            hint="add [[drive]] tables to the robot file, or leave drives out",
        )
    if (asked.place is None) == (name in PLACED):
        raise InputError(f"{name} {'needs' if asked.place is None else 'takes no'} place (the name of a link or frame)")
    if asked.base is not None and not same_mechanism(asked.base.robot, robot):
        raise InputError(
            f"the base set is of {asked.base.robot.name!r}, whose joints, gears or gravity differ from {robot.name!r}'s"
        )
    if asked.parameters == "base" and entry.needs == "bodies":
        raise InputError(f"{name} depends on more than the base parameters; use parameters='input'")
    if asked.base is not None and asked.base.drives != asked.drives:
        raise InputError(
            f"the base set was made with drives={asked.base.drives}, but drives={asked.drives} is asked for"
        )


def _start(robot: Robot, entry: Equation, asked: Request) -> Trace:
    n = robot.joint_count
    shapes = {"wrenches": (n, 6), "dt": (1, 1)}
    symbols = {name: casadi.SX.sym(name, *shapes.get(name, (n, 1))) for name in entry.inputs}
    place = asked.place or ""
    if entry.needs == "nothing":
        return Trace(robot, cache(lambda: kinematic_chain(robot)), None, symbols, {}, False, None, place)
    if entry.regressor_of == "beta" or (asked.parameters == "base" and not entry.regressor_of):
        beta, phi, drive = _base_symbols(robot, asked)
        return Trace(
            robot, cache(lambda: symbolic_chain(robot, phi)), None, symbols, {"beta": beta}, asked.drives, drive, place
        )
    if asked.parameters == "input" or entry.regressor_of == "phi":
        phi = casadi.SX.sym("phi", n * PARAMETERS_PER_LINK)
        given = {"phi": phi}
        if asked.drives:
            given["drive_parameters"] = casadi.SX.sym("drive", len(drive_parameters(robot)))
        drive = given.get("drive_parameters")
        return Trace(robot, cache(lambda: symbolic_chain(robot, phi)), None, symbols, given, asked.drives, drive, place)
    reduced = entry.needs == "torques" and asked.parameters == "constant"
    make = cache(lambda: reduced_chain(robot) if reduced else standard_chain(robot))
    return Trace(robot, make, lean_chain(robot) if reduced else None, symbols, {}, asked.drives, None, place)


def _base_symbols(robot: Robot, asked: Request) -> tuple[SX, SX, SX | None]:
    """beta, and the standard and drive parameters that have these base values."""
    base = structural_base(robot, drives=asked.drives) if asked.base is None else asked.base
    beta = casadi.SX.sym("beta", base.count)
    everything = casadi.densify(constant(base.embedding) @ beta)
    links = robot.joint_count * PARAMETERS_PER_LINK
    return beta, everything[:links], everything[links:] if asked.drives else None
