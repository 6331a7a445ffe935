"""Rows between rows, delays, repeated motions and tables in step, by brute force and small numbers.

Private functions are tested directly: inputs at their limits are rare, or slow to reach, through public names.
"""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from closeness import EXACT, ORACLE, SAME_ALGEBRA, assert_close
from messages import messages
from numpy.polynomial import Polynomial
from raising import raises

from mindyn.foundation.errors import Code
from mindyn.logs.conditioning import Conditioning
from mindyn.logs.delay_scan import DelayScan, ScannedDelay, _orthonormal_basis, estimate_delay_without_model, scan_delay
from mindyn.logs.formats.tables import read_in_step, regroup_rows
from mindyn.logs.interpolation import _delay_weights, delay_rows, delay_selected_rows, interpolate_between_stamps
from mindyn.logs.log import log_from_arrays
from mindyn.logs.log_errors import LogError
from mindyn.logs.loop_follower import LoopFollower, add_dependent_positions
from mindyn.logs.periods import (
    Timeline,
    _extend_repeats,
    _find_period,
    _find_shared_motion,
    _fold_repeats,
    _place_on_timeline,
    _resample_evenly,
    build_timeline,
)
from mindyn.logs.read_log import sample_segments
from mindyn.logs.samples import Samples
from mindyn.logs.segments import SegmentPiece, _interpolate_log, resample_pieces
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


class Rows:
    """A table of rows 0, 1, 2, ... that comes in chunks of its own lengths."""

    def __init__(self, name, *lengths):
        self.name, self.lengths = name, lengths

    def chunks(self, names, _rows):
        start = 0
        for length in self.lengths:
            yield {name: np.arange(start, start + length) for name in names}
            start += length


def test_tables_are_read_in_step():
    entry, two = Rows("one.csv", 2, 3, 1), Rows("two.csv", 6)
    parts = list(read_in_step([(entry, ["a"]), (two, ["b"])], 4, "run"))
    assert [[chunk.tolist() for part in step for chunk in part.values()] for step in parts] == [
        [[0, 1, 2, 3], [0, 1, 2, 3]],
        [[4, 5], [4, 5]],
    ]
    assert [len(step[0]["a"]) for step in read_in_step([(entry, ["a"])], 4, "run")] == [2, 3, 1]
    with raises(LogError, code=Code.DISAGREEMENT, subject="run"):
        list(read_in_step([(entry, ["a"]), (Rows("three.csv", 13), ["b"])], 4, "run"))
    with raises(LogError, code=Code.DISAGREEMENT, subject="run"):
        list(read_in_step([(entry, ["a"]), (Rows("none.csv"), ["b"])], 4, "run"))
    assert list(read_in_step([(Rows("x"), ["a"]), (Rows("y"), ["b"])], 4, "run")) == []
    blocks = list(regroup_rows(iter(Rows("x", 1, 9, 2).chunks(["a"], 3)), 4))
    assert [block["a"].tolist() for block in blocks] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
    rest = list(regroup_rows(iter(Rows("x", 5).chunks(["a"], 3)), 4))
    assert [len(item["a"]) for item in rest] == [4, 1]


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


def test_a_timeline_repeats_from_a_quarter_on():
    def line(repeats, period=None):
        return Timeline((), 1.0, period, repeats)

    assert not line(1.25).repeated
    assert line(1.26).repeated
    assert line(1.2, 3.0).sentence == ""
    assert line(2.5).sentence.startswith("the logs repeat their motion (2.5 times): errors on other motions")
    assert line(2.5, 3.14159).sentence.startswith("one motion of 3.14 s repeats (2.5 times)")


def circle(rows, period, start=0):
    turn = 2 * np.pi * (start + np.arange(rows)) / period
    return np.column_stack([np.cos(turn), np.sin(turn)]) / 2


