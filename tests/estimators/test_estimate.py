"""An estimate has a repr, survives its file, and raises errors for unsupported calls."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from closeness import SAME_ALGEBRA, assert_close
from equations import equations
from estimators.recovered import exact_samples, smooth_samples
from raising import raises
from robots import random_robot, with_random_drives

from mindyn.foundation.algebra.significance import relative_deviation
from mindyn.foundation.errors import Code, InputError
from mindyn.identification.estimators.estimate import load_estimate
from mindyn.identification.estimators.least_squares import LeastSquares
from mindyn.identification.estimators.recursive_least_squares import RecursiveLeastSquares
from mindyn.identification.identify import identify
from mindyn.logs.conditioning import AS_LOGGED
from mindyn.logs.log import log_from_arrays
from mindyn.parameters.structural import structural_base
from mindyn.regression.friction import Friction
from mindyn.regression.regressor import with_estimated_drives
from mindyn.regression.settings import EquationSettings
from mindyn.robots.parts import ExtraTorque


@pytest.fixture(scope="module")
def robot():
    return with_random_drives(random_robot(14, joints=3, tree=False), 14)


def test_a_saved_estimate_predicts_the_same(robot, tmp_path):
    samples = smooth_samples(robot)
    friction = Friction("tanh", 0.01, ("root",))
    rows = equations(robot, samples, friction=friction, equations_hz=20.0)
    estimate = LeastSquares(covariance="correlated").fit(rows)
    estimate.save(tmp_path / "estimate.json")
    again = load_estimate(tmp_path)  # the folder of a run
    assert again.names == estimate.names
    assert again.status == estimate.status
    assert again.settings == estimate.settings
    assert (again.predict(samples) == estimate.predict(samples)).all()
    assert (again.covariance == estimate.covariance).all()


def test_extra_torques_come_back_from_a_file(robot, tmp_path):
    sprung = replace(robot, extras=(ExtraTorque("spring", "joint2", "sin(3 * q)", 2.0),))
    LeastSquares().fit(equations(sprung, exact_samples(sprung))).save(tmp_path / "e.json")
    again = load_estimate(tmp_path / "e.json")
    assert again.value("spring") == pytest.approx(2.0, rel=1e-9)
    assert again.robot.extras == sprung.extras


def test_the_table_names_every_parameter_and_the_status_is_a_sentence(robot):
    estimate = LeastSquares().fit(equations(robot, exact_samples(robot, noise=0.1)))
    for name in estimate.names:
        assert name in estimate.table()
    assert estimate.status.endswith(".")
    assert np.diag(estimate.uncertainty.correlations) == pytest.approx(1.0)
    assert np.abs(estimate.uncertainty.correlations).max() <= 1 + 1e-12
    assert "%" in estimate.status


def test_no_deviation_is_known_relative_to_a_value_that_may_be_zero(robot):
    estimate = LeastSquares().fit(equations(robot, exact_samples(robot, noise=0.1)))
    beta = np.where(np.arange(len(estimate.beta)) == 0, 1e-16, estimate.beta)
    line = estimate.with_values(beta=beta).table().splitlines()[2]
    assert line.split()[0] == estimate.names[0]
    assert "%" not in line
    parts = relative_deviation([1.0, 1.0, 1e-16, 0.0, 5.0], [0.1, 0.6, 1e-3, 0.0, np.inf])
    assert parts[0] == pytest.approx(0.1)
    assert np.isnan(parts[1:]).all()


def test_what_the_data_cannot_tell_is_said_with_infinite_variance(robot):
    samples = exact_samples(robot)
    one_way = type(samples)(
        *(samples.joint_names, samples.q, np.abs(samples.qd) + 0.1, samples.qdd, samples.tau, 1000.0, samples.segments)
    )
    robot = with_estimated_drives(random_robot(14, joints=3, tree=False))
    estimate = LeastSquares().fit(equations(robot, one_way))
    assert {"fo1", "fc1"} <= set(estimate.values.unidentifiable)
    assert np.isinf(estimate.deviations[estimate.names.index("fc1")])
    assert "unidentifiable" in estimate.table()


def test_identify_recovers_an_exact_log(robot):
    s = smooth_samples(robot, 3000)
    log = log_from_arrays(robot.joint_names, np.arange(3000) / s.rate_hz, s.q, s.tau, s.qd, s.qdd)
    estimate = identify(robot, log, LeastSquares(), EquationSettings(AS_LOGGED))
    assert_close(estimate.beta, structural_base(robot, with_drives=True).values, 1e-7)
    assert_close(estimate.predict_log(log), s.tau, 1e-8)


class TestBadInput:
    def test_nan_in_an_online_sample_is_named(self, robot):
        online = RecursiveLeastSquares(robot)
        with raises(InputError, Code.NOT_FINITE, "joint2"):
            online.update(np.zeros(3), np.array([0.0, np.nan, 0.0]), np.zeros(3), np.zeros(3))

    def test_an_estimate_from_too_few_samples_is_rejected(self, robot):
        with raises(InputError, Code.TOO_LITTLE_DATA, "samples"):
            RecursiveLeastSquares(robot).estimate()

    def test_unknown_parameter_names_cannot_be_dropped(self, robot):
        with raises(InputError, Code.UNKNOWN_NAME, "Izz99"):
            LeastSquares(dropped=("Izz99",)).fit(equations(robot, exact_samples(robot)))

    def test_unknown_weights_are_rejected(self):
        with raises(InputError, Code.INVALID_VALUE, "weights"):
            LeastSquares(weights="best")

    def test_a_file_that_is_not_an_estimate_is_rejected(self, tmp_path):
        (tmp_path / "x.json").write_text("{}")
        with raises(InputError, Code.WRONG_FORMAT, str(tmp_path / "x.json")):
            load_estimate(tmp_path / "x.json")

    def test_no_log_is_rejected(self, robot):
        with raises(InputError, Code.MISSING_VALUE, "logs"):
            identify(robot, [])


def test_single_states_are_predicted_in_any_batch_shape(robot):
    samples = smooth_samples(robot)
    estimate = LeastSquares().fit(equations(robot, samples, friction=Friction("tanh", 0.05)))
    whole = estimate.predict(samples)
    assert_close(estimate.predict(samples.q, samples.qd, samples.qdd), whole, SAME_ALGEBRA)
    assert_close(estimate.predict(samples.q[7], samples.qd[7], samples.qdd[7]), whole[7], SAME_ALGEBRA)
    batch = [item[:12].reshape(3, 4, 3) for item in (samples.q, samples.qd, samples.qdd)]
    assert_close(estimate.predict(*batch), whole[:12].reshape(3, 4, 3), SAME_ALGEBRA)
    at_rest = estimate.predict(samples.q[:5], 0.0, np.zeros(3))
    assert_close(at_rest, estimate.predict(samples.q[:5], np.zeros((5, 3)), np.zeros((5, 3))), SAME_ALGEBRA)
    with raises(InputError, Code.MISSING_VALUE, "qd"):
        estimate.predict(samples.q)
    with raises(InputError, Code.WRONG_SHAPE, "q"):
        estimate.predict(np.zeros(4), np.zeros(4), np.zeros(4))
    remembers = LeastSquares().fit(equations(robot, samples, friction=Friction("stop", 0.05)))
    with raises(InputError, Code.UNSUPPORTED, "stop"):
        remembers.predict(samples.q, samples.qd, samples.qdd)
