"""Criteria: values by their textbook definitions, gradients by differences."""

from __future__ import annotations

import numpy as np
import pytest
from closeness import DERIVATIVE, ORACLE, SAME_ALGEBRA, assert_close
from excitation.full_speed import design_motion
from raising import raises

import mindyn
from mindyn.errors import Code, InputError, MindynError
from mindyn.excitation import criteria
from mindyn.excitation.criteria import EXTREME, Criterion

P = 9


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    return rng.normal(size=(40, P)) * 10 ** rng.uniform(-1, 1, P)


@pytest.fixture
def scales():
    return 10 ** np.random.default_rng(1).uniform(-1, 1, P)


def value(name, scales, S, power=EXTREME):
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
    result = [value(name, scales, S, power) for power in (2.0, 8.0, 32.0, 200.0)]
    exact = value(name, scales, S)
    assert (np.diff(result) < 0).all()
    assert result[-1] >= exact
    assert result[-1] - exact < np.log(P) / 200


@pytest.mark.parametrize("power", [2.0, 16.0, EXTREME])
@pytest.mark.parametrize("name", ["condition", "D", "A", "E"])
def test_gradients_equal_differences(rows, scales, name, power):
    S, item = rows.T @ rows, Criterion(name, scales, power)
    gradient, result, h = item.with_gradient(S)[1], np.zeros((P, P)), 1e-5
    for i in range(P):
        for j in range(P):
            step = np.zeros((P, P))
            step[i, j] = step[j, i] = h * np.sqrt(S[i, i] * S[j, j])
            size = step[i, j] * (1 if i == j else 2)
            result[i, j] = (item.value(S + step) - item.value(S - step)) / (2 * size)
    d = np.sqrt(np.diag(S))
    assert_close(gradient * d * d[:, None], result * d * d[:, None], DERIVATIVE)


@pytest.mark.parametrize("name", ["condition", "D", "A", "E"])
def test_information_that_leaves_a_direction_open_is_infinitely_bad(rows, scales, name):
    rows[:, 1] = 2 * rows[:, 0]
    assert value(name, scales, rows.T @ rows) == np.inf


def test_d_by_cholesky_is_d_by_eigenvalues(rows, scales, monkeypatch):
    """Near-singular information goes by eigenvalues; what does not must agree with it."""
    S, item = rows.T @ rows, Criterion("D", scales)
    value, gradient = item.with_gradient(S)
    monkeypatch.setattr(criteria, "CLEARLY_REGULAR", np.inf)
    by_eigenvalues = item.with_gradient(S)
    assert_close(value, by_eigenvalues[0], SAME_ALGEBRA)
    d = np.sqrt(np.diag(S))
    assert_close(gradient * d * d[:, None], by_eigenvalues[1] * d * d[:, None], SAME_ALGEBRA)


def test_an_unknown_criterion_is_rejected_with_the_known_ones():
    with raises(MindynError, Code.UNKNOWN_NAME, "G"):
        Criterion("G", np.ones(2))


def test_joints_are_made_well_conditioned_one_by_one():
    """cond(A_i) as `LastLinkFirst` finds it, its gradient, and a design that makes the largest smaller than D does."""
    robot = mindyn.load_robot("planar2")
    limits = mindyn.MotionLimits.of(robot, lower=-2.0, upper=2.0, velocity=4.0, acceleration=20.0, effort=500.0)
    result = {
        name: design_motion(
            robot,
            criterion=name,
            drives=False,
            limits=limits,
            seconds=6.0,
            family=mindyn.Fourier(2),
            starts=1,
            floor=None,
            self_collision=False,
        )
        for name in ("D", "joints")
    }
    largest = {}
    for name, design in result.items():
        q, qd, qdd, _ = design.sample(100.0)
        Y = mindyn.compile_model(robot).regressor(q, qd, qdd)
        last = [max(i for i in range(2) if np.abs(Y[:, i, k]).max() > 0) for k in range(Y.shape[2])]
        expected = [Y[:, i][:, [k for k, of in enumerate(last) if of == i]] for i in range(2)]
        largest[name] = max(np.linalg.cond(A / np.linalg.norm(A, axis=0)) for A in expected)
    assert_close(result["joints"].criteria["joints"], largest["joints"], 1e-6)
    assert "joints" not in result["D"].criteria
    assert largest["joints"] < largest["D"]
    rng = np.random.default_rng(0)
    B, owners, h = rng.normal(size=(30, 5)), np.array([0, 0, 1, 1, 1]), 1e-6
    criterion, S, along = Criterion("joints", np.ones(5), 8.0, owners), B.T @ B, rng.normal(size=(5, 5))
    along = along + along.T
    slope = (criterion.value(S + h * along) - criterion.value(S - h * along)) / (2 * h)
    assert_close((criterion.with_gradient(S)[1] * along).sum(), slope, 1e-6)
    with raises(InputError, Code.UNSUPPORTED, "criterion"):
        design_motion(mindyn.load_robot("palletiser"), criterion="joints")
