"""Every equation by name, as a `casadi.Function` of a robot: the one list that kernels, C and CUDA are made from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import casadi

from mindyn.equations.chain import SX, Chain, chain_of, kinematic_chain_of
from mindyn.equations.drives import drive_torques
from mindyn.equations.energy import energy
from mindyn.equations.forward_dynamics import forward_dynamics
from mindyn.equations.inertia_matrix import coriolis_matrix, inertia_matrix
from mindyn.equations.kinematics import forward_kinematics, geometric_jacobian
from mindyn.equations.newton_euler import bias_torques, gravity_torques, inverse_dynamics
from mindyn.errors import InputError, MissingPhysicsError, RobotError, unknown_name
from mindyn.notation import DRIVE_PARAMETERS, PARAMETERS_PER_LINK
from mindyn.robots.drive_matrices import reflected_inertia
from mindyn.robots.robot import Robot

Function = Any
"""casadi.Function."""

Parameters = Literal["constant", "input"]


@dataclass(frozen=True, slots=True)
class Trace:
    """What an equation is traced from: the chain, its symbols by name, and whether drives take part.

    drive_parameters  (4 drives,) symbols, or None for the robot's own values
    """

    chain: Chain
    symbols: dict[str, SX]
    drives: bool
    drive_parameters: SX | None
    place: str

    def __getitem__(self, name: str) -> SX:
        return self.symbols[name]

    def with_drives(self, tau: SX, qd: SX, qdd: SX) -> SX:
        """Tau, plus what the drives take where they take part."""
        if not self.drives:
            return tau
        return tau + drive_torques(self.chain.robot, qd, qdd, self.drive_parameters)

    @property
    def rest(self) -> SX:
        """Zero joint velocity or acceleration."""
        return casadi.SX(self.chain.joint_count, 1)


@dataclass(frozen=True, slots=True)
class Equation:
    """An equation: names of its inputs and its output, how to trace it, and what it says."""

    inputs: tuple[str, ...]
    output: str
    trace: Callable[[Trace], SX]
    meaning: str
    needs_parameters: bool = True
    linear_in_parameters: str = ""


def _inverse_dynamics(t: Trace) -> SX:
    tau = inverse_dynamics(t.chain, t["q"], t["qd"], t["qdd"])
    return t.with_drives(tau, t["qd"], t["qdd"])


def _inverse_dynamics_with_wrenches(t: Trace) -> SX:
    tau = inverse_dynamics(t.chain, t["q"], t["qd"], t["qdd"], t["wrenches"])
    return t.with_drives(tau, t["qd"], t["qdd"])


def _inertia_matrix(t: Trace) -> SX:
    M = inertia_matrix(t.chain, t["q"])
    if not t.drives:
        return M
    if t.drive_parameters is None:
        return M + casadi.SX(casadi.DM(reflected_inertia(t.chain.robot)))
    qdd = casadi.SX.sym("qdd", t.chain.joint_count)
    return M + casadi.jacobian(drive_torques(t.chain.robot, t.rest, qdd, t.drive_parameters), qdd)


def _forward_dynamics(t: Trace) -> SX:
    if not t.drives:
        return forward_dynamics(t.chain, t["q"], t["qd"], t["tau"])
    left = t["tau"] - drive_torques(t.chain.robot, t["qd"], t.rest, t.drive_parameters)
    qdd = casadi.SX.sym("qdd", t.chain.joint_count)
    added = casadi.jacobian(drive_torques(t.chain.robot, t.rest, qdd, t.drive_parameters), qdd)
    return forward_dynamics(t.chain, t["q"], t["qd"], left, added)


def _standard_regressor(t: Trace) -> SX:
    return casadi.jacobian(_inverse_dynamics(t), _all_parameters(t))


def _energy_regressor(t: Trace) -> SX:
    return casadi.jacobian(energy(t.chain, t["q"], t["qd"]), t.chain.phi)


def _all_parameters(t: Trace) -> SX:
    return t.chain.phi if t.drive_parameters is None else casadi.vertcat(t.chain.phi, t.drive_parameters)


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
        lambda t: t.with_drives(bias_torques(t.chain, t["q"], t["qd"]), t["qd"], t.rest),
        "torques at qdd = 0: C(q, qd) qd + G(q)",
    ),
    "gravity": Equation(("q",), "tau", lambda t: gravity_torques(t.chain, t["q"]), "torques G(q) that hold the robot"),
    "coriolis": Equation(
        ("q", "qd"),
        "C",
        lambda t: coriolis_matrix(t.chain, t["q"], t["qd"]),
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
        needs_parameters=False,
    ),
    "geometric_jacobian": Equation(
        ("q",),
        "J",
        lambda t: geometric_jacobian(t.chain, t["q"], t.place),
        "matrix J with (w, v) = J qd of a link or frame, in root components",
        needs_parameters=False,
    ),
    "standard_regressor": Equation(
        ("q", "qd", "qdd"),
        "Y",
        _standard_regressor,
        "matrix Y with tau = Y phi, phi the standard parameters",
        linear_in_parameters="tau",
    ),
    "energy": Equation(
        ("q", "qd"),
        "E",
        lambda t: energy(t.chain, t["q"], t["qd"]),
        "kinetic and potential energy",
    ),
    "energy_regressor": Equation(
        ("q", "qd"),
        "Y",
        _energy_regressor,
        "matrix Y with (kinetic, potential energy) = Y phi",
        linear_in_parameters="E",
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
    place: str | None = None,
) -> Function:
    """The `casadi.Function` of an equation for a robot.

    drives      the drives take part: rotor inertia, friction, offsets, and their columns in the regressor
    parameters  "constant": the robot's own values; "input": phi (10 n,) and, with drives, the drive parameters
                (4 drives,) are further inputs
    place       link or frame of forward_kinematics and geometric_jacobian
    """
    if name not in EQUATIONS:
        raise unknown_name("equation", name, EQUATIONS)
    entry = EQUATIONS[name]
    _require_usable(robot, entry, drives=drives, parameters=parameters, place=place, name=name)
    symbolic = parameters == "input" or bool(entry.linear_in_parameters)
    trace = _start(robot, entry, drives=drives, symbolic=symbolic, place=place or "")
    result = entry.trace(trace)
    inputs, names = [trace[k] for k in entry.inputs], list(entry.inputs)
    if parameters == "input" and entry.needs_parameters and not entry.linear_in_parameters:
        inputs.append(trace.chain.phi)
        names.append("phi")
        if trace.drive_parameters is not None:
            inputs.append(trace.drive_parameters)
            names.append("drive_parameters")
    return casadi.Function(name, [*inputs], [casadi.cse(result)], names, [entry.output])


def _require_usable(
    robot: Robot, entry: Equation, *, drives: bool, parameters: str, place: str | None, name: str
) -> None:
    if parameters not in ("constant", "input"):
        raise InputError(f"parameters must be 'constant' or 'input', got {parameters!r}")
    if robot.loops and entry.needs_parameters:
        raise RobotError(
            f"robot {robot.name!r} has closed loops ({', '.join(loop.name for loop in robot.loops)}); "
            f"{name} is an equation of open trees"
        )
    if drives and not robot.drives:
        raise MissingPhysicsError(
            f"robot {robot.name!r} states no drives, but drives=True asks for their torques",
            hint="add [[drive]] tables to the robot file, or leave drives=False",
        )
    if (place is None) == (name in PLACED):
        raise InputError(f"{name} {'needs' if place is None else 'takes no'} place (the name of a link or frame)")


def _start(robot: Robot, entry: Equation, *, drives: bool, symbolic: bool, place: str) -> Trace:
    n = robot.joint_count
    shapes = {"wrenches": (n, 6)}
    symbols = {name: casadi.SX.sym(name, *shapes.get(name, (n, 1))) for name in entry.inputs}
    if not entry.needs_parameters:
        return Trace(kinematic_chain_of(robot), symbols, False, None, place)
    phi = casadi.SX.sym("phi", n * PARAMETERS_PER_LINK) if symbolic else None
    drive = casadi.SX.sym("drive", len(robot.drives) * len(DRIVE_PARAMETERS)) if symbolic and drives else None
    return Trace(chain_of(robot, phi), symbols, drives, drive, place)
