"""Inverse dynamics with the fewest operations.

Symbols: w angular velocity; Omega = [wd] + [w][w]; Sigma second moments about the origin. The moment of a link's
inertia forces is the vector of the skew-symmetric matrix Omega Sigma - (Omega Sigma)^T. The third column of Omega
satisfies Omega_i e3 = R_i^T Omega_p z_i, which does not contain the motion of joint i [Lin 1995, eq. 30]. If the next
axis is parallel or perpendicular, this formula replaces the rotation of wd. The angles of consecutive parallel joints
are added before the rotation.

The tensor diag(1, 1, 0) about a revolute axis is the same for every joint angle. Any multiple of this tensor may
therefore be moved from a link's inertia tensor to its parent link. In the second moments Sigma = tr(J)/2 E - J, this
tensor is Sigma_33, which is therefore zero in the constants of a link. The last frames are rotated, and a length of the
robot is the length unit; both create zeros or ones.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import lru_cache
from math import atan2
from typing import Literal

import casadi
import numpy as np

from mindyn.equations.chain import SX, Chain, JointPlacement, constant, count_instructions, cross_matrix
from mindyn.equations.external_inputs import NO_EXTERNAL_INPUTS, ExternalInputs
from mindyn.equations.forward_motion import base_frame_motion, omega_matrix
from mindyn.equations.newton_euler import Wrench, project_on_axis, subtract_external
from mindyn.foundation.algebra.inertia import tensor_from_entries, transform_phi
from mindyn.foundation.algebra.poses import Pose
from mindyn.foundation.algebra.rotations import ROTATION_ROUNDING, rot_z
from mindyn.foundation.algebra.values import Array
from mindyn.parameters.reduced import reduced_parameters, reduced_parameters_on_moving_root
from mindyn.robots.joint_frames import Step, WorkingFrames, working_frames
from mindyn.robots.robot import Robot

PRODUCT_ROUNDING = 64 * float(np.finfo(float).eps)
SPIN = np.diag([1.0, 1.0, 0.0])


@dataclass(frozen=True, slots=True)
class FrameMotion:
    """Motion of a frame, with components in this frame.

    w, wd     (3, 1) angular velocity and acceleration
    omega     (3, 3) Omega
    a         (3, 1) acceleration of the origin minus gravity
    anchor    start of a parallel next joint: w and third column of Omega before any rotation about z, the angle so far,
              and the sum of joint speeds; None if the frame is not reached by a rotation about z
    """

    w: SX
    wd: SX
    omega: SX
    a: SX
    anchor: Anchor | None


@dataclass(frozen=True, slots=True)
class Anchor:
    """Vectors of the frame before a series of parallel joints, and the sum of the joint angles since then."""

    w: SX
    column: SX
    angle: SX


@dataclass(frozen=True, slots=True)
class LeanChain:
    """A robot's own base values, prepared for the lean recursion; `length` is its unit of length in m."""

    chain: Chain
    links: tuple[LeanLink, ...]
    length: float = 1.0


@lru_cache(maxsize=16)
def lean_chain(robot: Robot) -> LeanChain:
    """Return the chain with the fewest operations; both possible positions of prismatic axes are tried."""
    ways: tuple[Literal["free", "source"], ...] = ("free", "source")
    slides = ways if any(joint.kind == "prismatic" for joint in robot.joints) else ways[:1]
    candidates = [_prepare_chain(robot, working_frames(robot, slides=way)) for way in slides]
    return min(candidates, key=_size) if len(candidates) > 1 else candidates[0]


def lean_chain_on_moving_root(robot: Robot) -> LeanChain:
    """Return the chain for a moving root. The first links then have more parameters, and lengths stay in m."""
    frames = working_frames(robot)
    frames, phis = turn_last_frames(frames, reduced_parameters_on_moving_root(robot, frames))
    return LeanChain(Chain(robot, frames, ()), lean_links(phis, frames.steps))


