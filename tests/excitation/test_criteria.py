"""Criteria: values by their textbook definitions, gradients by differences."""

from __future__ import annotations

import numpy as np
import pytest
from closeness import DERIVATIVE, ORACLE, assert_close

from mindyn.errors import MindynError
from mindyn.excitation.criteria import EXACT, Criterion

P = 9


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    return rng.normal(size=(40, P)) * 10 ** rng.uniform(-1, 1, P)


@pytest.fixture
def scales():
    return 10 ** np.random.default_rng(1).uniform(-1, 1, P)


def value(name, scales, S, power=EXACT):
    return Criterion(name, scales, power).value(S)


def test_condition_is_the_logarithm_of_the_scaled_stacks_condition_number(rows, scales):
    unit = rows / np.linalg.norm(rows, axis=0)
    assert_close(np.exp(value("condition", scales, rows.T @ rows)), np.linalg.cond(unit), ORACLE)


def test_d_is_minus_the_mean_logarithm_of_the_determinant(rows, scales):
    assert_close(value("D", scales, rows.T @ rows), -np.linalg.slogdet(rows.T @ rows)[1] / P, ORACLE)


def test_a_and_e_are_mean_and_largest_scaled_variance(rows, scales):
    covariance = np.linalg.inv(rows.T @ rows) / scales / scales[:, None]
    assert_close(np.exp(value("A", scales, rows.T @ rows)), np.trace(covariance) / P, ORACLE)
    assert_close(np.exp(value("E", scales, rows.T @ rows)), np.linalg.norm(covariance, 2), ORACLE)


@pytest.mark.parametrize("name", ["condition", "D"])
def test_condition_and_d_do_not_depend_on_units(rows, scales, name):
    S = rows.T @ rows
    assert_close(value(name, scales, S), value(name, np.ones(P), S), ORACLE)


@pytest.mark.parametrize("name", ["condition", "E"])
def test_norms_of_growing_power_approach_the_exact_value_from_above(rows, scales, name):
    S = rows.T @ rows
    found = [value(name, scales, S, power) for power in (2.0, 8.0, 32.0, 200.0)]
    exact = value(name, scales, S)
    assert (np.diff(found) < 0).all()
    assert found[-1] >= exact
    assert found[-1] - exact < np.log(P) / 200


@pytest.mark.parametrize("power", [2.0, 16.0, EXACT])
@pytest.mark.parametrize("name", ["condition", "D", "A", "E"])
def test_gradients_equal_differences(rows, scales, name, power):
    S, one = rows.T @ rows, Criterion(name, scales, power)
    gradient, found, h = one.with_gradient(S)[1], np.zeros((P, P)), 1e-5
    for i in range(P):
        for j in range(P):
            step = np.zeros((P, P))
            step[i, j] = step[j, i] = h * np.sqrt(S[i, i] * S[j, j])
            size = step[i, j] * (1 if i == j else 2)
            found[i, j] = (one.value(S + step) - one.value(S - step)) / (2 * size)
    d = np.sqrt(np.diag(S))
    assert_close(gradient * d * d[:, None], found * d * d[:, None], DERIVATIVE)


@pytest.mark.parametrize("name", ["condition", "D", "A", "E"])
def test_information_that_leaves_a_direction_open_is_infinitely_bad(rows, scales, name):
    rows[:, 1] = 2 * rows[:, 0]
    assert value(name, scales, rows.T @ rows) == np.inf


def test_an_unknown_criterion_is_refused_with_the_known_ones():
    with pytest.raises(MindynError, match="condition, D, A, E"):
        Criterion("G", np.ones(2))
