"""`METHODS` names weighted least squares too, which the selection may replace by a consistent fit."""

from __future__ import annotations

from mindyn.identification import METHODS
from mindyn.identification.estimators.least_squares import LeastSquares


def test_weighted_least_squares_has_a_name():
    estimator = METHODS["weighted"]
    assert isinstance(estimator, LeastSquares)
    assert estimator.weights == "joint"
    assert not estimator.robust