def test_a_log_is_folded_on_its_period_behind_its_approach():
    line, period = _fold_repeats(circle(250, 100), 0.1)
    assert period == 100
    assert line.tolist() == (np.arange(250) % 100).tolist()
    way = np.column_stack([np.linspace(1.2, 0.5, 30), np.linspace(-0.9, 0.0, 30)])
    behind, period = _fold_repeats(np.vstack([way, circle(270, 100)]), 0.1)
    assert period == 100
    first = int(np.argmax(np.diff(behind) < 0)) + 1 - 100
    assert 20 <= first <= 30
    assert behind.tolist() == [*range(first), *(first + (np.arange(300 - first)) % 100)]
    back, period = _fold_repeats(np.vstack([circle(270, 100), way[::-1]]), 0.1)
    assert period == 100
    assert back[:200].tolist() == (np.arange(200) % 100).tolist()
    assert back[-1] == back[:270].max() + 300 - (270 + (back[270:] < 100).sum())
    alone, period = _fold_repeats(circle(80, 100), 0.1)
    assert (alone.tolist(), period) == (list(range(80)), None)


def test_what_repeats_grows_to_the_rows_beside_it_that_do():
    q = circle(300, 100)
    assert _extend_repeats(q, 30, 250, 100) == (0, 300)
    q[:20] += 1.0
    q[280:] += 1.0
    assert _extend_repeats(q, 30, 250, 100) == (20, 280)
    edge = circle(300, 100)
    edge[10] += 0.079
    edge[9] += 0.081
    assert _extend_repeats(edge, 30, 250, 100)[0] == 10


@pytest.mark.parametrize(("noise", "found"), [(0.03, True), (0.05, False)])
def test_motion_comes_again_within_a_part_of_its_range(noise, found):
    """rms of the difference is sqrt(2) times a joint's own noise: 0.042 and 0.07 of its range against 0.04, 0.08."""
    rng = np.random.default_rng(1)
    q = circle(400, 100) + noise / np.sqrt(2) * rng.choice([-1.0, 1.0], size=(400, 2))
    assert (_find_period(q, 0.1) is not None) == found


def test_motions_shorter_than_half_a_second_do_not_repeat():
    q = circle(400, 10)
    assert _find_period(q, 0.1) == 10
    assert _find_period(q, 0.05) == 20  # 0.5 s is the shortest that counts: two turns
    assert _find_period(circle(120, 100), 0.1) is None  # a quarter of the period must come again
    assert _find_period(circle(126, 100), 0.1) == 100
    slow = 0.05 * circle(400, 100)
    assert _find_period(slow, 0.1) is None  # never as much as 8 % away


def test_two_logs_share_a_motion_where_half_of_the_shorter_agrees():
    q = circle(300, 400)
    assert _find_shared_motion(q[100:200], q) == 100
    assert _find_shared_motion(q, q[100:200]) == -100
    assert _find_shared_motion(q[:200], q[90:]) == -90
    assert _find_shared_motion(q[:100], q[160:]) is None
    rest = np.zeros((200, 2))
    assert _find_shared_motion(rest, rest) is None  # poses at rest agree without any motion


def test_rows_far_from_another_log_keep_places_of_their_own():
    q = circle(100, 400)
    other = q.copy()
    other[40:42, 0] += [0.17, -0.17]
    other[20:22, 0] += [0.15, -0.15]
    placed, end = _place_on_timeline(q, np.arange(100), None, [(other, 500 + np.arange(100))], 1000)
    expected = 500 + np.arange(100)
    expected[40:42] = [1000, 1001]
    assert placed.tolist() == expected.tolist()
    assert end == 1002


def test_positions_every_step():
    time = np.array([2.0, 3.0, 5.0])
    assert_close(
        _resample_evenly(time, np.array([[0.0], [1.0], [2.0]]), 0.5)[:, 0], [0, 0.5, 1, 1.25, 1.5, 1.75], ORACLE
    )
    assert _resample_evenly(time[:1], np.array([[4.0]]), 0.5).tolist() == [[4.0]]


