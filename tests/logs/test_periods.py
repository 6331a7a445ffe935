"""Rows get equal times on the line of motions where, and only where, they make the same motion.

Private functions are tested directly: inputs at their limits are rare, or slow to reach, through public names.
"""

from __future__ import annotations

import numpy as np
import pytest
from closeness import ORACLE, assert_close

from mindyn.logs.periods import _changes_by_lag, _concatenate_times, _find_period, _place_on_timeline, build_timeline

STEP_S = 0.004


def fourier_motion(seed, period_s, seconds, approach_s=0.0, noise=1e-3):
    """Stamps and positions (N, 6): a straight way from a random pose, then a random Fourier series; encoder noise."""
    rng = np.random.default_rng(seed)
    time = np.arange(0, approach_s + seconds, STEP_S)
    angles = 2 * np.pi * np.outer(time - approach_s, np.arange(1, 6)) / period_s
    q = np.sin(angles) @ rng.normal(size=(5, 6)) + np.cos(angles) @ rng.normal(size=(5, 6))
    before = time < approach_s
    if before.any():
        home = rng.normal(size=6)
        q[before] = home + (q[before.sum()] - home) * (time[before] / approach_s)[:, None]
    return time, q + noise * rng.normal(size=q.shape)


def timeline(*motions):
    return build_timeline([time for time, _ in motions], [q for _, q in motions])


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(("periods", "approach_s"), [(1.3, 0.0), (2.0, 0.0), (3.4, 4.0), (5.0, 8.0)])
def test_a_period_is_found_behind_an_approach(seed, periods, approach_s):
    result = timeline(fourier_motion(seed, 10.0, periods * 10.0, approach_s))
    assert result.period_s == pytest.approx(10.0, abs=0.03)
    assert result.length_s == pytest.approx(10.0 + approach_s, abs=0.5)
    assert "repeats" in result.sentence


@pytest.mark.parametrize("seed", range(8))
def test_rows_of_one_phase_have_one_time(seed):
    time, q = fourier_motion(seed, 8.0, 20.0)
    (line,) = timeline((time, q)).times
    later = round(8.0 / STEP_S)
    apart = np.abs(line[later:] - line[:-later])
    assert np.minimum(apart, 8.0 - apart).max() < 0.05
    assert len(np.unique(line.round(1))) == pytest.approx(80, abs=2)


@pytest.mark.parametrize("seed", range(8))
def test_motions_seen_once_follow_each_other(seed):
    item, two = fourier_motion(seed, 30.0, 20.0), fourier_motion(seed + 100, 30.0, 25.0)
    result = timeline(item, two)
    assert result.period_s is None
    assert not result.repeated
    assert not result.sentence
    assert np.abs(np.concatenate(result.times) - np.concatenate([item[0], item[0][-1] + two[0]])).max() < 0.05


@pytest.mark.parametrize("seed", range(8))
def test_a_log_that_does_the_same_as_another_is_placed_on_it(seed):
    time, q = fourier_motion(seed, 30.0, 20.0)
    skipped = 500
    other = fourier_motion(seed + 100, 30.0, 12.0)
    result = timeline((time, q), other, (time[skipped:] + 77.0, q[skipped:]))
    assert np.abs(result.times[2] - result.times[0][skipped:]).max() < 0.05
    assert result.times[1].min() >= result.times[0].max() - 0.05
    assert result.repeated


def test_rest_at_both_ends_is_not_a_period():
    time = np.arange(0, 20, STEP_S)
    bump = np.where((time > 6) & (time < 14), np.sin((time - 6) * np.pi / 8) ** 2, 0.0)
    q = bump[:, None] * np.array([1.0, -0.5, 0.3])
    assert timeline((time, q)).period_s is None


def test_joints_at_rest_say_nothing():
    time, q = fourier_motion(3, 10.0, 25.0)
    q[:, 2] = 0.5 + 1e-5 * np.random.default_rng(0).normal(size=len(q))
    assert timeline((time, q)).period_s == pytest.approx(10.0, abs=0.03)
    assert timeline((time, np.zeros_like(q))).period_s is None


def test_changes_are_sums_over_the_overlap():
    rng = np.random.default_rng(5)
    x, y = rng.normal(size=(40, 3)), rng.normal(size=(25, 3))
    change, deviation = _changes_by_lag(x, y)
    for place, lag in enumerate(range(1 - len(x), len(y))):
        rows = [i for i in range(len(x)) if 0 <= i + lag < len(y)]
        moved = y[[i + lag for i in rows]] - x[rows]
        assert_close(change[place], np.sqrt((moved**2).mean(axis=0)).max(), ORACLE)
        if len(rows) > 1:
            assert_close(deviation[place], x[rows].std(axis=0).max(), ORACLE)


def test_logs_in_a_row_begin_where_the_one_before_ends():
    times = (np.array([5.0, 5.5, 6.0]), np.array([0.0, 2.0]), np.array([1.0, 1.5]))
    placed = _concatenate_times(times)
    assert [item.tolist() for item in placed] == [[0.0, 0.5, 1.0], [1.0, 3.0], [3.0, 3.5]]


@pytest.mark.parametrize("rows", [1, 2, 60, 125])
def test_a_log_shorter_than_the_shortest_period_has_none(rows):
    """Vibrations are no repeated motions, however well they repeat."""
    q = np.sin(2 * np.pi * np.outer(np.arange(rows), [1, 2]) / 20)
    assert _find_period(q, STEP_S) is None


def test_phases_that_another_log_does_not_have_are_places_of_their_own():
    """Two turns of a circle, and a log of rows 20 to 89 of one: the rest follows where the line ends."""
    turn = 2 * np.pi * np.arange(200) / 100
    q = np.column_stack([np.cos(turn), np.sin(turn)]) / 2
    line, others = np.arange(200) % 100, 1000 + np.arange(70)
    placed, end = _place_on_timeline(q, line, 100, [(q[20:90], others)], 5000)
    expected = np.array([*5000 + np.arange(20), *others, *5020 + np.arange(10)])
    assert placed.tolist() == [*expected, *expected]
    assert end == 5030
    alone, end = _place_on_timeline(q, line, 100, [], 7)
    assert alone.tolist() == (7 + line).tolist()
    assert end == 107
