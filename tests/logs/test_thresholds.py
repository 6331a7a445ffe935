"""Where the rules on logs change their mind: shares, rates, steps and lengths just inside and just outside.

One private name is tested directly: inputs at its limits are rare, or slow to reach, through public names.
"""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from closeness import EXACT, SAME_ALGEBRA, assert_close
from messages import messages
from raising import raises

from mindyn.foundation.errors import Code, InputError
from mindyn.logs.cleaning import MAX_MAGNITUDE, Cleaner
from mindyn.logs.conditioning import AS_LOGGED, DIFFERENCE_ROWS, Conditioning, edge_rows, reach_rows
from mindyn.logs.filters import edge_duration_s, lowpass, settling_rows
from mindyn.logs.log import Log, log_from_arrays
from mindyn.logs.log_errors import LogError
from mindyn.logs.metadata import LogMetadata
from mindyn.logs.number_checks import check_units
from mindyn.logs.pipeline import SampleStream, condition, require_samples
from mindyn.logs.resolving import _round_rate, estimate_period, read_first_rows, resolve_conditioning, uniform_segments
from mindyn.logs.segments import SegmentPiece, cut_windows, split_at_gaps
from mindyn.robots.loading import load_robot

ROBOT = load_robot("planar2")


def log_at(time, names=ROBOT.joint_names):
    q = np.column_stack([np.sin((1 + k) * time) for k in range(len(names))])
    return log_from_arrays(names, time, q, 2 * q)


def clean(*chunks, names=("a", "b")):
    cleaner = Cleaner("run")
    for time, q in chunks:
        cleaner.clean(Log(names, time, q, q, np.arange(len(time))))
    return cleaner


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, MAX_MAGNITUDE, -MAX_MAGNITUDE])
def test_a_tenth_of_the_rows_may_be_no_numbers(value):
    t = np.arange(20.0)
    q = np.column_stack([np.sin(t), np.cos(t)])
    q[[3, 7], 1] = value
    (note,) = messages(clean((t, q)).findings(()))
    assert note.startswith("2 of 20 rows of run hold NaN")
    assert "position of b (2), torque of b (2); dropped" in note
    q[9, 0] = value
    with raises(LogError, code=Code.NOT_FINITE, subject="position of a"):
        messages(clean((t, q)).findings(()))


def test_a_tenth_of_the_rows_may_repeat_a_stamp():
    t = np.arange(20.0)
    q = np.column_stack([np.sin(t), np.cos(t)])
    t[[4, 8]] = t[[3, 7]]
    assert messages(clean((t, q)).findings(())) == ("2 of 20 rows of run repeat the stamp of the row before; dropped",)
    t[12] = t[11]
    with raises(LogError, code=Code.DUPLICATE, subject="stamps"):
        messages(clean((t, q)).findings(()))
    assert messages(clean((t, q)).findings(("stamps",)))[0].startswith("accepted: 3 of 20 rows")


def test_any_number_of_repeated_rows_is_dropped():
    t = np.repeat(np.arange(20.0), 2)
    q = np.column_stack([np.sin(t), np.cos(t)])
    (note,) = messages(clean((t, q)).findings(()))
    assert note == "20 of 40 rows of run repeat the stamp and values of the row before; dropped"


def test_two_rows_are_a_log_and_one_is_none():
    t = np.arange(2.0)
    q = np.column_stack([t, t])
    assert messages(clean((t, q)).findings(())) == ()
    with raises(LogError, code=Code.TOO_LITTLE_DATA, subject="run"):
        messages(clean((t[:1], q[:1])).findings(()))
    with raises(LogError, code=Code.TOO_LITTLE_DATA, subject="run"):
        messages(Cleaner("run").findings(()))


@pytest.mark.parametrize(("rate_hz", "usual"), [(4.9, False), (5.2, True), (39_000.0, True), (41_000.0, False)])
def test_stamps_of_a_rate_that_no_robot_is_logged_at_are_rejected(rate_hz, usual):
    log = replace(log_at(np.arange(50) / rate_hz), metadata=LogMetadata(units={"time": "s"}))
    if usual:
        assert check_units(log, ROBOT, ()) == []
    else:
        with raises(LogError, code=Code.WRONG_UNIT, subject="rate"):
            check_units(log, ROBOT, ())
        assert str(check_units(log, ROBOT, ("rate",))[0]).startswith("accepted: with stamps")
    for stated in (LogMetadata(rate_hz=rate_hz, units={"time": "s"}), LogMetadata()):  # no stamps to be wrong about
        assert check_units(replace(log, metadata=stated), ROBOT, ()) == []