def test_logs_without_motion_or_time_follow_each_other():
    time = np.array([1.0, 2.0, 4.0])
    still = build_timeline([time, time], [np.zeros((3, 2)), np.zeros((3, 2))])
    assert (still.length_s, still.period_s, still.repeats) == (6.0, None, 1.0)
    assert [time.tolist() for time in still.times] == [[0, 1, 3], [3, 4, 6]]
    instant = build_timeline([time[:1]], [np.ones((1, 2))])
    assert (instant.length_s, instant.repeats) == (0.0, 1.0)


TONES = ((0.7, 1.0), (1.9, 0.6), (3.1, 0.5), (5.3, 0.3))


def in_steps(*delays, rate=200.0, rows=2000, noise=0.0):
    """Samples whose torques are accelerations some seconds ago, of another motion for each joint."""
    t, columns = np.arange(rows) / rate, []
    for joint, seconds in enumerate(delays):
        tones = [(w * (1 + 0.13 * joint), size) for w, size in TONES]
        q = sum(size * np.sin(w * t + w) for w, size in tones)
        qd = sum(size * w * np.cos(w * t + w) for w, size in tones)
        qdd = -sum(size * w * w * np.sin(w * t + w) for w, size in tones)
        tau = -sum(size * w * w * np.sin(w * (t - seconds) + w) for w, size in tones)
        columns.append((q, qd, qdd, tau + noise * np.random.default_rng(joint).normal(size=rows)))
    arrays = [np.column_stack(item) for item in zip(*columns, strict=True)]
    names = tuple("abcdef"[: len(delays)])
    return Samples(names, *arrays, rate, np.zeros(rows, dtype=np.int64))


def own_accelerations(samples):
    return lambda rows: [samples.qdd[rows, j : j + 1] for j in range(samples.qdd.shape[1])]


def test_a_delay_is_noticeable_when_it_halves_what_is_left():
    assert ScannedDelay(0.01, 0.049, 0.1).is_noticeable
    assert not ScannedDelay(0.01, 0.051, 0.1).is_noticeable
    assert not ScannedDelay(0.01, 0.0, 1e-9).is_noticeable
    assert ScannedDelay(0.01, 0.0, 1.1e-9).is_noticeable


def test_all_joints_have_one_delay():
    samples = in_steps(0.03, 0.03, -0.02)
    scan = DelayScan(samples, own_accelerations(samples))
    common = scan.best()
    assert 0.0 < common.seconds < 0.03
    assert_close(common.unexplained, scan.unexplained(common.seconds).mean(), ORACLE)
    assert_close(common.unexplained_without, scan.unexplained(0.0).mean(), ORACLE)
    share = scan.unexplained(0.0)[0]
    U = samples.qdd[scan.rows, 0] / np.linalg.norm(samples.qdd[scan.rows, 0])
    torque = np.convolve(samples.tau[:, 0], np.array([1, 4, 6, 4, 1]) / 16, mode="same")[scan.rows]
    left = ((torque - U * (U @ torque)) ** 2).sum() / ((torque - torque.mean()) ** 2).sum()
    assert_close(share, left, 1e-6)


def test_rows_where_friction_turns_over_are_not_compared_where_there_are_others():
    samples = in_steps(0.0)
    scan = DelayScan(samples, own_accelerations(samples), direction=samples.qd)
    rows, _ = scan._parts[0]
    assert len(rows) < len(scan.rows)
    turns = np.flatnonzero(np.diff(np.sign(samples.qd[:, 0])) != 0)
    assert min(np.abs(rows[:, None] - turns - 0.5).min(axis=1)) > 20
    shaking = np.where(np.arange(2000) % 30 < 15, 1.0, -1.0)[:, None]
    every = DelayScan(samples, own_accelerations(samples), direction=shaking)
    assert len(every._parts[0][0]) == len(every.rows)


def test_a_basis_spans_the_columns_and_no_more():
    Y = np.random.default_rng(0).normal(size=(20, 3))
    Y = np.column_stack([1e6 * Y, Y @ [1.0, 2.0, 3.0], np.zeros(20)])
    U = _orthonormal_basis(Y)
    assert U.shape == (20, 3)
    assert_close(U.T @ U, np.eye(3), ORACLE)
    assert_close(U @ (U.T @ Y), Y, ORACLE)


