"""Designed motions: within limits by an independent check, far better than random ones, and as sure as they promise."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from closeness import ORACLE, SAME_ALGEBRA, assert_close
from equations import equations
from excitation.full_speed import FULL_SPEED, design_motion
from excitation.independent_check import motion_at, smallest_gaps, torques, worst_parts
from robots import random_robot

import mindyn
from mindyn.motions import Box, Capsule
from mindyn.motions.excitation.body_pairs import CURVE_M, STEP_M
from mindyn.motions.excitation.constraints import APPROACH_M
from mindyn.motions.excitation.motion_columns import Columns
from mindyn.motions.excitation.motion_design import check_times
from mindyn.motions.excitation.motion_safety import SafetySettings, safety_of
from mindyn.motions.excitation.motions import Instants
from mindyn.motions.excitation.problem import Problem
from mindyn.motions.excitation.solving import exact_value, places_to_stand, random_motion
from mindyn.motions.excitation.volumes import volumes_of
from mindyn.regression.information import solve
from mindyn.regression.regressor import Regressor
from mindyn.regression.row_blocks import gather
from mindyn.robots.drive_matrices import friction_matrix

FAMILY = mindyn.Fourier(4, ramp_s=1.5)
SECONDS = 12.0
TOLERANCE = 1e-9
"""Rounding of two evaluations of one motion."""


def designed(criterion="condition", **options):
    robot = mindyn.load_robot("puma560")
    settings = {"seconds": SECONDS, "family": FAMILY, "criterion": criterion, "starts": 1}
    return design_motion(robot, **FULL_SPEED, **settings, **options)


@pytest.fixture(scope="module")
def design():
    return designed()


@pytest.fixture(scope="module")
def determinant_design():
    return designed("D")


def test_every_limit_holds_at_one_kilohertz(design):
    parts = worst_parts(design.robot, design.limits, design.to_dict())
    assert max(parts.values()) <= 1 + TOLERANCE, parts
    assert max(parts.values()) > 0.98, "no limit binds: the motion could be larger"


@pytest.mark.parametrize("drives", [True, False], ids=["drives estimated", "drives known"])
def test_torque_parts_count_drives_with_coulomb_friction_at_its_worst(design, drives):
    if not drives:
        design = designed(with_drives=False, deadline_s=0.0)
    robot, limits = design.robot, design.limits
    calm = replace(robot, drives=tuple(replace(drive, coulomb=0.0) for drive in robot.drives))
    smooth = np.abs(torques(calm, *design.sample(1000.0)[:3])).max(axis=0)
    worst = np.abs(friction_matrix(robot)).T @ [drive.coulomb for drive in robot.drives]
    used = [design.used[f"torque of {name}"] for name in robot.joint_names]
    assert_close(used, smooth / (0.9 * limits.effort - worst), 1e-8)


def test_capsules_keep_their_distance_at_one_kilohertz(design):
    """By coal and Pinocchio; what is reported is never larger."""
    capsules = volumes_of(design.robot).capsules
    numbers = {
        name: [k for k, capsule in enumerate(capsules) if capsule.link == name] for name in design.robot.link_names
    }
    q = motion_at(design.to_dict(), np.arange(0, SECONDS, 1e-3))[0]
    checked = [
        distance for distance in design.check.distances if distance.second in numbers and distance.first in numbers
    ]
    assert checked
    for item in checked:
        pairs = [(i, j) for i in numbers[item.first] for j in numbers[item.second]]
        gap = min(smallest_gaps(design.robot, capsules, q, pairs).values())
        assert gap >= item.distance_m >= item.required_m


def test_the_condition_number_is_far_below_that_of_random_motions(design):
    robot, limits = design.robot, design.limits
    columns = Columns(robot, with_drives=True, speeds=limits.velocity)
    safety = safety_of(columns, limits, columns.base.values, SafetySettings(floor=None), 0)
    none = np.zeros((columns.count, columns.count))
    problem = Problem(
        columns, limits, FAMILY, SECONDS, "condition", design.noise, design.rate_hz, none, None, safety.constraints
    )
    rng = np.random.default_rng(5)
    places = places_to_stand(problem, limits, rng)
    random = [np.exp(exact_value(problem, random_motion(problem, limits, places, rng))) for _ in range(40)]
    assert 5 * design.condition_number < np.median(random)


def test_the_condition_number_is_that_of_the_stacked_regressor(design):
    q, qd, qdd, t = design.sample(design.rate_hz)
    samples = mindyn.Samples(
        design.robot.joint_names, q, qd, qdd, qdd, design.rate_hz, np.zeros(len(t), dtype=np.int64)
    )
    information = gather(Regressor(design.robot), samples)
    assert_close(information.condition_number(1 / design.noise**2), design.condition_number, 1e-8)


def test_each_criterion_is_best_by_its_own_measure(design, determinant_design):
    assert determinant_design.criteria["D"] < design.criteria["D"]
    assert design.criteria["condition"] < determinant_design.criteria["condition"]


def test_predicted_deviations_are_those_of_identified_logs(design):
    """400 logs with new noise each, fitted by least squares; the pooled ratio of deviations is 1 within 10 %."""
    robot, names = design.robot, design.robot.joint_names
    q, qd, qdd, t = design.sample(design.rate_hz)
    tau, segments, rng = torques(robot, q, qd, qdd), np.zeros(len(t), dtype=np.int64), np.random.default_rng(6)
    regressor, weights, errors = Regressor(robot), 1 / design.noise**2, []
    for _ in range(400):
        noisy = tau + design.noise * rng.normal(size=tau.shape)
        samples = mindyn.Samples(names, q, qd, qdd, noisy, design.rate_hz, segments)
        beta = solve(*gather(regressor, samples).stacked(weights)).beta
        errors.append(beta - design.prediction.values)
    assert_close(mindyn.LeastSquares(weights=tuple(weights)).fit(equations(robot, samples)).beta, beta, ORACLE)
    ratios = np.sqrt(np.mean(np.square(errors), axis=0)) / design.prediction.deviations
    assert abs(np.sqrt(np.mean(ratios**2)) - 1) < 0.1
    assert np.abs(ratios - 1).max() < 0.16  # 4.5 standard deviations of a deviation from 400 draws


def test_a_design_after_a_log_excites_what_the_log_did_not_determine(design, determinant_design):
    q, qd, qdd, t = determinant_design.sample(100.0)
    segments = np.zeros(len(t), dtype=np.int64)
    samples = mindyn.Samples(design.robot.joint_names, q, qd, qdd, qdd, 100.0, segments)
    previous = gather(Regressor(design.robot), samples)
    second = designed("D", previous=previous)
    assert (second.prediction.deviations < determinant_design.prediction.deviations).all()
    repeated = determinant_design.criteria["D"] - np.log(2)  # twice the same log is twice its information
    assert second.criteria["D"] < repeated


def test_an_estimate_serves_as_the_prior(design):
    q, qd, qdd, t = design.sample(50.0)
    tau = torques(design.robot, q, qd, qdd)
    samples = mindyn.Samples(design.robot.joint_names, q, qd, qdd, tau, 50.0, np.zeros(len(t), dtype=np.int64))
    estimate = mindyn.LeastSquares().fit(equations(design.robot, samples))
    again = designed(beta=estimate.base_values, deadline_s=0.0)
    assert_close(again.prediction.values, estimate.base_values, SAME_ALGEBRA)


def small(**options):
    robot = random_robot(11, joints=3, tree=False, gravity=(0.0, 0.0, -9.81))
    settings = (
        {"seconds": 8.0, "family": mindyn.Fourier(3, ramp_s=1.0), "starts": 1, "noise": 0.5} | FULL_SPEED | options
    )
    limits = settings.pop("limits", mindyn.MotionLimits.of(robot, acceleration=15.0, jerk=150.0))
    return design_motion(robot, limits=limits, **settings)


def test_several_periods_keep_to_the_limits_as_well():
    design = small(family=mindyn.Fourier(2, periods=3, ramp_s=0.5))
    q, qd, qdd, _ = design.sample(1000.0)
    assert (q >= design.limits.lower - TOLERANCE).all()
    assert (q <= design.limits.upper + TOLERANCE).all()
    assert (np.abs(qd) <= design.limits.velocity * (1 + TOLERANCE)).all()
    assert (np.abs(qdd) <= design.limits.acceleration * (1 + TOLERANCE)).all()
    assert (np.abs(torques(design.robot, q, qd, qdd)) <= 0.9 * design.limits.effort * (1 + TOLERANCE)).all()


def test_the_same_seed_gives_the_same_motion():
    item, other = small(rng=4), small(rng=4)
    assert (item.motion.coefficients == other.motion.coefficients).all()


def test_a_prescribed_start_is_kept():
    start = np.array([0.3, -0.2, 0.1])
    design = small(start=start)
    assert_close(design.reference(0.0)[0], start, SAME_ALGEBRA)
    assert_close(design.reference(design.seconds)[0], start, ORACLE)


def test_workspace_and_obstacles_are_kept_clear_of():
    free = small()
    tip = mindyn.compile_model(free.robot).forward_kinematics
    capsules = (Capsule("link3", np.zeros(3), np.array([0.3, 0, 0]), 0.03),)
    q = free.sample(1000.0)[0]
    wall, target = float(np.quantile(tip(q, "link3")[:, 0, 3], 0.9)) + 0.3, tip(q, "link3")[len(q) // 3, :3, 3]
    obstacle = Capsule("", target, target, 0.05)
    design = small(workspace=Box(upper=(wall, np.inf, np.inf)), obstacles=(obstacle,), capsules=capsules)
    X = tip(design.sample(1000.0)[0], "link3")
    ends = X[:, :3, 3], X[:, :3, 3] + 0.3 * X[:, :3, 0]
    assert max(end[:, 0].max() for end in ends) <= wall - 0.03 - 0.01 + TOLERANCE
    gaps = smallest_gaps(design.robot, (*capsules, obstacle), design.sample(1000.0)[0], [(0, 1)])
    assert gaps[0, 1] >= 0.01 - 1e-6


def test_the_nearest_end_of_a_capsule_says_what_is_used_of_a_wall():
    ends, upper = (np.zeros(3), np.array([0.3, 0, 0])), (np.inf, np.inf, 3.0)
    used, heights = [], []
    for a, b in (ends, ends[::-1]):
        capsule = Capsule("link3", a, b, 0.03)
        design = small(workspace=Box(upper=upper), capsules=(capsule,), deadline_s=0.0)
        X = mindyn.compile_model(design.robot).forward_kinematics(design.sample(1000.0)[0], "link3")
        heights.append(max((X[:, 2, 3] + X[:, 2, :3] @ end).max() for end in ends))
        used += [value for label, value in design.used.items() if label == "gap of link3 - upper z wall"]
    kept = 3.0 - 0.03 - 0.01 - 2 * STEP_M - CURVE_M
    assert_close(used, 1 - (kept - np.array(heights)) / APPROACH_M, 1e-8)


def test_an_interrupt_gives_the_best_motion_so_far():
    def interrupt(_):
        raise KeyboardInterrupt

    design = small(starts=3, progress=interrupt)
    assert "interrupted in search 2 of 3" in design.status
    assert max(worst_parts(design.robot, design.limits, design.to_dict()).values()) <= 1 + TOLERANCE


def test_a_deadline_gives_the_best_motion_so_far():
    design = small(starts=50, deadline_s=0.0)
    assert "stopped at the deadline in search 1 of 50" in design.status
    assert max(worst_parts(design.robot, design.limits, design.to_dict()).values()) <= 1 + TOLERANCE
    assert np.isfinite(design.condition_number)


@pytest.mark.parametrize("seconds", [600.0, 6000.0])
def test_checks_of_long_motions_do_not_grow_with_them(seconds):
    """What ends a search at its deadline is as much work for an hour as for a minute."""
    t = check_times(seconds, 5.0)
    assert len(t) <= 100_002
    assert (t[0], t[-1]) == (0.0, seconds)
    steps = np.diff(t)
    assert (steps > 0).all()
    assert steps.max() <= seconds / 79_000
    for end in (t[1:] <= 10.0, t[:-1] >= seconds - 10.0):
        assert steps[end].max() < 1.001e-3
    assert len(check_times(100.0, 5.0)) == 100_001
    assert len(check_times(seconds, 1e6)) == 1000 * seconds + 1, "fast functions keep the rate"


def test_a_deadline_is_kept_by_a_long_motion(monkeypatch):
    checked, state = [], Instants.state
    monkeypatch.setattr(Instants, "state", lambda self, z: (checked.append(len(self.t)), state(self, z))[1])
    design = small(seconds=600.0, deadline_s=0.0)
    assert sum(checked) < 800_000, "a few checks, each of 100 000 instants; sixteen at 1 kHz are 10 million"
    assert any("every 7.25 ms between" in str(finding) for finding in design.findings)
    assert max(worst_parts(design.robot, design.limits, design.to_dict()).values()) <= 1 + 1e-6
    assert max(design.used.values()) > 0.98


def test_a_simulated_robot_follows_the_reference():
    design = small()
    controller = mindyn.ComputedTorque(design.robot, design.reference, 400.0, 40.0)
    run = mindyn.simulate(design.robot, controller, seconds=2.0, q0=design.motion.start, rate_hz=100.0)
    assert np.abs(run.q - design.motion.derivative(run.t, 0)).max() < 0.02
