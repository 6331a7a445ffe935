"""Every format gives back what other programs wrote into it."""

from __future__ import annotations

import csv
import sqlite3
from dataclasses import replace
from itertools import chain

import numpy as np
import polars as pl
import pytest
from closeness import EXACT, SAME_ALGEBRA, assert_close
from messages import messages
from raising import raises
from recordings import NAMES, STATED, arm, sines

from mindyn.foundation.errors import Code
from mindyn.foundation.findings import Kind, Severity
from mindyn.identification.log_drafts import draft_log
from mindyn.logs.log_errors import LogError
from mindyn.logs.read_log import read_log, scan_log

ROBOT, MOTION = arm(), sines(600)
SWAPPED = ("wrist", "shoulder", "elbow")
ORDER = [NAMES.index(name) for name in SWAPPED]
ARRAY_COLUMNS = {"time": "t", "position": "q", "velocity": "qd", "torque": "tau"}
ARRAY_STATED = {**STATED, "columns": ARRAY_COLUMNS, "joints": list(SWAPPED)}


def arrays() -> dict[str, np.ndarray]:
    """Columns in another order than the robot's joints."""
    return {"t": MOTION.t, "q": MOTION.q[:, ORDER], "qd": MOTION.qd[:, ORDER], "tau": MOTION.tau[:, ORDER]}


def assert_same(log, rtol=EXACT):
    assert log.joint_names == NAMES
    assert_close(log.time, MOTION.t, max(rtol, 1e-12))
    for name in ("q", "qd", "tau"):
        assert_close(getattr(log, name), getattr(MOTION, name), rtol)


def write_csv(path, separator=",", blank=""):
    table = MOTION.table()
    names = ["tau_wrist", *[n for n in table if n != "tau_wrist"]]  # another order than the robot's
    with path.open("w", newline="") as file:
        writer = csv.writer(file, delimiter=separator)
        writer.writerow(names)
        writer.writerows([[blank + repr(float(table[n][k])) for n in names] for k in range(len(MOTION.t))])


@pytest.mark.parametrize(("separator", "blank"), [(",", ""), (";", ""), ("\t", ""), (",", " "), (" ", "")])
def test_csv(tmp_path, separator, blank):
    write_csv(tmp_path / "run.csv", separator, blank)
    assert_same(read_log(tmp_path / "run.csv", ROBOT, metadata=STATED))


def test_csv_without_header(tmp_path):
    table = np.column_stack([MOTION.t, MOTION.q, MOTION.qd, MOTION.tau])
    np.savetxt(tmp_path / "run.csv", table, delimiter=",", fmt="%.17g")
    columns = {"time": "column_1"}
    for k, signal in enumerate(("position", "velocity", "torque")):
        columns[signal] = [f"column_{2 + 3 * k + j}" for j in range(3)]
    assert_same(read_log(tmp_path / "run.csv", ROBOT, metadata={**STATED, "columns": columns}))


SPACED = {"time": "time", "position": "{joint} pos", "velocity": "{joint} speed", "torque": "{joint}, torque"}


def spaced_text(separator, decimal=".", units=""):
    """Names with spaces and commas, quoted where a CSV writer would."""
    table = {"time": MOTION.t}
    for j, name in enumerate(NAMES):
        table |= {f"{name} pos": MOTION.q[:, j], f"{name} speed": MOTION.qd[:, j], f"{name}, torque": MOTION.tau[:, j]}
    names = separator.join(f'"{name}"' if separator in name else name for name in table)
    rows = np.column_stack(list(table.values()))
    lines = [separator.join(repr(float(v)).replace(".", decimal) for v in row) for row in rows]
    return "\n".join([names, *([units] if units else []), *lines]) + "\n"


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("stated", [{}, {"separator": None}])
def test_names_may_hold_spaces_and_separators(tmp_path, separator, stated):
    (tmp_path / "run.csv").write_text(spaced_text(separator))
    stated = dict.fromkeys(stated, separator)
    assert_same(read_log(tmp_path / "run.csv", ROBOT, columns=SPACED, metadata={**STATED, **stated}))


