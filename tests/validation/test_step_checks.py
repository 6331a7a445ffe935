"""Every step-by-step test repeated in simulation: what the miss is by hand, and which test is doubted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from closeness import SAME_ALGEBRA, assert_close

from mindyn import StepByStep, load_robot, plan_tests
from mindyn.errors import InputError
from mindyn.excitation.step_motions import Sines
from mindyn.excitation.step_simulation import simulate_tests
from mindyn.logs.log import log_from_arrays
from mindyn.robots.parts import Joint, Link
from mindyn.robots.robot import Robot
from mindyn.simulation.sensors import Sensors
from mindyn.validation.step_checks import check_steps

RATE_HZ = 500.0


@pytest.fixture(scope="module")
def robot():
    plain = load_robot("planar2")
    return replace(plain, drives=tuple(replace(one, viscous=2e-3, coulomb=0.1) for one in plain.drives))


@pytest.fixture(scope="module")
def plan(robot):
    return plan_tests(robot, seconds=1.0)


def by_test(checks):
    return {one.test: one for one in checks.checks}


def test_a_carriage_with_a_wrong_mass_misses_by_the_closed_form():
    """m' x'' = m x'' of the motion -a cos w t: off by a cos(w t) (1 - m / m'), less the start that fits best."""
    slide = Joint("slide", "prismatic", "base", "table", axis=np.array([1.0, 0.0, 0.0]))
    carriage = Robot("carriage", Link("base"), (slide,), (Link("table", np.eye(10)[0] * 3.0),))
    plan = plan_tests(carriage, seconds=1.0)
    logs = simulate_tests(carriage, plan, rate_hz=2000.0)
    found = StepByStep().fit(carriage, plan, logs)
    (motion,) = [one for one in plan.motions.values() if isinstance(one, Sines)]
    wrong = replace(found, beta=1.25 * found.beta)
    (check,) = [one for one in check_steps(wrong, plan, logs).checks if one.compared == "position"]
    t = logs[motion.name].time
    missed = motion.amplitudes[0] * np.cos(2 * np.pi * motion.frequencies_hz[0] * t) * (1 - 1 / 1.25)
    straight = np.column_stack([np.ones_like(t), t])
    missed -= straight @ np.linalg.lstsq(straight, missed, rcond=None)[0]
    assert check.rms == pytest.approx(np.sqrt(np.mean(missed**2)), rel=1e-4)
    assert check.suspect


def test_the_values_found_repeat_every_test(robot, plan):
    logs = simulate_tests(robot, plan, rate_hz=RATE_HZ)
    found = check_steps(StepByStep().fit(robot, plan, logs), plan, logs)
    assert [one.test for one in found.checks] == [test.name for test in plan.tests]
    assert {one.compared for one in found.checks if one.kind == "accelerated"} == {"position"}
    assert {one.compared for one in found.checks if one.kind != "accelerated"} == {"torque"}
    assert max(one.rms / one.size for one in found.checks) < 1e-4
    assert found.suspect == ()
    assert "agree" in found.status


@pytest.mark.parametrize("seed", [11, 12, 13])
def test_noise_is_explained_by_the_uncertainty_of_the_values(robot, plan, seed):
    sensors = Sensors(counts_per_revolution=4096, position_noise=1e-3, torque_noise=0.002)
    logs = simulate_tests(robot, plan, rate_hz=200.0, sensors=sensors, seed=seed)
    found = check_steps(StepByStep().fit(robot, plan, logs), plan, logs)
    assert found.suspect == ()
    assert all(0 < one.rms < 3 * one.explained for one in found.checks)


def test_the_test_whose_torque_came_late_is_named(robot, plan):
    logs = simulate_tests(robot, plan, rate_hz=RATE_HZ)
    name, log = "accelerated-02-1", logs["accelerated-02-1"]
    late = np.concatenate([np.tile(log.tau[0], (40, 1)), log.tau[:-40]])
    spoiled = {**logs, name: log_from_arrays(log.joint_names, log.time, log.q, late, log.qd)}
    found = check_steps(StepByStep().fit(robot, plan, spoiled), plan, spoiled)
    assert found.suspect[0].test == "accelerated-02"
    assert "accelerated-02 first" in found.status
    assert "suspect" in found.table()


def test_wrong_friction_and_gravity_are_found_where_nothing_accelerates(robot, plan):
    logs = simulate_tests(robot, plan, rate_hz=RATE_HZ)
    found = StepByStep().fit(robot, plan, logs)
    for kind, first in (("viscous", "constant-velocity-02"), ("link", "static-02")):
        beta = found.beta.copy()
        own = [one.kind == kind and one.link_or_joint in ("joint1", "link1") for one in found.regressor.parameters]
        beta[own] *= 2
        assert check_steps(replace(found, beta=beta), plan, logs).suspect[0].test == first


def test_values_without_inertia_run_away(robot, plan):
    logs = simulate_tests(robot, plan, rate_hz=200.0)
    found = StepByStep().fit(robot, plan, logs)
    inertias = [one.family == "inertia" for one in found.regressor.parameters]
    fallen = replace(found, beta=np.where(inertias, -1.0, found.beta))
    checks = check_steps(fallen, plan, logs)
    assert by_test(checks)["accelerated-01"].rms == float("inf")
    assert checks.to_dict()[4]["rms"] is None
    assert checks.to_dict()[4]["suspect"]


def test_a_plan_up_to_a_test_has_the_values_of_the_whole(robot, plan):
    """Earlier tests do not know of later ones: what they yield stays."""
    logs = simulate_tests(robot, plan, rate_hz=200.0)
    part = plan.through("accelerated-01")
    own = {name: log for name, log in logs.items() if name in part.motions}
    early = check_steps(StepByStep().fit(robot, part, own), part, own)
    whole = check_steps(StepByStep().fit(robot, plan, logs), plan, logs)
    assert_close([one.rms for one in early.checks[4:]], [one.rms for one in whole.checks[4:5]], 1e3 * SAME_ALGEBRA)


def test_an_estimate_of_other_parameters_is_refused(robot, plan):
    logs = simulate_tests(robot, plan, rate_hz=200.0)
    other = replace(robot, drives=())
    without = plan_tests(other, seconds=1.0)
    found = StepByStep().fit(other, without, simulate_tests(other, without, rate_hz=200.0))
    with pytest.raises(InputError, match="plan"):
        check_steps(found, plan, logs)
