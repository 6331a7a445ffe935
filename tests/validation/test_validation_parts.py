"""Friction curves, spectra and prior models, compared with the model, sums of squares and each other."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from closeness import SAME_ALGEBRA, assert_close
from estimators.recovered import smooth_samples
from raising import raises
from robots import random_robot, with_random_drives

import mindyn
from mindyn.applications.validation.validate import fit_error, prior_estimate
from mindyn.foundation.errors import Code, InputError
from mindyn.identification.prediction.friction_curves import friction_curve
from mindyn.identification.prediction.noise_floor_error import spectrum
from mindyn.identification.prediction.prediction import predict_log
from mindyn.logs.conditioning import AS_LOGGED
from mindyn.logs.log import log_from_arrays
from mindyn.regression.settings import EquationSettings


def log_of(robot, seed, noise):
    s = smooth_samples(robot, 2000, seed)
    tau = s.tau + noise * np.random.default_rng(seed).standard_normal(s.tau.shape)
    return log_from_arrays(robot.joint_names, np.arange(2000) / s.rate_hz, s.q, tau, s.qd, s.qdd)


@pytest.fixture(scope="module")
def robot():
    return with_random_drives(random_robot(14, joints=3, tree=False), 14)


@pytest.fixture(scope="module")
def estimate(robot):
    return mindyn.identify(robot, log_of(robot, 1, 0.01), mindyn.LeastSquares(), EquationSettings(AS_LOGGED))


def test_the_prior_predicts_with_the_parameters_of_the_robot(robot, estimate):
    prior = prior_estimate(estimate)
    samples = smooth_samples(robot, 300, 5)
    assert_close(prior.predict(samples), samples.tau, 100 * SAME_ALGEBRA)
    heavier = replace(robot, links=tuple(replace(link, phi=2 * link.phi) for link in robot.links))
    torque = mindyn.compile_model(heavier, with_drives=True).inverse_dynamics(samples.q, samples.qd, samples.qdd)
    assert_close(prior_estimate(estimate, heavier).predict(samples), torque, 100 * SAME_ALGEBRA)


def test_a_prior_without_drives_has_no_friction_and_another_mechanism_raises(robot, estimate):
    bare = prior_estimate(estimate, replace(robot, drives=()))
    samples = smooth_samples(robot, 300, 5)
    torque = mindyn.compile_model(robot).inverse_dynamics(samples.q, samples.qd, samples.qdd)
    assert_close(bare.predict(samples), torque, 100 * SAME_ALGEBRA)
    with raises(InputError, Code.DISAGREEMENT, "random14"):
        prior_estimate(estimate, replace(robot, gravity=np.array([0.0, 0.0, -1.0])))


def test_friction_curves_are_the_torque_of_motion_less_that_of_rest(robot, estimate):
    prior, model = prior_estimate(estimate), mindyn.compile_model(robot, with_drives=True)
    speeds = np.array([-1.3, -0.2, 0.4, 2.0])
    still = np.zeros((len(speeds), 3))
    for joint in range(3):
        qd = still.copy()
        qd[:, joint] = speeds
        torque = model.inverse_dynamics(still, qd, still) - model.inverse_dynamics(still, still, still)
        assert_close(friction_curve(prior, joint, speeds).torque, torque[:, joint], 100 * SAME_ALGEBRA)


def test_friction_curves_have_intervals(estimate):
    curve = friction_curve(estimate, 0, [0.5, 1.0])
    truth = friction_curve(prior_estimate(estimate), 0, [0.5, 1.0])
    assert (np.abs(curve.torque - truth.torque) < 2.5 * curve.half_width).all()
    name = next(name for name in estimate.names if name.startswith("fc1"))
    covariance = estimate.covariance.copy()
    covariance[estimate.names.index(name), estimate.names.index(name)] = np.inf
    assert np.isinf(friction_curve(estimate.with_uncertainty(covariance=covariance), 0, [0.5]).half_width).all()


def test_the_stop_operator_ends_as_a_sign(robot):
    stop = EquationSettings(AS_LOGGED, friction=mindyn.Friction("stop", 0.01))
    result = mindyn.identify(robot, log_of(robot, 1, 0.01), mindyn.LeastSquares(), stop)
    signed = replace(result, regressor=result.regressor.with_friction(mindyn.Friction()))
    speeds = [-0.5, -1e-6, 1e-6, 0.5]
    assert_close(friction_curve(result, 1, speeds).torque, friction_curve(signed, 1, speeds).torque, SAME_ALGEBRA)


def test_a_spectrum_holds_the_variance_and_finds_a_sine():
    rate, count = 500.0, 40_000
    t = np.arange(count) / rate
    rng = np.random.default_rng(2)
    values = np.stack([rng.standard_normal(count), np.sqrt(2) * np.sin(2 * np.pi * 31.25 * t)], axis=1)
    frequency, power = spectrum(values, np.zeros(count, dtype=np.int64), rate)
    step = frequency[1] - frequency[0]
    assert power.sum(axis=0) * step == pytest.approx([1.0, 1.0], rel=0.05)
    assert frequency[power[:, 1].argmax()] == pytest.approx(31.25, abs=step)


def test_short_segments_have_no_spectrum():
    frequency, power = spectrum(np.ones((30, 2)), np.arange(30) // 10, 100.0)
    assert frequency.shape == (0,)
    assert power.shape == (0, 2)


def test_the_error_of_the_fit_is_that_of_its_residuals(robot, estimate):
    error = fit_error(estimate)
    log = log_of(robot, 1, 0.01)
    left = log.tau - estimate.predict(estimate.samples_of(log))
    assert error.rmse == pytest.approx(np.sqrt((left**2).mean(axis=0)), rel=1e-6)
    assert error.total == pytest.approx(np.linalg.norm(left) / np.linalg.norm(log.tau), rel=1e-6)


def test_a_prediction_holds_the_log_and_scores_as_validate_does(robot, estimate):
    log = log_of(robot, 2, 0.01)
    result = predict_log(estimate, log)
    assert (result.measured == log.tau).all()
    assert result.error.total == mindyn.validate(estimate, log).error.total
    assert (result.residual == log.tau - result.predicted).all()


def test_a_filtered_fit_is_not_compared_with_unfiltered_rows(robot):
    training, other = log_of(robot, 1, 0.5), log_of(robot, 2, 0.5)
    filtered = mindyn.identify(robot, training, mindyn.LeastSquares(), EquationSettings(AS_LOGGED, equations_hz=2.0))
    assert not any("error of the fit" in item for item in mindyn.validate(filtered, other).sentences)
    plain = mindyn.identify(robot, training, mindyn.LeastSquares(), EquationSettings(AS_LOGGED))
    flattered = plain.with_data(
        residuals=tuple(replace(residual, rms=residual.rms / 5) for residual in plain.data.residuals)
    )
    assert all("times the error of the fit" in sentence for sentence in mindyn.validate(flattered, other).sentences)


def test_a_fit_to_means_over_intervals_is_not_compared_with_torques(robot):
    training, other = log_of(robot, 1, 0.5), log_of(robot, 2, 0.5)
    result = mindyn.identify(
        robot, training, mindyn.EnergyDifference("momentum", reversals="within"), EquationSettings(AS_LOGGED)
    )
    flattered = result.with_data(
        residuals=tuple(replace(residual, rms=residual.rms / 50) for residual in result.data.residuals)
    )
    assert not any("error of the fit" in sentence for sentence in mindyn.validate(flattered, other).sentences)


def uneven_log(robot, noise, *, rate=200.0, jitter=0.4, count=4000):
    """A log with stamps that jitter by a fraction of their step, its motion exact at every stamp."""
    rng, fine = np.random.default_rng(6), 20
    s = smooth_samples(robot, (count + 2) * fine, 2, rate * fine)
    rows = np.arange(1, count + 1) * fine + np.rint(jitter * fine * rng.uniform(-1, 1, count)).astype(int)
    tau = s.tau[rows] + noise * rng.standard_normal((count, s.tau.shape[1]))
    return log_from_arrays(robot.joint_names, rows / (rate * fine), s.q[rows], tau, s.qd[rows], s.qdd[rows])


def measured_stamps(estimate, **changes):
    conditioning = replace(estimate.settings.conditioning, stamps="measured", **changes)
    return estimate.with_data(settings=replace(estimate.settings, conditioning=conditioning))


@pytest.mark.parametrize("rate_hz", [200.0, 150.0])
def test_uneven_stamps_are_scored_as_logged(robot, estimate, rate_hz):
    """White noise of the sensor appears in full; interpolating the torque to even times would average it."""
    log, exact = uneven_log(robot, 0.5), uneven_log(robot, 0.0)
    uneven = measured_stamps(estimate, rate_hz=rate_hz)
    result = predict_log(uneven, log)
    assert (result.measured == log.tau).all()
    assert (result.time == log.time).all()
    without_noise = predict_log(uneven, exact).error.rmse
    assert result.error.rmse == pytest.approx(np.hypot(0.5, without_noise), rel=0.03)
    assert np.median(np.abs(predict_log(uneven, exact).residual)) < 1e-3
    assert_close(result.samples.q, log.q, 1e-4)


def test_rows_of_uneven_logs_can_be_selected(robot, estimate):
    log = uneven_log(robot, 0.5)
    cut = replace(log, time=log.time + 3.0 * (np.arange(len(log)) >= 1000))
    parts = [mindyn.validate(measured_stamps(estimate), cut, rows=[rows]).error for rows in ((100, 300), (1100, 2000))]
    assert [part.rows for part in parts] == [200, 900]
    assert [part.rmse for part in parts] == [pytest.approx([0.5] * 3, rel=0.15), pytest.approx([0.5] * 3, rel=0.15)]
    with raises(InputError, Code.OUT_OF_RANGE, "rows"):
        mindyn.validate(measured_stamps(estimate), cut, rows=[(4000, 5000)])


def test_durations_are_sums_of_segments(robot):
    log = log_of(robot, 2, 0.01)
    assert log.duration_s == pytest.approx(9.995)
    cut = replace(log, time=5.0 + log.time + 7.0 * (np.arange(2000) >= 700)).take(slice(100, None))
    assert cut.duration_s == pytest.approx(1899 / 200 - 1 / 200)
    assert repr(cut) == "Log(1900 rows of 3 joints over 9.49 s)"
    assert uneven_log(robot, 0.0).duration_s == pytest.approx(20.0, rel=0.01)
    assert log.take(slice(0, 1)).duration_s == 0.0


@pytest.mark.parametrize("gaps", [(), (700,), (700, 712)])
def test_rows_next_to_a_gap_are_not_scored(robot, estimate, gaps):
    log = log_of(robot, 2, 0.01)
    cut = replace(log, time=log.time + 2.0 * sum(np.arange(2000) >= row for row in gaps))
    ends = [0, *gaps, 2000]
    edges = [(a, b, (b - a) // 20) for a, b in pairwise(ends) if b - a > 40]  # 5 % of a segment longer than 0.2 s
    inner = [np.arange(a + edge, b - edge) for a, b, edge in edges]
    filtered = estimate.with_data(
        settings=replace(estimate.settings, conditioning=replace(estimate.settings.conditioning, motion_hz=20.0))
    )
    assert predict_log(filtered, cut).scored.tolist() == np.concatenate(inner).tolist()
