"""Functions of 45 random closed linkages of eight topologies equal those of Pinocchio's projected tree."""

from __future__ import annotations

from dataclasses import replace

import mpmath
import numpy as np
import pinocchio as pin
import pytest
from closed_models import closed_model
from closeness import DERIVATIVE, ORACLE, assert_close, assert_negligible
from identifiability.loop_oracle import LoopOracle
from laws.closed_linkages import TOPOLOGIES, linkage
from laws.test_loops import four_bar
from raising import raises
from robots import with_random_drives

from mindyn import base_parameters, compile_model, load_robot
from mindyn.equations.batch_evaluation import evaluate_batch
from mindyn.equations.closed_motion import NEWTON_STEPS
from mindyn.equations.loop_closure import home_closure, loop_closure
from mindyn.equations.loop_equations import loop_equation
from mindyn.foundation.algebra.poses import Pose
from mindyn.foundation.errors import Code, RobotError
from mindyn.kernels.observer import MomentumObserver
from mindyn.robots.drive_matrices import drive_parameters
from mindyn.robots.parts import Drive, ExtraTorque

SEEDS = {"weld": [0, 1], "welded ring": [1]}
CASES = [(topology, seed) for topology in TOPOLOGIES for seed in SEEDS.get(topology, range(7))]
PROJECTED = 1e-9
"""Tolerance of a dense least-squares projection near configurations that may be badly conditioned."""


def states(robot, count=4, seed=0, spread=0.15):
    """Return closed configurations q (count, n) around home, and rates of the primary joints."""
    closure, rng = home_closure(robot), np.random.default_rng(seed)
    for narrower in (1, 10, 100):  # few configurations near a dead point can be reached
        around = rng.uniform(-spread, spread, (200, len(closure.primary))) / narrower
        p = closure.home[list(closure.primary)] + around
        q, reached = closure.find_reachable(p)
        if reached.sum() >= count:
            break
    assert reached.sum() >= count
    return q[reached][:count], *rng.uniform(-2, 2, (2, count, p.shape[1]))


def values(robot, name, *inputs, **options):
    """Return the value of an equation at each state, and check that the loops are closed."""
    function = loop_equation(robot, name, **options)
    results = [function(*row) for row in zip(*inputs, strict=True)]
    assert max(float(closure[0]) for _, closure in results) < 1e-12
    return np.array([np.array(value) for value, _ in results])


@pytest.mark.parametrize(("topology", "seed"), CASES)
def test_every_function_equals_the_projected_tree_of_pinocchio(topology, seed):
    robot = linkage(topology, seed)
    oracle = LoopOracle(robot)
    q, pd, pdd = states(robot)
    rows = np.array([oracle.torque_rows(*state) for state in zip(q, pd, pdd, strict=True)])
    tau = rows @ robot.phi
    assert_close(values(robot, "standard_regressor", q, pd, pdd), rows, PROJECTED)
    assert_close(values(robot, "inverse_dynamics", q, pd, pdd)[:, :, 0], tau, PROJECTED)
    bias = np.array([oracle.torque_rows(*state) for state in zip(q, pd, 0 * pdd, strict=True)]) @ robot.phi
    rest = np.array([oracle.torque_rows(*state) for state in zip(q, 0 * pd, 0 * pdd, strict=True)]) @ robot.phi
    assert_close(values(robot, "bias", q, pd)[:, :, 0], bias, PROJECTED)
    assert_close(values(robot, "gravity", q)[:, :, 0], rest, PROJECTED)
    C = values(robot, "coriolis", q, pd)
    assert_close(np.einsum("nij,nj->ni", C, pd), bias - rest, PROJECTED)
    M, energy = [], []
    for position, rate in zip(q, pd, strict=True):
        W, qd, _ = oracle.projection(position, rate, rate)
        full = pin.crba(oracle.model, oracle.data, position)
        M.append(W.T @ (np.triu(full) + np.triu(full, 1).T) @ W)
        energy.append(pin.computeKineticEnergy(oracle.model, oracle.data, position, qd))
    assert_close(values(robot, "inertia_matrix", q), M, PROJECTED)
    assert_close(values(robot, "energy", q, pd)[:, 0, 0], energy, PROJECTED)
    # The acceleration is a difference of two terms, due to torque and bias, which are far larger near dead points.
    accelerations = values(robot, "forward_dynamics", q, pd, tau)[:, :, 0]
    terms = np.abs(np.linalg.solve(np.array(M), tau[:, :, None])).max(axis=(1, 2))
    assert_negligible((accelerations - pdd) / np.maximum(terms, np.abs(pdd).max(axis=1))[:, None], 1.0, PROJECTED)


