"""Rows of step-by-step tests: speeds of still encoders, onsets of motion, integrals, whitened readings.

Private functions are tested directly: inputs at their limits are rare, or slow to reach, through public names.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from closeness import EXACT, ORACLE, SAME_ALGEBRA, assert_close
from raising import raises

from mindyn.applications.step_tests.step_rows import (
    SIGN_SPEED,
    MotionRows,
    RowMaker,
    _differentiate,
    _require_both_ways,
    breakaway_onsets,
    find_held_motion,
)
from mindyn.foundation.errors import Code
from mindyn.logs.log import log_from_arrays
from mindyn.logs.log_errors import LogError
from mindyn.motions.step_plans.step_motions import Breakaways
from mindyn.regression.integrated import QUADRATURE_ROWS


def test_a_still_encoder_has_the_direction_of_the_nearest_motion():
    t = np.arange(12.0)
    q = np.array([0.0, 1, 2, 3, 3, 3, 3, 3, 3, 2, 1, 0])[:, None]
    qd = _differentiate(q, t)[:, 0]
    assert qd[[0, 1, 2, 3]].tolist() == [1.0, 1.0, 1.0, 0.5]
    assert qd[8:].tolist() == [-0.5, -1.0, -1.0, -1.0]
    assert_close(qd[4:8] / SIGN_SPEED, [1.0, 1.0, -1.0, -1.0], EXACT)
    odd = _differentiate(np.array([0.0, 1, 2, 2, 2, 2, 1, 0])[:, None], np.arange(8.0))[:, 0]
    assert_close(odd[3:5] / SIGN_SPEED, [1.0, -1.0], EXACT)
    middle = _differentiate(np.array([0.0, 1, 1, 1, 1, 1, 0])[:, None], np.arange(7.0))[:, 0]
    assert middle[3] == 0.0  # as near to the way up as to the way down
    assert not _differentiate(np.ones((5, 1)), np.arange(5.0)).any()


MOTION = SimpleNamespace(name="push", joints=(1,), joint=1)


def test_held_joints_are_at_their_mean_and_do_not_move():
    rng = np.random.default_rng(0)
    t = np.arange(20) / 10
    q = np.column_stack([0.3 + 1e-3 * rng.normal(size=20), np.sin(t)])
    qd, tau = rng.normal(size=(2, 20, 2))
    held_motion = find_held_motion(MOTION, log_from_arrays(("a", "b"), t, q, tau, qd))
    assert_close(held_motion[0], np.column_stack([np.full(20, q[:, 0].mean()), q[:, 1]]), EXACT)
    assert_close(held_motion[1], np.column_stack([np.zeros(20), qd[:, 1]]), EXACT)
    assert_close(held_motion[2], t, EXACT)
    without = find_held_motion(MOTION, log_from_arrays(("a", "b"), t, q, tau))
    assert_close(without[1][:, 1], np.gradient(q[:, 1], t)[1:-1], EXACT)
    assert_close(without[3], tau[1:-1], EXACT)


def test_breakaways_are_where_a_speed_begins():
    qd = np.array([[9.0, v] for v in (0.0, 0.1, 0.2, 0.0, -0.1, -0.1, 0.3)])
    log = log_from_arrays(("a", "b"), np.arange(7.0), qd, qd, qd)
    assert breakaway_onsets(MOTION, log).tolist() == [0, 1, 0, 0, -1, 0, 1]
    with raises(LogError, Code.MISSING_VALUE, "velocity"):
        breakaway_onsets(MOTION, log_from_arrays(("a", "b"), np.arange(7.0), qd, qd))
    _require_both_ways(MOTION, "b", 0.5, 1, 1)
    for counts, text in (((1, 0), "forwards"), ((0, 1), "backwards"), ((0, 0), "in no direction")):
        with raises(LogError, Code.TOO_LITTLE_DATA, "b") as raised:
            _require_both_ways(MOTION, "b", 0.5, *counts)
        assert text in raised.value.message


def test_rows_are_whitened_by_the_weights_of_their_readings():
    rng = np.random.default_rng(1)
    A, z, W, D = rng.normal(size=(3, 4)), rng.normal(size=3), rng.normal(size=(3, 9)), rng.normal(size=(3, 2))
    white_A, white_z, white_D = MotionRows(A, z, W, D).whiten()
    root = np.linalg.cholesky(W @ W.T)
    assert_close(root @ white_A, A, ORACLE)
    assert_close(root @ white_z, z, ORACLE)
    assert_close(root @ white_D, D, ORACLE)


@pytest.mark.parametrize("rule", ["trapezoid", "gregory"])
def test_weights_are_integrals_over_intervals(rule):
    maker = RowMaker(SimpleNamespace(torque=None), rule, 3, 0.0)
    t = np.linspace(1.0, 4.0, 61)
    bounds = np.array([0, 20, 40, 60])
    W = maker._weights(MOTION, t, bounds)
    assert_close(W @ np.ones(61), np.ones(3), SAME_ALGEBRA)
    assert_close(W @ t, [1.5, 2.5, 3.5], SAME_ALGEBRA)
    assert (W[0, 21:] == 0).all()
    fewest = QUADRATURE_ROWS if rule == "gregory" else 3
    just = np.arange(3 * (fewest - 1) + 1.0)
    assert maker._weights(MOTION, just, np.arange(4) * (fewest - 1)).shape == (3, len(just))
    with raises(LogError, Code.TOO_LITTLE_DATA, "push"):
        maker._weights(MOTION, just, np.array([0, fewest - 2, 2 * fewest, 3 * (fewest - 1)]))
    uneven = t.copy()
    uneven[10] += 1e-3 * 0.05 * 2
    if rule == "gregory":
        with raises(LogError, Code.UNSUPPORTED, "push"):
            maker._weights(MOTION, uneven, bounds)
    else:
        assert_close(maker._weights(MOTION, uneven, bounds) @ uneven, [1.5, 2.5, 3.5], SAME_ALGEBRA)


def test_static_rows_are_half_the_sum_of_both_ways():
    maker = RowMaker(
        SimpleNamespace(torque=SimpleNamespace(base=SimpleNamespace(with_drives=True))), "trapezoid", 3, 0.5
    )
    motion = Breakaways("push", (0.0, 0.0), 0, (-1.0, 1.0))
    q = np.array([[-1.0, 0], [-1.0, 0], [1.0, 0], [1.0, 0]])
    qd = np.array([[1e-3, 0], [-1e-3, 0], [1e-3, 0], [-1e-3, 0]])
    wrong = log_from_arrays(("a", "b"), np.arange(4.0), q, np.array([[0.0, 0], [0.6, 0], [5, 0], [3, 0]]), qd)
    with raises(LogError, Code.DISAGREEMENT, "a"):
        maker.rows(motion, wrong, 0)
