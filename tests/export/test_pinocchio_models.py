"""`to_pinocchio`: Pinocchio's functions of the model equal the kernels of the robot."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pinocchio as pin
import pytest
from closeness import ORACLE, assert_close
from raising import raises
from robots import random_motion, random_pose, random_robot

import mindyn
from mindyn.foundation.errors import Code, ExportError, MissingExtraError, MissingPhysicsError
from mindyn.robots.parts import Drive, Frame, Mimic

SEEDS = range(12)


def test_the_random_robots_include_chains_trees_and_both_joint_kinds():
    robots = [random_robot(seed) for seed in SEEDS]
    assert {robot.is_serial for robot in robots} == {True, False}
    assert {joint.kind for robot in robots for joint in robot.joints} == {"revolute", "prismatic"}
    assert {joint.tip.is_identity for robot in robots for joint in robot.joints} == {True, False}


@pytest.mark.parametrize("seed", SEEDS)
def test_torques_and_inertia_matrix_equal_the_kernels(seed):
    robot = random_robot(seed)
    ours, model = mindyn.compile_model(robot), mindyn.to_pinocchio(robot)
    data = model.createData()
    q, qd, qdd = random_motion(robot, seed)
    assert_close(pin.rnea(model, data, q, qd, qdd), ours.inverse_dynamics(q, qd, qdd), ORACLE)
    upper = np.triu(pin.crba(model, data, q))
    assert_close(upper + np.triu(upper, 1).T, ours.inertia_matrix(q), ORACLE)


def with_tools(seed):
    """Return a tree whose link frames are not at the joints, with a frame on every link."""
    robot, rng = random_robot(seed, joints=4, tree=True, tips=True), np.random.default_rng(seed)
    frames = tuple(Frame(f"tool_{name}", name, random_pose(rng)) for name in robot.link_names)
    return replace(robot, frames=frames)


@pytest.mark.parametrize("robot", [mindyn.load_robot("panda", mount="wall"), with_tools(1), with_tools(2)])
def test_order_limits_gravity_and_frames_are_kept(robot):
    model = mindyn.to_pinocchio(robot)
    assert list(model.names)[1:] == list(robot.joint_names)
    np.testing.assert_array_equal(model.gravity.linear, robot.gravity)
    for k, joint in enumerate(robot.joints):
        lower, upper, effort = joint.limits.lower, joint.limits.upper, joint.limits.effort
        assert model.lowerPositionLimit[k] == (-np.inf if lower is None else lower)
        assert model.upperPositionLimit[k] == (np.inf if upper is None else upper)
        assert model.upperEffortLimit[k] == (np.inf if effort is None else effort)
    ours, data = mindyn.compile_model(robot), model.createData()
    q = random_motion(robot, 0)[0]
    pin.framesForwardKinematics(model, data, q)
    for place in (*robot.link_names, *(frame.name for frame in robot.frames)):
        X = data.oMf[model.getFrameId(place)].homogeneous
        assert_close(X, ours.forward_kinematics(q, place), ORACLE)


def test_robots_that_pinocchio_cannot_express_are_rejected():
    with raises(ExportError, Code.UNSUPPORTED, "five_bar"):
        mindyn.to_pinocchio(mindyn.load_robot("five_bar"))
    chain = random_robot(3, joints=4, tree=False)
    parents = ("base", "link1", "base", "link2")
    joints = tuple(replace(joint, parent=parent) for joint, parent in zip(chain.joints, parents, strict=True))
    with raises(ExportError, Code.UNSUPPORTED, "joint4"):
        mindyn.to_pinocchio(replace(chain, joints=joints))
    moment = mindyn.Link("link1", np.eye(10)[1])
    with raises(ExportError, Code.NOT_FEASIBLE, "link1"):
        mindyn.to_pinocchio(replace(chain, links=(moment, *chain.links[1:])))
    with raises(MissingPhysicsError, Code.MISSING_VALUE, "link1"):
        mindyn.to_pinocchio(replace(chain, links=(mindyn.Link("link1"), *chain.links[1:])))


def test_without_pinocchio_the_error_names_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "pinocchio", None)
    with raises(MissingExtraError, Code.MISSING_PACKAGE, "pinocchio"):
        mindyn.to_pinocchio(mindyn.load_robot("planar2"))


def test_drives_become_armature_damping_and_friction():
    """Check that rnea includes rotors, and that damping and dry friction are the rest of our torques."""
    robot = mindyn.load_robot("planar2")
    drives = [Drive(name, 3.0, {}, 0.2, 0.5, 0.7, 0.0, "motor") for name in robot.joint_names]
    robot = replace(robot, drives=tuple(drives))
    model = mindyn.to_pinocchio(robot, with_drives=True)
    q, qd, qdd = np.array([0.3, -0.5]), np.array([1.0, -2.0]), np.array([0.4, 0.9])
    tau = pin.rnea(model, model.createData(), q, qd, qdd)
    tau = tau + model.damping * qd + model.upperDryFrictionLimit * np.sign(qd)
    assert_close(tau, mindyn.compile_model(robot, with_drives=True).inverse_dynamics(q, qd, qdd), ORACLE)
    with raises(ExportError, Code.UNSUPPORTED, "planar2") as raised:
        mindyn.to_pinocchio(replace(robot, drives=(Drive("joint1", offset=2.0),)), with_drives=True)
    assert "'joint1' (2 N m)" in raised.value.message


def test_mimic_joints_follow_through_chains_with_their_drives():
    """Check a chain of mimic joints, of which one comes before the joint it follows, with rotors."""
    chain = random_robot(8, joints=5, tree=False)
    mimics = (Mimic("joint3", "joint5", -1.7, 0.3), Mimic("joint5", "joint2", 0.5, -0.2))
    robot = replace(chain, mimics=mimics)
    drives = tuple(Drive(name, -3.0, {}, 0.2, 0.5, 0.7, 0.0, "motor") for name in robot.joint_names)
    model = mindyn.to_pinocchio(robot)
    q, qd, qdd = np.random.default_rng(2).normal(size=(3, 3))
    ours = mindyn.compile_model(robot)
    assert_close(pin.rnea(model, model.createData(), q, qd, qdd), ours.inverse_dynamics(q, qd, qdd), ORACLE)
    M = pin.crba(model, model.createData(), q)
    assert_close(np.triu(M) + np.triu(M, 1).T, ours.inertia_matrix(q), ORACLE)
    geared = replace(robot, drives=drives)
    model = mindyn.to_pinocchio(geared, with_drives=True)
    added = np.array(model.damping * qd + model.upperDryFrictionLimit * np.sign(qd) + model.armature * qdd)
    whole = mindyn.compile_model(geared, with_drives=True).inverse_dynamics(q, qd, qdd)
    assert_close(ours.inverse_dynamics(q, qd, qdd) + added, whole, ORACLE)
    with raises(ExportError, Code.UNSUPPORTED, "joint2"):
        mindyn.to_pinocchio(replace(chain, mimics=(Mimic("joint2", "joint4"),)))
