"""Inverse dynamics in minimal linear combinations (MLC): the values of the MLC are the only link parameters [Lin 1995,
III].

There are three groups of joints. Before the first revolute joint r, no link rotates. From r to s - 1, all revolute axes
are parallel, and moments are scalars about u_r. From s on, the recursion is general. Symbols as in NOTATION.md and Lin:

    mu, zeta     force on link i, and moment without the components that no joint supplies
    rho          force along a prismatic axis
    Psi, psi     Psi(wd, w) psi(A) = A wd + w x A w [eq. 28, 60]
    D            the tensor of eq. 91, with the U of 1999: no G of eq. 38-43 is needed
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from mindyn.equations.chain import SX
from mindyn.equations.dh_joints import (
    DhJoint,
    EndWrench,
    end_wrench,
    omega,
    place_dh_joints,
    rotate_symmetric,
    to_column,
    to_scalars,
    to_triple,
)
from mindyn.equations.external_inputs import NO_EXTERNAL_INPUTS, ExternalInputs, RootMotion
from mindyn.equations.mlc_links import MlcLink, first_axis, mlc_links, slides_after
from mindyn.equations.scalar_vectors import (
    ZERO,
    ZERO_TENSOR,
    Line,
    Matrix,
    Scalar,
    Symmetric,
    Triple,
    cross,
    dot,
    keep_value,
)
from mindyn.parameters.lin import LinStructure


def mlc_inverse_dynamics(
    structure: LinStructure, mlc: SX, q: SX, qd: SX, qdd: SX, *, outside: ExternalInputs = NO_EXTERNAL_INPUTS
) -> SX:
    """Return joint torques tau (n, 1) from the MLC vector alone.

    structure  `lin_structure(robot)`, or `lin_structure_on_moving_root(robot)` if the root moves
    mlc        (count, 1) in the order of `structure.layout`, version 1999: `lin_base(robot).values` or symbols
    outside    the wrench at the tip is Lin's f_E, t_E
    """
    joints = place_dh_joints(structure.dh.rows, structure.joints, q)
    links = mlc_links(structure, mlc)
    end = None if outside.tip_wrench is None else end_wrench(structure.dh, outside.tip_wrench)
    gravity = Triple(*(float(v) for v in structure.gravity))
    root = None if outside.root is None else outside.root.at(structure.dh.base)
    motions = propagate_outward(joints, links, gravity, to_scalars(qd), to_scalars(qdd), root=root)
    return to_column(propagate_inward(joints, links, motions, to_scalars(qd), to_scalars(qdd), end))


@dataclass(frozen=True, slots=True)
class FrameState:
    """Motion of a frame, with components in this frame.

    w, wd     angular velocity and acceleration
    turn      Omega = [wd] + [w][w]
    products  w w^T, which Omega and Psi share
    a         acceleration of the origin minus gravity
    wr, wdr   w and wd along u_r, in the parallel group
    start     a* of a prismatic joint, in frame i: the acceleration without the motion of this joint [eq. 70]
    slide     h-dd of a prismatic joint: (2 w_y qd, -2 w_x qd, qdd) [eq. 61]
    hop       h* = h-dd + Omega (0, 0, d) [eq. 69]
    """

    w: Triple
    wd: Triple
    turn: Matrix
    products: Symmetric
    a: Triple
    wr: Scalar = 0.0
    wdr: Scalar = 0.0
    start: Triple = ZERO
    slide: Triple = ZERO
    hop: Triple = ZERO


def propagate_outward(
    joints: Sequence[DhJoint],
    links: Sequence[MlcLink],
    gravity: Triple,
    qd: Sequence[Scalar],
    qdd: Sequence[Scalar],
    line: Line = keep_value,
    root: RootMotion | None = None,
) -> list[FrameState]:
    """Return the FrameState of every frame [eq. 57-62, 69-71, 77, 80-82].

    An upward acceleration of the base models gravity.
    """
    before = FrameState(ZERO, ZERO, Matrix(ZERO, ZERO, ZERO), ZERO_TENSOR, -gravity)
    if root is not None:
        w, wd = to_triple(root.w), to_triple(root.wd)
        before = FrameState(w, wd, *omega(w, wd), to_triple(root.a) - gravity)
    motions: list[FrameState] = []
    for i, (joint, link) in enumerate(zip(joints, links, strict=True)):
        here = partial(line, joint=i)
        if link.group == "sliding":
            a = here("a", joint.to_child(before.a) + Triple(0.0, 0.0, qdd[i]))
            motion = FrameState(ZERO, ZERO, before.turn, ZERO_TENSOR, a)
        else:
            if link.group == "spatial":
                before = here("motion before", before)
            turned = _turn_frame(joint, link, before, qd[i], qdd[i], here)
            motion = _accelerate_origin(joint, before, turned, qd[i], qdd[i], here)
        motions.append(motion)
        before = motion
    return motions


def _turn_frame(joint: DhJoint, link: MlcLink, before: FrameState, qd: Scalar, qdd: Scalar, line: Line) -> FrameState:
    """Return w, wd and Omega; the acceleration of the origin is added later."""
    if link.group == "parallel":
        u = link.u
        wr = line("w", before.wr if joint.slides else before.wr + u.z * qd)
        wdr = line("wd", before.wdr if joint.slides else before.wdr + u.z * qdd)
        w, wd = line("w", wr * u), line("wd", wdr * u)
        turn, products = line("Omega", omega(w, wd))
        return FrameState(w, wd, turn, products, before.a, wr, wdr)
    w_before = joint.to_child(before.w)
    w = line("w", w_before if joint.slides else w_before + Triple(0.0, 0.0, qd))
    wd = joint.to_child(before.wd)
    if not joint.slides:
        wd = wd + Triple(w_before.y * qd, -(w_before.x * qd), qdd)
    wd = line("wd", wd)
    turn, products = line("Omega", omega(w, wd))
    return FrameState(w, wd, turn, products, before.a)


def _accelerate_origin(
    joint: DhJoint, before: FrameState, now: FrameState, qd: Scalar, qdd: Scalar, line: Line
) -> FrameState:
    """Add the acceleration of the origin: a_i = R^T (a_{i-1} + Omega_{i-1} s) + h*."""
    if not joint.slides:
        a = line("a", joint.to_child(before.a + before.turn @ joint.s_before))
        return replace(now, a=a)
    twice = 2.0 * qd
    slide = Triple(twice * now.w.y, -(twice * now.w.x), qdd)
    hop = line("h", slide + now.turn @ joint.along)
    start = joint.to_child(before.a + before.turn @ joint.across)
    return replace(now, a=line("a", start + hop), start=start, slide=slide, hop=hop)


def propagate_inward(
    joints: Sequence[DhJoint],
    links: Sequence[MlcLink],
    motions: Sequence[FrameState],
    qd: Sequence[Scalar],
    qdd: Sequence[Scalar],
    end: EndWrench | None = None,
    line: Line = keep_value,
) -> list[Scalar]:
    """Return torques, from the last joint to the first [eq. 63-68, 72-75, 78-79, 83-90]."""
    count = len(joints)
    taken = (
        CarriedWrench(ZERO, ZERO, 0.0)
        if end is None
        else _initial_wrench(end, links[-1], partial(line, joint=count - 1))
    )
    torques: list[Scalar] = [0.0] * count
    for i in reversed(range(count)):
        here = partial(line, joint=i)
        joint, link, motion = joints[i], links[i], motions[i]
        zeta, about = ZERO, 0.0
        if link.group == "spatial":
            zeta = here("zeta", here("zetab", _spatial_moment(joints, links, motion, i, here)) + taken.moment)
        elif link.group == "parallel":
            about = here("zeta", here("zetab", _parallel_moment(joints, links, motion, i, qd[i], qdd[i])) + taken.about)
        if joint.slides:
            torques[i] = here("tau", here("rho", _slide_force(link, motion)) + taken.force.z)
        else:
            torques[i] = zeta.z if link.group == "spatial" else link.u.z * about
        if i > 0:
            mu = here("mu", here("mub", _inertia_force(joint, link, motion, qdd[i])) + taken.force)
            taken = _carry_to_parent(joint, link, links[i - 1], mu, zeta, about, partial(line, joint=i - 1))
    return torques


@dataclass(frozen=True, slots=True)
class CarriedWrench:
    """Contribution of link i + 1 to link i, in frame i.

    force   mu_{i+1}^{<i>}
    moment  all terms of eq. 75 except zeta-bar, in the spatial group
    about   all terms of eq. 90 except zeta-bar, along u_r, in the parallel group
    """

    force: Triple
    moment: Triple
    about: Scalar


def _initial_wrench(end: EndWrench, last: MlcLink, line: Line) -> CarriedWrench:
    """Return mu_{n+1} = -f_E, zeta_{n+1} = -t_E - s_E x f_E."""
    moment = line("zeta", -(end.moment + cross(end.arm, end.force)))
    return CarriedWrench(-end.force, moment, dot(last.u, moment) if last.group == "parallel" else 0.0)


def _carry_to_parent(
    joint: DhJoint, link: MlcLink, before: MlcLink, mu: Triple, zeta: Triple, about: Scalar, line: Line
) -> CarriedWrench:
    """Return mu and zeta of link i as contributions to link i - 1 [eq. 74, 75, 88-90]."""
    force = line("mu", joint.to_parent(mu))
    if before.group == "sliding":
        return CarriedWrench(force, ZERO, 0.0)
    shifted = zeta + cross(joint.along, mu) if link.group == "spatial" else ZERO
    if before.group == "spatial":
        return CarriedWrench(force, line("zeta", joint.to_parent(shifted) + cross(joint.across, force)), 0.0)
    if link.group == "spatial":
        about = dot(first_axis(joint, before), shifted)
    else:
        about = about + joint.d * (link.u.y * mu.x - link.u.x * mu.y)
    return CarriedWrench(force, ZERO, line("zeta", about + joint.b * (before.u.z * force.y - before.u.y * force.z)))


def _inertia_force(joint: DhJoint, link: MlcLink, motion: FrameState, qdd: Scalar) -> Triple:
    """Return mu-bar: Omega (k_x, k_y, 0) of a revolute joint, m^ h* of a prismatic one [eq. 72, 79, 84]."""
    if not joint.slides:
        return motion.turn @ Triple(link.k.x, link.k.y, 0.0)
    accelerated = Triple(0.0, 0.0, qdd) if link.group == "sliding" else motion.hop
    return accelerated.scale(link.mass)


def _slide_force(link: MlcLink, motion: FrameState) -> Scalar:
    """Return rho [eq. 63, 78, 83]."""
    along = link.mass * motion.a.z
    if link.group == "parallel":
        return along + link.kap1 * motion.wdr - link.kap2 * (motion.wr * motion.wr)
    return along + dot(motion.turn.z, link.k) if link.group == "spatial" else along


def _parallel_moment(
    joints: Sequence[DhJoint], links: Sequence[MlcLink], motion: FrameState, i: int, qd: Scalar, qdd: Scalar
) -> Scalar:
    """Return zeta-bar along u_r [eq. 85]; D_33 of a revolute joint grows with the slides after it [eq. 105]."""
    joint, link, a = joints[i], links[i], motion.a
    if joint.slides:
        swing = (link.u.y * motion.start.x - link.u.x * motion.start.y) * (link.mass * joint.d)
        return swing + link.kap1 * qdd + link.kap2 * (2.0 * (motion.wr * qd))
    D33 = link.U.zz
    for k in slides_after(joints, i):
        D33 = D33 + 2.0 * links[k].kap2 * joints[k].d
    return link.u.z * (a.y * link.k.x - a.x * link.k.y) + motion.wdr * D33


def _spatial_moment(
    joints: Sequence[DhJoint], links: Sequence[MlcLink], motion: FrameState, i: int, line: Line
) -> Triple:
    """Return zeta-bar [eq. 73]."""
    joint, link = joints[i], links[i]
    if joint.slides:
        shifted = Triple(0.0, 0.0, link.mass * joint.d)
        return cross(shifted, motion.start) + cross(link.k, motion.slide)
    D = line("D", _tensor(joints, links, i))
    return euler_moment(D, motion, line) + cross(Triple(link.k.x, link.k.y, 0.0), motion.a)


def _tensor(joints: Sequence[DhJoint], links: Sequence[MlcLink], i: int) -> Symmetric:
    """Return D_i = U_i without U_22 on the diagonal + sum of d_k W_k over the slides after joint i [eq. 91, 92]."""
    D = links[i].U
    for k in slides_after(joints, i):
        kx, ky, kz = links[k].k.scalars
        W = Symmetric(2.0 * kz, 2.0 * kz, 0.0, 0.0, -kx, -ky)
        for j in reversed(range(i + 1, k + 1)):
            W = rotate_symmetric(joints[j], W)
        d = joints[k].d
        D = D + Symmetric(d * W.xx, d * W.yy, d * W.zz, d * W.xy, d * W.xz, d * W.yz)
    return D


def euler_moment(D: Symmetric, motion: FrameState, line: Line) -> Triple:
    """Return Psi(wd, w) psi(D) = D wd + w x D w; Psi has the entries of Omega except for three differences [eq. 28,
    60].
    """
    wd, turn = motion.wd, motion.turn
    ww = motion.products
    xy, xz, yz = ww.xy, ww.xz, ww.yz
    spread = line("Psi", Triple(ww.yy - ww.zz, ww.zz - ww.xx, ww.xx - ww.yy))
    return Triple(
        wd.x * D.xx - yz * D.yy + yz * D.zz - turn.z.x * D.xy + turn.y.x * D.xz + spread.x * D.yz,
        xz * D.xx + wd.y * D.yy - xz * D.zz + turn.z.y * D.xy + spread.y * D.xz - turn.x.y * D.yz,
        -(xy * D.xx) + xy * D.yy + wd.z * D.zz + spread.z * D.xy - turn.y.z * D.xz + turn.x.z * D.yz,
    )
