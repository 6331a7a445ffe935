"""Rows, blocks, gears and moves piece by piece: what counts as logs, spans and reaches, prices of moves.

Private functions are tested directly: inputs at their limits are rare, or slow to reach, through public names.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from closeness import EXACT, ORACLE, assert_close
from raising import raises
from stand_in import stand_in

from mindyn.foundation.errors import Code, InputError
from mindyn.logs.conditioning import Conditioning
from mindyn.logs.conversion import _create_drive, _gears_by_joint
from mindyn.logs.differentiation import central_difference, fit_spline
from mindyn.logs.drafts.draft import UNANSWERED, DraftLine, SidecarDraft, format_toml_value
from mindyn.logs.log import log_from_arrays
from mindyn.logs.periods import build_timeline
from mindyn.logs.resolving import _round_rate, cutoff_finding, delay_finding, estimate_period
from mindyn.logs.samples import Samples
from mindyn.regression.build_rows import build_rows
from mindyn.regression.experiment import Experiment
from mindyn.regression.gather_blocks import (
    BLOCKS,
    Block,
    _join_blocks,
    _reach,
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


def test_one_block_has_the_reach_of_its_own_rows(regressor):
    rows = build_rows(regressor.robot, samples_of(1200), EquationSettings(drive_parameters="stated"))
    assert rows.select(rows.blocks[:1]).information.counts == (50, 50)


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
    assert_close(blocks[2].reach, _reach(samples, labels == 2), EXACT)


def test_joined_blocks_span_and_reach_both(regressor):
    first, second = split_into_blocks(regressor, samples_of(8), EquationSettings(), 2)
    both = _join_blocks([first, second])
    assert (both.span, both.log) == ((0, 8), 0)
    assert_close(both.reach, [samples_of(8).q.min(axis=0), samples_of(8).q.max(axis=0)], EXACT)
    assert both.information.counts == (8, 8)
    assert isinstance(_join_blocks([first]), Block)


def test_drives_of_logged_gears():
    G = np.array([[50.0, 0.0], [-3.0, 40.0]])
    first, second = (_create_drive(name, j, G, NAMES) for j, name in enumerate(NAMES))
    assert (first.ratio, dict(first.coupling), first.side) == (50.0, {}, "motor")
    assert (second.ratio, dict(second.coupling)) == (40.0, {NAMES[0]: -3.0})
    assert_close(_gears_by_joint(replace(PLANAR, drives=(second, first))), G, EXACT)


def estimate(covariance, beta, names=("a", "b", "c")):
    simple_namespace = stand_in(names=names, beta=np.array(beta), deviations=np.sqrt(np.diag(covariance)))
    known = np.isfinite(simple_namespace.deviations) & (simple_namespace.deviations > 0)
    scale = np.where(known, 1 / np.where(known, simple_namespace.deviations, 1.0), 0.0)
    simple_namespace.correlations = np.where(np.isfinite(covariance), covariance, 0.0) * np.outer(scale, scale)
    simple_namespace.by_noise_alone = lambda: simple_namespace
    return simple_namespace


def test_logs_whose_stamps_begin_late_have_the_same_line():
    t = np.arange(0, 25, 0.02)
    q = np.column_stack([np.sin(2 * np.pi * t / 10), np.cos(2 * np.pi * t / 10)])
    early, late = (build_timeline([t + begin], [q]) for begin in (0.0, 300.0))
    assert np.abs(late.times[0] - early.times[0]).max() < 0.01
    assert late.period_s == pytest.approx(early.period_s)
    assert early.length_s == pytest.approx(10.0, abs=0.05)
    assert early.repeats == pytest.approx(2.5, abs=0.02)


def test_a_draft_marks_open_questions_and_puts_tables_last():
    draft = SidecarDraft(
        "run.csv",
        (DraftLine("units.torque", UNANSWERED, "one of\nmany"), DraftLine("rows", [0, 9], "why")),
        ("a\nnote",),
    )
    assert draft.questions == ("units.torque",)
    lines = draft.toml().splitlines()
    assert lines[2] == "draft = true"
    assert lines[3] == "# note: a note"
    assert lines[4:] == ["rows = [0, 9]  # why", 'units.torque = "?"  # ?  one of many']
    assert "draft = true" not in draft.toml(confirmed=True)
    assert draft.to_metadata() == {"rows": [0, 9]}
    both = draft.with_line("units.torque", "N m", "").with_line("units.time", "s", "")
    assert both.to_metadata() == {"units": {"torque": "N m", "time": "s"}, "rows": [0, 9]}
    assert both.without_key("units").to_metadata() == {"rows": [0, 9]}
    assert both.without_key("units.time").value("units.torque") == "N m"
    assert [format_toml_value(item) for item in (True, 1.5, ["a", 2], {"k": False})] == [
        "true",
        "1.5",
        '["a", 2]',
        "{ k = false }",
    ]


def test_rates_of_logs_are_those_of_their_usual_steps():
    steps = np.full(100, 0.01)
    steps[:4] = 0.02
    assert estimate_period(steps) == pytest.approx(0.01)
    steps[:6] = 0.02  # more than a twentieth: all but the gaps
    assert estimate_period(steps) == pytest.approx(np.mean(steps))
    steps[:6] = 0.026
    assert estimate_period(steps) == pytest.approx(0.01)
    assert [_round_rate(rate) for rate in (99.9901, 99.98, 0.3, 1000.09)] == [100.0, 99.98, 0.3, 1000.0]
    c = Conditioning(motion_hz=4.0, delay_s=-0.0125)
    assert cutoff_finding(c, "x").message == "position cut-off selected x: 4 Hz"
    assert delay_finding(c, "y").message == "delay of the torque y: -12.5 ms"
    assert delay_finding(replace(c, delay_s=(0.0, 0.03)), "y").message == "delay of the torque y: 0, 30 ms"


def test_derivatives_of_polynomials():
    t = np.arange(60) / 50
    q = (1 + 2 * t + 3 * t**2)[:, None]
    assert_close(central_difference(q, 50.0)[1:-1, 0], (2 + 6 * t)[1:-1], ORACLE)
    _, qd, qdd = fit_spline(q, 50.0)
    assert_close(qd[:, 0], 2 + 6 * t, 1e-8)
    assert_close(qdd[:, 0], np.full(60, 6.0), 1e-6)
