"""Consistent fits satisfy the conditions of their optimum, and certificates prove what contradicts."""

from __future__ import annotations

import numpy as np
import pytest
from closeness import ORACLE, assert_close
from raising import raises
from small_arms import planar_arm, slope_of
from stand_in import stand_in

from mindyn.foundation.algebra.inertia import phi_about_origin
from mindyn.foundation.errors import Code, InputError
from mindyn.identification.feasibility.conditions.nearest_values import (
    find_certificate,
    find_nearest_compact,
    find_nearest_consistent,
    known_metric,
)
from mindyn.identification.feasibility.conditions.physical_space import space_of
from mindyn.identification.feasibility.conditions.priors import Prior
from mindyn.identification.feasibility.conditions.user_bounds import Bounds, read_bounds
from mindyn.identification.feasibility.fits.constrained_fit import FitProblem
from mindyn.regression.information import Information, joint_weights, triangle_of
from mindyn.regression.regressor import Regressor, with_estimated_drives


@pytest.fixture(scope="module")
def space():
    return space_of(Regressor(with_estimated_drives(planar_arm([0.5]))))


def solid(space):
    x = np.zeros(space.size)
    for i, mass in enumerate((2.0, 3.0)):
        x[space.link(i)] = phi_about_origin(mass, np.array([0.2, 0.05, 0.0]), (0.02 + 0.01 * i) * np.eye(3))
    x[20:] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8]
    return x


def data(space, x, noise=0.0, rows=60):
    """Rows of both joints whose torques are those of x."""
    rng = np.random.default_rng(5)
    p = len(space.names)
    tables = []
    for size in (1.0, 3.0):
        Y = size * rng.normal(size=(rows, p))
        tables.append(np.column_stack([Y, Y @ (space.matrix @ x) + noise * rng.normal(size=rows)]))
    columns = (np.arange(p), np.arange(p))
    information = Information(("a", "b"), space.names, columns, tuple(map(triangle_of, tables)), (rows, rows))
    return information, tables


def test_weights_of_joints_are_one_over_their_mean_squares(space):
    information, tables = data(space, solid(space), 0.3)
    beta = space.matrix @ solid(space) + 0.01
    means = [np.mean((item[:, :-1] @ beta - item[:, -1]) ** 2) for item in tables]
    assert_close(joint_weights(information, beta) * means, [1.0, 1.0], ORACLE)
    exact, tables = data(space, solid(space))
    least = [1e-8 * np.mean(table[:, -1] ** 2) for table in tables]
    assert_close(joint_weights(exact, space.matrix @ solid(space)) * least, [1.0, 1.0], ORACLE)


def test_informative_data_are_fitted_to_rounding(space):
    x = solid(space)
    information, _ = data(space, x)
    prior = Prior((x[space.link(0)], x[space.link(1)]), "entropic", ())
    problem = FitProblem(space, prior, compact=False)
    assert_close(problem.solve(information, np.array([1.0, 2.0]), 1e-4), x, 1e-9)


def test_the_mean_of_squares_and_the_prior_balance(space):
    """At the minimum w grad D + A^T W (A x - b) / N = 0 in every direction, where no condition binds."""
    x = solid(space)
    information, tables = data(space, x, 0.2)
    wanted = solid(space)
    wanted[space.link(0)] *= 1.3
    prior = Prior((wanted[space.link(0)], wanted[space.link(1)]), "entropic", ())
    problem = FitProblem(space, prior, compact=False)
    weights, weight = np.array([1.0, 2.0]), 0.05
    result = problem.solve(information, weights, weight)
    slope = weight * slope_of(prior, space, result)
    for table, w in zip(tables, weights, strict=True):
        A = table[:, :-1] @ space.matrix
        slope = slope + w * A.T @ (A @ result - table[:, -1]) / 120
    assert np.abs(slope * space.units).max() < 1e-9 * np.abs(weight * slope_of(prior, space, x) * space.units).max()


def test_fractions_of_the_prior_follow_from_both_curvatures(space):
    x = solid(space)
    information, tables = data(space, x)
    prior, weight, weights = Prior((x[space.link(0)],) * 2, "euclidean", ()), 0.3, np.array([1.0, 2.0])
    held = (20, 24)
    result = FitProblem(space, prior, zero=held, compact=False).prior_fractions(information, weights, weight, x)
    kept = [k for k in range(space.size) if k not in held]
    A = np.vstack([np.sqrt(w) * table[:, :-1] @ space.matrix for w, table in zip(weights, tables, strict=True)])
    of_data, of_prior = (A.T @ A / 120)[np.ix_(kept, kept)], weight * prior.curvature(space, x)[np.ix_(kept, kept)]
    U = space.units[kept]
    inverse = np.linalg.pinv((of_data + of_prior) * np.outer(U, U), rcond=1e-12, hermitian=True) * np.outer(U, U)
    rows = space.matrix[:, kept]
    certain = np.array([r @ inverse @ r for r in rows])
    brought = np.array([r @ inverse @ of_prior @ inverse @ r for r in rows])
    item = certain > 0  # what is held at zero is not
    assert 0 < (~item).sum() < 3
    assert not result[~item].any()
    assert_close(result[item], brought[item] / certain[item], 1e-5)


