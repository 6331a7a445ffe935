"""Rollouts equal the adaptive simulation, NumPy's own steps, and each other in any batch and number of threads."""

from __future__ import annotations

from dataclasses import replace

import casadi
import numpy as np
import pytest
from closeness import SAME_ALGEBRA, assert_close
from laws.test_loops import four_bar
from raising import raises
from robots import random_robot
from simulation.plants import INTEGRATED, arm, constant

import mindyn
from mindyn.foundation.errors import Code
from mindyn.motions.simulation.results import SimulationError
from mindyn.motions.simulation.rollouts import compile_rollout, roll_out
from mindyn.motions.simulation.runge_kutta import DECAY_RATE
from mindyn.motions.simulation.simulate import simulate

COUNT, STEPS, DT = 37, 60, 2e-3


def starts(robot, seed=0, count=COUNT, steps=STEPS):
    rng = np.random.default_rng(seed)
    n = robot.joint_count
    return rng.uniform(-1, 1, (count, n)), rng.uniform(-1, 1, (count, n)), rng.uniform(-2, 2, (count, steps, n))


def numpy_rollout(model, q, qd, tau, dt):
    """The textbook's steps on the model's forward dynamics, which is tested against Pinocchio."""
    path = [(q, qd)]
    for k in range(tau.shape[1]):
        f = lambda x, v, u=tau[:, k]: model.forward_dynamics(x, v, u)  # noqa: E731
        a1 = f(q, qd)
        a2 = f(q + dt / 2 * qd, qd + dt / 2 * a1)
        v2, v3 = qd + dt / 2 * a1, qd + dt / 2 * a2
        a3 = f(q + dt / 2 * v2, v3)
        v4 = qd + dt * a3
        a4 = f(q + dt * v3, v4)
        q, qd = q + dt / 6 * (qd + 2 * v2 + 2 * v3 + v4), qd + dt / 6 * (a1 + 2 * a2 + 2 * a3 + a4)
        path.append((q, qd))
    return [np.stack(part, axis=1) for part in zip(*path, strict=True)]


@pytest.mark.parametrize("seed", range(4))
def test_steps_are_those_of_the_textbook(seed):
    robot = random_robot(seed, joints=4)
    q0, qd0, tau = starts(robot, seed)
    result = roll_out(robot, q0, qd0, tau, dt=DT, steps=STEPS)
    q, qd = numpy_rollout(mindyn.compile_model(robot), q0, qd0, tau, DT)
    assert_close(result.q, q, 100 * SAME_ALGEBRA)
    assert_close(result.qd, qd, 100 * SAME_ALGEBRA)


@pytest.mark.parametrize("drives", [False, True])
def test_a_batch_equals_its_rollouts_alone_and_threads_give_the_same_bits(drives):
    robot = arm(3)
    q0, qd0, tau = starts(robot)
    run = lambda *given, **options: roll_out(robot, *given, dt=DT, steps=STEPS, with_drives=drives, **options)  # noqa: E731
    together = run(q0, qd0, tau)
    for threads in (2, 3, 8):
        shared = run(q0, qd0, tau, threads=threads)
        assert (shared.q == together.q).all()
        assert (shared.qd == together.qd).all()
    for k in (0, 8, COUNT - 1):
        alone = run(q0[k], qd0[k], tau[k])
        assert (alone.q[0] == together.q[k]).all()


def test_shared_torques_and_states_broadcast():
    robot = random_robot(7, joints=3)
    q0, qd0, tau = starts(robot)
    run = lambda *given: roll_out(robot, *given, dt=DT, steps=STEPS).q  # noqa: E731
    assert (run(q0, qd0[0], tau[0]) == run(q0, np.tile(qd0[:1], (COUNT, 1)), np.tile(tau[:1], (COUNT, 1, 1)))).all()
    held = np.broadcast_to(tau[0, 0], tau.shape)
    assert (run(q0, qd0, tau[0, 0]) == run(q0, qd0, held)).all()
    assert (run(q0[0], qd0[0], tau) == run(np.tile(q0[:1], (COUNT, 1)), qd0[0], tau)).all()


