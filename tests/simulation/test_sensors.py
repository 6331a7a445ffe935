"""Sensors read what happened: late, rounded, noisy, at the motor or at the joint."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from closeness import SAME_ALGEBRA, assert_close, assert_negligible
from raising import raises
from robots import random_robot
from simulation.plants import arm

from mindyn.foundation.errors import Code, MissingPhysicsError
from mindyn.motions.simulation.controllers import ComputedTorque, SineMotion
from mindyn.motions.simulation.sensors import Sensors, measure
from mindyn.motions.simulation.simulate import simulate
from mindyn.robots.drive_matrices import gear_matrix
from mindyn.robots.parts import Drive

COUNTS = 4096
STEP = 2 * np.pi / COUNTS


@pytest.fixture(scope="module")
def robot():
    return arm(2, joints=3)  # two of its drives are coupled


@pytest.fixture(scope="module")
def motion(robot):
    reference = SineMotion(np.zeros(3), np.full(3, 0.3), np.array([0.7, 1.1, 1.6]), np.zeros(3))
    controller = ComputedTorque(robot, reference, 100, 20, with_drives=True)
    return simulate(robot, controller, seconds=1, q0=np.zeros(3), qd0=reference(0.0)[1], with_drives=True)


def test_perfect_sensors_read_the_motion(robot, motion):
    read = measure(robot, motion, Sensors())
    assert_close(read.position, motion.q, SAME_ALGEBRA)
    assert_close(read.torque, motion.tau, SAME_ALGEBRA)
    assert (read.t == motion.t).all()
    assert read.joint_names == robot.joint_names


def test_motor_side_goes_through_the_gear_matrix_and_keeps_power(robot, motion):
    read = measure(robot, motion, Sensors(position_side="motor", torque_side="motor"))
    assert_close(read.position, motion.q @ gear_matrix(robot).T, SAME_ALGEBRA)
    motor_power = (read.torque * (motion.qd @ gear_matrix(robot).T)).sum(axis=1)
    assert_close(motor_power, (motion.tau * motion.qd).sum(axis=1), SAME_ALGEBRA)


def test_encoders_count_the_motors_turns(robot, motion):
    at_motor = measure(robot, motion, Sensors(counts_per_revolution=COUNTS, position_side="motor"))
    counts = at_motor.position / STEP
    assert_negligible(counts - np.round(counts), 1.0, 1e-9)
    exact = motion.q @ gear_matrix(robot).T
    assert np.abs(at_motor.position - exact).max() <= STEP / 2 * (1 + 1e-9)
    assert np.abs(at_motor.position - exact).max() > STEP / 4
    at_joint = measure(robot, motion, Sensors(counts_per_revolution=COUNTS))
    assert_close(at_joint.position @ gear_matrix(robot).T, at_motor.position, SAME_ALGEBRA)


def test_delay_shows_the_past(robot, motion):
    read = measure(robot, motion, Sensors(position_delay_s=0.0105, torque_delay_s=0.003))
    assert_close(read.torque[3:], motion.tau[:-3], SAME_ALGEBRA)
    assert_close(read.torque[:3], np.tile(motion.tau[0], (3, 1)), SAME_ALGEBRA)
    before, after = slice(0, -11), slice(1, -10)
    middle = (motion.q[before] + motion.q[after]) / 2 + (motion.qd[before] - motion.qd[after]) / 8 / motion.rate_hz
    assert_close(read.position[11:], middle, SAME_ALGEBRA)
    assert_close(read.position[:10] + 1, np.tile(motion.q[0], (10, 1)) + 1, SAME_ALGEBRA)
    late = measure(robot, motion, Sensors(position_delay_s=0.010))
    assert_close(late.position[10:], motion.q[:-10], SAME_ALGEBRA)


def test_readings_between_the_rows_follow_the_motion(robot, motion):
    replayed = {"seconds": 1, "q0": motion.q[0], "qd0": motion.qd[0], "control_rate_hz": motion.rate_hz}
    torque = lambda t, *_: motion.tau[round(motion.rate_hz * t)]  # noqa: E731
    fine = simulate(robot, torque, **replayed, rate_hz=3000, with_drives=True)
    read = measure(robot, motion, Sensors(rate_hz=3000))
    assert_close(read.position, fine.q, 1e-6)


def test_noise_has_the_given_deviation_and_depends_on_the_seed(robot, motion):
    settings = {"position_noise": 2e-4, "torque_noise": 0.05, "position_side": "motor", "torque_side": "motor"}
    exact = measure(robot, motion, Sensors(position_side="motor", torque_side="motor"))
    read, again, other = (measure(robot, motion, Sensors(seed=seed, **settings)) for seed in (1, 1, 2))
    assert (read.position - exact.position).std() == pytest.approx(2e-4, rel=0.05)
    assert (read.torque - exact.torque).std() == pytest.approx(0.05, rel=0.05)
    assert (read.position == again.position).all()
    assert (read.position != other.position).any()


def test_a_robot_without_drives_is_read_at_its_joints():
    robot = random_robot(8, joints=2)
    motion = simulate(robot, lambda _t, _q, qd: -qd, seconds=0.2, q0=np.ones(2), sensors=Sensors(rate_hz=250))
    assert_close(motion.measured.position, motion.q[::4], SAME_ALGEBRA)


def test_drives_on_some_joints_are_asked_for_only_at_the_motors():
    robot = random_robot(8, joints=2)
    robot = replace(robot, drives=(Drive(robot.joint_names[0], 50.0),))
    motion = simulate(robot, lambda _t, _q, qd: -qd, seconds=0.2, q0=np.ones(2), sensors=Sensors(rate_hz=250))
    assert_close(motion.measured.position, motion.q[::4], SAME_ALGEBRA)
    for asked in ({"torque_side": "motor"}, {"counts_per_revolution": 500.0}):
        with raises(MissingPhysicsError, code=Code.MISSING_VALUE, subject=robot.joint_names[1]):
            measure(robot, motion, Sensors(**asked))


def test_current_is_read_in_steps(robot, motion):
    read = measure(robot, motion, Sensors(torque_resolution=0.01, torque_side="motor"))
    assert_negligible(read.torque / 0.01 - np.round(read.torque / 0.01), 1.0, 1e-9)
