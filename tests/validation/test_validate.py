"""The error equals its formula; folds never share rows; validations have sentences."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from estimators.recovered import smooth_samples
from raising import raises
from robots import random_robot, with_random_drives

from mindyn.applications.validation.validate import compare, validate
from mindyn.foundation.errors import Code, InputError
from mindyn.identification.estimators.least_squares import LeastSquares
from mindyn.identification.identify import identify
from mindyn.identification.prediction.prediction import pool_errors, predict_log
from mindyn.identification.prediction.prediction_errors import EDGE_S, MAX_EDGE_FRACTION, torque_error
from mindyn.logs.conditioning import AS_LOGGED
from mindyn.logs.log import log_from_arrays
from mindyn.regression.settings import EquationSettings


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


def test_errors_of_logs_are_pooled_also_if_a_joint_has_no_torque_or_no_error(robot):
    logs = [log_of(robot, seed, 0.1) for seed in (1, 2)]
    estimate = identify(robot, logs[0], LeastSquares(), EquationSettings(AS_LOGGED))
    predictions = [predict_log(estimate, log) for log in logs]
    for change in ("no torque", "no error"):
        for prediction in predictions:
            prediction.predicted[:, 1] = prediction.measured[:, 1] if change == "no error" else 0.0
        if change == "no torque":
            predictions = [replace(item, measured=item.measured * [1.0, 0.0, 1.0]) for item in predictions]
        measured, predicted = (
            np.concatenate([getattr(item, name)[item.scored] for item in predictions])
            for name in ("measured", "predicted")
        )
        expected = np.linalg.norm(measured - predicted) / np.linalg.norm(measured)
        assert pool_errors(predictions).total == pytest.approx(expected)


def test_rows_that_are_not_scored_are_counted(robot):
    log = log_of(robot, 1)
    estimate = identify(robot, log, LeastSquares(), EquationSettings(AS_LOGGED))
    edge = round(MAX_EDGE_FRACTION * 2000)
    assert edge < round(EDGE_S * 200)
    error = validate(estimate, [log, log]).error
    assert (error.rows, error.unscored) == (2 * (2000 - 2 * edge), 4 * edge)
    assert f"({4 * edge} at ends and gaps not scored)" in error.table()


def with_cutoff(estimate, cutoff_hz):
    conditioning = replace(estimate.settings.conditioning, motion_hz=cutoff_hz, velocity="differentiated")
    conditioning = replace(conditioning, acceleration="differentiated")
    return estimate.with_data(settings=replace(estimate.settings, conditioning=conditioning))


def test_every_model_is_scored_on_the_same_rows(robot):
    """The cut does not depend on the filter; with the ends, the error of an exact model stays small."""
    estimate = identify(robot, log_of(robot, 1), LeastSquares(), EquationSettings(AS_LOGGED))
    s = smooth_samples(robot, 6000, 5)
    log = log_from_arrays(robot.joint_names, np.arange(6000) / 200, s.q, s.tau)
    results = [validate(with_cutoff(estimate, cutoff_hz), log) for cutoff_hz in (None, 3.0, 20.0)]
    for result in results:
        assert result.predictions[0].scored.tolist() == list(range(200, 5800))  # 1 s of 30 s
        assert result.predictions[0].ends.tolist() == [*range(200), *range(5800, 6000)]
        assert result.total_with_ends < 0.03
        assert f"{100 * result.total_with_ends:.2f} %" in str(result)
        assert result.to_dict()["total_with_ends"] == result.total_with_ends
    left, power = results[1].predictions[0].residual, log.tau
    assert results[1].total_with_ends == pytest.approx(np.linalg.norm(left) / np.linalg.norm(power))
    given = validate(estimate, log_of(robot, 2), rows=[(100, 900)])
    assert given.total_with_ends is None
    assert "with the ends" not in str(given)


def test_nan_predictions_raise():
    tau = np.ones((5, 2))
    hat = tau.copy()
    hat[3, 1] = np.nan
    with raises(InputError, Code.NOT_FINITE, "b"):
        torque_error("ab", tau, hat)


def test_a_good_model_validates_well(robot):
    fit = identify(robot, log_of(robot, 1, 0.01), LeastSquares(), EquationSettings(AS_LOGGED))
    verdict = validate(fit, log_of(robot, 2, 0.01))
    assert verdict.error.rows == 2000 - 2 * 100
    assert verdict.error.total < 0.05
    assert all(name in sentence for name, sentence in zip(robot.joint_names, verdict.sentences, strict=True))
    assert "is predicted well" in verdict.sentences[0]
    assert "total" in compare({"one": fit, "two": fit}, log_of(robot, 2))


def test_a_wrong_model_is_reported(robot):
    fit = identify(robot, log_of(robot, 1, 0.01), LeastSquares(), EquationSettings(AS_LOGGED))
    other = log_of(robot, 3)
    wrong = log_from_arrays(robot.joint_names, other.time, other.q, -other.tau, other.qd, other.qdd)
    assert "is not predicted" in validate(fit, wrong).sentences[0]