def _prepare_chain(robot: Robot, frames: WorkingFrames) -> LeanChain:
    phis = reduced_parameters(robot, frames)
    frames, phis = turn_last_frames(frames, phis)
    frames, phis, length = scale_length_unit(frames, phis)
    return LeanChain(Chain(robot, frames, ()), lean_links(phis, frames.steps), length)


def _size(lean: LeanChain) -> int:
    q, qd, qdd = (casadi.SX.sym(name, len(lean.chain.parents)) for name in ("q", "qd", "qdd"))
    return count_instructions(casadi.cse(lean_inverse_dynamics(lean, q, qd, qdd)))


def lean_inverse_dynamics(lean: LeanChain, q: SX, qd: SX, qdd: SX, outside: ExternalInputs = NO_EXTERNAL_INPUTS) -> SX:
    """Return joint torques tau (n, 1); a moving root needs `lean_chain_on_moving_root`."""
    chain = lean.chain
    joints = chain.at(q)
    first = base_frame_motion(chain, outside.root)
    motions = lean_motion(chain, joints, q, qd, qdd, FrameMotion(first.w, first.wd, first.omega, first.a, None))
    loads = [lean_wrench(link, motion) for link, motion in zip(lean.links, motions, strict=True)]
    if (wrenches := outside.wrenches(len(chain.parents))) is not None:
        loads = subtract_external(chain, loads, wrenches, lean.length)
    for i in reversed(range(len(chain.parents))):
        if chain.parents[i] >= 0:
            loads[chain.parents[i]] += _to_parent(joints[i], loads[i])
    return casadi.vertcat(*(project_on_axis(joint, load) for joint, load in zip(joints, loads, strict=True)))


def _split_translation(joint: JointPlacement) -> tuple[SX, SX]:
    """Return the step's translation perpendicular to the joint axis, in the parent frame, and d along it."""
    z = constant(joint.step.rotation[:, 2])
    d = z.T @ joint.translation
    return casadi.sparsify(joint.translation - z * d), d


def _to_parent(joint: JointPlacement, wrench: Wrench) -> Wrench:
    """Return the same wrench at the parent's origin; the offset along z is applied before the rotation."""
    across, d = _split_translation(joint)
    f = casadi.densify(wrench.force)
    force = joint.to_parent(f)
    moment = wrench.moment + casadi.vertcat(-d * f[1], d * f[0], 0)
    return Wrench(joint.to_parent(moment) + cross_matrix(across) @ force, force)


def lean_motion(
    chain: Chain, joints: tuple[JointPlacement, ...], q: SX, qd: SX, qdd: SX, root: FrameMotion
) -> list[FrameMotion]:
    """Return the motion of every frame, from the root outwards."""
    motions: list[FrameMotion] = []
    for i, joint in enumerate(joints):
        before = root if chain.parents[i] < 0 else motions[chain.parents[i]]
        across, d = _split_translation(joint)
        a = joint.to_child(before.a + before.omega @ across)
        if joint.step.kind == "prismatic":
            motion = _slide(joint, before, a, qd[i], qdd[i])
        elif _is_signed_permutation(joint.step.rotation):
            motion = _turn(joint, before, a, q[i] + joint.step.offset, qd[i], qdd[i])
        else:
            motion = _general_turn(joint, before, a, qd[i], qdd[i])
        motions.append(replace(motion, a=motion.a + motion.omega[:, 2] * d))
    return motions


def _is_signed_permutation(R: np.ndarray) -> bool:
    """Return whether a rotation only exchanges axes and signs, so that applying it is free."""
    return bool(np.isin(np.abs(R), (0.0, 1.0)).all())


def _slide(joint: JointPlacement, before: FrameMotion, a: SX, qd: SX, qdd: SX) -> FrameMotion:
    R = constant(joint.step.rotation)
    w = casadi.densify(R.T @ before.w)
    twice = 2 * qd
    along = casadi.vertcat(twice * w[1], -(twice * w[0]), qdd)
    return FrameMotion(w, R.T @ before.wd, R.T @ before.omega @ R, a + along, None)


