"""Simulation of every step-by-step test: the error by hand, and the suspect test."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from closeness import SAME_ALGEBRA, assert_close
from raising import raises

from mindyn import StepByStep, load_robot, plan_tests
from mindyn.applications.step_tests.step_checks import check_steps
from mindyn.foundation.errors import Code, InputError
from mindyn.logs.log import log_from_arrays
from mindyn.motions.simulation.sensors import Sensors
from mindyn.motions.step_plans.simulated_tests import simulate_tests
from mindyn.motions.step_plans.step_motions import Sines
from mindyn.robots.parts import Joint, Link
from mindyn.robots.robot import Robot

RATE_HZ = 500.0


@pytest.fixture(scope="module")
def robot():
    plain = load_robot("planar2")
    return replace(plain, drives=tuple(replace(drive, viscous=2e-3, coulomb=0.1) for drive in plain.drives))


@pytest.fixture(scope="module")
def plan(robot):
    return plan_tests(robot, seconds=1.0)


def by_test(checks):
    return {check.test: check for check in checks.checks}


def test_a_carriage_with_a_wrong_mass_misses_by_the_closed_form():
    """m' x'' = m x'' of the motion -a cos w t: off by a cos(w t) (1 - m / m'), less the start that fits best."""
    slide = Joint("slide", "prismatic", "base", "table", axis=np.array([1.0, 0.0, 0.0]))
    carriage = Robot("carriage", Link("base"), (slide,), (Link("table", np.eye(10)[0] * 3.0),))
    plan = plan_tests(carriage, seconds=1.0)
    logs = simulate_tests(carriage, plan, rate_hz=2000.0)
    estimate = StepByStep().fit(carriage, plan, logs)
    (motion,) = [value for value in plan.motions.values() if isinstance(value, Sines)]
    wrong = estimate.with_values(beta=1.25 * estimate.beta)
    (check,) = [item for item in check_steps(wrong, plan, logs).checks if item.compared == "position"]
    t = logs[motion.name].time
    missed = motion.amplitudes[0] * np.cos(2 * np.pi * motion.frequencies_hz[0] * t) * (1 - 1 / 1.25)
    straight = np.column_stack([np.ones_like(t), t])
    missed -= straight @ np.linalg.lstsq(straight, missed, rcond=None)[0]
    assert check.rms == pytest.approx(np.sqrt(np.mean(missed**2)), rel=1e-4)
    assert check.is_suspect


def test_the_estimated_values_reproduce_every_test(robot, plan):
    logs = simulate_tests(robot, plan, rate_hz=RATE_HZ)
    checks = check_steps(StepByStep().fit(robot, plan, logs), plan, logs)
    assert [entry.test for entry in checks.checks] == [test.name for test in plan.tests]
    assert {value.compared for value in checks.checks if value.kind == "accelerated"} == {"position"}
    assert {item.compared for item in checks.checks if item.kind != "accelerated"} == {"torque"}
    assert max(check.rms / check.measured_rms for check in checks.checks) < 1e-4
    assert checks.suspect_tests == ()
    assert "agree" in checks.status


@pytest.mark.parametrize("seed", [11, 12, 13])
def test_noise_is_explained_by_the_uncertainty_of_the_values(robot, plan, seed):
    sensors = Sensors(counts_per_revolution=4096, position_noise=1e-3, torque_noise=0.002)
    logs = simulate_tests(robot, plan, rate_hz=200.0, sensors=sensors, rng=seed)
    checks = check_steps(StepByStep().fit(robot, plan, logs), plan, logs)
    assert checks.suspect_tests == ()
    assert all(0 < check.rms < 3 * check.explained_rms for check in checks.checks)


def test_the_test_with_delayed_torque_is_named(robot, plan):
    logs = simulate_tests(robot, plan, rate_hz=RATE_HZ)
    name, log = "accelerated-02-1", logs["accelerated-02-1"]
    late = np.concatenate([np.tile(log.tau[0], (40, 1)), log.tau[:-40]])
    spoiled = {**logs, name: log_from_arrays(log.joint_names, log.time, log.q, late, log.qd)}
    checks = check_steps(StepByStep().fit(robot, plan, spoiled), plan, spoiled)
    assert checks.suspect_tests[0].test == "accelerated-02"
    assert "accelerated-02 first" in checks.status
    assert "suspect" in checks.table()


def test_wrong_friction_and_gravity_are_found_where_nothing_accelerates(robot, plan):
    logs = simulate_tests(robot, plan, rate_hz=RATE_HZ)
    estimate = StepByStep().fit(robot, plan, logs)
    for kind, first in (("viscous", "constant-velocity-02"), ("link", "static-02")):
        beta = estimate.beta.copy()
        result = [
            parameter.kind == kind and parameter.link_or_joint in ("joint1", "link1")
            for parameter in estimate.regressor.parameters
        ]
        beta[result] *= 2
        assert check_steps(estimate.with_values(beta=beta), plan, logs).suspect_tests[0].test == first


def test_values_without_inertia_run_away(robot, plan):
    logs = simulate_tests(robot, plan, rate_hz=200.0)
    estimate = StepByStep().fit(robot, plan, logs)
    inertias = [parameter.family == "inertia" for parameter in estimate.regressor.parameters]
    fallen = estimate.with_values(beta=np.where(inertias, -1.0, estimate.beta))
    checks = check_steps(fallen, plan, logs)
    assert by_test(checks)["accelerated-01"].rms == float("inf")
    assert checks.to_dict()[4]["rms"] is None
    assert checks.to_dict()[4]["suspect"]


def test_a_plan_up_to_a_test_gives_the_same_values(robot, plan):
    """Earlier tests do not know of later ones: what they yield stays."""
    logs = simulate_tests(robot, plan, rate_hz=200.0)
    part = plan.through("accelerated-01")
    result = {name: log for name, log in logs.items() if name in part.motions}
    early = check_steps(StepByStep().fit(robot, part, result), part, result)
    whole = check_steps(StepByStep().fit(robot, plan, logs), plan, logs)
    assert_close(
        [item.rms for item in early.checks[4:]], [check.rms for check in whole.checks[4:5]], 1e3 * SAME_ALGEBRA
    )


def test_an_estimate_with_other_parameters_raises(robot, plan):
    logs = simulate_tests(robot, plan, rate_hz=200.0)
    other = replace(robot, drives=())
    without = plan_tests(other, seconds=1.0)
    estimate = StepByStep().fit(other, without, simulate_tests(other, without, rate_hz=200.0))
    with raises(InputError, Code.DISAGREEMENT, "planar2"):
        check_steps(estimate, plan, logs)