@pytest.mark.parametrize("separator", [";", "\t", " "])
@pytest.mark.parametrize("header", [True, False])
def test_decimal_commas_are_read(tmp_path, separator, header):
    text = spaced_text(separator, ",").replace("0,0", "0,000", 1)
    columns: dict[str, object] = dict(SPACED)
    if separator == " ":
        text = text.replace(", torque", "_torque").replace(" pos", "_pos").replace(" speed", "_speed").replace('"', "")
        columns = {key: item.replace(", ", "_").replace(" ", "_") for key, item in SPACED.items()}
    if not header:
        text = text.partition("\n")[2]
        columns = {"time": "column_1"}
        for k, signal in enumerate(("position", "velocity", "torque")):
            columns[signal] = [f"column_{2 + 3 * j + k}" for j in range(3)]
    (tmp_path / "run.csv").write_text(text)
    assert_same(read_log(tmp_path / "run.csv", ROBOT, columns=columns, metadata=STATED))


def test_quoted_decimal_commas_are_read_if_declared(tmp_path):
    header, *lines = spaced_text(";", ",").splitlines()
    quoted = [",".join(f'"{cell}"' for cell in line.split(";")) for line in (header, *lines)]
    (tmp_path / "run.csv").write_text("\n".join(quoted))
    assert_same(read_log(tmp_path / "run.csv", ROBOT, columns=SPACED, metadata={**STATED, "decimal": ","}))


def test_a_decimal_comma_that_the_first_row_does_not_show_is_named(tmp_path):
    header, *lines = spaced_text(";", ",").splitlines()
    (tmp_path / "run.csv").write_text("\n".join([header, ";".join(["0"] * 10), *lines[1:]]))
    with raises(LogError, code=Code.WRONG_TYPE, subject="time"):
        read_log(tmp_path / "run.csv", ROBOT, columns=SPACED, metadata=STATED)


def test_a_thousands_separator_is_not_taken_for_a_decimal_comma(tmp_path):
    header, *lines = spaced_text(";").splitlines()
    first = lines[0].replace("0.0", "1,234", 1)
    (tmp_path / "run.csv").write_text("\n".join([header, first, *lines[1:]]))
    with raises(LogError, code=Code.WRONG_TYPE, subject="time"):
        read_log(tmp_path / "run.csv", ROBOT, columns=SPACED, metadata=STATED)


def test_a_line_of_units_is_skipped_stated_or_not(tmp_path):
    (tmp_path / "run.csv").write_text(spaced_text(";", ",", units=";".join(["s", *["rad", "rad/s", "Nm"] * 3])))
    assert_same(read_log(tmp_path / "run.csv", ROBOT, columns=SPACED, metadata=STATED))
    assert_same(read_log(tmp_path / "run.csv", ROBOT, columns=SPACED, metadata={**STATED, "skip_rows": 1}))


@pytest.mark.parametrize(("key", "value"), [("separator", "|"), ("decimal", ";"), ("skip_rows", -1)])
def test_text_keys_are_checked(tmp_path, key, value):
    (tmp_path / "run.csv").write_text(spaced_text(","))
    with raises(LogError, code=Code.INVALID_VALUE, subject=key):
        read_log(tmp_path / "run.csv", ROBOT, columns=SPACED, metadata={**STATED, key: value})


def test_csv_is_read_in_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr("mindyn.logs.formats.tables.BLOCK_BYTES", 1000)
    write_csv(tmp_path / "run.csv")
    assert_same(read_log(tmp_path / "run.csv", ROBOT, metadata=STATED))


def test_parquet(tmp_path):
    pl.DataFrame(MOTION.table()).write_parquet(tmp_path / "run.parquet", row_group_size=100)
    log = read_log(tmp_path / "run.parquet", ROBOT, metadata=STATED)
    assert_same(log)
    assert log.sources[0].path.endswith("run.parquet")
    assert len(log.sources[0].sha256) == 64


def test_parquet_with_columns_of_lists(tmp_path):
    frame = pl.DataFrame({name: list(a) if a.ndim == 2 else a for name, a in arrays().items()})
    frame.write_parquet(tmp_path / "run.parquet")
    assert_same(read_log(tmp_path / "run.parquet", ROBOT, metadata=ARRAY_STATED))


def test_npz(tmp_path):
    np.savez(tmp_path / "run.npz", **arrays())
    assert_same(read_log(tmp_path / "run.npz", ROBOT, metadata=ARRAY_STATED))


def test_mat_struct_with_time_along_the_second_axis(tmp_path):
    savemat = pytest.importorskip("scipy.io").savemat
    savemat(tmp_path / "run.mat", {"rec": {name: a.T for name, a in arrays().items()}, "other": "text"})
    columns = {signal: f"rec.{name}" for signal, name in ARRAY_COLUMNS.items()}
    assert_same(read_log(tmp_path / "run.mat", ROBOT, metadata={**ARRAY_STATED, "columns": columns}))


