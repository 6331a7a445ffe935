"""Loops that are solved for are followed along logs once: closed, from block to block, and never over a dead point."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from closeness import ORACLE, assert_close
from messages import messages
from raising import raises

import mindyn
from mindyn.equations.loop_closure import home_closure
from mindyn.foundation.errors import Code, InputError, RobotError
from mindyn.logs.conditioning import Conditioning
from mindyn.logs.log_errors import LogError
from mindyn.logs.loop_follower import LoopFollower
from mindyn.logs.pipeline import condition
from mindyn.logs.samples import Samples
from mindyn.regression.build_rows import build_rows
from mindyn.regression.regressor import Regressor

RATE_HZ = 100.0
RAW = Conditioning(motion_hz=None, edge_s=0.05, stamps="uniform")
IN_LINE = -np.arcsin(0.02 / 0.45)
"""Where crank and rod of the press are in line."""


def press(crank_angles):
    """The press with its ram as the primary joint, and what its ram does while the crank turns."""
    robot = replace(mindyn.load_robot("slider_crank"), drives=())
    q = home_closure(robot).along(np.asarray(crank_angles)[:, None])
    loop = replace(robot.loops[0], dependent=("crank", "rod"))
    return replace(robot, loops=(loop,), home=q[0]), q


def log_of(robot, p):
    return mindyn.log_from_arrays(robot.primary_names, np.arange(len(p)) / RATE_HZ, p, np.ones_like(p))


@pytest.mark.parametrize("phase", [0.0, 0.3, 0.5, 0.7])
def test_a_log_over_a_dead_point_is_rejected_by_name(phase):
    """The ram comes back the same way whether the crank passes or turns back: rows on both sides are distinguished."""
    robot, q = press(IN_LINE + 0.02 * (np.arange(-80, 70) + phase))
    with raises(LogError, code=Code.DISAGREEMENT) as rejected:
        condition(robot, log_of(robot, q[:, 2:]), RAW)
    assert "row" in str(rejected.value)
    assert "make it primary" in rejected.value.hint


def test_a_motion_that_turns_back_before_the_dead_point_is_followed():
    t = np.arange(1000) / RATE_HZ
    robot, q = press(IN_LINE - 0.35 + 0.3 * np.sin(2 * t))
    created = condition(robot, log_of(robot, q[:, 2:]), RAW)
    samples = created.samples
    assert_close(samples.dependent_q, q[created.rows][:, :2], ORACLE)
    assert samples.closure.shape == (len(samples), 2)
    assert samples.closure[:, 0].max() < 1e-14
    assert samples.closure[:, 1].min() < 0.2
    assert any("stay at least" in note for note in messages(created))


def in_blocks(samples, size):
    follower, rows = LoopFollower(samples[0]), np.arange(len(samples[1]))
    for start in range(0, len(rows), size):
        taken = slice(start, start + size)
        yield follower.follow(samples[1].take(taken), rows[taken])


def test_blocks_of_a_log_go_on_from_one_another():
    t = np.arange(1000) / RATE_HZ
    robot, q = press(IN_LINE - 0.35 + 0.3 * np.sin(2 * t))
    whole = condition(robot, log_of(robot, q[:, 2:]), RAW).samples
    plain = replace(whole, dependent_q=None, closure=None)
    result = np.concatenate([block.dependent_q for block in in_blocks((robot, plain), 70)])
    assert_close(result, whole.dependent_q, ORACLE)
    some = whole.take(np.arange(0, len(whole), 7))
    assert_close(Regressor(robot).positions(some)[:, :2], some.dependent_q, ORACLE)


@pytest.mark.parametrize("size", [79, 80, 81])
def test_a_dead_point_between_two_blocks_is_seen(size):
    robot, q = press(IN_LINE + 0.02 * (np.arange(-80, 70) + 0.5))
    p, pd = q[:, 2:], np.gradient(q[:, 2:], 1 / RATE_HZ, axis=0)
    plain = Samples(("ram",), p, pd, 0 * p, 0 * p, RATE_HZ, np.zeros(len(p), dtype=np.int64))
    with raises(LogError, (Code.AMBIGUOUS, Code.DISAGREEMENT)) as raised:
        list(in_blocks((robot, plain), size))
    assert (raised.value.code, raised.value.subject) in ((Code.AMBIGUOUS, "79"), (Code.DISAGREEMENT, "81"))


def test_a_position_that_cannot_close_names_its_row():
    t = np.arange(500) / RATE_HZ
    robot, _ = press(np.array([0.5]))
    p = 0.4 + 0.08 * np.sin(2 * t)[:, None]
    with raises(LogError, code=Code.DISAGREEMENT, subject="34"):
        condition(robot, log_of(robot, p), RAW)


def test_the_rows_are_those_of_loops_solved_from_home():
    robot = mindyn.load_robot("five_bar")
    t = np.arange(400) / RATE_HZ
    p = np.array([0.0, 0.1, -1.2]) + 0.3 * np.stack([np.sin(t), np.sin(1.3 * t), np.cos(1.7 * t)], axis=1)
    samples = condition(robot, log_of(robot, p), RAW).samples
    regressor = Regressor(robot)
    followed = regressor.dense(regressor.parts(regressor.positions(samples), samples.qd, samples.qdd))
    assert_close(followed, regressor.dense(regressor.parts(samples.q, samples.qd, samples.qdd)), ORACLE)


def by_hand(p, rate_hz=RATE_HZ):
    pd = np.gradient(p, 1 / rate_hz, axis=0)
    return Samples(("ram",), p, pd, np.gradient(pd, 1 / rate_hz, axis=0), 1 + p, rate_hz, np.zeros(len(p), np.int64))


def test_samples_made_by_hand_are_followed_as_logs_are():
    robot, q = press(IN_LINE + 0.02 * (np.arange(-80, 70) + 0.5))
    over = by_hand(q[:, 2:])
    true = mindyn.LeastSquares().fit(build_rows(robot, by_hand(q[:60, 2:])))
    for use in (lambda: build_rows(robot, over), lambda: true.predict(over)):
        with raises(LogError, code=Code.DISAGREEMENT, subject="81"):
            use()
    before = over.take(slice(0, 70))
    followed = build_rows(robot, before).all_samples("a test")
    assert_close(followed.dependent_q, q[:70, :2], ORACLE)
    assert followed.closure[:, 0].max() < 1e-14
    # Rows in no order are no motion: each stands in the assembly that home reaches.
    order = np.random.default_rng(0).permutation(70)
    mixed = build_rows(robot, before.take(order)).all_samples("a test")
    assert_close(mixed.dependent_q, q[order, :2], ORACLE)


def test_dependent_positions_that_do_not_close_are_rejected():
    robot, q = press(IN_LINE - 0.35 + 0.3 * np.sin(np.arange(60) / 10))
    samples, regressor = by_hand(q[:, 2:]), Regressor(robot)
    wrong = replace(samples, dependent_q=q[:, :2] + 0.3)
    with raises(RobotError, code=Code.NOT_CONVERGED):
        regressor.parts(regressor.positions(wrong), wrong.qd, wrong.qdd)
    with raises(InputError, code=Code.WRONG_SHAPE, subject="dependent_q"):
        regressor.positions(replace(samples, dependent_q=q[:, :1]))
