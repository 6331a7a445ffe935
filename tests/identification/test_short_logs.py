"""Logs so short that a slow filter leaves a single part to hold out are identified all the same."""

from __future__ import annotations

import numpy as np

from mindyn.identification.identify import identify
from mindyn.kernels.model import compile_model
from mindyn.logs.log import log_from_arrays
from mindyn.robots.loading import load_robot


def test_a_log_of_sixteen_seconds_is_identified():
    """Of 1601 rows at 100 Hz one of eight parts is a row longer than a filter of 0.5 Hz cuts away."""
    robot = load_robot("planar2")
    t = np.arange(1601) / 100
    w = np.array([[2.0, 3.1], [4.3, 1.7]])
    angles = t[:, None, None] * w
    q, qd, qdd = (0.6 * (w**k * np.sin(angles + k * np.pi / 2)).sum(axis=1) for k in range(3))
    tau = compile_model(robot, drives=True).inverse_dynamics(q, qd, qdd)
    noise = np.random.default_rng(0).normal(0, 2.0, tau.shape)
    estimate = identify(robot, log_from_arrays(robot.joint_names, t, q, tau + noise))
    truth = dict(zip(estimate.base.names, estimate.base.values, strict=True))
    for name in ("mcx1R", "Izz1R", "mcx2"):
        assert abs(estimate.value(name) / truth[name] - 1) < 0.05
