"""Pinocchio's model of a robot, for benchmarks: the same links, joints and gravity."""

from __future__ import annotations

import numpy as np
import pinocchio as pin

from mindyn.algebra.inertia import mass_com_inertia
from mindyn.robots.robot import Robot


def pinocchio_model(robot: Robot) -> pin.Model:
    """Joint i + 1 of the model is joint i of the robot."""
    model = pin.Model()
    model.gravity = pin.Motion(np.array(robot.gravity), np.zeros(3))
    tips = {-1: pin.SE3.Identity()}
    for i, (joint, parent) in enumerate(zip(robot.joints, robot.parents, strict=True)):
        place = tips[parent] * pin.SE3(np.array(joint.origin.rotation), np.array(joint.origin.translation))
        index = model.addJoint(parent + 1, _joint_model(joint), place, joint.name)
        tips[i] = pin.SE3(np.array(joint.tip.rotation), np.array(joint.tip.translation))
        mass, com, inertia = mass_com_inertia(robot.links[i].phi)
        model.appendBodyToJoint(index, pin.Inertia(mass, com, inertia), tips[i])
    return model


def _joint_model(joint) -> object:
    """Pinocchio's fastest joint of the kind: the one made for a coordinate axis, where the axis is one."""
    kind = "R" if joint.kind == "revolute" else "P"
    for axis, letter in zip(np.eye(3), "XYZ", strict=True):
        if (joint.axis == axis).all():
            return getattr(pin, f"JointModel{kind}{letter}")()
    name = "Revolute" if kind == "R" else "Prismatic"
    return getattr(pin, f"JointModel{name}Unaligned")(*joint.axis)
