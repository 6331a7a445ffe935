"""Known parameters come back: exactly without noise, within their intervals with it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from closeness import assert_close
from equations import equations
from estimators.recovered import exact_samples, gains_by_load, smooth_samples
from identifiability.parallelogram_arms import arm, home_of, move_home_to_zero, random_entry
from robots import random_robot, with_random_drives
from scipy.signal import lfilter

from mindyn.applications.payload.identify_payload import identify_payload
from mindyn.equations.identifiability.base_sets import base_parameters
from mindyn.foundation.algebra.significance import NORMAL_95
from mindyn.identification.estimators.essential import fit_essential
from mindyn.identification.estimators.least_squares import LeastSquares
from mindyn.identification.estimators.recursive_least_squares import RecursiveLeastSquares
from mindyn.parameters.structural import structural_base
from mindyn.regression.friction import Friction
from mindyn.regression.regressor import with_estimated_drives
from mindyn.robots.parts import Drive

REPETITIONS = 400


@pytest.mark.parametrize("seed", range(50))
def test_noise_free_logs_give_the_parameters_to_1e8(seed):
    robot = random_robot(seed)
    robot = with_random_drives(robot, seed) if seed % 3 else with_estimated_drives(robot)
    truth = structural_base(robot, with_drives=True).values
    estimate = LeastSquares().fit(equations(robot, exact_samples(robot, 700, seed)))
    assert estimate.values.unidentifiable == ()
    assert_close(estimate.beta, truth, 1e-8)


@pytest.mark.parametrize("seed", range(12))
def test_parallelograms_give_their_parameters_to_1e8(seed):
    """Rows are the primary joints; even seeds have gears on all of them, coupled at random."""
    entry = random_entry(seed)
    robot = move_home_to_zero(arm(entry, seed), home_of(entry))
    robot = with_random_gears(robot, seed) if seed % 2 == 0 else with_estimated_drives(robot)
    truth = base_parameters(robot, with_drives=True).values
    estimate = LeastSquares().fit(equations(robot, exact_samples(robot, 700, seed)))
    assert estimate.values.unidentifiable == ()
    assert [residual.joint for residual in estimate.data.residuals] == list(robot.primary_names)
    assert_close(estimate.beta, truth, 1e-8)


def with_random_gears(robot, seed):
    """Motors on the primary joints, each turned by the one before too."""
    rng, names = np.random.default_rng(seed), robot.primary_names
    coupled = [{}, *({name: float(rng.normal())} for name in names[:-1])]
    drives = [
        Drive(name, float(rng.uniform(2, 5)), coupling, *rng.uniform(0.01, 1.0, 3), 0.3, "motor")
        for name, coupling in zip(names, coupled, strict=True)
    ]
    return replace(robot, drives=tuple(drives))


def coverage(robot, shape, covariance, rows):
    """Share of (parameter, repetition) pairs whose truth lies inside the stated 95 % interval."""
    clean = smooth_samples(robot, rows, seed=1)
    rng = np.random.default_rng(5)
    truth = structural_base(robot, with_drives=True).values
    settings, inside = LeastSquares(covariance=covariance), []
    for _ in range(REPETITIONS):
        noise = shape(rng.standard_normal((rows + 200, robot.joint_count)))[200:]
        estimate = settings.fit(equations(robot, replace(clean, tau=clean.tau + noise * [0.5, 2.0])))
        inside.append(np.abs(estimate.beta - truth) <= NORMAL_95 * estimate.deviations)
    return float(np.mean(inside))


def test_white_noise_leaves_the_truth_in_95_percent_of_the_intervals():
    robot = with_random_drives(random_robot(21, joints=2, tree=False), 21)
    assert 0.93 <= coverage(robot, lambda w: w, "white", 400) <= 0.97


def test_coloured_noise_leaves_the_truth_in_90_to_98_percent_of_the_intervals():
    robot = with_random_drives(random_robot(21, joints=2, tree=False), 21)
    colour = lambda w: lfilter([1.0], [1.0, -1.5, 0.7], w, axis=0)  # noqa: E731
    assert 0.90 <= coverage(robot, colour, "correlated", 1500) <= 0.98
    assert coverage(robot, colour, "white", 1500) < 0.85, "the test must be able to fail"


def test_weights_follow_the_noise_of_each_joint():
    robot = with_estimated_drives(random_robot(4, joints=3, tree=False))
    samples = exact_samples(robot, 5000)
    noise = np.random.default_rng(1).standard_normal(samples.tau.shape) * [0.1, 1.0, 10.0]
    estimate = LeastSquares().fit(equations(robot, replace(samples, tau=samples.tau + noise)))
    assert 1 / np.sqrt(estimate.data.joint_weights) == pytest.approx([0.1, 1.0, 10.0], rel=0.05)


def test_robust_fits_shrug_off_wild_rows():
    robot = with_estimated_drives(random_robot(4, joints=2, tree=False))
    samples = exact_samples(robot, 4000, noise=0.01)
    tau = samples.tau.copy()
    wild = np.random.default_rng(2).random(len(tau)) < 0.03
    tau[wild] += 50.0
    truth = structural_base(robot, with_drives=True).values
    spoiled = replace(samples, tau=tau)
    plain = np.abs(LeastSquares().fit(equations(robot, spoiled)).beta - truth).max()
    robust = np.abs(LeastSquares(robust=True).fit(equations(robot, spoiled)).beta - truth).max()
    assert robust < 0.1 * plain


@pytest.mark.parametrize("friction", [Friction(), Friction("tanh", 0.3, ("stribeck",), ("joint2",))])
@pytest.mark.parametrize("seed", [2, 9])
def test_recursive_equals_batch(seed, friction):
    robot = with_random_drives(random_robot(seed, joints=3), seed)
    samples = exact_samples(robot, 333, noise=0.1)
    online = RecursiveLeastSquares(robot, friction=friction)
    for row in zip(samples.q, samples.qd, samples.qdd, samples.tau, strict=True):
        online.update(*row)
    assert_close(online.beta, LeastSquares().fit(equations(robot, samples, friction=friction)).beta, 1e-9)


def test_forgetting_follows_a_change():
    robot = with_estimated_drives(random_robot(6, joints=2, tree=False))
    samples = exact_samples(robot, 1500)
    shifted = samples.tau + 3.0 * (np.arange(1500) >= 700)[:, None]
    online = RecursiveLeastSquares(robot, forgetting=0.97)
    for k in range(1500):
        online.update(samples.q[k], samples.qd[k], samples.qdd[k], shifted[k])
    assert online.estimate().value("fo1") == pytest.approx(3.0, abs=1e-6)


def test_essential_parameters_drop_zeros_and_keep_others():
    robot = with_estimated_drives(random_robot(8, joints=3, tree=False))
    robot = replace(
        robot, drives=tuple(replace(d, viscous=2.0, coulomb=1.0) for d in robot.drives)
    )  # rotor inertia and offset are zero
    result = fit_essential(LeastSquares(), equations(robot, exact_samples(robot, 1500, noise=0.5)))
    assert {"fo1", "fo2", "fo3"} & set(result.values.dropped)
    assert not {"fv1", "fv2", "fv3", "fc1", "fc2", "fc3"} & set(result.values.dropped)


def test_a_payload_comes_from_runs_with_and_without_it():
    robot = with_estimated_drives(random_robot(12, joints=4, tree=False, gravity=(0.0, 0.0, -9.81)))
    loaded = robot.with_payload(2.0, np.array([0.05, -0.02, 0.1]), np.diag([0.02, 0.03, 0.025]))
    estimate = LeastSquares().fit(equations(robot, exact_samples(robot, 900, 1)))
    result = identify_payload(estimate, exact_samples(loaded, 900, 2))
    assert_close(result.phi, loaded.links[-1].phi - robot.links[-1].phi, 1e-7)
    assert result.mass == pytest.approx(2.0)
    assert result.unidentifiable == ()


def test_gains_come_from_a_known_load():
    robot = with_estimated_drives(random_robot(12, joints=4, tree=False, gravity=(0.0, 0.0, -9.81)))
    loaded = robot.with_payload(2.0, np.array([0.05, -0.02, 0.1]), np.diag([0.02, 0.03, 0.025]))
    gains = np.array([10.0, 20.0, 5.0, 2.0])
    runs = [exact_samples(robot, 900, 1), exact_samples(loaded, 900, 2)]
    signals = [replace(run, tau=run.tau / gains) for run in runs]
    result = gains_by_load(robot, *signals, mass=2.0)
    assert_close(result.values, gains, 1e-7)
