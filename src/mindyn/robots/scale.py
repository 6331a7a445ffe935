"""Characteristic length of a robot, for tolerances: a length that is negligible on a crane may be an arm in a watch."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from mindyn.foundation.algebra.poses import Pose
from mindyn.robots.robot import Robot

MIN_REACH_M: Final = 1e-6
"""A shorter reach is a rounding error of the file, not a length of the robot."""


def reach(robot: Robot) -> float:
    """Return the longest path of offsets from a first joint outwards, m. The position of the base has no effect."""
    far: dict[int, float] = {}
    for i, (joint, parent) in enumerate(zip(robot.joints, robot.parents, strict=True)):
        before = far[parent] + float(np.linalg.norm(joint.origin.translation)) if parent >= 0 else 0.0
        far[i] = before + float(np.linalg.norm(joint.tip.translation))
    return max(far.values())


def length_unit(robot: Robot) -> float:
    """Return the length unit: the power of two nearest to the reach, m, because division by it is exact; 1 m if the
    robot has no length.
    """
    longest = reach(robot)
    return nearest_power_of_two(longest) if longest >= MIN_REACH_M else 1.0


def nearest_power_of_two(size: float) -> float:
    """Return the power of two whose ratio to a positive number is nearest to 1."""
    return float(2.0 ** np.round(np.log2(size)))


def scale_pose(pose: Pose, unit: float) -> Pose:
    """Return a pose with its translation in a length unit (m) instead of metres."""
    return Pose(pose.rotation, pose.translation / unit)


def scale_robot(robot: Robot, unit: float) -> Robot:
    """Return the mechanism with lengths in a unit (m).

    Gravity and parameters are unchanged, so that only the geometry is valid.
    """
    joints = [replace(j, origin=scale_pose(j.origin, unit), tip=scale_pose(j.tip, unit)) for j in robot.joints]
    return replace(robot, joints=tuple(joints))
