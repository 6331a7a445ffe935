"""Motions of robots with parallelograms: every limit of primary and dependent joints holds, by Pinocchio with pins."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from cli.program import mindyn_program
from closeness import DERIVATIVE, SAME_ALGEBRA, assert_close, assert_negligible
from equations import equations
from excitation.full_speed import FULL_SPEED, design_motion
from excitation.independent_check import motion_at, smallest_gaps
from excitation.test_gradients_of_designs import differences
from identifiability.loop_oracle import LoopOracle
from laws.closed_linkages import linkage
from raising import raises
from robots_with_bodies import write_random_robot

import mindyn
from mindyn.equations.loop_closure import home_closure
from mindyn.foundation.errors import Code, InputError, UnsafeMotionError
from mindyn.motions.excitation.constraints import aggregate_values, loop_constraints
from mindyn.motions.excitation.design_inputs import limits_for
from mindyn.motions.excitation.motion_columns import Columns
from mindyn.motions.excitation.motion_safety import SafetySettings, safety_of
from mindyn.motions.excitation.motions import Instants
from mindyn.motions.excitation.volumes import volumes_of
from mindyn.regression.regressor import with_estimated_drives
from mindyn.robots.parts import Drive

SECONDS = 8.0
FAMILY = mindyn.Fourier(3, ramp_s=1.0)
TOLERANCE = 1e-8
DIFFERENCES = 1e-6
"""Tolerance of derivatives from nine points 2 ms apart; the third derivative loses nine digits."""
MARGIN = 0.9
FAST = {"velocity": 3.0, "acceleration": 20.0, "effort": 150.0}
BOUNDS = {"lower": -1.5, "upper": 1.5, "velocity": 3.0, "acceleration": 20.0, "effort": 150.0}


def palletiser() -> mindyn.Robot:
    """With a drive on every primary joint, and friction on both dependent ones, which turn in step."""
    robot = mindyn.load_robot("palletiser")
    drives = [Drive(name, 20.0, rotor_inertia=1e-4, viscous=1.0, coulomb=2.0) for name in robot.primary_names]
    passive = [Drive(name, viscous=0.5, coulomb=level) for name, level in (("joint3", 1.0), ("joint_rod", 2.0))]
    return replace(robot, drives=(*drives, *passive))


def limits_of(robot, **dependent):
    by_name = {key: dict.fromkeys(robot.primary_names, value) | dependent.get(key, {}) for key, value in BOUNDS.items()}
    return mindyn.MotionLimits.of(robot, **by_name)


@pytest.fixture(scope="module")
def design():
    robot = palletiser()
    limits = limits_of(
        robot,
        lower={"joint3": -0.4},
        upper={"joint3": 0.9},
        velocity={"joint3": 1.5},
        acceleration={"joint_rod": 6.0},
    )
    return design_motion(
        robot, seconds=SECONDS, family=FAMILY, limits=limits, starts=1, self_collision=False, **FULL_SPEED
    )


def through_pins(robot, p, pd, pdd):
    """q, qd, qdd (N, n) of all joints: closed by hand, moved by Pinocchio's constraints."""
    oracle = LoopOracle(robot)
    q = np.zeros((len(p), len(robot.joints)))
    q[:, oracle.primary] = p
    item, other = (q[:, robot.joint_index(name)] for name in ("joint2", "joint_crank"))
    q[:, robot.joint_index("joint3")] = other - item
    q[:, robot.joint_index("joint_rod")] = item - other
    moved = [oracle.projection(*row)[1:] for row in zip(q, pd, pdd, strict=True)]
    assert_negligible([oracle.gaps(row)[0] for row in q[::100]], 1.0, SAME_ALGEBRA)
    return q, *(np.array(part) for part in zip(*moved, strict=True))


