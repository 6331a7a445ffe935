"""Yoshida's cones of small robots: the two-link arm in closed form, grids, projections and his modification."""

from __future__ import annotations

import numpy as np
import pytest
from closeness import SAME_ALGEBRA, SOLVED, assert_close
from raising import raises
from small_arms import TwoLinks, grid, planar_arm, project_on_circular_cone, regressor_matrices

from mindyn.equations.identifiability.base_sets import base_parameters
from mindyn.foundation.errors import Code, InputError, RobotError
from mindyn.identification.feasibility.checks.positive_definite import check_positive_definite
from mindyn.identification.feasibility.checks.yoshida_cones import check_by_cones, leading_minors
from mindyn.identification.feasibility.conditions.inertia_matrix_family import InertiaMatrixFamily
from mindyn.identification.feasibility.projections.yoshida_projection import (
    project_by_cones,
    project_on_polyhedral_cone,
)
from mindyn.robots.loading import load_robot

EXAMPLE = TwoLinks(0.30, 0.05, 0.28, 0.10, 0.5)
BASE = base_parameters(planar_arm([0.5]))
GRIDS = (4, 5, 8, 9, 15, 16, 31)


def values_of(arm):
    named = {"Izz1R": arm.J1, "Izz2": arm.J2, "mcx2": arm.Rx, "mcy2": arm.Ry}
    return np.array([named[name] for name in BASE.names])


def random_arms(count=1500, seed=0):
    rng = np.random.default_rng(seed)
    for values in rng.uniform([0, 0, -0.6, -0.6], [1, 0.3, 0.6, 0.6], (count, 4)).tolist():
        yield TwoLinks(*values, 0.5)


def test_the_minors_of_two_links_have_the_functions_and_coefficients_of_the_closed_form():
    first, second = leading_minors(InertiaMatrixFamily(BASE))
    assert first.frequencies.tolist() == [[1]]
    assert second.frequencies.tolist() == [[2]]
    arm = EXAMPLE
    assert_close(first.coefficients(values_of(arm)), [arm.Rx, -arm.Ry, arm.J1 + arm.J2], SAME_ALGEBRA)  # 2 L = 1
    for arm in random_arms(50):
        assert_close(second.coefficients(values_of(arm)), arm.second_minor, SAME_ALGEBRA)


@pytest.mark.parametrize("joints", [2, 3])
def test_expanded_minors_are_those_of_the_matrix(joints):
    base = base_parameters(planar_arm([0.5, 0.3], joints))
    rng = np.random.default_rng(joints)
    beta, q = rng.normal(size=base.count), rng.uniform(-np.pi, np.pi, (50, joints))
    M = regressor_matrices(base, beta, q)
    for minor in leading_minors(InertiaMatrixFamily(base)):
        direct = np.linalg.det(M[:, : minor.order, : minor.order])
        assert_close(minor.basis_rows(q[:, 1:]) @ minor.coefficients(beta), direct, 1e-10)
        assert (
            np.linalg.matrix_rank(minor.basis_rows(rng.uniform(-np.pi, np.pi, (200, joints - 1)))) == minor.basis_size
        )


def test_the_closed_condition_is_that_of_dense_eigenvalues_and_of_the_exact_cones():
    q = grid(np.array([[0.0, 0.0], [-np.pi, np.pi]]), 361)
    units = [regressor_matrices(BASE, unit, q) for unit in np.eye(BASE.count)]
    possible = 0
    for arm in random_arms(400):
        M = sum(value * unit for value, unit in zip(values_of(arm), units, strict=True))
        least = np.linalg.eigvalsh(M)[:, 0].min()
        if abs(least) > 1e-5:
            assert arm.is_possible is bool(least > 0)
        possible += arm.is_possible
    assert 60 < possible < 340
    for arm in random_arms(25):
        assert check_positive_definite((BASE, values_of(arm)), count=200).holds is arm.is_possible


