"""Clean motions of arms next to special geometry, of any size: what is identified predicts another motion."""

from __future__ import annotations

import numpy as np
import pytest
from closeness import ORACLE
from fuzz.near_special import Truth, random_case

import mindyn
from mindyn.logs.conditioning import AS_LOGGED
from mindyn.logs.log import log_from_arrays
from mindyn.parameters.base_set_verification import States
from mindyn.regression.settings import EquationSettings
from mindyn.robots.robot import Robot
from mindyn.robots.scale import length_unit

SEEDS = tuple(5 * 10**6 + k for k in (3, 4, 5, 11, 14, 16, 17, 21, 22, 35, 41, 42))
"""Arms of at most six joints, deviations 1e-12 .. 6e-3, reaches 3e-4 .. 40 m; of 22 a joint has 1e-8 of the torque."""


def swings(robot: Robot, seed: int, count: int) -> tuple[np.ndarray, States]:
    """Times and exact states of sums of sines: turns of about 1 rad, slides of about the robot's length."""
    rng, n = np.random.default_rng(seed), robot.joint_count
    L, g = length_unit(robot), float(np.linalg.norm(robot.gravity))
    period = np.sqrt(L / g) if g > 0 else 1.0
    unit = np.where([joint.kind == "prismatic" for joint in robot.joints], L, 1.0)
    time = np.linspace(0, 40 * period, count)
    q, qd, qdd = np.zeros((3, count, n))
    for _ in range(5):
        size, rate, phase = 0.6 * rng.normal(size=n) * unit, rng.uniform(0.2, 1.5, n) / period, rng.uniform(0, 6, n)
        angle = np.outer(time, rate) + phase
        q += size * np.sin(angle)
        qd += size * rate * np.cos(angle)
        qdd -= size * rate**2 * np.sin(angle)
    return time, States(q, qd, qdd)


@pytest.mark.parametrize("seed", SEEDS)
def test_another_motion_is_predicted(seed):
    robot = random_case(seed).robot
    truth = Truth(robot)
    time, seen = swings(robot, 1, 400)
    tau = truth.torques(seen.q, seen.qd, seen.qdd)
    log = log_from_arrays(robot.joint_names, time, seen.q, tau, seen.qd, seen.qdd)
    estimate = mindyn.identify(robot, log, mindyn.LeastSquares(), EquationSettings(AS_LOGGED))
    _, other = swings(robot, 2, 100)
    expected = truth.torques(other.q, other.qd, other.qdd)
    error = np.abs(estimate.predict(other.q, other.qd, other.qdd) - expected).max(axis=0)
    assert (error / truth.sizes(other.q, other.qd, other.qdd).max(axis=0)).max() < ORACLE
