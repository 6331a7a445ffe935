"""Least and largest numbers of columns are NumPy's, of any number of rows, whatever lies between them."""

from __future__ import annotations

import numpy as np
import pytest

from mindyn.foundation.algebra.values import column_extremes


@pytest.mark.parametrize("rows", [1, 63, 64, 65, 200, 1000])
@pytest.mark.parametrize("width", [1, 6])
def test_ends_are_those_of_numpy(rows, width):
    x = np.random.default_rng(rows).normal(size=(rows, width))
    for item in (x, np.asfortranarray(x), x[::2], x[:, ::-1]):
        assert np.array_equal(column_extremes(item), (item.min(axis=0), item.max(axis=0)))
    x[rows // 2, 0] = np.nan
    assert np.array_equal(column_extremes(x), (x.min(axis=0), x.max(axis=0)), equal_nan=True)
    expected = np.fmin.reduce(x), np.fmax.reduce(x)
    assert np.array_equal(column_extremes(x, gaps=True), expected, equal_nan=True)


def test_nothing_has_no_ends():
    with pytest.raises(ValueError, match="zero-size"):
        column_extremes(np.zeros((0, 3)))
