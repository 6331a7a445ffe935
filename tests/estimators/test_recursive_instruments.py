"""Recursive instrumental variables end where the batch formula does, and where the thesis's own recursion does."""

from __future__ import annotations

import numpy as np
import pytest
from closeness import ORACLE, assert_close
from equations import equations
from recovered import exact_samples
from robots import random_robot

from mindyn.errors import InputError
from mindyn.estimators import RecursiveInstruments
from mindyn.estimators.least_squares import LeastSquares
from mindyn.estimators.model_acceleration import model_acceleration
from mindyn.estimators.recursive import SIGNALS


@pytest.fixture(scope="module")
def case():
    robot = random_robot(3, joints=3, tree=False, special=False)
    samples = exact_samples(robot, count=300, seed=1)
    rng = np.random.default_rng(0)
    qdd = samples.qdd + rng.normal(scale=0.5 * samples.qdd.std(), size=samples.qdd.shape)
    noisy = type(samples)(
        samples.joint_names, samples.q, samples.qd, qdd, samples.tau, samples.rate_hz, samples.segments
    )
    return noisy, LeastSquares().fit(equations(robot, noisy))


def matrices(samples, model):
    """Y, Omega (N n, p) and tau of all samples, rows weighted alike in both."""
    regressor = model.regressor
    expected = model_acceleration(regressor, model.beta, samples)
    assert expected.definite.all()
    roots = np.sqrt(model.joint_weights / model.joint_weights.max())[:, None]
    Y, Omega = (
        (regressor.dense(regressor.parts(samples.q, samples.qd, qdd)) * roots).reshape(-1, regressor.count)
        for qdd in (samples.qdd, expected.qdd)
    )
    return Y, Omega, (samples.tau * roots[:, 0]).ravel()


def taken_in(samples, model, **options):
    online = RecursiveInstruments(model, **options)
    for row in zip(samples.q, samples.qd, samples.qdd, samples.tau, strict=True):
        online.update(*row)
    return online


def in_blocks(samples, model):
    """Accelerations of an instrument are cut off at the largest of its block: the batch has those of the recursion."""
    parts = [matrices(samples.take(slice(k, k + 128)), model) for k in range(0, len(samples), 128)]
    return (np.concatenate(one) for one in zip(*parts, strict=True))


def test_it_ends_where_the_batch_does(case):
    samples, model = case
    Y, Omega, tau = in_blocks(samples, model)
    expected = np.linalg.solve(Omega.T @ Y, Omega.T @ tau)
    online = taken_in(samples, model)
    assert_close(online.beta, expected, ORACLE)
    assert_close(online.estimate().beta, expected, ORACLE)
    assert np.abs(expected - model.base.values).max() < 0.3 * np.abs(model.beta - model.base.values).max()


def test_it_is_the_thesis_recursion(case):
    """P_k = P - P Om^T (1 + Y P Om^T)^-1 Y P; p_k = p + P_k Om^T (tau - Y p), from a first batch."""
    samples, model = case
    Y, Omega, tau = in_blocks(samples, model)
    n, first = samples.q.shape[1], 60
    start = first * n
    P = np.linalg.inv(Omega[:start].T @ Y[:start])
    p = P @ Omega[:start].T @ tau[:start]
    for k in range(start, len(tau), n):
        own, instrument = Y[k : k + n], Omega[k : k + n]
        P = P - P @ instrument.T @ np.linalg.solve(np.eye(n) + own @ P @ instrument.T, own @ P)
        p = p + P @ instrument.T @ (tau[k : k + n] - own @ p)
    assert_close(taken_in(samples, model).beta, p, ORACLE)


def test_forgetting_weighs_samples_by_age(case):
    samples, model = case
    Y, Omega, tau = in_blocks(samples, model)
    age = np.repeat(0.99 ** np.arange(len(samples) - 1, -1, -1.0), samples.q.shape[1])
    expected = np.linalg.solve(Omega.T * age @ Y, Omega.T * age @ tau)
    assert_close(taken_in(samples, model, forgetting=0.99).beta, expected, ORACLE)


def test_bad_samples_and_too_few_are_refused(case):
    samples, model = case
    online = RecursiveInstruments(model)
    with pytest.raises(InputError, match="too few rows"):
        _ = online.beta
    with pytest.raises(InputError, match="is not finite"):
        online.update(samples.q[0] * np.nan, samples.qd[0], samples.qdd[0], samples.tau[0])
    with pytest.raises(InputError, match="forgetting"):
        RecursiveInstruments(model, forgetting=0.0)


def test_its_covariance_is_the_batch_formula(case):
    samples, model = case
    Y, Omega, tau = in_blocks(samples, model)
    online = taken_in(samples, model)
    A = np.linalg.inv(Omega.T @ Y)
    residual = tau - Y @ online.beta
    variance = residual @ residual / (len(tau) - len(online.beta))
    assert_close(online.covariance, variance * A @ (Omega.T @ Omega) @ A.T, 1e-8)
    assert_close(online.estimate().deviations, np.sqrt(np.diag(online.covariance)), ORACLE)


def test_forgetting_widens_the_covariance(case):
    samples, model = case
    all_of_it, lately = (taken_in(samples, model, forgetting=one).covariance for one in (1.0, 0.98))
    assert (np.diag(lately) > np.diag(all_of_it)).mean() > 0.9


@pytest.mark.parametrize(("signal", "name"), list(enumerate(("q", "qd", "qdd", "tau"))))
def test_a_value_that_is_no_number_is_named_by_signal_and_joint(case, signal, name):
    samples, model = case
    rows = [array[0].copy() for array in (samples.q, samples.qd, samples.qdd, samples.tau)]
    rows[signal][1] = np.nan
    with pytest.raises(InputError, match=f"{SIGNALS[signal]} of joint {samples.joint_names[1]!r} is not finite"):
        RecursiveInstruments(model).update(*rows)
    assert SIGNALS[signal] == name
