"""Lin's base set: minimal linear combinations (MLC) of the inertia parameters of a serial chain.

First moment c^_i and tensor J^_i of the links i..n about O_i split into constants k_i, U_i and parts l_i, V_i that vary
with q: c^_i = k_i + l_i, J^_i = U_i + V_i [Lin 1995, eq. 9-15, 25-26; Lin & Fang 1999, appendix C]. Entries of the
constants are the base parameters [Lin 1995, theorem 2]. m^_i is the mass of links i..n.

`LinStructure` describes a serial chain in Lin's terms: DH numbers, r, s, delta, sigma, and the layout of the MLC
vector.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final, Literal

import numpy as np

from mindyn.foundation.algebra.poses import Pose
from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, InputError, RobotError
from mindyn.parameters.axis_groups import AxisGroup, Group, axis_groups, note_far_joints, require_serial
from mindyn.parameters.base_parameters import BaseParameters, remove_rounding, round_coefficients
from mindyn.parameters.linear_forms import (
    Moments,
    link_moments,
    move_moments,
    outer,
    rotation_invariant_part,
)
from mindyn.parameters.structural import structural_base
from mindyn.robots.joint_frames import DhRow, ModifiedDh, modified_dh
from mindyn.robots.parts import JointKind
from mindyn.robots.robot import Robot

SPATIAL_MLC: Final = ("U11-22", "U33", "U12", "U13", "U23", "kx", "ky")
SPATIAL_WITHOUT_K: Final = SPATIAL_MLC[:5]


@dataclass(frozen=True, slots=True)
class LinJoint:
    """A joint of the chain.

    kind        "revolute" (K* = 1) or "prismatic" (K = 1)
    group       "sliding" i < r, "parallel" r <= i < s, "spatial" i >= s
    delta       revolute, parallel: whether k_x and k_y have an effect; True elsewhere
    sigma       prismatic, parallel: whether its axis is not parallel to u_r; False elsewhere
    u           (3,) u_r^{<i>}, constant in frame i of the parallel group; None elsewhere
    row         modified DH numbers of the step i-1 -> i: Lin's beta, b, theta, d are alpha, a, theta, d
    from_centre dl with O_i = C + dl z_i of a spatial joint that loses k_x, k_y without gravity; None elsewhere
    """

    kind: JointKind
    group: Group
    delta: bool
    sigma: bool
    u: Array | None
    row: DhRow
    from_centre: float | None

    @property
    def symbols(self) -> tuple[str, ...]:
        """MLC entries of this joint, in order [Lin 1995, theorem 2, corrected for g = 0]."""
        if self.kind == "prismatic":
            if self.group == "spatial":
                return ("m", "kx", "ky", "kz")
            return ("m", "kap1", "kap2") if self.sigma else ("m",)
        if self.group == "spatial":
            return SPATIAL_MLC if self.from_centre is None else SPATIAL_WITHOUT_K
        return ("U33", "kx", "ky") if self.delta else ("U33",)


@dataclass(frozen=True, slots=True)
class LinStructure:
    """A serial chain in the notation of Lin's formulas.

    joints   the joints in order
    gravity  (3,) in frame 0, m/s^2
    dh       the frames: base pose, rows, and the source link frames in them
    layout   position of an entry in the MLC vector by (joint, symbol); joints count from 0
    """

    joints: tuple[LinJoint, ...]
    gravity: Array
    dh: ModifiedDh
    layout: Mapping[tuple[int, str], int]

    @property
    def r(self) -> int:
        """The first revolute joint, counted from 0; n if there is none."""
        return sum(joint.group == "sliding" for joint in self.joints)

    @property
    def s(self) -> int:
        """The first revolute joint not parallel to joint r, counted from 0; n if there is none."""
        return sum(joint.group != "spatial" for joint in self.joints)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the MLC entries: `U33_1`, `kx_2`, `m_3`, `kap1_3`; joints count from 1."""
        return tuple(f"{symbol}_{joint + 1}" for joint, symbol in self.layout)


def lin_structure(robot: Robot) -> LinStructure:
    """Return r, s, delta, sigma, u of kappa, the DH numbers and the MLC layout of a serial robot."""
    require_serial(robot, "lin")
    dh = modified_dh(robot)
    return _lay_out(robot, dh, classify_joints(robot, dh))


def lin_structure_on_moving_root(robot: Robot) -> LinStructure:
    """Return the structure for a root that turns and accelerates freely: every joint is in the spatial group (r = s =
    1).
    """
    require_serial(robot, "lin")
    dh = modified_dh(robot)
    kinds = [joint.kind for joint in robot.joints]
    joints = [LinJoint(kind, "spatial", True, False, None, row, None) for kind, row in zip(kinds, dh.rows, strict=True)]
    return _lay_out(robot, dh, tuple(joints))


def _lay_out(robot: Robot, dh: ModifiedDh, joints: tuple[LinJoint, ...]) -> LinStructure:
    keys = [(i, symbol) for i, joint in enumerate(joints) for symbol in joint.symbols]
    layout = MappingProxyType({key: position for position, key in enumerate(keys)})
    return LinStructure(joints, dh.base.rotation.T @ robot.gravity, dh, layout)


