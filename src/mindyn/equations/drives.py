"""Drives: rotor inertia, friction and offsets, seen from the joints.

q_motor = G q, tau_joint = G^T tau_motor; rotor inertia reflects as G^T diag(I_m) G. Friction and offset act on the
motor's motion G qd or on the joint's own, as each drive states.
"""

from __future__ import annotations

import casadi

from mindyn.equations.chain import SX, constant
from mindyn.notation import DRIVE_PARAMETERS
from mindyn.robots.drive_matrices import drive_parameters, friction_matrix, gear_matrix
from mindyn.robots.robot import Robot


def drive_torques(robot: Robot, qd: SX, qdd: SX, parameters: SX | None = None) -> SX:
    """Torques (n, 1) at the joints that the drives themselves take; `parameters` (4 drives,) as symbols."""
    G, F = constant(gear_matrix(robot)), constant(friction_matrix(robot))
    if parameters is None:
        parameters = constant(drive_parameters(robot))
    inertia, viscous, coulomb, offset = (casadi.densify(parameters[k :: len(DRIVE_PARAMETERS)]) for k in range(4))
    speed = casadi.densify(F @ qd)
    friction = viscous * speed + coulomb * casadi.sign(speed) + offset
    return G.T @ (inertia * casadi.densify(G @ qdd)) + F.T @ friction
