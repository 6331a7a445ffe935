"""Noise of step tests, and the values that a sequence of tests determines, equal sums over their rows.

Private functions are tested directly: inputs at their limits are rare, or slow to reach, through public names.
"""

from __future__ import annotations

import numpy as np
from closeness import EXACT, ORACLE, assert_close
from raising import raises
from scipy.linalg import block_diag

from mindyn.applications.step_tests.step_by_step import _Sequence
from mindyn.applications.step_tests.whitened_rows import TestRows, noises_of
from mindyn.foundation.errors import Code, InputError


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
