"""Spread of estimates whose residuals are correlated in time, and steps of instruments, from dense rows.

One private name is tested directly: inputs at its limits are rare, or slow to reach, through public names.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from closeness import ORACLE, SAME_ALGEBRA, assert_close
from equations import equations
from raising import raises
from recovered import exact_samples
from robots import random_robot
from scipy.signal import lfilter

from mindyn.foundation.errors import Code, InputError
from mindyn.identification.estimators.coloured_noise import (
    LONGEST_MEMORY,
    Colouring,
    _fit_process,
    coloured_covariance_of,
    colouring_of,
)
from mindyn.identification.estimators.instrument_steps import _multiply_rows, instrument_step
from mindyn.identification.estimators.least_squares import LeastSquares
from mindyn.regression.regressor import Regressor

ROBOT = random_robot(4, joints=2, tree=False, special=False, gravity=(0.0, 0.0, -9.81))
SAMPLES = replace(exact_samples(ROBOT, 90, noise=0.3), segments=np.repeat(np.arange(3), 30))


def one_by_one(samples):
    """Its segments as blocks of a stream: a block of several takes what is remembered over their ends."""
    return [samples.take(slice(k, k + 30)) for k in range(0, 90, 30)]


def dense(samples):
    regressor = Regressor(ROBOT)
    return regressor, regressor.dense(regressor.parts(samples.q, samples.qd, samples.qdd))


def test_a_process_as_long_as_is_looked_for_is_found():
    """e_k = 0.9 e_(k - 24) + w_k: correlated at one lag alone."""
    lags = np.append([1.0], np.zeros(LONGEST_MEMORY))
    lags[LONGEST_MEMORY] = 0.9
    coefficients, variance = _fit_process(lags, 1e5)
    assert len(coefficients) == LONGEST_MEMORY + 1 == 25
    assert coefficients[-1] == pytest.approx(-0.9, rel=1e-6)
    assert variance == pytest.approx(1 - 0.81, rel=1e-6)


def test_a_residual_that_never_changes_is_predicted():
    coefficients, variance = _fit_process(np.ones(LONGEST_MEMORY + 1), 1e4)
    assert 0 < variance < 1e-6
    assert coefficients[1:].sum() == pytest.approx(-1.0, rel=1e-6)


@pytest.mark.parametrize("together", [False, True])
def test_memory_is_estimated_from_residuals(together):
    regressor, Y = dense(SAMPLES)
    beta = 0.9 * regressor.base.values
    colouring = colouring_of(regressor, beta, SAMPLES if together else one_by_one(SAMPLES), None, 1)
    e = SAMPLES.tau - Y @ beta
    for j in range(2):
        lags = [
            sum(float(word[k:] @ word[: len(word) - k]) for word in np.split(e[:, j], 3))
            for k in range(LONGEST_MEMORY + 1)
        ]
        coefficients, variance = _fit_process(np.array(lags) / 90, 90.0)
        assert_close(colouring.coefficients[j], coefficients, 1e-6)
        assert_close(colouring.variances[j], variance, 1e-6)
        assert_close(colouring.neighbours[j], lags[1] / lags[0], 1e-6)


@pytest.mark.parametrize(("usable", "together"), [(False, False), (True, False), (True, True)])
def test_the_spread_of_coloured_noise_is_that_of_columns_through_its_filter(usable, together):
    kept = np.random.default_rng(1).random((90, 2)) < 0.7
    samples = replace(SAMPLES, usable=kept) if usable else SAMPLES
    regressor, Y = dense(samples)
    weights, processes = np.array([2.0, 0.5]), (np.array([1.0, -0.8, 0.1]), np.ones(1))
    colouring = Colouring(processes, (3.0, 0.7), (0.0, 0.0))
    data = samples if together else one_by_one(samples)
    coloured_covariance = coloured_covariance_of(regressor, data, colouring, weights, None, 1)
    for j, (a, variance) in enumerate(zip(processes, (3.0, 0.7), strict=True)):
        rows = Y[:, j] * (kept[:, j : j + 1] if usable else 1.0)
        shaped = np.vstack([lfilter([1.0], a, part, axis=0) for part in np.split(rows, 3)])
        assert_close(coloured_covariance[j], weights[j] ** 2 * variance * shaped.T @ shaped, ORACLE)


def test_a_step_of_instruments_solves_the_weighted_products():
    estimate = LeastSquares().fit(equations(ROBOT, SAMPLES))
    estimate = estimate.with_values(beta=0.95 * estimate.beta)
    rng = np.random.default_rng(2)
    kept = rng.random((90, 2)) < 0.8
    expected = replace(SAMPLES, q=SAMPLES.q + 0.05 * rng.normal(size=(90, 2)), usable=kept)
    regressor, Y = dense(SAMPLES)
    _, Omega = dense(expected)
    weights = estimate.data.joint_weights / estimate.data.joint_weights.max()
    p = regressor.count
    common = [0.1 * rng.normal(size=p) * (np.arange(p) % 2 == j) for j in range(2)]
    A, r, grams, left = np.zeros((p, p)), np.zeros(p), [], []
    for j, weight in enumerate(weights):
        separate = kept[:, j]
        y, o = Y[separate, j], Omega[separate, j]
        e = SAMPLES.tau[separate, j] - y @ estimate.beta
        A += weight * o.T @ y
        r += weight * (o.T @ e - common[j])
        grams.append(o.T @ o)
        left.append((y, e))
    step = instrument_step(estimate, SAMPLES, expected, np.eye(p), common)
    change = np.linalg.solve(A, r)
    assert_close(step.change, change, 1e-6)
    means = [float(np.mean((e - y @ change) ** 2)) for y, e in left]
    assert_close(step.rms, np.sqrt(means), 1e-6)
    meat = sum(w**2 * v * gram for w, v, gram in zip(weights, means, grams, strict=True))
    spread = np.linalg.inv(A) @ meat @ np.linalg.inv(A).T
    assert_close(step.covariance, spread, 1e-5)
    assert_close(step.weights, weights, SAME_ALGEBRA)
    without = instrument_step(estimate, SAMPLES, expected, np.eye(p))
    assert_close(
        without.change - step.change, np.linalg.solve(A, sum(w * c for w, c in zip(weights, common, strict=True))), 1e-6
    )
    products, counts = _multiply_rows(estimate, SAMPLES, expected)
    for j, (product, count) in enumerate(zip(products, counts, strict=True)):
        taken, used = kept[:, j], regressor.columns[j]
        e = SAMPLES.tau[taken, j] - Y[taken, j] @ estimate.beta
        W = np.column_stack([Omega[taken, j][:, used], Y[taken, j][:, used], e])
        assert count == taken.sum()
        assert_close(product, W.T @ W, ORACLE)
    applied = step.applied(estimate)
    assert_close(applied.beta, estimate.beta + step.change, SAME_ALGEBRA)
    assert_close([residual.rms for residual in applied.data.residuals], step.rms, SAME_ALGEBRA)
    blind = replace(expected, q=rng.normal(size=(90, 2)), usable=np.zeros((90, 2), dtype=bool))
    with raises(InputError, Code.NOT_IDENTIFIABLE, "instrument_model"):
        instrument_step(estimate, SAMPLES, blind, np.eye(p))


def test_correlated_spread_goes_with_the_unit_of_torque():
    """Also where the squares of all residuals together are less than one."""
    rows = equations(ROBOT, SAMPLES)
    expected = LeastSquares(covariance="correlated").fit(rows).deviations
    for unit in (1e-4, 1e4):
        scaled = equations(ROBOT, replace(SAMPLES, tau=unit * SAMPLES.tau))
        assert_close(LeastSquares(covariance="correlated").fit(scaled).deviations / unit, expected, ORACLE)
