"""Symmetric tensors in the previous frame: R X R^T and the parallel-axis terms."""

from __future__ import annotations

from mindyn.equations.dh_joints import DhJoint
from mindyn.equations.triples import Symmetric, Triple


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
