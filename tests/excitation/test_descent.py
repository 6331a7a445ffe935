"""The search's own programming: quadratic programs beside Clarabel's, and problems whose solutions are published."""

import clarabel
import numpy as np
import pytest
from closeness import DERIVATIVE, SAME_ALGEBRA, assert_close
from scipy.sparse import csc_matrix

from mindyn.motions.excitation.descent import Descent, Point, shortest


@pytest.mark.parametrize("seed", range(20))
def test_the_shortest_vector_of_constraints_is_that_of_an_interior_point_solver(seed):
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(2, 15)), int(rng.integers(5, 40))
    G = rng.normal(size=(n, k))
    y = 10 * rng.normal(size=n)
    G[:, -1] = y / np.linalg.norm(y)  # which keeps it away from zero
    G[:, : k // 2] = G[:, k - k // 2 :]  # half of them twice
    h = G.T @ y - rng.uniform(0, 1, k)
    multipliers = shortest(G, h)
    assert (multipliers >= 0).all()
    for guess in (multipliers > 0, rng.random(k) < 0.3):  # the right guess of the active constraints, and a wrong one
        guessed = shortest(G, h, guess)
        assert (guessed >= 0).all()
        assert_close(G @ guessed, G @ multipliers, DERIVATIVE)
    settings = clarabel.DefaultSettings()
    settings.verbose, settings.tol_gap_abs, settings.tol_gap_rel = False, 1e-13, 1e-13
    cone, eye = [clarabel.NonnegativeConeT(k)], csc_matrix(np.eye(n))
    solved = clarabel.DefaultSolver(eye, np.zeros(n), csc_matrix(-G.T), -h, cone, settings).solve()
    assert_close(G @ multipliers, np.array(solved.x), DERIVATIVE)


def test_constraints_that_contradict_each_other_have_no_shortest_vector():
    G, h = np.array([[1.0, -1.0, 0.5], [0.0, 0.0, 1.0]]), np.array([1.0, 1.0, 0.0])
    assert shortest(G, h) is None
    assert shortest(G, h, np.array([True, False, True])) is None


def rosen_suzuki(x):
    """Minimum -44 at (0, 1, 2, -1), two of three constraints active [Hock & Schittkowski 1981, problem 43]."""
    linear = np.array([-5.0, -5.0, -21.0, 7.0])
    return x @ (np.array([1, 1, 2, 1]) * x) + linear @ x, lambda: 2 * np.array([1, 1, 2, 1]) * x + linear


def rosen_suzuki_limits(x):
    squares = np.array([[1.0, 1, 1, 1], [1, 2, 1, 2], [2, 1, 1, 0]])
    linear = np.array([[1.0, -1, 1, -1], [-1, 0, 0, -1], [2, -1, 0, -1]])
    values = squares @ x**2 + linear @ x - np.array([8.0, 10.0, 5.0])
    return values, lambda: 2 * squares * x + linear


def test_a_descent_arrives_at_the_published_minimum():
    result = Descent(rosen_suzuki, rosen_suzuki_limits, Point(np.zeros(4)), ends=1e-12).go(50)
    assert_close(result.x, np.array([0.0, 1.0, 2.0, -1.0]), DERIVATIVE)


def test_a_descent_goes_on_where_it_was_left():
    whole = Descent(rosen_suzuki, rosen_suzuki_limits, Point(np.zeros(4)), ends=1e-12).go(50)
    left = Descent(rosen_suzuki, rosen_suzuki_limits, Point(np.zeros(4)), ends=1e-12).go(4)
    assert np.abs(left.x - whole.x).max() > 1e-3
    gone_on = Descent(rosen_suzuki, rosen_suzuki_limits, left, ends=1e-12).go(50)
    assert_close(gone_on.x, whole.x, DERIVATIVE)


def test_a_descent_stays_in_its_box():
    result = Descent(rosen_suzuki, rosen_suzuki_limits, Point(np.zeros(4)), 0.5, 1e-12).go(50)
    assert np.abs(result.x).max() <= 0.5 + 1e-7
    assert np.abs(result.x).max() > 0.49


def test_a_descent_out_of_constraints_that_contradict_each_other_lowers_what_is_exceeded():
    """x >= 1 and x <= -1 cannot hold both; a start far off is brought between them."""

    def limits(x):
        return np.array([1 - x[0], x[0] + 1]), lambda: np.array([[-1.0], [1.0]])

    result = Descent(lambda x: (0.01 * x[0] ** 2, lambda: 0.02 * x), limits, Point(np.array([5.0]))).go(50)
    assert np.isfinite(result.x).all()
    assert np.abs(result.x).max() < 5.0


def test_the_curvature_meets_the_secant_equation():
    """B s = y of the last step [Nocedal & Wright 2006, eq. 6.6]: of a quadratic, as its own matrix does."""
    A = np.random.default_rng(0).normal(size=(4, 4))
    H = np.eye(4) + A @ A.T  # steep enough that no update is damped
    far = np.array([-1e6])
    begun = np.ones(4)
    result = Descent(
        lambda x: (x @ H @ x / 2, lambda: H @ x), lambda _: (far, lambda: np.zeros((1, 4))), Point(begun)
    ).go(1)
    step = result.x - begun
    assert_close(result.curvature @ step, H @ step, SAME_ALGEBRA)