def test_limits_of_all_joints_hold_at_one_kilohertz(design):
    robot, limits = design.robot, design.limits
    p, pd, pdd, _ = motion_at(design.to_dict(), np.arange(0, SECONDS, 1e-3))
    q, qd, qdd = through_pins(robot, p, pd, pdd)
    third, rod = robot.joint_index("joint3"), robot.joint_index("joint_rod")
    parts = {
        "position": np.abs(p).max() / (0.95 * 1.5),
        "velocity": np.abs(pd).max() / 3.0,
        "acceleration": np.abs(pdd).max() / 20.0,
        "position of joint3": np.abs(q[:, third] - 0.25).max() / (0.95 * 0.65),
        "velocity of joint3": np.abs(qd[:, third]).max() / 1.5,
        "acceleration of joint_rod": np.abs(qdd[:, rod]).max() / 6.0,
    }
    assert max(parts.values()) <= 1 + TOLERANCE, parts
    for name in ("position of joint3", "velocity of joint3", "acceleration of joint_rod"):
        assert_close(design.used[name], parts[name], TOLERANCE)
    assert max(parts["position of joint3"], parts["velocity of joint3"]) > 0.95, "no dependent limit binds"
    assert limits.dependent is not None


def test_torques_hold_through_the_pins_at_one_kilohertz(design):
    robot = design.robot
    p, pd, pdd, _ = motion_at(design.to_dict(), np.arange(0, SECONDS, 1e-3))
    q, qd, qdd = through_pins(robot, p, pd, pdd)
    oracle = LoopOracle(robot)
    tau = np.array([oracle.torque_rows(*row) @ robot.phi for row in zip(q, pd, pdd, strict=True)])
    worst = np.zeros(robot.joint_count)
    for drive in robot.drives:
        joint = robot.joint_index(drive.joint)
        expected = oracle.projection(q[0], pd[0], pdd[0])[0][joint]
        motor = drive.ratio if drive.side == "motor" else 1.0
        torque = drive.ratio**2 * drive.rotor_inertia * qdd[:, joint] + motor**2 * drive.viscous * qd[:, joint]
        tau += np.outer(torque, expected)
        worst += np.abs(expected) * abs(motor) * drive.coulomb
    used = np.abs(tau).max(axis=0) / (MARGIN * BOUNDS["effort"] - worst)
    assert used.max() <= 1 + TOLERANCE
    assert_close([design.used[f"torque of {name}"] for name in robot.primary_names], used, TOLERANCE)


def test_a_parallelogram_stays_open():
    """Without ranges of dependent joints nothing else keeps crank and lower arm from folding over."""
    robot = mindyn.load_robot("semi_direct_drive")
    limits = mindyn.MotionLimits.of(robot, **BOUNDS)
    design = design_motion(
        robot, seconds=SECONDS, family=FAMILY, limits=limits, starts=1, self_collision=False, **FULL_SPEED
    )
    p = motion_at(design.to_dict(), np.arange(0, SECONDS, 1e-3))[0]
    from_square = np.degrees(np.abs(p[:, 2] - p[:, 1])).max()
    assert 75 < from_square <= 80 * (1 + TOLERANCE)
    assert_close(design.used["opening of parallelogram"], from_square / 80, TOLERANCE)


def test_capsules_of_a_loop_keep_their_distance():
    robot = mindyn.load_robot("semi_direct_drive")
    limits = mindyn.MotionLimits.of(robot, **BOUNDS)
    radius = dict.fromkeys(robot.link_names, 0.03)
    design = design_motion(robot, seconds=SECONDS, family=FAMILY, limits=limits, starts=1, radius=radius, **FULL_SPEED)
    capsules = volumes_of(robot, radius=radius).capsules
    links = [capsule.link for capsule in capsules]
    assert "rod" in links
    p, pd, pdd, _ = motion_at(design.to_dict(), np.arange(0, SECONDS, 1e-2))
    tree = replace(robot, loops=())
    q = through_pins(robot, p, pd, pdd)[0]
    pair = (links.index("link2"), links.index("rod"))
    gap = smallest_gaps(tree, capsules, q, [pair])[pair]
    assert gap >= 0.01 * (1 - 1e-6)
    assert "gap of link2 - rod" in design.used


