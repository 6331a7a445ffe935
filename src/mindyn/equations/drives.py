"""Drives: rotor inertia, friction and offsets, seen from the joints.

q_motor = G q, tau_joint = G^T tau_motor; rotor inertia reflects as G^T diag(I_m) G. Friction and offset act on the
motor's motion G qd or on the joint's own, as each drive states.
"""

from __future__ import annotations

from collections.abc import Callable

import casadi

from mindyn.equations.chain import SX, constant
from mindyn.notation import DRIVE_PARAMETERS
from mindyn.robots.drive_matrices import drive_parameters, friction_matrix, gear_matrix
from mindyn.robots.expressions import parse_formula
from mindyn.robots.robot import Robot

_FUNCTIONS: dict[str, Callable[..., SX]] = {
    **{name: getattr(casadi, name) for name in ("sin", "cos", "tan", "sqrt", "exp", "log", "tanh", "sign", "atan2")},
    "abs": casadi.fabs,
}


def drive_torques(robot: Robot, q: SX, qd: SX, qdd: SX, parameters: SX | None = None) -> SX:
    """Torques (n, 1) that drives and extra torques take; `parameters` (4 drives + extras,) as symbols."""
    if parameters is None:
        parameters = constant(drive_parameters(robot))
    count = len(DRIVE_PARAMETERS) * len(robot.drives)
    extra = extra_torques(robot, {"q": q, "qd": qd}, casadi.densify(parameters[count:]))
    if not robot.drives:
        return extra
    G, F = constant(gear_matrix(robot)), constant(friction_matrix(robot))
    inertia, viscous, coulomb, offset = _columns(robot, parameters)
    speed = casadi.densify(F @ qd)
    friction = viscous * speed + coulomb * casadi.sign(speed) + offset
    return G.T @ (inertia * casadi.densify(G @ qdd)) + F.T @ friction + extra


def _columns(robot: Robot, parameters: SX) -> list[SX]:
    """Rotor inertia, viscous, Coulomb and offset, each (drives, 1)."""
    per_drive, count = len(DRIVE_PARAMETERS), len(DRIVE_PARAMETERS) * len(robot.drives)
    return [casadi.densify(parameters[k:count:per_drive]) for k in range(per_drive)]


def rotor_energy(robot: Robot, qd: SX, parameters: SX | None = None) -> SX:
    """Kinetic energy of the rotors, sum of I_m (G qd)^2 / 2."""
    if not robot.drives:
        return casadi.SX(0)
    inertia, *_ = _columns(robot, constant(drive_parameters(robot)) if parameters is None else parameters)
    return casadi.sum1(inertia * casadi.densify(constant(gear_matrix(robot)) @ qd) ** 2) / 2


def extra_torques(robot: Robot, motion: dict[str, SX], coefficients: SX) -> SX:
    """Torques (n, 1) of the declared formulas."""
    tau = casadi.SX(robot.joint_count, 1)
    numbered = {f"{name}{i + 1}": v[i] for name, v in motion.items() for i in range(robot.joint_count)}
    for k, extra in enumerate(robot.extras):
        i = robot.joint_index(extra.joint)
        own = {name: v[i] for name, v in motion.items()}
        tau[i] += coefficients[k] * parse_formula(extra.formula).evaluate(numbered | own, _FUNCTIONS)
    return tau
