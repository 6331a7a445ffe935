"""Instruments: noise of torques, steps that matter, rows without a definite inertia matrix.

Private functions are tested directly: inputs at their limits are rare, or slow to reach, through public names.
"""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from closeness import ORACLE, SAME_ALGEBRA, assert_close
from raising import raises

from mindyn.foundation.errors import Code, InputError
from mindyn.identification.estimators.instrument_steps import _are_definite, model_acceleration
from mindyn.identification.estimators.instrumental_variables import _expected_columns, _require_definite, torque_noise
from mindyn.kernels.model import compile_model
from mindyn.logs.samples import Samples
from mindyn.regression.regressor import Regressor
from mindyn.robots.loading import load_robot
from mindyn.robots.parts import Drive


def test_noise_of_a_torque_is_the_median_of_its_bends():
    tau = np.cumsum(np.cumsum([0, 1, -1, 2, -3, 1, 1]))[:, None] * 1.0
    segments = np.array([0, 0, 0, 0, 1, 1, 1])
    blank = np.zeros((7, 1))
    samples = Samples(("a",), blank, blank, blank, tau, 1.0, segments)
    bends = [abs(tau[k + 2, 0] - 2 * tau[k + 1, 0] + tau[k, 0]) for k in (0, 1, 4)]
    assert_close(torque_noise(samples), [np.median(bends) / (0.6744897501960817 * np.sqrt(6))], SAME_ALGEBRA)
    alone = Samples(("a",), blank[:4], blank[:4], blank[:4], tau[:4], 1.0, np.array([0, 0, 1, 1]))
    assert torque_noise(alone).tolist() == [0.0]


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


@pytest.fixture(scope="module")
def regressor():
    robot = load_robot("planar2")
    return Regressor(replace(robot, drives=tuple(Drive(name) for name in robot.joint_names)))


def test_an_inertia_matrix_is_definite_whatever_its_units():
    M = np.array(
        [
            np.diag([1.0, 1e-9]),
            np.diag([1.0, -1.0]),
            [[1.0, 1.1], [1.1, 1.0]],
            np.diag([0.0, 1.0]),
            [[4.0, 1.0], [1.0, 1.0]],
        ]
    )
    assert _are_definite(M).tolist() == [True, False, False, False, True]


def test_expected_accelerations_are_those_of_forward_dynamics_up_to_the_largest_measured(regressor):
    arrays = np.random.default_rng(7).normal(size=(4, 50, 2))
    samples = Samples(regressor.joint_names, *arrays, 100.0, np.zeros(50, dtype=np.int64))
    samples = replace(samples, qdd=4 * samples.qdd, tau=100 * samples.tau)
    beta = np.zeros(regressor.count)
    beta[: regressor.base.count] = regressor.base.values
    result = model_acceleration(regressor, beta, samples)
    largest = np.abs(samples.qdd).max(axis=0)
    expected = compile_model(regressor.robot).forward_dynamics(samples.q, samples.qd, samples.tau)
    assert (np.abs(expected) > largest).any()
    assert (np.abs(expected) < largest).any()
    assert_close(result.qdd, np.clip(expected, -largest, largest), ORACLE)
    assert result.definite.all()
    negative = model_acceleration(regressor, -beta, samples)
    assert not negative.qdd.any()
    assert negative.indefinite_part == 1.0
