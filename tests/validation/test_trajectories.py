"""Simulated and measured motion: the truth follows the log, a wrong model does not; errors."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from closeness import assert_close
from equations import equations
from identifiability.loop_oracle import LoopOracle
from raising import raises
from scipy.integrate import solve_ivp
from simulation.plants import INTEGRATED

from mindyn.applications.validation.trajectories import compare_trajectories
from mindyn.equations.loop_closure import home_closure
from mindyn.foundation.errors import Code, InputError
from mindyn.identification.estimators.least_squares import LeastSquares
from mindyn.logs.log import log_from_arrays
from mindyn.logs.samples import Samples
from mindyn.motions.simulation.controllers import ComputedTorque, SineMotion
from mindyn.motions.simulation.simulate import simulate
from mindyn.regression.friction import Friction
from mindyn.robots.loading import load_robot

CONTROL_HZ = 200.0


@pytest.fixture(scope="module")
def recorded():
    """An arm whose controller runs once for each row, its samples without noise, and the true estimate."""
    shoulder = load_robot("puma560_yoshida").lock({"joint4": 0.3, "joint5": 0.2, "joint6": 0.1})
    links = tuple(replace(link, phi=0.9 * link.phi) for link in shoulder.links)  # the controller's model is too light
    reference = SineMotion(np.zeros(3), np.full((2, 3), 0.3), [[0.3, 0.5, 0.7], [0.9, 0.4, 0.6]], np.zeros((2, 3)))
    controller = ComputedTorque(replace(shoulder, links=links), reference, 400.0, 40.0, with_drives=True)
    start = dict(zip(("q0", "qd0"), reference(0.0), strict=False))
    rates = {"rate_hz": CONTROL_HZ, "control_rate_hz": CONTROL_HZ, "longest_step_s": 1e-3}
    motion = simulate(shoulder, controller, seconds=4.0, **start, **rates, with_drives=True, method="fixed")
    bench = SimpleNamespace(robot=shoulder, controller=controller, motion=motion)
    samples = motion.samples()
    estimate = LeastSquares().fit(equations(bench.robot, samples))
    return bench, samples, estimate.with_values(beta=estimate.base.values)


def test_the_truth_repeats_the_motion_under_its_controller(recorded):
    bench, samples, true = recorded
    trajectories = compare_trajectories(true, samples, bench.controller)
    assert trajectories.rms.max() < 1e-10
    assert trajectories.torque_rms.max() < 1e-8


def test_the_truth_repeats_the_motion_under_the_measured_torque(recorded):
    _, samples, true = recorded
    trajectories = compare_trajectories(true, samples)
    assert trajectories.rms.max() < 1e-10
    assert "measured torque applied" in trajectories.table()


def test_wrong_models_deviate_and_more_so_without_the_controller(recorded):
    bench, samples, true = recorded
    wrong = true.with_values(beta=0.9 * true.beta)
    replayed = compare_trajectories(wrong, samples, bench.controller)
    free = compare_trajectories(wrong, samples)
    assert (replayed.rms > 1e-5).all()
    assert (free.rms > replayed.rms).all()
    worse = compare_trajectories(true.with_values(beta=0.8 * true.beta), samples)
    assert (worse.rms > 1.5 * free.rms).all()


@pytest.mark.parametrize("name", ["slider_crank", "parallelogram_planar"])
def test_a_log_of_a_linkage_is_repeated_as_pinocchios_tree_moves_projected(name):
    """The log is integrated from Pinocchio's tree and a dense projection, the torque held from row to row."""
    robot = replace(load_robot(name), drives=())
    oracle, closure, n = LoopOracle(robot), home_closure(robot), robot.joint_count
    start, rate = closure.home[list(closure.primary)] + 0.3, 100.0
    tau = 20.0 * np.sin(np.arange(25)[:, None] / 4 + np.arange(n))
    state, rows = np.concatenate([start, np.full(n, 0.5)]), []
    for held in tau:

        def slope(_t, y, held=held):
            return np.concatenate([y[n:], oracle.forward_dynamics(closure.positions(y[None, :n])[0], y[n:], held)])

        rows.append(np.concatenate([state, slope(0.0, state)[n:]]))
        state = solve_ivp(slope, (0, 1 / rate), state, "DOP853", rtol=1e-10, atol=1e-11).y[:, -1]
    q, qd, qdd = np.split(np.array(rows), 3, axis=1)
    samples = Samples(robot.primary_names, q, qd, qdd, tau, rate, np.zeros(len(q), dtype=np.int64))
    fit = LeastSquares().fit(equations(robot, samples))
    trajectories = compare_trajectories(fit.with_values(beta=fit.base.values), samples, feedback_hz=0.0)
    assert_close(trajectories.simulated, q, INTEGRATED)
    strays = compare_trajectories(fit.with_values(beta=0.9 * fit.base.values), samples, feedback_hz=0.0)
    assert strays.rms.max() > 1e4 * trajectories.rms.max()


def test_columns_besides_the_drives_act_along_the_measured_motion(recorded):
    """Split into two halves, one of them at the joint, viscous friction moves the arm as before."""
    bench, samples, true = recorded
    friction = Friction(shapes=("cubic",), joint_side=("joint2",))
    shaped = LeastSquares().fit(equations(bench.robot, samples, friction=friction))
    ratio = bench.robot.drives[1].ratio
    beta = np.zeros(len(shaped.names))
    beta[: len(true.beta)] = true.beta
    beta[shaped.names.index("fv2")] /= 2
    lacking = beta.copy()
    beta[shaped.names.index("fvj2")] = true.value("fv2") * ratio**2 / 2
    for controller in (bench.controller, None):
        trajectories = compare_trajectories(shaped.with_values(beta=beta), samples, controller)
        without = compare_trajectories(shaped.with_values(beta=lacking), samples, controller)
        assert trajectories.rms[1] < 0.02 * without.rms[1]
        assert "fvj2" in trajectories.status


def test_logs_are_conditioned_first(recorded):
    bench, samples, true = recorded
    log = log_from_arrays(samples.joint_names, bench.motion.t, samples.q, samples.tau)
    trajectories = compare_trajectories(true, log)
    assert trajectories.simulated.shape == samples.q.shape
    assert (trajectories.relative < 0.05).all()


def test_estimates_and_logs_that_cannot_be_simulated_raise(recorded):
    bench, samples, true = recorded
    with raises(InputError, Code.NOT_FEASIBLE, "joint1, joint2, joint3"):
        compare_trajectories(true.with_values(beta=-true.beta), samples)
    with raises(InputError, Code.NOT_CONVERGED, "puma560_yoshida"):
        compare_trajectories(true.with_values(beta=-true.beta), samples, bench.controller)
    gap = (np.arange(len(samples)) > 100).astype(np.int64)
    with raises(InputError, Code.UNSUPPORTED, "log"):
        compare_trajectories(true, replace(samples, segments=gap))
    other = replace(samples, joint_names=tuple(f"x{k}" for k in range(3)))
    with raises(InputError, Code.DISAGREEMENT, "log"):
        compare_trajectories(true, other)
    with raises(InputError, Code.OUT_OF_RANGE, "feedback_hz"):
        compare_trajectories(true, samples, feedback_hz=-1.0)
