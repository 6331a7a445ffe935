"""Plans of step-by-step tests: Yoshida's for his PUMA, complete ones for any serial robot, inside limits, in files."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from closeness import ORACLE, assert_close
from raising import raises
from robots import random_robot, with_random_drives

from mindyn.foundation.errors import Code, ExportError, InputError, UnknownNameError
from mindyn.logs.log_errors import LogError
from mindyn.motions.step_plans.folders import read_test_logs, write_motions, write_test_logs
from mindyn.motions.step_plans.identifiable_subspace import IdentifiableSubspace
from mindyn.motions.step_plans.plan import load_plan
from mindyn.motions.step_plans.planner import plan_tests
from mindyn.motions.step_plans.simulated_tests import simulate_tests
from mindyn.regression.regressor import with_estimated_drives
from mindyn.robots.loading import load_robot

# Reference table of the 13 accelerated tests: moving joints -> row, held joints that are varied, new combinations.
YOSHIDA = {
    (6,): (6, (), 1),
    (5,): (5, (6,), 3),
    (5, 6): (6, (), 3),
    (4,): (4, (5,), 3),
    (4, 5): (5, (), 3),
    (3,): (3, (4,), 3),
    (3, 4): (4, (), 2),
    (2,): (2, (), 1),
    (2, 3): (3, (), 1),
    (1, 4): (4, (), 1),
    (1,): (1, (2, 3), 5),
    (1, 3): (3, (), 2),
    (1, 2): (2, (), 2),
}


@pytest.fixture(scope="module")
def puma():
    return load_robot("puma560_yoshida")


@pytest.fixture(scope="module")
def plan(puma):
    return plan_tests(puma)


def numbers(names):
    return tuple(int(name.removeprefix("joint")) for name in names)


def test_the_puma_has_yoshidas_number_of_tests(plan):
    assert plan.counts() == {"static": 5, "constant velocity": 6, "accelerated": 13}
    assert sum(test.yields for test in plan.tests) == 52
    assert plan.unidentifiable == ()
    assert plan.dropped == tuple(f"fo{i}" for i in range(1, 7))


@pytest.mark.parametrize("seed", [0, 1])
def test_the_accelerated_tests_are_those_of_the_reference(puma, seed):
    plan = plan_tests(puma, weakest=0.0, rng=seed)
    result = {
        numbers(test.moving): (*numbers([test.row]), numbers(test.varied), test.yields)
        for test in plan.tests
        if test.kind == "accelerated"
    }
    assert result == YOSHIDA


@pytest.mark.parametrize("seed", [1])
def test_what_is_faint_in_one_test_is_left_to_another(puma, seed):
    """Not more tests than Yoshida's, but h5 from joints 3 and 5 in place of the coupling of motors 4 and 5."""
    plan = plan_tests(puma, rng=seed)
    assert plan.counts() == {"static": 5, "constant velocity": 6, "accelerated": 13}
    assert plan.unidentifiable == ()
    determining = next(test for test in plan.tests if "Im5" in test.determines)
    assert determining.moving == ("joint3", "joint5")


def test_static_and_constant_velocity_tests_go_from_the_last_joint(plan):
    static = [test for test in plan.tests if test.kind == "static"]
    assert [test.row for test in static] == ["joint6", "joint5", "joint4", "joint3", "joint2"]
    assert any("static test of joint1" in item for item in plan.skipped)
    steady = [test for test in plan.tests if test.kind == "constant velocity"]
    assert [test.determines for test in steady] == [(f"fv{i}", f"fc{i}") for i in range(6, 0, -1)]
    assert static[0].determines == ("mcx6", "mcy6")


def test_unknown_offsets_make_the_static_test_of_joint_1_useful(puma):
    plan = plan_tests(puma, offsets=True)
    assert plan.counts() == {"static": 6, "constant velocity": 6, "accelerated": 13}
    assert sum(test.yields for test in plan.tests) == 58
    assert plan.dropped == ()


def test_every_parameter_is_known_once(plan):
    determined = [name for test in plan.tests for name in test.determines]
    assert sorted(determined) == sorted(set(plan.names) - set(plan.dropped))
    for test in plan.tests:
        assert test.outcome() in plan.table()


@pytest.mark.parametrize("seed", range(8))
def test_plans_of_random_serial_robots_are_complete(seed):
    robot = random_robot(seed, joints=2 + seed % 3, tree=False)
    robot = with_random_drives(robot, seed) if seed % 2 else robot
    plan = plan_tests(robot, offsets=True, rng=seed)
    assert plan.unidentifiable == ()
    assert sum(test.yields for test in plan.tests) == len(plan.names)
    assert all(len(test.moving) <= 2 and test.row in test.moving for test in plan.tests)


def test_robots_without_drives_need_no_constant_velocity_tests():
    plan = plan_tests(load_robot("scara"))
    assert plan.counts()["constant velocity"] == 0
    assert any("no drives" in item for item in plan.skipped)
    driven = plan_tests(with_estimated_drives(load_robot("scara")))
    assert driven.counts()["constant velocity"] == 4


@pytest.mark.parametrize("name", ["stanford", "scara", "puma560"])
def test_motions_stay_inside_limits(name):
    robot = load_robot(name)
    for motion in plan_tests(robot).motions.values():
        path = motion.trajectory(500.0)
        assert (np.diff(path.t) > 0).all()
        for j, joint in enumerate(robot.joints):
            low, high = joint.limits.lower, joint.limits.upper
            assert low - 1e-12 <= path.q[:, j].min()
            assert path.q[:, j].max() <= high + 1e-12
            if joint.limits.velocity is not None:
                assert np.abs(path.qd[:, j]).max() <= joint.limits.velocity


