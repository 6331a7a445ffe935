"""Bytes of MATLAB, NumPy, Parquet and bag files beside SciPy's writer and bytes laid out by hand.

Private functions are tested directly: inputs at their limits are rare, or slow to reach, through public names.
"""

from __future__ import annotations

import io
import struct
import zipfile
import zlib

import numpy as np
import pytest
from closeness import EXACT, assert_close
from raising import raises
from scipy.io import savemat

from mindyn.foundation.errors import Code
from mindyn.foundation.safe_reading import InputBudget
from mindyn.logs.formats.array_table import ArrayTable
from mindyn.logs.formats.cdr import JointState, decode_joint_state, stack_messages
from mindyn.logs.formats.mat_arrays import _ByteReader, read_mat
from mindyn.logs.formats.mcap_records import _decompress_chunk
from mindyn.logs.formats.npz_arrays import NpzArrays
from mindyn.logs.formats.parquet_table import _ThriftReader
from mindyn.logs.log_errors import LogError

KINDS = ["f8", "f4", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"]


@pytest.mark.parametrize("packed", [False, True])
def test_arrays_of_every_type_are_read_as_scipy_wrote_them(tmp_path, packed):
    rng = np.random.default_rng(0)
    arrays = {f"x_{kind}": rng.integers(0, 100, (4, 3)).astype(kind) for kind in KINDS}
    inner = {"tau": rng.normal(size=(5, 2)), "deep": {"q": rng.normal(size=(3, 4))}, "word": "text"}
    rest = {
        "row": np.arange(6.0)[None],
        "one": np.ones((1, 1)),
        "z": np.ones((2, 2)) * 1j,
        "cell": np.array([1, "a"], dtype=object),
    }
    several = np.array([(1.0,), (2.0,)], dtype=[("a", "f8")])
    savemat(tmp_path / "a.mat", {**arrays, "s": inner, "many": several, **rest}, do_compression=packed)
    mat = read_mat(tmp_path / "a.mat")
    assert set(mat) == {*arrays, "s.tau", "s.deep.q", "row"}
    for name, array in arrays.items():
        assert mat[name].dtype == array.dtype
        assert_close(mat[name], array, EXACT)
    assert_close(mat["s.tau"], inner["tau"], EXACT)
    assert_close(mat["s.deep.q"], inner["deep"]["q"], EXACT)
    assert mat["row"].shape == (6,)


def test_arrays_of_the_fourth_version_are_read(tmp_path):
    arrays = {kind: np.arange(1, 7).reshape(2, 3).astype(kind) for kind in ("f8", "f4", "i4", "i2", "u2", "u1")}
    rest = {"z": np.ones((2, 2)) * 1j, "last": np.arange(4.0)[:, None], "one": np.ones((1, 1)), "word": "abc"}
    savemat(tmp_path / "a.mat", {**arrays, **rest}, format="4")
    mat = read_mat(tmp_path / "a.mat")
    assert set(mat) == {*arrays, "last"}
    for name, array in arrays.items():
        assert_close(mat[name], array, EXACT)
    assert mat["last"].shape == (4,)


def old_matrix(form, rows, columns, name, content, mark="<", imaginary=0):
    return struct.pack(f"{mark}5i", form, rows, columns, imaginary, len(name)) + name + content


def test_bytes_of_the_fourth_version_in_either_order(tmp_path):
    for mark, form in (("<", 0), (">", 1000)):
        content = old_matrix(form, 3, 1, b"q\0", struct.pack(f"{mark}3d", 1.0, 2.0, 3.0), mark)
        (tmp_path / "a.mat").write_bytes(content)
        assert read_mat(tmp_path / "a.mat")["q"].tolist() == [1.0, 2.0, 3.0]
    for wrong in (
        old_matrix(60, 3, 1, b"q\0", b"0" * 24),
        old_matrix(3, 3, 1, b"q\0", b"0" * 24),
        old_matrix(0, -3, 1, b"q\0", b""),
    ):
        (tmp_path / "a.mat").write_bytes(wrong)
        with raises(LogError, code=Code.UNREADABLE, subject="a.mat"):
            read_mat(tmp_path / "a.mat")
    (tmp_path / "a.mat").write_bytes(old_matrix(0, 3, 1, b"q\0", b"0" * 23))
    with raises(LogError, code=Code.UNREADABLE, subject="a.mat"):
        read_mat(tmp_path / "a.mat")
    (tmp_path / "a.mat").write_bytes(old_matrix(0, 0, 5, b"q\0", b""))
    assert read_mat(tmp_path / "a.mat") == {}


def element(kind, content, mark="<"):
    return struct.pack(f"{mark}II", kind, len(content)) + content + b"\0" * (-len(content) % 8)


def matrix(name, values, mark="<", flags=6, shape=None):
    shape = values.shape if shape is None else shape
    code = {"<": "<f8", ">": ">f8"}[mark]
    inner = element(6, struct.pack(f"{mark}II", flags, 0), mark)
    inner += element(5, struct.pack(f"{mark}{len(shape)}i", *shape), mark) + element(1, name, mark)
    return element(14, inner + element(9, values.astype(code).tobytes(order="F"), mark), mark)


def whole(*parts, mark="<"):
    return b"MATLAB 5.0".ljust(124) + b"\0\1" + (b"IM" if mark == "<" else b"MI") + b"".join(parts)


@pytest.mark.parametrize("mark", ["<", ">"])
def test_elements_in_either_byte_order(tmp_path, mark):
    values = np.arange(6.0).reshape(2, 3)
    packed = zlib.compress(matrix(b"second", 2 * values, mark))
    content = whole(
        matrix(b"first", values, mark),
        struct.pack(f"{mark}II", 15, len(packed)) + packed,
        element(2, b"x", mark),
        matrix(b"third", 3 * values, mark),
        mark=mark,
    )
    (tmp_path / "a.mat").write_bytes(content)
    mat = read_mat(tmp_path / "a.mat")
    assert list(mat) == ["first", "second", "third"]
    for k, name in enumerate(mat):
        assert_close(mat[name], (k + 1) * values, EXACT)


def test_matrices_that_contradict_themselves_are_rejected(tmp_path):
    values = np.arange(6.0).reshape(2, 3)
    for content, text in (
        (whole(matrix(b"q", values, shape=(2, 4))), "has 6 numbers, but its shape is"),
        (whole(matrix(b"q", values, shape=(-2, -3))), "has shape"),
        (b"MATLAB".ljust(126) + b"XX", "no header of a MATLAB file"),
        (b"MATLAB", "no header of a MATLAB file"),
        (whole(struct.pack("<II", 14, 99)), "99 bytes are declared, but 0 are left"),
    ):
        (tmp_path / "a.mat").write_bytes(content)
        with raises(LogError, code=Code.UNREADABLE, subject="a.mat") as raised:
            read_mat(tmp_path / "a.mat")
        assert text in raised.value.message
    (tmp_path / "a.mat").write_bytes(
        whole(matrix(b"q", values, flags=6 | 0x800), matrix(b"", values), matrix(b"c", values, flags=4))
    )
    assert read_mat(tmp_path / "a.mat") == {}  # complex, without a name, of characters


def test_small_elements_keep_type_and_content_in_one_word():
    part = _ByteReader(memoryview(struct.pack("<HHBBxx", 2, 2, 7, 9) + element(4, struct.pack("<H", 5))), "<")
    assert part.numbers().tolist() == [7, 9]
    assert part.more
    assert part.numbers().tolist() == [5]
    assert not part.more
    with pytest.raises(ValueError, match="1 bytes are declared, but 0 are left"):
        part.take(1)
    with pytest.raises(ValueError):
        _ByteReader(memoryview(b"abc"), "<").take(-1)
    with pytest.raises(ValueError, match="more than four bytes"):
        _ByteReader(memoryview(struct.pack("<HHI", 2, 5, 0)), "<").element()
    four = _ByteReader(memoryview(struct.pack("<HHI", 6, 4, 77)), "<")
    assert four.numbers().tolist() == [77]
    with pytest.raises(ValueError, match="numbers have the unknown type 16"):
        _ByteReader(memoryview(element(16, b"abc")), "<").numbers()
    assert _ByteReader(memoryview(element(1, b"name\0\0")), "<").text() == "name"


def npz(path, **entries):
    with zipfile.ZipFile(path, "w") as file:
        for name, content in entries.items():
            file.writestr(f"{name}.npy", content)
    return path


def npy(array, version=None):
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array, version)
    return stream.getvalue()


