"""Drives: rotor inertia, friction and offsets, seen from the joints.

q_motor = G q, tau_joint = G^T tau_motor; rotor inertia reflects as G^T diag(I_m) G. Friction and offset act on the
motor's motion G qd or on the joint's own, as each drive states.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import ceil, log
from typing import Final

import casadi
import numpy as np

from mindyn.equations.chain import SX, constant
from mindyn.errors import RobotError
from mindyn.notation import DRIVE_PARAMETERS
from mindyn.robots.drive_matrices import drive_parameters, friction_matrix, gear_matrix
from mindyn.robots.expressions import parse_formula
from mindyn.robots.parts import ExtraTorque
from mindyn.robots.robot import Robot

MAX_LOAD_CONTRACTION: Final = 0.8
"""Part of the load that its friction may take where accelerations are solved for."""
UNIT_ROUNDOFF: Final = 2.0**-53
LOAD_STATES: Final = 16
"""States of each size of the load in which friction is looked at."""
_FUNCTIONS: dict[str, Callable[..., SX]] = {
    **{name: getattr(casadi, name) for name in ("sin", "cos", "tan", "sqrt", "exp", "log", "tanh", "sign", "atan2")},
    "abs": casadi.fabs,
}
SYMBOLIC_FUNCTIONS = _FUNCTIONS
"""What the functions of a formula are over symbols."""


def drive_torques(robot: Robot, q: SX, qd: SX, qdd: SX, parameters: SX | None = None, rigid: SX | None = None) -> SX:
    """Torques (n, 1) that drives and extra torques take; `parameters` (4 drives + extras,) as symbols.

    rigid  (n, 1) torques that the links take: with those of the rotors, which cannot be told from them at the first
           joints, they are the load that an extra torque may depend on; refused by the name of that torque without
    """
    if parameters is None:
        parameters = constant(drive_parameters(robot))
    rotors = rotor_torques(robot, qdd, parameters)
    load = None if rigid is None else rigid + rotors
    return rotors + friction_torques(robot, q, qd, parameters, load)


def rotor_torques(robot: Robot, qdd: SX, parameters: SX) -> SX:
    """G^T diag(I_m) G qdd (n, 1)."""
    if not robot.drives:
        return casadi.SX(robot.joint_count, 1)
    G, (inertia, *_) = constant(gear_matrix(robot)), _columns(robot, parameters)
    return G.T @ (inertia * casadi.densify(G @ qdd))


def friction_torques(robot: Robot, q: SX, qd: SX, parameters: SX, load: SX | None) -> SX:
    """Torques (n, 1) of friction, offsets and extra torques under a load (n, 1)."""
    count = len(DRIVE_PARAMETERS) * len(robot.drives)
    motion = {"q": q, "qd": qd} | ({} if load is None else {"load": load})
    extra = extra_torques(robot, motion, casadi.densify(parameters[count:]))
    if not robot.drives:
        return extra
    F = constant(friction_matrix(robot))
    _, viscous, coulomb, offset = _columns(robot, parameters)
    speed = casadi.densify(F @ qd)
    return F.T @ (viscous * speed + coulomb * casadi.sign(speed) + offset) + extra


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
        i, formula = robot.joint_index(extra.joint), parse_formula(extra.formula)
        if formula.needs_load and "load" not in motion:
            raise load_friction_error(extra, "it is asked for without the torque of the links")
        own = {name: v[i] for name, v in motion.items()}
        tau[i] += coefficients[k] * formula.evaluate(numbered | own, _FUNCTIONS)
    return tau


def load_dependent_extras(robot: Robot) -> list[ExtraTorque]:
    """Extra torques that depend on the load of a joint."""
    return [extra for extra in robot.extras if parse_formula(extra.formula).needs_load]


def load_friction_error(extra: ExtraTorque, why: str) -> RobotError:
    """The error where a torque that depends on the load cannot take part."""
    return RobotError(
        f"the extra torque {extra.name!r} ({extra.formula}) depends on the load of its joint: {why}",
        hint="leave it out, or use inverse_dynamics, forward_dynamics or simulate, which know the load",
    )


def require_loads_known(robot: Robot) -> None:
    """Refuses extra torques that depend on the load of a dependent joint, or act on one.

    The torque that a primary joint gives is the one that links and rotors ask of it by virtual work, W^T tau. A
    dependent joint gives none: what its pin carries is a force of the loop, which no torque tells.
    """
    kept = set(robot.primary_names)
    for extra in load_dependent_extras(robot):
        numbered = [name.removeprefix("load") for name in parse_formula(extra.formula).variables if name[:4] == "load"]
        joints = [robot.joint_names[int(number) - 1] if number else extra.joint for number in numbered]
        if dependent := [name for name in (extra.joint, *joints) if name not in kept]:
            raise load_friction_error(
                extra, f"{dependent[0]!r} is a dependent joint, whose pin carries what no torque tells"
            )


def expand_loads(robot: Robot, load: SX) -> SX:
    """(n, 1) loads by joint of those (k, 1) of the primary joints; dependent joints have none that is a number."""
    found = casadi.SX.nan(robot.joint_count, 1)
    for j, name in enumerate(robot.primary_names):
        found[robot.joint_index(name)] = load[j]
    return found


def solve_load(robot: Robot, q: SX, qd: SX, tau: SX, parameters: SX | None = None, W: SX | None = None) -> SX:
    """The load (k, 1) with load + W^T friction(q, qd, load) = tau: a fixed point, by as many iterations as it needs.

    load -> tau - friction(load) contracts by r, the largest row sum of |d friction / d load|: the error after i
    iterations is r^i of the first. From `MAX_LOAD_CONTRACTION` on it is refused; at 1 one torque would belong to
    several motions.

    W  (n, k) with qd = W pd where joints are dependent; friction that depends on the load is of primary ones, which
       W leaves as they are, so that r is theirs
    """
    load = casadi.SX.sym("load", tau.shape[0])
    own = constant(drive_parameters(robot)) if parameters is None else parameters
    friction = friction_torques(robot, q, qd, own, expand_loads(robot, load))
    left = tau - (friction if W is None else W.T @ friction)
    rate = _contraction(robot)
    found = tau
    for _ in range(1 + ceil(log(UNIT_ROUNDOFF) / log(rate)) if rate > 0 else 1):
        found = casadi.substitute(left, load, found)
    return found


@cache
def _contraction(robot: Robot) -> float:
    """The largest row sum of |d friction / d load| found, loads and speeds of either sign and of many sizes."""
    n = robot.joint_count
    q, qd, load = (casadi.SX.sym(name, n) for name in ("q", "qd", "load"))
    friction = friction_torques(robot, q, qd, constant(drive_parameters(robot)), load)
    slopes = casadi.Function("slopes", [q, qd, load], [casadi.jacobian(friction, load)])
    rng = np.random.default_rng(0)
    largest = 0.0
    for size in np.geomspace(1e-3, 1e4, 8):
        for _ in range(LOAD_STATES):
            signs = rng.choice([-1.0, 1.0], (2, n))
            found = np.abs(np.array(slopes(rng.uniform(-2, 2, n), 10 * signs[0], size * signs[1]))).sum(axis=1)
            largest = max(largest, float(found.max()))
    if not largest < MAX_LOAD_CONTRACTION:
        raise load_friction_error(
            load_dependent_extras(robot)[0],
            f"friction takes {largest:.2g} of it, and from {MAX_LOAD_CONTRACTION:g} on accelerations are not solved for",
        )
    return largest
