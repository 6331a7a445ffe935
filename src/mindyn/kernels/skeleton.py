"""Points and lines of a robot in space for a drawing: joints, links and axes, for some poses along a motion."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mindyn.equations.loop_closure import home_closure
from mindyn.equations.loop_constraints import open_tree
from mindyn.foundation.algebra.poses import Pose
from mindyn.foundation.algebra.values import Array
from mindyn.foundation.pages.plots import PackedNumbers, pack_levels
from mindyn.kernels.model import Model, compile_model
from mindyn.robots.meshes import LinkMesh, Meshes
from mindyn.robots.robot import Robot


@dataclass(frozen=True, slots=True)
class SkeletonData:
    """Points of the robot in the root frame (m), for some poses along a motion.

    Parameters
    ----------
    points : int
        Number of points.
    paths : tuple
        Polylines as numbers of points; path k > 0 belongs to joint k.
    axes : tuple of int
        Point of each joint; its direction follows the points in `frames`.
    kinds : tuple of str
        Kind of each joint.
    frames : tuple
        For each pose 3 coordinates of every point, then 3 of every axis.
    times : tuple of float
        Times of the poses, s.
    gravity : tuple of float
    reach : float
    tip : int
        Number of the point whose path is drawn.
    torques : tuple
        For each pose the torque of every joint relative to its maximum; empty if unknown.
    ground : float, optional
        Height of the floor, m; None: the lowest point.
    solids : tuple
        Polylines of obstacles.
    meshes : tuple of LinkMesh
        Meshes of links, each in its frame.
    places : optional
        For each pose the first three rows of the pose of the root and of every moving link, if there are meshes.
    names : tuple of str
        Names of the joints.
    """

    points: int
    paths: tuple[tuple[int, ...], ...]
    axes: tuple[int, ...]
    kinds: tuple[str, ...]
    frames: tuple[tuple[float, ...], ...]
    times: tuple[float, ...]
    gravity: tuple[float, ...]
    reach: float
    tip: int = 0
    torques: tuple[tuple[float, ...], ...] = ()
    ground: float | None = None
    solids: tuple[tuple[tuple[float, ...], ...], ...] = ()
    meshes: tuple[LinkMesh, ...] = ()
    places: PackedNumbers | None = None
    names: tuple[str, ...] = ()


def compute_skeleton(
    robot: Robot,
    q: Array,
    times: Array,
    torques: Array | None = None,
    ground: float | None = None,
    solids: Sequence[Sequence[Sequence[float]]] = (),
    meshes: Meshes | None = None,
) -> SkeletonData:
    """Return the drawing of a robot at positions q (P, n), with its loops closed.

    `torques` (P, n) are relative to each joint's maximum (see `relative_to_peaks`). For a robot with dependent joints,
    q and torques refer to the primary joints.
    """
    if robot.has_dependents:
        primary = [robot.joint_index(name) for name in robot.primary_names]
        q = home_closure(robot).along(np.ascontiguousarray(q))
        torques = None if torques is None else _spread_to_joints(torques, primary, len(robot.joints))
    links = _link_poses(compile_model(open_tree(robot)), q)
    joints = [links[robot.parents[i] + 1] @ joint.origin.matrix for i, joint in enumerate(robot.joints)]
    axes = [pose[:, :3, :3] @ joint.axis for pose, joint in zip(joints, robot.joints, strict=True)]
    tips = [links[robot.link_index(frame.link) + 1] @ frame.pose.matrix for frame in robot.frames]
    pins = [links[robot.link_index(link) + 1] @ pose.matrix for link, pose in _loop_ends(robot)]
    points = np.stack([pose[:, :3, 3] for pose in (*links, *joints, *tips, *pins)], axis=1)
    frames = np.concatenate([points, np.stack(axes, axis=1)], axis=1).reshape(len(q), -1)
    shares = () if torques is None else tuple(tuple(round(float(part), 2) for part in row) for row in torques)
    return SkeletonData(
        points.shape[1],
        _trace_paths(robot),
        tuple(range(len(links), len(links) + len(joints))),
        tuple(joint.kind for joint in robot.joints),
        tuple(tuple(round(float(value), 4) for value in frame) for frame in frames),
        tuple(round(float(t), 3) for t in times),
        tuple(map(float, robot.gravity)),
        float(np.abs(points).max()) or 1.0,
        points.shape[1] - len(pins) - 1 if tips else len(links) - 1,
        shares,
        ground,
        tuple(tuple(tuple(map(float, point)) for point in line) for line in solids),
        () if meshes is None else meshes.parts,
        pack_levels(np.stack(links, axis=1)[:, :, :3].ravel()) if meshes is not None and meshes.parts else None,
        robot.joint_names,
    )


def relative_to_peaks(torque: Array) -> Array:
    """Return the magnitudes of torques (N, n) relative to the largest of each joint."""
    peak = np.abs(torque).max(axis=0)
    return np.asarray(np.abs(torque) / np.where(peak > 0, peak, 1.0))


def _spread_to_joints(values: Array, joints: Sequence[int], count: int) -> Array:
    whole = np.zeros((len(values), count))
    whole[:, list(joints)] = values
    return whole


def _loop_ends(robot: Robot) -> list[tuple[str, Pose]]:
    """Return both ends of every loop; the ends coincide if the loop is closed."""
    return [end for loop in robot.loops for end in ((loop.first, loop.first_pose), (loop.second, loop.second_pose))]


def _link_poses(model: Model, q: Array) -> list[Array]:
    """Return the poses (P, 4, 4) of the root and of every moving link."""
    root = np.broadcast_to(np.eye(4), (len(q), 4, 4))
    return [root, *(model.forward_kinematics(q, name) for name in model.robot.link_names)]


def _trace_paths(robot: Robot) -> tuple[tuple[int, ...], ...]:
    """Return the paths from the root to its joints, and from every joint through its link to the next joints."""
    n = len(robot.joints)
    first = n + 1
    tips = {robot.link_index(frame.link): 2 * n + 1 + k for k, frame in enumerate(robot.frames)}
    pins: dict[int, list[int]] = {}
    for k, (link, _) in enumerate(_loop_ends(robot), 2 * n + 1 + len(robot.frames)):
        pins.setdefault(robot.link_index(link), []).append(k)
    hanging = [first + i for i, parent in enumerate(robot.parents) if parent < 0]
    paths: list[tuple[int, ...]] = [(0, *hanging, *pins.get(-1, ()))]
    for i, children in enumerate(robot.children):
        ends = [first + child for child in children] or [tips[i]] if children or i in tips else []
        paths.append((first + i, i + 1, *ends, *pins.get(i, ())))
    return tuple(paths)
