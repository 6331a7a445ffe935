"""The inertia matrix in minimal linear combinations, formulations 1 and 2 [Lin & Fang 1999, section 3, table VII].

A recursion from the last link computes first moments c^ = k + l and tensors J^ = U + V of composite bodies from the
MLC. For joints before s, the recursion computes only J^_33 and the moment about u_r, which is enough.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mindyn.equations.chain import SX
from mindyn.equations.composite_bodies import (
    Composite,
    Entries,
    axes_and_arms,
    carry_down,
    diagonal,
    entry_from_axis,
    full_matrix,
    second_arm,
    unit_force,
    unit_moment,
)
from mindyn.equations.dh_joints import DhJoint, place_dh_joints, rotate_symmetric
from mindyn.equations.mlc_links import MlcLink, first_axis, mlc_links
from mindyn.equations.scalar_vectors import ZERO, ZERO_TENSOR, Line, Scalar, Symmetric, Triple, cross, dot, keep_value
from mindyn.foundation.errors import unknown_name_error
from mindyn.parameters.lin import LinStructure


def mlc_inertia_matrix(structure: LinStructure, mlc: SX, q: SX, formulation: int = 1) -> SX:
    """Return M(q) (n, n) from the MLC vector alone, by formulation 1 or 2.

    `mlc` (count, 1) is in the order of `structure.layout`, version 1999.
    """
    if formulation not in MLC_FORMULATIONS:
        raise unknown_name_error("formulation", str(formulation), [str(k) for k in MLC_FORMULATIONS])
    joints = place_dh_joints(structure.dh.rows, structure.joints, q)
    links = mlc_links(structure, mlc)
    return full_matrix(MLC_FORMULATIONS[formulation](joints, links, moments(joints, links)), len(joints))


@dataclass(frozen=True, slots=True)
class MlcMoments:
    """Moments of composite body i by table VII.

    body   m^, c^ and J^: all that a spatial joint needs; (c^_x, c^_y, .) and J^_33 of a parallel revolute one
    l, V   the varying parts; of a parallel joint V.zz is V^r = u_r.V u_r
    about  t_ii^r: the moment about u_r for unit acceleration, in the parallel group [eq. 29]
    """

    body: Composite
    l: Triple  # noqa: E741 - Lin's symbol
    V: Symmetric
    about: Scalar = 0.0


def moments(joints: Sequence[DhJoint], links: Sequence[MlcLink], line: Line = keep_value) -> list[MlcMoments]:
    """Return first moments and tensors of the composite bodies, from the last link inwards [table VII]."""
    bodies: list[MlcMoments] = []
    for i in reversed(range(len(joints))):
        link = links[i]
        if link.group == "sliding":
            bodies.append(MlcMoments(Composite(link.mass, ZERO, ZERO_TENSOR), ZERO, ZERO_TENSOR))
        elif not bodies:
            bodies.append(_add_constants(joints[i], link, ZERO, ZERO_TENSOR, line))
        else:
            bodies.append(_previous_body(joints[i], link, joints[i + 1], links[i + 1], bodies[-1], line))
    return bodies[::-1]


def _previous_body(
    joint: DhJoint, link: MlcLink, step: DhJoint, after: MlcLink, last: MlcMoments, line: Line
) -> MlcMoments:
    """Return body i from body i + 1."""
    slid = after.mass * step.d if step.slides else 0.0
    l_step = last.l + Triple(0.0, 0.0, slid) if step.slides else Triple(last.body.first.x, last.body.first.y, last.l.z)
    l_now = line("l", step.to_parent(l_step))
    if link.group == "spatial":
        Y = line("Y", rotate_symmetric(step, line("X", _inner(step, after, last, slid))))
        return _add_constants(joint, link, l_now, line("V", _shift_tensor(Y, step.b, l_now)), line)
    if after.group == "spatial":
        Y33 = line("Y", _project_tensor(first_axis(step, link), line("X", _inner(step, after, last, slid))))
    else:
        Y33 = line("Y", _parallel_inner(step, after, last, slid))
    V33 = line("V", Y33 + _parallel_shift(joint, link, 2.0 * step.b, l_now))
    return _add_constants(joint, link, l_now, Symmetric(0.0, 0.0, V33, 0.0, 0.0, 0.0), line)


def _inner(step: DhJoint, after: MlcLink, last: MlcMoments, slid: Scalar) -> Symmetric:
    """Return X, which R_{i+1} rotates [eq. 34, 35]; `slid` is m^ d."""
    V, c, J, d = last.V, last.body.first, last.body.tensor, step.d
    if step.slides:
        grown = d * (slid + 2.0 * c.z)
        return Symmetric(V.xx + grown, V.yy + grown, V.zz, V.xy, V.xz - d * c.x, V.yz - d * c.y)
    grown = (2.0 * d) * last.l.z
    xx = V.xx + after.U.xx + grown
    return Symmetric(xx, V.yy + grown, J.zz, V.xy + after.U.xy, J.xz - d * c.x, J.yz - d * c.y)


def _shift_tensor(Y: Symmetric, b: Scalar, l_now: Triple) -> Symmetric:
    """Return V = Y - [b][l] - [l][b]."""
    grown = (2.0 * b) * l_now.x
    return Symmetric(Y.xx, Y.yy + grown, Y.zz + grown, Y.xy - b * l_now.y, Y.xz - b * l_now.z, Y.yz)


def _project_tensor(u: Triple, X: Symmetric) -> Scalar:
    """Return u.X u with constant u_z [eq. 55]."""
    x, y, z = u.scalars
    flat = x * (x * X.xx + (2.0 * y) * X.xy) + y * y * X.yy
    return flat + (2.0 * z) * (x * X.xz + y * X.yz) + (z * z) * X.zz


def _parallel_inner(step: DhJoint, after: MlcLink, last: MlcMoments, slid: Scalar) -> Scalar:
    """Return Y_33 between parallel joints [eq. 40; as printed, the terms with l_x and l_y lack a factor 2, and l_y has
    a plus].
    """
    if not step.slides:
        return last.body.tensor.zz
    u, after_l = after.u, last.l
    across = (1.0 - u.z * u.z) * (slid + 2.0 * after_l.z)
    return last.V.zz + step.d * (
        2.0 * after.kap2 + across - (2.0 * u.z * u.x) * after_l.x - (2.0 * u.z * u.y) * after_l.y
    )


def _parallel_shift(joint: DhJoint, link: MlcLink, twice_b: Scalar, l_now: Triple) -> Scalar:
    """Return V^r - Y_33 [eq. 38, 40]."""
    if not joint.slides:
        return twice_b * l_now.x
    u = link.u
    return twice_b * ((1.0 - u.x * u.x) * l_now.x - (u.x * u.y) * l_now.y - (u.x * u.z) * l_now.z)


def _add_constants(joint: DhJoint, link: MlcLink, l_now: Triple, V: Symmetric, line: Line) -> MlcMoments:
    """Return the entries of c^ = k + l and J^ = U + V that are needed, and t_ii^r [eq. 22, 23, 29]."""
    k, U, u = link.k, link.U, link.u
    if joint.slides:
        first = line("c", k + l_now) if link.group == "spatial" else ZERO
        about = line("t_ii^r", link.kap1 - u.y * l_now.x + u.x * l_now.y) if link.group == "parallel" else 0.0
        return MlcMoments(Composite(link.mass, first, ZERO_TENSOR), l_now, V, about)
    first = line("c", Triple(k.x + l_now.x, k.y + l_now.y, 0.0))
    J = line("J", Symmetric(0.0, 0.0, U.zz + V.zz, 0.0, U.xz + V.xz, U.yz + V.yz))
    return MlcMoments(Composite(0.0, first, J), l_now, V, u.z * J.zz)


def mlc_formulation_1(
    joints: Sequence[DhJoint], links: Sequence[MlcLink], bodies: Sequence[MlcMoments], line: Line = keep_value
) -> Entries:
    """Use wrenches for i >= s, force and moment about u_r for r <= i < s, and only force for i < r [eq. 29-31]."""
    arm = second_arm(joints, line)
    D: Entries = {}
    for i, (joint, link, moments_of_body) in enumerate(zip(joints, links, bodies, strict=True)):
        force = unit_force(joint, moments_of_body.body)
        D[i, i] = diagonal(joint, moments_of_body.body)
        if link.group == "spatial":
            moment = line("t_ii", unit_moment(joint, moments_of_body.body))
            D |= carry_down(joints, i, i, force, moment, arm, line)
        else:
            D |= _entries_about_first_axis(joints, links, i, force, moments_of_body.about, line)
    return D


def _entries_about_first_axis(
    joints: Sequence[DhJoint], links: Sequence[MlcLink], i: int, force: Triple, about: Scalar, line: Line
) -> Entries:
    """Return D_ji, i < s: t^r_j = t^r_{j+1} + u_r.(s_{j+1} x f_j) [eq. 30, illegible, and 31 with u_r^{<j>}]."""
    D: Entries = {}
    for j in reversed(range(i)):
        step, link = joints[j + 1], links[j]
        force = line("f", step.to_parent(force))
        if link.group == "parallel":
            about = line("t", about + dot(link.u, cross(step.s_before, force)))
        D[j, i] = force.z if joints[j].slides else link.u.z * about
    return D


def mlc_formulation_2(
    joints: Sequence[DhJoint], links: Sequence[MlcLink], bodies: Sequence[MlcMoments], line: Line = keep_value
) -> Entries:
    """Use formulation 2, with eq. 32 instead of eq. 20 for i < s."""
    D: Entries = {(i, i): diagonal(joints[i], moments_of_body.body) for i, moments_of_body in enumerate(bodies)}
    for j in range(len(joints) - 1):
        for i, (u, s) in enumerate(axes_and_arms(joints, j, line), start=j + 1):
            if links[i].group == "spatial":
                D[j, i] = line("D", entry_from_axis(joints[j], joints[i], bodies[i].body, u, s))
            else:
                D[j, i] = line("D", _entry_in_parallel_group(joints[j], joints[i], links[j], bodies[i], u, s))
    return D


def _entry_in_parallel_group(
    before: DhJoint, joint: DhJoint, link_before: MlcLink, moments_of_body: MlcMoments, u: Triple, s: Triple
) -> Scalar:
    """Return D_ji, i < s [eq. 32]."""
    m, c = moments_of_body.body.mass, moments_of_body.body.first
    if before.slides:
        return m * u.z if joint.slides else u.y * c.x - u.x * c.y
    if joint.slides:
        return u.x * (m * s.y) - u.y * (m * s.x) + link_before.u.z * moments_of_body.about
    return u.z * (moments_of_body.body.tensor.zz + (c.x * s.x + c.y * s.y))


MLC_FORMULATIONS: dict[int, Callable[..., Entries]] = {1: mlc_formulation_1, 2: mlc_formulation_2}
"""The formulations in MLC by number."""
