"""Lin's base set: minimal linear combinations (MLC) of the inertia parameters of a serial chain.

First moment c^_i and tensor J^_i of the links i..n about O_i split into constants k_i, U_i and parts l_i, V_i that vary
with q: c^_i = k_i + l_i, J^_i = U_i + V_i [Lin 1995, eq. 9-15, 25-26; Lin & Fang 1999, appendix C]. Entries of the
constants are the base parameters [Lin 1995, theorem 2]. m^_i is the mass of links i..n.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from mindyn.algebra.rotations import cos_sin, rot_z
from mindyn.algebra.values import Array
from mindyn.errors import Code, InputError, RobotError
from mindyn.parameters.axis_groups import note_far_joints
from mindyn.parameters.base import BaseParameters, remove_rounding, round_coefficients
from mindyn.parameters.lin_structure import LinJoint, LinStructure, constant_translation, lin_structure
from mindyn.parameters.linear_forms import (
    Moments,
    link_moments,
    move_moments,
    outer,
    point_mass_tensor,
    rotate_tensor,
    rotate_vector,
    shift_tensor,
    zero_moments,
)
from mindyn.parameters.structural import structural_base
from mindyn.robots.robot import Robot

Version = Literal[1995, 1999]
"""U of 1999 moves only U_22 to the previous link (eq. C2), U of 1995 also U_33 (eq. 12)."""


@dataclass(frozen=True, slots=True)
class InertiaConstants:
    """m^_i (p,), k_i (3, p) and U_i (3, 3, p) of a link, as linear forms over phi."""

    mass: Array
    k: Array
    U: Array


@dataclass(frozen=True, slots=True)
class VaryingParts:
    """l_i (3, p) and V_i (3, 3, p) of a link at a position q, as linear forms over phi."""

    l: Array  # noqa: E741 - Lin's symbol
    V: Array


def lin_base(robot: Robot, version: Version = 1999) -> BaseParameters:
    """Return the MLC set of a serial robot; `version` selects U of 1999 or of 1995."""
    structure = lin_structure(robot)
    matrix = mlc_matrix(robot, structure, version)
    return BaseParameters(robot, "lin", False, matrix, structure.names, notes=note_far_joints(structure.dh.far))


def mlc_matrix(robot: Robot, structure: LinStructure, version: Version = 1999) -> Array:
    """Return K (count, 10 n) with MLC = K phi, in the order of the structure's layout."""
    constants = inertia_constants(structure, version)
    rows = [row for joint, link in zip(structure.joints, constants, strict=True) for row in _mlc_rows(joint, link)]
    return remove_rounding(robot, np.array(rows))


def lin_base_with_drives(robot: Robot) -> BaseParameters:
    """Return the MLC, combined with inseparable rotor inertias, and the other drive parameters."""
    links, whole = lin_base(robot), structural_base(robot, drives=True)
    width, count = links.matrix.shape[1], links.count
    # Rows of drive parameters have no link parameters; those of links are combinations of the same space as the MLC.
    kept = list(whole.survivors or ())[:count]
    if any(k >= width for k in kept):
        raise RobotError(
            f"the minimal combinations of {robot.name!r} cannot be separated from its drives: the effect of a link "
            "parameter is so weak that a rotor inertia replaces it",
            hint='use form="structural"',
            code=Code.UNSUPPORTED,
            subject=robot.name,
        )
    matrix = np.vstack([links.matrix[:, kept] @ whole.matrix[:count], whole.matrix[count:]])
    matrix = round_coefficients(robot, matrix, drives=True, noise=64 * float(np.finfo(float).eps))
    names = tuple(
        f"{name}R" if (row[width:] != 0).any() else name for name, row in zip(links.names, matrix, strict=False)
    )
    return BaseParameters(robot, "lin", True, matrix, (*names, *whole.names[count:]), notes=links.notes)