def _rotate_back(c: SX, s: SX, v: SX) -> SX:
    """Return Rz(angle)^T v."""
    v = casadi.densify(v)
    return casadi.vertcat(c * v[0] + s * v[1], c * v[1] - s * v[0], v[2])


def _turn(joint: JointPlacement, before: FrameMotion, a: SX, angle: SX, qd: SX, qdd: SX) -> FrameMotion:
    """Move through a revolute joint with its axis parallel or perpendicular to the parent's axes."""
    R = joint.step.rotation
    if before.anchor is not None and (np.eye(3) == R).all():
        anchor = Anchor(before.anchor.w, before.anchor.column, before.anchor.angle + angle)
        c, s = casadi.cos(anchor.angle), casadi.sin(anchor.angle)
    else:
        anchor = Anchor(constant(R.T) @ before.w, constant(R.T) @ (before.omega @ constant(R[:, 2])), angle)
        c, s = joint.c, joint.s
    spun, column = _rotate_back(c, s, anchor.w), _rotate_back(c, s, anchor.column)
    x, y, z = spun[0], spun[1], (constant(R[:, 2]).T @ before.w) + qd
    wd_z = constant(R[:, 2]).T @ before.wd + qdd
    P, Q, third = column[0], column[1], column[2]
    xx, zz, xy, xz, yz = x * x, z * z, x * y, x * z, y * z
    omega = casadi.vertcat(
        casadi.horzcat(third + (xx - zz), xy - wd_z, P),
        casadi.horzcat(xy + wd_z, -(xx + zz), Q),
        casadi.horzcat(2 * xz - P, 2 * yz - Q, third),
    )
    wd = casadi.vertcat(yz - Q, P - xz, wd_z)
    return FrameMotion(casadi.vertcat(x, y, z), wd, omega, a, anchor)


def _general_turn(joint: JointPlacement, before: FrameMotion, a: SX, qd: SX, qdd: SX) -> FrameMotion:
    """Move through a revolute joint at any twist: rotate w and wd, and build Omega from them."""
    w_p, wd_p = joint.to_child(before.w), joint.to_child(before.wd)
    x, y, z = w_p[0], w_p[1], w_p[2] + qd
    wd = casadi.vertcat(wd_p[0] + y * qd, wd_p[1] - x * qd, wd_p[2] + qdd)
    w = casadi.vertcat(x, y, z)
    return FrameMotion(w, wd, omega_matrix(w @ w.T, wd), a, None)


def lean_wrench(link: LeanLink, motion: FrameMotion) -> Wrench:
    """Return force m a + Omega mc, and moment mc x a + the vector of Omega Sigma - (Omega Sigma)^T."""
    O = motion.omega  # noqa: E741
    moment = constant(link.moment)
    s11, s22, s33 = (float(x) for x in np.diag(link.second))
    s12, s13, s23 = float(link.second[0, 1]), float(link.second[0, 2]), float(link.second[1, 2])
    turning = casadi.vertcat(
        O[2, 1] * s22 + O[2, 0] * s12 - O[1, 0] * s13 + (O[2, 2] - O[1, 1]) * s23 - O[1, 2] * s33,
        (O[0, 0] - O[2, 2]) * s13 + O[0, 1] * s23 - O[2, 0] * s11 - O[2, 1] * s12 + O[0, 2] * s33,
        O[1, 0] * s11 - O[0, 1] * s22 + (O[1, 1] - O[0, 0]) * s12 + O[1, 2] * s13 - O[0, 2] * s23,
    )
    force = link.mass * motion.a + O @ moment
    return Wrench(cross_matrix(moment) @ motion.a + turning, force)


@dataclass(frozen=True, slots=True)
class LeanLink:
    """Constants of a link in its working frame: mass, first moment (3,), second moments Sigma (3, 3)."""

    mass: float
    moment: Array
    second: Array


