"""The iterative form of instrumental variables equals the batch formula (3.22) and the recursion of the thesis."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from closeness import ORACLE, assert_close
from equations import equations
from estimators.recovered import exact_samples
from robots import random_robot

from mindyn.identification.estimators.least_squares import LeastSquares
from mindyn.papers.yoshida_paper import estimate_by_instruments


@pytest.fixture(scope="module")
def case():
    robot = random_robot(3, joints=3, tree=False, special=False)
    samples = exact_samples(robot, count=300, seed=1)
    noise = np.random.default_rng(0).normal(scale=0.5 * samples.qdd.std(), size=samples.qdd.shape)
    noisy = replace(samples, qdd=samples.qdd + noise)
    return noisy, LeastSquares().fit(equations(robot, noisy))


def matrices(samples, model):
    """Y, Omega (N n, p) and tau by the regressor and numpy: M qdd = tau - tau(q, qd, 0), clipped at the largest one."""
    regressor, n, largest = model.regressor, samples.q.shape[1], np.abs(samples.qdd).max(axis=0)

    def columns(qdd):
        return regressor.dense(regressor.parts(samples.q, samples.qd, np.ascontiguousarray(qdd)))

    rest = np.zeros_like(samples.q)
    coasting = columns(rest) @ model.beta
    M = np.stack([columns(rest + unit) @ model.beta - coasting for unit in np.eye(n)], axis=2)
    assert (np.linalg.eigvalsh((M + M.transpose(0, 2, 1)) / 2)[:, 0] > 0).all()
    expected = np.clip(np.linalg.solve(M, (samples.tau - coasting)[..., None])[..., 0], -largest, largest)
    roots = np.sqrt(model.joint_weights / model.joint_weights.max())[:, None]
    Y, Omega = ((columns(qdd) * roots).reshape(-1, regressor.count) for qdd in (samples.qdd, expected))
    return Y, Omega, (samples.tau * roots[:, 0]).ravel()


def test_it_ends_where_the_batch_does(case):
    samples, model = case
    Y, Omega, tau = matrices(samples, model)
    expected = np.linalg.solve(Omega.T @ Y, Omega.T @ tau)
    values, estimate = estimate_by_instruments(model, samples, (100, 300))
    assert_close(values[-1], expected, ORACLE)
    assert_close(estimate.beta, expected, ORACLE)
    rows = slice(0, 100 * samples.q.shape[1])
    assert_close(values[0], np.linalg.solve(Omega[rows].T @ Y[rows], Omega[rows].T @ tau[rows]), ORACLE)
    assert np.abs(expected - model.base.values).max() < 0.3 * np.abs(model.beta - model.base.values).max()


def test_it_is_the_thesis_recursion(case):
    """P_k = P - P Om^T (1 + Y P Om^T)^-1 Y P; p_k = p + P_k Om^T (tau - Y p), from a first batch."""
    samples, model = case
    Y, Omega, tau = matrices(samples, model)
    n, first = samples.q.shape[1], 60
    start = first * n
    P = np.linalg.inv(Omega[:start].T @ Y[:start])
    p = P @ Omega[:start].T @ tau[:start]
    for k in range(start, len(tau), n):
        expected, instrument = Y[k : k + n], Omega[k : k + n]
        P = P - P @ instrument.T @ np.linalg.solve(np.eye(n) + expected @ P @ instrument.T, expected @ P)
        p = p + P @ instrument.T @ (tau[k : k + n] - expected @ p)
    assert_close(estimate_by_instruments(model, samples, (300,))[1].beta, p, ORACLE)


def test_its_covariance_is_the_batch_formula(case):
    samples, model = case
    Y, Omega, tau = matrices(samples, model)
    estimate = estimate_by_instruments(model, samples, (300,))[1]
    A = np.linalg.inv(Omega.T @ Y)
    residual = tau - Y @ estimate.beta
    variance = residual @ residual / (len(tau) - len(estimate.beta))
    assert_close(estimate.covariance, variance * A @ (Omega.T @ Omega) @ A.T, 1e-8)