def test_constraints_of_loops_have_exact_derivatives():
    robot = with_estimated_drives(palletiser())
    limits = limits_of(robot, velocity={"joint3": 2.0}, lower={"joint_rod": -1.0}, upper={"joint_rod": 0.5})
    columns = Columns(robot, with_drives=True, speeds=limits.velocity)
    rng = np.random.default_rng(0)
    instants = Instants.of(FAMILY, SECONDS, 40)
    z, along = 0.3 * rng.normal(size=(2, 1 + FAMILY.count, 4))
    safety = safety_of(columns, limits, columns.base.values, SafetySettings(floor=None), 0)
    assert len(loop_constraints(robot, limits)) == 3
    for constraint in safety.constraints:
        slopes = aggregate_values(constraint, instants, instants.state(z), 20.0)[1]()
        value = lambda x, item=constraint: aggregate_values(item, instants, instants.state(x), 20.0)[0]  # noqa: E731
        assert_close(np.einsum("wcij,ij->wc", slopes, along), differences(value, z, along, h=1e-4), 10 * DERIVATIVE)


FIVE_BAR = {
    "lower": {"joint1": -1.5, "joint2": -0.5, "joint4": -1.7, "joint5": 1.5},
    "upper": {"joint1": 1.5, "joint2": 0.6, "joint4": -0.7, "joint5": 2.3},
    "velocity": {"joint1": 5.0, "joint2": 5.0, "joint4": 5.0, "joint3": 1.0},
    "acceleration": {"joint1": 60.0, "joint2": 60.0, "joint4": 60.0, "joint5": 12.0},
    "effort": 500.0,
}


def test_constraints_of_solved_loops_have_exact_derivatives():
    robot = with_estimated_drives(mindyn.load_robot("five_bar"))
    limits = mindyn.MotionLimits.of(robot, **FIVE_BAR)
    columns = Columns(robot, with_drives=True, speeds=limits.velocity)
    rng = np.random.default_rng(0)
    instants = Instants.of(FAMILY, SECONDS, 30)
    z, along = 0.12 * rng.normal(size=(2, 1 + FAMILY.count, 3))
    z[0] = 0.0, 0.05, -1.2
    safety = safety_of(columns, limits, columns.base.values, SafetySettings(floor=-1.2), 0)
    labels = " ".join(label for constraint in safety.constraints for label in constraint.labels)
    assert all(word in labels for word in ("torque of", "speed of", "floor")), labels
    assert {"SolvedRates", "Distances"} <= {type(constraint).__name__ for constraint in safety.constraints}
    for constraint in safety.constraints:
        slopes = aggregate_values(constraint, instants, instants.state(z), 20.0)[1]()
        value = lambda x, item=constraint: aggregate_values(item, instants, instants.state(x), 20.0)[0]  # noqa: E731
        assert_close(np.einsum("wcij,ij->wc", slopes, along), differences(value, z, along, h=1e-4), 10 * DERIVATIVE)


def test_limits_and_floor_hold_through_loops_that_are_solved_for():
    """Dependent joints by Pinocchio's constraints, heights of the pins by its tree."""
    robot = mindyn.load_robot("five_bar")
    limits = mindyn.MotionLimits.of(robot, **FIVE_BAR)
    design = design_motion(
        robot,
        seconds=SECONDS,
        family=mindyn.Fourier(2),
        limits=limits,
        floor=-0.52,
        radius=dict.fromkeys(robot.link_names, 0.02),
        clearance_m=0.01,
        tracking_error_m=0.0,
        tip_speed=np.inf,
        noise=0.1,
        starts=1,
        deadline_s=6.0,
        speed=1.0,
        acceleration=1.0,
    )
    p, pd, pdd, _ = motion_at(design.to_dict(), np.arange(0, SECONDS, 2e-2))
    q = home_closure(robot).along(p)
    oracle = LoopOracle(robot)
    assert_negligible([oracle.gaps(row)[0] for row in q], 1.0, SAME_ALGEBRA)
    moved = [oracle.projection(*row)[1:] for row in zip(q, pd, pdd, strict=True)]
    qd, qdd = (np.array(part) for part in zip(*moved, strict=True))
    assert np.abs(qd[:, 2]).max() <= 1.0 + TOLERANCE
    assert np.abs(qdd[:, 4]).max() <= 12.0 + TOLERANCE
    assert q[:, 4].min() >= 1.5 - TOLERANCE
    assert q[:, 4].max() <= 2.3 + TOLERANCE
    heights = mindyn.compile_model(robot).forward_kinematics(q, "link3")[:, 2, 3]  # the pin of both branches
    assert heights.min() > -0.52
    assert design.check.closest is not None
    assert all(gap.distance_m >= gap.required_m for gap in design.check.distances)