def test_arrays_of_numpy_are_read_by_rows_or_columns_and_whole(tmp_path):
    values = np.arange(6.0).reshape(2, 3)
    npz_arrays = NpzArrays(
        npz(
            tmp_path / "a.npz",
            rows=npy(values),
            columns=npy(np.asfortranarray(values)),
            cube=npy(np.ones((2, 2, 2))),
            new=npy(values[0], (2, 0)),
            point=npy(np.array(1.0)),
        )
    )
    assert list(npz_arrays) == ["rows", "columns", "new"]
    assert len(npz_arrays) == 3
    for name, expected in (("rows", values), ("columns", values), ("new", values[0])):
        assert_close(npz_arrays[name], expected, EXACT)
    assert npz_arrays["rows"] is npz_arrays["rows"]
    short = NpzArrays(npz(tmp_path / "b.npz", q=npy(values)[:-1]))
    with raises(LogError, code=Code.UNREADABLE, subject="b.npz"):
        short["q"]
    objects = NpzArrays(npz(tmp_path / "c.npz", q=npy(np.array([None, 1], dtype=object))))
    with raises(LogError, code=Code.UNSAFE_INPUT, subject="q"):
        objects["q"]


def test_arrays_of_different_lengths_and_shapes_are_rejected():
    table = ArrayTable(
        "run.npz",
        {
            "q": np.ones((9, 2)),
            "tau": np.ones((2, 8)),
            "t": np.arange(9.0),
            "odd": np.ones((9, 3)),
            "square": np.ones((2, 2)),
        },
        2,
    )
    with raises(LogError, code=Code.DISAGREEMENT, subject="run.npz"):
        list(table.chunks(["q", "tau"], 4))
    assert [len(chunk["q"]) for chunk in table.chunks(["q", "t"], 4)] == [4, 4, 1]
    with raises(LogError, code=Code.WRONG_SHAPE, subject="odd") as rejected:
        list(table.chunks(["odd"], 4))
    assert rejected.value.hint == "is it the log of another robot?"
    with raises(LogError, code=Code.AMBIGUOUS, subject="square") as rejected:
        list(table.chunks(["square"], 4))
    assert rejected.value.hint == "there are as many rows as joints, so the time axis is ambiguous: log more rows"
    columns = ArrayTable("run", {"a": np.arange(5.0)[:, None], "b": np.arange(5.0)[None]}, 2)
    (chunk,) = columns.chunks(["a", "b"], 9)
    assert (chunk["a"].tolist(), chunk["b"].tolist()) == ([0, 1, 2, 3, 4], [0, 1, 2, 3, 4])


