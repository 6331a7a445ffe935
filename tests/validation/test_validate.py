"""The error equals its formula; folds never share rows; validations have sentences."""

from __future__ import annotations

import numpy as np
import pytest
from estimators.recovered import smooth_samples
from raising import raises
from robots import random_robot, with_random_drives

from mindyn.errors import Code, InputError
from mindyn.estimators.least_squares import LeastSquares
from mindyn.identification.identify import identify
from mindyn.logs.conditioning import AS_LOGGED
from mindyn.logs.log import log_from_arrays
from mindyn.regression.settings import EquationSettings
from mindyn.validation.errors import EDGE_S, pool_errors, torque_error
from mindyn.validation.validate import compare, cross_validate, fold_numbers, validate


@pytest.fixture(scope="module")
def robot():
    return with_random_drives(random_robot(14, joints=3, tree=False), 14)


def log_of(robot, seed, noise=0.0):
    s = smooth_samples(robot, 2000, seed)
    tau = s.tau + noise * np.random.default_rng(seed).standard_normal(s.tau.shape)
    return log_from_arrays(robot.joint_names, np.arange(2000) / s.rate_hz, s.q, tau, s.qd, s.qdd)


def test_the_measure_is_its_formula():
    rng = np.random.default_rng(0)
    tau, hat = rng.normal(size=(2, 300, 3))
    result = torque_error("abc", tau, hat)
    for j in range(3):
        assert result.rmse[j] == pytest.approx(np.sqrt(np.mean((tau[:, j] - hat[:, j]) ** 2)))
        assert result.relative[j] == pytest.approx(np.linalg.norm(tau[:, j] - hat[:, j]) / np.linalg.norm(tau[:, j]))
    assert result.total == pytest.approx(np.linalg.norm(tau - hat) / np.linalg.norm(tau))
    parts = [torque_error("abc", tau[:120], hat[:120]), torque_error("abc", tau[120:], hat[120:])]
    assert pool_errors(parts).total == pytest.approx(result.total)
    assert pool_errors(parts).rmse == pytest.approx(result.rmse)


def test_rows_that_are_not_scored_are_counted(robot):
    log = log_of(robot, 1)
    estimate = identify(robot, log, LeastSquares(), EquationSettings(AS_LOGGED))
    edge = round(EDGE_S / (log.time[1] - log.time[0]))
    error = validate(estimate, [log, log]).error
    assert (error.rows, error.unscored) == (2 * (2000 - 2 * edge), 4 * edge)
    assert f"({4 * edge} at ends and gaps not scored)" in error.table()


def test_nan_predictions_raise():
    tau = np.ones((5, 2))
    hat = tau.copy()
    hat[3, 1] = np.nan
    with raises(InputError, Code.NOT_FINITE, "b"):
        torque_error("ab", tau, hat)


def test_a_good_model_validates_well(robot):
    fit = identify(robot, log_of(robot, 1, 0.01), LeastSquares(), EquationSettings(AS_LOGGED))
    verdict = validate(fit, log_of(robot, 2, 0.01))
    assert verdict.error.rows == 2000 - 2 * 20
    assert verdict.error.total < 0.05
    assert all(name in sentence for name, sentence in zip(robot.joint_names, verdict.sentences, strict=True))
    assert "is well explained" in verdict.sentences[0]
    assert "total" in compare({"one": fit, "two": fit}, log_of(robot, 2))


def test_a_wrong_model_is_reported(robot):
    fit = identify(robot, log_of(robot, 1, 0.01), LeastSquares(), EquationSettings(AS_LOGGED))
    other = log_of(robot, 3)
    wrong = log_from_arrays(robot.joint_names, other.time, other.q, -other.tau, other.qd, other.qdd)
    assert "is not explained" in validate(fit, wrong).sentences[0]


def test_folds_are_contiguous_and_cover_all_rows_once(robot):
    assert np.bincount(fold_numbers(np.zeros(100, dtype=np.int64), 4)).tolist() == [25] * 4
    assert np.bincount(fold_numbers(np.repeat(np.arange(6), 10), 3)).tolist() == [20] * 3
    with raises(InputError, Code.TOO_LITTLE_DATA, "folds"):
        fold_numbers(np.zeros(100, dtype=np.int64), 1)
    errors = cross_validate(LeastSquares(), robot, smooth_samples(robot, 2000), folds=4)
    assert sum(item.rows for item in errors) == 2000
    assert max(error.total for error in errors) < 1e-6
