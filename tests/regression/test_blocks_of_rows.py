"""Blocks hold every row of logs, samples and streams once, with its reach and its phase.

Private functions are tested directly: inputs at their limits are rare, or slow to reach, through public names.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from closeness import EXACT, ORACLE, assert_close
from raising import raises

from mindyn.foundation.errors import Code, InputError
from mindyn.logs.log import log_from_arrays
from mindyn.logs.samples import Samples
from mindyn.regression.build_rows import build_rows
from mindyn.regression.experiment import Experiment
from mindyn.regression.gather_blocks import (
    BLOCKS,
    _position_extremes,
    block_counts,
    blocks_by_label,
    split_into_blocks,
    split_stream_into_blocks,
)
from mindyn.regression.information import Information, triangle_of
from mindyn.regression.regressor import Regressor
from mindyn.regression.rows import LogRows, Rows, list_logs
from mindyn.regression.settings import EquationSettings
from mindyn.robots.loading import load_robot
from mindyn.robots.parts import Drive

PLANAR = load_robot("planar2")


NAMES = PLANAR.joint_names


@pytest.fixture(scope="module")
def regressor():
    return Regressor(replace(PLANAR, drives=tuple(Drive(name) for name in NAMES)))


def samples_of(rows, seed=0, segments=None):
    arrays = np.random.default_rng(seed).normal(size=(4, rows, 2))
    return Samples(NAMES, *arrays, 100.0, np.zeros(rows, dtype=np.int64) if segments is None else segments)


def log(rows=30):
    x = np.random.default_rng(1).normal(size=(rows, 2))
    return log_from_arrays(NAMES, np.arange(rows) / 100, x, x)


def test_one_log_or_several_are_logs_and_samples_are_not():
    item = log()
    assert list_logs(item) == [item]
    assert list_logs([item, item]) == [item, item]
    assert list_logs((item,)) == [item]
    assert list_logs(samples_of(3)) is None
    assert list_logs([samples_of(3)]) is None
    assert list_logs(iter([])) is None
    with raises(InputError, Code.MISSING_VALUE, "logs"):
        list_logs([])
    log_rows = LogRows(Experiment(PLANAR, [item, log(60)]), PLANAR, EquationSettings(), None)
    assert not log_rows.streamed
    assert list(log_rows.block_counts) == [8, 16]


def test_factors_have_the_row_count_of_the_joint_with_most_rows(regressor):
    tables = [np.random.default_rng(2).normal(size=(40, len(c) + 1)) for c in regressor.columns]
    factors = tuple(map(triangle_of, tables))
    information = Information(NAMES, regressor.names, regressor.columns, factors, (40, 25))
    rows = Rows.of_information(regressor, information)
    (block,) = rows.blocks
    assert (block.span, block.log, block.phase) == ((0, 40), 0, None)
    assert rows.information.counts == (40, 25)
    assert rows.count == 0
    assert rows.sources == ()
    with raises(InputError, Code.MISSING_VALUE, "samples"):
        rows.all_samples("a fit")
    with raises(InputError, Code.UNSUPPORTED, "samples"):
        _ = rows.repeatable_samples
    with raises(InputError, Code.DISAGREEMENT, "information"):
        Rows.of_information(regressor, replace(information, names=("x", *information.names[1:])))
    with raises(InputError, Code.MISSING_VALUE, "samples"):
        _ = rows.select([]).information


def test_rows_of_samples_are_equal_parts_that_can_be_held_out(regressor):
    samples = samples_of(240)
    rows = build_rows(regressor.robot, samples, EquationSettings(drive_parameters="stated"))
    assert len(rows.blocks) == BLOCKS
    assert [block.span for block in rows.blocks] == [(10 * k, 10 * k + 10) for k in range(24)]
    assert rows.count == 240
    assert [sum(fold.counts) for fold in rows.folds(8)] == [60] * 8
    assert [sum(fold.counts) for fold in rows.folds(5)] == [100, 100, 100, 100, 80]
    assert rows.select(block for block in rows.blocks if block.log != 1).blocks == rows.blocks
    assert rows.select(block for block in rows.blocks if block.log != 0).blocks == ()
    for block in rows.blocks[:2]:
        part = samples.q[slice(*block.span)]
        assert_close(block.reach, [part.min(axis=0), part.max(axis=0)], EXACT)
    assert rows.timeline is None
    with raises(InputError, Code.UNSUPPORTED, "logs"):
        rows.blocks_along([np.zeros(240)], 1.0)
    still = replace(samples, q=np.zeros_like(samples.q) + np.array([1.0, 0.0]) * samples.q)
    with raises(InputError, Code.NOT_IDENTIFIABLE, "joint2"):
        _ = build_rows(regressor.robot, still, EquationSettings(drive_parameters="stated")).information


def test_a_stream_has_blocks_from_its_first_sample_on(regressor, monkeypatch):
    monkeypatch.setattr("mindyn.regression.gather_blocks.FIRST_LENGTH", 40)
    parts = [samples_of(100), samples_of(30, 1)]
    split_stream = split_stream_into_blocks(regressor, parts, EquationSettings())
    assert [block.span for block in split_stream] == [(0, 40), (40, 80), (80, 100), (100, 130)]
    assert [block.log for block in split_stream] == [0] * 4
    assert [block.information.counts[0] for block in split_stream] == [40, 40, 20, 30]
    assert_close(split_stream[2].reach, [parts[0].q[80:].min(axis=0), parts[0].q[80:].max(axis=0)], EXACT)
    monkeypatch.setattr("mindyn.regression.gather_blocks.BLOCKS", 1)
    joined = split_stream_into_blocks(regressor, parts, EquationSettings())
    assert [block.span for block in joined] == [(0, 100), (100, 130)]
    assert sum(block.information.counts[1] for block in joined) == 130


def test_short_samples_leave_blocks_without_rows(regressor):
    split = split_into_blocks(regressor, samples_of(5), EquationSettings(), 4, 3)
    assert [block.span for block in split] == [(0, 2), (2, 3), (3, 4), (4, 5)]
    assert [block.log for block in split] == [3] * 4
    few = split_into_blocks(regressor, samples_of(2), EquationSettings(), 4)
    assert [block.span for block in few] == [(0, 1), (1, 1), (1, 2), (2, 2)]
    assert [sum(block.information.counts) for block in few] == [2, 0, 2, 0]
    assert few[1].reach.tolist() == [[np.inf] * 2, [-np.inf] * 2]
    assert split_into_blocks(regressor, samples_of(0), EquationSettings()) == []
    assert block_counts([0, 0]) == [1, 1]
    assert block_counts([100, 1, 100]) == [12, 1, 12]


def test_blocks_of_labels_hold_their_rows_and_only_usable_ones(regressor):
    usable = np.ones((12, 2), dtype=bool)
    usable[3, 0] = False
    samples = replace(samples_of(12), usable=usable)
    labels = np.arange(12) % 3
    blocks = blocks_by_label(regressor, samples, EquationSettings(), labels, 3)
    assert [block.phase for block in blocks] == pytest.approx([1 / 6, 0.5, 5 / 6])
    assert [block.span for block in blocks] == [(0, 4)] * 3
    assert [block.information.counts for block in blocks] == [(3, 4), (4, 4), (4, 4)]
    Y = regressor.parts(samples.q, samples.qd, samples.qdd)
    whole = np.column_stack([np.concatenate(Y[1], axis=1), samples.tau[:, 1]])[labels == 2]
    R = blocks[2].information.factors[1]
    assert_close(R.T @ R, whole.T @ whole, ORACLE)
    assert_close(blocks[2].reach, _position_extremes(samples, labels == 2), EXACT)
