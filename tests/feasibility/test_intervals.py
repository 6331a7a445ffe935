"""Intervals after the constraint cover the truth at their level and stay physical."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from closeness import assert_close
from equations import equations
from estimators.recovered import exact_samples
from robots import random_robot, with_random_drives

from mindyn import LeastSquares, PhysicallyConsistent
from mindyn.foundation.algebra.inertia import pseudo_inertia
from mindyn.foundation.algebra.significance import NORMAL_95
from mindyn.identification.feasibility.conditions.physical_space import space_of
from mindyn.identification.feasibility.physical_intervals import add_physical_intervals, physical_ends
from mindyn.identification.prediction.torque_bands import torque_bands


def arm_with_a_frictionless_drive(trial):
    """Two joints; the first drive has no friction, so that the truth lies at the edge of what is physical."""
    robot = with_random_drives(random_robot(100 + trial % 6, joints=2, tree=False, gravity=(0.0, 0.0, -9.81)), trial)
    first, second = robot.drives
    return replace(robot, drives=(replace(first, viscous=0.0, coulomb=0.0), second))


def test_pooled_coverage_of_intervals_and_bands():
    covered, banded, widths = [], [], []
    for trial in range(24):
        robot = arm_with_a_frictionless_drive(trial)
        estimate = LeastSquares().fit(equations(robot, exact_samples(robot, 200, seed=trial, noise=1.5)))
        low, high = physical_ends(estimate)
        truth = estimate.base.values
        covered += list((truth >= low) & (truth <= high))
        widths += list((high - low) / (2 * NORMAL_95 * estimate.deviations))
        unseen = exact_samples(robot, 40, seed=1000 + trial)
        low, high = torque_bands(estimate, unseen)
        banded += list(((unseen.tau >= low) & (unseen.tau <= high)).ravel())
    assert 0.93 <= np.mean(covered) <= 0.985
    assert 0.93 <= np.mean(banded) <= 0.98
    assert np.mean(widths) < 0.95  # knowing what is physical makes them narrower


def test_ends_are_those_of_an_independent_solver():
    import cvxpy as cp

    robot = arm_with_a_frictionless_drive(2)
    estimate = LeastSquares().fit(equations(robot, exact_samples(robot, 100, noise=4.0)))
    ends, space = physical_ends(estimate), space_of(estimate.regressor)
    W = np.linalg.cholesky(np.linalg.inv(estimate.covariance)).T
    x = cp.multiply(space.units, cp.Variable(space.size))
    rules = [x[list(space.nonnegative)] >= 0]
    for i in range(2):
        P = sum(x[10 * i + k] * pseudo_inertia(unit) for k, unit in enumerate(np.eye(10)))
        rules.append(P >> 0)
    misfit = cp.norm(W @ (space.matrix @ x - estimate.beta))
    least = cp.Problem(cp.Minimize(misfit), rules).solve(solver=cp.SCS, eps=1e-7, max_iters=200_000)
    assert least > 1  # physics has something to say
    for k in range(1, len(estimate.beta), 5):
        for end, sense in ((ends[0, k], cp.Minimize), (ends[1, k], cp.Maximize)):
            reached = cp.Problem(sense(space.matrix[k] @ x), [*rules, misfit <= np.hypot(least, NORMAL_95)])
            expected = reached.solve(solver=cp.SCS, eps=1e-7, max_iters=200_000)
            assert abs(end - expected) < 1e-2 * estimate.deviations[k], estimate.names[k]


def test_intervals_are_physical():
    robot = arm_with_a_frictionless_drive(3)
    estimate = PhysicallyConsistent(prior=None, kinds="all").fit(equations(robot, exact_samples(robot, 100, noise=5.0)))
    result = add_physical_intervals(estimate)
    signed = [k for k, name in enumerate(estimate.names) if name.startswith(("fv", "fc"))]
    assert (result.intervals[0, signed] >= 0).all()
    assert ((result.beta >= result.intervals[0]) & (result.beta <= result.intervals[1])).all()
    assert "without physical bounds" in estimate.table()
    assert "without physical bounds" not in result.table()


def test_values_that_the_prior_determines_have_no_interval():
    robot = with_random_drives(random_robot(7, joints=3, tree=False, gravity=(0.0, 0.0, -9.81)), 7)
    rows = equations(robot, exact_samples(robot, 100, noise=5.0))
    light, heavy = (
        add_physical_intervals(PhysicallyConsistent(prior_weight=weight, kinds="all").fit(rows))
        for weight in (1e-6, 1e3)
    )
    of_links = [k for k, parameter in enumerate(heavy.parameters) if parameter.kind == "link"]
    assert np.isnan(heavy.intervals[0, of_links]).sum() > 0.8 * len(of_links)
    assert (heavy.values.physical.prior_fractions[of_links] > 0.5).sum() > 0.8 * len(of_links)
    assert np.isfinite(light.intervals).mean() > 0.9
    assert "from the prior" in heavy.table()


@pytest.mark.parametrize("divergence", ["entropic", "euclidean"])
def test_fractions_of_the_prior_equal_those_of_refits(divergence):
    """A prior's share is by how much of a small change of the torque a value does not follow."""
    robot = with_random_drives(random_robot(7, joints=2, tree=False, gravity=(0.0, 0.0, -9.81)), 7)
    samples = exact_samples(robot, 300, noise=0.5)
    estimator = PhysicallyConsistent(
        prior_weight=0.01, kinds="all", divergence=divergence, weights=(1.0, 1.0), prior=robot
    )
    estimate = estimator.fit(equations(robot, samples))
    step = 1e-3 * np.random.default_rng(0).standard_normal(len(estimate.beta)) * np.abs(estimate.beta)
    moved = replace(samples, tau=samples.tau + estimate.with_values(beta=step).predict(samples))
    follows = estimator.fit(equations(robot, moved)).beta - estimate.beta
    assert (estimate.values.physical.prior_fractions >= 0).all()
    assert (estimate.values.physical.prior_fractions <= 1).all()
    certain = estimate.values.physical.prior_fractions < 0.01
    assert certain.sum() >= 3
    assert_close(follows[certain], step[certain], 0.1)


def test_inactive_constraints_give_the_free_intervals():
    robot = with_random_drives(random_robot(7, joints=2, tree=False, gravity=(0.0, 0.0, -9.81)), 7)
    estimate = LeastSquares().fit(equations(robot, exact_samples(robot, 400, noise=1e-4)))
    low, high = physical_ends(estimate)
    np.testing.assert_allclose(high - low, 2 * NORMAL_95 * estimate.deviations, rtol=0.01)


def test_bands_of_measured_torque_are_wider():
    robot = arm_with_a_frictionless_drive(1)
    estimate = LeastSquares().fit(equations(robot, exact_samples(robot, 200, noise=1.0)))
    samples = exact_samples(robot, 30, seed=5)
    low, high = torque_bands(estimate, samples)
    wide_low, wide_high = torque_bands(estimate, samples, noise=True)
    assert (wide_high - wide_low).mean() > 1.5 * (high - low).mean()
