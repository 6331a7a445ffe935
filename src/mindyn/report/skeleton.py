"""The robot as lines in space: joints, links and axes for some poses along a log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mindyn.algebra.poses import Pose
from mindyn.algebra.values import Array
from mindyn.kernels.model import Model, compile_model
from mindyn.report.data import SkeletonData
from mindyn.report.evidence import Evidence
from mindyn.robots.robot import Robot

POSES: Final = 200


def skeleton(robot: Robot, evidence: Sequence[Evidence]) -> SkeletonData | None:
    """The drawing; a robot with loops has none, since its logs state the motion of some joints alone."""
    if robot.has_dependents:
        return None
    q, times = _poses(robot, evidence)
    links = _link_poses(compile_model(robot), q)
    joints = [links[robot.parents[i] + 1] @ _matrix(joint.origin) for i, joint in enumerate(robot.joints)]
    axes = [pose[:, :3, :3] @ joint.axis for pose, joint in zip(joints, robot.joints, strict=True)]
    tips = [links[robot.link_index(frame.link) + 1] @ _matrix(frame.pose) for frame in robot.frames]
    points = np.stack([pose[:, :3, 3] for pose in (*links, *joints, *tips)], axis=1)
    reach = float(np.abs(points).max()) or 1.0
    frames = np.concatenate([points, np.stack(axes, axis=1)], axis=1).reshape(len(q), -1)
    return SkeletonData(
        points.shape[1],
        _paths(robot),
        tuple(range(len(links), len(links) + len(joints))),
        tuple(joint.kind for joint in robot.joints),
        tuple(tuple(round(float(value), 4) for value in frame) for frame in frames),
        tuple(round(float(t), 3) for t in times),
        tuple(map(float, robot.gravity)),
        reach,
        points.shape[1] - 1 if tips else len(links) - 1,
        _torques(evidence),
    )


def _poses(robot: Robot, evidence: Sequence[Evidence]) -> tuple[Array, Array]:
    """Evenly spaced rows of the first log, or the pose with every joint at zero."""
    if not evidence:
        return np.zeros((1, robot.joint_count)), np.zeros(1)
    made = evidence[0].prediction
    rows = _rows(len(made.time))
    return made.samples.q[rows], made.time[rows] - made.time[0]


def _torques(evidence: Sequence[Evidence]) -> tuple[tuple[float, ...], ...]:
    """Parts of the greatest torque of every joint, at the same rows."""
    if not evidence:
        return ()
    size = np.abs(evidence[0].prediction.measured)
    greatest = size.max(axis=0)
    parts = size[_rows(len(size))] / np.where(greatest > 0, greatest, 1.0)
    return tuple(tuple(round(float(part), 2) for part in row) for row in parts)


def _rows(count: int) -> NDArray[np.intp]:
    return np.unique(np.linspace(0, count - 1, POSES).astype(int))


def _link_poses(model: Model, q: Array) -> list[Array]:
    """(P, 4, 4) of the root and of every moving link."""
    root = np.broadcast_to(np.eye(4), (len(q), 4, 4))
    return [root, *(model.forward_kinematics(q, name) for name in model.robot.link_names)]


def _matrix(pose: Pose) -> Array:
    matrix = np.eye(4)
    matrix[:3, :3], matrix[:3, 3] = pose.rotation, pose.translation
    return matrix


def _paths(robot: Robot) -> tuple[tuple[int, ...], ...]:
    """From the root to every joint that hangs on it; then for every joint, through its link, to what hangs on that."""
    n = robot.joint_count
    first = n + 1
    tips = {robot.link_index(frame.link): 2 * n + 1 + k for k, frame in enumerate(robot.frames)}
    paths: list[tuple[int, ...]] = [(0, *(first + i for i, parent in enumerate(robot.parents) if parent < 0))]
    for i, children in enumerate(robot.children):
        ends = [first + child for child in children] or [tips[i]] if children or i in tips else []
        paths.append((first + i, i + 1, *ends))
    return tuple(paths)
