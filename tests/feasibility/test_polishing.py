"""Minima of consistent fits to rounding: what SciPy's solver of constrained problems finds, and no row passed."""

from __future__ import annotations

import numpy as np
import pytest
from closeness import assert_close
from scipy.optimize import minimize

from mindyn.feasibility.polishing import SmoothFit

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
    found = smooth.polished(rough)
    assert smooth.cost(found) <= smooth.cost(near.x) + 1e-12
    assert_close(found, near.x, 1e3 * SCIPY)
    assert (smooth.least[0] @ found > -1e-12).all()
    assert abs(float((smooth.equal[0] @ found + smooth.equal[1])[0])) < 1e-13
    again = smooth.polished(found)
    assert_close(again, found, 1e-12)


def test_what_begins_outside_stays_as_it_is():
    smooth = problem(0)
    outside = np.full(10, -1.0)
    assert np.array_equal(smooth.polished(outside), outside)
