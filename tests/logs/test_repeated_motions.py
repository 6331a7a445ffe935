"""Motions that come again: folding, shared lags and times equal sums over rows and lines written by hand.

Private functions are tested directly: inputs at their limits are rare, or slow to reach, through public names.
"""

from __future__ import annotations

import numpy as np
import pytest
from closeness import EXACT, ORACLE, assert_close

from mindyn.logs import periods
from mindyn.logs.periods import (
    _changes_by_lag,
    _concatenate_times,
    _extend_repeats,
    _find_period,
    _find_shared_motion,
    _fold_repeats,
    _place_on_timeline,
    build_timeline,
)


def by_rows(x, y):
    """Change and deviation at every lag, row by row."""
    change, deviation = [], []
    for lag in range(1 - len(x), len(y)):
        both = [i for i in range(len(x)) if 0 <= i + lag < len(y)]
        left = np.array([y[i + lag] - x[i] for i in both])
        change.append(np.sqrt((left**2).mean(axis=0)).max())
        deviation.append(np.array([x[i] for i in both]).std(axis=0).max())
    return np.array(change), np.array(deviation)


@pytest.mark.parametrize(("rows", "others"), [(7, 7), (5, 9), (9, 4), (1, 3)])
def test_changes_and_deviations_are_those_of_the_rows_that_both_have(rows, others):
    rng = np.random.default_rng(rows)
    x, y = rng.normal(3.0, 1.0, (rows, 2)), rng.normal(3.0, 1.0, (others, 2))
    change, deviation = _changes_by_lag(x, y)
    expected = by_rows(x, y)
    assert_close(change, expected[0], ORACLE)
    assert len(deviation) == rows + others - 1
    assert np.allclose(deviation, expected[1], rtol=0, atol=1e-7)  # of a root of a difference


def wave(rows, period, seed=0):
    """(rows, 2) of two joints between 0 and 1, that repeat after `period` rows."""
    phase = 2 * np.pi * np.arange(rows) / period
    return np.column_stack([0.5 + 0.5 * np.sin(phase + seed), 0.5 + 0.35 * np.cos(phase) + 0.15 * np.cos(2 * phase)])


def test_a_segment_grows_over_adjacent_rows_that_agree_with_the_row_one_period_away():
    q = wave(100, 20)
    q[:13] += 0.3
    q[90:] -= 0.2
    assert _extend_repeats(q, 40, 60, 20) == (13, 90)
    assert _extend_repeats(wave(100, 20), 40, 60, 20) == (0, 100)
    q[13] += 0.0799
    assert _extend_repeats(q, 40, 60, 20)[0] == 13
    q[13] += 0.01
    assert _extend_repeats(q, 40, 60, 20)[0] == 14


def test_a_log_is_folded_on_its_period_and_other_rows_keep_their_places():
    step = 0.1
    line, period = _fold_repeats(wave(120, 30), step)
    assert period == 30
    assert_close(line, np.arange(120) % 30, EXACT)
    approach = np.column_stack([np.linspace(0.9, 0.1, 12), np.linspace(0.0, 1.0, 12) ** 2])
    q = np.vstack([approach, wave(120, 30)])
    line, period = _fold_repeats(q, step)
    assert period == 30
    first = int(np.flatnonzero(np.diff(line) < 0)[0]) - 29
    assert 8 <= first <= 12
    assert_close(line[:first], np.arange(first), EXACT)
    assert_close(line[first:], first + np.arange(len(q) - first) % 30, EXACT)
    away = np.vstack([wave(120, 30), approach])
    line, period = _fold_repeats(away, step)
    last = len(line) - int(np.argmax(np.diff(line[::-1]) >= 0)) - 1
    assert line[-1] == line.max()
    assert_close(np.diff(line[last:]), np.ones(len(line) - last - 1), EXACT)
    assert line.max() + 1 == 30 + (len(away) - np.count_nonzero(np.isin(line, np.arange(30))))
    still, none = _fold_repeats(np.random.default_rng(0).random((50, 2)), step)
    assert none is None
    assert_close(still, np.arange(50), EXACT)


def test_logs_share_the_lag_of_least_change_over_half_of_the_shorter():
    q = np.cumsum(np.random.default_rng(1).normal(size=(80, 2)), axis=0)
    q = (q - q.min(axis=0)) / np.ptp(q, axis=0)
    assert _find_shared_motion(q[30:70], q) == 30
    assert _find_shared_motion(q, q[30:70]) == -30
    assert _find_shared_motion(q[:50], q[20:]) == -20
    assert _find_shared_motion(q[:40], q[21:61]) is None  # 19 of 40 rows in common, less than half
    assert _find_shared_motion(q[:40], q[19:59]) == -19
    assert _find_shared_motion(q[:40], q[40:]) is None


