"""The equations satisfy the laws of mechanics on random chains and trees, with and without drives."""

from __future__ import annotations

from dataclasses import replace

import casadi
import numpy as np
import pytest
from closeness import DERIVATIVE, SAME_ALGEBRA, assert_close, assert_negligible
from robots import random_motion, random_phi, random_robot, with_link_frames, with_random_drives

from mindyn.equations.catalogue import build_equation
from mindyn.equations.chain import standard_chain
from mindyn.equations.forward_dynamics import solve_by_articulated_bodies, solve_by_factoring
from mindyn.equations.newton_euler import inverse_dynamics
from mindyn.robots.drive_matrices import drive_parameters

SEEDS = range(40)


@pytest.fixture(scope="module", params=SEEDS)
def case(request):
    robot = random_robot(request.param)
    return robot, random_motion(robot, request.param)


def value(function, *arguments) -> np.ndarray:
    return np.array(function(*arguments))


def jacobian_of(function, *arguments, output: str, wrt: str) -> np.ndarray:
    derivative = function.factory("derivative", function.name_in(), [f"jac:{output}:{wrt}"])
    return np.array(derivative(*arguments))


def test_inertia_matrix_is_the_derivative_of_torque_by_acceleration(case):
    robot, (q, qd, qdd) = case
    slope = jacobian_of(build_equation(robot, "inverse_dynamics"), q, qd, qdd, output="tau", wrt="qdd")
    assert_close(value(build_equation(robot, "inertia_matrix"), q), slope, SAME_ALGEBRA)


def test_inertia_matrix_is_symmetric_positive_definite(case):
    robot, (q, *_) = case
    M = value(build_equation(robot, "inertia_matrix"), q)
    assert (M == M.T).all()
    assert np.linalg.eigvalsh(M).min() > 0


def test_inertia_rate_minus_twice_coriolis_is_skew(case):
    robot, (q, qd, _) = case
    dM = jacobian_of(build_equation(robot, "inertia_matrix"), q, output="M", wrt="q")
    n = robot.joint_count
    rate = (dM @ qd).reshape(n, n, order="F")
    C = value(build_equation(robot, "coriolis"), q, qd)
    S = rate - 2 * C
    scale = np.abs(value(build_equation(robot, "inertia_matrix"), q)).max()
    assert_negligible(S + S.T, scale, SAME_ALGEBRA)


def test_coriolis_and_gravity_make_the_bias(case):
    robot, (q, qd, _) = case
    C, G = value(build_equation(robot, "coriolis"), q, qd), value(build_equation(robot, "gravity"), q).ravel()
    scale = np.abs(value(build_equation(robot, "inverse_dynamics"), q, qd, qd)).max()
    assert_negligible(C @ qd + G - value(build_equation(robot, "bias"), q, qd).ravel(), scale, SAME_ALGEBRA)


def test_gravity_is_the_gradient_of_potential_energy(case):
    robot, (q, qd, _) = case
    slope = jacobian_of(build_equation(robot, "energy"), q, qd, output="E", wrt="q")[1]
    kinetic_slope = jacobian_of(build_equation(robot, "energy"), q, 0 * qd, output="E", wrt="q")[0]
    scale = float(robot.phi[::10].sum()) * 9.81
    assert_negligible(slope - value(build_equation(robot, "gravity"), q).ravel(), scale, SAME_ALGEBRA)
    assert_negligible(kinetic_slope, scale, SAME_ALGEBRA)


def test_power_is_the_rate_of_energy(case):
    robot, (q, qd, qdd) = case
    energy = build_equation(robot, "energy")
    by_q = jacobian_of(energy, q, qd, output="E", wrt="q").sum(axis=0) @ qd
    by_qd = jacobian_of(energy, q, qd, output="E", wrt="qd").sum(axis=0) @ qdd
    power = qd @ value(build_equation(robot, "inverse_dynamics"), q, qd, qdd).ravel()
    scale = np.abs(qd) @ np.abs(value(build_equation(robot, "inverse_dynamics"), q, qd, qdd).ravel())
    assert_negligible(by_q + by_qd - power, scale, SAME_ALGEBRA)


def test_power_of_drives_without_friction_is_the_rate_of_energy_too(case):
    robot, (q, qd, qdd) = case
    driven = with_random_drives(robot, 5)
    free = tuple(replace(drive, viscous=0.0, coulomb=0.0, offset=0.0) for drive in driven.drives)
    driven = replace(driven, drives=free)
    energy = build_equation(driven, "energy", with_drives=True)
    by_q = jacobian_of(energy, q, qd, output="E", wrt="q").sum(axis=0) @ qd
    by_qd = jacobian_of(energy, q, qd, output="E", wrt="qd").sum(axis=0) @ qdd
    tau = value(build_equation(driven, "inverse_dynamics", with_drives=True), q, qd, qdd).ravel()
    assert_negligible(by_q + by_qd - qd @ tau, np.abs(qd) @ np.abs(tau), SAME_ALGEBRA)
    M = value(build_equation(driven, "inertia_matrix", with_drives=True), q)
    assert_close(value(energy, q, qd)[0], [qd @ M @ qd / 2], SAME_ALGEBRA)
    parameters = np.concatenate([robot.phi, drive_parameters(driven)])
    assert_close(
        value(build_equation(driven, "energy_regressor", with_drives=True), q, qd) @ parameters,
        value(energy, q, qd).ravel(),
        SAME_ALGEBRA,
    )


