"""Step by step: recovery, the formulas of every kind of test by hand, stated spread, encoder logs, and bad logs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from closeness import SAME_ALGEBRA, assert_close
from equations import equations
from robots import random_robot, with_random_drives

from mindyn.applications.step_tests.step_by_step import StepByStep
from mindyn.identification.estimators.estimate import load_estimate
from mindyn.identification.estimators.last_link_first import LastLinkFirst
from mindyn.kernels.model import compile_model
from mindyn.motions.simulation.sensors import Sensors
from mindyn.motions.step_plans.folders import read_test_logs, write_test_logs
from mindyn.motions.step_plans.planner import plan_tests
from mindyn.motions.step_plans.simulated_tests import simulate_tests
from mindyn.papers.yoshida_robot import VALUE_TABLES, yoshida_puma, yoshida_values
from mindyn.regression.regressor import with_estimated_drives
from mindyn.robots.drive_matrices import gear_matrix
from mindyn.robots.loading import load_robot

RECOVERY = 1e-8
QUADRATURE_5_MS, QUADRATURE_1_MS = 2.8e-3, 1.1e-4
"""Largest parameter errors that the reference states for the trapezoid rule and motions of 1 s."""
NORMAL_95 = 1.96


def draw_drives(robot, seed):
    """Random friction and rotor inertia on every joint, without offsets."""
    rng = np.random.default_rng(seed)
    drives = [
        replace(d, rotor_inertia=rng.uniform(0.01, 0.1), viscous=rng.uniform(0.1, 1), coulomb=rng.uniform(0.1, 1))
        for d in with_estimated_drives(robot).drives
    ]
    return replace(robot, drives=tuple(drives))


def yoshida_name(name):
    """The structural set's name of a parameter in Yoshida's notation."""
    symbols = {"mcx": "R{}x", "mcy": "R{}y", "Ixx": "J{}(x-y)", "Izz": "J{}z", "Im": "h{}", "fv": "b{}", "fc": "c{}"}
    symbols |= {f"I{pair}": f"J{{}}{pair}" for pair in ("xy", "xz", "yz")}
    symbol, number = name.rstrip("R")[:-1], name.rstrip("R")[-1]
    return symbols[symbol].format(number)


@pytest.mark.parametrize("table", VALUE_TABLES)
def test_all_52_parameters_of_yoshidas_puma_are_recovered(plan, table):
    robot = yoshida_puma(table)
    logs = simulate_tests(robot, plan, rate_hz=200.0)
    estimate = StepByStep(rule="gregory").fit(robot, plan, logs)
    truth = yoshida_values(table)
    result = {
        yoshida_name(name): estimate.value(name) for name in estimate.names if name not in estimate.values.dropped
    }
    assert result.keys() == truth.keys()
    assert len(result) == 52
    assert max(abs(result[name] - value) for name, value in truth.items()) < RECOVERY
    assert estimate.values.unidentifiable == ()
    assert estimate.provenance.notes["tests"] == {"static": 5, "constant velocity": 6, "accelerated": 13}
    assert tuple(estimate.provenance.notes["yields"].values()) == tuple(test.yields for test in plan.tests)


@pytest.mark.parametrize("name", ["stanford", "scara", "puma560"])
@pytest.mark.parametrize("driven", [False, True])
def test_recovers_arms_with_and_without_drives(name, driven):
    robot = draw_drives(load_robot(name), 3) if driven else replace(load_robot(name), drives=())
    plan = plan_tests(robot)
    estimate = StepByStep(rule="gregory").fit(robot, plan, simulate_tests(robot, plan, rate_hz=200.0))
    assert estimate.values.unidentifiable == ()
    assert_close(estimate.beta, estimate.base.values, RECOVERY)


@pytest.mark.parametrize("seed", range(10))
def test_recovers_random_serial_robots_with_coupled_drives_and_offsets(seed):
    robot = with_random_drives(random_robot(seed, joints=1 + seed % 4, tree=False), seed)
    plan = plan_tests(robot, offsets=True, rng=seed)
    estimate = StepByStep(rule="gregory").fit(robot, plan, simulate_tests(robot, plan, rate_hz=500.0))
    assert estimate.values.unidentifiable == ()
    assert_close(estimate.beta, estimate.base.values, RECOVERY)
    assert tuple(estimate.provenance.notes["yields"].values()) == tuple(test.yields for test in plan.tests)


def test_the_trapezoid_rule_leaves_the_error_of_the_reference(puma):
    plan = plan_tests(puma, seconds=1.0)
    errors = []
    for rate in (200.0, 1000.0):
        estimate = StepByStep(rule="trapezoid").fit(puma, plan, simulate_tests(puma, plan, rate_hz=rate))
        errors.append(np.abs(estimate.beta - estimate.base.values).max())
    assert 1e-5 < errors[0] < QUADRATURE_5_MS
    assert errors[1] < QUADRATURE_1_MS
    assert errors[0] / errors[1] == pytest.approx(25, rel=0.1)  # second order


def test_breakaways_average_to_gravity_and_differ_by_twice_friction(puma, plan, logs):
    """(tau+ + tau-) / 2 = gx Ry - gy Rx, g in frame 6 [Yoshida 1996, eq. 3.10]; half the difference: sum |G_mi| c_m."""
    log, values = logs["static-01-1"], yoshida_values("table1")
    tau = log.tau[:, 5].reshape(-1, 2)
    poses = compile_model(puma).forward_kinematics(log.q[::2], "link6")
    gx, gy, _ = np.einsum("kij,i->jk", poses[:, :3, :3], puma.gravity)
    assert_close(tau.mean(axis=1), gx * values["R6y"] - gy * values["R6x"], SAME_ALGEBRA)
    G = np.abs(gear_matrix(puma))
    estimate = StepByStep().fit(puma, plan, logs)
    for joint in range(2, 7):
        friction = sum(G[m, joint - 1] * values[f"c{m + 1}"] for m in range(6))
        assert estimate.provenance.notes["static_friction"][f"joint{joint}"] == pytest.approx(friction, rel=1e-9)


def test_constant_velocities_give_friction_joint_by_joint_from_the_last(puma, plan, logs):
    """Row i: b_i k_ii^2 + sum_(m>i) b_m k_mi^2 and c_i |k_ii| + sum_(m>i) c_m |k_mi|, k = K^-1 [reference 2.2]."""
    k, estimate = gear_matrix(puma), StepByStep(rule="gregory").fit(puma, plan, logs)
    b, c = np.zeros(6), np.zeros(6)
    for i, test in zip(range(5, -1, -1), [t for t in plan.tests if t.kind == "constant velocity"], strict=True):
        sums = {}
        for motion in test.motions:
            log = logs[motion.name]
            gravity = compile_model(puma).gravity(log.q)[:, i]
            sums[motion.speed] = (log.tau[:, i] - gravity).mean()
        fast, slow = max(sums), min(speed for speed in sums if speed > 0)
        odd = {speed: (sums[speed] - sums[-speed]) / 2 for speed in (fast, slow)}
        viscous = (odd[fast] - odd[slow]) / (fast - slow)
        dry = odd[fast] - viscous * fast
        b[i] = (viscous - (b[i + 1 :] * k[i + 1 :, i] ** 2).sum()) / k[i, i] ** 2
        c[i] = (dry - (c[i + 1 :] * np.abs(k[i + 1 :, i])).sum()) / abs(k[i, i])
    assert_close([estimate.value(f"fv{i}") for i in range(1, 7)], b, RECOVERY)
    assert_close([estimate.value(f"fc{i}") for i in range(1, 7)], c, RECOVERY)


def test_the_first_accelerated_test_gives_the_last_inertia_with_its_rotor(puma, plan, logs):
    """(J6z + h6 k66^2) [qd_6] = int (tau_6 - gravity - friction) dt [Yoshida 1996, eq. 3.13 integrated]."""
    log, values, k = logs["accelerated-01-1"], yoshida_values("table1"), gear_matrix(puma)
    quarter = len(log) // 8 + 1
    q, qd, tau = log.q[:quarter], log.qd[:quarter], log.tau[:quarter, 5]
    rest = compile_model(puma).gravity(q)[:, 5]
    friction = values["b6"] * k[5, 5] ** 2 * qd[:, 5] + values["c6"] * abs(k[5, 5]) * np.sign(qd[:, 5])
    impulse = np.trapezoid(tau - rest - friction, log.time[:quarter])
    estimate = StepByStep().fit(puma, plan, logs)
    result = estimate.value("Izz6") + k[5, 5] ** 2 * estimate.value("Im6")
    assert result == pytest.approx(impulse / (qd[-1, 5] - qd[0, 5]), rel=1e-3)


def test_no_acceleration_is_looked_at(puma, plan, logs):
    spoiled = {name: replace(log, qdd=np.full_like(log.q, np.nan)) for name, log in logs.items()}
    assert (StepByStep().fit(puma, plan, spoiled).beta == StepByStep().fit(puma, plan, logs).beta).all()


def test_all_tests_together_agree_with_the_steps_where_there_is_no_noise(puma, plan, logs):
    estimate = StepByStep(rule="gregory", solution="together").fit(puma, plan, logs)
    assert np.abs(estimate.beta - estimate.base.values).max() < RECOVERY
    assert not estimate.beta[np.isin(estimate.names, estimate.values.dropped)].any()


def test_together_is_the_weighted_least_squares_of_all_rows(puma, plan, logs):
    """At least as accurate as the steps in every parameter, without their accumulated errors."""
    spoiled = noisy(logs, 0)
    steps, whole = (StepByStep(solution=item).fit(puma, plan, spoiled) for item in ("steps", "together"))
    kept = ~np.isin(steps.names, steps.values.dropped)
    assert (whole.deviations[kept] <= steps.deviations[kept] * (1 + 1e-9)).all()
    smallest = np.linalg.eigvalsh((steps.covariance - whole.covariance)[np.ix_(kept, kept)]).min()
    assert smallest > -1e-9 * np.abs(steps.covariance).max()


def test_later_tests_leave_earlier_ones_alone(puma, plan, logs):
    """Sequential: a gross error in the last test's torque does not change earlier results."""
    last = plan.tests[-1]
    name = last.motions[0].name
    wrong = {**logs, name: replace(logs[name], tau=1.5 * logs[name].tau)}
    item, other = StepByStep().fit(puma, plan, logs), StepByStep().fit(puma, plan, wrong)
    touched = {*last.determines, *last.mixes}
    for k, parameter in enumerate(item.names):
        if parameter not in touched:
            assert other.beta[k] == pytest.approx(item.beta[k], rel=1e-9, abs=1e-12)
    assert other.value("Izz4R") != pytest.approx(item.value("Izz4R"), rel=1e-2)


