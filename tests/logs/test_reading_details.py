"""Details of reading: parts of bags in order, blanks between cells, zeros before numbers, repeated stamps, messages.

Private functions are tested directly: inputs at their limits are rare, or slow to reach, through public names.
"""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from closeness import SAME_ALGEBRA, assert_close
from raising import raises

from mindyn.foundation.errors import Code
from mindyn.logs.cleaning import Cleaner
from mindyn.logs.column_selection import _expand_column_names
from mindyn.logs.conditioning import Conditioning, condition_motion
from mindyn.logs.conversion import _unit_scales
from mindyn.logs.drafts.draft import format_toml_value
from mindyn.logs.drafts.draft_head import read_lerobot_names
from mindyn.logs.drafts.draft_names import _digit_count, is_measured
from mindyn.logs.drafts.drafting import draft_sidecar
from mindyn.logs.filters import edge_duration_s, lowpass
from mindyn.logs.formats.bag_table import _list_parts
from mindyn.logs.formats.cdr import decode_joint_state
from mindyn.logs.formats.mat_arrays import read_mat
from mindyn.logs.formats.parquet_table import _ThriftReader
from mindyn.logs.formats.tables import require_numbers
from mindyn.logs.formats.text_table import TextTable, split_line
from mindyn.logs.locations import parse_location
from mindyn.logs.log import Log, log_from_arrays
from mindyn.logs.log_errors import LogError
from mindyn.logs.metadata import LogMetadata
from mindyn.logs.periods import _changes_by_lag, build_timeline
from mindyn.logs.resolving import uniform_segments
from mindyn.robots.loading import load_robot


def test_parts_of_a_bag_follow_their_numbers(tmp_path):
    names = [f"run_{k}.db3" for k in (10, 2, 1, 0)]
    for name in names:
        (tmp_path / name).write_bytes(b"x")
    assert [part.name for part in _list_parts(tmp_path)] == ["run_0.db3", "run_1.db3", "run_2.db3", "run_10.db3"]


def test_blanks_between_and_around_cells_do_not_count():
    assert split_line("  1   2\t3 ", " ") == ["1", "2", "3"]
    assert split_line(' "a b"  2', " ")[-1] == "2"
    assert split_line('1; "a;b" ;3', ";") == ["1", "a;b", "3"]


def test_numbers_with_zeros_before_them_have_a_width():
    assert _digit_count(["q01x", "q02x", "q10x"], "q", "x") == 2
    assert _digit_count(["q001"], "q", "") == 3
    assert _digit_count(["q1", "q2"], "q", "") == 1
    assert _digit_count(["q0", "q1"], "q", "") == 1
    assert _digit_count(["q10", "q11"], "q", "") == 1


def test_values_are_written_as_toml():
    assert format_toml_value([1, 2.5]) == "[1, 2.5]"
    assert format_toml_value((True, "a")) == '[true, "a"]'
    assert format_toml_value({"x": [1], "y z": False}) == '{ x = [1], "y z" = false }'


def test_names_of_a_dataset_serve_where_they_are_texts_of_all_joints(tmp_path):
    (tmp_path / "meta").mkdir()
    path = tmp_path / "data" / "episode.parquet"

    def said(names):
        text = json.dumps({"features": {"state": {"names": names}}})
        (tmp_path / "meta" / "info.json").write_text(text)
        return read_lerobot_names(path, "state", ("elbow_joint", "wrist_joint"))

    assert said(["main_wrist.pos", "main_elbow.pos"]) == ["wrist_joint", "elbow_joint"]
    assert said({"motors": ["elbow", "wrist", "grip"]}) == ["elbow_joint", "wrist_joint", "grip"]
    for wrong in ([0, 1], None, "elbow wrist", ["elbow", "grip"], ["elbow", "elbow", "wrist"], [["elbow"], ["wrist"]]):
        assert said(wrong) is None


