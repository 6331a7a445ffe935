"""Consistent fits do not depend on units of torque; given weights stay; costs of moves by other formulas."""

from __future__ import annotations

import numpy as np
import pytest
from closeness import ORACLE, SAME_ALGEBRA, assert_close
from equations import equations
from estimators.recovered import exact_samples
from robots import random_robot, with_random_drives
from small_arms import planar_arm
from stand_in import stand_in

from mindyn.foundation.algebra.inertia import phi_about_origin
from mindyn.identification.estimators.least_squares import LeastSquares
from mindyn.identification.feasibility.conditions.nearest_values import relative_metric
from mindyn.identification.feasibility.conditions.physical_space import space_of
from mindyn.identification.feasibility.conditions.priors import Prior
from mindyn.identification.feasibility.fits.constrained_fit import FitProblem
from mindyn.identification.feasibility.fits.physically_consistent import PhysicallyConsistent
from mindyn.identification.feasibility.projections.consistent_projection import (
    UNIDENTIFIABLE_DEVIATION,
    covariance_metric,
    make_feasible,
)
from mindyn.regression.information import Information, triangle_of
from mindyn.regression.regressor import Regressor, with_estimated_drives


@pytest.fixture(scope="module")
def space():
    return space_of(Regressor(with_estimated_drives(planar_arm([0.5]))))


def rows_of(space, x, scale=1.0):
    rng = np.random.default_rng(5)
    p = len(space.names)
    tables = []
    for _ in range(2):
        Y = rng.normal(size=(60, p))
        tables.append(np.column_stack([Y, scale * (Y @ (space.matrix @ x) + rng.normal(size=60))]))
    columns = (np.arange(p), np.arange(p))
    return Information(("a", "b"), space.names, columns, tuple(map(triangle_of, tables)), (60, 60))


@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_a_heavier_arm_of_the_same_kind_is_fitted_alike(space, scale):
    """Torques and masses in another unit: with nothing believed of links, x scales with the torque."""
    x = np.zeros(space.size)
    for i in range(2):
        x[space.link(i)] = phi_about_origin(2.0 + i, np.array([0.2, 0.05, 0.0]), 0.02 * np.eye(3))
    x[20:] = 0.3
    problem = FitProblem(space, Prior((None, None), "entropic", ()), ())
    solution = problem.solve(rows_of(space, x), np.ones(2), 0.0)
    scaled = problem.solve(rows_of(space, x, scale), np.full(2, scale**-2.0), 0.0)
    assert_close(space.matrix @ scaled / scale, space.matrix @ solution, 1e-3)
    assert_close(scaled[space.masses] / scale, solution[space.masses], 2e-2)


def test_given_joint_weights_stay_and_others_follow_the_residuals():
    robot = with_random_drives(random_robot(7, joints=2, tree=False, gravity=(0.0, 0.0, -9.81)), 7)
    rows = equations(robot, exact_samples(robot, 120, noise=0.5))
    stated = PhysicallyConsistent(prior_weight=1e-3, kinds="all", weights=(3.0, 0.5)).fit(rows)
    assert_close(stated.data.joint_weights / stated.data.joint_weights[0], [1.0, 0.5 / 3.0], SAME_ALGEBRA)
    estimate = PhysicallyConsistent(prior_weight=1e-3, kinds="all").fit(rows)
    expected = np.array([residual.rms**-2 for residual in estimate.data.residuals])
    assert_close(estimate.data.joint_weights / estimate.data.joint_weights[0], expected / expected[0], 0.05)


def test_the_noise_metric_scales_unidentifiable_and_dropped_parameters_by_their_size():
    robot = with_random_drives(random_robot(7, joints=2, tree=False, gravity=(0.0, 0.0, -9.81)), 7)
    estimate = LeastSquares().fit(equations(robot, exact_samples(robot, 120, noise=0.5)))
    space = space_of(estimate.regressor)
    sizes = 1 / np.diag(relative_metric(space, estimate.beta))
    W = covariance_metric(estimate, space)
    assert_close(np.linalg.inv(W.T @ W), estimate.covariance, 1e-6)
    fake = stand_in(
        by_noise_alone=lambda: fake,
        beta=estimate.beta,
        deviations=np.where(np.arange(len(sizes)) == 0, np.inf, np.where(np.arange(len(sizes)) == 1, 0.0, 2.0)),
        correlations=np.eye(len(sizes)),
    )
    expected = np.full(len(sizes), 2.0)
    expected[:2] = UNIDENTIFIABLE_DEVIATION * sizes[0], sizes[1]
    W = covariance_metric(fake, space)
    assert_close(np.diag(np.linalg.inv(W.T @ W)), expected**2, ORACLE)
    projected = make_feasible(estimate)
    distance = np.linalg.norm(covariance_metric(estimate, space) @ (projected.beta - estimate.beta))
    assert projected.provenance.notes["projected"]["distance"] == pytest.approx(distance)
    assert f"moved by {distance:.3g} standard deviations" in projected.status
    assert space.smallest_margin(projected.values.physical.values) >= 0
    assert projected.values.projected
