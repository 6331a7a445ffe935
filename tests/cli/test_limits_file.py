"""Files of --limits for robots whose grippers are held."""

from __future__ import annotations

import pytest
from raising import raises

import mindyn
from mindyn.cli.limits_file import read_limits_file
from mindyn.foundation.errors import Code, UnknownNameError
from mindyn.motions.excitation.held_joints import joints_to_hold
from mindyn.motions.excitation.limits import MotionLimits

GRIPPER_ARM = """
<robot name="arm"><link name="base"/><link name="upper"/><link name="hand"/><link name="left"/><link name="right"/>
<joint name="shoulder" type="revolute"><parent link="base"/><child link="upper"/><axis xyz="0 1 0"/>
<limit lower="-1" upper="1" velocity="2" effort="9"/></joint>
<joint name="elbow" type="revolute"><parent link="upper"/><child link="hand"/><axis xyz="0 1 0"/>
<limit lower="-1" upper="1" velocity="2" effort="9"/></joint>
<joint name="finger_left" type="prismatic"><parent link="hand"/><child link="left"/><axis xyz="1 0 0"/>
<limit lower="0" upper="0.04" velocity="0.1" effort="9"/></joint>
<joint name="finger_right" type="prismatic"><parent link="hand"/><child link="right"/><axis xyz="-1 0 0"/>
<limit lower="0" upper="0.04" velocity="0.1" effort="9"/><mimic joint="finger_left"/></joint></robot>
"""


@pytest.mark.parametrize("finger", ["finger_left", "finger_right"])
def test_limits_of_held_joints_are_dropped(tmp_path, finger):
    (tmp_path / "arm.urdf").write_text(GRIPPER_ARM)
    robot = mindyn.load_robot(tmp_path / "arm.urdf")
    held, findings = joints_to_hold(robot)
    assert {"finger_left", "finger_right"} <= set(findings[0].joints)
    arm = robot.lock(held)
    path = tmp_path / "limits.toml"
    path.write_text(f"velocity = {{ shoulder = 0.5, {finger} = 0.1 }}")
    limits = MotionLimits.from_dict(arm, read_limits_file(path, arm, findings).bounds)
    assert limits.velocity[0] == 0.5
    with raises(UnknownNameError, Code.UNKNOWN_NAME, finger):
        MotionLimits.from_dict(arm, read_limits_file(path, arm).bounds)
