"""Recursive instrumental variables equal the batch formula and the thesis's recursion, however often they are read."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from closeness import ORACLE, assert_close
from equations import equations
from estimators.recovered import exact_samples
from raising import raises
from robots import random_robot, with_random_drives

from mindyn.foundation.errors import Code, InputError
from mindyn.identification import RecursiveInstruments
from mindyn.identification.estimators.least_squares import LeastSquares
from mindyn.identification.estimators.recursive_least_squares import SIGNALS, RecursiveLeastSquares


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


def matrices(samples, model, largest=np.inf):
    """Y, Omega (N n, p) and tau by the regressor and numpy: M qdd = tau - tau(q, qd, 0), clipped at `largest`."""
    regressor, n = model.regressor, samples.q.shape[1]

    def columns(qdd):
        return regressor.dense(regressor.parts(samples.q, samples.qd, np.ascontiguousarray(qdd)))

    rest = np.zeros_like(samples.q)
    coasting = columns(rest) @ model.beta
    M = np.stack([columns(rest + unit) @ model.beta - coasting for unit in np.eye(n)], axis=2)
    assert (np.linalg.eigvalsh((M + M.transpose(0, 2, 1)) / 2)[:, 0] > 0).all()
    expected = np.clip(np.linalg.solve(M, (samples.tau - coasting)[..., None])[..., 0], -largest, largest)
    roots = np.sqrt(model.data.joint_weights / model.data.joint_weights.max())[:, None]
    Y, Omega = ((columns(qdd) * roots).reshape(-1, regressor.count) for qdd in (samples.qdd, expected))
    return Y, Omega, (samples.tau * roots[:, 0]).ravel()


def taken_in(samples, model, **options):
    online = RecursiveInstruments(model, **options)
    for row in zip(samples.q, samples.qd, samples.qdd, samples.tau, strict=True):
        online.update(*row)
    return online


def test_it_ends_where_the_batch_does(case):
    samples, model = case
    Y, Omega, tau = matrices(samples, model)
    expected = np.linalg.solve(Omega.T @ Y, Omega.T @ tau)
    online = taken_in(samples, model)
    assert_close(online.beta, expected, ORACLE)
    assert_close(online.estimate().beta, expected, ORACLE)
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
        own, instrument = Y[k : k + n], Omega[k : k + n]
        P = P - P @ instrument.T @ np.linalg.solve(np.eye(n) + own @ P @ instrument.T, own @ P)
        p = p + P @ instrument.T @ (tau[k : k + n] - own @ p)
    assert_close(taken_in(samples, model).beta, p, ORACLE)


def test_forgetting_weighs_samples_by_age(case):
    samples, model = case
    Y, Omega, tau = matrices(samples, model)
    age = np.repeat(0.99 ** np.arange(len(samples) - 1, -1, -1.0), samples.q.shape[1])
    expected = np.linalg.solve(Omega.T * age @ Y, Omega.T * age @ tau)
    assert_close(taken_in(samples, model, forgetting=0.99).beta, expected, ORACLE)


def test_bad_samples_and_too_few_are_rejected(case):
    samples, model = case
    online = RecursiveInstruments(model)
    with raises(InputError, Code.TOO_LITTLE_DATA, "samples"):
        _ = online.beta
    with raises(InputError, Code.NOT_FINITE, "joint1"):
        online.update(samples.q[0] * np.nan, samples.qd[0], samples.qdd[0], samples.tau[0])
    with raises(InputError, Code.OUT_OF_RANGE, "forgetting"):
        RecursiveInstruments(model, forgetting=0.0)


def test_its_covariance_is_the_batch_formula(case):
    samples, model = case
    Y, Omega, tau = matrices(samples, model)
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
    with raises(InputError, Code.NOT_FINITE, "joint2"):
        RecursiveInstruments(model).update(*rows)
    assert SIGNALS[signal] == name


def result(online):
    estimate = online.estimate()
    return np.concatenate([online.beta, estimate.beta, estimate.covariance.ravel()])


@pytest.mark.parametrize("forgetting", [1.0, 0.995])
@pytest.mark.parametrize("kind", [RecursiveInstruments, RecursiveLeastSquares])
def test_reading_never_changes_the_result(case, kind, forgetting):
    """Any pattern of reading gives the same bits, now and later, as reading once."""
    samples, model = case
    source = model if kind is RecursiveInstruments else model.robot
    rows = list(zip(samples.q, samples.qd, samples.qdd, samples.tau, strict=True))
    rng = np.random.default_rng(4)
    online = [kind(source, forgetting=forgetting) for _ in range(4)]
    parts = [0.0, 0.02, 0.3, 1.0]
    for k, row in enumerate(rows):
        for one, part in zip(online, parts, strict=True):
            one.update(*row)
            if k > 40 and rng.random() < part:
                _ = one.beta if rng.random() < 0.5 else result(one)
        if k in (60, 127, 128, 200):
            assert len({result(one).tobytes() for one in online[1:]}) == 1
    assert len({result(one).tobytes() for one in online}) == 1


@pytest.mark.parametrize("seed", range(4))
def test_it_is_the_batch_formula_of_any_arm(seed):
    """Eq. 3.22 with the same instrument rows to 1e-9, with and without a bound."""
    robot = with_random_drives(random_robot(seed, joints=2 + seed % 3, tree=False, special=False), seed)
    samples = exact_samples(robot, count=257, seed=seed)
    qdd = samples.qdd + np.random.default_rng(seed).normal(scale=0.1 * samples.qdd.std(), size=samples.qdd.shape)
    samples = replace(samples, qdd=qdd)
    model = LeastSquares().fit(equations(robot, samples))
    for largest in (np.inf, np.abs(samples.qdd).max(axis=0) / 2):
        Y, Omega, tau = matrices(samples, model, largest)
        expected = np.linalg.solve(Omega.T @ Y, Omega.T @ tau)
        given = {} if largest is np.inf else {"largest_acceleration": largest}
        assert_close(taken_in(samples, model, **given).beta, expected, 1e-9)


def test_limits_of_the_robot_bound_the_instruments(case):
    samples, model = case
    limit = float(np.abs(samples.qdd).max() / 4)
    robot = model.robot
    bounded = [replace(joint, limits=replace(joint.limits, acceleration=limit)) for joint in robot.joints]
    limited = LeastSquares().fit(equations(replace(robot, joints=tuple(bounded)), samples))
    by_limits = taken_in(samples, limited).beta
    assert np.array_equal(by_limits, taken_in(samples, model, largest_acceleration=limit).beta)
    assert not np.allclose(by_limits, taken_in(samples, model).beta, rtol=1e-6)


@pytest.mark.parametrize("bound", [0.0, -1.0, np.nan, [1.0, 2.0], "fast"])
def test_bounds_that_are_not_positive_numbers_are_rejected(case, bound):
    with raises(InputError, Code.OUT_OF_RANGE, "largest_acceleration"):
        RecursiveInstruments(case[1], largest_acceleration=bound)


@pytest.mark.parametrize("kind", [RecursiveInstruments, RecursiveLeastSquares])
def test_samples_of_another_shape_are_rejected(case, kind):
    samples, model = case
    online = kind(model if kind is RecursiveInstruments else model.robot)
    good = samples.q[0]
    for bad in (0.5, good[:2], np.tile(good, 2), ["a", "b", "c"], None):
        with raises(InputError, Code.WRONG_SHAPE, "sample"):
            online.update(good, bad, good, good)
    assert online.count == 0


@pytest.mark.parametrize("seed", [3, 6, 9])
def test_a_tree_has_the_weighted_sum_and_not_the_sum_without_weights(seed):
    """Seed 9 has the base set (Izz1, Izz2R, mcx3, mcy3, Izz3), where a sum without joint weights differs by 8e-3."""
    robot = random_robot(seed, joints=3, tree=True, special=True)
    samples = exact_samples(robot, count=300, seed=seed)
    noise = np.random.default_rng(seed).normal(scale=0.1 * samples.qdd.std(), size=samples.qdd.shape)
    samples = replace(samples, qdd=samples.qdd + noise)
    model = LeastSquares().fit(equations(robot, samples))
    online = taken_in(samples, model)
    Y, Omega, tau = matrices(samples, model)
    assert_close(online.beta, np.linalg.solve(Omega.T @ Y, Omega.T @ tau), 1e-9)
    plain = model.with_data(joint_weights=np.ones(3))
    Y, Omega, tau = matrices(samples, plain)
    without = np.linalg.solve(Omega.T @ Y, Omega.T @ tau)
    assert_close(taken_in(samples, plain).beta, without, 1e-9)
    assert np.abs(online.beta - without).max() > 1e-4 * np.abs(without).max()