def lean_links(phis: Array, steps: tuple[Step, ...]) -> tuple[LeanLink, ...]:
    """Return links of parameters (n, 10) that give the same torques, with Sigma_33 = 0 for every revolute joint."""
    tensors = [tensor_from_entries(phi[4:]) for phi in phis]
    sizes = [float(np.abs(J).max()) for J in tensors]  # scale of the sum in each link, and of its rounding
    for i in reversed(range(len(steps))):
        if steps[i].kind == "revolute":
            excess = (tensors[i][2, 2] - tensors[i][0, 0] - tensors[i][1, 1]) / 2
            tensors[i] = tensors[i] + excess * SPIN
            _move_to_revolute(tensors, sizes, steps, i, -excess * SPIN)
    return tuple(_make_lean_link(phi, J, size) for phi, J, size in zip(phis, tensors, sizes, strict=True))


def _move_to_revolute(tensors: list[Array], sizes: list[float], steps: tuple[Step, ...], i: int, tensor: Array) -> None:
    """Add a massless tensor to the nearest revolute link inwards; translations do not change it."""
    while True:
        tensor = steps[i].rotation @ tensor @ steps[i].rotation.T
        i = steps[i].parent
        if i < 0:
            return
        if steps[i].kind == "revolute":
            tensors[i] = tensors[i] + tensor
            sizes[i] = max(sizes[i], float(np.abs(tensor).max()))
            return


def _make_lean_link(phi: Array, J: Array, size: float) -> LeanLink:
    second = J.trace() / 2 * np.eye(3) - J
    return LeanLink(float(phi[0]), phi[1:4], _remove_noise(second, size))


def _remove_noise(values: Array, size: float) -> Array:
    return np.where(np.abs(values) <= PRODUCT_ROUNDING * size, 0.0, values)


def turn_last_frames(frames: WorkingFrames, phis: Array) -> tuple[WorkingFrames, Array]:
    """Rotate the frames of last revolute joints until the first moment lies on x, if the number of nonzero constants
    does not grow.
    """
    parents = {step.parent for step in frames.steps}
    steps, turned = list(frames.steps), phis.copy()
    for i, step in enumerate(frames.steps):
        if i in parents or step.kind == "prismatic" or phis[i, 1] == 0 or phis[i, 2] == 0:
            continue
        angle = atan2(phis[i, 2], phis[i, 1])
        turn = Pose(rot_z(np.cos(angle), np.sin(angle)))
        phi = transform_phi(turn.inverse(), phis[i])
        phi[2] = 0.0
        # A turn mixes first moments among themselves, and tensor entries.
        for kind in (slice(1, 4), slice(4, 10)):
            phi[kind] = _remove_noise(phi[kind], float(np.abs(phi[kind]).max()))
        if np.count_nonzero(phi) <= np.count_nonzero(phis[i]):
            turned[i] = phi
            steps[i] = replace(step, offset=step.offset + angle, link=turn.inverse() @ step.link)
    return replace(frames, steps=tuple(steps)), turned


def scale_length_unit(frames: WorkingFrames, phis: Array) -> tuple[WorkingFrames, Array, float]:
    """Return frames, parameters and the length unit L (m) of a robot without prismatic joints, in units that keep
    torques.

    The unit of length is L and the unit of mass 1/L^2; forces are then in N / L. L is the most frequent length of the
    robot, so that multiplications by it disappear.
    """
    lengths = np.array([abs(float(x)) for step in frames.steps for x in step.translation if x != 0])
    if not lengths.size or any(step.kind == "prismatic" for step in frames.steps):
        return frames, phis, 1.0
    # Equal lengths may differ by rounding and must still count as one length.
    unit = Counter(float(f"{x:.12g}") for x in lengths).most_common(1)[0][0]
    steps = tuple(replace(step, translation=_scale_translation(step.translation, unit)) for step in frames.steps)
    scale = np.array([unit**2, *[unit] * 3, *[1.0] * 6])
    return replace(frames, gravity=frames.gravity / unit, steps=steps), phis * scale, unit


def _scale_translation(translation: Array, unit: float) -> Array:
    scaled = translation / unit
    return np.where(np.abs(np.abs(scaled) - 1) < ROTATION_ROUNDING * 10, np.sign(scaled), scaled)