def test_rows_of_a_shared_motion_go_to_its_places_and_the_others_behind_the_end():
    q = np.cumsum(np.random.default_rng(1).normal(size=(80, 2)), axis=0)
    q = (q - q.min(axis=0)) / np.ptp(q, axis=0)
    known = [(q[:50], np.arange(100, 150))]
    placed, end = _place_on_timeline(q[20:], np.arange(60), None, known, 150)
    assert_close(placed, np.concatenate([np.arange(120, 150), np.arange(150, 180)]), EXACT)
    assert end == 180
    alone, end = _place_on_timeline(q, np.arange(80), None, [], 7)
    assert_close(alone, np.arange(7, 87), EXACT)
    assert end == 87
    twice = np.vstack([q[:40], q[:40]])
    folded = np.tile(np.arange(40), 2)
    placed, end = _place_on_timeline(twice, folded, 40, [(q[:25], np.arange(25))], 25)
    assert end == 25 + 15
    assert_close(placed[:25], np.arange(25), EXACT)
    assert_close(placed[40:65], np.arange(25), EXACT)
    assert_close(placed[25:40], np.arange(25, 40), EXACT)
    assert_close(placed[65:], placed[25:40], EXACT)
    spent, end = _place_on_timeline(twice, folded, 40, [], 0)
    assert end == 40
    assert_close(spent, folded, EXACT)


def test_times_on_the_line_go_on_within_its_steps(monkeypatch):
    monkeypatch.setattr(periods, "MAX_THINNED_ROWS", 200)
    t = 5.0 + np.arange(401) / 40  # 10 s
    q = np.column_stack([np.sin(2 * np.pi * t / 2.5), np.cos(2 * np.pi * t / 2.5)])
    timeline = build_timeline([t], [q])
    assert timeline.period_s == pytest.approx(2.5, abs=0.05)
    assert timeline.length_s == pytest.approx(2.5, abs=0.05)
    assert timeline.repeats == pytest.approx(4.0, rel=0.02)
    assert timeline.repeated
    (placed,) = timeline.times
    assert_close(placed[:-1], (t[:-1] - 5.0) % timeline.period_s, 0.03)
    again = build_timeline([t, t[:201]], [q, q[:201]])
    assert again.length_s == pytest.approx(2.5, abs=0.1)
    assert again.repeats == pytest.approx(6.0, rel=0.05)
    noise = np.cumsum(np.random.default_rng(2).normal(size=(401, 2)), axis=0)
    once = build_timeline([t], [noise])
    assert (once.period_s, once.repeats, once.repeated, once.sentence) == (None, 1.0, False, "")
    assert_close(once.times[0][:-1], t[:-1] - 5.0, ORACLE)
    both = build_timeline([t, t], [noise, noise])
    assert both.period_s is None
    assert both.repeats == pytest.approx(2.0, rel=0.02)


def test_a_joint_that_hardly_moves_gives_no_evidence():
    t = np.arange(400) / 40
    moving = np.sin(2 * np.pi * t / 2.5)
    drift = 0.019 * t / t[-1]
    assert build_timeline([t], [np.column_stack([moving, 2 * drift])]).period_s == pytest.approx(2.5, abs=0.05)
    assert build_timeline([t], [np.column_stack([moving, 2.3 * drift])]).period_s is None


def test_logs_without_any_motion_follow_each_other():
    times = [np.array([1.0, 2.0, 4.0]), np.array([0.0, 0.5])]
    first, second = _concatenate_times(times)
    assert_close(first, [0.0, 1.0, 3.0], EXACT)
    assert_close(second, [3.0, 3.5], EXACT)
    still = build_timeline(times, [np.ones((3, 1)), np.ones((2, 1))])
    assert (still.length_s, still.period_s, still.repeats) == (3.5, None, 1.0)
    assert_close(still.times[1], second, EXACT)


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


def test_a_motion_that_does_not_repeat_has_its_times_for_places():
    t = 7.0 + np.arange(900) / 30
    q = np.column_stack([np.sin(0.02 * (t - 7) ** 2), (t - 7) / 30])
    line = build_timeline([t], [q])
    assert line.period_s is None
    assert_close(line.times[0][:-2], t[:-2] - 7.0, 1e-9)
    two = build_timeline([t, t], [q, -q[::-1] + 0.3 * np.cos(q)])
    assert two.times[1][0] > two.times[0][0]
    again = build_timeline([t, t + 100], [q, q])
    assert_close(again.times[1], again.times[0], 1e-3)


def test_logs_whose_stamps_begin_late_have_the_same_line():
    t = np.arange(0, 25, 0.02)
    q = np.column_stack([np.sin(2 * np.pi * t / 10), np.cos(2 * np.pi * t / 10)])
    early, late = (build_timeline([t + begin], [q]) for begin in (0.0, 300.0))
    assert np.abs(late.times[0] - early.times[0]).max() < 0.01
    assert late.period_s == pytest.approx(early.period_s)
    assert early.length_s == pytest.approx(10.0, abs=0.05)
    assert early.repeats == pytest.approx(2.5, abs=0.02)
