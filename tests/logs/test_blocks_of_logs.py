"""Logs in blocks and with gaps: what is said of them, and that blocks give what the whole gives.

Private functions are tested directly: inputs at their limits are rare, or slow to reach, through public names.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from closeness import ORACLE, SAME_ALGEBRA, assert_close
from draft_parts import EMPTY, contents, group
from messages import messages
from raising import raises
from recordings import arm, sines

from mindyn.equations.loop_closure import home_closure
from mindyn.foundation.errors import Code
from mindyn.logs.conditioning import Conditioning
from mindyn.logs.drafts.draft_head import LogHead
from mindyn.logs.drafts.drafting import _add_columns
from mindyn.logs.formats import tables
from mindyn.logs.formats.text_table import TextTable
from mindyn.logs.log import log_from_arrays
from mindyn.logs.log_errors import LogError
from mindyn.logs.loop_follower import LoopFollower
from mindyn.logs.pipeline import SampleStream, condition, condition_stream
from mindyn.logs.resolving import _find_burst_step
from mindyn.logs.samples import Samples
from mindyn.robots.loading import load_robot

PLAIN = Conditioning(rate_hz=100.0, stamps="uniform", motion_hz=None, edge_s=0.0, delay_s=0.0)


def with_gaps(*gaps):
    """Ten rows at 100 Hz before each gap (s), and ten behind the last."""
    steps = np.full(10 * (len(gaps) + 1), 0.01)
    steps[0] = 0.0
    for k, gap in enumerate(gaps, 1):
        steps[10 * k] = gap
    motion = sines(t=np.cumsum(steps))
    return log_from_arrays(arm().joint_names, motion.t, motion.q, motion.tau, motion.qd, motion.qdd)


@pytest.mark.parametrize(
    ("gaps", "said"),
    [
        ((2.0,), "a gap of 2 s after row 9: the log is split into 2 segments"),
        ((2.0, 3.5), "2 gaps, the longest of 3.5 s after row 19: the log is split into 3 segments"),
        ((3.5, 2.0), "2 gaps, the longest of 3.5 s after row 9: the log is split into 3 segments"),
    ],
)
def test_gaps_are_known_with_the_longest(gaps, said):
    result = condition(
        arm(),
        with_gaps(*gaps),
        PLAIN,
    )
    assert [note for note in messages(result) if "gap" in note] == [said]
    assert result.samples.segments.tolist() == np.repeat(np.arange(len(gaps) + 1), 10).tolist()
    assert result.rows.tolist() == list(range(10 * (len(gaps) + 1)))
    none = condition(
        arm(),
        with_gaps(),
        PLAIN,
    )
    assert not any("gap" in note for note in messages(none))


def test_segments_are_numbered_over_blocks_and_logs():
    logs = [with_gaps(2.0), with_gaps()]
    stream = SampleStream(logs, arm(), PLAIN, 4, (), 1)
    blocks = list(stream.blocks())
    segments = np.concatenate([samples.segments for samples, _, _, _ in blocks])
    assert segments.tolist() == np.repeat(np.arange(3), 10).tolist()
    assert stream.first_segments == [0, 2]
    assert stream.count == 30
    assert stream.rate_hz == 100.0
    owners = np.concatenate([np.full(len(rows), owner) for _, rows, _, owner in blocks])
    assert owners.tolist() == np.repeat([0, 1], [20, 10]).tolist()
    rows = np.concatenate([rows for _, rows, _, _ in blocks])
    assert rows.tolist() == [*range(20), *range(10)]


def test_edges_are_cut_out_and_slow_rows_marked():
    log, rests = with_gaps(), np.arange(10)[:, None] < 4
    still = replace(log, qd=np.where(rests, 0.0, np.ones((10, 3))))
    measured = {"velocity": "measured", "acceleration": "measured"}
    c = replace(PLAIN, edge_s=0.01, slow_speed=0.5, **measured)
    ((samples, rows, _, _),) = SampleStream([still], arm(), c, None, (), 1).blocks()
    assert rows.tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
    assert samples.usable.tolist() == [[False] * 3] * 3 + [[True] * 3] * 5


def test_segments_without_samples_are_known():
    c = replace(PLAIN, edge_s=0.06)
    stream = SampleStream([with_gaps(2.0, 3.0)], arm(), c, None, (), 0)
    assert list(stream.blocks()) == []
    assert [note for note in messages(stream) if "dropped" in note] == [
        "3 segments between gaps, the first of them rows 0 to 9, (30 rows) dropped: nothing remains after 6 rows are "
        "cut at both ends"
    ]
    alone = SampleStream([with_gaps().take(slice(0, 1))], arm(), c, None, (), 0)
    assert list(alone.blocks()) == []
    assert any(note.startswith("row 0 (1 row) dropped") for note in messages(alone))


def test_a_row_is_counted_over_blocks_of_a_file(tmp_path, monkeypatch):
    path = tmp_path / "one.csv"
    path.write_text("t,x\n" + "".join(f"{k},{'no' if k == 41 else k}\n" for k in range(60)))
    monkeypatch.setattr(tables, "BLOCK_BYTES", 40)
    table = TextTable(path)
    with raises(LogError, code=Code.WRONG_TYPE, subject="x"):
        list(table.chunks(["t", "x"], 5))
    chunks = list(table.chunks(["t"], 5))
    assert np.concatenate([chunk["t"] for chunk in chunks]).tolist() == list(range(60))
    assert max(len(chunk["t"]) for chunk in chunks) <= 5


def test_the_order_of_the_widest_signal_is_looked_for():
    named = LogHead({}, {"name0": "b", "name1": "a", "name2": "c"}, {}, ())
    wide = {"position": group("q", 2), "torque": group("tau", 3)}
    result = _add_columns(EMPTY, Path("x.csv"), contents(wide, named), ("a", "b"))
    assert result.value("joints") == ["b", "a", "c"]


def in_bursts(rows=4000, step=0.01, every=8):
    even = np.arange(rows) * step
    return even, even[every - 1 :: every].repeat(every) + 0.1 * step * np.tile(np.arange(every), rows // every) / every


def test_positions_of_bursts_are_predicted_evenly_or_by_their_stamps():
    even, stamps = in_bursts()
    q = np.column_stack([np.sin(3 * even), np.cos(2 * even)])
    heads = [log_from_arrays(("a", "b"), stamps, q, q)]
    steps = [np.diff(stamps)]
    longest = _find_burst_step(heads, steps)
    assert longest == pytest.approx(1.5 * np.quantile(steps[0], 0.995))
    by_stamps = [log_from_arrays(("a", "b"), stamps, np.column_stack([np.sin(3 * stamps), np.cos(2 * stamps)]), q)]
    assert _find_burst_step(by_stamps, steps) is None
    assert _find_burst_step([log_from_arrays(("a", "b"), even, q, q)], [np.diff(even)]) is None
    # Positions jump over a gap of 3.5 steps between bursts: it is not a row between two others.
    gap = stamps.copy()
    gap[2000:] += 2.5 * np.quantile(steps[0], 0.995)
    leaping = q + 100.0 * (np.arange(len(q)) >= 2000)[:, None]
    assert _find_burst_step([log_from_arrays(("a", "b"), gap, leaping, q)], [np.diff(gap)]) is not None


@pytest.mark.parametrize("blocks", [[1, 1, 40], [7, 13, 22], [20, 22]])
def test_loops_are_followed_in_blocks_as_in_one(blocks):
    robot = load_robot("slider_crank")
    t = np.arange(42) / 100
    q, qd = (0.4 + 1.2 * np.sin(2 * t))[:, None], (2.4 * np.cos(2 * t))[:, None]
    segments = np.repeat([0, 1], [20, 22])
    samples = Samples(robot.primary_names, q, qd, 0 * q, 0 * q, 100.0, segments)
    rows = np.arange(100, 142)
    whole = LoopFollower(robot)
    expected = whole.follow(samples, rows)
    closure = home_closure(robot)
    positions, reached = closure.find_reachable(q)
    assert reached.all()
    assert_close(expected.dependent_q, positions[:, list(closure.dependent)], 1e-9)
    follower, at, result = LoopFollower(robot), 0, []
    for count in blocks:
        taken = slice(at, at + count)
        result.append(follower.follow(samples.take(taken), rows[taken]))
        at += count
    assert_close(np.vstack([item.dependent_q for item in result]), expected.dependent_q, 1e-9)
    assert_close(np.vstack([item.closure for item in result])[:, 1], expected.closure[:, 1], ORACLE)
    assert follower.margin == pytest.approx(whole.margin)
    assert whole.margin == expected.closure[:, 1].min()
    assert whole.residual == expected.closure[:, 0].max()
    assert follower._last[0] == 1
    assert follower._last[3] == 141
    follower.begin_log()
    assert follower._last is None


def test_streams_of_blocks_have_the_numbers_of_the_whole():
    motion = sines(600)
    log = log_from_arrays(arm().joint_names, motion.t + 1e-4 * np.sin(np.arange(600)), motion.q, motion.tau)
    c = Conditioning(rate_hz=400.0, stamps="measured", motion_hz=20.0, edge_s=0.05, delay_s=0.001)
    whole = condition(
        arm(),
        log,
        c,
    ).samples
    stream = condition_stream(arm(), [log], c, block_rows=50)
    parts = list(stream)
    for name in ("q", "qd", "qdd", "tau"):
        assert_close(np.vstack([getattr(part, name) for part in parts]), getattr(whole, name), 1e-9)
    assert np.concatenate([part.segments for part in parts]).tolist() == whole.segments.tolist()
    assert stream.count == len(whole)
    assert_close(whole.rate_hz, 400.0, SAME_ALGEBRA)
