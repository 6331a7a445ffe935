"""Fits joint by joint, sandwiches and F tests equal sums over rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from closeness import ORACLE, SAME_ALGEBRA, assert_close
from raising import raises

from mindyn.foundation.errors import Code, InputError
from mindyn.identification.estimators.coloured_noise import colouring_of, sandwich
from mindyn.identification.estimators.essential import fit_essential
from mindyn.identification.estimators.last_link_first import fit_backwards
from mindyn.identification.estimators.least_squares import LeastSquares
from mindyn.logs.samples import Samples
from mindyn.regression.information import Information, triangle_of
from mindyn.regression.regressor import Regressor
from mindyn.regression.rows import Rows
from mindyn.robots.loading import load_robot
from mindyn.robots.parts import Drive


@pytest.fixture(scope="module")
def regressor():
    robot = load_robot("planar2")
    return Regressor(replace(robot, drives=tuple(Drive(name) for name in robot.joint_names)))


def test_a_sandwich_is_bread_meat_bread():
    rng = np.random.default_rng(5)
    bread, root = rng.normal(size=(4, 3)), rng.normal(size=(3, 5)) * np.array([[1.0], [1e3], [1e-3]])
    assert_close(sandwich(bread, root @ root.T), bread @ root @ root.T @ bread.T, ORACLE)
    empty = np.zeros((3, 3))
    empty[:2, :2] = [[2.0, 1.0], [1.0, 2.0]]
    assert_close(sandwich(np.eye(3), empty), empty, SAME_ALGEBRA)
    assert (np.linalg.eigvalsh(sandwich(np.eye(2), np.array([[1.0, 1 + 1e-9], [1 + 1e-9, 1.0]]))) >= -1e-15).all()


def test_a_joint_is_solved_with_the_results_of_later_joints():
    """Two joints: the last has parameters 1, 2, the first all three; against sums over their rows."""
    rng = np.random.default_rng(6)
    beta = np.array([1.0, -2.0, 0.5])
    first, last = rng.normal(size=(40, 3)), rng.normal(size=(30, 2))
    taus = [first @ beta + 0.1 * rng.normal(size=40), last @ beta[1:] + 0.1 * rng.normal(size=30)]
    tables = [np.column_stack([first, taus[0]]), np.column_stack([last, taus[1]])]
    columns = (np.arange(3), np.array([1, 2]))
    information = Information(("a", "b"), ("x", "y", "z"), columns, tuple(map(triangle_of, tables)), (40, 30))
    values, covariance, conditions, unidentifiable = fit_backwards(information)
    w = np.linalg.lstsq(last, taus[1], rcond=None)[0]
    left = taus[1] - last @ w
    C = left @ left / 28 * np.linalg.inv(last.T @ last)
    assert_close(covariance[1:, 1:], C, ORACLE)
    A, B = first[:, :1], first[:, 1:]
    expected = np.linalg.lstsq(A, taus[0] - B @ w, rcond=None)[0]
    assert_close(values, [*expected, *w], ORACLE)
    G = np.linalg.lstsq(A, B, rcond=None)[0]
    rest = B - A @ G
    residual = taus[0] - A @ expected - B @ w
    variance = max(0.0, residual @ residual - np.trace(rest @ C @ rest.T)) / 39
    assert_close(covariance[0, 0], variance / (A[:, 0] @ A[:, 0]) + (G @ C @ G.T)[0, 0], ORACLE)
    assert_close(covariance[0, 1:], -(G @ C)[0], ORACLE)
    assert unidentifiable == []
    assert list(conditions) == ["b", "a"]
    assert_close(list(conditions.values()), [np.linalg.cond(last / np.linalg.norm(last, axis=0)), 1.0], ORACLE)


def test_what_the_data_do_not_support_is_left_out_by_an_f_test(regressor):
    """Few rows: the F quantile counts rows less parameters; against tests of single parameters by sums."""
    from scipy.stats import f as f_distribution

    p = regressor.count
    rng = np.random.default_rng(8)
    beta = np.where(np.arange(p) % 3 == 0, 0.0, 3.0)
    tables = []
    for columns in regressor.columns:
        Y = rng.normal(size=(20, len(columns)))
        tables.append(np.column_stack([Y, Y @ beta[columns] + 0.5 * rng.normal(size=20)]))
    information = Information(
        regressor.joint_names, regressor.names, regressor.columns, tuple(map(triangle_of, tables)), (20, 20)
    )
    rows = Rows.of_information(regressor, information)
    result = fit_essential(LeastSquares(), rows, level=0.05)
    full = LeastSquares().fit(rows)
    kept = [k for k, name in enumerate(regressor.names) if name not in result.values.dropped]
    assert {k for k in range(p) if beta[k]} <= set(kept)
    threshold = f_distribution.isf(0.05, 1, 40 - p)
    weights = np.concatenate([np.full(20, w) for w in full.data.joint_weights])
    whole = np.zeros((40, p + 1))
    for j, (columns, table) in enumerate(zip(regressor.columns, tables, strict=True)):
        whole[20 * j : 20 * j + 20, [*columns, p]] = table
    A, z = whole[:, :-1] * np.sqrt(weights)[:, None], whole[:, -1] * np.sqrt(weights)

    def cost(numbers):
        left = z - A[:, numbers] @ np.linalg.lstsq(A[:, numbers], z, rcond=None)[0]
        return left @ left

    numbers, highest, dropped = list(range(p)), 0.0, []
    while len(numbers) > 1:
        rises = {k: cost([n for n in numbers if n != k]) - cost(numbers) for k in numbers}
        k = min(rises, key=rises.get)
        highest = max(highest, rises[k])
        if highest >= threshold:
            break
        dropped.append(k)
        numbers.remove(k)
    assert sorted(kept) == numbers
    for level in (0.0, 1.0):
        with raises(InputError, Code.OUT_OF_RANGE, "level"):
            fit_essential(LeastSquares(), rows, level=level)


@pytest.mark.parametrize("rows", [2, 3, 4])
def test_the_noise_of_a_joint_is_over_rows_less_parameters_and_at_least_one(rows):
    rng = np.random.default_rng(8)
    Y, tau = rng.normal(size=(rows, 2)), rng.normal(size=rows)
    table = triangle_of(np.column_stack([Y, tau]))
    _, covariance, _, _ = fit_backwards(Information(("a",), ("x", "y"), (np.arange(2),), (table,), (rows,)))
    left = tau - Y @ np.linalg.lstsq(Y, tau, rcond=None)[0]
    expected = left @ left / {2: 1, 3: 1, 4: 2}[rows] * np.linalg.inv(Y.T @ Y)
    assert np.abs(covariance - expected).max() <= ORACLE * np.linalg.norm(np.linalg.inv(Y.T @ Y))


def samples_of(regressor, rows=12, usable=None):
    arrays = np.random.default_rng(0).normal(size=(4, rows, 2))
    return Samples(regressor.joint_names, *arrays, 100.0, np.zeros(rows, dtype=np.int64), usable)


def test_residuals_remember_within_their_segments(regressor):
    samples = samples_of(regressor, 40)
    beta = np.zeros(regressor.count)
    tau = np.random.default_rng(2).normal(size=(41, 2))
    series = replace(samples, tau=tau[1:] + 0.8 * tau[:-1])
    colouring = colouring_of(regressor, beta, series, None, 1)
    for j in range(2):
        e = series.tau[:, j]
        assert_close(colouring.neighbours[j], (e[1:] @ e[:-1]) / (e @ e), ORACLE)
    silent = colouring_of(regressor, beta, replace(samples, tau=0 * samples.tau), None, 1)
    assert (silent.variances, silent.neighbours) == ((0.0, 0.0), (0.0, 0.0))
