"""Calls that are listed: made in their order, each as if it were made alone."""

from __future__ import annotations

import numpy as np
import pytest
from closeness import SAME_ALGEBRA, assert_close

import mindyn
from mindyn.numerics import machine, native
from mindyn.numerics.call_list import CallList, RowBlock, _module
from mindyn.numerics.products import ProductSums


@pytest.mark.parametrize("width", [1, 2, 7, 8, 9, 40])
def test_each_row_is_scaled_by_its_factor(width):
    rng = np.random.default_rng(width)
    x, factors = rng.normal(size=(30, width + 3))[:, 2 : 2 + width], rng.normal(size=(30, 4))
    y = np.full((30, width + 2), 7.0)
    calls, given, target = CallList(), RowBlock.from_array(x), RowBlock.from_array(y).columns(1, width)
    each = RowBlock.from_array(factors).columns(2, 1)
    calls.scale(30, width, (each.address, each.step), (given.address, given.step), (target.address, target.step))
    assert (y == 7.0).all()  # not before the list is run
    calls.run()
    assert np.array_equal(y[:, 1:-1], x * factors[:, 2:3])
    assert (y[:, [0, -1]] == 7.0).all()
    calls.scale(30, width, (each.address, 0), (given.address, 0), (target.address, target.step))
    calls.run()
    assert np.array_equal(y[:, 1:-1], np.tile(x[0] * factors[0, 2], (30, 1)))


def test_calls_run_once_and_in_order():
    rng = np.random.default_rng(0)
    x, y, factors, total = rng.normal(size=(20, 5)), np.zeros((20, 5)), np.full((20, 1), 3.0), np.zeros((2, 5, 5))
    calls, given, target, each = (
        CallList(),
        RowBlock.from_array(x),
        RowBlock.from_array(y),
        RowBlock.from_array(factors),
    )
    products = ProductSums([(total, y)])
    products.add(slice(0, 20), 1, calls)  # of zeros
    calls.scale(20, 5, (each.address, each.step), (given.address, given.step), (target.address, target.step))
    products.add(slice(0, 20, 2), 1, calls)
    calls.run()
    calls.run()
    assert not total[0].any()
    assert_close(np.triu(total[1]), np.triu(9.0 * x[::2].T @ x[::2]), SAME_ALGEBRA)


def test_a_kernel_with_not_finite_results_is_reported():
    kernel = mindyn.compile_model(mindyn.load_robot("puma560")).kernel("regressor", compact=True)
    q, reports = np.zeros((3, 40, 6)), []
    out = np.zeros((40, *kernel.output_shapes[0]))
    table = np.array([word for array in (*q, out) for word in (array.ctypes.data, array.strides[0])], dtype=np.int64)
    calls, code = CallList(lambda: reports.append(1)), kernel.batch_code()
    calls.add("kernel", code, 0, 30, table.ctypes.data)
    calls.run()
    assert not reports
    assert np.array_equal(out[:30], kernel(*q)[:30])
    assert not out[30:].any()
    q[1, 35, 2] = np.nan
    calls.add("kernel", code, 30, 40, table.ctypes.data)
    calls.run()
    assert reports


@pytest.mark.parametrize("lanes", [2, 4, 8])
def test_code_for_every_register_width_assembles(lanes):
    assert native.assemble(_module(lanes), machine.host())