def test_the_unit_in_which_the_rate_is_usual_is_offered():
    log = replace(log_at(np.arange(50) * 2.0), metadata=LogMetadata(units={"time": "s"}))
    with raises(LogError, code=Code.WRONG_UNIT, subject="rate") as rejected:
        check_units(log, ROBOT, ())
    assert 'units.time = "ms" would give 500 Hz; if' in str(rejected.value.hint)


@pytest.mark.parametrize(("factor", "said"), [(0.55, ""), (1.9, ""), (0.45, "0.45"), (2.2, "2.2"), (-1.0, "-1")])
def test_a_velocity_is_near_the_derivative_of_the_position(factor, said):
    t = np.arange(400) / 200
    q = np.column_stack([np.sin(3 * t), np.cos(2 * t)])
    qd = factor * np.column_stack([3 * np.cos(3 * t), -2 * np.sin(2 * t)])
    log = log_from_arrays(ROBOT.joint_names, t, q, q, qd)
    result = messages(check_units(log, ROBOT, ("velocity",)))
    assert bool(result) == bool(said)
    if said:
        assert f"logged velocity is {said}" in result[0]
        assert "?" not in result[0]


@pytest.mark.parametrize(
    ("factor", "cause"), [(57.3, "deg/s"), (1 / 57.3, "rad/s for deg/s"), (1e3, "ms"), (1e-3, "s")]
)
def test_a_velocity_of_another_unit_is_known_by_its_factor(factor, cause):
    t = np.arange(400) / 200
    q = np.column_stack([np.sin(3 * t), 0.009 * np.cos(2 * t)])
    qd = factor * np.column_stack([3 * np.cos(3 * t), 500 + 0 * t])  # a joint that hardly moves says nothing
    with raises(LogError, code=Code.WRONG_UNIT, subject="velocity") as raised:
        check_units(log_from_arrays(ROBOT.joint_names, t, q, q, qd), ROBOT, ())
    assert f"({cause}" in raised.value.message


def test_the_period_is_that_of_the_usual_steps():
    steps = np.full(100, 0.01)
    steps[:4] = 1.0  # gaps, fewer than one in twenty
    assert_close(estimate_period(steps), 0.01, SAME_ALGEBRA)
    steps[:4] = 1e-3  # nor do stamps that were written late
    assert_close(estimate_period(steps), 0.01, SAME_ALGEBRA)
    jittered = np.where(np.arange(100) % 2, 0.008, 0.012)
    jittered[0] = 5.0
    assert_close(estimate_period(jittered), jittered[1:].mean(), SAME_ALGEBRA)
    assert [_round_rate(rate) for rate in (499.97, 500.04, 499.9, 0.4)] == [500.0, 500.0, 499.9, 0.4]


def test_logs_of_two_rates_are_sampled_at_the_lowest_unless_a_rate_is_given():
    logs = [log_at(np.arange(200) / rate) for rate in (100.0, 103.0)]
    for both in (logs, logs[::-1]):
        created, (note, *_) = resolve_conditioning(replace(AS_LOGGED, stamps="auto"), both, lambda *_: None)
        assert created.rate_hz == 100.0
        assert re.search(
            r"different rates \(10[03], 10[03] Hz\): all are interpolated to the lowest, 100 Hz", str(note)
        )
    settings = replace(AS_LOGGED, stamps="auto", velocity="differentiated", acceleration="differentiated")
    assert len(condition(ROBOT, logs, settings).samples) == 200 + 194
    for slow in (9.9, 10.1):
        apart = [log_at(np.arange(200) / rate) for rate in (100.0, slow)]
        if slow > 10:
            assert (
                resolve_conditioning(replace(AS_LOGGED, stamps="auto"), apart, lambda *_: None)[0].stamps == "measured"
            )
            continue
        with raises(LogError, code=Code.DISAGREEMENT, subject="rate_hz"):
            resolve_conditioning(replace(AS_LOGGED, stamps="auto"), apart, lambda *_: None)
    created, notes = resolve_conditioning(replace(AS_LOGGED, rate_hz=100.0, stamps="auto"), logs, lambda *_: None)
    assert (created.rate_hz, created.stamps) == (100.0, "uniform")
    assert notes == ()
    created, notes = resolve_conditioning(replace(AS_LOGGED, rate_hz=90.0, stamps="auto"), logs, lambda *_: None)
    assert created.stamps == "measured"
    assert [note.kind for note in notes] == ["time stamps"]
    near = [log_at(np.arange(200) / rate) for rate in (100.0, 101.5)]
    assert resolve_conditioning(AS_LOGGED, near, lambda *_: None)[0].rate_hz == 100.0
    with raises(LogError, code=Code.TOO_LITTLE_DATA, subject="rate_hz"):
        resolve_conditioning(AS_LOGGED, [log_at(np.zeros(1))], lambda *_: None)


