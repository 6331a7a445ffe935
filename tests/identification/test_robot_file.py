"""A wrong statement about a log is named by the inertials of the robot's file, though these are only roughly right."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from closeness import SAME_ALGEBRA, assert_close

import mindyn
from mindyn.foundation.findings import Kind
from mindyn.identification.diagnostics.file_comparison import compare_with_file
from mindyn.identification.diagnostics.robot_file import find_correction
from mindyn.identification.diagnostics.weight import weigh
from mindyn.logs.samples import Samples
from mindyn.robots import Mimic

RATE_HZ = 100.0


def corrections(robot, samples):
    correction = find_correction(compare_with_file(robot, samples))
    return [] if correction is None else [correction]


ROBOTS = ("ur10", "panda", "puma560")


def build_arm(name, rng):
    """The arm that was built to the file: masses 20 % off, centres of mass 2 cm, inertias accordingly."""
    robot = mindyn.load_robot(name)
    links = []
    for link in robot.links:
        phi = link.phi * rng.uniform(0.85, 1.3)
        phi[1:4] += phi[0] * rng.normal(0, 0.01, 3)
        links.append(replace(link, phi=phi))
    return replace(robot, links=tuple(links), drives=(), extras=())


def record_samples(name, seed):
    """Samples of the arm on a random motion, with friction and torque noise; and its file."""
    rng = np.random.default_rng(seed)
    arm = build_arm(name, rng)
    n = arm.joint_count
    time = np.arange(0, 20, 1 / RATE_HZ)
    rates = 2 * np.pi * np.arange(1, 5) / 20
    sines, cosines = rng.normal(0, 0.35, (2, 4, n))
    angles = np.outer(time, rates)
    q = rng.uniform(-1, 1, n) + np.sin(angles) @ sines + np.cos(angles) @ cosines
    qd = (np.cos(angles) * rates) @ sines - (np.sin(angles) * rates) @ cosines
    qdd = -(np.sin(angles) * rates**2) @ sines - (np.cos(angles) * rates**2) @ cosines
    tau = np.asarray(mindyn.build_equation(arm, "inverse_dynamics")(q.T, qd.T, qdd.T)).T
    size = np.sqrt((tau**2).mean(axis=0)) + 0.02 * np.abs(tau).max()
    tau = tau + size * (0.15 * np.tanh(qd / 0.02) + 0.1 * qd + 0.02 * rng.normal(size=q.shape))
    samples = Samples(arm.joint_names, q, qd, qdd, tau, RATE_HZ, np.zeros(len(q), dtype=np.int64))
    return replace(mindyn.load_robot(name), drives=(), extras=()), samples


def move_zero(samples, joint, degrees):
    q = samples.q.copy()
    q[:, joint] += np.deg2rad(degrees)
    return replace(samples, q=q)


def scale_torque(samples, factors):
    return replace(samples, tau=samples.tau * factors)


@pytest.mark.parametrize("name", ROBOTS)
@pytest.mark.parametrize("seed", range(4))
def test_sound_logs_are_not_suspected(name, seed):
    assert not corrections(*record_samples(name, seed))


@pytest.mark.parametrize("name", ROBOTS)
def test_a_zero_that_is_off_is_named(name):
    robot, sound = record_samples(name, 7)
    for degrees in (10, -90):
        (result,) = corrections(robot, move_zero(sound, 1, degrees))
        assert result.kind == Kind.WRONG_JOINT_ZERO
        assert result.joints == (robot.joint_names[1],)
        assert np.rad2deg(result.value) == pytest.approx(-degrees, abs=5)


@pytest.mark.parametrize("name", ROBOTS)
def test_units_and_currents_are_named(name):
    robot, sound = record_samples(name, 8)
    gains = np.random.default_rng(0).uniform(0.07, 0.13, robot.joint_count)
    for factors, kind in ((1e3, Kind.WRONG_TORQUE_UNIT), (1e-3, Kind.WRONG_TORQUE_UNIT), (gains, Kind.MOTOR_CURRENT)):
        (result,) = corrections(robot, scale_torque(sound, factors))
        assert result.kind == kind


@pytest.mark.parametrize("name", ROBOTS)
def test_a_sign_turned_around_is_named_on_a_short_log(name):
    robot, sound = record_samples(name, 9)
    factors = np.ones(robot.joint_count)
    factors[1] = -1.0
    (result,) = corrections(robot, scale_torque(sound.take(slice(0, 500)), factors))
    assert (result.kind, result.joints) == (Kind.WRONG_TORQUE_SIGN, (robot.joint_names[1],))
    (result,) = corrections(robot, scale_torque(sound, -1.0))
    assert (result.kind, result.joints) == (Kind.WRONG_TORQUE_SIGN, ())


@pytest.mark.parametrize("name", ROBOTS)
@pytest.mark.parametrize("gravity", [(9.81, 0, 0), (0, -9.81, 0), (0, 0, 9.81)])
def test_the_direction_of_gravity_is_found(name, gravity):
    robot, sound = record_samples(name, 10)
    (result,) = corrections(replace(robot, gravity=np.array(gravity, dtype=float)), sound)
    assert result.kind == Kind.WRONG_GRAVITY
    assert "--gravity 0 0 -9.81, or --mount" in result.remedy  # as the shell takes it


def weight(robot, samples):
    """(N, n) torque that holds the robot up at rest."""
    still = np.zeros_like(samples.q.T)
    return np.asarray(mindyn.build_equation(robot, "inverse_dynamics")(samples.q.T, still, still)).T


@pytest.mark.parametrize("name", ["ur10", "panda"])
def test_an_arm_on_a_slope_is_named_with_its_gravity(name):
    robot, sound = record_samples(name, 1)
    slope = np.array([0.6 * np.sin(0.35), 0.8 * np.sin(0.35), -np.cos(0.35)])
    arm, tilted = build_arm(name, np.random.default_rng(1)), 9.81 * slope
    weights = weight(replace(arm, gravity=tilted), sound) - weight(arm, sound)
    (result,) = corrections(robot, replace(sound, tau=sound.tau + weights))
    assert result.kind == Kind.WRONG_GRAVITY
    assert result.value == pytest.approx(0.35, abs=0.15)


@pytest.mark.parametrize("name", ROBOTS)
def test_gravity_that_a_controller_took_out_is_named(name):
    """By the arm's own weight, and by that of the file, which is 20 % off."""
    robot, sound = record_samples(name, 0)
    for model in (robot, build_arm(name, np.random.default_rng(0))):
        assert weigh(robot, sound.q, sound.qd, sound.qdd, sound.tau - weight(model, sound)).is_weightless
        assert not weigh(robot, sound.q, sound.qd, sound.qdd, sound.tau).is_weightless


