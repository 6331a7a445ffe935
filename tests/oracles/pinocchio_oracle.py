"""A Pinocchio model of a robot, built joint by joint without mindyn's equations."""

from __future__ import annotations

import numpy as np
import pinocchio as pin

from mindyn.robots.robot import Robot


def se3(pose) -> pin.SE3:
    return pin.SE3(np.array(pose.rotation), np.array(pose.translation))


def pinocchio_model(robot: Robot) -> pin.Model:
    """Joint i + 1 of the model is joint i of the robot; link frames are frames of the model."""
    model = pin.Model()
    model.gravity = pin.Motion(np.array(robot.gravity), np.zeros(3))
    tips: dict[int, pin.SE3] = {-1: pin.SE3.Identity()}
    for i, (joint, parent) in enumerate(zip(robot.joints, robot.parents, strict=True)):
        make = pin.JointModelRevoluteUnaligned if joint.kind == "revolute" else pin.JointModelPrismaticUnaligned
        index = model.addJoint(parent + 1, make(*joint.axis), tips[parent] * se3(joint.origin), joint.name)
        assert index == i + 1
        tips[i] = se3(joint.tip)
        model.appendBodyToJoint(index, pin.Inertia.FromDynamicParameters(robot.links[i].phi), tips[i])
        model.addFrame(pin.Frame(joint.child, index, 0, tips[i], pin.FrameType.OP_FRAME))
    return model


def body_parameter_map(tip) -> np.ndarray:
    """(10, 10): parameters in the joint frame of parameters in the link frame, column by column through Pinocchio."""
    X = se3(tip)
    pin.seed(0)
    inertias = [pin.Inertia.Random() for _ in range(40)]
    inner = np.column_stack([inertia.toDynamicParameters() for inertia in inertias])
    outer = np.column_stack([X.act(inertia).toDynamicParameters() for inertia in inertias])
    return np.linalg.lstsq(inner.T, outer.T, rcond=None)[0].T
