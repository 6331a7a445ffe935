"""Structure of a serial chain in Lin's terms: DH numbers, r, s, delta, sigma, and the layout of the MLC vector."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import numpy as np

from mindyn.algebra.poses import Pose
from mindyn.algebra.values import Array
from mindyn.parameters.axis_groups import AxisGroup, Group, axis_groups, require_serial
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
    """A serial chain in the terms of Lin's formulas.

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
    frames = dh_frames(dh)
    joints = tuple(
        _joint(joint.kind, group, frame, row)
        for joint, group, frame, row in zip(robot.joints, axis_groups(robot), frames, dh.rows, strict=True)
    )
    return _lay_out(robot, dh, joints)


def lin_structure_on_moving_root(robot: Robot) -> LinStructure:
    """Return the structure for a root that turns and accelerates freely: every joint moves in space (r = s = 1)."""
    require_serial(robot, "lin")
    dh = modified_dh(robot)
    kinds = [joint.kind for joint in robot.joints]
    joints = [LinJoint(kind, "spatial", True, False, None, row, None) for kind, row in zip(kinds, dh.rows, strict=True)]
    return _lay_out(robot, dh, tuple(joints))


def _lay_out(robot: Robot, dh: ModifiedDh, joints: tuple[LinJoint, ...]) -> LinStructure:
    keys = [(i, symbol) for i, joint in enumerate(joints) for symbol in joint.symbols]
    layout = MappingProxyType({key: position for position, key in enumerate(keys)})
    return LinStructure(joints, dh.base.rotation.T @ robot.gravity, dh, layout)


def dh_frames(dh: ModifiedDh) -> tuple[Pose, ...]:
    """Return the DH frames in the root frame at q = 0."""
    frames: list[Pose] = []
    for row, parent in zip(dh.rows, dh.parents, strict=True):
        frames.append((dh.base if parent < 0 else frames[parent]) @ row.pose)
    return tuple(frames)


def _joint(kind: JointKind, place: AxisGroup, frame: Pose, row: DhRow) -> LinJoint:
    turns = kind == "revolute"
    u = frame.rotation.T @ place.first if place.group == "parallel" and place.first is not None else None
    return LinJoint(
        kind, place.group, place.swings or not turns, place.oblique, u, row, distance_from_centre(place, frame)
    )


def distance_from_centre(place: AxisGroup, frame: Pose) -> float | None:
    """Return dl with O = C + dl z for a frame whose z axis passes through the fixed centre C; None without a centre."""
    if place.centre is None:
        return None
    return float((frame.translation - place.centre) @ frame.rotation[:, 2])


def constant_translation(joint: LinJoint) -> Array:
    """Return s_i^{<i-1>} = (b, -d sin beta, d cos beta) of a revolute joint, (b, 0, 0) of a prismatic one (d moves)."""
    return joint.row.pose.translation if joint.kind == "revolute" else np.array([joint.row.a, 0.0, 0.0])