def test_rollouts_equal_the_adaptive_simulation_to_order_four():
    robot = random_robot(2, joints=4)
    q0, qd0, tau = (part[0] for part in starts(robot))
    exact = simulate(robot, constant(tau[0]), seconds=0.4, q0=q0, qd0=qd0, rate_hz=10)
    errors = []
    for steps in (80, 160, 6400):
        result = roll_out(robot, q0, qd0, tau[0], dt=0.4 / steps, steps=steps)
        errors.append(np.abs(result.q[0, :: steps // 4] - exact.q).max())
    assert errors[2] < INTEGRATED
    assert 3.5 < np.log2(errors[0] / errors[1]) < 4.6


def test_a_law_is_held_through_each_step():
    """Tracking as a compiled law with a reference as its signal, beside a controller called from Python."""
    robot = arm(5, joints=3)
    q0, qd0, _ = starts(robot)
    q, qd, goal = (casadi.SX.sym(name, 3) for name in ("q", "qd", "goal"))
    law = casadi.Function("law", [q, qd, goal], [20 * (goal - q) - 2 * qd], ["q", "qd", "goal"], ["tau"])
    goals = np.linspace(0, 1, 3 * STEPS).reshape(STEPS, 3)
    result = roll_out(robot, q0, qd0, law, dt=DT, steps=STEPS, with_drives=True, signals={"goal": goals})
    controller = lambda t, q, qd: 20 * (goals[min(round(t / DT), STEPS - 1)] - q) - 2 * qd  # noqa: E731
    options = {"seconds": DT * STEPS, "rate_hz": 1 / DT, "with_drives": True, "method": "fixed"}
    simulation = simulate(robot, controller, q0=q0[4], qd0=qd0[4], **options)
    assert_close(result.q[4], simulation.q, SAME_ALGEBRA)
    assert_close(result.tau[4], simulation.tau[:-1], SAME_ALGEBRA)


def test_single_precision_follows_double():
    robot = random_robot(4, joints=3)
    q0, qd0, tau = starts(robot)
    result = roll_out(robot, q0, qd0, tau, dt=DT, steps=STEPS, dtype="float32")
    assert result.q.dtype == np.float32
    assert_close(result.q, roll_out(robot, q0, qd0, tau, dt=DT, steps=STEPS).q, 1e-4)


def test_a_robots_step_is_compiled_once():
    robot = random_robot(1, joints=2)
    assert compile_rollout(robot) is compile_rollout(random_robot(1, joints=2))
    assert compile_rollout(robot) is not compile_rollout(robot, dtype="float32")


def test_the_rate_of_stopping_is_the_best_of_the_method():
    amplification = lambda x: 1 - x + x**2 / 2 - x**3 / 6 + x**4 / 24  # noqa: E731
    grid = np.linspace(0.01, 3, 20001)
    assert_close(DECAY_RATE, grid[np.argmin(amplification(grid))], 1e-3)
    assert amplification(DECAY_RATE) == pytest.approx(0.27, abs=1e-3)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_linkage_is_not_rolled_through_a_dead_point(dtype):
    """A four-bar whose crank is turned against the end of its way."""
    robot = replace(four_bar(), home=np.array([0.85, -1.0, 1.0]), gravity=np.zeros(3))
    inside = roll_out(robot, [0.85], [0.1], [0.0], dt=1e-3, steps=50, dtype=dtype)
    assert np.isfinite(inside.q).all()
    push, begin = constant([5.0]), {"q0": [0.85], "qd0": [3.0]}
    for run in (
        lambda: roll_out(robot, [0.85], [3.0], [5.0], dt=1e-3, steps=400, dtype=dtype),
        lambda: simulate(robot, push, seconds=0.4, method="fixed", **begin),
        lambda: simulate(robot, push, seconds=0.4, **begin),
    ):
        with raises(SimulationError, (Code.NOT_CONVERGED, Code.NOT_FINITE)) as raised:
            run()
        assert "singular configuration" in str(raised.value)
