"""Find which motions each link can have, and which of its parameters these motions determine.

These conditions determine structural base sets. The energy of link i is a linear form in its ten parameters. For a last
link, the joint's speed qd_i appears in the energy as a polynomial, the position q_i as a trigonometric polynomial
(revolute) or a polynomial (prismatic), and both appear in the energy of no other link. A change d of the link's
parameters has no effect at joint i if and only if

  (a) z.I(d) z = 0                         the coefficient of qd_i^2,
  (b) z.I(d) v = 0 for all v in V          the coefficient of qd_i; V the span of velocities that come from the parent,
  (c) s(d) does not depend on q_i, s in S  S the span of energy forms that the parent gives frame i;

and d is then equivalent to the change of the parent's parameters that d causes at q_i = 0. Changes of the root's
parameters have no effect. V and S are computed from the root outwards, parameter changes from the last links inwards,
so that the count is exact and the work is linear in the number of links. The idea of velocity spans is that of
[Wensing, Niemeyer & Slotine 2024]; energy forms treat gravity, its absence, rotors and translational joints in the same
way. Rotor inertia h adds h (G_k qd)^2 / 2: V is extended by the joint speeds. A torque offset adds a term linear in q,
which on a prismatic joint is equivalent to a weight: S is extended by the constant.

*Graded spans.* Near special geometry, the rank depends on a tolerance. If two axes are 1e-8 rad from parallel, the
effect of one parameter is only 1e-8; an orthonormal basis either scales this direction up to length 1 or drops it. This
module therefore decides no rank. V and S are factors of second moments: V V^T is the mean of v v^T over joint angles
and unit speeds. In these factors, a deviation of 1e-8 stays 1e-8, and rounding of 1e-16 stays 1e-16. The rows of
conditions thus give the true effect of each parameter at each joint, and the error of dropping a column is known
(structural.py).

*Closure by harmonics.* Under a rotation, a form is a sum of harmonics 0, 1 and 2 of the angle (a velocity: 0 and 1).
The projections onto the harmonics are polynomials in the square of the generator, so that the closure is exact in one
step. Each harmonic has the weight sqrt(1/2) of its mean square, so that a rotation does not enlarge the span. Prismatic
joints give polynomials, evaluated for one unit of travel.

*Units.* Lengths in the robot's own unit (robots/scale.py), g in the power of two nearest to |g|, rotors and offsets in
the square and the size of their largest gear: all conditions are then of order one, and powers of two cause no
rounding. Joint frames are rotated so that the axis is z, which makes the closure matrices constant.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from mindyn.foundation.algebra.inertia import phi_map, spatial_inertia, tensor_entries
from mindyn.foundation.algebra.poses import IDENTITY, Pose
from mindyn.foundation.algebra.rotations import skew
from mindyn.foundation.algebra.values import Array
from mindyn.foundation.notation import PARAMETERS_PER_LINK
from mindyn.robots.drive_matrices import friction_matrix, gear_matrix
from mindyn.robots.floating_base import BASE_COUNT
from mindyn.robots.joint_frames import rotation_to_axis
from mindyn.robots.parts import JointKind
from mindyn.robots.robot import Robot
from mindyn.robots.scale import length_unit, nearest_power_of_two

UNIT_INERTIAS: Final = np.stack([spatial_inertia(unit) for unit in np.eye(PARAMETERS_PER_LINK)])
"""(10, 6, 6): spatial inertia of each unit parameter."""

AXES: Final[dict[JointKind, Array]] = {
    "revolute": np.array([0.0, 0.0, 1.0, 0.0, 0.0, 0.0]),
    "prismatic": np.array([0.0, 0.0, 0.0, 0.0, 0.0, 1.0]),
}
"""(6,) twist of a joint in its own frame."""

VISIBLE_SIZES: Final[dict[JointKind, Array]] = {
    "revolute": np.array([0.0, *[1.0] * 9]),
    "prismatic": np.array([*[1.0] * 4, *[0.0] * 6]),
}
"""(10,) scale of each column of the conditions: a revolute joint has exactly no mass term, a prismatic one no tensor
term.
"""


@dataclass(frozen=True, slots=True)
class Closure:
    """The motion exp(generator q) in harmonics: `still` does not depend on q, the matrices of `moving` do.

    The mean of (exp x)(exp x)^T over q is that of still and moving parts, up to cross terms.
    """

    still: Array
    moving: tuple[Array, ...]


def _form_closure(kind: JointKind) -> Closure:
    """Return the closure of energy forms (10,), which move with the transpose of the parameters' generator."""
    E, D = np.eye(PARAMETERS_PER_LINK), _parameter_generator(AXES[kind]).T
    if kind == "prismatic":
        return Closure(E, (D, D @ D / 2))  # D^3 = 0
    Q, h = D @ D, np.sqrt(0.5)  # eigenvalues 0, -1, -4 of Q: harmonics 0, 1, 2
    first, second = -Q @ (Q + 4 * E) / 3, Q @ (Q + E) / 12
    return Closure((Q + E) @ (Q + 4 * E) / 4, (h * first, h * D @ first, h * second, h / 2 * D @ second))