def test_settings_are_chosen_from_the_beginning_of_a_log(monkeypatch):
    monkeypatch.setattr("mindyn.logs.resolving.HEAD_ROWS", 30)
    log = log_at(np.arange(200) / 100)
    assert read_first_rows(log).rows.tolist() == list(range(30))
    resolved = Conditioning(rate_hz=100.0, stamps="uniform")
    gap = log_at(np.concatenate([np.arange(20), 30 + np.arange(20), [90.0]]) / 100)
    assert [len(part) for part in uniform_segments(resolved, [gap])] == [20, 20]  # a single row is not a segment
    with raises(LogError, code=Code.TOO_LITTLE_DATA, subject="rows"):
        uniform_segments(resolved, [log_at(np.arange(4.0))])


def test_what_resolve_chooses_is_known():
    log = log_at(np.arange(400) / 100)
    created, notes = resolve_conditioning(Conditioning(delay_s="auto"), [log], lambda *_: 4.0)
    assert (created.rate_hz, created.motion_hz, created.edge_s) == (100.0, 4.0, 0.125)
    assert created.is_resolved
    assert [note.details for note in notes] == [("motion_hz",), ("edge_s",), ("delay_s",)]
    text = " ".join(map(str, notes))
    assert "4 Hz" in text
    assert "0.125 s cut at both ends" in text
    assert resolve_conditioning(created, [log], lambda *_: 9.0) == (created, ())
    assert "no filter" in str(resolve_conditioning(Conditioning(), [log], lambda *_: None)[1][0])


def test_pieces_know_the_gap_after_them():
    time = np.array([0.0, 1.0, 2.0, 5.0, 6.0, 8.0, 9.0])
    log = log_at(time)
    whole = list(split_at_gaps([log], 1.5))
    assert [(item.segment, item.rows.time.tolist(), item.is_last, item.gap_s) for item in whole] == [
        (0, [0.0, 1.0, 2.0], True, 3.0),
        (1, [5.0, 6.0], True, 2.0),
        (2, [8.0, 9.0], True, 0.0),
    ]
    assert [gap.gap_s for gap in split_at_gaps([log], 2.0)] == [3.0, 0.0]  # as long as the longest step: not a gap
    cut = list(split_at_gaps([log.take(slice(0, 2)), log.take(slice(2, 5)), log.take(slice(5, None))], 1.5))
    assert [(item.segment, len(item.rows), item.is_last) for item in cut] == [
        (0, 2, False),
        (0, 1, True),
        (1, 2, True),
        (2, 2, True),
    ]
    assert list(split_at_gaps([], 1.0)) == []


@pytest.mark.parametrize(("block", "reach"), [(10, 3), (7, 0), (40, 12), (5, 20), (None, 5), (1000, 2)])
def test_windows_hold_every_row_once_with_its_surroundings(block, reach):
    log = log_at(np.arange(100.0))
    parts = [SegmentPiece(0, log.take(slice(k, k + 6)), k + 6 >= 60) for k in range(0, 60, 6)]
    parts += [SegmentPiece(1, log.take(slice(k, k + 10)), k + 10 >= 100) for k in range(60, 100, 10)]
    begin, end = {0: 0, 1: 60}, {0: 60, 1: 100}
    seen = []
    for window in cut_windows(parts, block, reach):
        expected = window.rows.rows[window.start : window.stop]
        seen += expected.tolist()
        first, last = int(window.rows.rows[0]), int(window.rows.rows[-1]) + 1
        assert first == begin[window.segment] + window.index
        assert first <= max(begin[window.segment], expected[0] - reach)
        assert last >= min(end[window.segment], expected[-1] + 1 + reach)
        assert window.is_last == (last == end[window.segment] and expected[-1] + 1 == last)
        assert window.is_last or len(expected) >= block
        assert window.rows.rows.tolist() == list(range(first, last))
        if block is not None:
            assert len(window.rows) <= block + 2 * reach + 2 * 10
    assert seen == list(range(100))


def test_fewer_samples_than_required_are_rejected_with_the_reason():
    require_samples(10, [])
    with raises(LogError, code=Code.TOO_LITTLE_DATA, subject="samples"):
        require_samples(9, [])
    with raises(LogError, code=Code.TOO_LITTLE_DATA, subject="samples") as rejected:
        require_samples(3, ["rows 0 to 9 left out", "a gap"], 4)
    assert rejected.value.hint == "rows 0 to 9 left out; a gap"


