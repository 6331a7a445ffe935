"""Laws of the adaptive simulation, and the same motions by independent integrators over independent dynamics."""

from __future__ import annotations

import casadi
import mujoco
import numpy as np
import pinocchio as pin
import pytest
from closeness import ORACLE, SAME_ALGEBRA, assert_close, assert_negligible
from oracles.pinocchio_oracle import pinocchio_model
from robots import random_robot
from scipy.integrate import solve_ivp
from simulation.plants import (
    CONSERVED,
    INTEGRATED,
    QUADRATURE,
    arm,
    constant,
    nothing,
    swinging,
    total_energy,
    without_coulomb,
)

import mindyn
from mindyn.motions.simulation.controllers import ComputedTorque, ProportionalDerivative, SineMotion
from mindyn.motions.simulation.dormand_prince import (
    STAGE_WEIGHTS,
    STEP_WEIGHTS,
    DormandPrinceStep,
    Tolerance,
    compile_step,
)
from mindyn.motions.simulation.simulate import simulate
from mindyn.output.export.mjcf_writer import robot_to_mjcf
from mindyn.robots.drive_matrices import drive_parameters, friction_matrix, reflected_inertia


@pytest.mark.parametrize("name", ["puma560", "ur10", "stanford"])
def test_energy_of_a_frictionless_motion_of_ten_seconds_is_conserved(name):
    robot = mindyn.load_robot(name)
    q0 = np.linspace(0.3, 0.8, robot.joint_count)
    motion = simulate(robot, nothing, seconds=10, q0=q0, qd0=np.full(robot.joint_count, 0.5), rate_hz=100)
    energy = mindyn.compile_model(robot).energy(motion.q, motion.qd)
    moved = np.ptp(energy[:, 0])
    assert_negligible(energy.sum(axis=1) - energy[0].sum(), min(moved, abs(energy[0].sum())), CONSERVED)


def random_start(robot, seed):
    rng = np.random.default_rng(seed)
    return rng.uniform(-1, 1, (3, robot.joint_count))


def independent_motion(robot, q0, qd0, tau, times, *, drives):
    """scipy's integrator over Pinocchio's dynamics; drives from their definition."""
    model = pinocchio_model(robot)
    data, n = model.createData(), robot.joint_count
    _, viscous, _, offset = drive_parameters(robot).reshape(-1, 4).T if drives else np.zeros((4, 0))
    F, rotors = friction_matrix(robot), reflected_inertia(robot)

    def slope(_, y):
        q, v = y[:n], y[n:]
        if not drives:
            return np.concatenate([v, pin.aba(model, data, q, v, tau)])
        M = np.triu(pin.crba(model, data, q))
        M = M + np.triu(M, 1).T + rotors
        rest = tau - pin.nonLinearEffects(model, data, q, v) - F.T @ (viscous * (F @ v) + offset)
        return np.concatenate([v, np.linalg.solve(M, rest)])

    ivp = solve_ivp(slope, (0, times[-1]), np.concatenate([q0, qd0]), "DOP853", times, rtol=1e-13, atol=1e-13)
    return ivp.y[:n].T, ivp.y[n:].T