def test_numbers_of_a_footer():
    def footer(*data):
        return _ThriftReader(bytes(data))

    assert [footer(item)._integer() for item in (0, 1, 2, 3)] == [0, -1, 1, -2]
    assert footer(0x80 | 44, 2)._varint() == 44 + 2 * 128
    # 1: true; 3 (two on): 300; 20 (by number): a list of three bytes; 21: a text; 22: a double; 23: false
    created = footer(0x11, 0x25, 0xD8, 0x04, 0x09, 40, 0x33, 7, 8, 9, 0x18, 2, 65, 66, 0x17, *[0] * 8, 0x12, 0)
    assert created.struct() == {1: True, 3: 300, 20: [7, 8, 9], 21: b"AB", 22: bytes(8), 23: False}
    nested = footer(0x1C, 0x16, 4, 0, 0x19, 0xF5, 16, *[2] * 16, 0)
    assert nested.struct() == {1: {1: 2}, 2: [1] * 16}


def joint_state(names, fields, order="<", stamp=(3, 5)):
    data = bytearray([0, 1 if order == "<" else 0, 0, 0])

    def align(size):
        data.extend(b"\0" * (-(len(data) - 4) % size))

    def integer(value):
        align(4)
        data.extend(struct.pack(f"{order}I", value))

    def text(word):
        integer(len(word) + 1)
        data.extend(word.encode() + b"\0")

    data.extend(struct.pack(f"{order}iI", *stamp))
    text("base")
    integer(len(names))
    for name in names:
        text(name)
    for values in fields:
        integer(len(values))
        if values:
            align(8)
            data.extend(struct.pack(f"{order}{len(values)}d", *values))
    return bytes(data)


