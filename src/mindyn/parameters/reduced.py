"""Base values in the places of standard parameters, in working frames: the same dynamics with most parameters zero."""

from __future__ import annotations

import numpy as np

from mindyn.algebra.values import Array
from mindyn.notation import PARAMETERS_PER_LINK
from mindyn.parameters.structural import structural_base
from mindyn.robots.edits import described_in
from mindyn.robots.joint_frames import WorkingFrames
from mindyn.robots.robot import Robot

ROUNDING = 16 * float(np.finfo(float).eps)


def reduced_parameters(robot: Robot, frames: WorkingFrames) -> Array:
    """(n, 10) parameters in the working frames that give the robot's torques, all but the survivors zero.

    They are no physical bodies (masses are zero), and energies differ by a constant of the configuration.
    """
    base = structural_base(described_in(robot, [step.link for step in frames.steps]))
    # A sum of terms that cancel leaves their rounding: it is taken as zero, and vanishes from the trace.
    values, sizes = base.values, np.abs(base.matrix) @ np.abs(base.robot.phi)
    values = np.where(np.abs(values) <= ROUNDING * sizes, 0.0, values)
    return np.asarray((base.embedding @ values).reshape(-1, PARAMETERS_PER_LINK))
