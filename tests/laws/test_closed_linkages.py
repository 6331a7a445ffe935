"""Forty-two random closed linkages of six topologies: every function against Pinocchio's tree, densely projected."""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np
import pinocchio as pin
import pytest
from closeness import DERIVATIVE, ORACLE, assert_close
from identifiability.loop_oracle import LoopOracle
from laws.closed_linkages import TOPOLOGIES, linkage
from laws.test_loops import four_bar
from robots import with_random_drives

from mindyn import base_parameters, compile_model, load_robot
from mindyn.equations.closed_motion import POLISHED
from mindyn.equations.loop_batches import evaluated
from mindyn.equations.loop_closure import closure_of
from mindyn.equations.loop_constraints import open_tree
from mindyn.equations.loop_dynamics import loop_dynamics
from mindyn.equations.loop_equations import loop_equation
from mindyn.errors import RobotError

CASES = [(topology, seed) for topology in TOPOLOGIES for seed in range(7) if (topology, seed) != ("ball", 1)]
"""The ball linkage of seed 1 stands next to a dead point at home: little around it can be reached."""
COUNTED = TOPOLOGIES if os.environ.get("MINDYN_ALL_LINKAGES") else ("four-bar", "slider-crank")
"""Whose base parameters are counted: all take two minutes."""
PROJECTED = 1e-9
"""Of a dense projection by least squares near configurations that may be badly conditioned."""


def states(robot, count=4, seed=0, spread=0.15):
    """Closed configurations q (count, n) around home, and rates of the primary joints."""
    closure, rng = closure_of(robot), np.random.default_rng(seed)
    p = closure.home[list(closure.primary)] + rng.uniform(-spread, spread, (200, len(closure.primary)))
    q, reached = closure.reachable(p)
    assert reached.sum() >= count
    return q[reached][:count], *rng.uniform(-2, 2, (2, count, p.shape[1]))


def values(robot, name, *inputs, **options):
    """What an equation gives at each state, and its closure, which must be good."""
    function = loop_equation(robot, name, **options)
    found = [function(*row) for row in zip(*inputs, strict=True)]
    assert max(float(closure[0]) for _, closure in found) < 1e-12
    return np.array([np.array(value) for value, _ in found])


@pytest.mark.parametrize(("topology", "seed"), CASES)
def test_every_function_is_pinocchios_projected(topology, seed):
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
    for one, rate in zip(q, pd, strict=True):
        W, qd, _ = oracle.projection(one, rate, rate)
        full = pin.crba(oracle.model, oracle.data, one)
        M.append(W.T @ (np.triu(full) + np.triu(full, 1).T) @ W)
        energy.append(pin.computeKineticEnergy(oracle.model, oracle.data, one, qd))
    assert_close(values(robot, "inertia_matrix", q), M, PROJECTED)
    assert_close(values(robot, "energy", q, pd)[:, 0, 0], energy, PROJECTED)
    # put back: accelerations themselves lose as many digits as the inertia matrix near dead points has
    found = values(robot, "forward_dynamics", q, pd, tau)[:, :, 0]
    assert_close(values(robot, "inverse_dynamics", q, pd, found)[:, :, 0], tau, PROJECTED)


def test_a_linkage_is_not_followed_beyond_a_dead_point():
    closure = closure_of(linkage("ball", 1))
    p = closure.home[list(closure.primary)] + np.array([[0.05, 0.05], [-0.05, 0.1]])
    assert not closure.reachable(p)[1].any()


@pytest.mark.parametrize("topology", COUNTED)
def test_base_parameters_are_as_many_as_the_projected_regressor_has_rank(topology):
    robot = linkage(topology, 1)
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
    model, primary = compile_model(robot), list(closure_of(robot).primary)
    q, pd, pdd = states(robot, 20)
    tau = loop_dynamics(robot).inverse_dynamics(q[:, primary], pd, pdd)
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


def test_loops_that_do_not_close_are_flagged_or_refused_by_name():
    robot = load_robot("five_bar")
    model, kernel = compile_model(robot), compile_model(robot).kernel("gravity")
    q, _, _ = states(robot, 5)
    wrong = q.copy()
    wrong[3, 2] += 0.5
    with pytest.raises(RobotError, match=r"loops of robot 'five_bar' do not close at row \[3\]"):
        model.gravity(wrong)
    _, flags = kernel.flagged(wrong)
    assert flags.tolist() == [False, False, False, True, False]


def test_nearly_singular_loops_are_refused_by_name():
    """Coupler and rocker nearly in line: beside the end of the crank's way torques would not be right any more."""
    robot = replace(four_bar(), home=np.array([0.85, -1.0, 1.0]))
    crank = np.arccos((1.0 + 1.2**2 - 1.5**2) / (2 * 1.2)) - 1e-10  # crank 1, ground 1.2, coupler + rocker 1.5
    tip, ground = np.array([np.cos(crank), np.sin(crank)]), np.array([1.2, 0.0])
    way = np.linalg.norm(ground - tip)
    coupler = np.arctan2(*(ground - tip)[::-1]) - np.arccos((0.9**2 + way**2 - 0.6**2) / (2 * 0.9 * way))
    rocker = np.arctan2(*(tip + 0.9 * np.array([np.cos(coupler), np.sin(coupler)]) - ground)[::-1])
    with pytest.raises(RobotError, match="are nearly singular at q = 1.492"):
        compile_model(robot).inertia_matrix(np.array([crank, coupler - crank, rocker]))


def test_drives_on_any_joint_act_through_loops():
    robot = with_random_drives(linkage("slider-crank", 1), 5)
    q, pd, pdd = states(robot)
    motion = loop_dynamics(robot).motion(q[:, list(closure_of(robot).primary)], pd, pdd)
    tree = compile_model(open_tree(robot), drives=True).inverse_dynamics(motion.q, motion.qd, motion.qdd)
    expected = np.einsum("njk,nj->nk", motion.W, tree)
    assert_close(values(robot, "inverse_dynamics", q, pd, pdd, drives=True)[:, :, 0], expected, ORACLE)


def test_newtons_steps_end_at_rounding():
    robot = linkage("five-bar", 0)
    assert POLISHED == 2
    q, _, _ = states(robot)
    equations = closure_of(robot).constraints
    assert np.abs(evaluated(equations.residual, q)).max() < 1e-12
    again = replace(robot, home=q[0])
    assert_close(closure_of(again).home, q[0], ORACLE)
