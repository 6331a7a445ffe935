"""Distances, certificates and interval ends, compared with inverse covariances and duality.

Private functions are tested directly: inputs at their limits are rare, or slow to reach, through public names.
"""

from __future__ import annotations

import numpy as np
import pytest
from closeness import SAME_ALGEBRA, SOLVED, assert_close
from equations import equations
from estimators.recovered import exact_samples
from robots import random_robot, with_random_drives

from mindyn.applications.payload.identify_payload import _unseen_covariance, make_consistent
from mindyn.foundation.algebra.inertia import phi_about_origin, pseudo_inertia
from mindyn.identification.estimators.least_squares import LeastSquares
from mindyn.identification.feasibility import physical_intervals
from mindyn.identification.feasibility.checks.plausible_values import check_plausible
from mindyn.identification.feasibility.conditions.nearest_values import _pseudo_inertia_adjoint, relative_metric
from mindyn.identification.feasibility.conditions.physical_space import space_of
from mindyn.identification.feasibility.conditions.user_bounds import Bounds
from mindyn.identification.feasibility.physical_intervals import INTERVAL_MARGIN, physical_ends
from mindyn.identification.runs_with_loads import MAX_LOAD_HALF_WIDTHS, Payload

LOAD = phi_about_origin(3.0, np.array([0.1, -0.05, 0.2]), np.diag([0.02, 0.03, 0.04]))


def spread(seed=0):
    """A covariance of ten parameters, some of them correlated."""
    root = np.diag([0.5, 0.1, 0.1, 0.1, 0.05, 0.02, 0.05, 0.02, 0.02, 0.05])
    mix = np.eye(10) + 0.3 * np.random.default_rng(seed).normal(size=(10, 10))
    return root @ mix @ mix.T @ root


def test_a_load_near_the_fit_is_feasible():
    C = spread()
    away = np.linalg.cholesky(C)[:, 2]  # one standard deviation, in a direction of the covariance
    for part, near in ((0.99, True), (1.01, False)):
        result = Payload("tool", LOAD, C, (), 2.0, unconstrained=LOAD + part * MAX_LOAD_HALF_WIDTHS * 2.0 * away)
        assert result.is_feasible == near
    assert Payload("tool", LOAD, C, ()).is_feasible


@pytest.mark.parametrize("length", [1e-4, 1.0, 1e3])
def test_feasibility_of_a_load_does_not_depend_on_the_unit_of_length(length):
    """Moments go with the unit, inertias with its square; a point-like load has variances 16 decades apart."""
    units = np.array([1.0, *[length] * 3, *[length**2] * 6])
    away = np.linalg.cholesky(spread())[:, 9]
    for part, near in ((0.99, True), (1.01, False)):
        free = units * (LOAD + part * MAX_LOAD_HALF_WIDTHS * 2.0 * away)
        result = Payload("tool", units * LOAD, spread() * np.outer(units, units), (), 2.0, unconstrained=free)
        assert result.is_feasible == near


def test_the_nearest_load_that_can_exist_has_a_certificate():
    """Moreau: y = C^-1 (nearest - free) costs nothing there, and no body makes it negative."""
    C = spread()
    free = LOAD - np.array([0, 0, 0, 0, 0.5, 0, 0, 0, 0, 0.3])
    assert np.linalg.eigvalsh(pseudo_inertia(free))[0] < 0
    result = make_consistent(Payload("tool", free, C, ()))
    y = np.linalg.solve(C, result.phi - free)
    size = np.abs(y * result.phi).sum()
    assert abs(y @ result.phi) < SOLVED * size
    assert np.linalg.eigvalsh(_pseudo_inertia_adjoint(y))[0] > -SOLVED * np.linalg.norm(_pseudo_inertia_adjoint(y))
    assert np.linalg.eigvalsh(pseudo_inertia(result.phi))[0] > -1e-6
    assert_close(result.unconstrained, free, SAME_ALGEBRA)


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
def test_unobserved_directions_do_not_depend_on_units_of_torque(scale):
    Y = np.random.default_rng(1).normal(size=(40, 6))
    Y[:, 5] = Y[:, 0]
    result = _unseen_covariance(scale * Y.T @ Y, np.array([3, 4, 5]))
    assert_close(result, 1e6 * np.diag([0.0, 0.0, 1.0]), 1e-6)


@pytest.fixture(scope="module")
def estimate():
    robot = with_random_drives(random_robot(7, joints=2, tree=False, gravity=(0.0, 0.0, -9.81)), 7)
    return LeastSquares().fit(equations(robot, exact_samples(robot, 120, noise=0.5)))


def test_unsolved_programs_leave_the_ends_without_physics(monkeypatch, estimate):
    monkeypatch.setattr(physical_intervals, "_find_extremes", lambda *given: np.full((2, len(given[4])), np.nan))
    ends = physical_ends(estimate)
    space = space_of(estimate.regressor)
    middle, wide = ends.mean(axis=0), np.ptp(ends, axis=0) / 2
    signed = np.array([name in {space.labels[k] for k in space.nonnegative} for name in estimate.names])
    assert_close(middle[~signed], estimate.beta[~signed], 1e-9)
    assert (wide[~signed] >= estimate.uncertainty.half_widths[~signed]).all()
    assert (
        wide[~signed]
        < 1.5 * estimate.uncertainty.half_widths[~signed] + 2 * INTERVAL_MARGIN * estimate.deviations[~signed]
    ).all()


def test_values_outside_of_bounds_are_named_by_how_far_they_are(estimate):
    links = estimate.robot.link_names
    answer = check_plausible(estimate, Bounds(masses=dict.fromkeys(links, (900.0, 1000.0))))
    assert answer.holds is False
    space = space_of(estimate.regressor)
    nearest = np.array([answer.witness["nearest"][name] for name in space.names])
    moves = np.abs(nearest - estimate.beta) * np.diag(relative_metric(space, estimate.beta))
    expected = [space.names[k] for k in np.argsort(-moves)[:3]]
    assert answer.witness["most"] == expected
    assert f"most of all in {', '.join(expected)}" in answer.reason


def test_ends_of_values_inside_the_physical_set_are_those_of_the_covariance():
    """Where nothing binds: the ball of the misfit alone, wherever the search begins."""
    robot = with_random_drives(random_robot(7, joints=2, tree=False, gravity=(0.0, 0.0, -9.81)), 7)
    result = LeastSquares().fit(equations(robot, exact_samples(robot, 400, noise=1e-4)))
    ends = physical_ends(result)
    expected = np.stack([result.beta - result.uncertainty.half_widths, result.beta + result.uncertainty.half_widths])
    assert (
        np.abs(ends - expected).max(initial=0.0, where=np.isfinite(ends)) < 0.01 * result.uncertainty.half_widths.max()
    )
    assert (np.abs(ends - expected) <= 0.02 * result.uncertainty.half_widths).mean() > 0.8
