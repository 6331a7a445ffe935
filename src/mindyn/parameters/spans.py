"""Which motions a link can make, and what of its parameters they can show: the conditions behind structural base sets.

The energy of link i is a linear form in its ten parameters. Remove a last link: its joint's speed qd_i appears in the
energy as a polynomial, its position q_i as a trigonometric polynomial (revolute) or polynomial (prismatic), and neither
appears elsewhere. A change d of its parameters is unseen at joint i iff

  (a) z.I(d) z = 0                         the coefficient of qd_i^2,
  (b) z.I(d) v = 0 for all v in V          the coefficient of qd_i; V the span of velocities that come from the parent,
  (c) s(D^k d) = 0 for all s in S, k >= 1  the energy does not depend on q_i; S the span of energy forms that the parent
                                           gives frame i, D the generator of the joint's motion on parameters;

and is then the same as the change of the parent's parameters that it makes at q_i = 0. What reaches the root is never
seen. V and S pass outwards, parameter changes inwards, so the count is exact and the work linear in the links.
The idea of velocity spans is that of [Wensing, Niemeyer & Slotine 2024]; forms of energy make gravity, its absence,
rotors and translational joints one case. Rotor inertia h adds h (G_k qd)^2 / 2: V is extended by the joint
speeds. A torque offset adds a term linear in q, which on a slide looks like a weight: S is extended by the constant.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mindyn.algebra.inertia import phi_map, spatial_inertia
from mindyn.algebra.poses import IDENTITY, Pose
from mindyn.algebra.rotations import skew
from mindyn.algebra.values import Array
from mindyn.notation import PARAMETERS_PER_LINK
from mindyn.robots.robot import Robot

RANK = 1e-9
"""Singular values below this share of the largest belong to directions that the geometry excludes."""

NEAR = 1e-4
"""Singular values between RANK and this share mark geometry that is nearly, but not quite, degenerate."""


UNIT_INERTIAS = np.stack([spatial_inertia(unit) for unit in np.eye(PARAMETERS_PER_LINK)])
"""(10, 6, 6): spatial inertia of each unit parameter."""


@dataclass(frozen=True, slots=True)
class Spans:
    """What a frame can experience.

    velocities  (6 + n, a) basis of the span of (w, v, qd): motion of the frame, and the joint speeds
    forms       (11, b) basis of the span of (energy form, 1): energy = form . phi; the constant takes part because a
                torque offset on a slide acts like a weight
    """

    velocities: Array
    forms: Array


@dataclass(frozen=True, slots=True)
class Seen:
    """What joint i sees: rows of conditions on its link's parameters (m, 10) and on the drives' (m, 2 drives).

    drives  columns: all rotor inertias, then all torque offsets
    near    singular values, relative, that lie between RANK and NEAR
    """

    link: Array
    drives: Array
    near: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class DriveShares:
    """Gear matrix G and friction matrix F (drives, n) of the drives that take part."""

    gears: Array
    friction: Array


def orthonormal(columns: Array, near: list[float] | None = None) -> Array:
    """An orthonormal basis of the span of columns of like size; directions below RANK are no part of it."""
    largest = float(np.linalg.norm(columns, axis=0).max(initial=0.0))
    if largest <= 1e-12:
        return columns[:, :0]
    U, s, _ = np.linalg.svd(columns / largest, full_matrices=False)
    if near is not None:
        near.extend(float(x) for x in s / s[0] if RANK < x < NEAR)
    return np.asarray(U[:, s > RANK * s[0]])


def closed_under(generator: Array, columns: Array, near: list[float]) -> Array:
    """The smallest subspace that holds the columns and that the motion exp(generator q) maps to itself."""
    basis = orthonormal(columns, near)
    for _ in range(generator.shape[0]):
        grown = orthonormal(np.hstack([basis, generator @ basis]), near)
        if grown.shape[1] == basis.shape[1]:
            break
        basis = grown
    return basis


def velocity_map(X_ab: Pose) -> Array:
    """(6, 6) that takes (w, v) of frame a to frame b, fixed to the same body."""
    R, p = X_ab.rotation, X_ab.translation
    return np.block([[R.T, np.zeros((3, 3))], [-R.T @ skew(p), R.T]])


def twist_generator(axis: Array) -> Array:
    """Derivative by q, at q = 0, of `velocity_map` of a joint's motion along the twist `axis` (6,)."""
    return -np.block([[skew(axis[:3]), np.zeros((3, 3))], [skew(axis[3:]), skew(axis[:3])]])


def parameter_generator(axis: Array) -> Array:
    """D (10, 10): derivative by q, at q = 0, of the map of parameters from the moved frame to the one before it."""
    change = _momentum_generator(axis) @ UNIT_INERTIAS
    return np.stack([_parameters_of(one + one.T) for one in change], axis=1)


def _momentum_generator(axis: Array) -> Array:
    """Derivative by q of the transform of wrenches (moment, force) into the frame before the joint."""
    w, v = skew(axis[:3]), skew(axis[3:])
    return np.block([[w, v], [np.zeros((3, 3)), w]])


def _parameters_of(spatial: Array) -> Array:
    """The ten parameters of a 6x6 spatial inertia."""
    J, C = spatial[:3, :3], spatial[:3, 3:]
    tensor = [J[0, 0], J[0, 1], J[1, 1], J[0, 2], J[1, 2], J[2, 2]]
    return np.array([spatial[3, 3], C[2, 1], C[0, 2], C[1, 0], *tensor])


def bilinear_forms(left: Array, right: Array) -> Array:
    """(10, a): forms d -> left . I(d) right[:, k]."""
    return np.asarray(left @ UNIT_INERTIAS @ right)