def _twist_closure(kind: JointKind) -> Closure:
    """Return the closure of velocities (6,) = (w, v)."""
    w, v = skew(AXES[kind][:3]), skew(AXES[kind][3:])
    G, h = -np.block([[w, np.zeros((3, 3))], [v, w]]), np.sqrt(0.5)
    if kind == "prismatic":
        return Closure(np.eye(6), (G,))
    return Closure(np.eye(6) + G @ G, (-h * G @ G, h * G))


def _parameter_generator(axis: Array) -> Array:
    """Return dP/dq (10, 10) at q = 0; P maps the parameters from the moved frame to the previous one."""
    w, v = skew(axis[:3]), skew(axis[3:])
    change = np.block([[w, v], [np.zeros((3, 3)), w]]) @ UNIT_INERTIAS
    return np.stack([_parameters_of(half + half.T) for half in change], axis=1)


def _parameters_of(spatial: Array) -> Array:
    """Return the ten parameters of a 6x6 spatial inertia."""
    C = spatial[:3, 3:]
    return np.array([spatial[3, 3], C[2, 1], C[0, 2], C[1, 0], *tensor_entries(spatial[:3, :3])])


FORM_CLOSURE: Final = {kind: _form_closure(kind) for kind in AXES}
TWIST_CLOSURE: Final = {kind: _twist_closure(kind) for kind in AXES}


@dataclass(frozen=True, slots=True)
class ScaledMechanism:
    """A robot's joints, drives and gravity in its own units, with z of every joint frame along the axis.

    length    L, the unit of length, m
    gravity   (3,) of size 0.7 to 1.4, or zero
    origins   pose of each joint frame in the parent's link frame
    tips      pose of each link frame in its joint frame
    gears     (drives, n) G, largest entry of a row 0.7 to 1.4; empty without drives
    friction  (drives, n) F, scaled in the same way
    units     (10 n + 2 drives,): scaled parameter = unit * parameter; rotor inertias, then offsets, after the links
    """

    length: float
    gravity: Array
    origins: tuple[Pose, ...]
    tips: tuple[Pose, ...]
    gears: Array
    friction: Array
    units: Array


def scaled_mechanism(robot: Robot, *, with_drives: bool) -> ScaledMechanism:
    """Return the robot in its own units."""
    L, size = length_unit(robot), float(np.linalg.norm(robot.gravity))
    g = nearest_power_of_two(size) if size > 0 else 1.0
    turns = [rotation_to_axis(joint.axis / np.linalg.norm(joint.axis)) for joint in robot.joints]
    origins = [Pose(j.origin.rotation @ B, j.origin.translation / L) for j, B in zip(robot.joints, turns, strict=True)]
    tips = [Pose(B.T @ j.tip.rotation, B.T @ j.tip.translation / L) for j, B in zip(robot.joints, turns, strict=True)]
    travel = np.where([joint.kind == "prismatic" for joint in robot.joints], L, 1.0)
    none = np.zeros((0, len(robot.joints)))
    G, gear_size = _normalize_rows(gear_matrix(robot) * travel if with_drives else none)
    F, friction_size = _normalize_rows(friction_matrix(robot) * travel if with_drives else none)
    link = np.tile([1.0, *[1 / L] * 3, *[1 / L**2] * 6], len(robot.joints))
    units = np.concatenate([link, gear_size**2 / L**2, friction_size / (L * g)])
    return ScaledMechanism(L, robot.gravity / g, tuple(origins), tuple(tips), G, F, units)