def noisy(logs, seed):
    rng = np.random.default_rng(seed)
    sigma = np.array([1.0, 1.0, 0.5, 0.2, 0.1, 0.1])
    return {name: replace(log, tau=log.tau + sigma * rng.standard_normal(log.tau.shape)) for name, log in logs.items()}


@pytest.mark.parametrize("solution", ["steps", pytest.param("together", marks=pytest.mark.full)])
def test_intervals_contain_the_true_values(puma, plan, logs, solution):
    inside, errors, stated = [], [], []
    for seed in range(240):  # the correlation of 60 fits has a standard deviation of 0.13
        estimate = StepByStep(rule="gregory", solution=solution).fit(puma, plan, noisy(logs, seed))
        kept = ~np.isin(estimate.names, estimate.values.dropped)
        error = (estimate.beta - estimate.base.values)[kept]
        inside.append(np.abs(error) < NORMAL_95 * estimate.deviations[kept])
        errors.append(error)
        stated.append(estimate.covariance[np.ix_(kept, kept)])
    assert 0.93 < np.mean(inside) < 0.97
    spread = np.cov(np.array(errors).T)
    names = np.array(estimate.names)[kept].tolist()
    pairs = [("Izz5R", "Im5"), ("Izz6", "Im6"), ("Ixx3R", "Izz3R"), ("mcx6", "mcy6")]
    for pair in pairs:  # errors that are handed on from test to test
        i, j = (names.index(name) for name in pair)
        mean = np.mean(stated, axis=0)
        correlations = [m[i, j] / np.sqrt(m[i, i] * m[j, j]) for m in (spread, mean)]
        assert correlations[0] == pytest.approx(correlations[1], abs=0.25)


