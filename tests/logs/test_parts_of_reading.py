"""Small parts of reading and conditioning, each against numbers made by hand or another library.

Private functions are tested directly: inputs at their limits are rare, or slow to reach, through public names.
"""

from __future__ import annotations

import struct
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from closeness import ORACLE, SAME_ALGEBRA, assert_close
from draft_parts import EMPTY, PLANAR, group
from messages import messages
from raising import raises
from scipy.interpolate import make_interp_spline

from mindyn.foundation.errors import Code, InputError
from mindyn.logs.cleaning import Cleaner
from mindyn.logs.column_selection import _expand_column_names, list_columns_and_joints
from mindyn.logs.conditioning import Conditioning
from mindyn.logs.delay_scan import DelayScan
from mindyn.logs.differentiation import central_difference, fit_spline
from mindyn.logs.drafts.draft import DraftLine, SidecarDraft
from mindyn.logs.drafts.drafting import _add_side
from mindyn.logs.formats import bag_table
from mindyn.logs.formats.cdr import JointState
from mindyn.logs.formats.mcap_records import _read_mcap_channels
from mindyn.logs.formats.tables import raise_as_damaged
from mindyn.logs.interpolation import delay_rows
from mindyn.logs.locations import RemoteFile, _list_remote, remote_error
from mindyn.logs.log import Log
from mindyn.logs.log_errors import LogError
from mindyn.logs.resolving import _resolve_time_base
from mindyn.logs.samples import Samples
from mindyn.logs.time_stamps import estimate_even_step, estimate_usual_step, has_bursts

PLACE = RemoteFile("s3://key:secret@store.example/runs/one.parquet?token=abc")


def test_what_a_store_says_of_a_file():
    day = datetime(2024, 5, 1, tzinfo=UTC)
    full = _list_remote(PLACE, {"ETag": '"a1"', "size": 7, "LastModified": day})
    assert (full.size, full.version, full.changed) == (7, "etag:a1", day.timestamp())
    bare = _list_remote(PLACE, {})
    assert (bare.size, bare.version, bare.changed) == (0, "changed:0:None", None)
    dated = _list_remote(PLACE, {"Size": 9, "mtime": 12.5})
    assert (dated.size, dated.version, dated.changed) == (9, "changed:9:12.5", None)


def test_what_a_store_trips_over_is_known_without_credentials():
    known = remote_error(PLACE, RuntimeError(f"GET {PLACE.url} failed: key:secret, secret and token=abc"))
    assert known.message.endswith(
        "cannot be read: GET s3://store.example/runs/one.parquet failed: ..., ... and ... (RuntimeError)"
    )
    missing = remote_error(PLACE, FileNotFoundError(2, "No such file", PLACE.url))
    assert missing.message == "the log 's3://store.example/runs/one.parquet' does not exist"
    plain = remote_error(RemoteFile("s3://store/one.csv"), RuntimeError("no route"))
    assert plain.message == "'s3://store/one.csv' cannot be read: no route (RuntimeError)"


@pytest.mark.parametrize(
    ("error", "message", "hint"),
    [
        (ValueError("odd"), "a.bin cannot be read as bag: odd (ValueError)", "is the copy complete?"),
        (OSError(5, "Input/output error"), "a.bin cannot be read: Input/output error", "is the copy complete?"),
        (
            PermissionError(13, "Permission denied"),
            "a.bin cannot be read: Permission denied",
            "check the permissions of the file",
        ),
        (OSError("odd"), "a.bin cannot be read as bag: odd (OSError)", "is the copy complete?"),
    ],
)
def test_whatever_a_reader_trips_over_is_a_damaged_file(error, message, hint):
    with raises(LogError, code=Code.UNREADABLE, subject="a.bin") as known, raise_as_damaged("bag", "a.bin"):
        raise error
    assert (known.value.message, known.value.hint) == (message, hint)
    with raises(LogError, code=Code.AMBIGUOUS, subject="topic"), raise_as_damaged("bag", "a.bin"):
        raise LogError("two topics", code=Code.AMBIGUOUS, subject="topic")
    with pytest.raises(KeyboardInterrupt), raise_as_damaged("bag", "a.bin"):
        raise KeyboardInterrupt


@pytest.mark.parametrize("rows", [0.3, -2.5, 4.0])
def test_lines_and_single_rows_are_delayed_exactly(rows):
    line = 3.0 + 0.5 * np.arange(12.0)[:, None] * [1.0, -2.0]
    assert_close(delay_rows(line, rows), 3.0 + 0.5 * (np.arange(12.0)[:, None] - rows) * [1.0, -2.0], ORACLE)
    assert_close(delay_rows(np.array([[2.0, -1.0]]), rows), [[2.0, -1.0]], ORACLE)


