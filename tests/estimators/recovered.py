"""Samples of known robots: exact motion and torque, with noise if asked."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mindyn.identification import WeighedLoad, estimate_gains
from mindyn.kernels.model import compile_model
from mindyn.logs import AS_LOGGED
from mindyn.logs.log import log_from_arrays
from mindyn.logs.metadata import LogMetadata
from mindyn.logs.samples import Samples
from mindyn.regression.settings import EquationSettings


def exact_samples(robot, count=600, seed=0, noise=0.0, segments=1):
    """Random states (every joint excited in every way) and the torque of the robot with its drives."""
    rng = np.random.default_rng(seed)
    q, qd, qdd = rng.uniform(-2, 2, (3, count, robot.joint_count))
    tau = compile_model(robot, with_drives=bool(robot.drives)).inverse_dynamics(q, qd, qdd)
    tau = tau + noise * rng.standard_normal(tau.shape)
    numbers = np.arange(count, dtype=np.int64) * segments // count
    return Samples(robot.primary_names, q, qd, qdd, tau, 1000.0, numbers)


def smooth_samples(robot, count=4000, seed=0, rate=200.0, amplitude=1.0):
    """Sums of sines, so that derivatives and filters mean something."""
    rng = np.random.default_rng(seed)
    t = np.arange(count) / rate
    w = 2 * np.pi * rng.uniform(0.1, 0.9, (5, robot.joint_count))
    a = amplitude * rng.uniform(0.3, 1.0, w.shape) / 3
    phase = rng.uniform(0, 2 * np.pi, w.shape)
    angle = t[:, None, None] * w + phase
    q = (a * np.sin(angle)).sum(axis=1)
    qd = (a * w * np.cos(angle)).sum(axis=1)
    qdd = -(a * w**2 * np.sin(angle)).sum(axis=1)
    tau = compile_model(robot, with_drives=bool(robot.drives)).inverse_dynamics(q, qd, qdd)
    return Samples(robot.primary_names, q, qd, qdd, tau, rate, np.zeros(count, dtype=np.int64))


def gains_by_load(robot, unloaded, loaded, mass, link=None):
    """Gains of the signals `tau` of two runs, the second one with a load of known mass."""

    def log(samples):
        times = np.arange(len(samples)) / samples.rate_hz
        plain = log_from_arrays(samples.joint_names, times, samples.q, samples.tau, samples.qd, samples.qdd)
        return replace(plain, metadata=LogMetadata(current_gains="unknown"))

    load = WeighedLoad([log(loaded)], mass, link)
    return estimate_gains(robot, [log(unloaded)], EquationSettings(AS_LOGGED), load)
