"""A zero that is off is told by the motion alone where the torque is accurate, and not where it is right."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from identification.test_stated_inertials import moved, recorded

import mindyn
from mindyn.identification.joint_zeros import zeros
from mindyn.regression.friction import Friction
from mindyn.regression.rows import rows_of
from mindyn.regression.treatment import Treatment

TREATMENT = Treatment(mindyn.Conditioning(position_cutoff_hz=None), friction=Friction("tanh", 0.02))


def fitted(samples, robot):
    """Values and samples of the log, by a robot that states no inertials."""
    bare = replace(robot, links=tuple(replace(link, phi=None) for link in robot.links))
    return mindyn.LeastSquares().fit(rows_of(bare, samples, TREATMENT)), samples


@pytest.mark.parametrize("degrees", [-15.0, 90.0])
def test_a_shoulder_that_is_off_is_named_without_inertials(degrees):
    robot, samples = recorded("panda", 0)
    (found,) = zeros(*fitted(moved(samples, 1, degrees), robot))
    assert found.joints == (robot.joint_names[1],)
    assert abs(np.rad2deg(found.value) + degrees) < 5
    assert "position_offset" in found.sentence


def test_zeros_that_are_right_are_not_doubted():
    robot, samples = recorded("panda", 0)
    assert zeros(*fitted(samples, robot)) == []


def test_a_last_joint_takes_its_zero_up():
    robot, samples = recorded("panda", 0)
    assert zeros(*fitted(moved(samples, 6, 40.0), robot)) == []
