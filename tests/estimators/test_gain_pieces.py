"""Gains, sequences of tests and noise of steps piece by piece, on rows made here.

Private functions are tested directly: inputs at their limits are rare, or slow to reach, through public names.
"""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
from closeness import EXACT, ORACLE, SAME_ALGEBRA, assert_close
from raising import raises
from scipy.linalg import block_diag

from mindyn.applications.step_tests.step_by_step import StepByStep, _Sequence, _status
from mindyn.applications.step_tests.whitened_rows import TestRows, noises_of
from mindyn.foundation.errors import Code, InputError
from mindyn.identification.estimators.instrument_steps import InstrumentStep
from mindyn.identification.estimators.instrumental_variables import _expected_columns, _require_definite, torque_noise
from mindyn.identification.unknown_gains import GainProducts, fit_gains
from mindyn.logs.samples import Samples
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


def test_noise_of_quiet_tests_is_their_mean_square_over_freedom():
    quiet, other = rows(seed=1), rows("b", seed=2)
    noises = noises_of([quiet, other])
    for test, noise in zip((quiet, other), noises, strict=True):
        left = test.z - test.A @ np.linalg.lstsq(test.A, test.z, rcond=None)[0]
        assert_close(noise.reading, np.sqrt(left @ left / 9), ORACLE)
        assert noise.momentum == 0.0
        assert_close(noise.covariance, noise.reading**2 * np.eye(12), ORACLE)
    with raises(InputError, Code.TOO_LITTLE_DATA, "a"):
        noises_of([rows(m=3)])


def test_noise_of_moving_tests_has_two_parts_where_quiet_ones_suffice():
    quiet, moving = rows(m=12, seed=1, noise=0.1), rows(m=20, seed=3, moving=True, noise=1.0)
    first, second = noises_of([quiet, moving])
    reading = first.reading**2
    U = np.linalg.qr(moving.A)[0]
    left = moving.z - U @ (U.T @ moving.z)
    ends = moving.white_D - U @ (U.T @ moving.white_D)
    momentum = (left @ left - reading * 17) / (ends**2).sum()
    assert_close(second.momentum**2, momentum, ORACLE)
    assert_close(second.covariance, reading * np.eye(20) + momentum * moving.white_D @ moving.white_D.T, ORACLE)
    few = rows(m=10, seed=1, noise=0.1)  # seven degrees of freedom say too little
    pooled = noises_of([few, moving])
    assert pooled[0].momentum == 0.0
    assert_close(pooled[0].reading, pooled[1].reading, EXACT)


def test_each_step_test_determines_new_parameters():
    beta = np.array([1.0, -2.0, 0.5])
    rng = np.random.default_rng(4)
    item, two = rng.normal(size=(6, 3)), rng.normal(size=(8, 3))
    item[:, 1:] = 0.0
    groups = [TestRows("a", A, A @ beta, A, A @ beta, np.zeros((len(A), 0)), ()) for A in (item, two)]
    result = _Sequence.of(groups, np.zeros(3, dtype=bool))
    assert result.yields == (1, 2)
    assert_close(result.beta, beta, ORACLE)
    noises = noises_of([rows(m=6, seed=8, p=3), rows(m=8, seed=9, p=3)])
    assert_close(result.covariance(noises), result.T @ block_diag(*(n.covariance for n in noises)) @ result.T.T, ORACLE)
    together = result.together(noises)
    W = np.linalg.inv(block_diag(*(n.covariance for n in noises)))
    A = np.vstack([item, two])
    assert_close(together.T, np.linalg.inv(A.T @ W @ A) @ A.T @ W, 1e-8)
    fixed = _Sequence.of(groups, np.array([True, False, False]))
    assert fixed.yields == (0, 2)
    assert abs(fixed.beta[0]) < 1e-12


def test_the_status_of_tests_counts_determined_parameters():
    group = TestRows("a", np.eye(2), np.array([3.0, 4.0]), np.eye(2), np.zeros(2), np.zeros((2, 0)), ())
    sequence = SimpleNamespace(beta=np.array([3.0, 3.0]), yields=(1,))
    push = SimpleNamespace(name="push", yields=2)
    plan = SimpleNamespace(names=("x", "y", "z"), dropped=("z",), tests=(push,), motions=(1, 2))
    message = _status(plan, [group], sequence, ("y",))
    assert message == (
        "1 tests in 2 motions determine 1 parameters and leave 20 % of the mean torques unexplained; "
        "fewer combinations than planned came from push (1 of 2); unidentifiable: y."
    )
    whole = SimpleNamespace(**{**vars(plan), "tests": (SimpleNamespace(name="push", yields=1),)})
    assert _status(whole, [group], sequence, ()).endswith("of the mean torques unexplained.")
    for given in ({"rule": "simpson"}, {"solution": "once"}):
        with raises(InputError, Code.UNKNOWN_NAME, next(iter(given.values()))):
            StepByStep(**given)


def test_noise_of_a_torque_is_the_median_of_its_bends():
    tau = np.cumsum(np.cumsum([0, 1, -1, 2, -3, 1, 1]))[:, None] * 1.0
    segments = np.array([0, 0, 0, 0, 1, 1, 1])
    blank = np.zeros((7, 1))
    samples = Samples(("a",), blank, blank, blank, tau, 1.0, segments)
    bends = [abs(tau[k + 2, 0] - 2 * tau[k + 1, 0] + tau[k, 0]) for k in (0, 1, 4)]
    assert_close(torque_noise(samples), [np.median(bends) / (0.6744897501960817 * np.sqrt(6))], SAME_ALGEBRA)
    alone = Samples(("a",), blank[:4], blank[:4], blank[:4], tau[:4], 1.0, np.array([0, 0, 1, 1]))
    assert torque_noise(alone).tolist() == [0.0]


def test_a_step_of_instruments_is_compared_with_deviations_and_the_largest_value():
    def step(change, deviation):
        change = np.array(change)
        return InstrumentStep(change, deviation**2 * np.eye(2), (), np.eye(2), np.ones(2))

    beta = np.array([100.0, 1.0])
    assert not step([0.0, 0.0099], 1.0).matters(beta)
    assert step([0.0, -0.0101], 1.0).matters(beta)
    assert not step([0.0, 0.00198], 0.2).matters(beta)
    assert not step([0.0, 0.9e-8], 0.0).matters(beta)
    assert step([0.0, 1.1e-8], 0.0).matters(beta)


def test_rows_without_a_usable_inertia_matrix_are_not_expected():
    blank = np.zeros((4, 2))
    usable = np.array([[True, True], [True, False], [True, True], [False, True]])
    samples = Samples(("a", "b"), blank, blank, blank, blank, 1.0, np.zeros(4, dtype=int), usable=usable)
    instrument = SimpleNamespace(definite=np.array([True, True, False, True]), qdd=blank + 7, indefinite_part=0.25)
    result = _expected_columns(samples, instrument)
    assert result.usable.tolist() == [[True, True], [True, False], [False, False], [False, True]]
    assert (result.qdd == 7).all()
    _require_definite(SimpleNamespace(indefinite_part=0.5), 1)
    with raises(InputError, Code.NOT_FEASIBLE, "instrument_model"):
        _require_definite(SimpleNamespace(indefinite_part=0.51), 3)