def test_a_linkage_is_not_followed_beyond_a_dead_point():
    closure = home_closure(linkage("ball", 1))
    p = closure.home[list(closure.primary)] + np.array([[0.05, 0.05], [-0.05, 0.1]])
    assert not closure.find_reachable(p)[1].any()


@pytest.mark.parametrize("topology", [name for name in TOPOLOGIES if name != "welded ring"])
def test_the_number_of_base_parameters_is_the_rank_of_the_projected_regressor(topology):
    robot = linkage(topology, 3 if topology in ("ball", "two loops") else 1)  # with seed 1 these are near dead points
    base = base_parameters(robot)
    q, pd, pdd = states(robot, 60, spread=0.6)
    oracle = LoopOracle(robot)
    Y = np.vstack([oracle.torque_rows(*state) for state in zip(q, 3 * pd, 5 * pdd, strict=True)])
    Y = Y / np.maximum(np.linalg.norm(Y, axis=0), 1e-12 * np.linalg.norm(Y))
    s = np.linalg.svd(Y / np.linalg.norm(Y, axis=1, keepdims=True), compute_uv=False)
    assert base.count == int((s > 1e-9 * s[0]).sum())
    rows = values(robot, "regressor", q[:5], pd[:5], pdd[:5], base=base)
    tau = values(robot, "inverse_dynamics", q[:5], pd[:5], pdd[:5])[:, :, 0]
    assert_close(rows @ base.values, tau, PROJECTED)


@pytest.mark.parametrize("topology", ["slider-crank"])
def test_kernels_take_primary_positions_or_a_start_and_derivatives_are_exact(topology):
    robot = linkage(topology, 1)
    model, primary = compile_model(robot), list(home_closure(robot).primary)
    q, pd, pdd = states(robot, 20)
    tau = closed_model(robot).inverse_dynamics(q[:, primary], pd, pdd)
    assert_close(model.inverse_dynamics(q[:, primary], pd, pdd), tau, ORACLE)
    off = np.random.default_rng(0).uniform(-1e-4, 1e-4, q.shape)
    off[:, primary] = 0
    assert_close(model.inverse_dynamics(q + off, pd, pdd), tau, ORACLE)
    assert_close(model.inverse_dynamics(q[0, primary], pd[0], pdd[0]), tau[0], ORACLE)
    by_q, by_qd, _ = model.derivatives("inverse_dynamics")(q, pd, pdd)
    step = 1e-6
    for k, i in enumerate(primary):
        change = step * np.eye(len(primary))[k]
        there = [model.inverse_dynamics(q[:, primary] + sign * change, pd, pdd) for sign in (1, -1)]
        assert_close(by_q[:, :, i], (there[0] - there[1]) / (2 * step), 10 * DERIVATIVE)
    slope = (model.inverse_dynamics(q, pd + step, pdd) - model.inverse_dynamics(q, pd - step, pdd)) / (2 * step)
    assert_close(by_qd.sum(axis=2), slope, 10 * DERIVATIVE)


def test_loops_that_do_not_close_are_flagged_or_rejected_by_name():
    robot = load_robot("five_bar")
    model, kernel = compile_model(robot), compile_model(robot).kernel("gravity")
    q, _, _ = states(robot, 5)
    wrong = q.copy()
    wrong[3, 2] += 0.5
    with raises(RobotError, Code.NOT_CONVERGED, "five_bar"):
        model.gravity(wrong)
    _, flags = kernel.run_with_flags(wrong)
    assert flags.tolist() == [False, False, False, True, False]


def test_nearly_singular_loops_are_rejected_by_name():
    """With coupler and rocker nearly in line, at the end of the crank's range, torques would be inaccurate."""
    robot = replace(four_bar(), home=np.array([0.85, -1.0, 1.0]))
    crank = np.arccos((1.0 + 1.2**2 - 1.5**2) / (2 * 1.2)) - 1e-10  # crank 1, ground 1.2, coupler + rocker 1.5
    tip, ground = np.array([np.cos(crank), np.sin(crank)]), np.array([1.2, 0.0])
    way = np.linalg.norm(ground - tip)
    coupler = np.arctan2(*(ground - tip)[::-1]) - np.arccos((0.9**2 + way**2 - 0.6**2) / (2 * 0.9 * way))
    rocker = np.arctan2(*(tip + 0.9 * np.array([np.cos(coupler), np.sin(coupler)]) - ground)[::-1])
    with raises(RobotError, Code.INACCURATE, "four_bar"):
        compile_model(robot).inertia_matrix(np.array([crank, coupler - crank, rocker]))


