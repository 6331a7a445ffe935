"""Errors on held-out blocks: what is compared, and how sure a gain is."""

from __future__ import annotations

from math import inf, isinf, log, sqrt

import numpy as np
from closeness import SAME_ALGEBRA, assert_close

from mindyn.identification.selection.scores import UNSCORED, TrialScore, error_over, gain_of, joint_gain

POWER = np.array([[4.0, 1.0], [2.0, 1.0], [2.0, 2.0], [8.0, 4.0]])
LEFT = np.array([[0.4, 0.2], [0.1, 0.1], [0.2, 0.3], [0.9, 0.2]])


def test_the_criterion_serves_small_and_large_joints():
    score = TrialScore(LEFT, POWER)
    assert_close(score.mean, (sqrt(1.6 / 16) + sqrt(0.8 / 8)) / 2, SAME_ALGEBRA)
    assert_close(score.total, sqrt(2.4 / 24), SAME_ALGEBRA)
    assert_close(score.criterion, sqrt(score.mean * score.total), SAME_ALGEBRA)
    assert_close(error_over([score, TrialScore(4 * LEFT, POWER)]), sqrt(2) * score.criterion, SAME_ALGEBRA)


def test_a_gain_in_all_blocks_is_significant_and_in_a_single_block_is_not():
    score = TrialScore(LEFT, POWER)
    all_alike = gain_of([score], [TrialScore(0.81 * LEFT, POWER)])
    assert_close(all_alike.mean, -log(0.9), SAME_ALGEBRA)
    assert all_alike.deviation < 1e-12
    assert all_alike.is_significantly_above(0.1)
    assert not all_alike.is_significantly_above(0.11)
    # One block becomes much better, all others worse: the error falls, and nobody knows where it will next.
    factors = np.array([1.4, 1.4, 1.4, 0.3])[:, None]
    lucky = gain_of([score], [TrialScore(factors * LEFT, POWER)])
    gains = -np.log(factors[:, 0]) / 2
    assert_close(lucky.deviation, gains.std(ddof=1) / 2, SAME_ALGEBRA)
    assert lucky.mean > 0.02
    assert not lucky.is_significantly_above(0.02)


def test_the_cut_with_the_most_blocks_gives_the_deviation():
    halves = [
        TrialScore(np.array([item[:2].sum(axis=0), item[2:].sum(axis=0)]), _halves(POWER))
        for item in (LEFT, 0.5 * LEFT)
    ]
    uneven = TrialScore(np.array([0.3, 0.5, 0.4, 0.9])[:, None] * LEFT, POWER)
    both = gain_of([halves[0], TrialScore(LEFT, POWER)], [halves[1], uneven])
    alone = gain_of([TrialScore(LEFT, POWER)], [uneven])
    assert_close(both.deviation, alone.deviation, SAME_ALGEBRA)
    assert_close(both.mean, (log(2) / 2 + alone.mean) / 2, SAME_ALGEBRA)


def _halves(power):
    return np.array([power[:2].sum(axis=0), power[2:].sum(axis=0)])


def test_equal_candidates_differ_significantly_in_one_of_twenty_cases():
    """One-sided, paired over blocks; and a difference of three standard deviations is nearly always found."""
    rng = np.random.default_rng(0)

    def share(gain):
        factors = np.exp(0.02 * rng.normal(size=(2000, 8)) - gain)
        power, left = np.ones((8, 2)), np.full((8, 2), 0.01)
        pairs = [(TrialScore(left, power), TrialScore(f[:, None] ** 2 * left, power)) for f in factors]
        return np.mean([gain_of([before], [after]).is_significant for before, after in pairs])

    assert 0.035 < share(0.0) < 0.065
    assert share(0.02 * 3 / sqrt(8)) > 0.8
    assert not gain_of([TrialScore(LEFT[:1], POWER[:1])], [TrialScore(LEFT[:1] / 2, POWER[:1])]).is_significant


def test_a_gain_of_one_joint_does_not_depend_on_the_others():
    before, after = TrialScore(LEFT, POWER), TrialScore(LEFT * [0.81, 30.0], POWER)
    assert_close(joint_gain([before], [after], 0).mean, -log(0.9), SAME_ALGEBRA)
    assert joint_gain([before], [after], 0).is_significantly_above(0.1)
    assert not joint_gain([before], [after], 1).is_significantly_above(0.0)
    assert not joint_gain(
        [TrialScore(LEFT, POWER * [1.0, 0.0])], [TrialScore(LEFT, POWER * [1.0, 0.0])], 1
    ).is_significant


def test_joints_and_blocks_without_torque_are_ignored():
    silent = TrialScore(LEFT, POWER * [1.0, 0.0])
    alone = TrialScore(LEFT[:, :1], POWER[:, :1])
    assert_close([silent.mean, silent.total], [alone.mean, alone.total], SAME_ALGEBRA)
    empty = [TrialScore(np.vstack([item, np.zeros(2)]), np.vstack([POWER, np.zeros(2)])) for item in (LEFT, LEFT**2)]
    whole = [TrialScore(item, POWER) for item in (LEFT, LEFT**2)]
    assert_close(gain_of(empty[:1], empty[1:]), gain_of(whole[:1], whole[1:]), SAME_ALGEBRA)


def test_where_nothing_is_scored_nothing_is_gained():
    assert isinf(TrialScore(LEFT, 0 * POWER).criterion)
    assert isinf(UNSCORED.criterion)
    assert gain_of([UNSCORED], [TrialScore(LEFT, POWER)]) == (0.0, inf, 0.0, 0)
    assert not gain_of([UNSCORED], [TrialScore(LEFT, POWER)]).is_significantly_above(-1.0)
