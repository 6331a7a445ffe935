"""Standard parameters in working frames that have the values of the base parameters: same torques, most entries
zero.
"""

from __future__ import annotations

import numpy as np

from mindyn.foundation.algebra.poses import IDENTITY
from mindyn.foundation.algebra.values import Array
from mindyn.foundation.notation import PARAMETERS_PER_LINK
from mindyn.parameters.base_parameters import BaseParameters
from mindyn.parameters.structural import structural_base
from mindyn.robots.edits import change_link_frames
from mindyn.robots.floating_base import BASE_COUNT, add_floating_base
from mindyn.robots.joint_frames import WorkingFrames
from mindyn.robots.parts import Link
from mindyn.robots.robot import Robot

SUM_ROUNDING = 16 * float(np.finfo(float).eps)


def reduced_parameters(robot: Robot, frames: WorkingFrames) -> Array:
    """Return parameters (n, 10) in the working frames that give the robot's torques.

    Only the survivors are not zero.

    These parameters do not describe physical bodies (masses are zero), and energies differ by a function of the
    configuration.
    """
    base = structural_base(change_link_frames(robot, [step.link for step in frames.steps]))
    return _place_base_values(base)


def reduced_parameters_on_moving_root(robot: Robot, frames: WorkingFrames) -> Array:
    """Return parameters (n, 10) in the working frames that give the robot's torques for any motion of its root."""
    massless = Link(robot.root.name, np.zeros(PARAMETERS_PER_LINK))
    free = add_floating_base(Robot(robot.name, massless, robot.joints, robot.links, robot.gravity))
    links = [*[IDENTITY] * BASE_COUNT, *(step.link for step in frames.steps)]
    return _place_base_values(structural_base(change_link_frames(free, links)))[BASE_COUNT:]


def _place_base_values(base: BaseParameters) -> Array:
    """Return a vector of standard parameters in which each base value takes the position of its survivor."""
    # Terms that cancel leave rounding errors: set them to zero, so that they vanish from the trace.
    values, sizes = base.values, np.abs(base.matrix) @ np.abs(base.robot.phi)
    values = np.where(np.abs(values) <= SUM_ROUNDING * sizes, 0.0, values)
    return np.asarray((base.embedding @ values).reshape(-1, PARAMETERS_PER_LINK))
