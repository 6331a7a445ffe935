"""Friction that grows with the load, found in logs of closed loops whose torques come from the pins' multipliers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from closeness import SAME_ALGEBRA, assert_close
from identifiability.loop_oracle import LoopOracle
from raising import raises

import mindyn
from mindyn.equations.loop_closure import home_closure
from mindyn.foundation.errors import Code, InputError
from mindyn.logs.conditioning import Conditioning
from mindyn.logs.log import log_from_arrays
from mindyn.regression.friction import Friction
from mindyn.regression.regressor import Regressor
from mindyn.regression.settings import EquationSettings

WIDTH, VISCOUS, NOISE = 0.05, 1.0, 0.01


def record_log(robot, seed=1):
    """A log of sines in the primary joints, and the true shares of the load and Coulomb torques."""
    rng, closure = np.random.default_rng(seed), home_closure(robot)
    t, count = np.arange(0, 6, 0.01), len(closure.primary)
    size, phase = rng.uniform(0.1, 0.25, (2, count, 3))
    w = 2 * np.pi * np.array([0.3, 0.7, 1.1]) * (1 + 0.07 * np.arange(count))[:, None]
    angle = w * t[:, None, None] + 20 * phase
    p = closure.home[list(closure.primary)] + (size * np.sin(angle)).sum(axis=2)
    pd, pdd = (size * w * np.cos(angle)).sum(axis=2), -(size * w**2 * np.sin(angle)).sum(axis=2)
    oracle, q = LoopOracle(robot), closure.positions(p)
    load = np.array([oracle.torque_rows(*item) @ robot.phi for item in zip(q, pd, pdd, strict=True)])
    share, coulomb = 0.12 + 0.03 * np.arange(count), 2.0 + np.arange(count)
    tau = load + (share * np.abs(load) + coulomb) * np.tanh(pd / WIDTH) + VISCOUS * pd
    tau += NOISE * tau.std(axis=0) * rng.normal(size=tau.shape)
    return log_from_arrays(robot.primary_names, t, p, tau, pd), share, coulomb


@pytest.mark.parametrize("name", ["five_bar", "parallelogram_planar"])
def test_shares_of_the_load_lie_in_their_intervals(name):
    """And the robot made of the estimate has its torques."""
    robot = replace(mindyn.load_robot(name), drives=(), extras=())
    log, share, coulomb = record_log(robot)
    stated = EquationSettings(Conditioning(motion_hz=None, delay_s=0.0), friction=Friction("tanh", WIDTH, ("load",)))
    estimate = mindyn.identify(robot, log, mindyn.LeastSquares(), stated)
    numbers = [robot.joint_index(joint) + 1 for joint in robot.primary_names]
    for label, truth in (("f_load", share), ("fc", coulomb)):
        places = [estimate.names.index(f"{label}{number}") for number in numbers]
        assert (np.abs(estimate.beta[places] - truth) < 2 * estimate.uncertainty.half_widths[places]).all()
    samples = mindyn.condition(robot, log, estimate.settings.fit_conditioning).samples
    projected = mindyn.make_feasible(estimate)
    model = mindyn.compile_model(mindyn.build_full_model(projected, friction_at_zero="fitted"), with_drives=True)
    q = estimate.regressor.positions(samples)
    tau = model.inverse_dynamics(q, samples.qd, samples.qdd)
    assert_close(tau, projected.predict(samples), SAME_ALGEBRA)  # links at the edge of what is physical, too
    assert_close(tau, samples.tau, 5 * NOISE)
    assert_close(model.forward_dynamics(q, samples.qd, estimate.predict(samples)), samples.qdd, 5 * NOISE)


def test_friction_of_passive_joints_is_plain():
    """No torque determines the load of a pin: drives stated there have no friction that depends on a load."""
    robot = mindyn.load_robot("five_bar")
    robot = replace(robot, drives=tuple(mindyn.Drive(name) for name in robot.joint_names))
    plain = Regressor(robot)
    friction = Friction("tanh", WIDTH, ("root", "load"), reference=(1.0,) * plain.base.count)
    added = [parameter.name for parameter in Regressor(robot, friction).parameters if parameter.kind == "friction"]
    assert [name for name in added if "load" in name] == ["f_load1", "f_load2", "f_load4"]
    assert [name for name in added if "root" in name] == [f"f_root{k}" for k in range(1, 6)]


def test_a_motor_that_turns_with_a_passive_joint_has_no_known_load():
    robot = mindyn.load_robot("five_bar")
    coupled = mindyn.Drive("joint2", 50.0, {"joint3": 10.0}, side="motor")
    robot = replace(robot, drives=(mindyn.Drive("joint1"), coupled, mindyn.Drive("joint4")))
    assert "turns with a dependent joint" in Regressor(robot).load_obstacle()
    with raises(InputError, Code.UNSUPPORTED, "friction"):
        Regressor(robot, Friction("tanh", WIDTH, ("load",), reference=(1.0,)))
