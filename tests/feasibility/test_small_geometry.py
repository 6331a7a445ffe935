"""Sampled configurations, scaled triangles, metrics and loads, each by its definition.

Private functions are tested directly: inputs at their limits are rare, or slow to reach, through public names.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from closeness import ORACLE, SAME_ALGEBRA, assert_close, assert_negligible
from raising import raises
from stand_in import stand_in

from mindyn.applications.payload.identify_payload import (
    UNSEEN_DEVIATION,
    _correlated_rows,
    _gain_shifts,
    _unseen_covariance,
    identify_payload,
)
from mindyn.foundation.errors import Code, MindynError
from mindyn.identification.estimators.estimate import load_estimate
from mindyn.identification.feasibility.checks import positive_definite
from mindyn.identification.feasibility.checks.consistent_values import (
    MAX_NAMED_PARAMETERS,
    NAMED_FRACTION,
    _select_largest,
)
from mindyn.identification.feasibility.checks.positive_definite import sample_configurations
from mindyn.identification.feasibility.conditions.physical_space import space_of
from mindyn.identification.feasibility.optimisation.conic_program import matrix_of_triangle, triangle
from mindyn.identification.feasibility.projections.consistent_projection import covariance_metric

SAVED = Path(__file__).parents[1] / "estimators" / "saved_estimate.json"


@pytest.fixture(scope="module")
def estimate():
    return load_estimate(SAVED)


@pytest.mark.parametrize("joints", [1, 2, 3])
def test_configurations_fill_their_ranges_evenly(joints):
    ranges = np.array([[-1.0, 3.0], [0.5, 0.5], [0.0, 10.0], [-4.0, -2.0]])[[0, 1, 2, 3][: joints + 1]]
    q = sample_configurations(ranges, 512, 3)
    wide = np.ptp(ranges, axis=1) > 0
    assert (q >= ranges[:, 0]).all()
    assert (q <= ranges[:, 1]).all()
    assert (q[:, 1] == 0.5).all()
    parts = (q[:, wide] - ranges[wide, 0]) / np.ptp(ranges[wide], axis=1)
    for column in parts.T:  # as even as a grid would be, to a few points
        assert np.abs(np.sort(column) - (np.arange(512) + 0.5) / 512).max() < 10 / 512
    if joints == 2:
        cells = np.histogram2d(*parts.T, bins=8, range=[[0, 1], [0, 1]])[0]
        assert np.abs(cells - 8).max() <= 3
    first = np.diff(parts[:20], axis=0) % 1.0  # an additive recurrence: every step the same
    assert_negligible(first - first[0], 1.0, ORACLE)
    step = first[0, 0]
    assert_negligible(1 / step ** (int(wide.sum()) + 1) - 1 / step - 1, 1.0, ORACLE)  # g^(d + 1) = g + 1
    assert not np.array_equal(q, sample_configurations(ranges, 512, 4))


def test_scaled_triangles_keep_lengths_and_come_back():
    rng = np.random.default_rng(0)
    matrices = [item + item.T for item in rng.normal(size=(3, 4, 4))]
    columns = triangle(matrices)
    assert columns.shape == (10, 3)
    for column, matrix in zip(columns.T, matrices, strict=True):
        assert_close(np.linalg.norm(column), np.linalg.norm(matrix), SAME_ALGEBRA)
        assert_close(matrix_of_triangle(column), matrix, SAME_ALGEBRA)


def test_the_metric_of_a_covariance_is_the_root_of_its_inverse(estimate):
    rng = np.random.default_rng(1)
    root = rng.normal(size=(len(estimate.beta),) * 2)
    covariance = root @ root.T * np.outer(*[10.0 ** rng.uniform(-3, 1, len(root))] * 2)
    plain = estimate.with_uncertainty(covariance=covariance, shifts=None, jackknife=None)
    W = covariance_metric(plain, space_of(plain.regressor))
    assert_close(W @ covariance @ W.T, np.eye(len(W)), 1e-6)


def test_the_weightiest_names_cover_most_of_the_squares():
    names = tuple("abcdefghij")
    assert _select_largest(names, np.array([0, 0, -5.0, 0, 0.1, 0, 0, 0, 0, 0])) == ["c"]
    weights = np.array([1.0, -2.0, 3.0, 0.5, 0, 0, 0, 0, 0, 0])
    result = _select_largest(names, weights)
    assert result == ["c", "b", "a", "d"][: len(result)]
    squares = np.sort(weights**2)[::-1]
    covered = np.cumsum(squares) / squares.sum()
    assert len(result) == min(MAX_NAMED_PARAMETERS, 1 + int((covered < NAMED_FRACTION).sum()))
    assert len(_select_largest(names, np.ones(10))) <= MAX_NAMED_PARAMETERS


def test_rows_that_follow_each_other_count_for_fewer():
    residuals = [SimpleNamespace(correlation=item) for item in (None, 0.0, 0.5, -0.3, 0.999)]
    assert_close(_correlated_rows(stand_in(residuals=residuals)), [1.0, 1.0, 3.0, 1.0, 199.0], SAME_ALGEBRA)


def test_unobserved_directions_of_a_load_get_a_large_deviation():
    seen = np.diag([1.0] * 12)
    load = np.arange(2, 12)
    assert_negligible(_unseen_covariance(seen, load), 1.0, SAME_ALGEBRA)
    seen[5, 5] = 0.0
    result = _unseen_covariance(seen, load)
    assert_close(np.diag(result), [0, 0, 0, UNSEEN_DEVIATION**2, 0, 0, 0, 0, 0, 0], SAME_ALGEBRA)
    assert UNSEEN_DEVIATION == 1e3
    mixed = np.diag([1.0] * 12)
    mixed[0, 0] = mixed[0, 2] = mixed[2, 0] = 1.0  # the mass and a parameter of the arm only ever show together
    assert_close(np.diag(_unseen_covariance(mixed, load))[0], UNSEEN_DEVIATION**2, ORACLE)


def test_torques_of_another_scale_are_a_load_of_that_scale():
    rng = np.random.default_rng(2)
    R = [np.triu(rng.normal(size=(12, 12))) for _ in range(2)]

    def stacked(weights):
        return np.vstack([np.sqrt(w) * value for w, value in zip(weights, R, strict=True)]), None

    whole, weights, ten = SimpleNamespace(stacked=stacked), np.array([2.0, 0.5]), np.arange(2, 12)
    A = sum(w * item.T @ item for w, item in zip(weights, R, strict=True))
    theta = rng.normal(size=12)
    result = _gain_shifts(whole, weights, np.arange(12), np.linalg.inv(A), theta, ten)
    load = theta[ten]
    assert_close(result[0], load, SAME_ALGEBRA)
    assert_negligible(result[1:, 0], 1.0, ORACLE)  # no mere scaling: the mass is that of the first row
    for joint in range(2):
        outcome = weights[joint] * R[joint].T @ R[joint]
        shift = np.linalg.solve(A, outcome[:, ten] @ load)[ten]
        assert_close(result[1 + joint], shift - load * shift[0] / load[0], ORACLE)
    nothing = _gain_shifts(whole, weights, np.arange(12), np.linalg.inv(A), 0 * theta, ten)
    assert (nothing == 0).all()


def test_a_load_hangs_on_the_link_that_is_named(estimate):
    with raises(MindynError, Code.UNKNOWN_NAME, "gripper"):
        identify_payload(estimate, None, link="gripper")


def test_descents_begin_at_the_lowest_of_each_part(monkeypatch):
    starts = []
    monkeypatch.setattr(positive_definite, "_descend", lambda *given: starts.append(given[-1]) or given[-1])
    family = SimpleNamespace(matrices=lambda q, _: q[:, :, None] * np.eye(1))
    rng = np.random.default_rng(3)
    least = rng.normal(size=10 * positive_definite.DESCENT_STARTS + 3)
    q = np.arange(float(len(least)))[:, None]
    positive_definite.find_lowest(family, None, None, q, least)
    begun = np.array(starts)[:, 0].astype(int)
    assert len(begun) == positive_definite.DESCENT_STARTS
    for part, start in enumerate(begun):
        result = np.arange(part, len(least), positive_definite.DESCENT_STARTS)
        assert start == result[np.argmin(least[result])]
