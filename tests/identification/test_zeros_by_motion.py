"""The motion alone shows a wrong zero if the torque is accurate; a right zero gives no finding."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from identification.diagnosed import diagnostic_data
from identification.test_robot_file import move_zero, record_samples

import mindyn
from mindyn.foundation.findings import Kind
from mindyn.identification.diagnostics import zeros_and_gravity
from mindyn.regression.friction import Friction
from mindyn.regression.settings import EquationSettings

SETTINGS = EquationSettings(mindyn.Conditioning(motion_hz=None), friction=Friction("tanh", 0.02))


def diagnose_motion(samples, robot):
    """Findings by a robot file without inertial parameters."""
    bare = replace(robot, links=tuple(replace(link, phi=None) for link in robot.links))
    return zeros_and_gravity.run(diagnostic_data(bare, samples, SETTINGS))


@pytest.mark.parametrize("degrees", [-15.0, 90.0])
def test_a_shoulder_that_is_off_is_named_without_inertials(degrees):
    robot, samples = record_samples("panda", 0)
    (result,) = diagnose_motion(move_zero(samples, 1, degrees), robot)
    assert result.joints == (robot.joint_names[1],)
    assert abs(np.rad2deg(result.value) + degrees) < 5
    assert result.kind == Kind.WRONG_JOINT_ZERO
    assert "position_offset" in result.remedy


def test_zeros_that_are_right_are_not_questioned():
    robot, samples = record_samples("panda", 0)
    assert diagnose_motion(samples, robot) == []


def test_a_last_joint_takes_its_zero_up():
    robot, samples = record_samples("panda", 0)
    assert diagnose_motion(move_zero(samples, 6, 40.0), robot) == []
