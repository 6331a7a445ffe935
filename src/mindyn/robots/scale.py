"""A robot's own unit of length, by which "small" is judged: what rounds away on a crane is an arm in a watch."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from mindyn.algebra.poses import Pose
from mindyn.robots.robot import Robot

MIN_REACH_M: Final = 1e-6
"""A reach below this is rounding of a file, not a length of the robot, m."""


def reach(robot: Robot) -> float:
    """The longest path of offsets from a first joint outwards, m; where the base stands is of no concern."""
    far: dict[int, float] = {}
    for i, (joint, parent) in enumerate(zip(robot.joints, robot.parents, strict=True)):
        before = far[parent] + float(np.linalg.norm(joint.origin.translation)) if parent >= 0 else 0.0
        far[i] = before + float(np.linalg.norm(joint.tip.translation))
    return max(far.values())


def length_unit(robot: Robot) -> float:
    """The power of two nearest to the reach, m: division by it makes no rounding; 1 m where nothing has a length."""
    longest = reach(robot)
    return nearest_power_of_two(longest) if longest >= MIN_REACH_M else 1.0


def nearest_power_of_two(size: float) -> float:
    """The power of two nearest to a positive number, in proportion."""
    return float(2.0 ** np.round(np.log2(size)))


def scale_pose(pose: Pose, unit: float) -> Pose:
    """A pose with its translation in a unit of length (m) instead of in metres."""
    return Pose(pose.rotation, pose.translation / unit)


def scale_robot(robot: Robot, unit: float) -> Robot:
    """The mechanism with lengths in a unit (m); gravity and parameters stay: it serves questions of geometry alone."""
    joints = [replace(j, origin=scale_pose(j.origin, unit), tip=scale_pose(j.tip, unit)) for j in robot.joints]
    return replace(robot, joints=tuple(joints))
