"""One solve of normal equations: units of columns do not matter, singular ones have the shortest solution."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from closeness import SOLVED, assert_close

from mindyn.foundation.algebra.normal_equations import invert_normal_matrix, solve_normal_equations


@pytest.mark.parametrize("seed", range(20))
def test_the_inverse_is_that_of_forty_digits(seed):
    """Columns of very different units and a condition number of 1e3 lose few digits."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(30, 6)) @ (np.eye(6) + 0.3 * rng.normal(size=(6, 6))) * 10.0 ** rng.uniform(-5, 5, 6)
    A = rows.T @ rows
    with mpmath.workdps(40):
        exact = np.array((mpmath.matrix(A.tolist()) ** -1).tolist(), dtype=float).reshape(6, 6)
    size = np.sqrt(np.outer(exact.diagonal(), exact.diagonal()))
    assert_close(invert_normal_matrix(A) / size, exact / size, rtol=SOLVED)


@pytest.mark.parametrize("seed", range(20))
def test_singular_equations_have_the_shortest_solution_in_scaled_columns(seed):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(12, 3)) @ rng.normal(size=(3, 5)) * 10.0 ** rng.uniform(-3, 3, 5)
    z = rng.normal(size=12)
    lengths = np.linalg.norm(rows, axis=0)
    expected = np.linalg.lstsq(rows / lengths, z, rcond=1e-9)[0] / lengths
    x = solve_normal_equations(rows.T @ rows, rows.T @ z)
    assert_close(x * lengths, expected * lengths, rtol=SOLVED)


def test_columns_without_entries_get_zero():
    A = np.diag([4.0, 0.0, 1.0])
    assert invert_normal_matrix(A).tolist() == [[0.25, 0, 0], [0, 0, 0], [0, 0, 1]]
