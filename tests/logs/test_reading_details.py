"""Details of reading: parts of bags in order, blanks between cells, zeros before numbers, repeated stamps, messages."""

from __future__ import annotations

import json
import struct

import numpy as np
import pytest
from closeness import SAME_ALGEBRA, assert_close

from mindyn.logs.bag_table import _parts
from mindyn.logs.cdr import decode_joint_state
from mindyn.logs.cleaning import Cleaner
from mindyn.logs.conditioning import Conditioning
from mindyn.logs.delay import DelayScan, joint_delay_notes
from mindyn.logs.draft import toml_value
from mindyn.logs.draft_names import _width
from mindyn.logs.drafting import _lerobot_names
from mindyn.logs.filters import edge_s, lowpass
from mindyn.logs.findings import LogError
from mindyn.logs.log import log_of_arrays
from mindyn.logs.samples import Samples
from mindyn.logs.text_table import split_line


def test_parts_of_a_bag_follow_their_numbers(tmp_path):
    names = [f"run_{k}.db3" for k in (10, 2, 1, 0)]
    for name in names:
        (tmp_path / name).write_bytes(b"x")
    assert [part.name for part in _parts(tmp_path)] == ["run_0.db3", "run_1.db3", "run_2.db3", "run_10.db3"]


def test_blanks_between_and_around_cells_do_not_count():
    assert split_line("  1   2\t3 ", " ") == ["1", "2", "3"]
    assert split_line(' "a b"  2', " ")[-1] == "2"
    assert split_line('1; "a;b" ;3', ";") == ["1", "a;b", "3"]


def test_numbers_with_zeros_before_them_have_a_width():
    assert _width(["q01x", "q02x", "q10x"], "q", "x") == 2
    assert _width(["q001"], "q", "") == 3
    assert _width(["q1", "q2"], "q", "") == 1
    assert _width(["q0", "q1"], "q", "") == 1
    assert _width(["q10", "q11"], "q", "") == 1


def test_values_are_written_as_toml():
    assert toml_value([1, 2.5]) == "[1, 2.5]"
    assert toml_value((True, "a")) == '[true, "a"]'
    assert toml_value({"x": [1], "y z": False}) == '{ x = [1], "y z" = false }'


def test_names_of_a_dataset_serve_where_they_are_texts_of_all_joints(tmp_path):
    (tmp_path / "meta").mkdir()
    path = tmp_path / "data" / "episode.parquet"

    def said(names):
        text = json.dumps({"features": {"state": {"names": names}}})
        (tmp_path / "meta" / "info.json").write_text(text)
        return _lerobot_names(path, "state", ("elbow_joint", "wrist_joint"))

    assert said(["main_wrist.pos", "main_elbow.pos"]) == ["wrist_joint", "elbow_joint"]
    assert said({"motors": ["elbow", "wrist", "grip"]}) == ["elbow_joint", "wrist_joint", "grip"]
    for wrong in ([0, 1], None, "elbow wrist", ["elbow", "grip"], ["elbow", "elbow", "wrist"], [["elbow"], ["wrist"]]):
        assert said(wrong) is None


def test_rows_that_repeat_a_stamp_are_left_out_and_counted():
    time = np.array([0.0, 0.1, 0.1, 0.2, 0.3])
    q = np.arange(5.0)[:, None]
    cleaner = Cleaner("run")
    first = cleaner.clean(log_of_arrays(("a",), time, q, q))
    assert first.time.tolist() == [0.0, 0.1, 0.2, 0.3]
    assert first.q[:, 0].tolist() == [0.0, 1.0, 3.0, 4.0]
    second = cleaner.clean(log_of_arrays(("a",), np.array([0.3, 0.4]), q[:2], q[:2]))
    assert second.time.tolist() == [0.4]
    assert (cleaner.repeated, cleaner.kept, cleaner.row_count) == (2, 5, 7)
    with pytest.raises(LogError, match="time goes back by 0.2 s"):
        cleaner.clean(log_of_arrays(("a",), np.array([0.2, 0.5]), q[:2], q[:2]))


def test_a_joint_that_never_moves_is_named():
    time = np.arange(30) / 10
    q = np.column_stack([0.002 * np.sin(time), 0.0004 * np.sin(time)])
    cleaner = Cleaner("run")
    cleaner.clean(log_of_arrays(("moves", "rests"), time, q, q))
    assert [note.split()[1] for note in cleaner.notes(("moves", "rests"), ())] == ["rests"]


def message(order, names, position):
    """A JointState as a robot sends it."""
    data = bytearray([0, 1 if order == "<" else 0, 0, 0])

    def aligned(size):
        data.extend(b"\0" * (-(len(data) - 4) % size))

    def text(word):
        aligned(4)
        data.extend(struct.pack(order + "I", len(word) + 1) + word.encode() + b"\0")

    data.extend(struct.pack(order + "iI", 7, 500))
    text("base")
    aligned(4)
    data.extend(struct.pack(order + "I", len(names)))
    for name in names:
        text(name)
    for values in (position, [], [1.5] * len(position)):
        aligned(4)
        data.extend(struct.pack(order + "I", len(values)))
        if values:
            aligned(8)
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
        with pytest.raises(LogError, match="plain CDR starts with"):
            decode_joint_state(broken)
    with pytest.raises(LogError, match="breaks off"):
        decode_joint_state(message(order, ["j1"], [0.5])[:-3])


def test_the_usual_filter_is_of_fourth_order_without_delay():
    """An octave above the cut-off a filter of order 4, forwards and backwards, leaves 1 / (1 + 2^8)."""
    t = np.arange(4000) / 1000
    tone = np.sin(2 * np.pi * 20 * t)
    passed = lowpass(tone, 10.0, 1000.0, Conditioning().order)[1000:3000]
    gain = passed @ tone[1000:3000] / (tone[1000:3000] @ tone[1000:3000])
    assert_close(gain, 1 / (1 + 2.0**8), 0.05)
    assert_close([edge_s(2.0), edge_s(1e3)], [0.25, 0.1], SAME_ALGEBRA)


def test_torques_out_of_step_with_each_other_are_named():
    t = np.arange(3000) / 200
    q = np.column_stack([np.sin(1.1 * t), np.cos(1.7 * t)])
    qdd = np.column_stack([-1.21 * np.sin(1.1 * t), -2.89 * np.cos(1.7 * t)])
    late = t - 0.04
    tau = np.column_stack([3 * qdd[:, 0], 2 * -2.89 * np.cos(1.7 * late)])
    samples = Samples(("a", "b"), q, 0 * q, qdd, tau, 200.0, np.zeros(len(t), dtype=np.int64))
    scan = DelayScan(samples, lambda rows: [qdd[rows, :1], qdd[rows, 1:]])
    assert abs(scan.best_of(0).seconds) < 0.005
    assert_close(scan.best_of(1).seconds, 0.04, 0.05)
    assert scan.best_of(1).unexplained < 1e-3 < scan.best_of(1).unexplained_without
    (note,) = joint_delay_notes(scan, 0.01)
    assert "a 10 ms, b 50 ms" in note
    together = DelayScan(samples, lambda rows: [qdd[rows, :1], tau[rows, 1:]])
    assert joint_delay_notes(together, 0.0) == []
    short = samples.take(slice(0, 20))
    few = DelayScan(short, lambda rows: [short.qdd[rows, :1], short.qdd[rows, 1:]])
    assert joint_delay_notes(few, 0.0) == []