def test_a_log_of_the_motion_has_the_predicted_deviations():
    """Identified from it with noise, the parameters lie within five predicted deviations."""
    robot = palletiser()
    robot = replace(robot, drives=tuple(drive for drive in robot.drives if drive.joint in robot.primary_names))
    design = design_motion(
        robot,
        seconds=SECONDS,
        family=FAMILY,
        limits=limits_of(robot),
        starts=1,
        noise=0.1,
        deadline_s=5.0,
        **FULL_SPEED,
    )
    q, qd, qdd, _ = design.sample(100.0)
    model = mindyn.compile_model(design.robot, with_drives=True)
    tau = model.inverse_dynamics(q, qd, qdd)
    tau += 0.1 * np.random.default_rng(0).normal(size=tau.shape)
    samples = mindyn.Samples(robot.primary_names, q, qd, qdd, tau, 100.0, np.zeros(len(q), dtype=np.int64))
    fit = mindyn.LeastSquares().fit(equations(design.robot, samples))
    assert fit.regressor.base.names == design.prediction.names
    error = np.abs(fit.base_values - design.prediction.values) / design.prediction.deviations
    assert error.max() < 5
    assert error.max() > 0.5


def test_the_program_designs_for_a_parallelogram(tmp_path):
    file = tmp_path / "limits.toml"
    file.write_text(
        "velocity = 2.0\neffort = 100.0\nnoise = 0.1\n[lower]\n"
        + "".join(f"{name} = -1.0\n" for name in ("joint1", "joint2", "joint_crank", "joint3"))
        + "[upper]\n"
        + "".join(f"{name} = 1.0\n" for name in ("joint1", "joint2", "joint_crank", "joint3"))
    )
    options = ("--seconds", 6, "--limits", file, "--deadline-s", 1, "--starts", 1, "--no-floor", "--json")
    ended = mindyn_program("excite", "semi_direct_drive", *options, "--out", tmp_path / "motion")
    assert ended.code == 0, ended.err
    content = json.loads(ended.out)
    assert content["joints"] == ["joint1", "joint2", "joint_crank"]
    assert content["limits"]["dependent"]["upper"] == [0.95, None]
    assert (
        "time,joint1.position,joint2.position,joint_crank.position," in (tmp_path / "motion" / "motion.csv").read_text()
    )


def test_limits_that_a_loop_does_not_have():
    robot = mindyn.load_robot("semi_direct_drive")
    with raises(InputError, Code.UNSUPPORTED, "joint3"):
        mindyn.MotionLimits.of(robot, effort={"joint3": 5.0})
    with raises(InputError, Code.WRONG_SHAPE, "velocity"):
        mindyn.MotionLimits.of(robot, velocity=np.ones(5))
    limits = mindyn.MotionLimits.of(robot, **BOUNDS)
    plain = limits_for(robot, replace(limits, dependent=None))
    assert plain.dependent is not None
    endless = mindyn.MotionLimits.of(mindyn.load_robot("five_bar"), lower=-np.inf, upper=np.inf, **FAST)
    with raises(InputError, Code.MISSING_VALUE, "five_bar"):
        design_motion(mindyn.load_robot("five_bar"), limits=endless)
    rocking = linkage("five-bar", 0)
    wide = mindyn.MotionLimits.of(rocking, lower=-3.0, upper=3.0, **FAST)
    with raises(InputError, Code.OUT_OF_RANGE, rocking.name):
        design_motion(rocking, limits=wide)


