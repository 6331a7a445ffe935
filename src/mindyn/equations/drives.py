"""Drives: rotor inertia, friction and offsets, as torques of the joints.

q_motor = G q, tau_joint = G^T tau_motor; rotor inertia is reflected as G^T diag(I_m) G. Friction and offset act on the
motor's motion G qd or on the joint's own motion, as each drive specifies.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import ceil, log
from typing import Final

import casadi
import numpy as np

from mindyn.equations.chain import SX, constant
from mindyn.foundation.errors import Code, MissingPhysicsError, RobotError
from mindyn.foundation.notation import DRIVE_PARAMETERS
from mindyn.robots.drive_matrices import drive_parameters, friction_matrix, gear_matrix
from mindyn.robots.expressions import parse_formula
from mindyn.robots.parts import ExtraTorque
from mindyn.robots.robot import Robot

MAX_LOAD_CONTRACTION: Final = 0.8
"""Largest fraction of the load that load-dependent friction may remove, if an equation solves for accelerations."""
UNIT_ROUNDOFF: Final = 2.0**-53
LOAD_STATES: Final = 16
"""Number of states for each magnitude of the load at which friction is evaluated."""
SYMBOLIC_FUNCTIONS: Final[dict[str, Callable[..., SX]]] = {
    **{name: getattr(casadi, name) for name in ("sin", "cos", "tan", "sqrt", "exp", "log", "tanh", "sign", "atan2")},
    "abs": casadi.fabs,
}
"""The functions of formulas over symbols."""


def drive_torques(robot: Robot, q: SX, qd: SX, qdd: SX, parameters: SX | None = None, rigid: SX | None = None) -> SX:
    """Return the torques (n, 1) of drives and extra torques; `parameters` (4 drives + extras,) are symbols.

    `rigid` (n, 1) are the torques of the links. The load that an extra torque may depend on is the sum of these torques
    and the torques of the rotors, because both cannot be separated at the first joints. Without `rigid`, an extra
    torque that depends on the load raises an error with its name.
    """
    if parameters is None:
        parameters = constant(drive_parameters(robot))
    rotors = rotor_torques(robot, qdd, parameters)
    load = None if rigid is None else rigid + rotors
    return rotors + friction_torques(robot, q, qd, parameters, load)


def rotor_torques(robot: Robot, qdd: SX, parameters: SX) -> SX:
    """Return G^T diag(I_m) G qdd (n, 1)."""
    if not robot.drives:
        return casadi.SX(len(robot.joints), 1)
    G, (inertia, *_) = constant(gear_matrix(robot)), _drive_parameters(robot, parameters)
    return G.T @ (inertia * casadi.densify(G @ qdd))


def friction_torques(robot: Robot, q: SX, qd: SX, parameters: SX, load: SX | None) -> SX:
    """Return the torques (n, 1) of friction, offsets and extra torques under a load (n, 1)."""
    count = len(DRIVE_PARAMETERS) * len(robot.drives)
    motion = {"q": q, "qd": qd} | ({} if load is None else {"load": load})
    extra = extra_torques(robot, motion, casadi.densify(parameters[count:]))
    if not robot.drives:
        return extra
    F = constant(friction_matrix(robot))
    _, viscous, coulomb, offset = _drive_parameters(robot, parameters)
    speed = casadi.densify(F @ qd)
    return F.T @ (viscous * speed + coulomb * casadi.sign(speed) + offset) + extra


def _drive_parameters(robot: Robot, parameters: SX) -> list[SX]:
    """Return rotor inertia, viscous, Coulomb and offset, each (drives, 1)."""
    per_drive, count = len(DRIVE_PARAMETERS), len(DRIVE_PARAMETERS) * len(robot.drives)
    return [casadi.densify(parameters[k:count:per_drive]) for k in range(per_drive)]


def rotor_energy(robot: Robot, qd: SX, parameters: SX | None = None) -> SX:
    """Return the kinetic energy of the rotors, sum of I_m (G qd)^2 / 2."""
    if not robot.drives:
        return casadi.SX(0)
    inertia, *_ = _drive_parameters(robot, constant(drive_parameters(robot)) if parameters is None else parameters)
    return casadi.sum1(inertia * casadi.densify(constant(gear_matrix(robot)) @ qd) ** 2) / 2


def extra_torques(robot: Robot, motion: dict[str, SX], coefficients: SX) -> SX:
    """Return the torques (n, 1) of the declared formulas."""
    tau = casadi.SX(len(robot.joints), 1)
    numbered = {f"{name}{i + 1}": v[i] for name, v in motion.items() for i in range(len(robot.joints))}
    for k, extra in enumerate(robot.extras):
        i, formula = robot.joint_index(extra.joint), parse_formula(extra.formula)
        if formula.needs_load and "load" not in motion:
            raise load_friction_error(extra, "the torque of the links is not available here")
        motion_of_joint = {name: v[i] for name, v in motion.items()}
        tau[i] += coefficients[k] * formula.evaluate(numbered | motion_of_joint, SYMBOLIC_FUNCTIONS)
    return tau


def require_drives(robot: Robot) -> None:
    """Raise an error if a robot has no drives and no extra torques."""
    if not (robot.drives or robot.extras):
        raise MissingPhysicsError(
            f"with_drives=True (--drives) needs drives, and robot {robot.name!r} has none",
            hint="omit it, or add [[drive]] tables to the robot file",
            subject=robot.name,
        )


def load_dependent_extras(robot: Robot) -> list[ExtraTorque]:
    """Return the extra torques that depend on the load of a joint."""
    return [extra for extra in robot.extras if parse_formula(extra.formula).needs_load]


def load_friction_error(extra: ExtraTorque, why: str) -> RobotError:
    """Return the error that says why an equation cannot include a load-dependent torque."""
    return RobotError(
        f"the extra torque {extra.name!r} ({extra.formula}) depends on the load of its joint: {why}",
        hint="remove it, or use inverse_dynamics, forward_dynamics or simulate, which compute the load",
        code=Code.UNSUPPORTED,
        subject=extra.name,
    )


def require_loads_known(robot: Robot) -> None:
    """Raise an error if an extra torque depends on the load of a dependent joint, or acts on a dependent joint.

    The load of a primary joint is the torque that links and rotors require by virtual work, W^T tau. A dependent joint
    has no such torque: its pin carries a force inside the loop, which joint torques do not determine.
    """
    kept = set(robot.primary_names)
    for extra in load_dependent_extras(robot):
        numbered = [name.removeprefix("load") for name in parse_formula(extra.formula).variables if name[:4] == "load"]
        joints = [robot.joint_names[int(number) - 1] if number else extra.joint for number in numbered]
        if dependent := [name for name in (extra.joint, *joints) if name not in kept]:
            raise load_friction_error(
                extra, f"joint torques do not determine the load of {dependent[0]!r}, a dependent joint"
            )


def expand_loads(robot: Robot, load: SX) -> SX:
    """Return the loads (n, 1) of all joints from the loads (k, 1) of the primary joints; dependent joints get NaN."""
    loads = casadi.SX.nan(len(robot.joints), 1)
    for j, name in enumerate(robot.primary_names):
        loads[robot.joint_index(name)] = load[j]
    return loads


def solve_load(robot: Robot, q: SX, qd: SX, tau: SX, parameters: SX | None = None, W: SX | None = None) -> SX:
    """Return the load (k, 1) with load + W^T friction(q, qd, load) = tau, by a fixed-point iteration.

    Each iteration load -> tau - friction(load) reduces the error by the factor r, the largest row sum of |d friction /
    d load|. r >= `MAX_LOAD_CONTRACTION` raises an error; at r = 1, one torque would belong to several motions.

    `W` (n, k) has qd = W pd if joints are dependent. Load-dependent friction acts only on primary joints, for which W
    is the identity, so that r is computed from the primary joints.
    """
    load = casadi.SX.sym("load", tau.shape[0])
    values = constant(drive_parameters(robot)) if parameters is None else parameters
    friction = friction_torques(robot, q, qd, values, expand_loads(robot, load))
    left = tau - (friction if W is None else W.T @ friction)
    rate = _contraction(robot)
    solution = tau
    for _ in range(1 + ceil(log(UNIT_ROUNDOFF) / log(rate)) if rate > 0 else 1):
        solution = casadi.substitute(left, load, solution)
    return solution


@cache
def _contraction(robot: Robot) -> float:
    """Return the largest row sum of |d friction / d load| over loads and speeds of both signs and many magnitudes."""
    n = len(robot.joints)
    q, qd, load = (casadi.SX.sym(name, n) for name in ("q", "qd", "load"))
    friction = friction_torques(robot, q, qd, constant(drive_parameters(robot)), load)
    slopes = casadi.Function("slopes", [q, qd, load], [casadi.jacobian(friction, load)])
    rng = np.random.default_rng(0)
    largest = 0.0
    for size in np.geomspace(1e-3, 1e4, 8):
        for _ in range(LOAD_STATES):
            signs = rng.choice([-1.0, 1.0], (2, n))
            row_sums = np.abs(np.array(slopes(rng.uniform(-2, 2, n), 10 * signs[0], size * signs[1]))).sum(axis=1)
            largest = max(largest, float(row_sums.max()))
    if not largest < MAX_LOAD_CONTRACTION:
        raise load_friction_error(
            load_dependent_extras(robot)[0],
            f"friction takes {largest:.2g} of it, and accelerations can be solved below {MAX_LOAD_CONTRACTION:g} only",
        )
    return largest
