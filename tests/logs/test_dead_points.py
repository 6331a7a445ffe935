"""A log whose loop passes a dead point is rejected between the rows where it does."""

from __future__ import annotations

import numpy as np

from mindyn.logs.log_errors import LogError
from mindyn.logs.loop_follower import LoopFollower
from mindyn.logs.samples import Samples
from mindyn.robots.loading import load_robot


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
