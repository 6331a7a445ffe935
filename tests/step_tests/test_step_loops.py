"""Step-by-step tests of robots with loops, in their primary joints: planned, simulated, identified."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from cli.program import mindyn_program
from closeness import assert_close
from laws.parallel_robots import SIX_BARS, six_bar
from raising import raises

import mindyn
from mindyn.applications.step_tests.step_by_step import StepByStep
from mindyn.foundation.errors import Code, InputError, UnknownNameError
from mindyn.motions.step_plans.planner import plan_tests
from mindyn.motions.step_plans.simulated_tests import simulate_tests
from mindyn.regression.regressor import Regressor
from mindyn.robots.parts import Drive

RANGES = {
    "five_bar": {"joint1": (-1.5, 1.5), "joint2": (-0.5, 0.6), "joint4": (-1.7, -0.7)},
    "slider_crank": {"crank": (-3.0, 3.0)},
}
RECOVERED = 1e-8


def driven(name):
    robot = mindyn.load_robot(name)
    if robot.drives:
        return robot
    drives = [Drive(name, 10.0, viscous=2e-2, coulomb=0.1, rotor_inertia=5e-4) for name in robot.primary_names]
    return replace(robot, drives=(*drives, Drive("joint3", viscous=0.5, coulomb=0.2)))


@pytest.mark.parametrize("name", sorted(RANGES))
def test_exact_logs_give_the_base_parameters_back(name):
    robot = driven(name)
    plan = plan_tests(robot, ranges=RANGES[name])
    assert plan.joints == robot.primary_names
    assert plan.unidentifiable == ()
    logs = simulate_tests(robot, plan, rate_hz=500.0)
    estimate = StepByStep(rule="gregory").fit(robot, plan, logs)
    assert estimate.values.unidentifiable == ()
    assert_close(estimate.beta, Regressor(robot).base.values, RECOVERED)


def test_ranges_are_of_primary_joints_and_within_what_closes():
    robot = mindyn.load_robot("slider_crank")
    with raises(UnknownNameError, Code.UNKNOWN_NAME, "ram"):
        plan_tests(robot, ranges={"ram": (0.3, 0.4)})
    loop = replace(robot.loops[0], dependent=("crank", "rod"))
    turned = replace(robot, loops=(loop,), drives=(), home=np.array([0.5, -0.6, 0.42]))
    with raises(InputError, Code.OUT_OF_RANGE, "slider_crank"):
        plan_tests(turned, ranges={"ram": (0.2, 0.6)})


def test_the_program_plans_simulates_and_identifies_a_five_bar(tmp_path):
    mindyn.write_toml(driven("five_bar"), tmp_path / "robot.toml")
    (tmp_path / "tests").mkdir()
    for action in ("plan", "simulate", "identify"):
        ended = mindyn_program("step-by-step", action, tmp_path / "robot.toml", tmp_path / "tests")
        assert ended.code == 0, ended.err
    estimate = mindyn.load_estimate(tmp_path / "tests" / "estimate.json")
    assert estimate.robot.loops[0].name == "five_bar"
    truth = Regressor(estimate.robot).base.values
    assert_close(estimate.base_values, truth, 0.01)  # by the trapezoidal rule


@pytest.mark.parametrize("name", sorted(SIX_BARS))
def test_plans_of_six_bars_determine_all_parameters_in_a_wide_range(name):
    plan = plan_tests(six_bar(name, reach=1.0))
    assert plan.unidentifiable == ()


@pytest.mark.parametrize(("name", "seed", "reach"), [("stephenson-3", 4, 0.7), ("stephenson-3", 0, 0.6)])
def test_logs_determine_all_that_a_plan_does_not_list(name, seed, reach):
    robot = six_bar(name, seed, reach=reach)
    plan = plan_tests(robot)
    estimate = StepByStep(rule="gregory").fit(robot, plan, simulate_tests(robot, plan, rate_hz=500.0))
    assert bool(plan.unidentifiable) == bool(estimate.values.unidentifiable)
    if not plan.unidentifiable:
        assert_close(estimate.beta, Regressor(robot).base.values, 1e-5)


def test_the_program_lists_parameters_that_no_test_determines(tmp_path):
    mindyn.write_toml(six_bar("watt-1", reach=0.05), tmp_path / "robot.toml")
    ended = mindyn_program("step-by-step", "plan", tmp_path / "robot.toml", tmp_path / "tests")
    assert ended.code == 3, ended.err
    assert "no test determines: mcx1R" in ended.out + ended.err
    assert "mindyn step-by-step simulate" not in ended.out + ended.err
