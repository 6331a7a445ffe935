"""Every equation equals Pinocchio's on random robots."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest
from closeness import ORACLE, assert_close, assert_negligible
from oracles.pinocchio_oracle import body_parameter_map, pinocchio_model, se3
from robots import random_motion, random_robot

from mindyn.equations.catalogue import build_equation

SEEDS = range(200)


@pytest.fixture(scope="module", params=SEEDS)
def case(request):
    robot = random_robot(request.param)
    model = pinocchio_model(robot)
    return robot, model, model.createData(), random_motion(robot, request.param)


def evaluate(robot, name, *arguments, **options) -> np.ndarray:
    return np.array(build_equation(robot, name, **options)(*arguments))


def test_inverse_dynamics(case):
    robot, model, data, (q, qd, qdd) = case
    assert_close(evaluate(robot, "inverse_dynamics", q, qd, qdd).ravel(), pin.rnea(model, data, q, qd, qdd), ORACLE)


def test_inverse_dynamics_with_external_wrenches(case):
    robot, model, data, (q, qd, qdd) = case
    wrenches = np.random.default_rng(1).normal(scale=5, size=(robot.joint_count, 6))
    forces = pin.StdVec_Force()
    forces.append(pin.Force.Zero())
    for joint, (*moment, fx, fy, fz) in zip(robot.joints, wrenches, strict=True):
        forces.append(se3(joint.tip).act(pin.Force(np.array([fx, fy, fz]), np.array(moment))))
    expected = pin.rnea(model, data, q, qd, qdd, forces)
    assert_close(evaluate(robot, "inverse_dynamics_with_wrenches", q, qd, qdd, wrenches).ravel(), expected, ORACLE)


def test_inertia_matrix(case):
    robot, model, data, (q, *_) = case
    M = np.triu(pin.crba(model, data, q))
    assert_close(evaluate(robot, "inertia_matrix", q), M + np.triu(M, 1).T, ORACLE)


def test_forward_dynamics(case):
    robot, model, data, (q, qd, qdd) = case
    tau = pin.rnea(model, data, q, qd, qdd)
    condition = np.linalg.cond(evaluate(robot, "inertia_matrix", q))
    actual = evaluate(robot, "forward_dynamics", q, qd, tau).ravel()
    # Rounding in tau alone moves qdd by eps * cond(M); beyond 1e5 that exceeds the common tolerance.
    assert_close(actual, pin.aba(model, data, q, qd, tau), ORACLE * max(1.0, condition / 1e5))


def test_gravity_and_bias(case):
    robot, model, data, (q, qd, _) = case
    scale = np.abs(pin.rnea(model, data, q, qd, qd)).max()
    for actual, expected in (
        (evaluate(robot, "bias", q, qd), pin.nonLinearEffects(model, data, q, qd)),
        (evaluate(robot, "gravity", q), pin.computeGeneralizedGravity(model, data, q)),
    ):
        # Both may vanish (no gravity, one joint), so the error is set beside the torques of a motion.
        assert_negligible(actual.ravel() - expected, scale, ORACLE)


def test_coriolis_matrix(case):
    robot, model, data, (q, qd, _) = case
    expected = pin.computeCoriolisMatrix(model, data, q, qd)
    scale = np.abs(pin.crba(model, data, q)).max()
    assert_negligible(evaluate(robot, "coriolis", q, qd) - np.reshape(expected, (robot.joint_count, -1)), scale, ORACLE)


def test_kinematics_and_jacobian(case):
    robot, model, data, (q, *_) = case
    pin.computeJointJacobians(model, data, q)
    pin.updateFramePlacements(model, data)
    for link in robot.link_names:
        frame = model.getFrameId(link)
        assert_close(evaluate(robot, "forward_kinematics", q, link=link), data.oMf[frame].homogeneous, ORACLE)
        J = np.reshape(pin.getFrameJacobian(model, data, frame, pin.LOCAL_WORLD_ALIGNED), (6, -1))
        assert_close(evaluate(robot, "geometric_jacobian", q, link=link), np.vstack([J[3:], J[:3]]), ORACLE)


def test_torque_regressor(case):
    robot, model, data, (q, qd, qdd) = case
    Y = np.reshape(pin.computeJointTorqueRegressor(model, data, q, qd, qdd), (robot.joint_count, -1))
    expected = np.hstack([Y[:, 10 * i : 10 * i + 10] @ body_parameter_map(j.tip) for i, j in enumerate(robot.joints)])
    assert_close(evaluate(robot, "standard_regressor", q, qd, qdd), expected, ORACLE)


def test_energies_and_their_regressor(case):
    robot, model, data, (q, qd, _) = case
    kinetic, potential = pin.computeKineticEnergy(model, data, q, qd), pin.computePotentialEnergy(model, data, q)
    expected = np.array([kinetic, potential])
    assert_close(evaluate(robot, "energy", q, qd).ravel(), expected, ORACLE)
    assert_close((evaluate(robot, "energy_regressor", q, qd) @ robot.phi).ravel(), expected, ORACLE)
    rows = [
        pin.computeKineticEnergyRegressor(model, data, q, qd).ravel(),
        pin.computePotentialEnergyRegressor(model, data, q).ravel(),
    ]
    maps = [body_parameter_map(joint.tip) for joint in robot.joints]
    expected = [np.concatenate([row[10 * i : 10 * i + 10] @ T for i, T in enumerate(maps)]) for row in rows]
    assert_close(evaluate(robot, "energy_regressor", q, qd), expected, ORACLE)