def test_the_delay_of_a_torque_does_not_depend_on_its_unit():
    t = np.arange(1500) / 200
    tones = [(w, 1 / w) for w in (3.0, 7.1, 13.3)]
    q, qd, qdd = (
        np.column_stack([sum(size * f(w, t) for w, size in tones)])
        for f in (
            lambda w, at: np.sin(w * at),
            lambda w, at: w * np.cos(w * at),
            lambda w, at: -w * w * np.sin(w * at),
        )
    )
    late = -sum(size * w * w * np.sin(w * (t - 0.02)) for w, size in tones)[:, None]
    for unit in (1e-6, 1.0, 1e6):
        samples = Samples(("a",), q, qd, qdd, unit * late, 200.0, np.zeros(1500, dtype=np.int64))
        result = DelayScan(samples, lambda rows: [qdd[rows]]).best()
        assert result.seconds == pytest.approx(0.02, abs=1e-3)
        assert result.unexplained < 1e-3 * result.unexplained_without


def test_derivatives_of_polynomials_are_theirs():
    t = np.arange(40) / 50.0
    power = np.column_stack([t**3 - t, t**2])
    exact = (power, np.column_stack([3 * t**2 - 1, 2 * t]), np.column_stack([6 * t, np.full(40, 2.0)]))
    for ours, theirs in zip(fit_spline(power, 50.0), exact, strict=True):
        assert_close(ours, theirs, 1e-8)
    rough = np.sin(20 * t)[:, None]
    spline = make_interp_spline(np.arange(40.0), rough, k=5, axis=0)
    for k, ours in enumerate(fit_spline(rough, 50.0)):
        assert_close(ours, 50.0**k * spline(np.arange(40.0), nu=k), ORACLE)
    assert_close(central_difference(power, 50.0)[:, 1], 2 * t, ORACLE)
    assert_close(central_difference(power[:2], 50.0)[:, 1], [t[1], t[1]], ORACLE)