def test_rows_follow_from_seconds():
    c = Conditioning(rate_hz=100.0, edge_s=0.12, motion_hz=None)
    assert edge_rows(c) == 12
    plain = reach_rows(replace(c, edge_s=0.0))
    assert plain == DIFFERENCE_ROWS + 5 + 2
    assert reach_rows(c) == plain + 12
    for delay_s in (0.03, -0.03):
        assert reach_rows(replace(c, edge_s=0.0, delay_s=delay_s)) == plain + 3


@pytest.mark.parametrize(("cutoff_hz", "order"), [(2.0, 4), (10.0, 1), (30.0, 7)])
def test_a_filter_has_forgotten_a_disturbance_after_its_settling_rows(cutoff_hz, order):
    rows = settling_rows(cutoff_hz, 200.0, order)
    x = np.zeros(2 * rows + 400)
    x[0] = 1.0
    left = np.abs(lowpass(x, cutoff_hz, 200.0, order))
    assert left[rows:].max() < 1e-12
    assert left[rows // 2 :].max() > 1e-12  # and not long before
    assert settling_rows(None, 200.0) == 0
    assert settling_rows(cutoff_hz, 200.0) == settling_rows(cutoff_hz, 200.0, 4)


def test_filters_need_two_rows_and_a_cut_off_below_half_the_rate():
    x = np.array([[1.0, 2.0], [5.0, -3.0]])
    assert lowpass(x, None, 100.0) is x
    assert_close(lowpass(x[:1], 5.0, 100.0), x[:1], EXACT)
    assert not np.array_equal(lowpass(x, 5.0, 100.0), x)
    for call in (lowpass, lambda _, *given: settling_rows(*given)):
        call(x, 49.9, 100.0)
        with raises(InputError, code=Code.OUT_OF_RANGE, subject="cutoff_hz"):
            call(x, 50.0, 100.0)
    assert [edge_duration_s(), edge_duration_s(None), edge_duration_s(5.0), edge_duration_s(4.0, 2.0, None)] == [
        0.1,
        0.1,
        0.1,
        0.25,
    ]


@pytest.mark.parametrize(
    "given",
    [
        {"rate_hz": 0},
        {"longest_gap_rows": -1},
    ],
)
def test_settings_at_their_bounds(given):
    with raises(InputError, code=Code.INVALID_VALUE) as raised:
        Conditioning(**given)
    assert next(iter(given)) in raised.value.message


def test_the_usual_settings_are_as_documented():
    c = Conditioning()
    assert (c.longest_gap_rows, c.delay_s, c.slow_speed) == (2.5, 0.0, None)
    predicted = Conditioning(edge_s=1.0, slow_speed=0.1).for_prediction()
    assert (predicted.edge_s, predicted.slow_speed) == (0.0, None)


class Chunks(list):
    """A log that is read a few rows at a time."""

    findings = ()


def test_a_new_segment_starts_where_rows_were_dropped():
    time = np.concatenate([np.arange(900), 920 + np.arange(900)]) / 100
    log = log_at(time)
    c = Conditioning(rate_hz=100.0, stamps="uniform", motion_hz=None, edge_s=0.02)
    for block in (None, 8):
        chunks = Chunks(log.take(slice(k, k + 10)) for k in range(0, len(log), 10))
        stream = SampleStream([chunks, log], ROBOT, c, block, ["chosen"])
        created = list(stream.blocks())
        assert (len(created) > 4) == (block is not None)
        rows = np.concatenate([item for _, item, _, _ in created])
        segments = np.concatenate([item.segments for item, _, _, _ in created])
        per_log = range(2, 898)
        expected = [*per_log, *(900 + k for k in per_log)]
        assert rows.tolist() == expected * 2
        assert segments.tolist() == [k for k in range(4) for _ in per_log]
        assert stream.first_segments == [0, 2]
        assert (stream.count, stream.rate_hz) == (len(rows), 100.0)
        assert messages(stream)[0] == "chosen"
        assert "a gap of 0.21 s after row 899: the log is split into 2 segments" in messages(stream)[1]


def test_slow_rows_are_computed_from_moving_ones():
    t = np.arange(300) / 100
    q = np.column_stack([np.where(t < 1.0, t, 1.0), 0.2 * t])
    qd = np.column_stack([np.where(t < 1.0, 1.0, 0.0), 0.2 + 0 * t])
    log = log_from_arrays(ROBOT.joint_names, t, q, q, qd, 0 * q)
    settings = replace(AS_LOGGED, rate_hz=100.0, slow_speed=0.2)
    created = condition(ROBOT, log, settings)
    assert created.samples.usable.sum(axis=0).tolist() == [100, 0]  # as fast as the bound is not faster
