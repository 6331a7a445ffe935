"""Polished minima equal those of the constrained solver of SciPy, and satisfy all rows."""

from __future__ import annotations

import numpy as np
import pytest
from closeness import ORACLE, ROUND_TRIP, SAME_ALGEBRA, assert_close
from scipy.optimize import minimize

from mindyn.feasibility.constrained_fit import MAX_POLISHING_STEPS, SmoothFit

SCIPY = 1e-7
"""Of SLSQP."""


def problem(seed):
    """Ten unknowns, a log barrier on the first three, some rows that bind and some that do not, one equality."""
    rng = np.random.default_rng(seed)
    A, b = rng.normal(size=(14, 10)), rng.normal(size=14)

    def prior(v):
        if (v[:3] <= 0).any():
            return np.inf, np.full(10, np.inf), np.full((10, 10), np.inf)
        gradient, H = np.zeros(10), np.zeros((10, 10))
        gradient[:3] = 0.1 * (1 - 1 / v[:3])
        H[:3, :3] = np.diag(0.1 / v[:3] ** 2)
        return float(0.1 * (v[:3] - np.log(v[:3])).sum()), gradient, H

    G = np.eye(10)[3:]
    equal = np.ones((1, 10)) / 10
    return SmoothFit(A, b, prior, (equal, np.array([-0.5])), (G, np.zeros(7)))


@pytest.mark.parametrize("seed", range(6))
def test_the_minimum_is_that_of_another_solver(seed):
    smooth = problem(seed)
    rows = [
        {"type": "eq", "fun": lambda v: smooth.equal[0] @ v + smooth.equal[1]},
        {"type": "ineq", "fun": lambda v: smooth.least[0] @ v + smooth.least[1]},
    ]
    start = np.full(10, 0.5)
    near = minimize(smooth.cost, start, method="SLSQP", constraints=rows, options={"ftol": 1e-13, "maxiter": 500})
    rough = near.x + 1e-7 * np.random.default_rng(seed).normal(size=10)
    result = smooth.polish(rough)
    assert smooth.cost(result) <= smooth.cost(near.x) + 1e-12
    assert_close(result, near.x, 1e3 * SCIPY)
    assert (smooth.least[0] @ result > -1e-12).all()
    assert abs(float((smooth.equal[0] @ result + smooth.equal[1])[0])) < 1e-13
    again = smooth.polish(result)
    assert_close(again, result, 1e-12)


def test_a_start_outside_is_returned_unchanged():
    smooth = problem(0)
    outside = np.full(10, -1.0)
    assert np.array_equal(smooth.polish(outside), outside)


def quadratic(weight=0.3):
    """Five unknowns, a quadratic prior on the first two, one equality, three rows."""
    rng = np.random.default_rng(4)
    A, b = rng.normal(size=(7, 5)), rng.normal(size=7)
    H = np.zeros((5, 5))
    H[:2, :2] = weight * np.array([[2.0, 0.5], [0.5, 1.0]])
    pull = np.array([0.4, -0.7, 0.0, 0.0, 0.0])

    def prior(v):
        return float(pull @ v + v @ H @ v / 2), pull + H @ v, H

    least = np.array([[0.0, 0, 1, 0, 0], [0.0, 0, 0, 2, 0], [0.0, 0, 0, 0, 1]]), np.array([0.5, -0.2, 0.1])
    return SmoothFit(A, b, prior, (np.array([[1.0, 1, 0, 0, 1]]), np.array([-0.3])), least)


@pytest.mark.parametrize("binding", [[False] * 3, [True, False, False], [False, True, True]])
def test_a_step_solves_the_equations_of_the_minimum_with_the_rows_that_bind(binding):
    """Against the Karush-Kuhn-Tucker equations in one matrix: from any point one step ends at the minimum."""
    fit, v = quadratic(), np.array([0.3, -0.4, 0.8, 0.6, -0.2])
    binding = np.array(binding)
    C = np.vstack([fit.equal[0], fit.least[0][binding]])
    c = np.concatenate([fit.equal[1], fit.least[1][binding]])
    _, gradient, H = fit.prior(v)
    whole = np.block([[fit.A.T @ fit.A + H, -C.T], [C, np.zeros((len(C), len(C)))]])
    right = np.concatenate([fit.A.T @ (fit.b - fit.A @ v) - gradient, -(C @ v + c)])
    expected = np.linalg.solve(whole, right)
    step, multipliers = fit._newton_step(v, binding)
    assert_close(step, expected[:5], ORACLE)
    assert_close(multipliers, expected[5:], ORACLE)


