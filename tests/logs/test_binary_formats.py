"""Binary formats by their specifications: CDR messages, Thrift footers, MATLAB and NumPy files.

Private functions are tested directly: inputs at their limits are rare, or slow to reach, through public names.
"""

from __future__ import annotations

import os
import struct

import numpy as np
import pytest
from raising import raises

from mindyn.foundation.errors import Code
from mindyn.logs.formats import formats
from mindyn.logs.formats.array_table import ArrayTable
from mindyn.logs.formats.cdr import decode_joint_state
from mindyn.logs.formats.formats import open_table
from mindyn.logs.formats.mat_arrays import read_mat
from mindyn.logs.formats.npz_arrays import NpzArrays
from mindyn.logs.formats.parquet_table import _SAVED_STDERR, _ThriftReader, hide_panic_text
from mindyn.logs.formats.tables import require_numbers
from mindyn.logs.log_errors import LogError
from mindyn.logs.metadata import LogMetadata
from mindyn.robots.loading import load_robot


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


def test_footers_of_parquet_files_are_read_in_either_form_of_their_fields():
    """Thrift's compact protocol: a field's number as a step from the one before, or in full where the step is 0."""
    assert _ThriftReader(bytes([0x15, 0x02, 0x05, 0x28, 0x04, 0x15, 0x03, 0x00])).struct() == {1: 1, 20: 2, 21: -2}
    long_list = bytes([0x19, 0xF5, 0x10, *[0x06] * 16, 0x00])
    assert _ThriftReader(long_list).struct() == {1: [3] * 16}
    inner = bytes([0x1C, 0x35, 0x0A, 0x00, 0x11, 0x18, 0x03, 0x61, 0x62, 0x63, 0x15, 0x80, 0x01, 0x00])
    assert _ThriftReader(inner).struct() == {1: {3: 5}, 2: True, 3: b"abc", 4: 64}


@pytest.mark.parametrize("version", ["4", "5"])
def test_files_of_matlab_are_read_in_either_version(tmp_path, version):
    from scipy.io import savemat

    given = {"q": np.arange(12.0).reshape(4, 3), "t": np.arange(4.0)[:, None]}
    savemat(tmp_path / "run.mat", given, format=version)
    mat = read_mat(tmp_path / "run.mat")
    assert (mat["q"] == given["q"]).all()
    assert (mat["t"] == given["t"][:, 0]).all()


def test_whole_numbers_stay_whole_and_others_are_of_full_length():
    stamps = np.array([2**62 + 1], dtype=np.int64)
    assert require_numbers(stamps, "t", "run")[0] == 2**62 + 1
    for short in (np.float32, np.bool_):
        assert require_numbers(np.ones(2, dtype=short), "q", "run").dtype == np.float64
    with raises(LogError, code=Code.WRONG_TYPE, subject="q"):
        require_numbers(np.array(["a"]), "q", "run")


def test_arrays_along_either_axis_and_their_heads():
    table = ArrayTable("run.npz", {"q": np.arange(12).reshape(2, 6), "t": np.arange(6), "s": np.array(["a"])}, 2)
    assert [len(chunk["t"]) for chunk in table.chunks(["t", "q"], 4)] == [4, 2]
    head = table.head(3)
    assert list(head) == ["q", "t"]
    assert head["q"].tolist() == [[0, 6], [1, 7], [2, 8]]
    with raises(LogError, code=Code.AMBIGUOUS, subject="q"):
        list(ArrayTable("run.npz", {"q": np.zeros((2, 2))}, 2).chunks(["q"], 4))
    with raises(LogError, code=Code.WRONG_TYPE, subject="s"):
        require_numbers(np.array(["a"]), "s", "run")


def test_npz_files_hold_vectors_and_matrices(tmp_path):
    path = tmp_path / "run.npz"
    np.savez(
        path, t=np.arange(4.0), q=np.asfortranarray(np.arange(8.0).reshape(4, 2)), one=1.0, cube=np.zeros((2, 2, 2))
    )
    arrays = NpzArrays(path)
    assert sorted(arrays) == ["q", "t"]
    assert len(arrays) == 2
    assert arrays["q"].tolist() == np.arange(8.0).reshape(4, 2).tolist()
    np.savez(path, t=np.array([{}], dtype=object))
    with raises(LogError, code=Code.UNSAFE_INPUT, subject="t"):
        NpzArrays(path)["t"]


def test_readers_turn_the_standard_error_back_when_the_last_is_done():
    def where():
        return os.stat(2).st_ino, os.stat(2).st_dev

    before = where()
    with hide_panic_text():
        away = where()
        assert away != before
        with hide_panic_text():
            assert where() == away
        assert where() == away
    assert where() == before
    assert not _SAVED_STDERR


def test_what_breaks_off_is_known_by_its_form(tmp_path, monkeypatch):
    def broken(*_):
        raise ValueError("odd")

    robot = load_robot("planar2")
    monkeypatch.setattr(formats, "_open_bag", broken)
    (tmp_path / "bag").mkdir()
    with raises(LogError, code=Code.UNREADABLE, subject="bag"):
        open_table(tmp_path / "bag", robot, LogMetadata())
    (tmp_path / "run.csv").write_text("x")
    monkeypatch.setitem(formats.LOG_FORMATS, ".csv", broken)
    with raises(LogError, code=Code.UNREADABLE, subject="run.csv"):
        open_table(tmp_path / "run.csv", robot, LogMetadata())
    (tmp_path / "none.csv").write_text("")
    with raises(LogError, code=Code.TOO_LITTLE_DATA, subject="none.csv"):
        open_table(tmp_path / "none.csv", robot, LogMetadata())
