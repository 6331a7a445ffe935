"""Base values in the places of standard parameters, in working frames: the same dynamics with most parameters zero."""

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
    """(n, 10) parameters in the working frames that give the robot's torques, all but the survivors zero.

    They are no physical bodies (masses are zero), and energies differ by a constant of the configuration.
    """
    base = structural_base(change_link_frames(robot, [step.link for step in frames.steps]))
    return _place_base_values(base)


def reduced_parameters_on_moving_root(robot: Robot, frames: WorkingFrames) -> Array:
    """(n, 10) parameters in the working frames that give the robot's torques however its root moves."""
    links = [*[IDENTITY] * len(FREE_AXES), *(step.link for step in frames.steps)]
    return _place_base_values(structural_base(change_link_frames(mount_on_free_root(robot), links)))[len(FREE_AXES) :]


def _place_base_values(base: BaseParameters) -> Array:
    """The base values in the places of standard parameters."""
    # A sum of terms that cancel leaves their rounding: it is taken as zero, and vanishes from the trace.
    values, sizes = base.values, np.abs(base.matrix) @ np.abs(base.robot.phi)
    values = np.where(np.abs(values) <= SUM_ROUNDING * sizes, 0.0, values)
    return np.asarray((base.embedding @ values).reshape(-1, PARAMETERS_PER_LINK))


FREE_AXES: tuple[tuple[JointKind, int], ...] = (
    *(("prismatic", k) for k in range(3)),
    *(("revolute", k) for k in range(3)),
)
"""Three slides and three turns, by which a root reaches every pose near its own."""


def mount_on_free_root(robot: Robot) -> Robot:
    """The robot on six joints without mass, so that its root moves in every way; drives are left out."""
    names = [robot.root.name, *(f"{robot.root.name} moved {k + 1}" for k in range(len(FREE_AXES)))]
    carried = [
        Joint(f"root {k + 1}", kind, names[k], names[k + 1], IDENTITY, np.eye(3)[axis])
        for k, (kind, axis) in enumerate(FREE_AXES)
    ]
    own = [replace(one, parent=names[-1]) if one.parent == robot.root.name else one for one in robot.joints]
    massless = [Link(name, np.zeros(PARAMETERS_PER_LINK)) for name in names[1:]]
    joints, links = (*carried, *own), (*massless, *robot.links)
    return Robot(robot.name, robot.root, joints, links, robot.gravity)