def test_a_step_without_any_rows_is_plain_least_squares():
    fit = quadratic()
    free = SmoothFit(fit.A, fit.b, fit.prior, (np.zeros((0, 5)), np.zeros(0)), (np.zeros((0, 5)), np.zeros(0)))
    v = np.arange(5.0)
    _, gradient, H = fit.prior(v)
    step, multipliers = free._newton_step(v, np.zeros(0, dtype=bool))
    assert_close(step, np.linalg.solve(fit.A.T @ fit.A + H, fit.A.T @ (fit.b - fit.A @ v) - gradient), ORACLE)
    assert multipliers.shape == (0,)
    assert_close(free.polish(v), v + step, ORACLE)
    assert_close(free.cost(v), 0.5 * ((fit.A @ v - fit.b) ** 2).sum() + fit.prior(v)[0], SAME_ALGEBRA)


def test_a_step_ends_at_the_first_row_that_it_would_pass():
    fit, v = quadratic(), np.array([0.0, 0.0, 0.5, 0.6, 0.4])  # slacks 1, 1 and 0.5
    none = np.zeros(3, dtype=bool)
    assert fit._step_fraction(v, np.array([9.0, 9.0, -0.5, -0.25, -0.4]), none) == 1.0
    assert fit._step_fraction(v, np.array([0.0, 0.0, -2.0, -1.0, 0.0]), none) == 0.5
    assert fit._step_fraction(v, np.array([0.0, 0.0, -4.0, -1.0, 0.0]), none) == 0.25
    assert fit._step_fraction(v, np.array([0.0, 0.0, -4.0, -1.0, 0.0]), np.array([True, False, False])) == 0.5
    assert fit._step_fraction(v, np.array([0.0, 0.0, -1.0, -0.5, 0.0]), none) == 1.0  # as far as the row is not past it
    outside = v - [0, 0, 1.2, 0, 0]
    assert fit._step_fraction(outside, np.array([0.0, 0.0, -1.0, 0.0, 0.0]), none) == 0.0


def test_a_step_is_halved_while_the_prior_is_infinite():
    def prior(v):
        return (np.inf if v[0] <= 0 else -np.log(v[0])), np.array([-1 / v[0]]), np.array([[v[0] ** -2]])

    none = np.zeros((0, 1)), np.zeros(0)
    fit = SmoothFit(np.zeros((1, 1)), np.zeros(1), prior, none, none)
    assert fit._step_fraction(np.array([1.0]), np.array([-3.0]), np.zeros(0, dtype=bool)) == 0.25
    assert fit._step_fraction(np.array([1.0]), np.array([-0.5]), np.zeros(0, dtype=bool)) == 1.0
    assert 0 < fit._step_fraction(np.array([-1.0]), np.array([1e-3]), np.zeros(0, dtype=bool)) <= 1e-6


def test_the_row_that_pulls_hardest_is_set_free_first():
    fit = quadratic()
    binding = np.array([True, False, True])
    assert fit._release_row(binding, np.array([-9.0, 0.5, 0.2])) is None  # the equality's multiplier may have any sign
    assert fit._release_row(binding, np.array([0.0, 0.5, -0.2])).tolist() == [True, False, False]
    assert fit._release_row(binding, np.array([0.0, -0.5, -0.2])).tolist() == [False, False, True]
    assert fit._release_row(binding, np.array([0.0, 1.0, -0.5e-9])) is None  # rounding of the others
    assert fit._release_row(np.zeros(3, dtype=bool), np.array([-1.0])) is None
    assert binding.tolist() == [True, False, True]