def test_given_ranges_take_precedence_over_limits(puma):
    ranges = dict.fromkeys(puma.joint_names, (0.2, 1.4))
    plan = plan_tests(puma, ranges=ranges)
    assert plan.unidentifiable == ()
    positions = np.concatenate([motion.trajectory(100.0).q for motion in plan.motions.values()])
    assert positions.min() >= 0.2 - 1e-12
    assert positions.max() <= 1.4 + 1e-12


def test_velocities_and_accelerations_are_derivatives_of_the_positions(plan):
    for name in ("accelerated-03-1", "constant-velocity-02-3"):
        path = plan.motions[name].trajectory(1000.0)
        for values, derivative in ((path.q, path.qd), (path.qd, path.qdd)):
            slope = np.gradient(values, path.t, axis=0)[1:-1]
            scale = max(1.0, np.abs(derivative).max())
            assert np.abs(slope - derivative[1:-1]).max() < 1e-4 * scale


def test_held_joints_stand_still(plan):
    for motion in plan.motions.values():
        path = motion.trajectory(100.0)
        held = [j for j in range(6) if j not in motion.joints]
        assert (path.q[:, held] == np.array(motion.q)[held]).all()
        assert (path.qd[:, held] == 0).all()


def test_a_plan_survives_its_file(plan, tmp_path):
    plan.save(tmp_path / "plan.json")
    assert load_plan(tmp_path / "plan.json") == plan
    (tmp_path / "bad.json").write_text('{"format": "something else"}')
    with raises(InputError, Code.WRONG_FORMAT, "format"):
        load_plan(tmp_path / "bad.json")
    (tmp_path / "short.json").write_text('{"format": "mindyn step plan 1"}')
    with raises(InputError, Code.UNREADABLE, "short.json"):
        load_plan(tmp_path / "short.json")


def test_motions_are_written_for_a_controller(puma, plan, tmp_path):
    paths = write_motions(plan, tmp_path, rate_hz=100.0)
    assert set(paths) == set(tmp_path.iterdir())
    assert len(list(tmp_path.glob("*.motion.csv"))) == len(plan.motions)
    written = np.loadtxt(tmp_path / "accelerated-10-4.motion.csv", delimiter=",", skiprows=1)
    path = plan.motions["accelerated-10-4"].trajectory(100.0)
    assert (written == np.column_stack([path.t, path.q, path.qd])).all()
    assert read_test_logs(tmp_path, puma) == (plan, {})
    with raises(ExportError, Code.MISSING_FILE, str(tmp_path / "nowhere")):
        write_motions(plan, tmp_path / "nowhere")


def test_logs_come_back_from_their_files(tmp_path):
    robot = load_robot("scara")
    plan = plan_tests(robot)
    logs = simulate_tests(robot, plan, rate_hz=50.0)
    assert set(write_test_logs(logs, tmp_path, robot, plan)) == set(tmp_path.iterdir())
    again, read = read_test_logs(tmp_path, robot)
    assert again == plan
    assert read.keys() == logs.keys()
    for name, log in logs.items():
        assert_close(read[name].q, log.q, ORACLE)
        assert_close(read[name].tau, log.tau, ORACLE)
        assert_close(read[name].qd, log.qd, ORACLE)
    with raises(UnknownNameError, Code.UNKNOWN_NAME, "dance"):
        write_test_logs({"dance": logs["static-01-1"]}, tmp_path, robot, plan)
    (tmp_path / "static-01-1.csv").unlink()
    with raises(InputError, Code.MISSING_FILE, "static-01-1.csv"):
        read_test_logs(tmp_path, robot)


def test_a_velocity_that_is_not_the_derivative_is_rejected_in_moving_logs(tmp_path):
    robot = load_robot("scara")
    plan = plan_tests(robot)
    logs = simulate_tests(robot, plan, rate_hz=50.0)
    wrong = {"accelerated-01-1": replace(logs["accelerated-01-1"], qd=100 * logs["accelerated-01-1"].qd)}
    write_test_logs(wrong, tmp_path, robot, plan)
    with raises(LogError, Code.WRONG_UNIT, "velocity"):
        read_test_logs(tmp_path, robot)


def test_unsupported_plans_are_rejected_by_name(puma):
    with raises(UnknownNameError, Code.UNKNOWN_NAME, "elbow"):
        plan_tests(puma, ranges={"elbow": (0, 1)})
    with raises(InputError, Code.OUT_OF_RANGE, "joint1"):
        plan_tests(puma, ranges={"joint1": (1.0, 1.0)})
    with raises(InputError, Code.OUT_OF_RANGE, "seconds"):
        plan_tests(puma, seconds=0.0)
    with raises(InputError, Code.OUT_OF_RANGE, "weakest"):
        plan_tests(puma, weakest=-1.0)
    with raises(InputError, Code.OUT_OF_RANGE, "intervals"):
        plan_tests(puma, intervals=1)


def test_new_directions_are_those_of_the_rank():
    """[L; N] spans the rows of all groups: against the numerical rank of the stack."""
    rng = np.random.default_rng(0)
    basis = rng.normal(size=(5, 9))
    groups = [rng.normal(size=(4, 2)) @ basis[:2], rng.normal(size=(6, 3)) @ basis[1:4], basis[:5]]
    known, stack = IdentifiableSubspace.of(np.ones(9), np.zeros(9, dtype=bool)), np.zeros((0, 9))
    for A in groups:
        known = known.with_directions(known.new(A)[2])
        stack = np.vstack([stack, A])
        assert known.rank == np.linalg.matrix_rank(stack)
        assert np.abs(stack - stack @ known.L.T @ known.L).max() < 1e-12
    assert not known.identifiable().any()
    assert IdentifiableSubspace.of(np.ones(9), np.arange(9) < 3).identifiable().sum() == 3
