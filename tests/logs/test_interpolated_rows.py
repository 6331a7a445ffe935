"""Rows between rows: polynomials are kept, uniform rows know their stamps, every window has its surroundings.

Private functions are tested directly: inputs at their limits are rare, or slow to reach, through public names.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from closeness import EXACT, ORACLE, SAME_ALGEBRA, assert_close
from messages import messages
from numpy.polynomial import Polynomial
from raising import raises

from mindyn.foundation.errors import Code
from mindyn.foundation.findings import Kind
from mindyn.logs.conditioning import Conditioning
from mindyn.logs.interpolation import _delay_weights, delay_rows, delay_selected_rows, interpolate_between_stamps
from mindyn.logs.log import log_from_arrays
from mindyn.logs.log_errors import LogError
from mindyn.logs.pipeline import SampleStream
from mindyn.logs.read_log import sample_segments
from mindyn.logs.resolving import read_first_rows, uniform_segments
from mindyn.logs.segments import SegmentPiece, _interpolate_log, cut_windows, resample_pieces, split_at_gaps
from mindyn.robots.loading import load_robot

CUBIC = Polynomial([0.3, -1.0, 0.5, 0.25])


SEVENTH = Polynomial([0.2, 1.0, -0.5, 0.1, 0.3, -0.2, 0.05, 0.1])


def test_four_stamps_keep_a_cubic_and_fewer_a_line():
    time = np.array([0.0, 0.4, 1.1, 1.5, 2.3, 3.0])
    wanted = np.array([-0.1, 0.0, 0.2, 1.2, 1.5, 2.9, 3.2])
    assert_close(interpolate_between_stamps(time, CUBIC(time)[:, None], wanted)[:, 0], CUBIC(wanted), ORACLE)
    wild = CUBIC(time)
    wild[5] += 9.0  # beyond the four stamps around 1.2
    assert_close(interpolate_between_stamps(time, wild, np.array([1.2])), CUBIC(np.array([1.2])), ORACLE)
    assert_close(interpolate_between_stamps(time[:2], np.array([1.0, 3.0]), np.array([0.1])), [1.5], ORACLE)
    assert_close(interpolate_between_stamps(time[:1], np.array([7.0]), np.array([0.1])), [7.0], EXACT)
    assert_close(interpolate_between_stamps(time[:3], time[:3] ** 2, np.array([0.9])), [0.81], ORACLE)


@pytest.mark.parametrize("rows", [0.25, -0.75, 1.5, -2.3, 3.0])
def test_eight_rows_keep_a_polynomial_of_degree_seven(rows):
    k = np.linspace(-1, 1, 30)
    step = k[1] - k[0]
    x = SEVENTH(k)
    inner = np.arange(10, 20)
    assert_close(delay_rows(x[:, None], rows)[inner, 0], SEVENTH(k[inner] - rows * step), ORACLE)
    assert_close(delay_selected_rows(x, rows, inner), SEVENTH(k[inner] - rows * step), ORACLE)
    assert_close(sum(w for _, w in _delay_weights(rows)), 1.0, ORACLE)
    assert [back for back, _ in _delay_weights(rows)] == [int(np.floor(rows)) + item for item in range(-3, 5)]
    assert_close(delay_rows(np.array([[4.0]]), rows), [[4.0]], SAME_ALGEBRA)


def straight(time):
    return log_from_arrays(("a",), time, time[:, None], 2 * time[:, None])


def test_uniform_rows_know_the_nearest_stamps():
    log = straight(np.array([0.0, 0.4, 1.0, 1.2]))
    created = _interpolate_log(log, np.array([0.0, 0.2, 0.21, 0.69, 0.71, 1.15, 1.2]))
    assert created.rows.tolist() == [0, 0, 1, 1, 2, 3, 3]  # of two as near, the earlier
    assert_close(created.q[:, 0], created.time, ORACLE)
    item = _interpolate_log(straight(np.array([0.5])), np.array([0.5]))
    assert item.rows.tolist() == [0]


def test_a_segment_of_one_row_and_one_after_it_are_made_uniform():
    first, second = straight(np.array([5.0])), straight(np.array([9.0, 9.1, 9.2]))
    created = list(resample_pieces([SegmentPiece(0, first, True), SegmentPiece(1, second, True)], 20.0))
    assert created[0].rows.time.tolist() == [5.0]
    assert_close(created[1].rows.time, [9.0, 9.05, 9.1, 9.15, 9.2], SAME_ALGEBRA)
    parts = [SegmentPiece(0, straight(np.array([0.0, 0.1])), False), SegmentPiece(0, straight(np.array([0.11])), True)]
    late = list(resample_pieces(parts, 10.0))
    assert [len(item.rows) for item in late] == [1, 1]
    last = list(
        resample_pieces(
            [SegmentPiece(0, straight(np.array([0.0, 0.1])), False), SegmentPiece(0, parts[1].rows, True)], 1.0
        )
    )
    assert [len(item.rows) for item in last] == [1, 0]  # a last piece without a row of its own ends the segment
    assert last[1].is_last


class Scan(list):
    findings, path = ("note",), SimpleNamespace(name="run")


@pytest.mark.parametrize(("count", "chunk"), [(1000, 100), (90, 30), (6400, 400), (10_000, 10_000)])
def test_a_sparse_log_is_spread_evenly(count, chunk):
    log = straight(np.arange(float(count)))
    segments = sample_segments(Scan(log.take(slice(k, k + chunk)) for k in range(0, count, chunk)), 160)
    rows = segments.rows
    assert messages(segments) == ("note",)
    if count <= 160:
        assert len(rows) == count
        return
    assert 80 <= len(rows) <= 170
    starts = rows[np.flatnonzero(np.diff(rows, prepend=-9) > 1)]
    assert len(starts) >= 8
    assert len(set(np.diff(starts))) == 1
    assert starts[0] == 0
    with raises(LogError, code=Code.TOO_LITTLE_DATA, subject="run"):
        sample_segments(Scan(), 160)


ROBOT = load_robot("planar2")


def log_at(time, names=ROBOT.joint_names):
    q = np.column_stack([np.sin((1 + k) * time) for k in range(len(names))])
    return log_from_arrays(names, time, q, 2 * q)


def test_settings_are_chosen_from_the_beginning_of_a_log(monkeypatch):
    monkeypatch.setattr("mindyn.logs.resolving.HEAD_ROWS", 30)
    log = log_at(np.arange(200) / 100)
    assert read_first_rows(log).rows.tolist() == list(range(30))
    resolved = Conditioning(rate_hz=100.0, stamps="uniform")
    gap = log_at(np.concatenate([np.arange(20), 30 + np.arange(20), [90.0]]) / 100)
    assert [len(part) for part in uniform_segments(resolved, [gap])] == [20, 20]  # a single row is not a segment
    with raises(LogError, code=Code.TOO_LITTLE_DATA, subject="rows"):
        uniform_segments(resolved, [log_at(np.arange(4.0))])


def test_pieces_know_the_gap_after_them():
    time = np.array([0.0, 1.0, 2.0, 5.0, 6.0, 8.0, 9.0])
    log = log_at(time)
    whole = list(split_at_gaps([log], 1.5))
    assert [(item.segment, item.rows.time.tolist(), item.is_last, item.gap_s) for item in whole] == [
        (0, [0.0, 1.0, 2.0], True, 3.0),
        (1, [5.0, 6.0], True, 2.0),
        (2, [8.0, 9.0], True, 0.0),
    ]
    assert [gap.gap_s for gap in split_at_gaps([log], 2.0)] == [3.0, 0.0]  # as long as the longest step: not a gap
    cut = list(split_at_gaps([log.take(slice(0, 2)), log.take(slice(2, 5)), log.take(slice(5, None))], 1.5))
    assert [(item.segment, len(item.rows), item.is_last) for item in cut] == [
        (0, 2, False),
        (0, 1, True),
        (1, 2, True),
        (2, 2, True),
    ]
    assert list(split_at_gaps([], 1.0)) == []


@pytest.mark.parametrize(("block", "reach"), [(10, 3), (7, 0), (40, 12), (5, 20), (None, 5), (1000, 2)])
def test_windows_hold_every_row_once_with_its_surroundings(block, reach):
    log = log_at(np.arange(100.0))
    parts = [SegmentPiece(0, log.take(slice(k, k + 6)), k + 6 >= 60) for k in range(0, 60, 6)]
    parts += [SegmentPiece(1, log.take(slice(k, k + 10)), k + 10 >= 100) for k in range(60, 100, 10)]
    begin, end = {0: 0, 1: 60}, {0: 60, 1: 100}
    seen = []
    for window in cut_windows(parts, block, reach):
        expected = window.rows.rows[window.start : window.stop]
        seen += expected.tolist()
        first, last = int(window.rows.rows[0]), int(window.rows.rows[-1]) + 1
        assert first == begin[window.segment] + window.index
        assert first <= max(begin[window.segment], expected[0] - reach)
        assert last >= min(end[window.segment], expected[-1] + 1 + reach)
        assert window.is_last == (last == end[window.segment] and expected[-1] + 1 == last)
        assert window.is_last or len(expected) >= block
        assert window.rows.rows.tolist() == list(range(first, last))
        if block is not None:
            assert len(window.rows) <= block + 2 * reach + 2 * 10
    assert seen == list(range(100))


class Chunks(list):
    """A log that is read a few rows at a time."""

    findings = ()


def test_a_new_segment_starts_where_rows_were_dropped():
    time = np.concatenate([np.arange(900), 920 + np.arange(900)]) / 100
    log = log_at(time)
    c = Conditioning(rate_hz=100.0, stamps="uniform", motion_hz=None, edge_s=0.02)
    for block in (None, 8):
        chunks = Chunks(log.take(slice(k, k + 10)) for k in range(0, len(log), 10))
        stream = SampleStream([chunks, log], ROBOT, c, block, ["chosen"])
        created = list(stream.blocks())
        assert (len(created) > 4) == (block is not None)
        rows = np.concatenate([item for _, item, _, _ in created])
        segments = np.concatenate([item.segments for item, _, _, _ in created])
        per_log = range(2, 898)
        expected = [*per_log, *(900 + k for k in per_log)]
        assert rows.tolist() == expected * 2
        assert segments.tolist() == [k for k in range(4) for _ in per_log]
        assert stream.first_segments == [0, 2]
        assert (stream.count, stream.rate_hz) == (len(rows), 100.0)
        assert messages(stream)[0] == "chosen"
        assert [finding.kind for finding in stream.findings[1:]] == [Kind.SPLIT_LOG] * 2
