"""Criteria: values by their textbook definitions, gradients by differences."""

from __future__ import annotations

import numpy as np
import pytest
from closeness import DERIVATIVE, ORACLE, assert_close
from excitation.full_speed import design_motion
from raising import raises

import mindyn
from mindyn.foundation.errors import Code, InputError
from mindyn.motions.excitation.criteria import EXTREME, evaluate_criterion

P = 9


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    return rng.normal(size=(40, P)) * 10 ** rng.uniform(-1, 1, P)


OWNERS = np.zeros(P, dtype=np.intp)


def value(name, S, power=EXTREME):
    return evaluate_criterion(name, S, OWNERS, power)[0]


def test_condition_is_the_logarithm_of_the_scaled_stacks_condition_number(rows):
    unit = rows / np.linalg.norm(rows, axis=0)
    assert_close(np.exp(value("condition", rows.T @ rows)), np.linalg.cond(unit), ORACLE)


def test_d_is_minus_the_mean_logarithm_of_the_determinant(rows):
    assert_close(value("D", rows.T @ rows), -np.linalg.slogdet(rows.T @ rows)[1] / P, ORACLE)


@pytest.mark.parametrize("name", ["condition", "D"])
def test_condition_does_not_depend_on_units_and_d_only_by_a_constant(rows, name):
    units = 10 ** np.random.default_rng(1).uniform(-1, 1, P)
    constant = 2 * np.log(units).mean() if name == "D" else 0.0
    assert_close(value(name, (rows / units).T @ (rows / units)), value(name, rows.T @ rows) + constant, ORACLE)


def test_norms_of_growing_power_approach_the_exact_value_from_above(rows):
    S = rows.T @ rows
    result = [value("condition", S, power) for power in (2.0, 8.0, 32.0, 200.0)]
    exact = value("condition", S)
    assert (np.diff(result) < 0).all()
    assert result[-1] >= exact
    assert result[-1] - exact < np.log(P) / 200


@pytest.mark.parametrize("power", [2.0, 16.0, EXTREME])
@pytest.mark.parametrize("name", ["condition", "D", "A", "E"])
def test_gradients_equal_differences(rows, name, power):
    S = rows.T @ rows
    gradient, result, h = evaluate_criterion(name, S, OWNERS, power)[1], np.zeros((P, P)), 1e-5
    for i in range(P):
        for j in range(P):
            step = np.zeros((P, P))
            step[i, j] = step[j, i] = h * np.sqrt(S[i, i] * S[j, j])
            size = step[i, j] * (1 if i == j else 2)
            result[i, j] = (value(name, S + step, power) - value(name, S - step, power)) / (2 * size)
    d = np.sqrt(np.diag(S))
    assert_close(gradient * d * d[:, None], result * d * d[:, None], DERIVATIVE)


@pytest.mark.parametrize("name", ["condition", "D"])
def test_information_that_leaves_a_direction_open_is_infinitely_bad(rows, name):
    rows[:, 1] = 2 * rows[:, 0]
    assert value(name, rows.T @ rows) == np.inf


def test_joints_are_made_well_conditioned_one_by_one():
    """cond(A_i) as `LastLinkFirst` finds it, its gradient, and a design that makes the largest smaller than D does."""
    robot = mindyn.load_robot("planar2")
    limits = mindyn.MotionLimits.of(robot, lower=-2.0, upper=2.0, velocity=4.0, acceleration=20.0, effort=500.0)
    result = {
        name: design_motion(
            robot,
            criterion=name,
            with_drives=False,
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
    S, along = B.T @ B, rng.normal(size=(5, 5))
    along = along + along.T
    ends = [evaluate_criterion("joints", S + sign * h * along, owners, 8.0)[0] for sign in (1, -1)]
    slope = (ends[0] - ends[1]) / (2 * h)
    assert_close((evaluate_criterion("joints", S, owners, 8.0)[1] * along).sum(), slope, 1e-6)
    with raises(InputError, Code.UNSUPPORTED, "criterion"):
        design_motion(mindyn.load_robot("palletiser"), criterion="joints")


def test_a_and_e_are_mean_and_largest_variance(rows):
    covariance = np.linalg.inv(rows.T @ rows)
    assert_close(np.exp(value("A", rows.T @ rows)), np.trace(covariance) / P, ORACLE)
    assert_close(np.exp(value("E", rows.T @ rows)), np.linalg.norm(covariance, 2), ORACLE)
    rows[:, 1] = rows[:, 0]
    assert value("A", rows.T @ rows) == value("E", rows.T @ rows) == np.inf


@pytest.mark.parametrize("criterion", ["A", "E"])
def test_a_design_reports_the_variance_that_its_regressor_gives(criterion):
    robot = mindyn.load_robot("planar2")
    limits = mindyn.MotionLimits.of(robot, lower=-1.0, upper=1.0, velocity=2.0, effort=5000.0)
    search = mindyn.SearchSettings(starts=1, deadline_s=1.0, criterion=criterion)
    log = mindyn.ExpectedLog(noise=np.ones(2), with_drives=False)
    design = mindyn.design_motion(robot, seconds=5.0, limits=limits, log=log, search=search)
    Y = mindyn.compile_model(robot).regressor(*design.motion.sample(design.rate_hz)[:3])
    inverse = np.linalg.inv(np.linalg.qr(Y.reshape(-1, Y.shape[-1]), mode="r"))  # loses half as many digits as Y^T Y
    covariance = inverse @ inverse.T
    expected = np.trace(covariance) / len(covariance) if criterion == "A" else np.linalg.norm(covariance, 2)
    assert_close(np.exp(design.criteria[criterion]), expected, ORACLE)
