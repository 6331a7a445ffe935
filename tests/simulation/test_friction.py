"""Coulomb friction sticks and slips by its law, without chatter, in the adaptive and in the fixed steps."""

from __future__ import annotations

import numpy as np
import pytest
from closeness import ORACLE, SAME_ALGEBRA, assert_close, assert_negligible
from scipy.integrate import solve_ivp
from simulation.plants import WEAK, arm, block, friction_law, nothing, swinging, total_energy, without_coulomb

import mindyn
from mindyn.motions.simulation.friction_at_rest import find_modes_at_rest
from mindyn.motions.simulation.rollouts import roll_out
from mindyn.motions.simulation.simulate import simulate
from mindyn.robots.drive_matrices import drive_parameters, friction_matrix

METHODS = ["adaptive", "fixed"]
MASS, COULOMB, SPEED = 2.0, 6.0, 1.5


def test_a_sliding_block_stops_where_its_energy_is_spent():
    motion = simulate(block(COULOMB), nothing, seconds=1, q0=[0.2], qd0=[SPEED], with_drives=True, rate_hz=1000)
    stop, distance = MASS * SPEED / COULOMB, MASS * SPEED**2 / (2 * COULOMB)
    moving = motion.t < stop
    exact = 0.2 + SPEED * motion.t - COULOMB / MASS * motion.t**2 / 2
    assert_close(motion.q[moving, 0], exact[moving], SAME_ALGEBRA)
    assert_close(motion.q[~moving, 0], np.full((~moving).sum(), 0.2 + distance), SAME_ALGEBRA)
    assert (motion.qd[motion.t > stop] == 0).all()
    assert motion.stuck[motion.t > stop].all()
    assert motion.events == 1


def test_a_fixed_step_stops_the_block_within_a_step_and_keeps_it():
    motion = simulate(block(COULOMB), nothing, seconds=1, q0=[0.2], qd0=[SPEED], with_drives=True, method="fixed")
    stop, distance = MASS * SPEED / COULOMB, MASS * SPEED**2 / (2 * COULOMB)
    late = motion.t > stop + 0.05
    assert_negligible(motion.q[late, 0] - 0.2 - distance, distance, 1e-5)
    assert_negligible(motion.qd[late], SPEED, SAME_ALGEBRA)
    assert_negligible(np.diff(motion.q[late, 0]), distance, SAME_ALGEBRA)


@pytest.mark.parametrize("method", METHODS)
def test_a_block_on_a_slope_slides_up_stops_and_stays(method):
    """Gravity decelerates it as well; friction then turns around and holds it with less than its Coulomb torque."""
    robot = block(COULOMB, slope=-2.5)
    motion = simulate(robot, nothing, seconds=1, q0=[0.0], qd0=[SPEED], with_drives=True, method=method)
    late = motion.t > 0.5
    distance = SPEED**2 / 2 / (COULOMB / MASS + 2.5)
    assert_close(motion.q[late, 0], np.full(late.sum(), distance), 1e-9 if method == "adaptive" else 1e-4)
    assert_negligible(motion.qd[late], SPEED, SAME_ALGEBRA)
    assert_close(motion.friction[late, 0], np.full(late.sum(), -2.5 * MASS), 1e-9)


@pytest.mark.parametrize("method", METHODS)
def test_a_push_below_the_coulomb_torque_moves_nothing_and_one_above_does(method):
    push = lambda t, _q, _qd: np.array([0.99 * COULOMB if t < 0.5 else 1.25 * COULOMB])  # noqa: E731
    motion = simulate(block(COULOMB), push, seconds=1, q0=[0.0], with_drives=True, method=method, rate_hz=500)
    still = motion.t <= 0.5
    assert_negligible(motion.q[still], 1.0, SAME_ALGEBRA)
    exact = 0.25 * COULOMB / MASS * (motion.t[~still] - 0.5) ** 2 / 2
    assert_close(motion.q[~still, 0], exact, 1e-9 if method == "adaptive" else 1e-3)


@pytest.mark.parametrize("seed", range(6))
def test_coulombs_law_holds_at_every_instant(seed):
    """|lam| <= c; full torque against the motion while moving; at rest, exactly at rest. Coupled drives included."""
    robot = arm(seed, stronger=12, gravity=WEAK)
    rng = np.random.default_rng(seed)
    q0, qd0, tau = rng.uniform(-1, 1, (3, robot.joint_count))
    motion = simulate(robot, swinging(15 * tau, 12), seconds=0.6, q0=q0, qd0=qd0, with_drives=True)
    s, lam, c = friction_law(robot, motion)
    assert (np.abs(lam) <= c * (1 + 1e-8)).all()
    assert_negligible(s[motion.stuck], np.abs(s).max(), SAME_ALGEBRA)
    slipping = ~motion.stuck & (np.abs(s) > 1e-9)
    assert_close((lam / c)[slipping], np.sign(s[slipping]), ORACLE)
    assert motion.events > 0
    assert motion.stuck.any()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("seed", range(2))
