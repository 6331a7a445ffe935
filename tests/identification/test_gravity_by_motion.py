"""The motion alone shows that gravity is missing in a torque; otherwise there is no finding."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from identification.test_robot_file import build_arm, move_zero, record_samples, weight
from identification.test_zeros_by_motion import diagnose_motion

from mindyn.foundation.findings import Kind


@pytest.mark.parametrize("name", ["panda", "puma560"])
def test_a_compensated_torque_is_named_without_inertials(name):
    robot, samples = record_samples(name, 1)
    held = weight(build_arm(name, np.random.default_rng(1)), samples)
    (result,) = diagnose_motion(replace(samples, tau=samples.tau - held), robot)
    assert result.kind == Kind.ABSENT_GRAVITY
    assert "--gravity 0 0 0" in result.remedy


@pytest.mark.parametrize("name", ["panda", "scara"])  # of which the second's axes stand upright: no weight shows
def test_weight_that_is_there_or_cannot_show_is_not_questioned(name):
    robot, samples = record_samples(name, 1)
    for item in (samples, move_zero(samples, 1, 90.0)):
        assert not any(result.kind == Kind.ABSENT_GRAVITY for result in diagnose_motion(item, robot))