def test_rows_that_repeat_a_stamp_are_dropped_and_counted():
    time = np.array([0.0, 0.1, 0.1, 0.2, 0.3])
    q = np.arange(5.0)[:, None]
    cleaner = Cleaner("run")
    first = cleaner.clean(Log(("a",), time, q, q, np.arange(5)))
    assert first.time.tolist() == [0.0, 0.1, 0.2, 0.3]
    assert first.q[:, 0].tolist() == [0.0, 1.0, 3.0, 4.0]
    second = cleaner.clean(Log(("a",), np.array([0.3, 0.4]), q[:2], q[:2], np.arange(2)))
    assert second.time.tolist() == [0.4]
    assert (cleaner.repeated, cleaner.kept, cleaner.row_count) == (2, 5, 7)
    with raises(LogError, code=Code.INVALID_VALUE, subject="time"):
        cleaner.clean(Log(("a",), np.array([0.2, 0.5]), q[:2], q[:2], np.arange(2)))


def message(order, names, position):
    """A JointState as a robot sends it."""
    data = bytearray([0, 1 if order == "<" else 0, 0, 0])

    def align(size):
        data.extend(b"\0" * (-(len(data) - 4) % size))

    def text(word):
        align(4)
        data.extend(struct.pack(order + "I", len(word) + 1) + word.encode() + b"\0")

    data.extend(struct.pack(order + "iI", 7, 500))
    text("base")
    align(4)
    data.extend(struct.pack(order + "I", len(names)))
    for name in names:
        text(name)
    for values in (position, [], [1.5] * len(position)):
        align(4)
        data.extend(struct.pack(order + "I", len(values)))
        if values:
            align(8)
            data.extend(struct.pack(f"{order}{len(values)}d", *values))
    return bytes(data)


@pytest.mark.parametrize("order", ["<", ">"])
def test_messages_of_either_byte_order_are_read(order):
    state = decode_joint_state(message(order, ["j1", "elbow"], [0.25, -1.5]))
    assert state.names == ("j1", "elbow")
    assert state.position.tolist() == [0.25, -1.5]
    assert state.velocity.size == 0
    assert state.effort.tolist() == [1.5, 1.5]
    assert state.stamp_ns == 7 * 10**9 + 500
    for broken in (b"\1\1\0\0" + bytes(40), b"\0\2\0\0" + bytes(40), b"\0\1"):
        with raises(LogError, code=Code.UNSUPPORTED, subject="JointState"):
            decode_joint_state(broken)
    with raises(LogError, code=Code.UNREADABLE, subject="JointState"):
        decode_joint_state(message(order, ["j1"], [0.5])[:-3])


def test_the_usual_filter_is_of_fourth_order_without_delay():
    """An octave above the cut-off a filter of order 4, forwards and backwards, leaves 1 / (1 + 2^8)."""
    t = np.arange(4000) / 1000
    tone = np.sin(2 * np.pi * 20 * t)
    passed = lowpass(tone, 10.0, 1000.0)[1000:3000]
    gain = passed @ tone[1000:3000] / (tone[1000:3000] @ tone[1000:3000])
    assert_close(gain, 1 / (1 + 2.0**8), 0.05)
    assert_close([edge_duration_s(2.0), edge_duration_s(1e3)], [0.25, 0.1], SAME_ALGEBRA)


def test_footers_of_parquet_files_are_read_in_either_form_of_their_fields():
    """Thrift's compact protocol: a field's number as a step from the one before, or in full where the step is 0."""
    assert _ThriftReader(bytes([0x15, 0x02, 0x05, 0x28, 0x04, 0x15, 0x03, 0x00])).struct() == {1: 1, 20: 2, 21: -2}
    long_list = bytes([0x19, 0xF5, 0x10, *[0x06] * 16, 0x00])
    assert _ThriftReader(long_list).struct() == {1: [3] * 16}
    inner = bytes([0x1C, 0x35, 0x0A, 0x00, 0x11, 0x18, 0x03, 0x61, 0x62, 0x63, 0x15, 0x80, 0x01, 0x00])
    assert _ThriftReader(inner).struct() == {1: {3: 5}, 2: True, 3: b"abc", 4: 64}


def test_columns_of_one_name_are_rejected(tmp_path):
    (tmp_path / "run.csv").write_text("t,q1,q1\n0,1,2\n1,2,3\n")
    with raises(LogError, code=Code.DUPLICATE, subject="q1"):
        TextTable(tmp_path / "run.csv")


