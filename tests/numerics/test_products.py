"""Products of tall arrays against NumPy's, of any width, any distance between rows, beside what is there already."""

from __future__ import annotations

import numpy as np
import pytest
from closeness import SAME_ALGEBRA, assert_close

from mindyn.numerics import machine, native
from mindyn.numerics.products import ProductSums, _module, mirror_upper_triangle


@pytest.mark.parametrize("rows", [1, 63, 64, 65, 300])
def test_products_equal_numpy(rows):
    rng = np.random.default_rng(rows)
    for m in (1, 2, 3, 7, 8, 15, 39, 41):
        for n in (1, 7, 8, 9, 24, 25, 57):
            X, Y = rng.normal(size=(3 * rows, m + 5))[::3, 2 : 2 + m], rng.normal(size=(rows, n + 1))[:, 1:]
            total = rng.normal(size=(m + 1, n + 3))
            expected = total.copy()
            expected[:m, :n] += X.T @ Y
            ProductSums([], [(total[:m, :n], X, Y)]).add(slice(None))
            assert_close(total, expected, SAME_ALGEBRA)  # also that nothing beside it was written


@pytest.mark.parametrize("width", [1, 3, 8, 24, 39, 58, 80])
def test_squares_are_symmetric_products(width):
    rng = np.random.default_rng(width)
    X, start = rng.normal(size=(200, width + 2))[:, 1:-1], rng.normal(size=(width, width))
    total = start + start.T
    expected = total + X.T @ X
    ProductSums([(total, X)]).add(slice(None))
    whole = mirror_upper_triangle(total)
    assert_close(whole, expected, SAME_ALGEBRA)
    assert np.array_equal(whole, whole.T)


def test_sums_do_not_depend_on_how_rows_are_divided():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(500, 9)), rng.normal(size=(500, 3))
    squares, products = np.zeros((9, 9)), np.zeros((3, 9))
    both = ProductSums([(squares, X), (np.zeros((0, 0)), X[:, :0])], [(products, Y, X)])
    taken = (slice(0, 100), slice(100, 101), slice(200, 400, 7), slice(300, 300), slice(450, None))
    for rows in taken:
        both.add(rows)
    index = np.concatenate([np.arange(500)[rows] for rows in taken])
    assert_close(mirror_upper_triangle(squares), X[index].T @ X[index], SAME_ALGEBRA)
    assert_close(products, Y[index].T @ X[index], SAME_ALGEBRA)


@pytest.mark.parametrize("lanes", [2, 4, 8])
def test_code_for_every_register_width_assembles(lanes):
    assert native.assemble(_module(lanes), machine.host())
