"""Load-dependent friction: (fc + f_load |load|) sign(qd) + f_driving load |sign(qd)|, evaluated explicitly."""

from __future__ import annotations

import ctypes
import subprocess
from dataclasses import replace

import numpy as np
import pytest
from closeness import ORACLE, SAME_ALGEBRA, assert_close, assert_negligible
from raising import raises

import mindyn
from mindyn.foundation.errors import Code, RobotError
from mindyn.kernels.observer import MomentumObserver
from mindyn.robots.drive_matrices import reflected_inertia

WIDTH = 0.05
TRAPEZOIDS = 1e-3
"""Relative error of the work by the trapezoidal rule over the rows of a simulation."""
RNG = np.random.default_rng(3)
Q, QD, QDD = RNG.normal(size=(3, 40, 6))
TAKEN = np.array([0.05, 0.12, 0.2, 0.1, 0.3, 0.02])
DRIVING = np.array([0.0, 0.05, -0.1, 0.0, 0.1, 0.0])


def smooth(robot):
    return replace(robot, drives=tuple(replace(drive, coulomb=0.0) for drive in robot.drives))


def add_load_friction(robot, taken=TAKEN, driving=DRIVING):
    s = f"tanh(qd / {WIDTH})"
    extras = []
    for joint, part, more in zip(robot.joint_names, taken, driving, strict=True):
        extras.append(mindyn.ExtraTorque(f"load_{joint}", joint, f"abs(load) * {s}", float(part)))
        extras.append(mindyn.ExtraTorque(f"driving_{joint}", joint, f"load * abs({s})", float(more)))
    return replace(robot, extras=tuple(extras))


@pytest.fixture(scope="module")
def arm():
    return smooth(mindyn.load_robot("puma560"))


def load_of(robot, q, qd, qdd):
    """Return the torque of links and rotors."""
    return mindyn.compile_model(robot).inverse_dynamics(q, qd, qdd) + qdd @ reflected_inertia(robot)


def torque(robot, q, qd, qdd):
    load, s = load_of(robot, q, qd, qdd), np.tanh(qd / WIDTH)
    without = mindyn.compile_model(robot, with_drives=True).inverse_dynamics(q, qd, qdd)
    return without + TAKEN * np.abs(load) * s + DRIVING * load * np.abs(s)


def test_inverse_dynamics_has_the_formula(arm):
    tau = mindyn.compile_model(add_load_friction(arm), with_drives=True).inverse_dynamics(Q, QD, QDD)
    assert_close(tau, torque(arm, Q, QD, QDD), SAME_ALGEBRA)


def test_forward_dynamics_inverts_inverse_dynamics(arm):
    """The load is found as a fixed point, also with rotors coupled by gears."""
    for robot in (arm, smooth(mindyn.load_robot("puma560_yoshida"))):
        model = mindyn.compile_model(add_load_friction(robot), with_drives=True)
        tau = model.inverse_dynamics(Q, QD, QDD)
        assert_close(model.forward_dynamics(Q, QD, tau), QDD, ORACLE)


def test_exported_c_has_the_formula(arm, tmp_path):
    mindyn.compile_model(add_load_friction(arm), with_drives=True).write_c(tmp_path / "arm.c", ["inverse_dynamics"])
    library = tmp_path / "arm.so"
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", library, tmp_path / "arm.c", "-lm"], check=True)
    out = np.empty(6)
    pointer = ctypes.POINTER(ctypes.c_double)
    function = ctypes.CDLL(str(library)).arm_inverse_dynamics
    q, qd, qdd = (np.ascontiguousarray(rows[0]) for rows in (Q, QD, QDD))
    function(*(array.ctypes.data_as(pointer) for array in (q, qd, qdd, out)))
    assert_close(out, torque(arm, Q[:1], QD[:1], QDD[:1])[0], SAME_ALGEBRA)