def test_loops_are_accurate_up_to_the_rejected_configurations():
    """Gravity torques of a four-bar towards its dead point agree with 50 digits to 1e-9 until they are rejected."""
    robot = replace(four_bar(), home=np.array([0.85, -1.0, 1.0]))
    kernel = compile_model(robot).kernel("gravity")
    end = np.arccos((1.0 + 1.2**2 - 1.5**2) / (2 * 1.2))  # crank 1, ground 1.2, coupler + rocker 1.5
    answered = 0
    for below in 10.0 ** np.arange(-3, -10, -0.5):
        crank = float(end - below)
        with mpmath.workdps(50):
            q = [float(value) for value in four_bar_angles(mpmath.mpf(crank))]
            slope = mpmath.diff(lambda angle: four_bar_potential(robot, four_bar_angles(angle)), mpmath.mpf(crank))
        tau, flagged = kernel.run_with_flags(np.array([q]))
        if not flagged[0]:
            answered += 1
            assert_close(tau[0, 0], float(slope), PROJECTED)
    assert 2 < answered < 12


def four_bar_angles(crank):
    """Return joint angles by the triangle of the crank's tip, the rocker's foot and their pin."""
    tip, ground = (mpmath.cos(crank), mpmath.sin(crank)), mpmath.mpf("1.2")
    x, y = ground - tip[0], -tip[1]
    way = mpmath.hypot(x, y)
    long, short = mpmath.mpf("0.9"), mpmath.mpf("0.6")
    coupler = mpmath.atan2(y, x) - mpmath.acos((long**2 + way**2 - short**2) / (2 * long * way))
    pin_x, pin_y = tip[0] + long * mpmath.cos(coupler), tip[1] + long * mpmath.sin(coupler)
    return crank, coupler - crank, mpmath.atan2(pin_y, pin_x - ground)


def four_bar_potential(robot, q):
    """Return the potential energy of the links with gravity along -y."""
    crank, coupler, rocker = q[0], q[0] + q[1], q[2]
    height = mpmath.mpf(0)
    for link, angle, foot in zip(robot.links, (crank, coupler, rocker), (0, mpmath.sin(crank), 0), strict=True):
        m, mcx, mcy = (mpmath.mpf(float(value)) for value in link.phi[:3])
        height += m * foot + mcx * mpmath.sin(angle) + mcy * mpmath.cos(angle)
    return mpmath.mpf("9.81") * height


@pytest.mark.parametrize("topology", ["slider-crank", "two loops"])
def test_drives_gears_and_friction_of_any_joint_act_through_loops(topology):
    """Compare with Pinocchio's tree plus explicit gears that couple joints of a loop and Stribeck friction."""
    robot, rng = linkage(topology, 50), np.random.default_rng(1)
    names = robot.joint_names
    drives = [
        Drive(name, ratio, {names[k - 1]: ratio / 3}, *rng.uniform(0.1, 1, 4), side=("motor", "joint")[k % 2])
        for k, (name, ratio) in enumerate(zip(names, rng.uniform(-9, 9, len(names)), strict=True))
    ]
    formula = "(1 + 0.5 * exp(-((qd / 0.2) ** 2))) * tanh(qd / 0.01)"
    robot = replace(robot, drives=tuple(drives), extras=(ExtraTorque("stribeck", names[1], formula, 1.3),))
    q, pd, pdd = states(robot)
    oracle, expected = LoopOracle(robot), []
    for state in zip(q, pd, pdd, strict=True):
        W, qd, qdd = oracle.projection(*state)
        tau = np.zeros(len(names))
        tau[1] = 1.3 * (1 + 0.5 * np.exp(-((qd[1] / 0.2) ** 2))) * np.tanh(qd[1] / 0.01)
        for k, drive in enumerate(drives):
            motor, joint = np.zeros(len(names)), np.eye(len(names))[k]
            motor[k], motor[k - 1] = drive.ratio, drive.ratio / 3
            turned = motor if drive.side == "motor" else joint
            s = turned @ qd
            tau += turned * (drive.viscous * s + drive.coulomb * np.sign(s) + drive.offset)
            tau += motor * drive.rotor_inertia * (motor @ qdd)
        expected.append(oracle.torque_rows(*state) @ robot.phi + W.T @ tau)
    torques = values(robot, "inverse_dynamics", q, pd, pdd, with_drives=True)[:, :, 0]
    assert_close(torques, expected, PROJECTED)
    assert_close(
        values(robot, "forward_dynamics", q, pd, np.array(expected), with_drives=True)[:, :, 0], pdd, PROJECTED
    )


def test_newtons_steps_end_at_rounding():
    robot = linkage("five-bar", 0)
    assert NEWTON_STEPS == 2
    q, _, _ = states(robot)
    equations = home_closure(robot).constraints
    assert np.abs(evaluate_batch(equations.residual, q)).max() < 1e-12
    again = replace(robot, home=q[0])
    assert_close(home_closure(again).home, q[0], ORACLE)