def _normalize_rows(rows: Array) -> tuple[Array, Array]:
    """Return rows divided by the power of two nearest to their largest entry, and these powers."""
    sizes = np.array([nearest_power_of_two(float(np.abs(row).max())) if row.any() else 1.0 for row in rows])
    return rows / sizes[:, None], sizes


@dataclass(frozen=True, slots=True)
class JointConditions:
    """Conditions of joint i, in scaled units, on its link's parameters and on those of the drives.

    link     (m, 10) in the link's own frame
    drives   (m, 2 drives): all rotor inertias, then all torque offsets
    nominal  (10,) scale of the terms of each link column: rounding is proportional to it
    size     scale of the spans behind the rows, 1 or more: rounding is proportional to it too
    """

    link: Array
    drives: Array
    nominal: Array
    size: float


@dataclass(frozen=True, slots=True)
class Spans:
    """Velocities and energy forms that a frame can have.

    velocities  (6 + n, a) factor of the second moment of (w, v, qd); without drives (6, a)
    forms       (11, b) of (energy form, 1): energy = form . phi; the constant is included because a torque offset on a
                prismatic joint acts like a weight
    """

    velocities: Array
    forms: Array


def find_joint_conditions(robot: Robot, mechanism: ScaledMechanism) -> list[JointConditions]:
    """Return the conditions of every joint."""
    speeds = len(robot.joints) if len(mechanism.gears) else 0
    # Potential energy is -g.mc, and that of a torque offset o is +o q: the sign matters if both are present.
    constant = 1.0 if speeds else 0.0
    root = np.concatenate([[0.0], -mechanism.gravity, np.zeros(6), [constant]])[:, None]
    spans = {-1: Spans(np.zeros((6 + speeds, 0)), root)}
    seen: list[JointConditions] = []
    for i, (joint, parent) in enumerate(zip(robot.joints, robot.parents, strict=True)):
        X = (mechanism.tips[parent] if parent >= 0 else IDENTITY) @ mechanism.origins[i]
        arriving = _incoming_spans(spans[parent], X, joint.kind)
        span_joint = _SpanJoint(joint.kind, i, arriving)
        seen.append(span_joint.conditions(mechanism, set(range(i)) - set(robot.path(i))))
        spans[i] = span_joint.outgoing_spans()
    return _free_base_conditions(mechanism) + seen[BASE_COUNT:] if robot.has_floating_base else seen


def _free_base_conditions(mechanism: ScaledMechanism) -> list[JointConditions]:
    """Return the conditions of the joints of a floating base: its massless links have no parameters, and all ten
    parameters of the trunk are identifiable.
    """
    ones, drives = np.ones(PARAMETERS_PER_LINK), 2 * len(mechanism.gears)
    shown = [np.zeros((0, PARAMETERS_PER_LINK))] * (BASE_COUNT - 1) + [np.eye(PARAMETERS_PER_LINK)]
    return [JointConditions(rows, np.zeros((len(rows), drives)), ones, 1.0) for rows in shown]


def _incoming_spans(spans: Spans, X: Pose, kind: JointKind) -> Spans:
    """Return the parent's spans in frame i before its own motion, with velocities closed under it."""
    R, p = X.rotation, X.translation
    to_frame = np.block([[R.T, np.zeros((3, 3))], [-R.T @ skew(p), R.T]])
    v, speeds = to_frame @ spans.velocities[:6], spans.velocities[6:]
    closure = TWIST_CLOSURE[kind]
    turning = [np.vstack([C @ v, np.zeros_like(speeds)]) for C in closure.moving]
    velocities = _compress_columns(np.hstack([np.vstack([closure.still @ v, speeds]), *turning]))
    # energy = s . phi_parent = s . (T phi_i): forms transform with the transpose of the parameter map.
    return Spans(velocities, np.vstack([phi_map(X).T @ spans.forms[:-1], spans.forms[-1:]]))