def test_energy_never_increases_without_torque(seed, method):
    robot = arm(seed)
    rng = np.random.default_rng(seed)
    q0, qd0 = rng.uniform(-1, 1, (2, robot.joint_count))
    motion = simulate(robot, nothing, seconds=0.6, q0=q0, qd0=qd0, with_drives=True, method=method)
    energy = total_energy(robot, motion.q, motion.qd, drives=True)
    # Fixed steps give back of the order of c |b| dt^2 at a stop (see runge_kutta).
    most = {"adaptive": 1e-12, "fixed": 1e-5}[method] * np.ptp(energy)
    assert np.diff(energy).max() <= most
    assert energy[-1] < energy[0]


def test_motion_equals_a_stiff_integration_of_regularised_friction():
    """An independent oracle: tanh(s / width) in place of sign(s), implicitly; error of the order of width."""
    robot = arm(1, joints=2, stronger=4, gravity=WEAK)
    smooth, width = mindyn.compile_model(without_coulomb(robot), with_drives=True), 1e-5
    F, c = friction_matrix(robot), drive_parameters(robot)[2::4]
    q0, qd0, n = np.array([0.3, -0.4]), np.array([0.5, 1.0]), 2

    def slope(_, y):
        left = -F.T @ (c * np.tanh(F @ y[n:] / width))
        return np.concatenate([y[n:], smooth.forward_dynamics(y[:n].copy(), y[n:].copy(), left)])

    motion = simulate(robot, nothing, seconds=0.8, q0=q0, qd0=qd0, with_drives=True, rate_hz=100)
    ivp = solve_ivp(slope, (0, 0.8), np.concatenate([q0, qd0]), "Radau", motion.t, rtol=1e-8, atol=1e-10)
    assert motion.events > 0
    assert_close(motion.q, ivp.y[:n].T, 1e-4)


def test_fixed_steps_converge_to_the_adaptive_motion():
    robot = arm(4, joints=3)
    q0, qd0 = np.array([0.2, -0.5, 0.7]), np.array([1.0, -1.0, 0.5])
    exact = simulate(robot, nothing, seconds=0.5, q0=q0, qd0=qd0, with_drives=True, rate_hz=50)
    assert exact.events > 0
    errors = []
    for steps in (500, 2000, 8000):
        result = roll_out(robot, q0, qd0, np.zeros(3), dt=0.5 / steps, steps=steps, with_drives=True)
        errors.append(np.abs(result.q[0, :: steps // 25] - exact.q).max())
    assert errors[0] < 1e-3
    assert errors[2] < errors[1] / 3 < errors[0] / 9


@pytest.mark.parametrize("seed", range(2))
def test_arms_at_rest_under_gravity_are_held_by_friction_in_fixed_steps(seed):
    """Friction strong enough to hold: after the first steps nothing moves at all."""
    robot = arm(seed, joints=5, gravity=(0.0, 0.0, -9.81))
    gravity = np.abs(mindyn.compile_model(robot).gravity(np.full(5, 0.4))).max()
    F = friction_matrix(robot)
    level = 3 * gravity * np.abs(np.linalg.inv(F)).sum()
    drives = tuple(mindyn.Drive(d.joint, d.ratio, d.coupling, d.rotor_inertia, 0.0, level, 0.0, d.side)
                   for d in robot.drives)  # fmt: skip
    robot = mindyn.Robot(robot.name, robot.root, robot.joints, robot.links, robot.gravity, drives=drives)
    result = roll_out(robot, np.full(5, 0.4), np.zeros(5), np.zeros(5), dt=1e-3, steps=2000, with_drives=True)
    assert_negligible(result.q[0, -1] - result.q[0, 0], 1.0, 1e-4)
    assert_negligible(result.qd[0, -1], 1.0, 1e-9)


def test_modes_at_rest_satisfy_the_law_on_random_problems():
    rng = np.random.default_rng(0)
    kinds = set()
    for size in rng.integers(1, 9, 300):
        root = rng.normal(size=(size, size))
        A, b, c = root @ root.T + 1e-3 * np.eye(size), rng.normal(size=size) * 3, rng.uniform(0.1, 1, size)
        modes = find_modes_at_rest(A, b, c)
        lam = c * modes
        free = modes == 0
        if free.any():
            lam[free] = np.linalg.solve(A[np.ix_(free, free)], (b - A @ lam)[free])
        speeding = b - A @ lam
        scale = np.abs(b).max()
        assert (np.abs(lam) <= c * (1 + 1e-8)).all()
        assert (modes * speeding >= -1e-8 * scale).all()
        assert np.abs(speeding[free]).max(initial=0.0) <= 1e-8 * scale
        kinds |= set(modes.tolist())
    assert kinds == {-1, 0, 1}