def _length_scale(robot: Robot) -> float:
    """The robot's own unit of length, so that conditions on moments of every order are of one size."""
    lengths = [np.linalg.norm(X.translation) for joint in robot.joints for X in (joint.origin, joint.tip)]
    return float(max(lengths)) or 1.0


def _scaled(pose: Pose, length: float) -> Pose:
    return Pose(pose.rotation, pose.translation / length)


def seen_by_joints(robot: Robot, shares: DriveShares) -> tuple[list[Seen], list[Array]]:
    """What every joint sees, in joint frames and units of the robot's own length; and maps of source parameters."""
    length = _length_scale(robot)
    n = robot.joint_count
    spans: dict[int, Spans] = {-1: _root_spans(robot, n, length)}
    tips: dict[int, Pose] = {-1: IDENTITY}
    seen: list[Seen] = []
    unit = np.where([joint.kind == "prismatic" for joint in robot.joints], length, 1.0)
    scaled = DriveShares(shares.gears * unit, shares.friction * unit)
    for i, joint in enumerate(robot.joints):
        parent = robot.parents[i]
        near: list[float] = []
        axis = np.zeros(6)
        axis[slice(0, 3) if joint.kind == "revolute" else slice(3, 6)] = joint.axis
        arriving = _arriving(spans[parent], tips[parent] @ _scaled(joint.origin, length), axis, near)
        beside = [j for j in range(i) if j not in robot.path(i)]
        own = _conditions(axis, arriving, scaled, i, beside)
        seen.append(Seen(own.link, own.drives / length**2, tuple(near)))
        spans[i] = _leaving(axis, arriving, i, near)
        tips[i] = _scaled(joint.tip, length)
    return seen, [_source_map(tips[i], length) for i in range(n)]


def _root_spans(robot: Robot, n: int, length: float) -> Spans:
    # Potential energy is -g.mc, and that of a torque offset o is +o q: the sign matters where they stand together.
    form = np.concatenate([[0.0], -robot.gravity / length, np.zeros(6), [1.0]])
    return Spans(np.zeros((6 + n, 0)), form[:, None])


def _extended(matrix: Array, corner: float) -> Array:
    """A matrix on energy forms as one on (form, 1)."""
    whole = np.zeros((PARAMETERS_PER_LINK + 1, PARAMETERS_PER_LINK + 1))
    whole[:-1, :-1], whole[-1, -1] = matrix, corner
    return whole


def _arriving(spans: Spans, X: Pose, axis: Array, near: list[float]) -> Spans:
    """The parent's spans in frame i before its own motion; velocities closed under it."""
    n = spans.velocities.shape[0] - 6
    moved = np.vstack([velocity_map(X) @ spans.velocities[:6], spans.velocities[6:]])
    generator = np.zeros((6 + n, 6 + n))
    generator[:6, :6] = twist_generator(axis)
    # energy = s . phi_parent = s . (T phi_i): forms transform with the transpose of the parameter map.
    forms = _extended(phi_map(X).T, 1.0) @ spans.forms
    return Spans(closed_under(generator, moved, near), orthonormal(forms, near))


def _conditions(axis: Array, arriving: Spans, shares: DriveShares, i: int, beside: list[int]) -> Seen:
    """Rows (a), (b), (c) on the link's parameters, and what rotor inertias add to (a), (b) and offsets to (c).

    beside  joints of other branches, whose speeds couple with this one through rotors alone
    """
    G, F = shares.gears, shares.friction
    D = parameter_generator(axis)
    link = [bilinear_forms(axis, axis[:, None]).T, bilinear_forms(axis, arriving.velocities[:6]).T]
    rotors = [(G[:, i] ** 2)[None, :], (arriving.velocities[6:].T @ G.T) * G[:, i]]
    offsets = [np.zeros_like(rows) for rows in rotors]
    forms, constants = arriving.forms[:-1], arriving.forms[-1]
    powers = D
    for k in range(4):
        link.append(forms.T @ powers)
        rotors.append(np.zeros((forms.shape[1], len(G))))
        slides = k == 0 and not axis[:3].any()
        offsets.append(np.outer(constants, F[:, i]) if slides else np.zeros_like(rotors[-1]))
        powers = powers @ D
    # Speeds of other branches; and the offset on a turning joint, which no weight imitates.
    extra = np.vstack([G[:, beside].T * G[:, i], np.zeros((1, len(G)))])
    link.append(np.zeros((len(extra), PARAMETERS_PER_LINK)))
    rotors.append(extra)
    offsets.append(np.vstack([np.zeros((len(beside), len(F))), (F[:, i] * axis[:3].any())[None, :]]))
    return Seen(np.vstack(link), np.hstack([np.vstack(rotors), np.vstack(offsets)]), ())


def _leaving(axis: Array, arriving: Spans, i: int, near: list[float]) -> Spans:
    """The spans of frame i, its own motion included."""
    n = arriving.velocities.shape[0] - 6
    own = np.zeros((6 + n, 1))
    own[:6, 0], own[6 + i, 0] = axis, 1.0
    moving = np.hstack([bilinear_forms(axis, arriving.velocities[:6]), bilinear_forms(axis, axis[:, None])])
    forms = np.hstack(
        [
            closed_under(_extended(parameter_generator(axis).T, 0.0), arriving.forms, near),
            np.vstack([moving, np.zeros((1, moving.shape[1]))]),
        ]
    )
    return Spans(orthonormal(np.hstack([arriving.velocities, own]), near), orthonormal(forms, near))


def _source_map(tip: Pose, length: float) -> Array:
    """Source link parameters (SI) to joint-frame parameters in units of length: lengths divided by `length`."""
    units = np.diag([1.0, *[1 / length] * 3, *[1 / length**2] * 6])
    return np.asarray(phi_map(tip) @ units)
