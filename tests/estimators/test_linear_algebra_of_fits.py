"""Small pieces of fits by brute force: identifiable directions, elimination, inverses over them, noise of tests.

Private functions are tested directly: inputs at their limits are rare, or slow to reach, through public names.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from closeness import ORACLE, SAME_ALGEBRA, assert_close, assert_negligible
from raising import raises

from mindyn.applications.step_tests.whitened_rows import TestRows, noises_of
from mindyn.foundation.errors import Code, InputError
from mindyn.identification.estimators.essential import elimination
from mindyn.identification.estimators.estimate_records import Physical
from mindyn.identification.estimators.instrument_steps import _invert_identifiable
from mindyn.identification.estimators.instrumental_variables import _filter_columns
from mindyn.logs.filters import lowpass
from mindyn.regression.information import identifiable_directions, null_space


def tall(seed, rows=40, columns=5):
    return np.random.default_rng(seed).normal(size=(rows, columns))


@pytest.mark.parametrize("scales", [np.ones(5), np.array([1e-4, 1.0, 1e3, 1.0, 7.0])])
def test_what_no_row_sees_and_what_data_tell_fill_the_space(scales):
    A = tall(0)
    A[:, 3] = A[:, 0] - 2 * A[:, 1]
    A = A * scales
    hidden, known = null_space(A), identifiable_directions(A)
    lengths = np.linalg.norm(A, axis=0)
    assert (hidden.shape, known.shape) == ((5, 1), (5, 4))
    assert_negligible(A / lengths @ hidden, 1.0, ORACLE)
    assert np.linalg.matrix_rank(A @ known) == 4
    scaled = known * lengths[:, None]
    assert_close(scaled.T @ scaled, np.eye(4), ORACLE)
    assert_negligible(scaled.T @ hidden, 1.0, ORACLE)
    assert null_space(tall(1)).shape == (5, 0)
    assert_close(identifiable_directions(tall(1)) * np.linalg.norm(tall(1), axis=0)[:, None], np.eye(5), SAME_ALGEBRA)
    assert null_space(np.zeros((3, 4))).shape == (4, 4)
    two = np.diag([1.0, 1e-3, 1e-17])  # columns of any length are identifiable unless they are zero
    assert null_space(two).shape == (3, 0)


def test_elimination_drops_the_least_costly_parameter_each_time():
    A, scales = tall(2), np.array([1.0, 100.0, 1e-2, 3.0, 1.0])
    A = A * scales
    z = A @ (np.array([1.0, -2.0, 0.1, 0.01, 0.5]) / scales) + 0.1 * np.random.default_rng(3).normal(size=len(A))
    path = elimination(A.T @ A, A.T @ z)
    left = list(range(5))
    for step in range(4):
        beta = np.zeros(5)
        beta[left] = np.linalg.lstsq(A[:, left], z, rcond=None)[0]
        assert_close(path.betas[step], beta, 1e-6)
        squares = {}
        for k in left:
            others = [j for j in left if j != k]
            squares[k] = np.sum((z - A[:, others] @ np.linalg.lstsq(A[:, others], z, rcond=None)[0]) ** 2)
        gone = min(squares, key=squares.get)
        assert path.order[step] == gone
        assert_close(path.increases[step], squares[gone] - np.sum((z - A @ beta) ** 2), 1e-6)
        left.remove(gone)
    assert sorted([*path.order, *left]) == [0, 1, 2, 3, 4]  # one stays, and its fit alone comes last
    assert (path.order.shape, path.increases.shape, path.betas.shape) == ((4,), (4,), (5, 5))
    alone = np.zeros(5)
    alone[left] = A[:, left[0]] @ z / (A[:, left[0]] @ A[:, left[0]])
    assert_close(path.betas[4], alone, 1e-6)


def test_products_are_inverted_within_a_basis():
    Omega, Y = tall(4, 30, 3), tall(5, 30, 3)
    basis = np.linalg.qr(tall(7, 3, 2))[0]
    result, A = _invert_identifiable(Omega.T @ Y, basis), Omega.T @ Y
    assert_close(basis.T @ A @ result @ A @ basis, basis.T @ A @ basis, ORACLE)
    with raises(InputError, Code.NOT_IDENTIFIABLE, "instrument_model"):
        _invert_identifiable(np.diag([1.0, 1e-12, 1.0]), np.eye(3))


def rows_of_test(rng, reading, momentum, *, moving, count=4000):
    """Whitened rows of two parameters with noise of known deviations."""
    A = rng.normal(size=(count, 2))
    D = np.zeros((count, 0))
    noise = reading * rng.normal(size=count)
    if moving:
        D = np.eye(count)[:, ::2] * 3.0
        noise = noise + momentum * (D @ rng.normal(size=D.shape[1]))
    z = A @ [2.0, -1.0] + noise
    return TestRows("elbow", A, z, A, z, D, ())


def test_noise_of_readings_and_of_momenta_are_estimated_separately():
    rng = np.random.default_rng(8)
    quiet, moving = rows_of_test(rng, 0.1, 0.0, moving=False), rows_of_test(rng, 0.1, 0.5, moving=True, count=800)
    noises = noises_of([quiet, moving])
    for item in noises:
        assert_close([item.reading, item.momentum], [0.1, 0.5], 0.1)
    gram = moving.white_D @ moving.white_D.T
    expected = noises[1].reading ** 2 * np.eye(800) + noises[1].momentum ** 2 * gram
    assert_close(noises[1].covariance, expected, SAME_ALGEBRA)
    alone = noises_of([moving])[0]  # nothing at rest: all noise counts as that of readings
    assert alone.momentum == 0
    assert_close(alone.reading**2, 0.1**2 + 0.5**2 * 9 / 2, 0.1)
    still = noises_of([quiet])[0]
    assert_close(still.reading, 0.1, 0.05)
    few = rows_of_test(rng, 5.0, 0.0, moving=False, count=7)  # too few rows at rest to speak for the readings
    assert noises_of([few, moving])[1].momentum == 0


def test_columns_that_a_test_does_not_excite_use_no_degree_of_freedom():
    rng = np.random.default_rng(9)
    rows = rows_of_test(rng, 0.1, 0.0, moving=False, count=40)
    wide = np.column_stack([rows.white_A, np.zeros(40), rows.white_A[:, 0]])
    same = TestRows("elbow", wide, rows.z, wide, rows.white_z, rows.white_D, ())
    assert_close(noises_of([same])[0].reading, noises_of([rows])[0].reading, ORACLE)
    full = TestRows("elbow", np.eye(2), np.ones(2), np.eye(2), np.ones(2), np.zeros((2, 0)), ())
    with raises(InputError, Code.TOO_LITTLE_DATA, "elbow"):
        noises_of([full])


def test_a_low_pass_leaves_its_part_of_white_noise():
    noise = np.random.default_rng(10).normal(size=200_000)
    assert_close(_filter_columns(20.0, 500.0), np.var(lowpass(noise, 20.0, 500.0)), 0.03)
    assert _filter_columns(None, 500.0) == 1.0


def test_ends_that_the_prior_decides_come_back_from_a_file():
    ends = np.array([[1.0, np.nan], [2.0, np.nan]])
    held = Physical(("a", "b"), np.ones(2), np.zeros(2), ("link1",), np.array([0.1, 0.9]), ends)
    saved = held.to_dict()
    assert saved["ends"] == [[1.0, None], [2.0, None]]
    again = Physical.from_dict(saved)
    assert np.array_equal(again.ends, ends, equal_nan=True)
    assert again.to_dict() == saved
    assert Physical.from_dict(Physical(("a",), np.ones(1), np.zeros(1)).to_dict()).ends is None
    assert SimpleNamespace(**saved).prior_links == ["link1"]
