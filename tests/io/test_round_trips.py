"""Robots survive files: TOML exactly, URDF and MJCF up to rounding."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pinocchio as pin
import pytest
from closeness import ORACLE, ROUND_TRIP, assert_close, assert_negligible
from robots import random_motion, random_pose, random_robot, with_random_drives

from mindyn import bundled_robots, load_robot, write_mjcf, write_toml, write_urdf
from mindyn.equations.catalogue import build_equation
from mindyn.identification.estimators.estimate_files import robot_from_record, robot_record
from mindyn.robots import Loop
from mindyn.robots.description import Selection
from mindyn.robots.parts import ExtraTorque, Frame, Limits, Link, Shape
from mindyn.robots.table import robot_table


def full_robot(seed):
    """Return a robot with everything that a file can contain: drives, frames, shapes, a loop, unusual names."""
    rng = np.random.default_rng(seed)
    robot = with_random_drives(random_robot(seed, joints=5), seed)
    shapes = (
        Shape("box", (0.1, 0.2, 0.3), random_pose(rng)),
        Shape("sphere", (0.1,)),
        Shape("cylinder", (0.1, 0.5), random_pose(rng)),
        Shape("mesh", (1.0, 1.0, -1.0), random_pose(rng), 'pkg://a "b"/c\\d.stl'),
    )
    links = (*robot.links[:4], Link("link5", robot.links[4].phi, shapes))
    frames = (Frame('tool "0"\n', "link5", random_pose(rng)), Frame("käse", "base", random_pose(rng)))
    loop = Loop("pin", "link2", "link5", random_pose(rng), random_pose(rng), ("joint3",))
    return replace(robot, links=links, frames=frames, loops=(loop,), source="x\ty")


@pytest.mark.parametrize("seed", range(20))
def test_toml_is_exact(seed, tmp_path):
    robot = full_robot(seed)
    write_toml(robot, tmp_path / "robot.toml")
    again = load_robot(tmp_path / "robot.toml", snap=False)
    assert again == robot
    assert again.source == robot.source
    assert hash(again) == hash(robot)


def test_the_record_of_an_estimate_is_exact():
    robot = full_robot(0)
    root = Link("base", robot.links[0].phi, robot.links[4].shapes)
    spring = ExtraTorque("spring", robot.joint_names[0], "sin(q)", 2.5)
    robot = replace(robot, root=root, extras=(spring,))
    again = robot_from_record(json.loads(json.dumps(robot_record(robot))))
    assert again == robot
    assert again.source == robot.source
    standing = replace(robot, home=[0.1, -0.2, 0.3, 0.4, 0.5], selection=Selection({"grasp": 0.02}, tip="link5"))
    again = robot_from_record(json.loads(json.dumps(robot_record(standing))))
    assert (again, again.selection) == (standing, standing.selection)


@pytest.mark.parametrize("name", bundled_robots())
def test_toml_of_bundled_robots_is_exact_even_with_snapping(name, tmp_path):
    robot = load_robot(name)
    write_toml(robot, tmp_path / "robot.toml")
    assert load_robot(tmp_path / "robot.toml") == robot


def assert_same_robot(actual, expected):
    """Compare joints and links up to rounding, in the same link frames."""
    assert actual.joint_names == expected.joint_names
    assert actual.link_names == expected.link_names
    assert actual.parents == expected.parents
    for a, b in zip(actual.joints, expected.joints, strict=True):
        assert a.kind == b.kind
        assert_close((a.origin @ a.tip).matrix, (b.origin @ b.tip).matrix, ROUND_TRIP)
        assert_close(a.tip.rotation.T @ a.axis, b.tip.rotation.T @ b.axis, ROUND_TRIP)
        assert (a.limits.lower, a.limits.upper, a.limits.effort) == (b.limits.lower, b.limits.upper, b.limits.effort)
    for a, b in zip(actual.links, expected.links, strict=True):
        assert_close(a.phi, b.phi, ROUND_TRIP)
    q = random_motion(expected, 0)[0]
    for link in expected.link_names:
        pose = np.array(build_equation(expected, "forward_kinematics", link=link)(q))
        assert_close(np.array(build_equation(actual, "forward_kinematics", link=link)(q)), pose, 10 * ROUND_TRIP)


@pytest.mark.parametrize("seed", range(20))
def test_urdf_preserves_the_robot(seed, tmp_path):
    robot = random_robot(seed)
    write_urdf(robot, tmp_path / "robot.urdf")
    again = load_robot(tmp_path / "robot.urdf", snap=False, gravity=robot.gravity)
    # A link frame away from its joint is read back as a frame of that name on the link of the joint.
    if any(not joint.tip.is_identity for joint in robot.joints):
        q, qd, qdd = random_motion(robot, seed)
        expected = np.array(build_equation(robot, "inverse_dynamics")(q, qd, qdd))
        assert_close(np.array(build_equation(again, "inverse_dynamics")(q, qd, qdd)), expected, ORACLE)
        pose = np.array(build_equation(robot, "forward_kinematics", link=robot.link_names[-1])(q))
        again_pose = build_equation(again, "forward_kinematics", link=robot.link_names[-1])
        assert_close(np.array(again_pose(q)), pose, 10 * ROUND_TRIP)
    else:
        assert_same_robot(again, robot)


@pytest.mark.parametrize("seed", range(20))
def test_mjcf_preserves_the_robot(seed, tmp_path):
    robot = random_robot(seed)
    write_mjcf(robot, tmp_path / "robot.xml")
    again = load_robot(tmp_path / "robot.xml", snap=False)
    assert_close(again.gravity + 1, robot.gravity + 1, ROUND_TRIP)
    assert_same_robot(again, robot)


def test_urdf_keeps_friction_shapes_and_frames(tmp_path):
    robot = load_robot("panda")
    drives = with_random_drives(robot, 1).drives
    drives = tuple(replace(d, ratio=1.0, coupling={}, rotor_inertia=0.0, offset=0.0, side="joint") for d in drives)
    shaped = Link("link7", robot.links[6].phi, (Shape("sphere", (0.25,)), Shape("capsule", (0.1, 0.2))))
    robot = replace(robot, drives=drives, links=(*robot.links[:6], shaped))
    write_urdf(robot, tmp_path / "robot.urdf")
    again = load_robot(tmp_path / "robot.urdf")
    assert again.drives == robot.drives
    assert again.links[6].shapes == robot.links[6].shapes
    assert again.locate("flange")[0] == 6
    assert_negligible(again.locate("flange")[1].translation - [0, 0, 0.107], 1.0, ROUND_TRIP)
    assert again.joints[0].limits.velocity == robot.joints[0].limits.velocity


def test_continuous_joints_stay_continuous(tmp_path):
    robot = random_robot(3, joints=3, tree=False)
    limits = Limits(velocity=2.0, effort=30.0, continuous=True)
    joints = (replace(robot.joints[0], kind="revolute", limits=limits), *robot.joints[1:])
    robot = replace(robot, joints=joints, gravity=np.array([0, 0, -9.81]))
    write_toml(robot, tmp_path / "robot.toml")
    assert load_robot(tmp_path / "robot.toml", snap=False) == robot
    write_urdf(robot, tmp_path / "robot.urdf")
    assert 'type="continuous"' in (tmp_path / "robot.urdf").read_text()
    assert load_robot(tmp_path / "robot.urdf", snap=False).joints[0].limits == limits
    assert robot_from_record(robot_record(robot)).joints[0].limits == limits
    assert "continuous" in robot_table(robot)


@pytest.mark.parametrize("seed", range(10))
def test_pinocchio_reads_the_same_robot_from_our_urdf(seed, tmp_path):
    robot = random_robot(seed, gravity=(0.0, 0.0, -9.81))
    write_urdf(robot, tmp_path / "robot.urdf")
    model = pin.buildModelFromUrdf(str(tmp_path / "robot.urdf"))
    order = [model.getJointId(name) - 1 for name in robot.joint_names]
    q, qd, qdd = random_motion(robot, seed)
    state = [np.zeros(robot.joint_count) for _ in range(3)]
    for target, source in zip(state, (q, qd, qdd), strict=True):
        target[order] = source
    # Joints without a range are written as continuous, which Pinocchio stores as cos, sin; all joints here have one.
    expected = pin.rnea(model, model.createData(), *state)[order]
    assert_close(np.array(build_equation(robot, "inverse_dynamics")(q, qd, qdd)).ravel(), expected, ORACLE)
