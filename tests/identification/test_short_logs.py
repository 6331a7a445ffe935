"""Short logs are identified if a slow filter leaves a single part to hold out, and fits to few equations say so."""

from __future__ import annotations

import numpy as np

from mindyn.applications.validation.validate import validate
from mindyn.foundation.findings import Kind
from mindyn.identification.identify import identify
from mindyn.identification.method_names import METHODS
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
    tau = compile_model(robot, with_drives=True).inverse_dynamics(q, qd, qdd)
    noise = np.random.default_rng(0).normal(0, 2.0, tau.shape)
    estimate = identify(robot, log_from_arrays(robot.joint_names, t, q, tau + noise))
    truth = dict(zip(estimate.base.names, estimate.base.values, strict=True))
    for name in ("mcx1R", "Izz1R", "mcx2"):
        assert abs(estimate.value(name) / truth[name] - 1) < 0.05


def test_an_energy_fit_to_few_equations_says_so_and_does_not_blame_the_columns():
    """In 8.6 s, a PUMA has 60 intervals for 58 parameters; slow rows do not cost further ones, so that 40 s suffice."""
    robot = load_robot("puma560")
    estimates = {seconds: identify(robot, swinging_log(robot, seconds), METHODS["energy"]) for seconds in (8.6, 40)}
    kinds = {finding.kind for finding in estimates[8.6].findings if finding.explained_by is None}
    assert Kind.FEW_EQUATIONS in kinds
    assert not {Kind.UNRELATED_TORQUE, Kind.UNEXPLAINED_TORQUE, Kind.POOR_MOTION} & kinds
    assert Kind.FEW_EQUATIONS not in {finding.kind for finding in estimates[40].findings}
    assert validate(estimates[40], swinging_log(robot, 10, seed=99)).error.total < 0.03


def swinging_log(robot, seconds, seed=1):
    rng, n, t = np.random.default_rng(seed), robot.joint_count, np.arange(int(seconds * 200)) / 200
    w, phases = rng.uniform(1.0, 5.0, (4, n)), rng.uniform(0, 6.28, (4, n))
    angles = t[:, None, None] * w + phases
    q, qd, qdd = (0.35 * (w**k * np.sin(angles + k * np.pi / 2)).sum(axis=1) for k in range(3))
    tau = compile_model(robot, with_drives=bool(robot.drives)).inverse_dynamics(q, qd, qdd)
    noise = 0.02 * np.sqrt((tau**2).mean(axis=0)) * rng.normal(size=tau.shape)
    return log_from_arrays(robot.joint_names, t, q + 1e-5 * rng.normal(size=q.shape), tau + noise)