@pytest.mark.parametrize("solution", ["steps", "together"])
def test_encoder_logs_at_5_ms_leave_it_nearly_unbiased(puma, solution):
    """Encoders of 1000 counts a turn, noisy torques, differentiated velocities, trapezoid rule."""
    sensors = Sensors(counts_per_revolution=1000, position_noise=0.003, torque_noise=0.001)
    plan, errors, stated = plan_tests(puma), [], []
    for seed in range(14):
        logs = simulate_tests(puma, plan, rate_hz=200.0, sensors=sensors, rng=seed)
        assert all(log.qd is None for name, log in logs.items() if not name.startswith("static"))
        estimate = StepByStep(solution=solution).fit(puma, plan, logs)
        errors.append(estimate.beta - estimate.base.values)
        stated.append(estimate.deviations)
    bias, truth = np.mean(errors, axis=0), estimate.base.values
    for name in ("Izz1R", "Izz2R", "Izz3R", "mcx2R", "mcy3R", "Ixx2R", "fc1", "fv1", "fc3"):
        k = estimate.names.index(name)
        assert abs(bias[k]) < 0.005 * abs(truth[k]), name
    kept = ~np.isin(estimate.names, estimate.values.dropped)
    deviation = np.sqrt(np.mean(np.square(stated), axis=0))
    assert (np.abs(bias) < 2 * deviation)[kept].all()


