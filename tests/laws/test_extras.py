"""Extra torques (a gas spring, Stribeck friction) in torques, regressor, base parameters and files."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from closeness import ORACLE, SAME_ALGEBRA, assert_close
from raising import raises
from robots import random_motion, random_robot, with_random_drives

import mindyn
from mindyn import ExtraTorque, compile_model, load_robot
from mindyn.foundation.errors import Code, RobotError
from mindyn.robots.expressions import parse_formula
from mindyn.robots.friction_laws import FRICTION_LAWS, stribeck


def robot_with_extras(seed):
    robot = with_random_drives(random_robot(seed, joints=4), seed)
    extras = (
        ExtraTorque("spring", "joint2", "sin(q + 0.3) / sqrt(2.0 - cos(q2))", 30.0),
        ExtraTorque("weight", "joint1", "cos(q1) * q4 ** 2", -2.5),
        stribeck("joint3", 1.5, 0.1),
        ExtraTorque("difference", "joint3", FRICTION_LAWS["difference"].text("qd", "sign(qd)"), 0.25),
        ExtraTorque("asymmetric", "joint4", FRICTION_LAWS["asymmetric"].text("qd", "sign(qd)"), 0.5),
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
def test_extra_torques_follow_their_formulas(seed):
    robot = robot_with_extras(seed)
    q, qd, qdd = random_motion(robot, seed)
    qd[2] = 0.07
    without = compile_model(replace(robot, extras=()), with_drives=True)
    model = compile_model(robot, with_drives=True)
    tau = model.inverse_dynamics(q, qd, qdd)
    assert_close(tau, without.inverse_dynamics(q, qd, qdd) + expected_extra(q, qd), SAME_ALGEBRA)
    condition = np.linalg.cond(model.inertia_matrix(q))
    assert_close(model.forward_dynamics(q, qd, tau), qdd, SAME_ALGEBRA * condition)
    assert_close(model.regressor(q, qd, qdd) @ model.base.values, tau, ORACLE)
    # An offset of joint 3 has the same column as the difference of its Coulomb friction: only the sum is identifiable.
    assert [name.removesuffix("R") for name in model.base.names[-5:]] == [extra.name for extra in robot.extras]
    assert_close(
        model.standard_regressor(q, qd, qdd)[:, -5:] @ [e.coefficient for e in robot.extras],
        tau - without.inverse_dynamics(q, qd, qdd),
        1e-8,
    )


def test_toml_preserves_extras(tmp_path):
    robot = robot_with_extras(1)
    mindyn.write_toml(robot, tmp_path / "robot.toml")
    assert load_robot(tmp_path / "robot.toml", snap=False) == robot
    assert "extra torque spring on joint2" in str(robot)


@pytest.mark.parametrize(
    ("formula", "code", "subject"),
    [
        ("__import__('os').system('x')", Code.UNSUPPORTED, "__import__('os').system('x')"),
        ("q.real", Code.UNSUPPORTED, "q.real"),
        ("sin(q", Code.INVALID_VALUE, "sin(q"),
        ("torque * 2", Code.UNSUPPORTED, "torque"),
        ("qdd", Code.UNSUPPORTED, "qdd"),
        ("lambda: 1", Code.UNSUPPORTED, "lambda: 1"),
        ("sin()", Code.UNSUPPORTED, "sin()"),
        ("atan2(q)", Code.UNSUPPORTED, "atan2(q)"),
        ("1 / 0", Code.INVALID_VALUE, "1 / 0"),
        ("9 ** 9 ** 9 * q", Code.INVALID_VALUE, "9 ** 9 ** 9 * q"),
        ("(-1) ** 0.5", Code.NOT_FINITE, "(-1) ** 0.5"),
        ("1e999 * q", Code.NOT_FINITE, "1e999 * q"),
        ("log(0)", Code.INVALID_VALUE, "log(0)"),
        ("", Code.INVALID_VALUE, ""),
        ("q + " * 400 + "q", Code.INVALID_VALUE, None),
    ],
)
def test_formulas_contain_only_arithmetic(formula, code, subject):
    with raises(RobotError, code, subject):
        parse_formula(formula)


def test_extras_name_joints_that_exist():
    robot = load_robot("planar2")
    with raises(RobotError, Code.OUT_OF_RANGE, "x"):
        replace(robot, extras=(ExtraTorque("x", "joint1", "q7"),))
    with raises(mindyn.MindynError, Code.UNKNOWN_NAME, "elbow"):
        replace(robot, extras=(ExtraTorque("x", "elbow", "q"),))
    with raises(RobotError, Code.UNSUPPORTED, "spring"):
        robot_with_extras(1).lock({"joint1": 0.0})


def test_extras_act_on_a_robot_without_drives():
    robot = replace(load_robot("panda"), extras=(ExtraTorque("spring", "joint2", "q", -3.0),))
    q = np.full(7, 0.4)
    tau = compile_model(robot, with_drives=True).inverse_dynamics(q, 0 * q, 0 * q)
    assert_close(tau - compile_model(robot).gravity(q), [0, -1.2, 0, 0, 0, 0, 0], ORACLE)


def test_an_extra_that_depends_on_link_parameters_is_detected():
    """A counterweight on the first joint of a planar arm has the effect of mcx1."""
    robot = replace(load_robot("planar2"), extras=(ExtraTorque("counterweight", "joint1", "cos(q)", 5.0),))
    base = mindyn.base_parameters(robot, with_drives=True)
    assert base.count == mindyn.base_parameters(load_robot("planar2"), with_drives=True).count
    assert any("extra torques depend on link" in note for note in base.notes)


def test_simulations_reject_jumps_at_standstill():
    robot = replace(load_robot("planar2"), extras=(stribeck("joint1", 3.0, 0.1),))
    with raises(RobotError, Code.UNSUPPORTED, "stribeck_joint1"):
        mindyn.simulate(robot, lambda *_: np.zeros(2), seconds=0.1, q0=[0.1, 0.2], with_drives=True)
