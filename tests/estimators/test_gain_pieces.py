"""Gains, sequences of tests and noise of steps piece by piece, on rows made here.

Private functions are tested directly: inputs at their limits are rare, or slow to reach, through public names.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from closeness import EXACT, ORACLE, SAME_ALGEBRA, assert_close
from raising import raises
from scipy.linalg import block_diag

from mindyn.errors import Code, InputError
from mindyn.estimators.instrumental_variables import (
    InstrumentStep,
    _expected_columns,
    _Products,
    _require_definite,
    torque_noise,
)
from mindyn.estimators.total_least_squares import MeasurementNoise
from mindyn.loads.from_runs import _fit_linear_gains, _refine_gains
from mindyn.logs.samples import Samples
from mindyn.regression.accumulators import triangle_of
from mindyn.step_tests.estimator import StepByStep, TestRows, _Sequence, _status, noises_of

ARM = SimpleNamespace(joint_names=("a", "b"), primary_names=("a", "b"))
GAINS = np.array([4.0, 0.5])


def factors(noise=0.0, load=1.0, rows=60):
    """[Y | known torque | signal] of two runs of two joints: the signal times the gain is Y x + known."""
    rng = np.random.default_rng(7)
    x = np.array([1.0, -2.0, 0.5])
    created, tables = [], []
    for size in (0.0, load):
        for joint in range(2):
            Y, known = rng.normal(size=(rows, 3)), size * rng.normal(size=rows)
            signal = (Y @ x + known) / GAINS[joint] + noise * rng.normal(size=rows) / GAINS[joint]
            tables.append((joint, np.column_stack([Y, known, signal])))
            created.append((joint, triangle_of(tables[-1][1])))
    return created, tables, x


def test_linear_equations_tell_gains_and_values():
    created, _, x = factors()
    result, h = _fit_linear_gains(ARM, created, 2)
    assert_close(result, x, ORACLE)
    assert_close(h, 1 / GAINS, ORACLE)
    with raises(InputError, Code.NOT_IDENTIFIABLE, "a, b"):
        _fit_linear_gains(ARM, factors(load=0.0)[0], 2)


def test_gains_minimise_what_is_left_of_the_signals():
    created, tables, x = factors(noise=0.2)
    start = _fit_linear_gains(ARM, created, 2)
    result = _refine_gains(ARM, created, *start, 120)
    assert result.joint_names == ("a", "b")

    def residuals(x, h):
        parts = [table[:, -1] - h[joint] * (table[:, :3] @ x + table[:, 3]) for joint, table in tables]
        return [np.concatenate([parts[0], parts[2]]), np.concatenate([parts[1], parts[3]])]

    h = 1 / result.values
    # At the minimum, with each joint weighed by its own mean square, no gain has a slope.
    best = np.linalg.lstsq(
        np.vstack([h[j] * t[:, :3] / np.std(residuals(x, h)[j]) for j, t in tables]),
        np.concatenate([(t[:, -1] - h[j] * t[:, 3]) / np.std(residuals(x, h)[j]) for j, t in tables]),
        rcond=None,
    )[0]
    weights = [1 / np.mean(residual**2) for residual in residuals(best, h)]
    for joint in range(2):
        torque = np.concatenate([t[:, :3] @ best + t[:, 3] for j, t in tables if j == joint])
        left = residuals(best, h)[joint]
        assert abs(left @ torque) < 0.02 * np.linalg.norm(left) * np.linalg.norm(torque)
    J = []
    for joint, table in tables:
        block = np.zeros((len(table), 5))
        block[:, :3], block[:, 3 + joint] = h[joint] * table[:, :3], table[:, :3] @ best + table[:, 3]
        J.append(np.sqrt(weights[joint]) * block)
    spread = np.sqrt(np.diag(np.linalg.inv(np.vstack(J).T @ np.vstack(J)))[3:]) * result.values**2
    assert_close(result.deviations, spread, 0.02)
    assert_close(result.values, GAINS, 0.2)


def test_gains_begin_above_zero_and_must_settle():
    created, _, x = factors(noise=0.05)
    turned = _refine_gains(ARM, created, x, np.array([0.25, -2.0]), 120)
    assert_close(turned.values, GAINS, 0.1)
    both = _refine_gains(ARM, created, x, np.array([-0.25, -2.0]), 120)
    assert_close(both.values, GAINS, 0.1)


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


def test_tests_one_after_the_other_tell_what_is_new_in_each():
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


def test_the_status_of_tests_counts_what_they_tell():
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


def test_a_step_of_instruments_matters_beside_deviations_or_the_largest_value():
    def step(change, deviation):
        change = np.array(change)
        return InstrumentStep(change, deviation**2 * np.eye(2), (), np.eye(2), np.ones(2))

    beta = np.array([100.0, 1.0])
    assert not step([0.0, 0.0099], 1.0).matters(beta)
    assert step([0.0, -0.0101], 1.0).matters(beta)
    assert not step([0.0, 0.9e-8], 0.0).matters(beta)
    assert step([0.0, 1.1e-8], 0.0).matters(beta)


def test_products_of_instruments_are_sums_over_rows():
    rng = np.random.default_rng(0)
    Omega, Y, e = rng.normal(size=(9, 2)), rng.normal(size=(9, 2)), rng.normal(size=9)
    products = _Products(np.array([0, 3]), np.zeros((5, 5)))
    products.add(Omega[:4], Y[:4], e[:4])
    products.add(Omega[4:], Y[4:], e[4:])
    assert products.rows == 9
    assert_close(products.omega_y, Omega.T @ Y, SAME_ALGEBRA)
    assert_close(products.omega_omega, Omega.T @ Omega, SAME_ALGEBRA)
    assert_close(products.omega_e, Omega.T @ e, SAME_ALGEBRA)
    step = np.array([0.3, -0.2])
    assert_close(products.variance(step), np.mean((e - Y @ step) ** 2), ORACLE)
    assert _Products(np.arange(2), np.zeros((5, 5))).variance(step) == 0.0


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


@pytest.mark.parametrize(
    ("given", "subject"),
    [
        ({"position": -1e-9, "torque": 1.0}, "position"),
        ({"torque": (1.0, 0.0)}, "torque"),
        ({"velocity": np.nan, "torque": 1.0}, "velocity"),
        ({}, "torque"),
    ],
)
def test_noise_is_a_number_and_the_torque_has_some(given, subject):
    with raises(InputError, Code.OUT_OF_RANGE, subject):
        MeasurementNoise(**given)
    assert MeasurementNoise(torque=1e-9).position == 0.0
