"""Declared torques: a gas spring, Stribeck friction; in torques, regressor, base parameters, files."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from closeness import ORACLE, SAME_ALGEBRA, assert_close
from robots import random_motion, random_robot, with_random_drives

import mindyn
from mindyn import ExtraTorque, asymmetric_coulomb, asymmetric_viscous, compile_model, load_robot, stribeck
from mindyn.errors import RobotError
from mindyn.robots.expressions import parse_formula


def equipped(seed):
    robot = with_random_drives(random_robot(seed, joints=4), seed)
    extras = (
        ExtraTorque("spring", "joint2", "sin(q + 0.3) / sqrt(2.0 - cos(q2))", 30.0),
        ExtraTorque("weight", "joint1", "cos(q1) * q4 ** 2", -2.5),
        stribeck("joint3", 1.5, 0.1),
        asymmetric_coulomb("joint3", 0.25),
        asymmetric_viscous("joint4", 0.5),
    )
    return replace(robot, extras=extras)


def expected_extra(q, qd):
    tau = np.zeros(4)
    tau[1] = 30.0 * np.sin(q[1] + 0.3) / np.sqrt(2.0 - np.cos(q[1]))
    tau[0] = -2.5 * np.cos(q[0]) * q[3] ** 2
    tau[2] = 1.5 * np.sign(qd[2]) * np.exp(-((qd[2] / 0.1) ** 2)) + 0.25
    tau[3] = 0.5 * abs(qd[3])
    return tau


@pytest.mark.parametrize("seed", range(6))
def test_extra_torques_are_what_their_formulas_say(seed):
    robot = equipped(seed)
    q, qd, qdd = random_motion(robot, seed)
    qd[2] = 0.07
    without = compile_model(replace(robot, extras=()), drives=True)
    model = compile_model(robot, drives=True)
    tau = model.inverse_dynamics(q, qd, qdd)
    assert_close(tau, without.inverse_dynamics(q, qd, qdd) + expected_extra(q, qd), SAME_ALGEBRA)
    condition = np.linalg.cond(model.inertia_matrix(q))
    assert_close(model.forward_dynamics(q, qd, tau), qdd, SAME_ALGEBRA * condition)
    assert_close(model.regressor(q, qd, qdd) @ model.base.values, tau, ORACLE)
    assert model.base.names[-5:] == tuple(extra.name for extra in robot.extras)
    assert_close(
        model.standard_regressor(q, qd, qdd)[:, -5:] @ [e.coefficient for e in robot.extras],
        tau - without.inverse_dynamics(q, qd, qdd),
        1e-8,
    )


def test_extras_go_through_toml(tmp_path):
    robot = equipped(1)
    mindyn.write_toml(robot, tmp_path / "robot.toml")
    assert load_robot(tmp_path / "robot.toml", snap=False) == robot
    assert "extra torque spring on joint2" in str(robot)


@pytest.mark.parametrize(
    ("formula", "message"),
    [
        ("__import__('os').system('x')", "is not known; a formula has numbers"),
        ("q.real", "is not known"),
        ("sin(q", "cannot be read"),
        ("torque * 2", "'torque' in the formula"),
        ("qdd", "'qdd' in the formula"),
        ("lambda: 1", "is not known"),
        ("", "a formula is a text"),
        ("q + " * 400 + "q", "at most 1000"),
    ],
)
def test_formulas_are_arithmetic_alone(formula, message):
    with pytest.raises(RobotError, match=message):
        parse_formula(formula)


def test_extras_name_joints_that_exist():
    robot = load_robot("planar2")
    with pytest.raises(RobotError, match="names joint 7; the robot has 2"):
        replace(robot, extras=(ExtraTorque("x", "joint1", "q7"),))
    with pytest.raises(mindyn.MindynError, match="no joint 'elbow'"):
        replace(robot, extras=(ExtraTorque("x", "elbow", "q"),))
    with pytest.raises(RobotError, match="remove those first"):
        equipped(1).lock({"joint1": 0.0})