@pytest.mark.parametrize("name", ["slider_crank", "palletiser"])
def test_the_observer_moves_the_primary_joints(name):
    """The momentum changes as the observer predicts."""
    robot = load_robot(name) if load_robot(name).drives else with_random_drives(load_robot(name), 3)
    closure, rng = home_closure(robot), np.random.default_rng(0)
    count = len(closure.primary)
    p = closure.home[list(closure.primary)] + rng.uniform(-0.2, 0.2, (5, count))
    pd, tau = rng.uniform(-1, 1, (2, 5, count))
    model = compile_model(robot, with_drives=True)
    momentum = lambda p, pd: np.einsum("nij,nj->ni", model.inertia_matrix(p), pd)  # noqa: E731
    pdd, h = model.forward_dynamics(p, pd, tau), 1e-5
    ahead, behind = (momentum(p + s * pd + s * s / 2 * pdd, pd + s * pdd) for s in (h, -h))
    state, dt = momentum(p, pd), np.full((5, 1), 1e-3)
    step = model.kernel("momentum_observer")(p, pd, tau, state, np.full((5, count), 10.0), dt)
    assert_close((step[:, count:] - state) / dt, (ahead - behind) / (2 * h), 10 * DERIVATIVE)
    observer = MomentumObserver(model, 10.0, 1e-3)
    pushed = [observer.update(p[0], 0 * pd[0], model.bias(p[0], 0 * pd[0]) - 2.0) for _ in range(1500)]
    assert_close(pushed[-1], np.full(count, 2.0), DERIVATIVE)


def test_a_slide_turned_by_half_a_turn_is_not_closed():
    """Its equations vanish there too, but its axes are opposed, so that the search for home continues."""
    robot = linkage("slide", 4)
    equations, rng, opposed = home_closure(robot).constraints, np.random.default_rng(0), 0
    for _ in range(8):
        try:
            home = loop_closure(robot, robot.home + rng.uniform(-3, 3, len(robot.joints))).home
        except RobotError:
            continue
        opposed += 1
        assert evaluate_batch(equations.facing, home[None]).min() > 3.9
    assert opposed > 0


@pytest.mark.parametrize("topology", ["slider-crank", "ball"])
def test_rotors_of_passive_joints_have_velocity_torques(topology):
    """Their part of W^T M W depends on position; without friction the bias is C qd + G for all kinds of parameters."""
    robot = with_random_drives(linkage(topology, 3), 5)
    robot = replace(robot, drives=tuple(replace(d, viscous=0, coulomb=0, offset=0) for d in robot.drives))
    q, pd, _ = states(robot)
    velocity = (
        values(robot, "bias", q, pd, with_drives=True)[:, :, 0] - values(robot, "gravity", q, with_drives=True)[:, :, 0]
    )
    base = base_parameters(robot, with_drives=True)
    given = {"constant": (), "input": (robot.phi, drive_parameters(robot)), "base": (base.values,)}
    for parameters, more in given.items():
        options = {"with_drives": True, "parameters": parameters, "base": base}
        repeated = [np.tile(values, (len(q), 1)) for values in more]
        C = values(robot, "coriolis", q, pd, *repeated, **options)
        assert_close(np.einsum("nij,nj->ni", C, pd), velocity, PROJECTED)
        assert "momentum_observer" in loop_equation(robot, "momentum_observer", **options).name()


@pytest.mark.parametrize("topology", ["slider-crank", "two loops"])
def test_planar_loops_of_rounded_files_close_in_their_plane(topology):
    """An axis off by 1e-7 changes torques as little and is reported; an axis off by 1e-2 is rejected."""
    robot = linkage(topology, 20)

    def tilted(angle):
        c, s = np.cos(angle), np.sin(angle)
        origin = robot.joints[1].origin @ Pose(np.array([[1, 0, 0], [0, c, -s], [0, s, c]]))
        return replace(robot, joints=(robot.joints[0], replace(robot.joints[1], origin=origin), *robot.joints[2:]))

    q, pd, pdd = states(robot, 2)
    p, near = q[:, list(home_closure(robot).primary)], tilted(1e-7)
    exact, inexact = (closed_model(arm).inverse_dynamics(p, pd, pdd) for arm in (robot, near))
    assert_close(inexact, exact, 1e-5)
    assert np.abs(inexact - exact).max() > 0
    (note,) = home_closure(near).notes
    assert "across its plane of motion" in note
    assert base_parameters(near).notes[0] == note
    whole = home_closure(near).positions(p)
    assert_close(values(near, "inverse_dynamics", whole, pd, pdd)[:, :, 0], inexact, ORACLE)
    with raises(RobotError, Code.NOT_CONVERGED, "loop0"):
        home_closure(tilted(1e-2))