@pytest.mark.parametrize("drives", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_motion_equals_an_independent_integration(seed, drives):
    robot = without_coulomb(arm(seed, joints=3)) if drives else random_robot(seed, joints=4)
    q0, qd0, tau = random_start(robot, seed)
    motion = simulate(robot, constant(tau), seconds=0.5, q0=q0, qd0=qd0, rate_hz=50, with_drives=drives)
    q, qd = independent_motion(robot, q0, qd0, tau, motion.t, drives=drives)
    assert_close(motion.q, q, INTEGRATED)
    assert_close(motion.qd, qd, INTEGRATED)


def test_motion_equals_mujocos_with_a_small_step():
    robot = random_robot(3, joints=4)
    q0, qd0, tau = random_start(robot, 3)
    model = mujoco.MjModel.from_xml_string(robot_to_mjcf(robot))
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_LIMIT
    model.opt.integrator, model.opt.timestep = mujoco.mjtIntegrator.mjINT_RK4, 1e-4
    data = mujoco.MjData(model)
    data.qpos, data.qvel, data.qfrc_applied = q0, qd0, tau
    mujoco.mj_step(model, data, 3000)
    motion = simulate(robot, constant(tau), seconds=0.3, q0=q0, qd0=qd0, rate_hz=10)
    assert_close(motion.q[-1], data.qpos, INTEGRATED)
    assert_close(motion.qd[-1], data.qvel, INTEGRATED)


@pytest.mark.parametrize("seed", range(4))
def test_accelerations_and_torques_satisfy_the_equations_of_motion(seed):
    robot = arm(seed)
    q0, qd0, tau = random_start(robot, seed)
    motion = simulate(robot, swinging(tau, 9), seconds=0.3, q0=q0, qd0=qd0, with_drives=True)
    smooth = mindyn.compile_model(without_coulomb(robot), with_drives=True)
    assert_close(smooth.inverse_dynamics(motion.q, motion.qd, motion.qdd) + motion.friction, motion.tau, ORACLE)


@pytest.mark.parametrize("seed", range(4))
def test_power_balance_with_friction(seed):
    """E(t) - E(0) is the work of the torques less what friction takes."""
    robot = arm(seed)
    q0, qd0, tau = random_start(robot, seed)
    options = {"seconds": 0.4, "q0": q0, "qd0": qd0, "rate_hz": 1e4, "control_rate_hz": 100.0, "with_drives": True}
    motion = simulate(robot, swinging(3 * tau, 9), **options)
    viscous, F = drive_parameters(robot)[1::4], friction_matrix(robot)
    losses = (motion.friction * motion.qd).sum(1) + (viscous * (motion.qd @ F.T) ** 2).sum(1)
    # The torque is held, so that its work over an interval is exact.
    work = (motion.tau[:-1] * (motion.q[1:] - motion.q[:-1])).sum(1)
    lost = (losses[1:] + losses[:-1]) / 2 / motion.rate_hz
    energy = total_energy(robot, motion.q, motion.qd, drives=True)
    assert_close(np.diff(energy).cumsum(), (work - lost).cumsum(), QUADRATURE)
    assert lost.sum() > 0


def test_computed_torque_tracks_its_reference():
    robot = mindyn.load_robot("puma560")
    n = robot.joint_count
    reference = SineMotion(np.zeros(n), np.full(n, 0.4), np.linspace(0.3, 0.8, n), np.zeros(n))
    controller = ComputedTorque(robot, reference, 400, 40, with_drives=True)
    q0 = reference(0.0)[0] + 0.05
    motion = simulate(robot, controller, seconds=1.5, q0=q0, qd0=reference(0.0)[1], with_drives=True)
    error = motion.q - np.array([reference(t)[0] for t in motion.t])
    assert_close(np.abs(error[0]), np.full(n, 0.05), SAME_ALGEBRA)
    # What is left comes from holding the torque for 1 ms.
    assert_negligible(error[-500:], 0.4, 1e-3)


def test_proportional_derivative_comes_to_rest_where_its_spring_holds_gravity():
    robot = random_robot(5, joints=3, gravity=(0.0, 0.0, -9.81))
    target = np.full(3, 0.5)
    reference = SineMotion(target, np.zeros(3), np.ones(3), np.zeros(3))
    stiffness = np.full(3, 300.0)
    motion = simulate(robot, ProportionalDerivative(reference, stiffness, 60.0), seconds=8, q0=target, rate_hz=500)
    gravity = mindyn.compile_model(robot).gravity(motion.q[-1])
    assert_close(stiffness * (target - motion.q[-1]), gravity, 1e-4)


def test_replaying_the_torques_gives_the_motion():
    robot = arm(2, joints=3)
    q0, qd0, tau = random_start(robot, 2)
    options = {"seconds": 0.5, "q0": q0, "qd0": qd0, "rate_hz": 200.0, "with_drives": True}
    first = simulate(robot, lambda _t, _q, qd: tau - 2 * qd, **options)
    second = simulate(robot, lambda t, *_: first.tau[round(200 * t)], **options)
    assert (first.q == second.q).all()
    assert (first.tau == second.tau).all()
    samples = first.samples()
    assert samples.joint_names == robot.joint_names
    assert len(samples) == 101


def test_the_order_of_the_method_is_eight():
    nodes = STAGE_WEIGHTS.sum(axis=1)
    for power in range(8):
        assert_close(STEP_WEIGHTS @ nodes**power, 1 / (power + 1), SAME_ALGEBRA)
    slope = lambda y: np.array([y[1], -np.sin(y[0])])  # noqa: E731
    y = casadi.SX.sym("y", 2)
    pendulum = casadi.Function("slope", [y], [casadi.vertcat(y[1], -casadi.sin(y[0]))], ["y"], ["slope"])
    step = DormandPrinceStep(compile_step(pendulum), {}, Tolerance())
    errors = []
    exact = solve_ivp(lambda _, y: slope(y), (0, 2), [1.0, 0.5], "DOP853", rtol=2.3e-14, atol=1e-15).y[:, -1]
    for count in (4, 8):
        y = np.array([1.0, 0.5])
        for _ in range(count):
            y = step.compute(y, slope(y), 2 / count)[0]
        errors.append(np.abs(y - exact).max())
    assert np.log2(errors[0] / errors[1]) > 7.5