@pytest.mark.parametrize("transposed", [False, True])
def test_hdf5(tmp_path, transposed):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "run.h5", "w") as file:
        for name, array in arrays().items():
            file[f"arm/{name}"] = array.T if transposed else array
    columns = {signal: f"arm/{name}" for signal, name in ARRAY_COLUMNS.items()}
    assert_same(read_log(tmp_path / "run.h5", ROBOT, metadata={**ARRAY_STATED, "columns": columns}))


def joint_state_messages():
    rosbags = pytest.importorskip("rosbags.typesys")
    store = rosbags.get_typestore(rosbags.Stores.ROS2_HUMBLE)
    types = store.types
    for k, t in enumerate(MOTION.t):
        nanoseconds = round(t * 1e9) + 10**18
        stamp = types["builtin_interfaces/msg/Time"](sec=nanoseconds // 10**9, nanosec=nanoseconds % 10**9)
        header = types["std_msgs/msg/Header"](stamp=stamp, frame_id="world" * (k % 3))
        state = types["sensor_msgs/msg/JointState"]
        values = [array[k, ORDER] for array in (MOTION.q, MOTION.qd, MOTION.tau)]
        yield nanoseconds, store, state(header, list(SWAPPED), *values)
        if k % 50 == 0:  # a gripper on the same topic
            yield nanoseconds + 5, store, state(header, ["finger"], np.array([0.1]), np.array([]), np.array([]))


@pytest.mark.parametrize("version", ["sqlite3", "mcap"])
def test_rosbag2_folder(tmp_path, version):
    rosbag2 = pytest.importorskip("rosbags.rosbag2")
    plugin = rosbag2.StoragePlugin.MCAP if version == "mcap" else rosbag2.StoragePlugin.SQLITE3
    with rosbag2.Writer(tmp_path / "bag", version=9, storage_plugin=plugin) as writer:
        connection = None
        for stamp, store, message in joint_state_messages():
            kind = "sensor_msgs/msg/JointState"
            connection = connection or writer.add_connection("/joint_states", kind, typestore=store)
            writer.write(connection, stamp, store.serialize_cdr(message, kind))
    assert_same(read_log(tmp_path / "bag", ROBOT, side="joint"), SAME_ALGEBRA)
    (file,) = [*(tmp_path / "bag").glob("*.db3"), *(tmp_path / "bag").glob("*.mcap")]
    assert_same(read_log(file, ROBOT, side="joint"), SAME_ALGEBRA)
    assumed = read_log(file, ROBOT)  # JointState messages define the side
    assert_same(assumed, SAME_ALGEBRA)
    (finding,) = [finding for finding in assumed.findings if finding.kind is Kind.LOG_SETTING]
    assert finding.severity is Severity.INFO
    given = read_log(file, ROBOT, metadata={"side": {"torque": "motor"}, "gears": [2.0] * ROBOT.joint_count})
    assert_close(given.tau, 2 * assumed.tau, SAME_ALGEBRA)
    assert Kind.LOG_SETTING not in [entry.kind for entry in read_log(file, ROBOT, side="joint").findings]


def two_topics(folder, other):
    """A bag with the arm's states, and those of joints called `other`."""
    rosbag2 = pytest.importorskip("rosbags.rosbag2")
    kind = "sensor_msgs/msg/JointState"
    with rosbag2.Writer(folder, version=9, storage_plugin=rosbag2.StoragePlugin.SQLITE3) as writer:
        arm = hand = None
        for stamp, store, message in joint_state_messages():
            arm = arm or writer.add_connection("/arm/states", kind, typestore=store)
            hand = hand or writer.add_connection("/hand/states", kind, typestore=store)
            writer.write(arm, stamp, store.serialize_cdr(message, kind))
            named = replace(message, name=[other.format(name) for name in message.name])
            writer.write(hand, stamp, store.serialize_cdr(named, kind))
    return folder


def test_of_several_topics_that_of_the_robots_joints_is_taken(tmp_path):
    bag = two_topics(tmp_path / "bag", "finger_of_{}s")
    log = read_log(bag, ROBOT, side="joint")
    assert_same(log, SAME_ALGEBRA)
    assert any(
        "topic /arm/states of bag was selected because it names the robot's joints" in note for note in messages(log)
    )
    both = two_topics(tmp_path / "both", "left_{}")
    with raises(LogError, code=Code.AMBIGUOUS, subject="topic") as known:
        read_log(both, ROBOT, side="joint")
    assert "--state topic=" in known.value.hint
    assert draft_log(both, ROBOT, {"topic": "/hand/states"}).value("columns.position") == "left_{joint}.position"


@pytest.mark.parametrize(
    ("options", "block"),
    [
        ({"chunk_size": 4096}, 1),
        ({"chunk_size": 4096, "repeat_channels": False, "repeat_schemas": False}, 1),
        ({"chunk_size": 4096, "repeat_schemas": False}, 30),
        ({"use_chunking": False}, 30),
    ],
)
def test_mcap_is_read_in_the_order_of_its_stamps_whatever_its_summary_repeats(tmp_path, options, block):
    writing = pytest.importorskip("mcap.writer")
    messages = list(joint_state_messages())
    blocks = [messages[k : k + block][::-1] for k in range(0, len(messages), block)]
    with (tmp_path / "run.mcap").open("wb") as stream:
        writer = writing.Writer(stream, compression=writing.CompressionType.ZSTD, **options)
        writer.start()
        schema = writer.register_schema("sensor_msgs/msg/JointState", "ros2msg", b"")
        channel = writer.register_channel("/joint_states", "cdr", schema)
        for stamp, store, message in chain.from_iterable(blocks):
            data = bytes(store.serialize_cdr(message, "sensor_msgs/msg/JointState", little_endian=False))
            writer.add_message(channel, log_time=stamp, data=data, publish_time=stamp)
        writer.finish()
    assert_same(read_log(tmp_path / "run.mcap", ROBOT, side="joint"), SAME_ALGEBRA)


@pytest.mark.parametrize("use_chunking", [True, False])
def test_an_mcap_file_of_a_killed_recorder_is_read_up_to_the_cut(tmp_path, use_chunking):
    writing = pytest.importorskip("mcap.writer")
    path = tmp_path / "run.mcap"
    with path.open("wb") as stream:
        writer = writing.Writer(stream, chunk_size=4096, use_chunking=use_chunking)
        writer.start()
        schema = writer.register_schema("sensor_msgs/msg/JointState", "ros2msg", b"")
        channel = writer.register_channel("/joint_states", "cdr", schema)
        for stamp, store, message in joint_state_messages():
            data = bytes(store.serialize_cdr(message, "sensor_msgs/msg/JointState"))
            writer.add_message(channel, log_time=stamp, data=data, publish_time=stamp)
        stream.flush()
        data_bytes = path.stat().st_size
        writer.finish()
    whole = path.read_bytes()
    for kept, reserved in ((data_bytes // 2, b""), (data_bytes, bytes(1000)), (data_bytes // 3, b"")):
        path.write_bytes(whole[:kept] + reserved)
        log = read_log(path, ROBOT, side="joint")
        assert 0.5 < len(log) / (len(MOTION.t) * kept / data_bytes) < 1.1
        assert_close(log.q, MOTION.q[: len(log)], SAME_ALGEBRA)
        (loss,) = [note for note in log.findings if note.kind is Kind.FILE_CONTENT]
        assert loss.severity is Severity.WARNING
        assert f"of {kept + len(reserved)} bytes" in loss.message
        assert loss.message in draft_log(path, ROBOT).notes
    path.write_bytes(whole[:-20])  # only the index is cut
    assert_same(read_log(path, ROBOT, side="joint"), SAME_ALGEBRA)
    assert not [note for note in read_log(path, ROBOT, side="joint").findings if note.kind is Kind.FILE_CONTENT]
    path.write_bytes(whole[:200])
    with raises(LogError, code=Code.UNREADABLE, subject="run.mcap"):
        read_log(path, ROBOT, side="joint")


def test_bag_without_joint_states_lists_its_topics(tmp_path):
    with sqlite3.connect(tmp_path / "run.db3") as base:
        base.execute("create table topics(id integer, name text, type text, serialization_format text)")
        base.execute("insert into topics values (1, '/tf', 'tf2_msgs/msg/TFMessage', 'cdr')")
    base.close()
    with raises(LogError, code=Code.MISSING_VALUE, subject="topic"):
        read_log(tmp_path / "run.db3", ROBOT, side="joint")


def test_chunks_join_to_the_whole_log(tmp_path):
    pl.DataFrame(MOTION.table()).write_parquet(tmp_path / "run.parquet", row_group_size=70)
    chunks = list(scan_log(tmp_path / "run.parquet", ROBOT, metadata=STATED, chunk_rows=64))
    assert max(map(len, chunks)) == 64
    assert_close(np.concatenate([chunk.q for chunk in chunks]), MOTION.q, EXACT)
    assert np.array_equal(np.concatenate([chunk.rows for chunk in chunks]), np.arange(600))