def test_placeholders_and_missing_inertials_give_no_evidence():
    robot, sound = record_samples("ur10", 11)
    same = tuple(replace(link, phi=robot.links[2].phi) for link in robot.links)
    assert not corrections(replace(robot, links=same), scale_torque(sound, 1e3))
    unknown = (replace(robot.links[0], phi=None), *robot.links[1:])
    assert not corrections(replace(robot, links=unknown), scale_torque(sound, 1e3))


def test_torques_under_another_gravity_are_those_of_a_robot_that_has_it():
    robot, samples = record_samples("panda", 0)
    compared = compare_with_file(replace(robot, gravity=np.array([1.0, -2.0, -9.0])), samples)
    gravity, moved = np.array([3.0, -7.0, 5.0]), np.linspace(-0.2, 0.3, 7)
    other = mindyn.compile_model(replace(robot, gravity=gravity))
    expected = other.inverse_dynamics(compared.q + moved, compared.qd, compared.qdd)
    assert_close(compared.file_torque(gravity, moved), expected, SAME_ALGEBRA)


def test_torques_of_mimic_joints_under_another_gravity_are_those_of_a_robot_that_has_it():
    arm = replace(mindyn.load_robot("puma560"), drives=(), extras=())
    robot = replace(arm, mimics=(Mimic(arm.joint_names[2], arm.joint_names[1], -1.5, 0.2),))
    t = np.arange(0, 5, 1 / RATE_HZ)[:, None] * np.linspace(0.7, 1.9, 5)
    q, qd, qdd = np.sin(t), np.cos(t), -np.sin(t)
    tau = mindyn.compile_model(robot).inverse_dynamics(q, qd, qdd)
    compared = compare_with_file(robot, Samples(robot.primary_names, q, qd, qdd, tau, RATE_HZ, np.zeros(len(q), int)))
    gravity = np.array([3.0, -7.0, 5.0])
    other = mindyn.compile_model(replace(robot, gravity=gravity))
    expected = other.inverse_dynamics(compared.q, compared.qd, compared.qdd)
    assert_close(compared.file_torque(gravity), expected, SAME_ALGEBRA)