def test_a_grid_never_rejects_possible_values_and_accepts_fewer_impossible_ones_the_finer_it_is():
    minors = leading_minors(InertiaMatrixFamily(BASE))
    arms = list(random_arms())
    lifted = [np.array([minor.coefficients(values_of(arm)) for arm in arms]) for minor in minors]
    possible = np.array([arm.is_possible for arm in arms])
    wrong = {}
    for points in GRIDS:
        inside = [(p @ minor.facets(points).T > 0).all(axis=1) for p, minor in zip(lifted, minors, strict=True)]
        accepted = np.all(inside, axis=0)
        assert accepted[possible].all()
        facets = len(minors[1].facets(points))
        assert facets == (points if points % 2 else points // 2)
        p = lifted[1][accepted]
        assert (np.hypot(p[:, 0], p[:, 1]) * np.cos(np.pi / facets) <= p[:, 2]).all()
        wrong[points] = int((accepted & ~possible).sum())
    assert wrong[4] > wrong[5] > wrong[15] >= wrong[31]
    assert wrong[5] <= wrong[8]  # an even grid wastes half of its points
    assert wrong[15] <= wrong[16]
    assert wrong[4] > 20
    assert wrong[31] < 0.01 * (~possible).sum()


def test_the_worked_example_has_its_numbers():
    first, second = leading_minors(InertiaMatrixFamily(BASE))
    p = second.coefficients(values_of(EXAMPLE))
    assert np.abs(first.coefficients(values_of(EXAMPLE)) - [0.28, -0.10, 0.35]).max() < 1e-12
    assert np.abs(p - [-0.00855, 0.00700, 0.00395]).max() < 1e-12
    exact = project_on_circular_cone(p)
    assert np.abs(exact - [-0.00580, 0.00475, 0.00750]).max() < 5e-6
    assert np.linalg.norm(exact - p) == pytest.approx(0.00502, abs=5e-6)
    assert int((second.facets(15) @ p <= 0).sum()) == 6
    fine, coarse = project_on_polyhedral_cone(p, second.facets(15)), project_on_polyhedral_cone(p, second.facets(8))
    assert np.abs(fine - [-0.00615, 0.00448, 0.00745]).max() < 1e-5
    assert np.linalg.norm(fine - p) == pytest.approx(0.00493, abs=5e-6)
    assert len(second.facets(8)) == 4
    assert np.linalg.norm(coarse - p) == pytest.approx(0.00331, abs=5e-6)


def test_projections_on_cones_are_those_of_another_solver():
    import cvxpy as cp

    second = leading_minors(InertiaMatrixFamily(BASE))[1]
    facets = second.facets(15)
    for p in np.random.default_rng(0).normal(size=(8, 3)):
        x = cp.Variable(3)
        cp.Problem(cp.Minimize(cp.sum_squares(x - p)), [facets @ x >= 0]).solve(solver=cp.CLARABEL)
        assert np.abs(project_on_polyhedral_cone(p, facets) - x.value).max() < 1e-6
        cp.Problem(cp.Minimize(cp.sum_squares(x - p)), [cp.SOC(x[2], x[:2])]).solve(solver=cp.CLARABEL)
        assert np.abs(project_on_circular_cone(p) - x.value).max() < 1e-5


def near_possible(joints, seed):
    """A planar arm and values whose first moments are too large for the moments of inertia."""
    base = base_parameters(planar_arm([0.5, 0.4], joints))
    rng = np.random.default_rng(seed)
    inertias = np.array([name.startswith("I") for name in base.names])
    return base, np.where(inertias, rng.uniform(0.05, 0.3, base.count), rng.choice([-0.25, 0.25], base.count))


@pytest.mark.parametrize(("joints", "seed"), [(2, 2), (2, 4), (3, 6), (3, 8), (3, 10)])
def test_the_modification_by_polyhedral_cones_ends_inside_them(joints, seed):
    base, beta = near_possible(joints, seed)
    assert check_by_cones(base, beta).holds is False
    result = project_by_cones(base, beta)
    assert check_by_cones(base, result).holds
    assert np.abs(result - beta).max() < 0.5


def test_the_modification_does_not_depend_on_the_unit_of_mass():
    """Cones are cones, and a value that is next to nothing moves with the others' size."""
    base, beta = near_possible(2, 2)
    beta = np.where(np.abs(beta) == np.abs(beta).min(), 1e-6, beta)
    expected = project_by_cones(base, beta)
    assert np.abs(expected - beta).max() > 0.01
    for unit in (1e-3, 1e3):
        assert_close(project_by_cones(base, unit * beta) / unit, expected, SOLVED)


def test_the_modification_keeps_possible_values_and_raises_without_convergence():
    values = values_of(TwoLinks(0.3, 0.1, 0.1, 0.1, 0.5))
    assert (project_by_cones(BASE, values) == values).all()
    with raises(InputError, Code.NOT_CONVERGED, "values"):
        project_by_cones(*near_possible(3, 7))


def test_minors_of_large_or_prismatic_robots_raise():
    puma = base_parameters(load_robot("puma560"))
    with raises(RobotError, Code.UNSUPPORTED, "puma560"):
        check_by_cones(puma, puma.values)
    stanford = base_parameters(load_robot("stanford"))
    with raises(RobotError, Code.UNSUPPORTED, "stanford"):
        check_by_cones(stanford, stanford.values)
