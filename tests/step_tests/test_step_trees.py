"""Step-by-step tests of trees: planned, simulated exactly, and recovered."""

from __future__ import annotations

import numpy as np
import pytest
from robots import random_robot

from mindyn import StepByStep, plan_tests
from mindyn.motions.step_plans.simulated_tests import simulate_tests

EXACT_LOGS = 1e-9


@pytest.mark.parametrize("seed", [42, 46])
def test_recovers_trees(seed):
    robot = random_robot(seed, joints=4, tree=True)
    assert not robot.is_serial
    plan = plan_tests(robot)
    estimate = StepByStep(rule="gregory").fit(robot, plan, simulate_tests(robot, plan, rate_hz=500.0))
    assert not estimate.values.unidentifiable
    assert np.abs(estimate.beta - estimate.base.values).max() < EXACT_LOGS * np.abs(estimate.base.values).max()
