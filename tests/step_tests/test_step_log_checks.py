"""How closely logs of tests must follow their plan: what is held, speeds, breakaways."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from closeness import SAME_ALGEBRA, assert_close

from mindyn.applications.step_tests.log_checks import LogChecks
from mindyn.applications.step_tests.step_rows import mean_speed
from mindyn.logs.log import log_from_arrays
from mindyn.motions.step_plans.step_motions import Breakaways, ConstantSpeed

T = np.arange(100) / 50
PLAN = SimpleNamespace(joints=("turned", "held"))


def log_of(turned, held=0.3):
    q = np.column_stack([turned * np.ones(len(T)), held * np.ones(len(T))])
    return log_from_arrays(PLAN.joints, T, q, np.zeros_like(q), np.zeros_like(q))


HELD = (0.0, 0.3)


@pytest.mark.parametrize(("speed", "right"), [(0.5, True), (0.41, True), (0.59, True), (0.39, False), (0.61, False)])
@pytest.mark.parametrize("way", [1, -1])
def test_a_speed_may_be_missed_by_a_fifth(speed, right, way):
    planned = ConstantSpeed("turn", HELD, 0, 0.5 * way, 2.0)
    fault = LogChecks().fault(PLAN, planned, log_of(speed * way * T))
    assert (fault is None) == right
    assert right or "'turned' moves at" in fault
    assert_close(mean_speed(log_of(3 + speed * way * T), 0), speed * way, SAME_ALGEBRA)


def test_held_joints_must_not_slip_or_be_elsewhere():
    planned, checks = ConstantSpeed("turn", HELD, 0, 0.5, 2.0), LogChecks()
    ramp = np.linspace(-0.5, 0.5, len(T))
    assert checks.fault(PLAN, planned, log_of(0.5 * T, 0.3 + 0.009 * ramp)) is None
    assert "'held', which is held, slipped by 0.011" in checks.fault(PLAN, planned, log_of(0.5 * T, 0.3 + 0.011 * ramp))
    assert checks.fault(PLAN, planned, log_of(0.5 * T, 0.34)) is None
    for place in (0.24, 0.36):
        assert "'held' is held at" in checks.fault(PLAN, planned, log_of(0.5 * T, place))


def test_breakaways_lie_where_they_are_planned():
    planned = Breakaways("push", HELD, 0, (-0.4, 0.4))
    assert LogChecks().fault(PLAN, planned, log_of(np.where(T < 1, -0.42, 0.44))) is None
    assert "'turned' breaks away at 0.5" in LogChecks().fault(PLAN, planned, log_of(np.where(T < 1, -0.4, 0.5)))
