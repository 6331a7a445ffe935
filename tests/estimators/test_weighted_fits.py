"""Weighted and total least squares of small stacks, against formulas written out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from closeness import ORACLE, SAME_ALGEBRA, assert_close
from scipy.linalg import eigh

from mindyn.errors import InputError
from mindyn.estimators.estimate import load_estimate
from mindyn.estimators.estimate_columns import columns_of
from mindyn.estimators.least_squares import LeastSquares, _variances
from mindyn.estimators.total_least_squares import total_least_squares
from mindyn.regression.information import Information, solve
from mindyn.regression.triangles import Triangle, triangle_of


def information_of(*joints):
    """Of pairs (columns, rows [Y | tau]) of every joint."""
    count = 1 + max(max(columns) for columns, _ in joints)
    return Information(
        tuple(f"joint{k}" for k in range(len(joints))),
        tuple(f"p{k}" for k in range(count)),
        tuple(np.array(columns) for columns, _ in joints),
        tuple(triangle_of(rows) for _, rows in joints),
        tuple(len(rows) for _, rows in joints),
    )


def noisy(rng, beta, columns, rows, deviation):
    Y = rng.normal(size=(rows, len(columns)))
    return columns, np.column_stack([Y, Y @ beta[columns] + deviation * rng.normal(size=rows)])


def test_each_joint_has_its_residual_variance_over_what_freedom_is_left_to_it():
    rng, beta = np.random.default_rng(0), np.array([1.0, -2.0, 0.5])
    joints = [noisy(rng, beta, [0, 1], 12, 0.3), noisy(rng, beta, [1, 2], 7, 0.1)]
    data, weights = information_of(*joints), np.array([2.0, 9.0])
    found = solve(*data.stacked(weights))
    inverse = found.inverse
    for k, (columns, rows) in enumerate(joints):
        Y = rows[:, :-1]
        hat = weights[k] * Y @ inverse[np.ix_(columns, columns)] @ Y.T
        left = rows[:, -1] - Y @ found.beta[columns]
        expected = left @ left / (len(rows) - np.trace(hat))
        assert_close(_variances(data, found.beta, inverse, weights)[k], expected, ORACLE)
    assert_close(sum(len(rows) for _, rows in joints) - 3.0, 16.0, SAME_ALGEBRA)


def test_joints_of_very_different_torques_are_told_together():
    """The sum of two parameters at 1e5 N m, their difference at 1e-6: by one weight for all the latter is rounding."""
    rng = np.random.default_rng(1)
    one, other = 1e5 * rng.normal(size=(30, 1)), 1e-6 * rng.normal(size=(30, 1))
    beta = np.array([2.0, 0.5])
    joints = [
        ([0, 1], np.column_stack([one, one, one[:, 0] * beta.sum() * (1 + 1e-6 * rng.normal(size=30))])),
        (
            [0, 1],
            np.column_stack([other, -other, other[:, 0] * (beta[0] - beta[1]) * (1 + 1e-3 * rng.normal(size=30))]),
        ),
    ]
    data = information_of(*joints)
    fitted = LeastSquares(weights="joint")._weighted(data)
    assert fitted.rank == 2
    assert_close(fitted.beta, beta, 1e-2)
    assert LeastSquares(weights="ordinary")._weighted(data).rank == 1
    with pytest.raises(InputError, match="3 weights given for 2 joints"):
        LeastSquares(weights=(1.0, 1.0, 1.0))._weighted(data)


@pytest.mark.parametrize("scales", [np.ones(4), np.array([1e3, 1.0, 1e-2, 5.0])])
def test_total_least_squares_is_the_least_generalised_eigenvector(scales):
    rng = np.random.default_rng(2)
    Z = rng.normal(size=(60, 4))
    Z[:, -1] = Z[:, :-1] @ [1.0, -2.0, 0.5] + 0.1 * rng.normal(size=60)
    Z = Z * scales
    root = 0.1 * rng.normal(size=(4, 4)) * scales
    C = root.T @ root
    values, vectors = eigh(Z.T @ Z, C)
    x = vectors[:, 0]
    found = total_least_squares(Z, C)
    assert_close(found.beta * scales[:-1], -x[:-1] / x[-1] * scales[:-1], 1e-8)
    assert_close(found.factor, values[0], 1e-8)
    normal = (Z.T @ Z - values[0] * C)[:-1, :-1]
    assert_close(
        found.inverse * np.outer(scales[:-1], scales[:-1]),
        np.linalg.inv(normal) * np.outer(scales[:-1], scales[:-1]),
        1e-7,
    )


def test_total_least_squares_keeps_what_is_free_of_errors_and_what_is_not_seen():
    rng = np.random.default_rng(3)
    Z = rng.normal(size=(60, 4))
    Z[:, 1] = 0.0
    Z[:, -1] = Z[:, :-1] @ [1.0, 7.0, 0.5] + 0.1 * rng.normal(size=60)
    exact = total_least_squares(Z, np.diag([0.0, 0.0, 0.0, 1.0]))  # errors of the torque alone: least squares
    assert_close(exact.beta[[0, 2]], np.linalg.lstsq(Z[:, [0, 2]], Z[:, -1], rcond=None)[0], ORACLE)
    assert exact.beta[1] == 0


def test_a_triangle_takes_rows_as_they_come():
    rows = np.random.default_rng(4).normal(size=(37, 4))
    grown = Triangle(4, 10)
    for start in (0, 10, 20, 30):
        part = rows[start : start + 10]
        grown.append([part[:, :1], part[:, 1:]])
    assert grown.rows == 37
    assert_close(grown.R.T @ grown.R, rows.T @ rows, ORACLE)
    assert (np.tril(grown.R, -1) == 0).all()
    few = triangle_of(rows[:2])
    assert few.shape == (4, 4)
    assert_close(few.T @ few, rows[:2].T @ rows[:2], ORACLE)


def test_what_is_untold_or_left_out_has_no_deviation_in_the_table():
    found = load_estimate(Path(__file__).with_name("estimate_of_format_3.json"))
    found = replace(found, physical=None, untold=found.names[:1], left_out=found.names[1:2])
    table = columns_of(found)
    assert table["state"][:3] == ["cannot be told", "left out", "found"]
    for name in ("deviation", "low", "high"):
        assert [one is None for one in table[name]] == [True, True] + [False] * (len(found.names) - 2)
    assert_close(table["deviation"][2:], found.deviations[2:], SAME_ALGEBRA)
