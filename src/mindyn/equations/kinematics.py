"""Poses and geometric Jacobians of links and frames, in the root frame."""

from __future__ import annotations

import casadi
import numpy as np

from mindyn.equations.chain import SX, Chain, JointPlacement, constant, cross
from mindyn.foundation.algebra.poses import Pose


def frame_placements(chain: Chain, joints: tuple[JointPlacement, ...]) -> list[tuple[SX, SX]]:
    """Return rotation and origin of every working frame, in the base working frame."""
    placed: list[tuple[SX, SX]] = []
    for i, joint in enumerate(joints):
        parent = chain.parents[i]
        R_p, p_p = placed[parent] if parent >= 0 else (casadi.SX.eye(3), casadi.SX(3, 1))
        placed.append((R_p @ joint.rotation, p_p + R_p @ joint.translation))
    return placed


def _express_in_root(chain: Chain, R: SX, p: SX) -> tuple[SX, SX]:
    base = chain.frames.root
    return constant(base.rotation) @ R, constant(base.translation) + constant(base.rotation) @ p


def pose_of_frame(chain: Chain, joints: tuple[JointPlacement, ...], link: str) -> tuple[SX, SX]:
    """Return rotation and origin, in the root frame, of a link or frame given by name."""
    index, pose = chain.robot.locate(link)
    if index < 0:
        return constant(pose.rotation), constant(pose.translation)
    X: Pose = chain.frames.steps[index].link @ pose
    R, p = frame_placements(chain, joints)[index]
    return _express_in_root(chain, R @ constant(X.rotation), p + R @ constant(X.translation))


def forward_kinematics(chain: Chain, q: SX, link: str) -> SX:
    """Return the pose (4, 4) of a link or frame in the root frame."""
    top = casadi.horzcat(*pose_of_frame(chain, chain.at(q), link))
    return casadi.vertcat(top, casadi.SX(np.array([[0.0, 0.0, 0.0, 1.0]])))


def geometric_jacobian(chain: Chain, q: SX, link: str) -> SX:
    """Return J (6, n) with (w, v) = J qd: angular and linear velocity of a link or frame, in root components."""
    joints = chain.at(q)
    index = chain.robot.locate(link)[0]
    _, p_tip = pose_of_frame(chain, joints, link)
    placed = frame_placements(chain, joints)
    on_path = set(chain.robot.path(index))
    columns = []
    for i, joint in enumerate(joints):
        R, p = _express_in_root(chain, *placed[i])
        z = R[:, 2]
        if i not in on_path:
            columns.append(casadi.SX(6, 1))
        elif joint.step.kind == "prismatic":
            columns.append(casadi.vertcat(casadi.SX(3, 1), z))
        else:
            columns.append(casadi.vertcat(z, cross(z, p_tip - p)))
    return casadi.horzcat(*columns)