def test_early_torques_are_found_as_late_ones_are():
    assert scan_delay(in_steps(-0.03)).seconds == pytest.approx(-0.03, abs=1e-3)
    samples = in_steps(0.02)
    assert DelayScan(samples, own_accelerations(samples)).best().seconds == pytest.approx(0.02, abs=1e-4)


def test_a_chosen_delay_is_that_of_all_segments():
    samples = in_steps(0.03, rows=1200)
    time = np.arange(1200) / 200
    log = log_from_arrays(("a",), time, samples.q, samples.tau, samples.qd, samples.qdd)
    c = Conditioning(rate_hz=200.0, stamps="uniform", motion_hz=None, edge_s=0.1, delay_s=0.5)
    delay_without_model = estimate_delay_without_model([log.take(slice(0, 600)), log.take(slice(600, None))], c)
    assert delay_without_model == pytest.approx(0.03, abs=2e-3)


def test_what_followed_loops_say():
    robot = load_robot("slider_crank")
    follower = LoopFollower(robot)
    assert follower.note() == ""
    follower.residual, follower.margin = 2e-15, 0.123456
    assert "were followed along the log" in follower.note()
    assert "close to 2.0e-15 of their length, and stay at least 0.12 away" in follower.note()
    q = np.zeros((2, 1))
    assert add_dependent_positions(robot, q, None) is q


def find_rejected_rows(s, change, segments, last=None):
    """Return whether rows with these measures are rejected, and between which rows."""
    follower = LoopFollower(load_robot("slider_crank"))
    n = len(s)
    samples = Samples(("ram",), *[np.full((n, 1), 0.5)] * 4, 100.0, np.array(segments))
    known = np.column_stack([np.zeros(n), s, 100.0 * np.array(change)])
    follower._last = last
    try:
        follower._require_no_dead_point(samples, known, 10 + np.arange(n))
    except LogError as error:
        return [int(word) for word in error.message.split()[2:5:2]]
    return None


def test_a_dead_point_lies_where_the_measure_would_pass_zero():
    assert find_rejected_rows([0.3, 0.2, 0.3], [-0.1, 0.0, 0.1], [0, 0, 0]) is None
    assert find_rejected_rows([0.3, 0.2, 0.3], [-0.31, 0.0, 0.1], [0, 0, 0]) == [10, 11]
    assert find_rejected_rows([0.3, 0.2, 0.3], [-0.1, 0.0, 0.31], [0, 0, 0]) == [11, 12]
    assert find_rejected_rows([0.3, 0.2, 0.3], [-0.1, 0.0, 0.31], [0, 0, 1]) is None  # another segment begins anywhere
    assert find_rejected_rows([0.3, 0.3], [0.31, 0.1], [0, 0]) is None  # moving away
    assert find_rejected_rows([0.9, 0.3, 0.5], [-0.1, -0.31, 0.1], [0, 0, 0]) == [11, 12]
    assert find_rejected_rows([0.9, 0.5, 0.3], [0.0, 0.0, 0.31], [0, 0, 0]) == [11, 12]
    before = (0, np.zeros(1), np.array([0.0, 0.2, -21.0]), 7)
    assert find_rejected_rows([0.3, 0.3], [0.0, 0.0], [0, 0], before) == [7, 10]
    assert find_rejected_rows([0.3, 0.3], [0.0, 0.0], [1, 1], before) is None
    away = (0, np.zeros(1), np.array([0.0, 0.2, 21.0]), 7)
    assert find_rejected_rows([0.3, 0.3], [0.0, 0.0], [0, 0], away) is None
    assert find_rejected_rows([0.3, 0.3], [0.31, 0.0], [0, 0], away) == [7, 10]


def test_samples_of_robots_without_solved_loops_stay_as_they_are():
    robot = load_robot("planar2")
    samples = replace(in_steps(0.0, 0.0), joint_names=robot.joint_names)
    follower = LoopFollower(robot)
    assert follower.follow(samples, np.arange(len(samples))) is samples
    assert follower.note() == ""
