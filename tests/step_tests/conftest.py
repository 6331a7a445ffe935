"""Yoshida's PUMA 560, his own tests of it, and their logs without noise."""

from __future__ import annotations

import pytest

from mindyn.motions.step_plans.planner import plan_tests
from mindyn.motions.step_plans.simulated_tests import simulate_tests
from mindyn.papers.yoshida_robot import yoshida_puma


@pytest.fixture(scope="session")
def puma():
    return yoshida_puma("table1")


@pytest.fixture(scope="session")
def plan(puma):
    """Yoshida's own tests."""
    return plan_tests(puma, weakest=0.0)


@pytest.fixture(scope="session")
def logs(puma, plan):
    return simulate_tests(puma, plan, rate_hz=200.0)
