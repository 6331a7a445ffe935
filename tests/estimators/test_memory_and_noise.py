"""Residuals with a memory, noise of torque and of readings, by processes and sums that are known.

Private functions are tested directly: inputs at their limits are rare, or slow to reach, through public names.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from closeness import SAME_ALGEBRA, assert_close
from raising import raises
from scipy.stats import t as student
from stand_in import stand_in

from mindyn.foundation.errors import Code, InputError
from mindyn.identification.estimators.coloured_noise import LONGEST_MEMORY, _fit_process
from mindyn.identification.estimators.essential import _effective_fractions
from mindyn.identification.estimators.estimate_records import JackknifeDeviation
from mindyn.identification.estimators.instrumental_variables import torque_noise
from mindyn.identification.estimators.least_squares import LeastSquares
from mindyn.identification.estimators.recursive_least_squares import RecursiveLeastSquares
from mindyn.logs.samples import Samples
from mindyn.robots.loading import load_robot


def correlations(a, count=LONGEST_MEMORY + 1):
    """Return x_k = a x_(k-1) + w_k, with w of unit variance."""
    return a ** np.arange(count) / (1 - a * a)


@pytest.mark.parametrize("a", [0.8, -0.5, 0.97])
def test_a_process_of_first_order_is_known_from_its_correlations(a):
    coefficients, variance = _fit_process(correlations(a), 1e5)
    assert_close(coefficients, [1.0, -a], 1e-6)
    assert_close(variance, 1.0, 1e-6)


def test_a_process_of_second_order_needs_two_coefficients():
    a1, a2 = 1.2, -0.5
    lags = np.zeros(LONGEST_MEMORY + 1)
    lags[0], lags[1] = 1.0, a1 / (1 - a2)
    for k in range(2, len(lags)):
        lags[k] = a1 * lags[k - 1] + a2 * lags[k - 2]
    coefficients, variance = _fit_process(lags, 1e5)
    assert_close(coefficients, [1.0, -a1, -a2], 1e-6)
    assert_close(variance, 1 - a1 * lags[1] - a2 * lags[2], 1e-6)


def test_noise_without_memory_has_no_coefficients():
    white = np.append(2.0, np.zeros(LONGEST_MEMORY))
    coefficients, variance = _fit_process(white, 1e4)
    assert coefficients.tolist() == [1.0]
    assert_close(variance, 2.0, 1e-6)
    few = np.append([1.0, 0.01], np.zeros(LONGEST_MEMORY - 1))
    assert len(_fit_process(few, 100.0)[0]) == 1  # not worth a coefficient with so few rows
    assert len(_fit_process(few, 1e6)[0]) > 1
    assert _fit_process(np.zeros(LONGEST_MEMORY + 1), 10.0)[1] == 0.0


def test_rows_that_follow_each_other_count_for_part():
    joints = [SimpleNamespace(correlation=item) for item in (0.0, 0.5, -0.9, None)]
    assert_close(_effective_fractions(stand_in(residuals=joints)), [1.0, 1 / 3, 1.0, 1.0], SAME_ALGEBRA)


def test_noise_of_torque_is_known_within_segments():
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(6000, 2)) * [0.3, 2.0]
    tau = noise + np.column_stack([np.linspace(0, 50, 6000), np.linspace(5, -5, 6000)])
    segments = np.repeat([0, 1, 2], 2000)
    tau[2000:4000] += 1e3
    zero = np.zeros_like(tau)
    result = torque_noise(Samples(("a", "b"), zero, zero, zero, tau, 100.0, segments))
    assert_close(result / [0.3, 2.0], [1.0, 1.0], 0.05)
    short = Samples(("a", "b"), zero[:4], zero[:4], zero[:4], tau[:4], 100.0, np.array([0, 0, 1, 1]))
    assert torque_noise(short).tolist() == [0.0, 0.0]
    three = Samples(("a", "b"), zero[:3], zero[:3], zero[:3], tau[:3], 100.0, np.array([0, 0, 0]))
    bend = np.abs(tau[0] - 2 * tau[1] + tau[2])
    assert_close(torque_noise(three), bend / (0.6744897501960817 * np.sqrt(6)), SAME_ALGEBRA)


def test_fits_that_look_at_rows_need_samples():
    assert LeastSquares().needs == "information"
    assert LeastSquares(robust=True).needs == LeastSquares(covariance="correlated").needs == "samples"
    with raises(InputError, Code.INVALID_VALUE, "weights"):
        LeastSquares(weights="equal")
    with raises(InputError, Code.UNKNOWN_NAME, "grey"):
        LeastSquares(covariance="grey")


def test_recursive_fits_remember_as_much_as_their_weights_add_up_to():
    robot = load_robot("planar2")
    rng = np.random.default_rng(0)
    for forgetting, remembered in ((1.0, 40), (0.9, round((1 - 0.9**40) / 0.1))):
        online = RecursiveLeastSquares(robot, forgetting=forgetting)
        rows = rng.normal(size=(40, 4, 2))
        for row in rows:
            online.update(*row)
        assert online.information.counts == (remembered, remembered)
        ages = np.sqrt(forgetting) ** np.arange(39, -1, -1)
        for joint, factor in enumerate(online.information.factors):
            tau = rows[:, 3, joint] * ages
            assert_close(factor[:, -1] @ factor[:, -1], tau @ tau, SAME_ALGEBRA)
    for forgetting in (0.0, -0.1, 1.1):
        with raises(InputError, Code.OUT_OF_RANGE, "forgetting"):
            RecursiveLeastSquares(robot, forgetting=forgetting)
    with raises(InputError, Code.NOT_FINITE, "joint2"):
        online.update([0, 0], [0, 0], [0, np.nan], [0, 0])


def test_a_recursive_fit_waits_for_more_samples_than_parameters():
    online = RecursiveLeastSquares(load_robot("planar2"))
    widest = max(len(columns) for columns in online.regressor.columns)
    rng = np.random.default_rng(0)
    for _ in range(widest):
        online.update(*rng.normal(size=(4, 2)))
    with raises(InputError, Code.TOO_LITTLE_DATA, "samples"):
        online.estimate()
    online.update(*rng.normal(size=(4, 2)))
    assert len(online.beta) == online.regressor.count


def test_quantiles_are_student_s_for_the_number_of_informative_blocks():
    spread = JackknifeDeviation(8, False, np.array([2.9, 3.0, 11.0]), np.ones(3))
    assert_close(spread.quantiles, [student.ppf(0.975, np.inf), student.ppf(0.975, 2), student.ppf(0.975, 10)], 1e-9)
    assert_close(spread.quantile, student.ppf(0.975, 7), 1e-9)
    assert_close(JackknifeDeviation(1, False, np.ones(1), np.ones(1)).quantile, student.ppf(0.975, 1), 1e-9)
