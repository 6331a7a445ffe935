"""The inertia matrix by composite bodies, and quantities that follow from it: Coriolis matrix, energies, observer."""

from __future__ import annotations

import casadi

from mindyn.equations.chain import SX, Body, Chain, JointPlacement, constant, cross
from mindyn.equations.forward_motion import LinkMotion, spatial_velocities
from mindyn.equations.kinematics import frame_placements
from mindyn.equations.newton_euler import Wrench, carry_to_parent, project_on_axis


def inertia_matrix(chain: Chain, q: SX) -> SX:
    """Return M(q) (n, n).

    Column i are the torques that a unit acceleration of joint i needs, for the rigid bodies after this joint.
    """
    joints = chain.at(q)
    composites = composite_bodies(chain, joints)
    M = casadi.SX(len(chain.parents), len(chain.parents))
    for i, (joint, body) in enumerate(zip(joints, composites, strict=True)):
        wrench = unit_acceleration_wrench(joint, body)
        M[i, i] = project_on_axis(joint, wrench)
        k = i
        while chain.parents[k] >= 0:
            wrench = carry_to_parent(joints[k], wrench)
            k = chain.parents[k]
            M[i, k] = M[k, i] = project_on_axis(joints[k], wrench)
    return M


def composite_bodies(chain: Chain, joints: tuple[JointPlacement, ...]) -> list[Body]:
    """Combine each link with all links after it into one rigid body, in the frame of the link."""
    total = list(chain.bodies)
    for i in reversed(range(len(chain.parents))):
        parent = chain.parents[i]
        if parent >= 0:
            total[parent] = join_bodies(total[parent], move_to_parent(joints[i], total[i]))
    return total


def move_to_parent(joint: JointPlacement, body: Body) -> Body:
    """Return the body in the parent frame: J' = R J R^T + 2 (p.h) E - p h^T - h p^T + m ((p.p) E - p p^T), h = R mc."""
    p = casadi.densify(joint.translation)
    h = joint.to_parent(body.moment)
    # With e = h + m p / 2 the shift is 2 (p.e) E - p e^T - e p^T.
    e = h + body.mass * p / 2
    shift = 2 * casadi.dot(p, e) * casadi.SX.eye(3) - p @ e.T - e @ p.T
    return Body(body.mass, h + body.mass * p, joint.tensor_to_parent(body.tensor) + shift)


def join_bodies(a: Body, b: Body) -> Body:
    """Join two bodies to one."""
    return Body(a.mass + b.mass, a.moment + b.moment, a.tensor + b.tensor)


def unit_acceleration_wrench(joint: JointPlacement, body: Body) -> Wrench:
    """Return the wrench that accelerates a body by one unit about or along z of its frame."""
    if joint.step.kind == "prismatic":
        force = casadi.vertcat(0, 0, body.mass)
        return Wrench(casadi.vertcat(body.moment[1], -body.moment[0], 0), force)
    force = casadi.vertcat(-body.moment[1], body.moment[0], 0)
    return Wrench(body.tensor[:, 2], force)


def coriolis_matrix(velocity_torques: SX, qd: SX) -> SX:
    """Return C(q, qd) (n, n) from Christoffel's symbols: C qd = bias - gravity, and Mdot - 2 C is skew-symmetric.

    The velocity torques are c_i = sum Gamma_ijk qd_j qd_k with Gamma symmetric in j, k, so C = 1/2 dc/dqd.
    """
    return casadi.jacobian(velocity_torques, qd) / 2


def energy(chain: Chain, q: SX, qd: SX) -> SX:
    """Return kinetic and potential energy (2, 1), J; the potential is zero for a mass at the root frame's origin."""
    joints = chain.at(q)
    motions = spatial_velocities(chain, joints, qd)
    kinetic = sum(kinetic_energy(body, motion) for body, motion in zip(chain.bodies, motions, strict=True))
    potential = casadi.SX(0)
    g = constant(chain.frames.gravity)
    start = constant(chain.frames.root.rotation.T @ chain.frames.root.translation)
    for body, (R, p) in zip(chain.bodies, frame_placements(chain, joints), strict=True):
        potential -= body.mass * casadi.dot(g, start + p) + casadi.dot(R.T @ g, body.moment)
    return casadi.vertcat(kinetic, potential)


def kinetic_energy(body: Body, motion: LinkMotion) -> SX:
    """Return 1/2 m v.v + v.(w x mc) + 1/2 w.J w."""
    w, v = motion.w, motion.v
    linear = body.mass * casadi.dot(v, v) / 2 + casadi.dot(v, cross(w, body.moment))
    return linear + casadi.dot(w, body.tensor @ w) / 2


def observer_step(p: SX, drift: SX, tau: SX, state: SX, gain: SX, dt: SX) -> SX:
    """Return (2 n, 1): the external torque r = gain (p - state), and the next state [De Luca & Mattone 2003].

    `state` holds the integral of tau + drift + r and starts as p; r follows the external torque with time constant
    1/gain.
    """
    r = gain * (p - state)
    return casadi.vertcat(r, state + dt * (tau + drift + r))
