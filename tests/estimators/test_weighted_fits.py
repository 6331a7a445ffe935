"""Weighted least squares of small stacks, against formulas written out.

Private functions are tested directly: inputs at their limits are rare, or slow to reach, through public names.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from closeness import ORACLE, SAME_ALGEBRA, assert_close
from equations import equations
from raising import raises

from mindyn.applications.step_tests.step_by_step import _residuals
from mindyn.foundation.errors import Code, InputError
from mindyn.identification.estimators.coloured_noise import colouring_of
from mindyn.identification.estimators.estimate import columns_of, load_estimate
from mindyn.identification.estimators.least_squares import LeastSquares, _residual_variances, fit_weighted
from mindyn.identification.feasibility.fits.constrained_fit import FitProblem
from mindyn.logs.samples import Samples
from mindyn.regression.information import Information, Triangle, null_space, solve, triangle_of
from mindyn.regression.regressor import Regressor
from mindyn.robots.loading import load_robot


def information_of(*joints):
    """Build from pairs (columns, rows [Y | tau]) of every joint."""
    count = 1 + max(max(columns) for columns, _ in joints)
    return Information(
        tuple(f"joint{k}" for k in range(len(joints))),
        tuple(f"p{k}" for k in range(count)),
        tuple(np.array(columns) for columns, _ in joints),
        tuple(triangle_of(rows) for _, rows in joints),
        tuple(len(rows) for _, rows in joints),
    )


def noisy(rng, beta, columns, rows, deviation):
    Y = rng.normal(size=(rows, len(columns)))
    return columns, np.column_stack([Y, Y @ beta[columns] + deviation * rng.normal(size=rows)])


def test_residual_variances_use_the_degrees_of_freedom_of_each_joint():
    rng, beta = np.random.default_rng(0), np.array([1.0, -2.0, 0.5])
    joints = [noisy(rng, beta, [0, 1], 12, 0.3), noisy(rng, beta, [1, 2], 7, 0.1)]
    data, weights = information_of(*joints), np.array([2.0, 9.0])
    solution = solve(*data.stacked(weights))
    inverse = solution.inverse
    for k, (columns, rows) in enumerate(joints):
        Y = rows[:, :-1]
        hat = weights[k] * Y @ inverse[np.ix_(columns, columns)] @ Y.T
        left = rows[:, -1] - Y @ solution.beta[columns]
        expected = left @ left / (len(rows) - np.trace(hat))
        assert_close(_residual_variances(data, solution.beta, inverse, weights)[k], expected, ORACLE)
    assert_close(sum(len(rows) for _, rows in joints) - 3.0, 16.0, SAME_ALGEBRA)


def test_joints_of_very_different_torques_are_known_together():
    """The sum of two parameters at 1e5 N m, their difference at 1e-6: by one weight for all the latter is rounding."""
    rng = np.random.default_rng(1)
    item, other = 1e5 * rng.normal(size=(30, 1)), 1e-6 * rng.normal(size=(30, 1))
    beta = np.array([2.0, 0.5])
    joints = [
        ([0, 1], np.column_stack([item, item, item[:, 0] * beta.sum() * (1 + 1e-6 * rng.normal(size=30))])),
        (
            [0, 1],
            np.column_stack([other, -other, other[:, 0] * (beta[0] - beta[1]) * (1 + 1e-3 * rng.normal(size=30))]),
        ),
    ]
    data = information_of(*joints)
    fitted = fit_weighted(LeastSquares(weights="joint"), data)
    assert fitted.rank == 2
    assert_close(fitted.beta, beta, 1e-2)
    assert fit_weighted(LeastSquares(weights="ordinary"), data).rank == 1
    with raises(InputError, Code.WRONG_SHAPE, "weights"):
        fit_weighted(LeastSquares(weights=(1.0, 1.0, 1.0)), data)


def test_a_triangle_takes_rows_as_they_come():
    rows = np.random.default_rng(4).normal(size=(37, 4))
    grown = Triangle(4)
    for start in (0, 10, 20, 30):
        part = rows[start : start + 10]
        grown.append([part[:, :1], part[:, 1:]])
    assert grown.rows == 37
    assert_close(grown.R.T @ grown.R, rows.T @ rows, ORACLE)
    assert (np.tril(grown.R, -1) == 0).all()
    few = triangle_of(rows[:2])
    assert few.shape == (4, 4)
    assert_close(few.T @ few, rows[:2].T @ rows[:2], ORACLE)


def test_what_is_unidentifiable_or_left_out_has_no_deviation_in_the_table():
    estimate = load_estimate(Path(__file__).with_name("saved_estimate.json"))
    estimate = estimate.with_values(physical=None, unidentifiable=estimate.names[:1], dropped=estimate.names[1:2])
    table = columns_of(estimate)
    assert table["state"][:3] == ["unidentifiable", "dropped", "estimated"]
    for name in ("deviation", "low", "high"):
        assert [item is None for item in table[name]] == [True, True] + [False] * (len(estimate.names) - 2)
    assert_close(table["deviation"][2:], estimate.deviations[2:], SAME_ALGEBRA)


@pytest.mark.parametrize("seed", range(12))
def test_weights_are_iterated_until_they_are_those_of_the_residuals(seed):
    rng, beta = np.random.default_rng(seed), np.array([1.0, -2.0, 0.5])
    joints = [noisy(rng, beta, [0, 1], 30, 0.05), noisy(rng, beta, [1, 2], 40, 3.0), noisy(rng, beta, [0, 2], 25, 0.5)]
    data = information_of(*joints)
    fitted = fit_weighted(LeastSquares(weights="joint"), data)
    assert_close(fitted.weights * fitted.variances, np.ones(3), 1e-4)

    def beta(information, weights, _):
        return solve(*information.stacked(weights)).beta

    stub = SimpleNamespace(approximate=beta, space=SimpleNamespace(matrix=np.eye(3)))
    weights = FitProblem.reweight(stub, data, np.array([1.0, 1.0, 1.0]), 0.0)
    left = data.residuals(beta(data, weights, 0.0)) / np.array(data.counts)
    assert_close(weights * left, np.ones(3), 0.05)


@dataclass(frozen=True)
class Widths:
    """A problem whose compact links miss `missed` times what wide ones do."""

    missed: float
    compact: bool = True
    limits: tuple = ()

    @property
    def space(self):
        return SimpleNamespace(matrix=np.eye(1))

    def approximate(self, information, weights, prior_weight):  # noqa: ARG002
        return np.array([self.missed if self.compact else 1.0])

    def relax_limits(self):
        data = SimpleNamespace(residuals=lambda beta: beta)
        return FitProblem.relax_limits(self, data, np.ones(1), 0.0)

    _cost = FitProblem._cost


def test_links_are_wide_only_where_compact_ones_fit_worse():
    assert Widths(1.05).relax_limits().compact
    assert not Widths(1.2).relax_limits().compact


def test_data_of_one_direction_do_not_determine_the_others():
    rng = np.random.default_rng(5)
    item = np.outer(rng.normal(size=20), [1.0, 2.0, -3.0])
    assert null_space(item).shape == (3, 2)
    assert null_space(item + 1e-13 * rng.normal(size=item.shape)).shape == (3, 2)
    assert null_space(np.array([[1.0, 1.0], [2.0, 2.0]])).shape == (2, 1)


def test_residuals_of_steps_are_measured_less_predicted():
    groups = [
        SimpleNamespace(joint="b", A=np.array([[1.0, 0.0], [0.0, 2.0]]), z=np.array([3.0, 4.0])),
        SimpleNamespace(joint="b", A=np.array([[1.0, 1.0]]), z=np.array([3.0])),
    ]
    (result,) = _residuals(SimpleNamespace(primary_names=("a", "b")), groups, np.array([2.0, 1.0]))
    assert (result.joint, result.rows) == ("b", 3)
    assert_close(result.rms, np.sqrt((1.0 + 4.0 + 0.0) / 3), SAME_ALGEBRA)
    assert_close(result.rms_torque, np.sqrt((9.0 + 16.0 + 9.0) / 3), SAME_ALGEBRA)


def test_residuals_that_vanish_have_no_memory():
    regressor = Regressor(load_robot("planar2"))
    rng = np.random.default_rng(6)
    q, qd, qdd = rng.normal(size=(3, 200, 2))
    still = Samples(regressor.joint_names, q, qd, qdd, np.zeros((200, 2)), 100.0, np.zeros(200, dtype=np.int64))
    nothing = colouring_of(regressor, np.zeros(regressor.count), still, None, 1)
    assert nothing.neighbours == (0.0, 0.0)
    assert all(a.tolist() == [1.0] for a in nothing.coefficients)
    walk = np.zeros((200, 2))
    for k in range(1, 200):
        walk[k] = 0.9 * walk[k - 1] + rng.normal(size=2)
    lasting = colouring_of(regressor, np.zeros(regressor.count), replace(still, tau=walk), None, 1)
    for neighbour, e in zip(lasting.neighbours, walk.T, strict=True):
        assert_close(neighbour, e[1:] @ e[:-1] / (e @ e), SAME_ALGEBRA)


@pytest.mark.parametrize("weights", ["joint", "ordinary"])
def test_the_status_shows_the_part_that_is_left(weights):
    rng = np.random.default_rng(5)
    robot = load_robot("planar2")
    samples = Samples(robot.joint_names, *rng.normal(size=(4, 80, 2)), 100.0, np.zeros(80, dtype=np.int64))
    estimate = LeastSquares(weights=weights).fit(equations(robot, samples))
    squares = sum(residual.rows * residual.rms**2 for residual in estimate.data.residuals)
    torques = float((samples.tau**2).sum())
    assert f"leave {100 * np.sqrt(squares / torques):.3g} % of the torque unexplained" in estimate.status
    assert f"{len(estimate.beta)} parameters from 160 equations (80 samples of 2 joints)" in estimate.status
    assert estimate.data.joint_weights is not None
    assert (weights == "joint") != np.array_equal(estimate.data.joint_weights, np.ones(2))
