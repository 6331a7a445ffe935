"""Simulated identification of Yoshida's PUMA: a consistent arm near Table 3, sums of sines, coarse encoders."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np

from mindyn.equations.identifiability.base_sets import base_parameters
from mindyn.foundation.algebra.inertia import pseudo_inertia
from mindyn.kernels.model import compile_model
from mindyn.logs.samples import Samples
from mindyn.papers.yoshida_robot import yoshida_puma
from mindyn.robots.drive_matrices import gear_matrix
from mindyn.robots.parts import Link

STEP_S = 0.005
COUNT = 2 * np.pi / 1000
"""Radians of the motor for each count of its encoder."""
ACCELERATIONS = {
    "fast": (8.0, 7.0, 21.0, 64.0, 90.0, 128.0),
    "medium": (3.0, 3.0, 7.0, 23.0, 23.0, 24.0),
    "slow": (1.1, 1.0, 2.0, 7.0, 7.5, 8.0),
}
"""Standard deviation of every joint's acceleration, rad/s^2."""
SPREAD = 0.8
"""Standard deviation of positions, rad."""
SINES = 12


@cache
def consistent_puma():
    """The robot with the base values of the physically consistent links nearest to Table 3, and their distance.

    Relative weights 1 / max(|p|, 0.02), rotors of motors 1 and 2 within J1z and J2z; rms of the relative moves.
    """
    import cvxpy as cp

    robot = yoshida_puma("table3")
    base = base_parameters(robot, with_drives=True)
    phi, rotors = cp.Variable(60), cp.Variable(2, nonneg=True)
    units = np.array([pseudo_inertia(unit) for unit in np.eye(10)])
    links = [sum(phi[10 * i + k] * units[k] for k in range(10)) >> 0 for i in range(6)]
    K = base.matrix[:36]
    columns = [base.labels.index(name) for name in ("Im1", "Im2")]
    value = K[:, :60] @ phi + K[:, columns] @ rotors
    weights = 1 / np.maximum(np.abs(base.values[:36]), 0.02)
    price = cp.sum_squares(cp.multiply(weights, value - base.values[:36]))
    cp.Problem(cp.Minimize(price + 1e-6 * cp.sum(phi[::10])), links).solve(solver=cp.CLARABEL)
    everything = base.embedding @ np.append(value.value, base.values[36:])
    result = tuple(Link(link.name, everything[10 * i : 10 * i + 10]) for i, link in enumerate(robot.links))
    distance = float(np.sqrt(np.mean((weights * (value.value - base.values[:36])) ** 2)))
    return replace(robot, links=result), distance


def motion(kind, count, seed):
    """q, qd, qdd (count + 2, 6): one row before and one after."""
    rng = np.random.default_rng(seed)
    size = np.array(ACCELERATIONS[kind])
    w = np.sqrt(size / SPREAD) * rng.uniform(0.3, 1.3, (SINES, 6))
    a, phase = rng.uniform(0.5, 1.0, w.shape), rng.uniform(0, 2 * np.pi, w.shape)
    a = a * size / np.sqrt((a**2 * w**4).sum(axis=0) / 2)
    angle = STEP_S * np.arange(-1, count + 1)[:, None, None] * w + phase
    sin, cos = np.sin(angle), np.cos(angle)
    return (a * sin).sum(axis=1), (a * w * cos).sum(axis=1), -(a * w**2 * sin).sum(axis=1)


def clean_samples(kind, count, seed):
    robot, _ = consistent_puma()
    q, qd, qdd = (part[1:-1] for part in motion(kind, count, seed))
    return _samples(robot, q, qd, qdd, compile_model(robot, with_drives=True).inverse_dynamics(q, qd, qdd))


def simulate_samples(kind, count, seed):
    """Exact torques; motor angles rounded (fast) or with uniform noise of one count; central differences."""
    robot, _ = consistent_puma()
    q, qd, qdd = motion(kind, count, seed)
    tau = compile_model(robot, with_drives=True).inverse_dynamics(q, qd, qdd)[1:-1]
    G = gear_matrix(robot)
    motors = q @ G.T
    noise = np.random.default_rng(1000 + seed).uniform(-0.5, 0.5, motors.shape)
    motors = np.round(motors / COUNT) * COUNT if kind == "fast" else motors + COUNT * noise
    p = motors @ np.linalg.inv(G).T
    return _samples(robot, p[1:-1], (p[2:] - p[:-2]) / (2 * STEP_S), (p[2:] - 2 * p[1:-1] + p[:-2]) / STEP_S**2, tau)


def _samples(robot, q, qd, qdd, tau):
    return Samples(robot.joint_names, q, qd, qdd, tau, 1 / STEP_S, np.zeros(len(q), dtype=np.int64))


def torque_errors(estimate, clean):
    """(6,) rms error of the motors' torques on clean motion, % of their rms torque."""
    K = np.linalg.inv(gear_matrix(estimate.robot))
    error, torque = (estimate.predict(clean) - clean.tau) @ K, clean.tau @ K
    return 100 * np.sqrt((error**2).mean(axis=0) / (torque**2).mean(axis=0))