def classify_joints(robot: Robot, dh: ModifiedDh) -> tuple[LinJoint, ...]:
    """Return the joints of a tree in their DH frames."""
    frames: list[Pose] = []  # in the root frame at q = 0
    joints = []
    for joint, place, row, parent in zip(robot.joints, axis_groups(robot), dh.rows, dh.parents, strict=True):
        frame = (dh.base if parent < 0 else frames[parent]) @ row.pose
        frames.append(frame)
        u = frame.rotation.T @ place.first if place.group == "parallel" and place.first is not None else None
        dl = distance_from_centre(place, frame)
        joints.append(LinJoint(joint.kind, place.group, place.swings, place.oblique, u, row, dl))
    return tuple(joints)


def distance_from_centre(place: AxisGroup, frame: Pose) -> float | None:
    """Return dl with O = C + dl z for a frame whose z axis passes through the fixed centre C; None without a centre."""
    if place.centre is None:
        return None
    return float((frame.translation - place.centre) @ frame.rotation[:, 2])


def constant_translation(joint: LinJoint) -> Array:
    """Return s_i^{<i-1>} = (b, -d sin beta, d cos beta) of a revolute joint, (b, 0, 0) of a prismatic one (d moves)."""
    return joint.row.pose.translation if joint.kind == "revolute" else np.array([joint.row.a, 0.0, 0.0])


Version = Literal[1995, 1999]
"""Publication whose U is used: in 1999 only U_22 moves to the previous link (eq. C2), in 1995 U_33 moves too (eq. 12).
"""


def lin_base(robot: Robot, version: Version = 1999) -> BaseParameters:
    """Return Lin's minimal linear combinations (MLC) of a serial robot without its drives.

    `base_parameters(robot, form="lin")` returns the same set for `version=1999`.

    Parameters
    ----------
    robot : Robot
        Serial robot.
    version : {1999, 1995}
        U of 1999 passes only U_22 to the previous link (eq. C2), U of 1995 also U_33 (eq. 12).

    Returns
    -------
    BaseParameters
        The set of theorem 2. Both versions have the same names and are related by `transform_to`.

    Raises
    ------
    RobotError
        If the robot has branches, loops or a floating base.

    Examples
    --------
    >>> import mindyn
    >>> from mindyn.parameters import lin_base
    >>> lin_base(mindyn.load_robot("stanford"), version=1995).count
    33
    """
    structure = lin_structure(robot)
    matrix = mlc_matrix(robot, structure, version)
    return BaseParameters(robot, "lin", False, matrix, structure.names, notes=note_far_joints(structure.dh.far))


def mlc_matrix(robot: Robot, structure: LinStructure, version: Version = 1999) -> Array:
    """Return K (count, 10 n) with MLC = K phi, in the order of the structure's layout."""
    constants = inertia_constants(structure, version)
    rows = [row for joint, link in zip(structure.joints, constants, strict=True) for row in _mlc_rows(joint, link)]
    return remove_rounding(robot, np.array(rows))


def lin_base_with_drives(robot: Robot) -> BaseParameters:
    """Return the MLC, with rotor inertias that cannot be separated from them, and the other drive parameters."""
    links, whole = lin_base(robot), structural_base(robot, with_drives=True)
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
    matrix = round_coefficients(robot, matrix, with_drives=True, noise=64 * float(np.finfo(float).eps))
    names = tuple(
        f"{name}R" if (row[width:] != 0).any() else name for name, row in zip(links.names, matrix, strict=False)
    )
    return BaseParameters(robot, "lin", True, matrix, (*names, *whole.names[count:]), notes=links.notes)


def inertia_constants(structure: LinStructure, version: Version = 1999) -> list[Moments]:
    """Return m^_i, k_i, U_i of every link as its moments [Lin 1995, eq. 11, 12, 14; Lin & Fang 1999, eq. C1-C3]."""
    if version not in (1995, 1999):
        raise InputError(
            f"version of Lin's U must be 1995 or 1999, got {version!r}", subject="version", code=Code.UNKNOWN_NAME
        )
    constants = link_moments(structure.dh.links)
    for i in reversed(range(1, len(constants))):
        joint, carried = structure.joints[i], constants[i]
        carried = constants_behind_rotation(carried, version) if joint.kind == "revolute" else carried
        moved = move_moments(joint.row.pose.rotation, constant_translation(joint), carried)
        constants[i - 1] = constants[i - 1] + moved
    return constants


def constants_behind_rotation(constants: Moments, version: Version) -> Moments:
    """Return the moments that a rotation about z does not change. They contain U_33 only in the version of 1995."""
    kept = rotation_invariant_part(constants)
    if version == 1999:
        return kept
    return replace(kept, tensor=kept.tensor + outer(np.diag([0.0, 0.0, 1.0]), constants.tensor[2, 2]))


def _mlc_rows(joint: LinJoint, constants: Moments) -> list[Array]:
    """Return the rows of K of a joint, in the order of `joint.symbols`."""
    k, U = constants.first, constants.tensor
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