def test_faint_tests_that_wait_make_weak_parameters_sharp(puma, plan):
    """Of Yoshida's tests, joints 4 and 5 leave J5z and h5 poorly separated [reference 2.5]; joints 3 and 5 do not."""
    sensors = Sensors(counts_per_revolution=1000, torque_noise=0.001)
    deviations = []
    for item in (plan, plan_tests(puma)):
        estimate = StepByStep().fit(puma, item, simulate_tests(puma, item, sensors=sensors))
        deviations.append(estimate.deviations[estimate.names.index("Izz5R")])
    assert deviations[0] > 30 * deviations[1]


def test_readings_differ_from_motion_to_motion_and_seed_to_seed(puma, plan):
    sensors = Sensors(torque_noise=0.01)
    item, same, other = (simulate_tests(puma, plan, rate_hz=50.0, sensors=sensors, rng=s) for s in (1, 1, 2))
    assert all((item[name].tau == same[name].tau).all() for name in item)
    assert not any((item[name].tau == other[name].tau).any() for name in item)


def test_files_give_the_same_estimate(puma, plan, logs, tmp_path):
    write_test_logs(logs, tmp_path, puma, plan)
    again, read = read_test_logs(tmp_path, puma)
    item, other = StepByStep().fit(puma, plan, logs), StepByStep().fit(puma, again, read)
    assert_close(other.beta, item.beta, RECOVERY)


def test_a_saved_estimate_predicts_the_same(puma, plan, logs, tmp_path):
    estimate = StepByStep().fit(puma, plan, logs)
    estimate.save(tmp_path / "estimate.json")
    again = load_estimate(tmp_path / "estimate.json")
    assert (again.covariance == estimate.covariance).all()
    assert again.provenance.notes["static_friction"] == estimate.provenance.notes["static_friction"]
    assert estimate.status in again.table()


@pytest.mark.parametrize("seed", [5, 9])
def test_saved_estimates_of_other_base_forms_come_back(seed, tmp_path):
    from estimators.recovered import exact_samples

    robot = random_robot(seed, joints=1 + seed % 6, tree=False)
    samples = exact_samples(robot, count=120, seed=seed)
    estimate = LastLinkFirst().fit(equations(robot, samples, base_form="lin"))
    estimate.save(tmp_path / "lin.json")
    again = load_estimate(tmp_path / "lin.json")
    assert again.base.form == "lin"
    assert again.names == estimate.names
    assert_close(again.predict(samples), estimate.predict(samples), SAME_ALGEBRA)


def test_without_the_tenth_test_of_the_reference_four_parameters_stay_open(puma, plan, logs):
    """K has no 3-4 coupling and z4 is perpendicular to z2 and z3: only joints 1 and 4 together separate J4z from h4."""
    left = tuple(test for test in plan.tests if test.moving != ("joint1", "joint4"))
    shorter = replace(plan, tests=left)
    estimate = StepByStep(rule="gregory").fit(puma, shorter, {name: logs[name] for name in shorter.motions})
    assert set(estimate.values.unidentifiable) == {"Izz1R", "Ixx3R", "Izz4R", "Im4"}
    assert all(name in estimate.status for name in estimate.values.unidentifiable)
    assert np.isinf(estimate.deviations[[estimate.names.index(name) for name in estimate.values.unidentifiable]]).all()
    known = ~np.isin(estimate.names, estimate.values.unidentifiable)
    assert_close(estimate.beta[known], estimate.base.values[known], RECOVERY)


def test_a_test_that_determines_less_than_planned_is_counted(puma, plan, logs):
    """The held configurations of one test all alike: one equation in place of three."""
    test = next(t for t in plan.tests if t.name == "accelerated-02")
    first = logs[test.motions[0].name]
    short = replace(test, motions=tuple(replace(test.motions[0], name=m.name) for m in test.motions))
    tests = tuple(short if t.name == test.name else t for t in plan.tests)
    estimate = StepByStep().fit(puma, replace(plan, tests=tests), {**logs, **{m.name: first for m in test.motions}})
    assert estimate.provenance.notes["yields"]["accelerated-02"] == 1
    assert "accelerated-02 (1 of 3)" in estimate.status


@pytest.mark.parametrize("solution", ["steps", "together"])
@pytest.mark.parametrize("seed", [0, 3, 4])
def test_dropped_offsets_are_exactly_zero(seed, solution):
    robot = draw_drives(random_robot(seed, joints=2 + seed % 3, tree=False), seed)
    plan = plan_tests(robot, seconds=1.0)
    logs = simulate_tests(robot, plan, rate_hz=200.0)
    estimate = StepByStep(solution=solution).fit(robot, plan, logs)
    dropped = np.isin(estimate.names, plan.dropped)
    assert dropped.any()
    assert not estimate.beta[dropped].any()
    assert not estimate.deviations[dropped].any()