def test_parameters_of_a_kind_are_held_at_zero(space):
    x = solid(space)
    information, _ = data(space, x)
    problem = FitProblem(space, Prior((x[space.link(0)], x[space.link(1)]), "entropic", ()), zero=(23,))
    bare = problem.drop_kinds(("coulomb",))
    assert [space.labels[k] for k in bare.zero] == ["fc1", space.labels[23], "fc2"]
    solution = bare.solve(information, np.ones(2), 1e-4)
    assert not solution[list(bare.zero)].any()
    assert solution[21] > 0.1


def test_bounds_that_contradict_each_other_are_named(space):
    x = solid(space)
    information, _ = data(space, x)
    prior = Prior((x[space.link(0)], x[space.link(1)]), "entropic", ())
    bounds = Bounds(masses={"link1": (3.0, 4.0)}, total_mass=(1.0, 2.0))
    with raises(InputError, Code.DISAGREEMENT, "bounds"):
        FitProblem(space, prior, bounds.rows(space)).solve(information, np.ones(2), 1e-4)
    heavier = FitProblem(space, prior, Bounds(masses={"link1": (2.5, 4.0)}).rows(space), compact=False)
    assert_close(heavier.solve(information, np.ones(2), 1e-4)[0], 2.5, 1e-3)


def test_misfits_are_measured_in_standard_deviations():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(3, 3))
    C = root @ root.T
    deviations = np.sqrt(np.diag(C))
    estimate = stand_in(correlations=C / np.outer(deviations, deviations), deviations=deviations)
    result = np.array([True, False, True])
    wide = known_metric(estimate, result)
    W = wide[:, result]
    assert_close(W.T @ W, np.linalg.inv(C[np.ix_(result, result)]), ORACLE)
    assert not wide[:, 1].any()


def test_the_nearest_values_and_their_certificate(space):
    """A friction below zero is the one contradiction: it goes to zero, and what is asked is y.B x >= 0."""
    x = solid(space)
    beta = space.matrix @ x
    k = space.names.index("fc1")
    beta[k] = -0.4
    W = np.diag(1 / np.maximum(np.abs(beta), 0.1))
    nearest = find_nearest_consistent(space, beta, W)
    assert_close(nearest.distance, 1.0, 1e-3)
    moved = beta.copy()
    moved[k] = 0.0
    assert_close(nearest.beta, moved, 1e-4)
    certificate, _ = find_certificate(space, beta, W)
    assert_close(nearest.distance * certificate, W.T @ W @ (nearest.beta - beta), 1e-3)
    assert_close(certificate @ beta, -nearest.distance, 1e-3)
    compact = find_nearest_compact(space, beta, W)
    assert_close(compact.beta, moved, 1e-3)


def test_links_are_compact_if_that_is_as_near(space):
    x = solid(space)
    x[space.link(1)] = phi_about_origin(0.01, np.zeros(3), np.diag([0.1, 0.1, 0.1]))
    beta = space.matrix @ x
    W = np.diag(1 / np.maximum(np.abs(beta), 1e-3))
    result = find_nearest_compact(space, beta, W)
    assert (space.compact_rows().matrix @ result.x > -1e-6).all()
    assert result.distance < 1e-3


def test_bounds_come_from_a_file(tmp_path, space):
    path = tmp_path / "bounds.toml"
    lines = ["total_mass = [5, 20]", "[masses]", "link1 = [1, 3]", "[centres]", "link2 = [[-1, -2, 0], [1, 2, 3]]"]
    path.write_text("\n".join([*lines, "[symmetric]", 'link2 = "xy"']))
    result = read_bounds(path)
    box = ((-1.0, -2.0, 0.0), (1.0, 2.0, 3.0))
    assert result == Bounds({"link1": (1.0, 3.0)}, {"link2": box}, (5.0, 20.0), {"link2": "xy"})
    assert not result.is_empty
    assert Bounds().is_empty
    assert Bounds().rows(space) == ()
    path.write_text("weights = [1, 2]\n")
    with raises(InputError, Code.UNKNOWN_NAME, "weights"):
        read_bounds(path)
    path.write_text('total_mass = ["a", 2]\n')
    with raises(InputError, Code.INVALID_VALUE, f"{path}: total_mass[0]"):
        read_bounds(path)
    with raises(InputError, Code.INVALID_VALUE, "base"):
        Bounds(masses={"base": (0.0, 1.0)}).rows(space)