@pytest.mark.parametrize("version", ["4", "5"])
def test_files_of_matlab_are_read_in_either_version(tmp_path, version):
    from scipy.io import savemat

    given = {"q": np.arange(12.0).reshape(4, 3), "t": np.arange(4.0)[:, None]}
    savemat(tmp_path / "run.mat", given, format=version)
    mat = read_mat(tmp_path / "run.mat")
    assert (mat["q"] == given["q"]).all()
    assert (mat["t"] == given["t"][:, 0]).all()


def test_a_last_word_d_or_c_means_desired_or_commanded():
    assert is_measured(("q",))
    assert is_measured(("d",))
    assert is_measured(("tau", "j"))
    for words in (("q", "d"), ("tau", "j", "d"), ("q", "c")):
        assert not is_measured(words)


def test_differences_are_the_rates_of_a_sine():
    t = np.arange(1000) / 200
    q = np.sin(3 * t)[:, None]
    log = log_from_arrays(("a",), t, q, q, 7 * q, 9 * q)
    c = Conditioning(rate_hz=200.0, motion_hz=20.0, edge_s=0.1)
    inner = slice(200, 800)
    motion = condition_motion(log, c)
    assert_close(motion.q[inner], q[inner], 1e-3)
    assert_close(motion.qd[inner, 0], 3 * np.cos(3 * t)[inner], 0.01)
    assert_close(motion.qdd[inner, 0], -9 * np.sin(3 * t)[inner], 0.02)
    measured = condition_motion(log, replace(c, velocity="measured"))
    assert_close(measured.qd[inner], 7 * q[inner], 1e-3)
    assert_close(measured.qdd[inner, 0], 21 * np.cos(3 * t)[inner], 0.01)
    assert_close(condition_motion(log, replace(c, acceleration="measured")).qdd[inner], 9 * q[inner], 1e-3)


def test_motions_one_after_another_and_in_step():
    x = np.random.default_rng(0).normal(size=(20, 2))
    y = np.vstack([np.random.default_rng(1).normal(size=(7, 2)), x[:15] + 0.1])
    change, deviation = _changes_by_lag(x, y)
    for lag, result, spread in zip(range(-19, 22), change, deviation, strict=True):
        first, last = max(0, -lag), min(20, len(y) - lag)
        expected, other = x[first:last], y[first + lag : last + lag]
        assert_close(result, np.sqrt(((other - expected) ** 2).mean(axis=0)).max(), 1e-9)
        if last - first > 1:
            assert_close(spread, expected.std(axis=0).max(), 1e-9)
    assert int(np.argmin(change[5:-5])) + 5 - 19 == 7


def test_places_are_paths_unless_they_are_urls():
    assert parse_location("runs/run.csv") == Path("runs/run.csv")
    assert parse_location(Path("runs/run.csv")) == Path("runs/run.csv")
    assert parse_location("file:///runs/run.csv") == Path("/runs/run.csv")
    with raises(LogError, code=Code.WRONG_TYPE, subject="s3:/bucket/run.parquet"):
        parse_location(Path("s3://bucket/run.parquet"))


def draft(folder, columns):
    rows = zip(*columns.values(), strict=True)
    text = "\n".join([",".join(columns), *(",".join(f"{value:.9g}" for value in row) for row in rows)])
    (folder / "run.csv").write_text(text + "\n")
    return {line.key: line for line in draft_sidecar(folder / "run.csv", load_robot("planar2")).lines}


