"""Simulated against measured motion: the truth follows the log, a wrong model does not, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from closeness import assert_close
from equations import equations
from identifiability.loop_oracle import LoopOracle
from scipy.integrate import solve_ivp
from simulation.plants import INTEGRATED

from mindyn.comparison.bench_setting import BenchSetting, make_bench
from mindyn.equations.loop_closure import home_closure
from mindyn.errors import InputError
from mindyn.estimators.least_squares import LeastSquares
from mindyn.logs.log import log_from_arrays
from mindyn.logs.samples import Samples
from mindyn.regression.friction import Friction
from mindyn.robots.loading import load_robot
from mindyn.validation.trajectories import compare_trajectories

CONTROL_HZ = 200.0


@pytest.fixture(scope="module")
def recorded():
    """A bench whose controller runs once for each row, its samples without noise, and the true estimate."""
    shoulder = load_robot("puma560_yoshida").lock({"joint4": 0.3, "joint5": 0.2, "joint6": 0.1})
    bench = make_bench(shoulder, BenchSetting(seconds=4.0, control_rate_hz=CONTROL_HZ))
    samples = bench.motion.samples()
    found = LeastSquares().fit(equations(bench.robot, samples))
    return bench, samples, replace(found, beta=found.base.values)


def test_the_truth_repeats_the_motion_under_its_controller(recorded):
    bench, samples, true = recorded
    found = compare_trajectories(true, samples, bench.controller)
    assert found.rms.max() < 1e-10
    assert found.torque_rms.max() < 1e-8


def test_the_truth_repeats_the_motion_under_the_measured_torque(recorded):
    _, samples, true = recorded
    found = compare_trajectories(true, samples)
    assert found.rms.max() < 1e-10
    assert "measured torque applied" in found.table()


def test_wrong_models_stray_and_more_so_without_the_controller(recorded):
    bench, samples, true = recorded
    wrong = replace(true, beta=0.9 * true.beta)
    replayed = compare_trajectories(wrong, samples, bench.controller)
    free = compare_trajectories(wrong, samples)
    assert (replayed.rms > 1e-5).all()
    assert (free.rms > replayed.rms).all()
    worse = compare_trajectories(replace(true, beta=0.8 * true.beta), samples)
    assert (worse.rms > 1.5 * free.rms).all()


@pytest.mark.parametrize("name", ["slider_crank", "parallelogram_planar"])
def test_a_log_of_a_linkage_is_repeated_as_pinocchios_tree_moves_projected(name):
    """The log is integrated from Pinocchio's tree and a dense projection, the torque held from row to row."""
    robot = replace(load_robot(name), drives=())
    oracle, closure, n = LoopOracle(robot), home_closure(robot), len(robot.primary_names)
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
    found = compare_trajectories(replace(fit, beta=fit.base.values), samples, feedback_hz=0.0)
    assert_close(found.simulated, q, INTEGRATED)
    strays = compare_trajectories(replace(fit, beta=0.9 * fit.base.values), samples, feedback_hz=0.0)
    assert strays.rms.max() > 1e4 * found.rms.max()


def test_columns_beside_the_drives_act_along_the_measured_motion(recorded):
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
        found = compare_trajectories(replace(shaped, beta=beta), samples, controller)
        without = compare_trajectories(replace(shaped, beta=lacking), samples, controller)
        assert found.rms[1] < 0.02 * without.rms[1]
        assert "fvj2" in found.status


def test_logs_are_conditioned_first(recorded):
    bench, samples, true = recorded
    log = log_from_arrays(samples.joint_names, bench.motion.t, samples.q, samples.tau)
    found = compare_trajectories(true, log)
    assert found.simulated.shape == samples.q.shape
    assert (found.relative < 0.05).all()


def test_what_cannot_be_simulated_is_refused_by_name(recorded):
    bench, samples, true = recorded
    with pytest.raises(InputError, match="inertia of the estimate is not positive at joint joint1"):
        compare_trajectories(replace(true, beta=-true.beta), samples)
    with pytest.raises(InputError, match="runs away: its inertia matrix is indefinite"):
        compare_trajectories(replace(true, beta=-true.beta), samples, bench.controller)
    gap = (np.arange(len(samples)) > 100).astype(np.int64)
    with pytest.raises(InputError, match="has gaps"):
        compare_trajectories(true, replace(samples, segments=gap))
    other = replace(samples, joint_names=tuple(f"x{k}" for k in range(3)))
    with pytest.raises(InputError, match="the log is of joints x0"):
        compare_trajectories(true, other)
    with pytest.raises(InputError, match="feedback_hz = -1"):
        compare_trajectories(true, samples, feedback_hz=-1.0)
