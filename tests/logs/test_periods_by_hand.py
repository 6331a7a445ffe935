"""Motions that come again, against sums over rows one by one and lines written down by hand.

Private functions are tested directly: inputs at their limits are rare, or slow to reach, through public names.
"""

from __future__ import annotations

import numpy as np
import pytest
from closeness import EXACT, ORACLE, SAME_ALGEBRA, assert_close

from mindyn.logs import periods
from mindyn.logs.periods import (
    _changes_by_lag,
    _concatenate_times,
    _extend_repeats,
    _find_shared_motion,
    _fold_repeats,
    _place_on_timeline,
    _resample_evenly,
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
    assert "one motion of 2.5 s repeats (4 times)" in timeline.sentence
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
    assert "the logs repeat their motion (2 times)" in both.sentence


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


def test_even_rows_lie_on_the_lines_between_the_logged_ones():
    time, q = np.array([0.0, 1.0, 3.0]), np.array([[0.0, 1.0], [2.0, 1.0], [6.0, 5.0]])
    assert_close(_resample_evenly(time, q, 0.5)[:, 0], [0.0, 1.0, 2.0, 3.0, 4.0, 5.0], SAME_ALGEBRA)
    assert_close(_resample_evenly(time, q, 0.5)[:, 1], [1.0, 1.0, 1.0, 2.0, 3.0, 4.0], SAME_ALGEBRA)
    assert _resample_evenly(np.array([2.0, 2.0]), q[:2], 0.5).shape == (1, 2)
    assert_close(_resample_evenly(np.array([2.0]), q[1:2], 0.5), [[2.0, 1.0]], EXACT)