@pytest.mark.parametrize("order", ["<", ">"])
def test_messages_are_decoded_field_by_field(order):
    data = joint_state(["a", "elbow"], [[1.0, 2.0], [], [3.0, -4.0]], order)
    result = decode_joint_state(data)
    assert result.stamp_ns == 3_000_000_005
    assert result.names == ("a", "elbow")
    assert (result.position.tolist(), result.velocity.tolist(), result.effort.tolist()) == ([1, 2], [], [3, -4])
    with raises(LogError, code=Code.UNREADABLE, subject="JointState"):
        decode_joint_state(data[:-1])
    for wrong in (b"\1\1\0\0" + data[4:], b"\0\2\0\0" + data[4:], b"\0\1\0"):
        with raises(LogError, code=Code.UNSUPPORTED, subject="JointState"):
            decode_joint_state(wrong)
    early = decode_joint_state(joint_state(["a"], [[1.0], [], []], order, (-2, 5)))
    assert early.stamp_ns == -2_000_000_000 + 5


def test_columns_follow_the_joints_of_each_message():
    empty = np.empty(0)
    joint_state = JointState(1, ("a", "b"), np.array([1.0, 2.0]), empty, np.array([5.0, 6.0]))
    other = JointState(2, ("b", "c", "a"), np.array([20.0, 30.0, 10.0]), empty, np.array([60.0, 0.0, 50.0]))
    result = stack_messages([joint_state, other, joint_state], ["stamp", "b.position", "a.effort"], "bag")
    assert {name: values.tolist() for name, values in result.items()} == {
        "stamp": [1, 2, 1],
        "b.position": [2.0, 20.0, 2.0],
        "a.effort": [5.0, 50.0, 5.0],
    }
    with raises(LogError, code=Code.MISSING_VALUE, subject="velocity"):
        stack_messages([joint_state], ["a.velocity"], "bag")


def chunk(compression, stated, packed):
    head = struct.pack("<QQQII", 0, 0, stated, 0, len(compression)) + compression.encode()
    return head + struct.pack("<Q", len(packed)) + packed


def unpack(compression, stated, packed):
    return _decompress_chunk(chunk(compression, stated, packed), InputBudget("bag", 2**22, LogError))


@pytest.mark.parametrize("options", [{}, {"store_size": False}, {"block_checksum": True, "content_checksum": True}])
@pytest.mark.parametrize("block_size", [4, 7])
@pytest.mark.parametrize("length", [10, 3_000_000, 8_400_000])
def test_chunks_of_lz4_expand_to_what_they_declare(length, block_size, options):
    frame = pytest.importorskip("lz4.frame")
    for content in (bytes(length), np.random.default_rng(0).bytes(length)):
        packed = frame.compress(content, block_size=block_size, **options)
        assert unpack("lz4", length, packed) == content
        for wrong in (length - 1, length + 1):
            with pytest.raises(ValueError, match="does not expand"):
                unpack("lz4", wrong, packed)


@pytest.mark.parametrize("said_by_frame", [True, False])
def test_chunks_of_zstandard_expand_to_what_they_declare(said_by_frame):
    zstandard = pytest.importorskip("zstandard")
    content = np.random.default_rng(0).bytes(1000) * 5000
    packed = zstandard.ZstdCompressor(write_content_size=said_by_frame).compress(content)
    assert unpack("zstd", len(content), packed) == content
    for wrong in (len(content) - 1, len(content) + 1):
        with pytest.raises(ValueError, match="does not expand"):
            unpack("zstd", wrong, packed)
    with pytest.raises(zstandard.ZstdError):
        unpack("zstd", 10, b"no frame")
    assert unpack("", 3, b"abc") == b"abc"
