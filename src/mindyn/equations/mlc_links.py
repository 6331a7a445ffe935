"""The MLC of each joint as scalars: k_i, U_i, kappa_i, with zeros for entries that the set does not have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mindyn.equations.chain import SX
from mindyn.equations.dh_joints import (
    DhJoint,
)
from mindyn.equations.scalar_vectors import (
    ZERO,
    ZERO_TENSOR,
    Scalar,
    Symmetric,
    Triple,
)
from mindyn.foundation.algebra.rotations import tidy
from mindyn.parameters.axis_groups import Group
from mindyn.parameters.lin import LinJoint, LinStructure


@dataclass(frozen=True, slots=True)
class MlcLink:
    """Constants of link i in the recursions.

    group       "sliding" i < r, "parallel" r <= i < s, "spatial" i >= s
    u           u_r^{<i>}, constant in the parallel group
    mass        m^_i of a prismatic joint
    k           (k_x, k_y, 0) of a revolute joint, (k_x, k_y, k_z) of a spatial prismatic one
    U           U_11 - U_22, 0, U_33 and U_12, U_13, U_23 of a revolute joint
    kap1, kap2  of a prismatic joint of the parallel group
    """

    group: Group
    u: Triple = ZERO
    mass: Scalar = 0.0
    k: Triple = ZERO
    U: Symmetric = ZERO_TENSOR
    kap1: Scalar = 0.0
    kap2: Scalar = 0.0


def mlc_links(structure: LinStructure, mlc: SX) -> tuple[MlcLink, ...]:
    """Return the links of an MLC vector (count, 1), numbers or symbols; missing entries have no effect and are zero."""
    return tuple(_make_mlc_link(structure, i, joint, mlc) for i, joint in enumerate(structure.joints))


def _make_mlc_link(structure: LinStructure, i: int, joint: LinJoint, mlc: SX) -> MlcLink:
    def of(symbol: str) -> Scalar:
        position = structure.layout.get((i, symbol))
        return 0.0 if position is None else mlc[position]

    u = ZERO if joint.u is None else Triple(*(float(v) for v in tidy(joint.u)))
    U = Symmetric(of("U11-22"), 0.0, of("U33"), of("U12"), of("U13"), of("U23"))
    return MlcLink(joint.group, u, of("m"), Triple(of("kx"), of("ky"), of("kz")), U, of("kap1"), of("kap2"))


def slides_after(joints: Sequence[DhJoint], i: int) -> range:
    """Return the prismatic joints i + 1 .. m_i - 1 between joint i and the next revolute joint m_i."""
    k = i + 1
    while k < len(joints) and joints[k].slides:
        k += 1
    return range(i + 1, k)


def first_axis(joint: DhJoint, before: MlcLink) -> Triple:
    """Return u_r^{<s>}: entries of R_s if joint s - 1 is revolute, since u_r^{<s-1>} is +-e3 then."""
    if before.u.x == 0.0 and before.u.y == 0.0:
        return joint.z_before.scale(before.u.z)
    return joint.to_child(before.u)
