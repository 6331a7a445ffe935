"""Products of tall arrays against NumPy's, of any width, any distance between rows, beside what is there already.

One private name is tested directly: inputs at its limits are rare, or slow to reach, through public names.
"""

from __future__ import annotations

import numpy as np
import pytest
from closeness import SAME_ALGEBRA, assert_close
from raising import raises

from mindyn.foundation.errors import Code, InputError
from mindyn.kernels.numerics import native
from mindyn.kernels.numerics.products import SquareSums, _module, mirror_upper_triangle


@pytest.mark.parametrize("rows", [1, 63, 64, 65, 300])
def test_products_equal_numpy(rows):
    rng = np.random.default_rng(rows)
    for m in (1, 2, 3, 7, 8, 9, 15, 24, 25, 39, 41, 57, 80):
        X, total = rng.normal(size=(3 * rows, m + 5))[::3, 2 : 2 + m], rng.normal(size=(m + 1, m + 3))
        expected = total.copy()
        expected[:m, :m] += np.triu(X.T @ X)
        SquareSums(total[:m, :m], X).add(slice(None))
        below = np.tri(m + 1, m + 3, -1, dtype=bool)
        below[m:] = False  # nothing beside it was written
        assert_close(np.where(below, 0.0, total), np.where(below, 0.0, expected), SAME_ALGEBRA)
        total[:m, :m] = mirror_upper_triangle(total[:m, :m])
        assert np.array_equal(total[:m, :m], total[:m, :m].T)


def test_sums_do_not_depend_on_how_rows_are_divided():
    rng = np.random.default_rng(0)
    X, squares = rng.normal(size=(500, 9)), np.zeros((2, 9, 9))
    sums = SquareSums(squares, X)
    taken = (slice(0, 100), slice(100, 101), slice(200, 400, 7), slice(300, 300), slice(450, None))
    for rows in taken:
        sums.add(rows, 1)
    index = np.concatenate([np.arange(500)[rows] for rows in taken])
    assert_close(mirror_upper_triangle(squares[1]), X[index].T @ X[index], SAME_ALGEBRA)
    assert not squares[0].any()


def test_sums_of_another_size_are_rejected():
    with raises(InputError, Code.WRONG_SHAPE, "total"):
        SquareSums(np.zeros((3, 3)), np.zeros((5, 4)))


@pytest.mark.parametrize("lanes", [2, 4, 8])
def test_code_for_every_register_width_assembles(lanes):
    assert native.assemble(_module(lanes), native.host())
