"""Classify joint axes by their direction relative to gravity and to the first revolute axis of their path.

On the path from the root to a joint, r is the first revolute joint and s the first revolute joint whose axis is not
parallel to that of r [Lin 1995, section II; Gautier & Khalil 1990: r1 and r2]. Links before s rotate about one fixed
direction only. In the frames of these links, this direction does not change with q, so that the home position
determines the groups.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from mindyn.foundation.algebra.rotations import PARALLEL_ANGLE_RAD
from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, RobotError
from mindyn.robots.joint_frames import HomeAxis, home_axes
from mindyn.robots.robot import Robot
from mindyn.robots.scale import length_unit, scale_robot

Group = Literal["sliding", "parallel", "spatial"]
"""sliding: before r, no rotation; parallel: r <= i < s, rotation about one direction; spatial: i >= s."""


@dataclass(frozen=True, slots=True)
class AxisGroup:
    """Group of a joint on its path.

    group    see `Group`
    first    (3,) u_r, the unit axis of joint r in the root frame at q = 0; None in the sliding group
    oblique  sigma: a prismatic joint of the parallel group whose axis is not parallel to u_r
    swings   delta: the acceleration of the joint's origin, minus gravity, has components perpendicular to its axis
    centre   (3,) in the root frame at q = 0: the point C on all axes up to this spatial joint, if there is no gravity
             and no earlier joint slides; C then never accelerates, and first moments about it have no effect
    """

    group: Group
    first: Array | None
    oblique: bool
    swings: bool
    centre: Array | None


def are_parallel(u: Array, v: Array) -> bool:
    """Return whether a unit vector and a vector are parallel or antiparallel; zero is parallel to every vector."""
    return bool(np.linalg.norm(np.cross(u, v)) <= PARALLEL_ANGLE_RAD * max(1.0, float(np.linalg.norm(v))))


def axis_groups(robot: Robot) -> tuple[AxisGroup, ...]:
    """Return the group of every joint on its path."""
    L = length_unit(robot)
    axes = home_axes(scale_robot(robot, L))
    groups = [_group(robot, axes, i) for i in range(len(robot.joints))]
    return tuple(g if g.centre is None else replace(g, centre=L * g.centre) for g in groups)


def _group(robot: Robot, axes: tuple[HomeAxis, ...], index: int) -> AxisGroup:
    path = robot.path(index)
    turning = [i for i in path if robot.joints[i].kind == "revolute"]
    if not turning:
        return AxisGroup("sliding", None, oblique=False, swings=True, centre=None)
    u = axes[turning[0]].axis
    if not all(are_parallel(u, axes[i].axis) for i in turning):
        return AxisGroup("spatial", u, oblique=False, swings=True, centre=_fixed_centre(robot, axes, path))
    slides = robot.joints[index].kind == "prismatic"
    oblique = slides and not are_parallel(u, axes[index].axis)
    swings = slides or not _is_at_rest(robot, axes, path, turning)
    return AxisGroup("parallel", u, oblique, swings, centre=None)


def _is_at_rest(robot: Robot, axes: tuple[HomeAxis, ...], path: tuple[int, ...], turning: list[int]) -> bool:
    """Return whether delta = 0: gravity and all earlier axes are parallel to u_r, and all revolute axes coincide."""
    u, point = axes[turning[0]].axis, axes[turning[0]].point
    along = all(are_parallel(u, axes[i].axis) for i in path[:-1]) and are_parallel(u, robot.gravity)
    return along and all(are_parallel(u, axes[i].point - point) for i in turning)


def _fixed_centre(robot: Robot, axes: tuple[HomeAxis, ...], path: tuple[int, ...]) -> Array | None:
    """Return C of the correction for g = 0: all joints of the path are revolute, with axes through one point."""
    if robot.gravity.any() or any(robot.joints[i].kind == "prismatic" for i in path):
        return None
    # The point nearest to all axes: sum of (E - z z^T) (C - p) = 0; axes of two directions make it unique.
    across = [np.eye(3) - np.outer(axes[i].axis, axes[i].axis) for i in path]
    points = [axes[i].point for i in path]
    pulls = [P @ p for P, p in zip(across, points, strict=True)]
    C: Array = np.linalg.lstsq(np.sum(across, axis=0), np.sum(pulls, axis=0), rcond=None)[0].astype(np.float64)
    distances = [np.linalg.norm(P @ (C - p)) for P, p in zip(across, points, strict=True)]
    return C if max(distances) <= PARALLEL_ANGLE_RAD * max(1.0, float(np.linalg.norm(C))) else None


def require_serial(robot: Robot, form: str) -> None:
    """Raise an error if the robot has branches or loops: the form describes serial chains only."""
    if not robot.is_serial:
        branches = [joint.name for i, joint in enumerate(robot.joints) if robot.parents[i] != i - 1]
        raise RobotError(
            f"form {form!r} is for serial chains, and robot {robot.name!r} branches at joint {branches[0]!r}",
            hint='use form="structural", which is exact for any tree, or form="gautier"',
            code=Code.UNSUPPORTED,
            subject=form,
        )
    require_no_loops(robot, form)


def require_no_loops(robot: Robot, form: str) -> None:
    """Raise an error if the robot has closed loops."""
    if robot.has_dependents:
        raise RobotError(
            f"form {form!r} is for open chains, and robot {robot.name!r} has {robot.dependence}",
            hint='use form="numeric" for the closed loops, or form="structural" for the open tree',
            code=Code.UNSUPPORTED,
            subject=form,
        )


def note_far_joints(far: tuple[str, ...]) -> tuple[str, ...]:
    """Return a note on joints whose DH frame is far away, because a large distance makes coefficients large."""
    if not far:
        return ()
    return (
        f"the joint frames of {', '.join(far)} are over a hundred arm lengths away as two axes are nearly parallel: "
        'coefficients are large and digits are lost; form="structural" does not need such frames',
    )