def test_friction_never_drives(arm):
    """It dissipates power for any direction of the load, provided f_load is not below |f_driving|."""
    friction = torque(arm, Q, QD, QDD) - mindyn.compile_model(arm, with_drives=True).inverse_dynamics(Q, QD, QDD)
    assert (friction * QD >= 0).all()


def test_a_simulated_arm_loses_the_energy_that_friction_dissipates():
    """Under a constant torque, its energy changes by the work of the torque minus that of friction."""
    arm = replace(mindyn.load_robot("planar2"), drives=())
    taken, tau = np.array([0.1, 0.2]), np.array([300.0, 60.0])
    robot = add_load_friction(arm, taken, np.zeros(2))
    motion = mindyn.simulate(robot, lambda *_: tau, seconds=1.0, q0=[0.3, 0.5], with_drives=True)
    energy = mindyn.compile_model(arm).energy(motion.q, motion.qd).sum(axis=1)
    held = np.broadcast_to(tau, motion.q.shape)
    qdd = mindyn.compile_model(robot, with_drives=True).forward_dynamics(motion.q, motion.qd, held)
    friction = taken * np.abs(load_of(arm, motion.q, motion.qd, qdd)) * np.tanh(motion.qd / WIDTH)
    power = ((tau - friction) * motion.qd).sum(axis=1)
    work = np.concatenate([[0.0], np.cumsum((power[1:] + power[:-1]) / 2 * np.diff(motion.t))])
    assert (friction * motion.qd).sum() > 0.05 * np.abs(tau * motion.qd).sum()
    assert_negligible(energy - energy[0] - work, np.ptp(energy), TRAPEZOIDS)


def test_an_arm_without_torque_has_no_friction_of_its_load():
    """Gears that carry no load have no load-dependent friction."""
    arm = replace(mindyn.load_robot("planar2"), drives=())
    q, qd = RNG.normal(size=(2, 5, 2))
    free = mindyn.compile_model(arm).forward_dynamics(q, qd, np.zeros((5, 2)))
    robot = add_load_friction(arm, np.array([0.1, 0.2]), np.zeros(2))
    assert_close(mindyn.compile_model(robot, with_drives=True).forward_dynamics(q, qd, np.zeros((5, 2))), free, ORACLE)


def test_too_large_load_friction_is_rejected(arm):
    model = mindyn.compile_model(add_load_friction(arm, np.full(6, 0.9), np.zeros(6)), with_drives=True)
    assert np.isfinite(model.inverse_dynamics(Q, QD, QDD)).all()
    with raises(RobotError, Code.UNSUPPORTED, model.robot.extras[0].name):
        model.forward_dynamics(Q, QD, QDD)


@pytest.mark.parametrize("name", ["regressor", "standard_regressor", "momentum_observer"])
def test_equations_without_the_load_reject_load_friction(arm, name):
    model = mindyn.compile_model(add_load_friction(arm), with_drives=True)
    with raises(RobotError, Code.UNSUPPORTED, "load_joint1"):
        model.kernel(name) if name != "momentum_observer" else MomentumObserver(model, 20.0, 1e-3)


def test_sticking_friction_and_load_friction_are_not_simulated_together():
    robot = mindyn.load_robot("planar2")
    robot = replace(robot, drives=tuple(replace(drive, coulomb=0.1) for drive in robot.drives))
    with raises(RobotError, Code.UNSUPPORTED, "load_joint1"):
        mindyn.simulate(
            add_load_friction(robot, np.full(2, 0.1), np.zeros(2)),
            lambda *_: np.zeros(2),
            seconds=0.1,
            q0=np.zeros(2),
            with_drives=True,
        )


def test_a_robot_file_preserves_load_friction(arm, tmp_path):
    mindyn.write_toml(add_load_friction(arm), tmp_path / "arm.toml")
    assert mindyn.load_robot(tmp_path / "arm.toml").extras == add_load_friction(arm).extras
