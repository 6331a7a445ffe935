"""Five composite-body formulations of the inertia matrix of a serial robot [Lin & Fang 1999, tables I-V].

Column i is the wrench that a unit acceleration of joint i needs, transferred to each joint j <= i. The formulations
differ in the frame in which the wrench is transferred: 1 in frame j, 2 and 3 in frame i, 4 in frame n, 5 in frame j
with moments about O_{i-1}. m^, c^ and J^ are the mass, the first moment and the tensor of links i..n about O_i, in
frame i.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import casadi

from mindyn.equations.chain import SX
from mindyn.equations.dh_joints import (
    DhJoint,
    dh_parameters,
    place_dh_joints,
    rotate_symmetric,
    serial_dh,
    shift_symmetric,
)
from mindyn.equations.scalar_vectors import Line, Matrix, Scalar, Symmetric, Triple, cross, dot, keep_value
from mindyn.foundation.algebra.rotations import ROTATION_ROUNDING
from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import unknown_name_error
from mindyn.robots.robot import Robot

Entries = dict[tuple[int, int], Scalar]
"""D_ji by (j, i), j <= i, counted from 0."""


@dataclass(frozen=True, slots=True)
class Composite:
    """m^, c^ and J^ of links i..n about O_i, in frame i."""

    mass: Scalar
    first: Triple
    tensor: Symmetric

    def __add__(self, other: Composite) -> Composite:
        return Composite(self.mass + other.mass, self.first + other.first, self.tensor + other.tensor)


def composite_inertia_matrix(robot: Robot, q: SX, formulation: int = 1) -> SX:
    """Return M(q) (n, n) of a serial robot with its own parameters as constants, by formulation 1 .. 5."""
    if formulation not in FORMULATIONS:
        raise unknown_name_error("formulation", str(formulation), [str(k) for k in FORMULATIONS])
    dh = serial_dh(robot, "composite bodies")
    joints = place_dh_joints(dh.rows, robot.joints, q)
    bodies = [body_about_origin(phi) for phi in dh_parameters(robot, dh)]
    return full_matrix(FORMULATIONS[formulation](joints, composites(joints, bodies)), len(joints))


def body_about_origin(phi: Array) -> Composite:
    """Return the body of ten standard parameters. Rounding errors near zero become zero."""
    size = abs(phi).max()
    m, x, y, z, xx, xy, yy, xz, yz, zz = (0.0 if abs(v) <= ROTATION_ROUNDING * size else float(v) for v in phi)
    return Composite(m, Triple(x, y, z), Symmetric(xx, yy, zz, xy, xz, yz))


def full_matrix(D: Entries, count: int) -> SX:
    """Return the symmetric matrix with these entries above and on the diagonal."""
    M = casadi.SX(count, count)
    for (j, i), value in D.items():
        M[j, i] = M[i, j] = value
    return M


def composites(joints: Sequence[DhJoint], bodies: Sequence[Composite]) -> list[Composite]:
    """Return each link combined with all links after it [eq. 3-5]."""
    total = list(bodies)
    for i in reversed(range(1, len(joints))):
        body, joint = total[i], joints[i]
        first, s = joint.to_parent(body.first), joint.s_before
        tensor = (
            rotate_symmetric(joint, body.tensor) + shift_symmetric(s, first) + shift_symmetric(s, 0.5 * body.mass * s)
        )
        total[i - 1] = total[i - 1] + Composite(body.mass, first + body.mass * s, tensor)
    return total


def unit_force(joint: DhJoint, body: Composite) -> Triple:
    """Return f_ii [eq. 7]."""
    if joint.slides:
        return Triple(0.0, 0.0, body.mass)
    return Triple(-body.first.y, body.first.x, 0.0)


def unit_moment(joint: DhJoint, body: Composite) -> Triple:
    """Return t_ii [eq. 8]."""
    if joint.slides:
        return Triple(body.first.y, -body.first.x, 0.0)
    return Triple(body.tensor.xz, body.tensor.yz, body.tensor.zz)


def project_on_axis(joint: DhJoint, force: Triple, moment: Triple) -> Scalar:
    """Return the component of a wrench at O_j that joint j supplies: moment about its axis, or force along it."""
    return force.z if joint.slides else moment.z


def carry_wrench(joint: DhJoint, force: Triple, moment: Triple, line: Line) -> tuple[Triple, Triple]:
    """Return the same wrench in the previous frame, in 20 multiplications and 12 additions [eq. 9, 10, 18]."""
    before = joint.to_parent(force)
    moment = line("t", joint.to_parent(moment + cross(joint.along, force)) + cross(joint.across, before))
    return line("f", before), moment


def carry_to_first_joint(
    first: DhJoint, joint: DhJoint, arm: Triple, force: Triple, moment: Triple, line: Line
) -> tuple[Triple, Triple]:
    """Return the force or the moment at joint 1, of which only one is needed; `arm` is s_2 in frame 2."""
    if first.slides:
        return line("f", joint.to_parent(force)), moment
    return force, line("t", joint.to_parent(moment + cross(arm, force)))


def carry_down(
    joints: Sequence[DhJoint], i: int, top: int, force: Triple, moment: Triple, arm: Triple, line: Line
) -> Entries:
    """Return D_ji for j < top of a wrench given in frame top: the recursion of formulation 1."""
    D: Entries = {}
    for j in reversed(range(top)):
        if j == 0:
            force, moment = carry_to_first_joint(joints[0], joints[1], arm, force, moment, line)
        else:
            force, moment = carry_wrench(joints[j + 1], force, moment, line)
        D[j, i] = project_on_axis(joints[j], force, moment)
    return D


def second_arm(joints: Sequence[DhJoint], line: Line) -> Triple:
    """Return s_2 in frame 2: (b C, -b S, d)."""
    if len(joints) < 2:
        return Triple(0.0, 0.0, 0.0)
    step = joints[1]
    return line("s_2", Triple(step.b * step.c, -(step.b * step.s), step.d))


def formulation_1(joints: Sequence[DhJoint], bodies: Sequence[Composite], line: Line = keep_value) -> Entries:
    """Transfer wrenches from frame to frame [table I; Lilly & Orin]."""
    arm = second_arm(joints, line)
    D: Entries = {}
    for i, (joint, body) in enumerate(zip(joints, bodies, strict=True)):
        force, moment = unit_force(joint, body), line("t_ii", unit_moment(joint, body))
        D[i, i] = project_on_axis(joint, force, moment)
        D |= carry_down(joints, i, i, force, moment, arm, line)
    return D


def axes_and_arms(joints: Sequence[DhJoint], j: int, line: Line) -> list[tuple[Triple, Triple]]:
    """Return (u_j, s_j^i) in frame i, for i = j + 1 .. n - 1 [table II]."""
    u, s = line("u", joints[j + 1].z_before), line("s", joints[j + 1].s_own)
    pairs = [(u, s)]
    for step in joints[j + 2 :]:
        u = line("u", step.to_child(u))
        if not joints[j].slides:
            s = line("s", step.to_child(s + step.across) + step.along)
        pairs.append((u, s))
    return pairs


def formulation_2(joints: Sequence[DhJoint], bodies: Sequence[Composite], line: Line = keep_value) -> Entries:
    """Transform axes and arms to frame i [table II, eq. 20]."""
    return _entries_from_axes(joints, bodies, axes_and_arms, entry_from_axis, line)


def _entries_from_axes(
    joints: Sequence[DhJoint],
    bodies: Sequence[Composite],
    carried: Callable[..., list[tuple[Triple, Triple]]],
    entry: Callable[..., Scalar],
    line: Line,
) -> Entries:
    """Return D_ji from u_j and another vector of joint j in frame i."""
    D: Entries = {(i, i): diagonal(joints[i], body) for i, body in enumerate(bodies)}
    for j in range(len(joints) - 1):
        for i, vectors in enumerate(carried(joints, j, line), start=j + 1):
            D[j, i] = line("D", entry(joints[j], joints[i], bodies[i], *vectors))
    return D


def diagonal(joint: DhJoint, body: Composite) -> Scalar:
    """Return the diagonal entry D_ii of the inertia matrix."""
    return body.mass if joint.slides else body.tensor.zz


def entry_from_axis(before: DhJoint, joint: DhJoint, body: Composite, u: Triple, s: Triple) -> Scalar:
    """Return D_ji from u_j and s_j^i in frame i [eq. 20]."""
    c, J = body.first, body.tensor
    if joint.slides:
        if before.slides:
            return body.mass * u.z
        return u.x * (body.mass * s.y + c.y) - u.y * (body.mass * s.x + c.x)
    if before.slides:
        return u.y * c.x - u.x * c.y
    return dot(u, Triple(J.xz - c.x * s.z, J.yz - c.y * s.z, J.zz + c.x * s.x + c.y * s.y))


def formulation_3(joints: Sequence[DhJoint], bodies: Sequence[Composite], line: Line = keep_value) -> Entries:
    """Transform axes and velocities u_j x s_j^i to frame i [table III, eq. 21; Renaud].

    As printed, table III has u.(-c_y, c_x, 0) for (j revolute, i prismatic). Equation 21 has the opposite sign, which
    is correct.
    """
    return _entries_from_axes(joints, bodies, _axes_and_swings, _entry_from_swing, line)


def _axes_and_swings(joints: Sequence[DhJoint], j: int, line: Line) -> list[tuple[Triple, Triple]]:
    """Return (u_j, u_j x s_j^i) in frame i, for i = j + 1 .. n - 1 [table III]."""
    step, turns = joints[j + 1], not joints[j].slides
    u = line("u", step.z_before)
    swing = Triple(-step.s_before.y, step.s_before.x, 0.0)
    if turns:
        swing = line("swing", step.to_child(swing))
    pairs = [(u, swing)]
    for step in joints[j + 2 :]:
        after = line("u", step.to_child(u))
        if turns:
            swing = line("swing", step.to_child(swing + cross(u, step.across)) + cross(after, step.along))
        u = after
        pairs.append((u, swing))
    return pairs


def _entry_from_swing(before: DhJoint, joint: DhJoint, body: Composite, u: Triple, swing: Triple) -> Scalar:
    c, J = body.first, body.tensor
    if joint.slides:
        if before.slides:
            return body.mass * u.z
        return body.mass * swing.z + (u.x * c.y - u.y * c.x)
    if before.slides:
        return u.y * c.x - u.x * c.y
    return dot(u, Triple(J.xz, J.yz, J.zz)) + c.x * swing.y - c.y * swing.x


def formulation_4(joints: Sequence[DhJoint], bodies: Sequence[Composite], line: Line = keep_value) -> Entries:
    """Express all quantities in frame n [table IV; Fijany & Bejczy]. u_i is a column of the rotation and needs no
    operations.
    """
    turns, axes, arms = _express_in_last_frame(joints, line)
    D: Entries = {}
    for i, (joint, body) in enumerate(zip(joints, bodies, strict=True)):
        own_force, own_moment = unit_force(joint, body), unit_moment(joint, body)
        D[i, i] = project_on_axis(joint, own_force, own_moment)
        if i == 0:
            continue
        last = i == len(joints) - 1
        force = line("f_ii", own_force if last else turns[i] @ own_force)
        moment = line("t_ii", own_moment if last else turns[i] @ own_moment)
        for j in reversed(range(i)):
            moment = line("t", moment + cross(arms[j], force))
            D[j, i] = line("D", dot(axes[j], force if joints[j].slides else moment))
    return D


def _express_in_last_frame(joints: Sequence[DhJoint], line: Line) -> tuple[list[Matrix], list[Triple], list[Triple]]:
    """Return for i < n: rotation to frame n, u_i in frame n, s_i^{i+1} in frame n."""
    count = len(joints)
    turns: dict[int, Matrix] = {}
    arms: dict[int, Triple] = {}
    if count > 1:
        last = joints[-1]
        u = last.z_before
        turns[count - 2] = line(
            "R_n", Matrix(Triple(last.c, last.cb * last.s, u.x), Triple(-last.s, last.cb * last.c, u.y), last.axis)
        )
        arms[count - 2] = line("s", Triple(last.b * last.c, -(last.b * last.s), last.d))
    for i in reversed(range(count - 2)):
        step, after = joints[i + 1], turns[i + 1]
        turns[i] = line("iRn", Matrix(*(step.to_parent(row) for row in (after.x, after.y, after.z))))
        arms[i] = line("s", turns[i] @ step.across + after @ step.along)
    axes = [Triple(N.x.z, N.y.z, N.z.z) for N in (turns[i] for i in range(count - 1))]
    return [turns[i] for i in range(count - 1)], axes, [arms[i] for i in range(count - 1)]


def formulation_5(joints: Sequence[DhJoint], bodies: Sequence[Composite], line: Line = keep_value) -> Entries:
    """Use first moments h about O_{i-1} [table V, eq.

    B3-B11; Kawasaki et al.]. D_ji needs K_j; the table prints K_i.
    """
    D: Entries = {(i, i): diagonal(joints[i], body) for i, body in enumerate(bodies)}
    for i in range(1, len(joints)):
        joint, body = joints[i], bodies[i]
        h = line("first moment", joint.to_parent(body.first) + body.mass * joint.s_before)
        if joint.slides:
            force, moment = body.mass * joint.axis, line("t", cross(h, joint.axis))
        else:
            force = line("f", cross(joint.axis, h - body.mass * joint.s_before))
            moment = line("t", joint.to_parent(body.tensor.rows[2]) + cross(joint.s_before, force))
        D[i - 1, i] = project_on_axis(joints[i - 1], force, moment)
        D |= carry_down(joints, i, i - 1, line("f_ii", force), moment, joints[1].s_own, line)
    return D


FORMULATIONS: dict[int, Callable[..., Entries]] = dict(
    enumerate((formulation_1, formulation_2, formulation_3, formulation_4, formulation_5), start=1)
)
"""The five formulations by number."""