def bounded(target):
    """|v - target|^2 / 2 over v >= 0, without a prior."""
    n = len(target)
    none = np.zeros((0, n)), np.zeros(0)
    return SmoothFit(
        np.eye(n), np.array(target), lambda _: (0.0, np.zeros(n), np.zeros((n, n))), none, (np.eye(n), np.zeros(n))
    )


def test_rows_join_and_leave_those_that_bind():
    fit = bounded([1.0, -2.0, 3.0])
    for start in ([1.0, 1.0, 1.0], [0.0, 0.0, 0.0], [1e-7, 5.0, 0.0], [0.0, 1.0, 3.0], [2.0, -1e-9, 3.0]):
        assert_close(fit.polish(np.array(start)), [1.0, 0.0, 3.0], SAME_ALGEBRA)


def test_if_the_solver_ends_outside_the_cost_may_rise_by_the_multipliers_times_the_violation():
    fit = bounded([1.0, -2.0])
    for far in ([1.0, -1.0], [1.0, -1e-7]):
        assert fit.cost(np.array(far)) < fit.cost(np.array([1.0, 0.0]))
        assert_close(fit.polish(np.array(far)), [1.0, 0.0], SAME_ALGEBRA)


def test_a_minimum_below_zero_is_polished_too():
    """What rounding leaves of a cost is a part of its size, whichever sign it has."""
    fit, deep = quadratic(), -1e4

    def prior(v):
        value, gradient, H = quadratic().prior(v)
        return value + deep, gradient, H

    low = SmoothFit(fit.A, fit.b, prior, fit.equal, fit.least)
    exact = fit.polish(np.array([0.1, 0.1, 0.5, 0.3, 0.1]))
    rough = exact + 1e-7 * np.array([1.0, -1.0, 0.3, 0.2, 0.0])
    assert_close(low.polish(rough), exact, SAME_ALGEBRA)


def from_below(target, floor):
    """|v - target|^2 / 2 over v >= floor, without a prior."""
    n = len(target)
    none = np.zeros((0, n)), np.zeros(0)
    flat = lambda _: (0.0, np.zeros(n), np.zeros((n, n)))  # noqa: E731
    return SmoothFit(np.eye(n), np.array(target), flat, none, (np.eye(n), -np.array(floor)))


@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_rows_that_a_solver_ends_at_all_bind_from_the_start(side):
    """More of them than there are steps, each at another distance: one at a time would not come to an end."""
    floor = side * np.linspace(1.0, 3.0, 3 * MAX_POLISHING_STEPS)
    ended = floor + np.geomspace(1e-9, 1e-7, len(floor))
    assert_close(from_below(floor - 1.0, floor).polish(ended), floor, ROUND_TRIP)


@pytest.mark.parametrize("height", [-7e3, -7.0, 7.0, 7e3])
def test_a_row_that_was_reached_on_the_way_binds_whatever_its_offset(height):
    """v_1 = height is reached from above with what division leaves, and v_2 then goes on to its least there."""
    A = np.array([[1.0, 0.5], [0.5, 1.0]])
    below = np.array([height - abs(height) / 3, 2.0])
    fit = SmoothFit(
        A,
        A @ below,
        lambda _: (0.0, np.zeros(2), np.zeros((2, 2))),
        (np.zeros((0, 2)), np.zeros(0)),
        (np.array([[1.0, 0.0]]), np.array([-height])),
    )
    second = A[:, 1] @ (A @ below - A[:, 0] * height) / (A[:, 1] @ A[:, 1])
    for above, aside in np.random.default_rng(1).uniform(0.1, 3.0, (20, 2)):
        assert_close(fit.polish(np.array([height + above, aside])), [height, second], SAME_ALGEBRA)


@pytest.mark.parametrize("shift", [-10.0, 0.0, 10.0])
def test_rows_that_need_not_bind_are_set_free_wherever_the_values_lie(shift):
    """From the corner of v >= floor to a minimum inside of it; sizes of values are those of either sign."""
    floor = np.array([-3.0, -4.0, -5.0]) + shift
    fit = from_below(floor + np.array([1.0, 2.0, -1.0]), floor)
    assert_close(fit.polish(floor.copy()), floor + np.array([1.0, 2.0, 0.0]), SAME_ALGEBRA)
