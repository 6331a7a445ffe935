"""Joints in modified DH frames at a position: Lin's R_i and s_i.

A product with R_i takes 8 multiplications and 4 additions.

R_i = [[C, -S, 0], [cb S, cb C, -sb], [sb S, sb C, cb]] converts components in frame i to components in frame i - 1,
where C and S are cos and sin of theta, and cb and sb those of beta. The vector from O_{i-1} to O_i is s_i = (b, -d sb,
d cb) in frame i - 1 and (b C, -b S, d) in frame i [Lin & Fang 1999, eq. 1-2].

The module also has two operations that the recursions of the papers share: Omega = [wd] + [w][w], and R X R^T of
symmetric tensors with the parallel-axis terms.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import casadi

from mindyn.equations.chain import SX
from mindyn.equations.scalar_vectors import Matrix, Scalar, Symmetric, Triple
from mindyn.foundation.algebra.inertia import transform_phi
from mindyn.foundation.algebra.rotations import cos_sin
from mindyn.foundation.algebra.values import Array
from mindyn.foundation.notation import PARAMETERS_PER_LINK
from mindyn.parameters.axis_groups import require_serial
from mindyn.parameters.lin import LinJoint
from mindyn.robots.joint_frames import DhRow, ModifiedDh, modified_dh
from mindyn.robots.parts import Joint, JointKind
from mindyn.robots.robot import Robot


@dataclass(frozen=True, slots=True)
class DhJoint:
    """A step i - 1 -> i.

    slides        prismatic (K = 1): d varies; otherwise revolute (K* = 1): C and S vary
    cb, sb, c, s  cosine and sine of beta and theta
    b, d          lengths along x_{i-1} and z_i
    z_before      z_{i-1} in frame i: (sb S, sb C, cb), entries of R_i
    s_before      s_i in frame i - 1
    s_own         s_i in frame i
    """

    slides: bool
    cb: Scalar
    sb: Scalar
    c: Scalar
    s: Scalar
    b: Scalar
    d: Scalar
    z_before: Triple
    s_before: Triple
    s_own: Triple

    def to_parent(self, v: Triple) -> Triple:
        """Return R v."""
        u = v.x * self.s + v.y * self.c
        return Triple(v.x * self.c - v.y * self.s, u * self.cb - v.z * self.sb, u * self.sb + v.z * self.cb)

    def to_child(self, v: Triple) -> Triple:
        """Return R^T v."""
        u = v.y * self.cb + v.z * self.sb
        return Triple(v.x * self.c + u * self.s, u * self.c - v.x * self.s, v.z * self.cb - v.y * self.sb)

    @property
    def axis(self) -> Triple:
        """u_i in frame i - 1: the third column of R."""
        return Triple(0.0, -self.sb, self.cb)

    @property
    def across(self) -> Triple:
        """The part of s_i along x_{i-1}: (b, 0, 0)."""
        return Triple(self.b, 0.0, 0.0)

    @property
    def along(self) -> Triple:
        """The part of s_i along z_i: (0, 0, d)."""
        return Triple(0.0, 0.0, self.d)


def dh_joint(slides: bool, cb: Scalar, sb: Scalar, c: Scalar, s: Scalar, b: Scalar, d: Scalar) -> DhJoint:
    """Return the joint with the entries of R and s computed from its angles and lengths."""
    return DhJoint(
        *(slides, cb, sb, c, s, b, d),
        Triple(sb * s, sb * c, cb),
        Triple(b, -(d * sb), d * cb),
        Triple(b * c, -(b * s), d),
    )


def serial_dh(robot: Robot, form: str) -> ModifiedDh:
    """Return the modified DH rows of a robot that must be serial."""
    require_serial(robot, form)
    return modified_dh(robot)


def dh_parameters(robot: Robot, dh: ModifiedDh) -> list[Array]:
    """Return the ten standard parameters of every link in its DH frame."""
    return [transform_phi(X, phi) for X, phi in zip(dh.links, robot.phi.reshape(-1, PARAMETERS_PER_LINK), strict=True)]


def place_dh_joints(rows: Sequence[DhRow], joints: Sequence[Joint | LinJoint], q: SX) -> tuple[DhJoint, ...]:
    """Return every joint at position q (n, 1) of the robot; theta and d of the rows are those at q = 0."""
    pairs = zip(rows, joints, strict=True)
    return tuple(_place_dh_joint(row, joint.kind, q[i]) for i, (row, joint) in enumerate(pairs))


def _place_dh_joint(row: DhRow, kind: JointKind, q: SX) -> DhJoint:
    cb, sb = cos_sin(row.alpha)
    if kind == "prismatic":
        return dh_joint(True, cb, sb, *cos_sin(row.theta), row.a, row.d + q)
    angle = q + row.theta if row.theta else q
    return dh_joint(False, cb, sb, casadi.cos(angle), casadi.sin(angle), row.a, row.d)


@dataclass(frozen=True, slots=True)
class EndWrench:
    """External force and moment on the last link in frame n, at the point s from O_n."""

    force: Triple
    moment: Triple
    arm: Triple


def end_wrench(dh: ModifiedDh, wrench: SX) -> EndWrench:
    """Return an `EndWrench` for a (6, 1) wrench (moment, force) that is given at the source frame of the last link."""
    link = dh.links[-1]
    R = casadi.SX(casadi.DM(link.rotation))
    moment, force = R @ wrench[0:3], R @ wrench[3:6]
    return EndWrench(to_triple(force), to_triple(moment), Triple(*(float(v) for v in link.translation)))


def to_triple(column: SX) -> Triple:
    """Return a (3, 1) column as a triple."""
    return Triple(column[0], column[1], column[2])


def to_column(values: tuple[Scalar, ...] | list[Scalar]) -> SX:
    """Return scalars as an SX column."""
    return casadi.vertcat(*(casadi.SX(value) for value in values))


def to_scalars(v: SX) -> list[Scalar]:
    """Return the scalars of an SX column."""
    return [v[i] for i in range(v.shape[0])]


def omega(w: Triple, wd: Triple) -> tuple[Matrix, Symmetric]:
    """Return [wd] + [w][w] in 6 multiplications and 9 additions, and its products w w^T.

    a_P = a + Omega r for a point r of the body [Lin 1995, eq. 59; Angeles et al. 1988, eq. 53].
    """
    xx, yy, zz, xy, xz, yz = w.x * w.x, w.y * w.y, w.z * w.z, w.x * w.y, w.x * w.z, w.y * w.z
    turn = Matrix(
        Triple(-(yy + zz), xy - wd.z, xz + wd.y),
        Triple(xy + wd.z, -(xx + zz), yz - wd.x),
        Triple(xz - wd.y, yz + wd.x, -(xx + yy)),
    )
    return turn, Symmetric(xx, yy, zz, xy, xz, yz)


def rotate_symmetric(joint: DhJoint, X: Symmetric) -> Symmetric:
    """Return R X R^T in 17 multiplications and 14 additions, with 2 sin(beta) constant [Lin & Fang 1999, eq. 41-54]."""
    c, s, cb, sb = joint.c, joint.s, joint.cb, joint.sb
    a1 = c * (X.xx - X.yy) - (2.0 * s) * X.xy
    a2 = c * a1
    a3 = X.xx - a2
    a4 = s * a1 + X.xy
    a5 = s * X.xz + c * X.yz
    a6 = (a3 - X.zz) * cb - (2.0 * sb) * a5
    a7 = cb * a6
    a8 = c * X.xz - s * X.yz
    return Symmetric(a2 + X.yy, a7 + X.zz, a3 - a7, cb * a4 - sb * a8, sb * a4 + cb * a8, a5 + sb * a6)


def shift_symmetric(s: Triple, c: Triple) -> Symmetric:
    """Return -[s][c] - [c][s] = 2 (s.c) E - s c^T - c s^T."""
    x, y, z = s.x * c.x, s.y * c.y, s.z * c.z
    return Symmetric(
        *(2.0 * (y + z), 2.0 * (x + z), 2.0 * (x + y)),
        *(-(s.x * c.y + s.y * c.x), -(s.x * c.z + s.z * c.x), -(s.y * c.z + s.z * c.y)),
    )