def test_forward_dynamics_inverts_inverse_dynamics(case):
    robot, (q, qd, qdd) = case
    tau = value(build_equation(robot, "inverse_dynamics"), q, qd, qdd)
    condition = np.linalg.cond(value(build_equation(robot, "inertia_matrix"), q))
    chain = standard_chain(robot)
    symbols = [casadi.SX.sym(name, robot.joint_count) for name in ("q", "qd", "tau")]
    bias = inverse_dynamics(chain, symbols[0], symbols[1], casadi.SX(robot.joint_count, 1))
    for expression in (
        solve_by_factoring(chain, symbols[0], symbols[2] - bias),
        solve_by_articulated_bodies(chain, *symbols)[0],
    ):
        accelerations = casadi.Function("f", symbols, [expression])(q, qd, tau)
        assert_close(np.array(accelerations).ravel(), qdd, SAME_ALGEBRA * condition)


def test_dynamics_are_linear_in_the_parameters(case):
    robot, (q, qd, qdd) = case
    Y = value(build_equation(robot, "standard_regressor"), q, qd, qdd)
    assert_close(Y @ robot.phi, value(build_equation(robot, "inverse_dynamics"), q, qd, qdd).ravel(), SAME_ALGEBRA)
    free = build_equation(robot, "inverse_dynamics", parameters="input")
    rng = np.random.default_rng(3)
    other = np.concatenate([random_phi(rng) for _ in robot.links])
    assert_close(value(free, q, qd, qdd, other).ravel(), Y @ other, SAME_ALGEBRA)


def test_dynamics_do_not_depend_on_the_choice_of_link_frames(case):
    robot, (q, qd, qdd) = case
    other = with_link_frames(robot, 7)
    for name, arguments in (
        ("inverse_dynamics", (q, qd, qdd)),
        ("inertia_matrix", (q,)),
        ("energy", (q, qd)),
        ("forward_dynamics", (q, qd, qdd)),
    ):
        condition = (
            np.linalg.cond(value(build_equation(robot, "inertia_matrix"), q)) if name.startswith("forward") else 1.0
        )
        assert_close(
            value(build_equation(other, name), *arguments),
            value(build_equation(robot, name), *arguments),
            SAME_ALGEBRA * condition,
        )


def test_geometric_jacobian_is_the_derivative_of_the_pose(case):
    robot, (q, qd, _) = case
    tip, step = robot.link_names[-1], 1e-6
    pose = build_equation(robot, "forward_kinematics", link=tip)
    before, after = value(pose, q - step * qd), value(pose, q + step * qd)
    rate = (after - before) / (2 * step)
    X = value(pose, q)
    spin = rate[:3, :3] @ X[:3, :3].T
    twist = np.concatenate([[spin[2, 1], spin[0, 2], spin[1, 0]], rate[:3, 3]])
    J = value(build_equation(robot, "geometric_jacobian", link=tip), q)
    assert_close(J @ qd, twist, DERIVATIVE)


def test_drives_add_reflected_inertia_friction_and_offset(case):
    robot, (q, qd, qdd) = case
    driven = with_random_drives(robot, 5)
    n = robot.joint_count
    G = np.zeros((n, n))
    for i, drive in enumerate(driven.drives):
        G[i, i] = drive.ratio
        for joint, ratio in drive.coupling.items():
            G[i, robot.joint_names.index(joint)] = ratio
    expected = value(build_equation(robot, "inverse_dynamics"), q, qd, qdd).ravel()
    for i, drive in enumerate(driven.drives):
        row = G[i] if drive.side == "motor" else np.eye(n)[i]
        speed = row @ qd
        friction = drive.viscous * speed + drive.coulomb * np.sign(speed) + drive.offset
        expected = expected + G[i] * drive.rotor_inertia * (G[i] @ qdd) + row * friction
    assert_close(
        value(build_equation(driven, "inverse_dynamics", with_drives=True), q, qd, qdd).ravel(), expected, SAME_ALGEBRA
    )
    accelerations = value(build_equation(driven, "forward_dynamics", with_drives=True), q, qd, expected).ravel()
    condition = np.linalg.cond(value(build_equation(driven, "inertia_matrix", with_drives=True), q))
    assert_close(accelerations, qdd, SAME_ALGEBRA * condition)
    Y = value(build_equation(driven, "standard_regressor", with_drives=True), q, qd, qdd)
    drives = [v for d in driven.drives for v in (d.rotor_inertia, d.viscous, d.coulomb, d.offset)]
    assert_close(Y @ np.concatenate([robot.phi, drives]), expected, SAME_ALGEBRA)
    free = build_equation(driven, "inertia_matrix", with_drives=True, parameters="input")
    M = value(build_equation(driven, "inertia_matrix", with_drives=True), q)
    assert_close(value(free, q, robot.phi, drives), M, SAME_ALGEBRA)
