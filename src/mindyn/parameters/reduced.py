"""Base values in the places of standard parameters, in working frames: the same dynamics with most parameters zero."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mindyn.algebra.values import Array
from mindyn.notation import PARAMETERS_PER_LINK
from mindyn.parameters.structural import structural_base
from mindyn.robots.joint_frames import WorkingFrames
from mindyn.robots.parts import Link
from mindyn.robots.robot import Robot


def reduced_parameters(robot: Robot, frames: WorkingFrames) -> Array:
    """(n, 10) parameters in the working frames that give the robot's torques, all but the survivors zero.

    They are no physical bodies (masses are zero), and energies differ by a constant of the configuration.
    """
    base = structural_base(in_working_frames(robot, frames))
    return np.asarray((base.embedding @ base.values).reshape(-1, PARAMETERS_PER_LINK))


def in_working_frames(robot: Robot, frames: WorkingFrames) -> Robot:
    """The same mechanism described in its working frames, the parameters moved along."""
    to_source = {robot.root.name: None, **dict(zip(robot.link_names, (s.link for s in frames.steps), strict=True))}
    joints = []
    for joint in robot.joints:
        parent, child = to_source[joint.parent], to_source[joint.child]
        origin = joint.origin if parent is None else parent @ joint.origin
        tip = joint.tip if child is None else joint.tip @ child.inverse()
        joints.append(replace(joint, origin=origin, tip=tip))
    links = [
        Link(k.name, s.phi_map @ k.phi) for k, s in zip(robot.links, frames.steps, strict=True) if k.phi is not None
    ]
    return replace(robot, joints=tuple(joints), links=tuple(links), frames=(), loops=())
