"""Small pieces of regression: bounds of settings, directions of friction, which rows of a segment are taken.

Private functions are tested directly: inputs at their limits are rare, or slow to reach, through public names.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from closeness import EXACT, SAME_ALGEBRA, assert_close
from raising import raises

from mindyn.foundation.errors import Code, InputError
from mindyn.logs.conditioning import Conditioning
from mindyn.logs.samples import Samples
from mindyn.regression.friction import Friction, _stop_operator
from mindyn.regression.information import Information, add_information, null_space, solve, triangle_of
from mindyn.regression.row_blocks import (
    SampleSegment,
    _edge_rows,
    _even_sequences,
    _overlapping,
    require_enough_rows,
    segment_ends,
)
from mindyn.regression.settings import EquationSettings, Filtering

NAMES = ("a", "b", "c")


def samples_of(segments, rate_hz=100.0):
    x = np.arange(len(segments), dtype=float)[:, None]
    return Samples(("j",), x, x, x, x, rate_hz, np.asarray(segments, dtype=np.int64))


@pytest.mark.parametrize(
    ("given", "code", "subject"),
    [
        ({"equations_hz": 0.0}, Code.INVALID_VALUE, "settings.equations_hz"),
        ({"equations_hz": -1.0}, Code.INVALID_VALUE, "settings.equations_hz"),
        ({"equations_hz": float("inf")}, Code.INVALID_VALUE, "settings.equations_hz"),
        ({"equations_hz": float("nan")}, Code.INVALID_VALUE, "settings.equations_hz"),
        ({"keep_every": 0}, Code.INVALID_VALUE, "settings.keep_every"),
        ({"keep_every": 1.5}, Code.INVALID_VALUE, "settings.keep_every"),
        ({"friction": "sign"}, Code.WRONG_TYPE, "friction"),
        ({"drive_parameters": "none"}, Code.INVALID_VALUE, "settings.drive_parameters"),
    ],
)
def test_settings_that_make_no_sense_are_rejected(given, code, subject):
    with raises(InputError, code, subject):
        EquationSettings(**given)
    assert EquationSettings(equations_hz=1e-3).filtering == Filtering(None, 1e-3, 1)


def test_a_parallel_filter_cuts_ends_itself():
    conditioning = Conditioning(edge_s=0.3)
    assert EquationSettings(conditioning).fit_conditioning is conditioning
    assert EquationSettings(None, 5.0).fit_conditioning is None
    assert EquationSettings(conditioning, 5.0).fit_conditioning == replace(conditioning, edge_s=0.0)
    plain = EquationSettings(conditioning, 5.0, 4).unfiltered()
    assert (plain.equations_hz, plain.keep_every) == (None, 1)
    assert not EquationSettings.automatic().is_selected
    assert EquationSettings().is_selected
    assert not EquationSettings(conditioning).is_selected  # the conditioning's rate is not


def test_directions_of_friction():
    u = np.array([[-2.0], [0.0], [0.5], [3.0]])
    segments = np.zeros(4, dtype=np.int64)
    assert Friction().directions(u, segments, 10.0).ravel().tolist() == [-1.0, 0.0, 1.0, 1.0]
    assert_close(Friction("tanh", 0.5).directions(u, segments, 10.0), np.tanh(u / 0.5), SAME_ALGEBRA)
    # A stop operator moves on by u / (width * rate) a row.
    assert_close(Friction("stop", 0.5).directions(u, segments, 10.0).ravel()[1:], [0.0, 0.1, 0.7], SAME_ALGEBRA)
    with raises(InputError, Code.OUT_OF_RANGE, "width"):
        Friction("tanh")
    with raises(InputError, Code.INVALID_VALUE, "friction.width"):
        Friction("stop", -1.0)
    with raises(InputError, Code.INVALID_VALUE, "friction.reference[0]"):
        Friction(reference=(np.inf,))
    with raises(InputError, Code.INVALID_VALUE, "friction.direction"):
        Friction("soft")
    with raises(InputError, Code.INVALID_VALUE, "friction.shapes[0]"):
        Friction(shapes=("none",))


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_stop_operator_is_a_clipped_sum_from_the_start_of_every_segment(seed):
    rng = np.random.default_rng(seed)
    steps = rng.normal(size=(57, 2)) * 0.6
    segments = np.repeat([3, 4, 9], [20, 1, 36])
    expected = np.zeros_like(steps)
    for k in range(1, len(steps)):
        if segments[k] == segments[k - 1]:
            expected[k] = np.clip(expected[k - 1] + steps[k], -1, 1)
    assert_close(_stop_operator(steps, segments), expected, SAME_ALGEBRA)


@pytest.mark.parametrize("decimation", [1, 3, 4])
@pytest.mark.parametrize(("inner", "begun"), [(range(0, 30), 0), (range(5, 22), 2), (range(11, 30), 7)])
def test_runs_take_every_nth_row_of_a_segment_from_its_first(decimation, inner, begun):
    samples = samples_of(np.repeat([0, 1], [10, 20]))
    taken = [
        row
        for first, last in _even_sequences(SampleSegment(samples, inner, begun), decimation)
        for row in range(first, last, decimation)
    ]
    expected = [row for row in inner if decimation == 1 or (row + begun if row < 10 else row - 10) % decimation == 0]
    assert taken == expected
    assert segment_ends(samples.segments) == [(0, 10), (10, 30)]


@pytest.mark.parametrize("sizes", [[8, 8, 8, 6], [1, 2, 20, 3, 4], [30]])
@pytest.mark.parametrize("reach", [1, 5, 40])
def test_blocks_come_with_the_rows_around_them(sizes, reach):
    segments = np.repeat([0, 1], [13, 17])
    whole = samples_of(segments)
    ends = np.cumsum([0, *sizes])
    given = [whole.take(slice(a, b)) for a, b in pairwise(ends)]
    segments_rows = list(_overlapping(given, reach))
    assert len(segments_rows) == len(sizes)
    for segment, (begin, end) in zip(segments_rows, pairwise(ends), strict=True):
        rows = segment.samples.q[:, 0].astype(int).tolist()
        first, last = max(0, begin - reach), min(30, end + reach)
        assert rows == list(range(first, last))
        assert [rows[k] for k in segment.inner] == list(range(begin, end))
        assert segment.begun == (first if first < 13 else first - 13)


def test_edges_of_filters_are_whole_rows():
    assert [_edge_rows(2.0, 100.0), _edge_rows(50.0, 100.0), _edge_rows(50.0, 101.0)] == [25, 10, 11]


class Fake:
    joint_names = ("x", "y")
    unforced = ()

    @staticmethod
    def width(joint):
        return (3, 4)[joint]


def test_joints_need_motion_and_more_rows_than_parameters():
    moved = np.array([[0.0, 0.0], [1.0, 2e-9]])
    require_enough_rows(Fake, (4, 5), moved)
    with raises(InputError, Code.TOO_LITTLE_DATA, "y"):
        require_enough_rows(Fake, (4, 4), moved)
    with raises(InputError, Code.NOT_IDENTIFIABLE, "y") as rejected:
        require_enough_rows(Fake, (4, 5), np.array([[0.0, 0.25], [1.0, 0.25 + 5e-10]]))
    assert "--lock y=0.25," in str(rejected.value.hint)
    with raises(InputError, Code.MISSING_VALUE, "samples"):
        require_enough_rows(Fake, (4, 5), None)


def information(seed, scale=1.0):
    rng = np.random.default_rng(seed)
    rows = [rng.normal(size=(30, 3)) * scale, rng.normal(size=(20, 4))]
    columns = (np.array([0, 2]), np.array([0, 1, 2]))
    factors = tuple(triangle_of(row) for row in rows)
    return Information(("x", "y"), NAMES, columns, factors, (30, 20)), rows


def test_information_weighs_joints_by_the_root_of_their_weights():
    result, rows = information(0)
    weights = np.array([4.0, 0.25])
    R, z = result.stacked(weights)
    wide = [np.zeros((30, 4)), np.zeros((20, 4))]
    wide[0][:, [0, 2, 3]], wide[1][:, [0, 1, 2, 3]] = rows[0], rows[1]
    whole = np.vstack([2 * wide[0], 0.5 * wide[1]])
    joined = np.column_stack([R, z])
    assert_close(joined.T @ joined, whole.T @ whole, SAME_ALGEBRA)
    beta = np.array([1.0, -2.0, 0.5])
    squares = [np.sum((item[:, :3] @ beta - item[:, 3]) ** 2) for item in wide]
    assert_close(result.residuals(beta), squares, SAME_ALGEBRA)
    assert_close(result.torques(), [np.sum(row[:, -1] ** 2) for row in rows], SAME_ALGEBRA)
    scaled = whole[:, :3] / np.linalg.norm(whole[:, :3], axis=0)
    assert_close(result.condition_number(weights), np.linalg.cond(scaled), SAME_ALGEBRA)
    solved = solve(R, z)
    assert_close(solved.beta, np.linalg.lstsq(whole[:, :3], whole[:, 3], rcond=None)[0], SAME_ALGEBRA)
    assert_close(solved.inverse, np.linalg.inv(whole[:, :3].T @ whole[:, :3]), SAME_ALGEBRA)
    assert solved.rank == 3


def test_information_of_parts_counts_rows_together():
    (item, first), (other, second) = information(0), information(1, 3.0)
    both = item + other
    assert both.counts == (60, 40)
    for factor, a, b in zip(both.factors, first, second, strict=True):
        assert_close(factor.T @ factor, a.T @ a + b.T @ b, SAME_ALGEBRA)
    assert add_information([item]) is item
    with raises(InputError, Code.DISAGREEMENT, "information"):
        add_information([item, replace(other, names=("a", "b", "z"))])


def test_parameters_that_only_come_together_are_named_with_each_other():
    result, rows = information(0)
    rows[0][:, 1] = 2 * rows[0][:, 0]
    rows[1][:, 2] = 2 * rows[1][:, 0]
    tied = replace(result, factors=tuple(triangle_of(row) for row in rows))
    assert tied.unidentifiable() == {"a": ("c",), "c": ("a",)}
    assert tied.condition_number() == float("inf")
    assert result.unidentifiable() == {}
    assert null_space(np.eye(3)).shape == (3, 0)
    few = triangle_of(np.array([[1.0, 2.0, 3.0]]))
    assert few.shape == (3, 3)
    assert_close(few.T @ few, np.outer([1.0, 2.0, 3.0], [1.0, 2.0, 3.0]), SAME_ALGEBRA)
    assert_close(few[1:] + 1.0, np.ones((2, 3)), EXACT)


@pytest.mark.parametrize("given", ["auto", 20.0])
def test_settings_reject_a_conditioning_of_another_class_at_once(given):
    with raises(InputError, Code.WRONG_TYPE, "conditioning"):
        EquationSettings(given)
