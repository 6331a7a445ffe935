"""Laws of robot edits: locked joints stand still, payloads add up, chains move as parts of the robot."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from closeness import SAME_ALGEBRA, assert_close
from messages import messages
from raising import raises
from robots import OBLIQUE, random_motion, random_phi, random_robot, with_random_drives

from mindyn import load_robot
from mindyn.equations.catalogue import build_equation
from mindyn.foundation.algebra.inertia import mass_com_inertia, transform_phi
from mindyn.foundation.algebra.poses import Pose
from mindyn.foundation.errors import Code, RobotError
from mindyn.robots.joint_frames import modified_dh, working_frames
from mindyn.robots.parts import Frame, Link

SEEDS = range(30)


def torques(robot, q, qd, qdd, **options) -> np.ndarray:
    return np.array(build_equation(robot, "inverse_dynamics", **options)(q, qd, qdd)).ravel()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_locked_joint_is_a_joint_that_stands_still(seed):
    robot = with_random_drives(random_robot(seed, joints=6), seed)
    robot = replace(robot, drives=tuple(replace(drive, coupling={}) for drive in robot.drives))
    q, qd, qdd = (v.copy() for v in random_motion(robot, seed))
    held = {"joint2": q[1], "joint5": q[4]}
    qd[[1, 4]] = qdd[[1, 4]] = 0
    locked = robot.lock(held)
    kept = [robot.joint_index(name) for name in locked.joint_names]
    assert locked.joint_count == 4
    for drives in (False, True):
        expected = torques(robot, q, qd, qdd, with_drives=drives)[kept]
        assert_close(torques(locked, q[kept], qd[kept], qdd[kept], with_drives=drives), expected, SAME_ALGEBRA)
    pose = np.array(build_equation(robot, "forward_kinematics", link="link5")(q))
    assert_close(np.array(build_equation(locked, "forward_kinematics", link="link5")(q[kept])), pose, SAME_ALGEBRA)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_payload_adds_the_parameters_of_its_body(seed):
    rng = np.random.default_rng(seed)
    robot = random_robot(seed, joints=5, tree=False)
    X = Pose(None, (0.1, -0.2, 0.3))
    robot = replace(robot, frames=(Frame("tool", "link5", X),))
    load = random_phi(rng)
    loaded = robot.with_payload(*mass_com_inertia(load), at="tool")
    links = (*robot.links[:4], Link("link5", robot.links[4].phi + transform_phi(X, load)))
    q, qd, qdd = random_motion(robot, seed)
    assert_close(torques(loaded, q, qd, qdd), torques(replace(robot, links=links), q, qd, qdd), SAME_ALGEBRA)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_subchain_moves_as_the_robot_with_the_rest_locked_and_massless(seed):
    robot = random_robot(seed, joints=6, tree=False, gravity=OBLIQUE)
    part = robot.subchain("link2", "link5")
    assert part.joint_names == ("joint3", "joint4", "joint5")
    q, qd, qdd = random_motion(part, seed)
    links = (*robot.links[:5], Link("link6", np.zeros(10)))
    whole = replace(robot, links=links)
    spread = [np.concatenate([[0, 0], v, [0]]) for v in (q, qd, qdd)]
    assert_close(torques(part, q, qd, qdd), torques(whole, *spread)[2:5], SAME_ALGEBRA)


def test_mounting_turns_gravity():
    floor, ceiling = load_robot("puma560"), load_robot("puma560", mount="ceiling")
    assert ceiling.gravity.tolist() == [0.0, 0.0, 9.81]
    assert load_robot("puma560", gravity=(0, 0, 9.81)) == ceiling
    assert floor != ceiling
    wall = load_robot("puma560", mount="wall")
    assert wall.gravity.tolist() == [9.81, 0.0, 0.0]


@pytest.mark.parametrize("seed", range(60))
def test_modified_dh_rows_rebuild_the_kinematics(seed):
    robot = random_robot(seed)
    dh = modified_dh(robot)
    q = random_motion(robot, seed)[0]
    placed: list[Pose] = []
    for i, (row, parent) in enumerate(zip(dh.rows, dh.parents, strict=True)):
        turn = np.eye(3)
        move = np.zeros(3)
        if robot.joints[i].kind == "revolute":
            turn = np.array([[np.cos(q[i]), -np.sin(q[i]), 0], [np.sin(q[i]), np.cos(q[i]), 0], [0, 0, 1]])
        else:
            move[2] = q[i]
        before = dh.base if parent < 0 else placed[parent]
        placed.append(before @ row.pose @ Pose(turn, move))
        link = placed[i] @ dh.links[i]
        expected = np.array(build_equation(robot, "forward_kinematics", link=robot.link_names[i])(q))
        assert_close(link.matrix, expected, 1e-9)
        if robot.is_serial:
            assert row.gamma == row.b == 0


def test_the_frames_of_a_modified_dh_file_are_kept():
    dh = modified_dh(load_robot("puma560"))
    assert [round(np.degrees(row.alpha)) for row in dh.rows] == [0, -90, 0, 90, -90, 90]
    assert [row.a for row in dh.rows] == pytest.approx([0, 0, 0.4318, -0.0203, 0, 0])
    assert [row.d for row in dh.rows] == pytest.approx([0, 0.2435, -0.0934, 0.4331, 0, 0])
    assert all(link.is_identity for link in dh.links)


def test_nearly_parallel_axes_cost_no_digits():
    text_axes = load_robot("puma560")
    joints = list(text_axes.joints)
    tilt = 7e-6
    R = np.array([[np.cos(tilt), 0, np.sin(tilt)], [0, 1, 0], [-np.sin(tilt), 0, np.cos(tilt)]])
    joints[2] = replace(joints[2], origin=Pose(joints[2].origin.rotation @ R, joints[2].origin.translation))
    robot = replace(text_axes, joints=tuple(joints))
    assert max(np.abs(step.translation).max() for step in working_frames(robot).steps) < 1.0
    assert "joint2" in modified_dh(robot).far
    q, qd, qdd = random_motion(robot, 1)
    exact = torques(text_axes, q, qd, qdd)
    assert 1e-8 < np.abs(torques(robot, q, qd, qdd) - exact).max() / np.abs(exact).max() < 1e-4


def test_a_joint_whose_motor_also_turns_with_another_cannot_be_locked():
    with raises(RobotError, Code.INVALID_STRUCTURE, "joint6"):
        load_robot("puma560_yoshida").lock({"joint6": 0.0})
    assert load_robot("puma560_yoshida").lock({"joint1": 0.0}).joint_count == 5


def test_a_link_with_unknown_parameters_makes_its_carrier_unknown():
    robot = random_robot(1, joints=3, tree=False)
    robot = replace(robot, links=(robot.links[0], robot.links[1], Link("link3")))
    locked = robot.lock({"joint3": 0.1})
    assert locked.links[1].phi is None
    assert locked.links[0].phi is not None


def test_a_chain_may_start_at_a_merged_base(tmp_path):
    (tmp_path / "arm.urdf").write_text(
        """<robot name="arm"><link name="world"/><link name="base_link"/><link name="l1"/>
        <joint name="f" type="fixed"><parent link="world"/><child link="base_link"/></joint>
        <joint name="j" type="continuous"><parent link="base_link"/><child link="l1"/><axis xyz="0 0 1"/></joint>
        </robot>"""
    )
    assert load_robot(tmp_path / "arm.urdf").subchain("base_link", "l1").joint_names == ("j",)
    cut = load_robot("five_bar").subchain("base", "link3")
    assert cut.loops == ()
    assert "loop" in str(messages(cut)[0])


def test_motors_follow_the_order_of_the_joints():
    robot = load_robot("planar2")
    assert replace(robot, drives=robot.drives[::-1]) == robot
