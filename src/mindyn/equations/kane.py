"""Inverse dynamics by Kane's equations [Angeles, Ma & Rojas 1988], in masses, mass centres and central tensors.

The generalized force of joint i is a sum over links j >= i: partial velocity times m_j p_j'', plus partial angular
velocity times h_j'. Computed from the last link inwards, the sum is a recursion [eq. 46, 49]. Two misprints are
corrected: p_i'' = Q^T (p_{i-1}'' + W_{i-1} (a_i - rho_{i-1})) + W_i rho_i has a plus where stage 2 has a minus, and the
sums of v_i and w_i start at j = i. The paper measures prismatic joints by b = -d. Here, as everywhere in mindyn, the
joint moves along +z, so that its force is e.v without the minus sign of the paper.

    p''   acceleration of the mass centre minus gravity         W     [wd] + [w][w]
    h'    rate of angular momentum about the mass centre        rho   from O_i to the mass centre
    u, v  m p'' of link i, and its sum over links i .. n         a_i   from O_{i-1} to O_i, Lin's s_i
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mindyn.equations.chain import SX
from mindyn.equations.dh_joints import (
    DhJoint,
    EndWrench,
    dh_parameters,
    end_wrench,
    omega,
    place_dh_joints,
    serial_dh,
    to_column,
    to_scalars,
    to_triple,
)
from mindyn.equations.external_inputs import NO_EXTERNAL_INPUTS, ExternalInputs, RootMotion
from mindyn.equations.scalar_vectors import ZERO, Line, Matrix, Scalar, Symmetric, Triple, cross, keep_value
from mindyn.foundation.algebra.inertia import mass_com_inertia
from mindyn.foundation.algebra.rotations import ROTATION_ROUNDING
from mindyn.foundation.algebra.values import Array
from mindyn.robots.robot import Robot


def kane_inverse_dynamics(robot: Robot, q: SX, qd: SX, qdd: SX, *, outside: ExternalInputs = NO_EXTERNAL_INPUTS) -> SX:
    """Return joint torques tau (n, 1) of a serial robot with its own parameters as constants."""
    dh = serial_dh(robot, "kane")
    joints = place_dh_joints(dh.rows, robot.joints, q)
    bodies = [central_body(phi) for phi in dh_parameters(robot, dh)]
    gravity = Triple(*(float(v) for v in dh.base.rotation.T @ robot.gravity))
    root = None if outside.root is None else outside.root.at(dh.base)
    moving = centre_motions(joints, bodies, gravity, to_scalars(qd), to_scalars(qdd), root=root)
    end = None if outside.tip_wrench is None else end_wrench(dh, outside.tip_wrench)
    return to_column(generalized_forces(joints, bodies, moving, end))


@dataclass(frozen=True, slots=True)
class CentralBody:
    """Mass, mass centre rho, and inertia tensor about the mass centre, in frame i."""

    mass: Scalar
    rho: Triple
    tensor: Symmetric


def central_body(phi: Array) -> CentralBody:
    """Return the body of ten standard parameters in its DH frame; a massless link keeps its tensor and has rho = 0."""
    mass, rho, J = mass_com_inertia(phi)
    # A difference that is only rounding becomes zero, and vanishes from the trace.
    J = np.where(np.abs(J) <= ROTATION_ROUNDING * np.abs(phi[4:]).max(), 0.0, J)
    tensor = Symmetric(*(float(J[i, j]) for i, j in ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))))
    return CentralBody(mass, Triple(*(float(v) for v in rho)), tensor)


@dataclass(frozen=True, slots=True)
class CentreMotion:
    """w, wd and W of link i, and p'' of its mass centre, in frame i."""

    w: Triple
    wd: Triple
    W: Matrix
    p: Triple


def centre_motions(
    joints: Sequence[DhJoint],
    bodies: Sequence[CentralBody],
    gravity: Triple,
    qd: Sequence[Scalar],
    qdd: Sequence[Scalar],
    line: Line = keep_value,
    root: RootMotion | None = None,
) -> list[CentreMotion]:
    """Compute stage 2: motion of every link from the base outwards [eq. 10-20, corrected]; `root` has w_0, wd_0 and
    a_0.
    """
    before, rho = (
        CentreMotion(ZERO, ZERO, Matrix(ZERO, ZERO, ZERO), -gravity),
        ZERO,
    )
    if root is not None:
        w, wd = to_triple(root.w), to_triple(root.wd)
        before = CentreMotion(w, wd, omega(w, wd)[0], to_triple(root.a) - gravity)
    motions: list[CentreMotion] = []
    for i, (joint, body) in enumerate(zip(joints, bodies, strict=True)):
        w, wd = joint.to_child(before.w), joint.to_child(before.wd)
        if not joint.slides:
            wd = wd + Triple(w.y * qd[i], -(w.x * qd[i]), qdd[i])
            w = w + Triple(0.0, 0.0, qd[i])
        w, wd = line("w", w), line("wd", wd)
        W = line("W", omega(w, wd)[0])
        arm = line("a - rho", joint.s_before - rho) if motions else joint.s_before
        p = joint.to_child(before.p + before.W @ arm) + W @ body.rho
        if joint.slides:
            twice = 2.0 * qd[i]
            p = p + Triple(twice * w.y, -(twice * w.x), qdd[i])
        motions.append(CentreMotion(w, wd, W, line("p", p)))
        before, rho = line("motion before", motions[-1]), body.rho
    return motions


def generalized_forces(
    joints: Sequence[DhJoint],
    bodies: Sequence[CentralBody],
    motions: Sequence[CentreMotion],
    end: EndWrench | None = None,
    line: Line = keep_value,
) -> list[Scalar]:
    """Compute stage 3: the torques from the last joint to the first [eq. 42-49, sums from j = i]."""
    v, w = ZERO, ZERO  # in frame i, sums over later links
    lever = ZERO  # a_{i+1} x v_{i+1}
    if end is not None:
        v, w = -end.force, -(end.moment + cross(end.arm, end.force))
    torques: list[Scalar] = [0.0] * len(joints)
    for i in reversed(range(len(joints))):
        joint, body, motion = joints[i], bodies[i], motions[i]
        rate = line("h", body.tensor @ motion.wd + cross(motion.w, body.tensor @ motion.w))
        u = line("u", body.mass * motion.p)
        k = line("k", rate + cross(body.rho, u) + lever)
        w = line("w sum", w + k)
        v = line("v sum", v + u)
        torques[i] = v.z if joint.slides else w.z
        if i > 0:
            v = line("Q v", joint.to_parent(v))
            w = line("Q w", joint.to_parent(w))
            lever = cross(joint.s_before, v)
    return torques