@pytest.mark.parametrize("order", range(4))
def test_rates_of_joints_in_solved_loops_are_derivatives_of_their_positions(order):
    """By finite differences along a motion, and their slopes by differences of the state: the jerk too."""
    robot = mindyn.load_robot("slider_crank")
    stated = dict(zip(("velocity", "acceleration", "jerk"), [{"ram": 9.0}] * 3, strict=True))
    limits = mindyn.MotionLimits.of(robot, lower=-6.0, upper=6.0, **stated)
    wide = replace(limits.dependent, lower=np.full(2, -9.0), upper=np.full(2, 9.0))
    rates = loop_constraints(robot, replace(limits, dependent=wide))[order]
    number = next(k for k, label in enumerate(rates.labels) if label.endswith("ram"))
    h, t = 2e-3, np.linspace(0.3, 2.0, 7)
    w, closure = np.array([1.3, 2.9]), home_closure(robot)
    p = lambda t, k: (w**k * np.sin(np.add.outer(t, [0.2, 1.0]) * w + k * np.pi / 2)).sum(axis=1)[:, None]  # noqa: E731
    state = tuple(p(t, k) for k in range(4))
    ram = np.array([closure.positions(p(t + k * h, 0))[:, robot.joint_index("ram")] for k in range(-4, 5)])
    weights = np.linalg.solve(
        np.vander(np.arange(-4.0, 5.0), increasing=True).T, np.eye(9)[order] * math.factorial(order)
    )
    assert_close(9.0 * rates.values(state)[:, number] + rates.middle[number], weights @ ram / h**order, DIFFERENCES)
    slopes = rates.slopes(*state[: order + 1])
    for k, J in enumerate(slopes if isinstance(slopes, tuple) else (slopes,)):
        there, here = (
            rates.kernel(*(x + s * (i == k) for i, x in enumerate(state[: order + 1]))) for s in (1e-5, -1e-5)
        )
        assert_close(J[:, number, 0], ((there - here) / 2e-5)[:, number], DIFFERENCES)


@pytest.fixture(scope="module")
def five_bar(tmp_path_factory):
    """A five-bar within -0.35 ... 0.35 rad that is singular near (0.65, -0.65) rad, where its first motions step."""
    robot = mindyn.load_robot(write_random_robot(39, tmp_path_factory.mktemp("five_bar")).original)
    return robot, mindyn.MotionLimits.of(robot, velocity=1.5, effort=1000.0)


def test_a_search_may_step_beyond_the_ranges_in_which_loops_close(five_bar):
    robot, limits = five_bar
    design = design_motion(robot, limits=limits, seconds=6.0, starts=1, deadline_s=0.5)
    q = design.sample(100.0)[0]
    assert np.abs(q).max() <= 0.35
    assert np.ptp(q, axis=0).min() > 0.01
    assert not [distance for distance in design.check.distances if distance.distance_m < distance.required_m]


def test_a_singular_position_within_the_limits_ends_with_an_error_that_names_it(five_bar, monkeypatch):
    robot, limits = five_bar
    closure = type(home_closure(robot))
    along, singular = closure.along, np.array([0.6521, -0.6533])  # as if the ranges held it
    monkeypatch.setattr(closure, "along", lambda self, p: along(self, np.vstack([p[:-1], singular])))
    with raises(UnsafeMotionError, Code.UNSAFE_MOTION, robot.name) as caught:
        design_motion(robot, limits=limits, seconds=6.0, starts=1, deadline_s=0.5)
    assert "singular" in str(caught.value)
    assert "drive_left = 0.6521, drive_right = -0.6533" in str(caught.value)
