"""Blocks: how many, how they join, and what of them is left out.

One private name is tested directly: inputs at its limits are rare, or slow to reach, through public names.
"""

from __future__ import annotations

import numpy as np
import pytest
from closeness import SAME_ALGEBRA, assert_close
from raising import raises

import mindyn
from mindyn.foundation.errors import Code, MindynError
from mindyn.regression.build_rows import build_rows
from mindyn.regression.friction import Friction
from mindyn.regression.gather_blocks import BLOCKS, _join_blocks, block_counts
from mindyn.regression.regressor import Regressor
from mindyn.regression.row_blocks import blocks


@pytest.fixture(scope="module")
def arm():
    return mindyn.load_robot("planar2")


@pytest.fixture(scope="module")
def logs(arm):
    model = mindyn.compile_model(arm, with_drives=True)
    created = []
    for count, speed in ((600, 1.0), (1200, 1.7)):
        t = np.arange(count) / 100
        q = np.column_stack([np.sin(speed * t), np.cos(1.3 * speed * t) - 1])
        qd = np.column_stack([speed * np.cos(speed * t), -1.3 * speed * np.sin(1.3 * speed * t)])
        qdd = -np.column_stack([speed**2 * np.sin(speed * t), (1.3 * speed) ** 2 * np.cos(1.3 * speed * t)])
        created.append(mindyn.log_from_arrays(arm.joint_names, t, q, model.inverse_dynamics(q, qd, qdd)))
    return created


def test_every_log_has_a_block_and_long_ones_more():
    assert block_counts([100]) == [BLOCKS]
    assert block_counts([100, 100]) == [BLOCKS // 2] * 2
    assert block_counts([3, 1_000_000]) == [1, BLOCKS]
    assert block_counts([0]) == [1]


def test_without_a_log_the_others_are_left(arm, logs):
    rows = build_rows(arm, logs)
    assert {block.log for block in rows.blocks} == {0, 1}
    for gone in (0, 1):
        left = rows.select(block for block in rows.blocks if block.log != gone)
        assert {block.log for block in left.blocks} == {1 - gone}
        counts = [block.information.counts for block in rows.blocks if block.log != gone]
        assert left.information.counts == tuple(np.sum(counts, axis=0))
        assert 0 < sum(left.information.counts) < sum(rows.information.counts)


def test_blocks_that_join_reach_as_far_as_both(arm, logs):
    first, second = build_rows(arm, logs).blocks[1:3]
    joined = _join_blocks([first, second])
    assert joined.span == (first.span[0], second.span[1])
    assert (joined.reach[0] == np.minimum(first.reach[0], second.reach[0])).all()
    assert (joined.reach[1] == np.maximum(first.reach[1], second.reach[1])).all()
    counts = np.add(first.information.counts, second.information.counts)
    assert joined.information.counts == tuple(counts)
    for R, factor, other in zip(
        joined.information.factors, first.information.factors, second.information.factors, strict=True
    ):
        assert_close(R.T @ R, factor.T @ factor + other.T @ other, SAME_ALGEBRA)


def test_every_row_is_used_unless_some_are_excluded(arm, logs):
    samples = mindyn.condition(arm, logs[0]).samples
    regressor = Regressor(arm)
    numbers = np.concatenate([rows for _, rows in blocks(regressor, samples)])
    assert (numbers == np.arange(len(samples))).all()
    thinned = np.concatenate([rows for _, rows in blocks(regressor, samples, None, 3)])
    assert (thinned == np.arange(0, len(samples), 3)).all()


def test_friction_of_a_joint_that_is_not_there_is_rejected(arm):
    with raises(MindynError, Code.UNKNOWN_NAME, "elbow"):
        Regressor(arm, Friction(joint_side=("elbow",)))