def stamps_in_bursts(rows=4000, step=0.01, every=8):
    """Rows that wait for a network: all of a burst arrive within a tenth of a step."""
    even = np.arange(rows) * step
    return (
        even[every - 1 :: every].repeat(every)[: rows - rows % every]
        + 0.1 * step * np.tile(np.arange(every), rows // every) / every
    )


def test_bursts_are_known_from_steady_stamps_and_from_changes_of_rate():
    steps = np.diff(stamps_in_bursts())
    assert has_bursts(steps)
    assert estimate_even_step(steps) == pytest.approx(0.01, rel=1e-3)
    assert estimate_usual_step(steps) == estimate_even_step(steps)
    jitter = 0.01 * (1 + 0.3 * np.random.default_rng(0).uniform(-1, 1, 400))
    assert not has_bursts(jitter)
    assert estimate_usual_step(jitter) == np.median(jitter)
    assert not has_bursts(np.concatenate([np.full(150, 0.001), np.full(250, 0.01)]))  # one rate, then another
    gap = np.concatenate([steps[:2000], [9.0], steps[2000:]])
    assert has_bursts(gap)
    assert estimate_even_step(gap) == pytest.approx(0.01, rel=5e-3)


def test_an_even_step_is_the_slope_of_stamps_over_rows_between_gaps():
    rng = np.random.default_rng(1)
    parts = [np.cumsum(rng.uniform(0.5, 1.5, count)) for count in (30, 50)]
    slopes = [np.arange(len(part)) - (len(part) - 1) / 2 for part in parts]
    expected = sum(x @ t for x, t in zip(slopes, parts, strict=True)) / sum(x @ x for x in slopes)
    joined = np.concatenate([parts[0], parts[0][-1] + 100.0 + parts[1]])
    assert estimate_even_step(np.diff(joined)) == pytest.approx(expected, rel=1e-12)


def chunk(time, *columns, first=0):
    q = np.column_stack(columns)
    return Log(("a", "b"), np.asarray(time, dtype=float), q, np.ones_like(q), np.arange(first, first + len(time)))


def test_angles_are_unwrapped_as_numpy_does_over_chunks():
    t = np.arange(300) / 100
    turning = np.column_stack([9 * t, -4 * t + 0.3])
    wrapped = (turning + np.pi) % (2 * np.pi) - np.pi
    cleaner = Cleaner("log")
    parts = [cleaner.clean(chunk(t[k : k + 70], *wrapped[k : k + 70].T, first=k)) for k in range(0, 300, 70)]
    result = np.vstack([part.q for part in parts])
    assert_close(result, np.unwrap(wrapped, axis=0), SAME_ALGEBRA)
    assert cleaner.wraps == {
        "a": int(np.abs(np.diff(np.floor((turning[:, 0] + np.pi) / (2 * np.pi)))).sum()),
        "b": int(np.abs(np.diff(np.floor((turning[:, 1] + np.pi) / (2 * np.pi)))).sum()),
    }
    notes = messages(cleaner.findings(()))
    assert notes[0] == f"the angle of joint a wraps around: {cleaner.wraps['a']} jumps by a turn removed"
    single = Cleaner("log")
    single.clean(chunk([0.0, 0.1], [3.1, -3.1], [0.0, 0.5]))
    assert messages(single.findings(())) == ("the angle of joint a wraps around: 1 jump by a turn removed",)


@pytest.mark.parametrize(
    ("jump", "taken_out"), [(2 * np.pi - 0.49, True), (2 * np.pi - 0.51, False), (2 * np.pi + 0.49, True)]
)
def test_a_jump_by_nearly_a_turn_is_removed(jump, taken_out):
    result = Cleaner("log").clean(chunk([0.0, 0.1], [0.0, jump], [0.0, 0.0])).q[1, 0]
    assert result == pytest.approx(jump - 2 * np.pi * taken_out)


def test_dropped_rows_are_counted_by_reason():
    cleaner = Cleaner("log")
    first = chunk([0.0, 0.1, np.nan, 0.3], [0.0, np.nan, 1.0, 2.0], [0.0, np.inf, 0.0, 1.0])
    second = chunk([0.3, 0.3 + 4e-10, 0.4, 0.4, *np.arange(5, 60) / 10], *np.ones((2, 59)))
    assert cleaner.clean(first).time.tolist() == [0.0, 0.3]
    assert len(cleaner.clean(second)) == 56
    assert cleaner.not_numbers == {"position of a": 1, "position of b": 1}
    assert (cleaner.not_number_rows, cleaner.repeated, cleaner.kept, cleaner.row_count) == (2, 3, 58, 63)
    assert [*messages(cleaner.dropped_rows())] == [
        "2 of 63 rows of log hold NaN, infinity or more than 1e+30: position of a (1), position of b (1); dropped",
        "3 of 63 rows of log repeat the stamp of the row before; dropped",
    ]
    with raises(LogError, code=Code.INVALID_VALUE, subject="time"):
        Cleaner("log").clean(chunk([1.0, 0.6], [0.0, 0.0], [0.0, 0.0]))
    only_time = Cleaner("log")
    only_time.clean(chunk([np.nan, *np.arange(20.0)], *np.ones((2, 21))))
    assert [*messages(only_time.dropped_rows())] == [
        "1 of 21 rows of log hold NaN, infinity or more than 1e+30: time; dropped"
    ]


def test_a_draft_is_written_until_it_is_confirmed_and_its_tables_come_last():
    draft = SidecarDraft(
        "log.csv", (DraftLine("units.torque", "?", "who\nknows"), DraftLine("rate_hz", 100.0, "stamps")), ("odd",)
    )
    asked = draft.toml()
    assert asked.splitlines() == [
        "# Metadata of log.csv, guessed from its names and numbers.",
        "# Replace each ? by a value, correct what is wrong, and delete the next line.",
        "draft = true",
        "# note: odd",
        "rate_hz = 100.0  # stamps",
        'units.torque = "?"  # ?  who knows',
    ]
    assert "draft = true" not in draft.toml(confirmed=True)
    assert draft.toml(confirmed=False) == asked


@pytest.mark.parametrize(
    ("name", "robot", "side"),
    [("motor_position", PLANAR, "motor"), ("joint_position", None, "joint"), ("position", None, "?")],
)
def test_names_determine_the_side_if_numbers_do_not(name, robot, side):
    chosen = {"position": group(name), "torque": group("torque")}
    draft = _add_side(EMPTY, chosen, np.zeros((5, 2)), None, robot)
    assert draft.value("side.position") == side


def pack_chunk(stated, rest=b""):
    return (
        struct.pack("<BQ", 0x06, 32 + 8 + len(rest))
        + struct.pack("<QQQII", 0, 0, stated, 0, 0)
        + struct.pack("<Q", len(rest))
        + rest
    )


@pytest.mark.parametrize(
    ("stated", "code"), [(2**28 - 10, None), (2**28 - 9, Code.UNSAFE_INPUT), (2**28 + 1, Code.TOO_LARGE)]
)
def test_chunks_of_bags_become_no_larger_together_than_recordings_are(tmp_path, stated, code):
    path = tmp_path / "one.mcap"
    footer = struct.pack("<BQQQI", 2, 20, 0, 0, 0) + b"\x89MCAP0\r\n"
    path.write_bytes(b"\x89MCAP0\r\n" + pack_chunk(10) + pack_chunk(stated) + footer)
    if code is None:
        assert _read_mcap_channels(path) == {}
        return
    with raises(LogError, code=code, subject="one.mcap"):
        _read_mcap_channels(path)


def test_arrays_of_a_log_have_its_rows_and_joints():
    names, time, q, rows = ("a", "b"), np.arange(4.0), np.zeros((4, 2)), np.arange(4)
    for wrong in ((q[:3], q), (q, q[:, :1])):
        with raises(InputError, code=Code.WRONG_SHAPE):
            Log(names, time, *wrong, rows)
    for further in ({"qd": q[:3]}, {"qdd": q[:, :1]}):
        with raises(InputError, code=Code.WRONG_SHAPE):
            Log(names, time, q, q, rows, **further)
    assert repr(Log(names, time, q, q, rows)) == "Log(4 rows of 2 joints over 3 s)"
    assert repr(Log(names, time[:0], q[:0], q[:0], rows[:0])) == "Log(0 rows of 2 joints over 0 s)"


def test_joints_that_a_table_of_columns_names_are_the_robot_s():
    stated = dict(zip(PLANAR.primary_names, ("x", "y"), strict=True))
    assert _expand_column_names("position", stated, None, PLANAR) == ("x", "y")
    with raises(LogError, code=Code.UNKNOWN_NAME, subject="more"):
        _expand_column_names("position", {**stated, "more": "z"}, None, PLANAR)
    with raises(LogError, code=Code.WRONG_SHAPE, subject="columns.position"):
        _expand_column_names("position", ("x", "y", "z"), None, PLANAR)
    assert list_columns_and_joints([f"c{k}" for k in range(61)], PLANAR).startswith("the file has: c0, c1,")
    assert "c59 and 1 more; the robot has the joints: joint1, joint2" in list_columns_and_joints(
        [f"c{k}" for k in range(61)], PLANAR
    )
    assert "more" not in list_columns_and_joints([f"c{k}" for k in range(60)], PLANAR)


def test_messages_without_a_stamp_have_the_recorder_s(monkeypatch):
    numbers = np.zeros(1)
    text = {
        b"a": JointState(0, ("j",), numbers, numbers, numbers),
        b"b": JointState(1, ("j",), numbers, numbers, numbers),
    }
    monkeypatch.setattr(bag_table, "_list_parts", lambda _: [Path("x.db3")])
    monkeypatch.setattr(bag_table, "_read_db3_messages", lambda *_: [(77, b"a"), (88, b"b")])
    monkeypatch.setattr(bag_table, "decode_joint_state", text.__getitem__)
    assert [message.stamp_ns for message in bag_table._iterate_messages(Path("x"), "/joint_states")] == [77, 1]


def test_stamps_of_one_log_of_another_rate_are_kept_for_all():
    """A burst log of the wanted rate and one of half of it: both are resampled by their stamps."""

    def bursts(step):
        even = np.arange(2000) * step
        stamps = even[7::8].repeat(8) + 0.1 * step * np.tile(np.arange(8), 250) / 8
        q = np.column_stack([np.sin(3 * even), np.cos(2 * even)])
        return Log(("a", "b"), stamps, q, q, np.arange(2000))

    c = Conditioning(rate_hz=100.0)
    alike, notes = _resolve_time_base(c, [bursts(0.01), bursts(0.01)])
    assert alike.stamps == "uniform"
    assert "stamps come in bursts" in notes[0].message
    other, notes = _resolve_time_base(c, [bursts(0.01), bursts(0.02)])
    assert other.stamps == "measured"
    assert "stamps jitter or differ from 100 Hz" in notes[0].message
    with raises(LogError, code=Code.TOO_LITTLE_DATA, subject="rate_hz"):
        _resolve_time_base(c, [bursts(0.01).take(slice(0, 1))])
    lowest, notes = _resolve_time_base(Conditioning(), [bursts(0.01), bursts(0.02)])
    assert (lowest.rate_hz, lowest.stamps) == (pytest.approx(50.0, rel=1e-4), "measured")
    assert lowest.longest_gap_rows == pytest.approx(1.5 * 8, rel=0.05)  # pauses between bursts are no gaps
    assert notes[0].message.startswith("the logs have different rates (100.002, 50.0008 Hz): all are interpolated")
    with raises(LogError, code=Code.DISAGREEMENT, subject="rate_hz"):
        _resolve_time_base(Conditioning(), [bursts(0.01), bursts(0.102)])
