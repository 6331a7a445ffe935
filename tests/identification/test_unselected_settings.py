"""A log is called too short only if it is: constant torques of any length leave nothing to compare either."""

from __future__ import annotations

import numpy as np
import pytest
from plants.mujoco_arm import random_arm_file, random_drives, record

import mindyn
from mindyn.foundation.findings import Kind


@pytest.mark.parametrize("constant", [True, False])
def test_constant_torques_are_named_and_not_the_length(constant, tmp_path):
    rng = np.random.default_rng(1)
    true, file = random_arm_file(rng, 3, tmp_path, mass_error=0.1)
    rec = record(true, random_drives(rng, true), rng, seconds=30.0)
    robot = mindyn.load_robot(file)
    tau = np.tile([0.3, 1.2, -0.5], (len(rec.tau), 1)) if constant else rec.tau
    estimate = mindyn.identify(robot, mindyn.log_from_arrays(robot.joint_names, rec.time, rec.q, tau))
    kinds = {finding.kind for finding in estimate.findings}
    assert Kind.SHORT_LOG not in kinds
    assert (Kind.CONSTANT_TORQUE in kinds) == constant
