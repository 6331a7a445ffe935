"""Rotor inertia and gear ratio in Drake's URDF tags: the reflected inertia is ratio^2 * rotor inertia."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from closeness import SAME_ALGEBRA, assert_close
from messages import messages

import mindyn

LINK = """<link name="{}"><inertial><origin xyz="0.1 0 0"/><mass value="2"/>
<inertia ixx="0.1" ixy="0" ixz="0" iyy="0.1" iyz="0" izz="0.1"/></inertial></link>"""
JOINT = """<joint name="{}" type="continuous"><parent link="{}"/><child link="{}"/><axis xyz="0 1 0"/>{}</joint>"""
ACTUATED = """<transmission name="t_{0}"><actuator name="m"><drake:rotor_inertia value="{1}"/>
<drake:gear_ratio value="{2}"/></actuator><joint name="{0}"/>{3}</transmission>"""


def robot_file(path, *transmissions):
    parts = ['<link name="root"/>', LINK.format("a"), LINK.format("b")]
    parts += [JOINT.format("j1", "root", "a", '<dynamics damping="0.3"/>'), JOINT.format("j2", "a", "b", "")]
    path.write_text(f'<robot name="r">{"".join((*parts, *transmissions))}</robot>')
    return path


@pytest.fixture
def source(tmp_path):
    return robot_file(tmp_path / "r.urdf", ACTUATED.format("j1", 1e-5, 100, ""), ACTUATED.format("j2", 2e-5, -50, ""))


def test_rotor_inertia_is_reflected_and_damping_is_kept(source):
    robot = mindyn.load_robot(source)
    q = np.zeros(2)
    added = mindyn.compile_model(robot, with_drives=True).inertia_matrix(q) - mindyn.compile_model(
        robot
    ).inertia_matrix(q)
    assert_close(added, np.diag([0.1, 0.05]), 1e-12)
    assert robot.drives[0].viscous == 0.3
    assert [drive.joint for drive in mindyn.load_robot(source, lock={"j2": 0.0}).drives] == ["j1"]


def test_rotor_inertias_are_written_and_edited(source, tmp_path):
    robot = mindyn.load_robot(source)
    mindyn.write_urdf(robot, tmp_path / "new.urdf", force=True)
    assert mindyn.load_robot(tmp_path / "new.urdf").drives == robot.drives
    other = replace(robot, drives=tuple(replace(drive, rotor_inertia=3e-4) for drive in robot.drives))
    mindyn.write_urdf(other, tmp_path / "edited.urdf", source=source, force=True)
    again = mindyn.load_robot(tmp_path / "edited.urdf")
    assert_close([drive.rotor_inertia for drive in again.drives], [3e-4, 3e-4], SAME_ALGEBRA)


def test_a_transmission_with_two_joints_is_reported(tmp_path):
    path = robot_file(tmp_path / "two.urdf", ACTUATED.format("j1", 1e-5, 100, '<joint name="j2"/>'))
    robot = mindyn.load_robot(path)
    assert not any(drive.rotor_inertia for drive in robot.drives)
    assert any("'t_j1' has 2 joints" in str(note) for note in messages(robot))
