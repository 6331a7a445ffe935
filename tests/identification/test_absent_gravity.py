"""Gravity that is not in a torque is told by the motion alone; where it is, or cannot show, nothing is said."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from identification.test_joint_zeros import fitted
from identification.test_stated_inertials import built, moved, recorded, weight

from mindyn.identification.absent_gravity import absent_gravity


@pytest.mark.parametrize("name", ["panda", "puma560"])
def test_a_compensated_torque_is_named_without_inertials(name):
    robot, samples = recorded(name, 1)
    held = weight(built(name, np.random.default_rng(1)), samples)
    (found,) = absent_gravity(*fitted(replace(samples, tau=samples.tau - held), robot))
    assert found.kind == "gravity"
    assert found.sentence.startswith("the torque has no gravity in it (explained with ")
    assert "--gravity 0 0 0" in found.sentence


@pytest.mark.parametrize("name", ["panda", "scara"])  # of which the second's axes stand upright: no weight shows
def test_weight_that_is_there_or_cannot_show_is_not_doubted(name):
    robot, samples = recorded(name, 1)
    assert absent_gravity(*fitted(samples, robot)) == []
    assert absent_gravity(*fitted(moved(samples, 1, 90.0), robot)) == []
