"""The observer that estimates an external torque."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from closeness import assert_close
from raising import raises

import mindyn
from mindyn import Drive, compile_model, load_robot
from mindyn.foundation.errors import Code
from mindyn.kernels.observer import MomentumObserver


def simulate_push(robot, push, model):
    """Yield states and drive torques of an arm with gravity compensation, damping and a constant external torque."""
    dt, steps, n = 1e-3, 3000, robot.joint_count
    q, qd = np.zeros(n), np.zeros(n)
    for _ in range(steps):
        tau = model.gravity(q) - 5.0 * qd
        yield q, qd, tau
        # forward_dynamics contains the friction of the drives; the drives do not compensate the push.
        qdd = model.forward_dynamics(q, qd, tau + push)
        q, qd = q + dt * qd + dt * dt / 2 * qdd, qd + dt * qdd


def test_the_observer_estimates_a_known_external_torque():
    drives = tuple(Drive(name, 1.0, {}, 0.1, 0.5, 0.0, 0.0, "joint") for name in load_robot("panda").joint_names)
    robot = replace(load_robot("panda"), drives=drives)
    model = compile_model(robot, with_drives=True)
    push = np.array([3.0, -2.0, 1.0, 0.5, -0.5, 0.3, 0.2])
    observer = MomentumObserver(model, gain=50.0, dt=1e-3)
    estimates = [observer.update(*sample) for sample in simulate_push(robot, push, model)]
    assert_close(estimates[-1], push, 0.02)
    assert np.abs(estimates[0]).max() < 1e-12  # before any motion


def test_the_observer_is_exported_as_c(tmp_path):
    compile_model(load_robot("puma560")).write_c(tmp_path / "observer.c", ["momentum_observer"])
    assert "momentum_observer(const double *q" in (tmp_path / "observer.h").read_text()


def test_an_invalid_sampling_time_is_rejected():
    with raises(mindyn.MindynError, Code.OUT_OF_RANGE, "dt"):
        MomentumObserver(compile_model(load_robot("planar2")), gain=1.0, dt=0.0)
