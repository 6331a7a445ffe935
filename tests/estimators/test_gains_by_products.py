"""Unknown gains are those that explain the signals best, up to their scale."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from closeness import EXACT, ORACLE, assert_close

from mindyn.applications.step_tests.whitened_rows import TestRows
from mindyn.identification.unknown_gains import GainProducts, fit_gains
from mindyn.regression.information import Information

GAINS = np.array([4.0, 0.5])


def products(noise=0.0, rows=60):
    """Products of [Y | load | signal] of two joints: the signal times the gain is Y x + 2 load."""
    rng = np.random.default_rng(7)
    x = np.array([1.0, -2.0, 0.5, 2.0])
    squares = []
    for joint in range(2):
        Y = rng.normal(size=(2 * rows, 4))
        Y[:rows, 3] = 0.0
        signal = (Y @ x + noise * rng.normal(size=2 * rows)) / GAINS[joint]
        W = np.column_stack([Y, signal])
        squares.append(W.T @ W)
    return GainProducts(np.array(squares), np.full(2, 2.0 * rows)), x


def test_gains_and_values_are_found_up_to_their_scale():
    exact, x = products()
    result = fit_gains(exact, np.array([1.0, np.nan]))
    assert_close(result.h / result.h[0], GAINS[0] / GAINS, ORACLE)
    assert_close(result.beta * 2.0 / result.beta[3], x, ORACLE)


def test_no_other_gains_explain_the_signals_better():
    noisy, _ = products(noise=0.2)
    best = fit_gains(noisy, np.array([1.0, np.nan]))
    assert_close(best.h / best.h[0], GAINS[0] / GAINS, 0.2)
    for factor in (0.99, 0.999, 1.001, 1.01):
        other = fit_gains(noisy, np.array([1.0, factor * best.h[1]]))
        assert other.criterion > best.criterion
    again = fit_gains(noisy, np.array([1.0, np.nan]), replace(best, h=np.array([1.0, 3.0 * best.h[1]])))
    assert_close(again.h, best.h, 1e-5)


def test_products_are_those_of_the_factors_with_zeros_for_other_parameters():
    rng = np.random.default_rng(0)
    factors = tuple(np.triu(rng.normal(size=(3, 3))) for _ in range(2))
    columns = (np.array([0, 2]), np.array([1, 3]))
    result = GainProducts.from_information(Information(("a", "b"), ("w", "x", "y", "z"), columns, factors, (7, 8)), 5)
    for W, R, own in zip(result.squares, factors, columns, strict=True):
        assert_close(W[np.ix_([*own, 5], [*own, 5])], R.T @ R, EXACT)
        assert np.count_nonzero(W) == 9
    assert_close((result + result - result).powers, [float(R[:, -1] @ R[:, -1]) for R in factors], ORACLE)
    assert result.counts.tolist() == [7.0, 8.0]


def rows(joint="a", m=12, moving=False, seed=0, p=3, noise=0.1):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(m, p))
    z = A @ np.array([1.0, -2.0, 0.5])[:p] + noise * rng.normal(size=m)
    D = np.diff(np.eye(m + 1), axis=0) if moving else np.zeros((m, 0))
    return TestRows(joint, A, z, A, z, D, ())