def inertia_constants(structure: LinStructure, version: Version = 1999) -> list[InertiaConstants]:
    """Return m^_i, k_i, U_i of every link [Lin 1995, eq. 11, 12, 14; Lin & Fang 1999, eq. C1-C3]."""
    if version not in (1995, 1999):
        raise InputError(f"version of Lin's U must be 1995 or 1999, got {version!r}", subject="version")
    links = link_moments(structure.dh.links)
    constants: list[InertiaConstants] = []
    for i in reversed(range(len(links))):
        body = links[i]
        if constants:
            body = body + _carry_constants(structure.joints[i + 1], constants[-1], version)
        constants.append(InertiaConstants(body.mass, body.first, body.tensor))
    return constants[::-1]


def _carry_constants(joint: LinJoint, after: InertiaConstants, version: Version) -> Moments:
    """Return the contribution of joint i + 1 to the constants of link i."""
    R, s = joint.row.pose.rotation, constant_translation(joint)
    k, U = after.k, after.U
    if joint.kind == "revolute":
        k = outer(np.array([0.0, 0.0, 1.0]), after.k[2])
        U = _rotation_invariant_part(after.U, version)
    return move_moments(R, s, Moments(after.mass, k, U))


def _rotation_invariant_part(U: Array, version: Version) -> Array:
    """Return diag(U_22, U_22, e), which a rotation about z does not change; e = 0 (1999) or U_33 (1995)."""
    kept = outer(np.diag([1.0, 1.0, 0.0]), U[1, 1])
    return kept if version == 1999 else kept + outer(np.diag([0.0, 0.0, 1.0]), U[2, 2])


def varying_parts(structure: LinStructure, q: Array, version: Version = 1999) -> list[VaryingParts]:
    """Return l_i, V_i of every link at q [Lin 1995, eq. 13, 25, 26]."""
    constants = inertia_constants(structure, version)
    end = zero_moments(constants[-1].mass.size)
    parts = [VaryingParts(end.first, end.tensor)]
    for i in reversed(range(1, len(constants))):
        parts.append(_varying_before(structure.joints[i], q[i], constants[i], parts[-1], version))
    return parts[::-1]


def _varying_before(
    joint: LinJoint, q: float, constants: InertiaConstants, after: VaryingParts, version: Version
) -> VaryingParts:
    """Return l_{i-1}, V_{i-1} from the constants and the varying parts of link i."""
    c, home = constants.k + after.l, joint.row.pose.rotation
    s = constant_translation(joint)
    if joint.kind == "revolute":
        R = home @ rot_z(*cos_sin(q))
        l_before = rotate_vector(R, np.stack([c[0], c[1], after.l[2]]))
        V = after.V + constants.U - _rotation_invariant_part(constants.U, version)
    else:
        R, slide = home, np.array([0.0, 0.0, joint.row.d + q])
        l_before = rotate_vector(R, after.l + outer(slide, constants.mass))
        V = after.V + point_mass_tensor(slide, constants.mass) + shift_tensor(slide, c)
    return VaryingParts(l_before, rotate_tensor(R, V) + shift_tensor(s, l_before))


def _mlc_rows(joint: LinJoint, constants: InertiaConstants) -> list[Array]:
    """Return the rows of K of a joint, in the order of `joint.symbols`."""
    k, U = constants.k, constants.U
    dl = joint.from_centre or 0.0
    values = {
        "m": constants.mass,
        **dict(zip(("kx", "ky", "kz"), k, strict=True)),
        **{"U11-22": U[0, 0] - U[1, 1], "U33": U[2, 2], "U12": U[0, 1]},
        # Without gravity and with all axes through C, the tensor about C has an effect and the first moment has none.
        **{"U13": U[0, 2] - dl * k[0], "U23": U[1, 2] - dl * k[1]},
    }
    if joint.sigma:
        values |= _kappa(joint, k)
    return [values[symbol] for symbol in joint.symbols]


def _kappa(joint: LinJoint, k: Array) -> dict[str, Array]:
    """Return kappa_1 = -u_y k_x + u_x k_y, kappa_2 = -u_z (u_x k_x + u_y k_y) + (1 - u_z^2) k_z, u = u_r^{<i>}.

    Lin 1995, theorem 2, as read, has 1 - u_z; eq. (87) and (28) have the square.
    """
    assert joint.u is not None
    x, y, z = joint.u
    return {"kap1": -y * k[0] + x * k[1], "kap2": -z * (x * k[0] + y * k[1]) + (1 - z**2) * k[2]}
