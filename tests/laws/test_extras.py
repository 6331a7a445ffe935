"""Declared torques: a gas spring, Stribeck friction; in torques, regressor, base parameters, files."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from closeness import ORACLE, SAME_ALGEBRA, assert_close
from robots import random_motion, random_robot, with_random_drives

import mindyn
from mindyn import ExtraTorque, compile_model, load_robot
from mindyn.errors import RobotError
from mindyn.robots.expressions import parse_formula
from mindyn.robots.friction_laws import asymmetric_coulomb, asymmetric_viscous, stribeck
from mindyn.simulation.results import TorqueLog


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
    # An offset of joint 3 looks like the difference of its Coulomb friction, and is told together with it.
    assert [name.removesuffix("R") for name in model.base.names[-5:]] == [extra.name for extra in robot.extras]
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
        ("sin()", "is not known"),
        ("atan2(q)", "is not known"),
        ("1 / 0", "has no value"),
        ("9 ** 9 ** 9 * q", "has no value"),
        ("(-1) ** 0.5", "must be a finite number"),
        ("1e999 * q", "must be a finite number"),
        ("log(0)", "has no value"),
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


def test_extras_alone_make_drives_of_a_robot_without_any():
    robot = replace(load_robot("panda"), extras=(ExtraTorque("spring", "joint2", "q", -3.0),))
    q = np.full(7, 0.4)
    tau = compile_model(robot, drives=True).inverse_dynamics(q, 0 * q, 0 * q)
    assert_close(tau - compile_model(robot).gravity(q), [0, -1.2, 0, 0, 0, 0, 0], ORACLE)


def test_an_extra_that_links_imitate_is_found_out():
    """A counterweight on the first joint of a planar arm is what mcx1 does."""
    robot = replace(load_robot("planar2"), extras=(ExtraTorque("counterweight", "joint1", "cos(q)", 5.0),))
    base = mindyn.base_parameters(robot, drives=True)
    assert base.count == mindyn.base_parameters(load_robot("planar2"), drives=True).count
    assert any("extra torques depend on link" in note for note in base.notes)


def test_jumps_at_standstill_are_refused_in_simulations():
    robot = replace(load_robot("planar2"), extras=(stribeck("joint1", 3.0, 0.1),))
    still = TorqueLog(np.array([0.0, 0.2]), np.zeros((2, 2)))
    with pytest.raises(RobotError, match="jumps at standstill.*\nhint: write it smoothly"):
        mindyn.simulate(robot, still, seconds=0.1, q0=[0.1, 0.2], drives=True)