def test_a_draft_contains_only_known_values(tmp_path):
    t = np.arange(400) / 100
    q = {f"pos_{k}": np.sin((k + 1) * t) for k in (1, 2)}
    v = {f"vel_{k}": (k + 1) * np.cos((k + 1) * t) for k in (1, 2)}
    tau = {f"torque_{k}": np.cos(k * t) for k in (1, 2)}
    timeless = draft(tmp_path, {**q, **v, **tau})
    assert (timeless["units.velocity"].value, timeless["rate_hz"].value) == ("rad/s", 100.0)
    assert "in the same unit" in timeless["rate_hz"].evidence
    assert "definition of the format" not in timeless["units.position"].evidence
    timed = draft(tmp_path, {"time": t, **q, **v, **tau})
    assert timed["units.velocity"].value == "rad/s"
    slow = draft(tmp_path, {"time": t, **q, **{name: np.rad2deg(item) for name, item in v.items()}, **tau})
    assert slow["units.velocity"].value == "deg/s"
    named = draft(tmp_path, {**q, **{f"vel_deg_s_{k}": item for k, item in enumerate(v.values(), 1)}, **tau})
    assert (named["units.velocity"].value, named["rate_hz"].value) == ("deg/s", "?")
    tiny = {name: 0.01 * item for name, item in q.items()}  # radians or degrees
    unknown = draft(tmp_path, {"time": t, **tiny, **{f"acc_{k}": item for k, item in enumerate(v.values(), 1)}, **tau})
    assert unknown["units.position"].value == unknown["units.acceleration"].value == "?"
    known = draft(tmp_path, {"time": t, **q, **{f"acc_{k}": item for k, item in enumerate(v.values(), 1)}, **tau})
    assert known["units.acceleration"].value == "rad/s^2"
    other = draft(tmp_path, {"time": t, **q, **{name: item[::-1] ** 2 for name, item in v.items()}, **tau})
    assert "columns.velocity" not in other


def test_as_many_columns_as_joints_are_listed():
    robot = load_robot("planar2")
    assert _expand_column_names("torque", ["a", "b"], None, robot) == ("a", "b")
    for wrong in (["a"], ["a", "b", "c"]):
        with raises(LogError, code=Code.WRONG_SHAPE, subject="columns.torque"):
            _expand_column_names("torque", wrong, None, robot)


def test_currents_become_torques_by_their_gains():
    robot = load_robot("planar2")
    mixed = {"joint1": "mA", "joint2": "N m"}
    log_metadata = LogMetadata(units={"position": "deg", "torque": mixed}, current_gains=(12.0, 5.0))
    assert_close(_unit_scales("torque", log_metadata, robot), [12e-3, 1.0], SAME_ALGEBRA)
    assert_close(_unit_scales("position", log_metadata, robot), [np.pi / 180] * 2, SAME_ALGEBRA)
    with raises(LogError, code=Code.MISSING_VALUE, subject="current_gains"):
        _unit_scales("torque", LogMetadata(units={"torque": "A"}), robot)


def test_whole_numbers_stay_whole_and_others_are_of_full_length():
    stamps = np.array([2**62 + 1], dtype=np.int64)
    assert require_numbers(stamps, "t", "run")[0] == 2**62 + 1
    for short in (np.float32, np.bool_):
        assert require_numbers(np.ones(2, dtype=short), "q", "run").dtype == np.float64
    with raises(LogError, code=Code.WRONG_TYPE, subject="q"):
        require_numbers(np.array(["a"]), "q", "run")


def test_segments_end_where_stamps_are_far_apart():
    t = np.concatenate([np.arange(50), np.arange(60, 90)]) / 100
    log = log_from_arrays(("a",), t, t[:, None], t[:, None])
    c = Conditioning(rate_hz=100.0, stamps="uniform", longest_gap_rows=2.5)
    assert [len(segment) for segment in uniform_segments(c, [log])] == [50, 30]
    assert [len(segment) for segment in uniform_segments(replace(c, longest_gap_rows=20.0), [log])] == [80]


def test_a_motion_that_does_not_repeat_has_its_times_for_places():
    t = 7.0 + np.arange(900) / 30
    q = np.column_stack([np.sin(0.02 * (t - 7) ** 2), (t - 7) / 30])
    line = build_timeline([t], [q])
    assert line.period_s is None
    assert_close(line.times[0][:-2], t[:-2] - 7.0, 1e-9)
    two = build_timeline([t, t], [q, -q[::-1] + 0.3 * np.cos(q)])
    assert two.times[1][0] > two.times[0][0]
    again = build_timeline([t, t + 100], [q, q])
    assert_close(again.times[1], again.times[0], 1e-3)