def _compress_columns(columns: Array) -> Array:
    """Return a matrix with the same second moment C C^T, and with at most as many columns as rows.

    Nothing is dropped or normalised.
    """
    if columns.shape[1] <= columns.shape[0]:
        return columns
    return np.asarray(np.linalg.qr(columns.T)[1].T)


class _SpanJoint:
    """Joint i with its incoming spans: the forms z.I.z and z.I.v of its axis, and the forms that its motion changes."""

    def __init__(self, kind: JointKind, index: int, arriving: Spans) -> None:
        self.kind, self.index, self.arriving = kind, index, arriving
        axis, closure = AXES[kind], FORM_CLOSURE[kind]
        forms = arriving.forms[:-1]
        self.alone = axis @ UNIT_INERTIAS @ axis
        self.together = axis @ UNIT_INERTIAS @ arriving.velocities[:6]
        self.still = np.vstack([closure.still @ forms, arriving.forms[-1:]])
        self.moving = np.hstack([C @ forms for C in closure.moving])

    def conditions(self, mechanism: ScaledMechanism, other_joints: set[int]) -> JointConditions:
        """Return rows (a), (b), (c) on the link's parameters, and the terms of rotor inertias in (a), (b) and offsets
        in (c).

        `other_joints` are joints of other branches: their speeds are coupled with this joint only through rotors.
        """
        T = phi_map(mechanism.tips[self.index])
        link = np.vstack([self.alone, self.together.T, self.moving.T]) @ T
        drives = self._drive_rows(mechanism, sorted(other_joints))
        rows = np.hstack([np.vstack([link, np.zeros((len(drives) - len(link), PARAMETERS_PER_LINK))]), drives])
        if rows.shape[0] > rows.shape[1]:
            rows = np.linalg.qr(rows)[1]
        v, s = self.arriving.velocities[:6], self.arriving.forms[:-1]
        size = max(1.0, float(np.linalg.norm(v, 2)) if v.size else 0.0, float(np.linalg.norm(s, 2)))
        nominal = VISIBLE_SIZES[self.kind] @ np.abs(T)
        return JointConditions(rows[:, :PARAMETERS_PER_LINK], rows[:, PARAMETERS_PER_LINK:], nominal, size)

    def _drive_rows(self, mechanism: ScaledMechanism, other_joints: list[int]) -> Array:
        G, F, i = mechanism.gears, mechanism.friction, self.index
        count, moving = len(G), self.moving.shape[1]
        if not count:
            return np.zeros((1 + self.together.shape[1] + moving, 0))
        rotors = np.vstack([G[:, i] ** 2, (self.arriving.velocities[6:].T @ G.T) * G[:, i], np.zeros((moving, count))])
        offsets = np.zeros_like(rotors)
        if self.kind == "prismatic":  # the first block of the moving forms is the derivative with respect to q
            first = 1 + self.together.shape[1]
            constants = self.arriving.forms[-1]
            offsets[first : first + len(constants)] = np.outer(constants, F[:, i])
        # Speeds of other branches; and the offset on a revolute joint, which no weight imitates.
        turning = F[:, i] * (self.kind == "revolute")
        extra = np.zeros((len(other_joints) + 1, 2 * count))
        extra[:-1, :count], extra[-1, count:] = G[:, other_joints].T * G[:, i], turning
        return np.vstack([np.hstack([rotors, offsets]), extra])

    def outgoing_spans(self) -> Spans:
        """Return the spans of frame i, including its own motion."""
        velocities = self.arriving.velocities
        axis = np.zeros((len(velocities), 1))
        axis[:6, 0] = AXES[self.kind]
        if len(velocities) > 6:
            axis[6 + self.index] = 1.0
        grown = np.hstack([self.moving, self.alone[:, None], self.together])
        forms = np.hstack([self.still, np.vstack([grown, np.zeros((1, grown.shape[1]))])])
        return Spans(_compress_columns(np.hstack([velocities, axis])), _compress_columns(forms))
