"""Yoshida 1996, sections 3.5 and 3.6 in simulation: his PUMA with table 3's values, coarse encoders, three methods."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mindyn.algebra.values import Array
from mindyn.estimators.estimate import Estimate
from mindyn.estimators.least_squares import LeastSquares
from mindyn.estimators.recursive import RecursiveLeastSquares
from mindyn.estimators.recursive_instruments import RecursiveInstruments
from mindyn.estimators.step_by_step import StepByStep
from mindyn.excitation.step_planner import plan_tests
from mindyn.excitation.step_simulation import simulate_tests
from mindyn.kernels.model import compile_model
from mindyn.logs.samples import Samples
from mindyn.regression.rows import rows_of
from mindyn.regression.treatment import Treatment
from mindyn.robots.drive_matrices import gear_matrix
from mindyn.robots.robot import Robot
from mindyn.simulation.sensors import Sensors
from mindyn.validation.step_checks import StepChecks, check_steps

STEP_S = 0.005
COUNT = 2 * np.pi / 1000
"""Radians of the motor for each count of its encoder."""
ACCELERATIONS = (3.0, 3.0, 7.0, 23.0, 23.0, 24.0)
"""Standard deviation of every joint's acceleration, rad/s^2."""
SPREAD, SINES = 0.8, 12
ROWS, FIRST, STRETCH, TRAJECTORY_ROWS = 3000, 750, 150, 600
"""Samples of the identification; from which on every joint has turned back, so that friction is told; between two
points of the convergence; of the motions that models are judged by."""


def motion(count: int, seed: int) -> tuple[Array, Array, Array]:
    """q, qd, qdd (count + 2, 6): sums of sines, one row before and one after."""
    rng = np.random.default_rng(seed)
    size = np.array(ACCELERATIONS)
    w = np.sqrt(size / SPREAD) * rng.uniform(0.3, 1.3, (SINES, 6))
    a, phase = rng.uniform(0.5, 1.0, w.shape), rng.uniform(0, 2 * np.pi, w.shape)
    a = a * size / np.sqrt((a**2 * w**4).sum(axis=0) / 2)
    angle = STEP_S * np.arange(-1, count + 1)[:, None, None] * w + phase
    sin, cos = np.sin(angle), np.cos(angle)
    return (a * sin).sum(axis=1), (a * w * cos).sum(axis=1), -(a * w**2 * sin).sum(axis=1)


def clean_samples(robot: Robot, count: int, seed: int) -> Samples:
    """The motion as it is, with the robot's own torques."""
    q, qd, qdd = (part[1:-1] for part in motion(count, seed))
    return _samples(robot, q, qd, qdd, compile_model(robot, drives=True).inverse_dynamics(q, qd, qdd))


def measured_samples(robot: Robot, count: int, seed: int) -> Samples:
    """Exact torques; motor angles with uniform noise of one count; velocities and accelerations by differences."""
    q, qd, qdd = motion(count, seed)
    tau = compile_model(robot, drives=True).inverse_dynamics(q, qd, qdd)[1:-1]
    G = gear_matrix(robot)
    motors = q @ G.T + COUNT * np.random.default_rng(1000 + seed).uniform(-0.5, 0.5, q.shape)
    p = motors @ np.linalg.inv(G).T
    qd, qdd = (p[2:] - p[:-2]) / (2 * STEP_S), (p[2:] - 2 * p[1:-1] + p[:-2]) / STEP_S**2
    return _samples(robot, p[1:-1], qd, qdd, tau)


def _samples(robot: Robot, q: Array, qd: Array, qdd: Array, tau: Array) -> Samples:
    return Samples(robot.joint_names, q, qd, qdd, tau, 1 / STEP_S, np.zeros(len(q), dtype=np.int64))


@dataclass(frozen=True, slots=True)
class Convergence:
    """Values of the parameters over the samples taken in, by both recursive methods, and their last estimates.

    samples  (k,)
    ls, iv   (k, p)
    """

    samples: Array
    ls: Array
    iv: Array
    least_squares: Estimate
    instruments: Estimate


def convergence(robot: Robot) -> Convergence:
    """Recursive least squares and recursive instrumental variables over one log."""
    log = measured_samples(robot, ROWS, 0)
    plain = LeastSquares().fit(rows_of(robot, log, Treatment(drives="stated")))
    ls, iv = RecursiveLeastSquares(robot), RecursiveInstruments(plain)
    points: list[tuple[int, Array, Array]] = []
    for k in range(ROWS):
        sample = (log.q[k], log.qd[k], log.qdd[k], log.tau[k])
        ls.update(*sample)
        iv.update(*sample)
        if k + 1 >= FIRST and (k + 1) % STRETCH == 0:
            points.append((k + 1, ls.beta, iv.beta))
    counts, by_ls, by_iv = zip(*points, strict=True)
    return Convergence(np.array(counts, dtype=float), np.array(by_ls), np.array(by_iv), plain, iv.estimate())


def step_estimate(robot: Robot) -> tuple[Estimate, StepChecks]:
    """The step-by-step method on simulated tests with the same encoders, and every test repeated with its values."""
    plan = plan_tests(robot)
    sensors = Sensors(counts_per_revolution=1000, position_noise=0.003, torque_noise=0.001)
    logs = simulate_tests(robot, plan, rate_hz=200.0, sensors=sensors, seed=1)
    found = StepByStep().fit(robot, plan, logs)
    return found, check_steps(found, plan, logs)
