"""Base values in the positions of standard parameters, in working frames: equal dynamics, most values zero."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mindyn.algebra.poses import IDENTITY
from mindyn.algebra.values import Array
from mindyn.notation import PARAMETERS_PER_LINK
from mindyn.parameters.base import BaseParameters
from mindyn.parameters.structural import structural_base
from mindyn.robots.edits import change_link_frames
from mindyn.robots.joint_frames import WorkingFrames
from mindyn.robots.parts import Joint, JointKind, Link
from mindyn.robots.robot import Robot

SUM_ROUNDING = 16 * float(np.finfo(float).eps)


def reduced_parameters(robot: Robot, frames: WorkingFrames) -> Array:
    """Return parameters (n, 10) in the working frames that give the robot's torques, zero except for the survivors.

    They do not describe physical bodies (masses are zero), and energies differ by a function of the configuration.
    """
    base = structural_base(change_link_frames(robot, [step.link for step in frames.steps]))
    return _place_base_values(base)


def reduced_parameters_on_moving_root(robot: Robot, frames: WorkingFrames) -> Array:
    """Return parameters (n, 10) in the working frames that give the robot's torques for any motion of its root."""
    links = [*[IDENTITY] * len(FREE_AXES), *(step.link for step in frames.steps)]
    return _place_base_values(structural_base(change_link_frames(mount_on_free_root(robot), links)))[len(FREE_AXES) :]


def _place_base_values(base: BaseParameters) -> Array:
    """Return the base values in the positions of standard parameters."""
    # Terms that cancel leave rounding errors: set them to zero, so that they vanish from the trace.
    values, sizes = base.values, np.abs(base.matrix) @ np.abs(base.robot.phi)
    values = np.where(np.abs(values) <= SUM_ROUNDING * sizes, 0.0, values)
    return np.asarray((base.embedding @ values).reshape(-1, PARAMETERS_PER_LINK))


FREE_AXES: tuple[tuple[JointKind, int], ...] = (
    *(("prismatic", k) for k in range(3)),
    *(("revolute", k) for k in range(3)),
)
"""Three prismatic and three revolute joints, which move a root to every nearby pose."""


def mount_on_free_root(robot: Robot) -> Robot:
    """Return the robot, without drives, on six massless joints, so that its root moves freely."""
    names = [robot.root.name, *(f"{robot.root.name} moved {k + 1}" for k in range(len(FREE_AXES)))]
    carried = [
        Joint(f"root {k + 1}", kind, names[k], names[k + 1], IDENTITY, np.eye(3)[axis])
        for k, (kind, axis) in enumerate(FREE_AXES)
    ]
    joints_of_robot = [
        replace(joint, parent=names[-1]) if joint.parent == robot.root.name else joint for joint in robot.joints
    ]
    massless = [Link(name, np.zeros(PARAMETERS_PER_LINK)) for name in names[1:]]
    joints, links = (*carried, *joints_of_robot), (*massless, *robot.links)
    return Robot(robot.name, robot.root, joints, links, robot.gravity)
