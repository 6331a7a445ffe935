"""Read sensor_msgs/JointState from a rosbag2 (.db3, .mcap, or a folder of them) as a `LogTable`, without ROS.

Messages are decoded from CDR bytes [OMG DDS-RTPS 2.5, 10.2; ROS 2 uses XCDR1]. Compressed chunks of an MCAP file are
checked before the reader decompresses them. A record is its kind (1 byte), its length (8 bytes) and its content. The
content of a chunk begins with two stamps, the uncompressed length of its records, a checksum and the name of the
compression [MCAP specification, "Chunk (op=0x06)"].
"""

from __future__ import annotations

import os
import re
import sqlite3
import struct
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any, Final

import numpy as np
from numpy.typing import NDArray

from mindyn.algebra.values import Array
from mindyn.errors import Code, MissingExtraError, list_names
from mindyn.hints import Command, install_command
from mindyn.logs.errors import LogError
from mindyn.logs.metadata import si_units
from mindyn.logs.tables import Chunk, LogTable, unreadable_error
from mindyn.reading import (
    LIFT_LIMITS_HINT,
    MAX_COLUMNS,
    MAX_EXPANSION_RATIO,
    InputBudget,
    are_limits_active,
    require_file,
)
from mindyn.robots.robot import Robot

MESSAGE_TYPES: Final = ("sensor_msgs/msg/JointState", "sensor_msgs/JointState")
MAX_MESSAGE_BYTES: Final = 2**24
"""Largest message of a bag: a JointState of a thousand joints has 50 kB."""
_SAMPLED_MESSAGES: Final = 200
"""Messages from which the joint names are collected, because several publishers may share a topic."""
MAX_CHUNK_BYTES: Final = 2**28
"""Largest uncompressed chunk; recorders write chunks of 1 to 16 MiB."""
_MAGIC_BYTES, _MESSAGE, _CHUNK, _CHUNK_INDEX, _FOOTER_BYTES = 8, 0x05, 0x06, 0x08, 29
_SHORTEST_MESSAGE, _MESSAGE_OBJECT = 31, 512
"""Bytes of a message without content in a chunk, and of the reader's object for it."""
_LZ4_MAGIC, _LZ4_MAX_EXPANSION = 0x184D2204, 255
"""The first bytes of an LZ4 frame, and the largest expansion of one of its bytes."""
_MIN_SQL_STEPS, _SQL_STEPS_PER_BYTE, _SQL_STEPS_PER_CHECK = 10**7, 8, 10**5
"""Steps of SQLite's virtual machine that a query may take; a row of a hundred bytes takes 60."""


class BagTable(LogTable):
    """Messages of one JointState topic that hold every joint of the robot; other messages are skipped.

    Columns: stamp (ns, from the header) and {joint}.position, {joint}.velocity, {joint}.effort.
    """

    def __init__(self, path: Path, robot: Robot, topic: str | None) -> None:
        self.path = path
        self.name = path.name
        self.joints = robot.primary_names
        self.topic, self.notes = _select_topic(path, topic, self.joints)
        messages = list(islice(_iterate_messages(path, self.topic), _SAMPLED_MESSAGES))
        named = dict.fromkeys(name for message in messages for name in message.names)
        self.names = ("stamp", *(f"{name}.{kind}" for name in named for kind in JOINT_STATE_FIELDS))
        whole = next((m for m in messages if set(self.joints) <= set(m.names)), None)
        filled = [
            kind for kind in JOINT_STATE_FIELDS if whole is not None and len(getattr(whole, kind)) == len(whole.names)
        ]
        signals = {"position": "position", "velocity": "velocity", "effort": "torque"}
        self.metadata = {
            "columns": {"time": "stamp", **{signals[kind]: f"{{joint}}.{kind}" for kind in filled}},
            "units": {"time": "ns", **si_units(robot)},
        }

    def read_chunks(self, names: Collection[str], rows: int) -> Iterator[Chunk]:
        """Yield `rows` messages at a time with the joints in the order of `names`."""
        kinds = {name: name.rpartition(".")[::2] for name in names if name != "stamp"}
        wanted = {joint for joint, _ in kinds.values()}
        fitting = (message for message in _iterate_messages(self.path, self.topic) if wanted <= set(message.names))
        while batch := list(islice(fitting, rows)):
            yield stack_messages(batch, names, self.name)


def _list_parts(path: Path) -> list[Path]:
    """List the files of a bag in recording order: bag_2.db3 before bag_10.db3."""
    if path.is_file():
        return [path]
    parts = [entry for entry in path.iterdir() if entry.suffix in (".db3", ".mcap")]
    if not parts:
        message = f"folder {path.name} has no .db3 or .mcap file: it is not a rosbag2, or its files are compressed"
        raise LogError(
            message, hint="decompress the bag with `ros2 bag convert`", code=Code.WRONG_FORMAT, subject=path.name
        )
    for part in parts:
        require_file(part, "part of a bag", LogError)
    return sorted(parts, key=lambda entry: [int(w) if w.isdigit() else w for w in re.split(r"(\d+)", entry.stem)])


def _select_topic(path: Path, topic: str | None, joints: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """Return the topic and notes; of several topics, select the one that names the robot's joints."""
    topics: dict[str, str] = {}
    for part in _list_parts(path):
        topics |= _read_mcap_topics(part) if part.suffix == ".mcap" else _read_db3_topics(part)
    candidates = [name for name, kind in topics.items() if kind in MESSAGE_TYPES]
    known = list_names(f"{name} ({kind})" for name, kind in topics.items()) or "none"
    if topic is not None and topic not in candidates:
        message = f"{path.name} has no JointState topic {topic!r}; topics: {known}"
        raise LogError(message, code=Code.UNKNOWN_NAME, subject=topic)
    if topic is not None or len(candidates) == 1:
        return topic or candidates[0], ()
    fitting = [name for name in candidates if _names_all_joints(path, name, joints)]
    if len(fitting) == 1:
        others = list_names(name for name in candidates if name != fitting[0])
        return fitting[0], (
            f"topic {fitting[0]} of {path.name} was selected because it names the robot's joints; not used: {others}",
        )
    raise LogError(
        f"{path.name} has {len(candidates)} JointState topics; topics: {known}",
        hint='set topic = "..." in a sidecar file, or name one'
        if candidates
        else "mindyn reads sensor_msgs/JointState",
        command=Command("log", path, "ROBOT", "--state", f"topic={candidates[0]}") if candidates else None,
        code=Code.AMBIGUOUS if candidates else Code.MISSING_VALUE,
        subject="topic",
    )


def _names_all_joints(path: Path, topic: str, joints: Sequence[str]) -> bool:
    """Return whether the first messages on a topic name all joints, with or without a prefix."""
    named = {name for message in islice(_iterate_messages(path, topic), _SAMPLED_MESSAGES) for name in message.names}
    return all(any(name == joint or name.endswith(("_" + joint, "/" + joint)) for name in named) for joint in joints)


def _iterate_messages(path: Path, topic: str) -> Iterator[JointState]:
    for part in _list_parts(path):
        for logged_ns, data in (_read_mcap_messages if part.suffix == ".mcap" else _read_db3_messages)(part, topic):
            message = decode_joint_state(data)
            if message.stamp_ns == 0:  # the publisher has no clock: use the stamp of the recorder
                message = JointState(logged_ns, message.names, message.position, message.velocity, message.effort)
            yield message


def _run_query(path: Path, text: str, values: Sequence[str] = ()) -> Iterator[tuple[Any, ...]]:
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True)) as base:
            base.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_MESSAGE_BYTES)
            base.execute("pragma trusted_schema = off")
            budget = InputBudget(path.name, path.stat().st_size, LogError)
            steps = iter(range((_MIN_SQL_STEPS + _SQL_STEPS_PER_BYTE * budget.size) // _SQL_STEPS_PER_CHECK))
            base.set_progress_handler(lambda: are_limits_active() and next(steps, None) is None, _SQL_STEPS_PER_CHECK)
            _require_tables(base, path.name)
            for row in base.execute(text, values):
                budget.take_bytes(sum(len(cell) for cell in row if isinstance(cell, bytes | str)))
                yield row
    except sqlite3.DatabaseError as error:
        raise unreadable_error(path.name, "rosbag2", str(error)) from error


def _require_tables(base: sqlite3.Connection, name: str) -> None:
    """Reject views, virtual tables, and computed or default columns, which may never end."""
    tables = base.execute("select type, sql from sqlite_master where lower(name) in ('topics', 'messages')").fetchall()
    columns = [column for table in ("topics", "messages") for column in base.execute(f"pragma table_xinfo({table})")]
    is_filled = any(is_hidden or default is not None for *_, default, _, is_hidden in columns)
    if is_filled or any(kind != "table" or "virtual" in str(sql).lower()[:20] for kind, sql in tables):
        message = f"topics and messages of {name} are not plain tables"
        raise LogError(message, hint="was the bag written by a recorder?", code=Code.UNSAFE_INPUT, subject=name)


def _read_db3_topics(path: Path) -> dict[str, str]:
    rows = list(_run_query(path, "select name, type, serialization_format from topics"))
    foreign = [f"{name} ({form})" for name, _, form in rows if form != "cdr"]
    if foreign:
        message = f"{path.name} has topics that are not serialized as CDR: {list_names(foreign)}"
        raise LogError(message, code=Code.UNSUPPORTED, subject=path.name)
    return {name: kind for name, kind, _ in rows}


def _read_db3_messages(path: Path, topic: str) -> Iterator[tuple[int, bytes]]:
    text = (
        "select messages.timestamp, messages.data from messages join topics on topics.id = messages.topic_id "
        "where topics.name = ? order by messages.timestamp, messages.id"
    )
    for stamp, data in _run_query(path, text, (topic,)):
        if not isinstance(stamp, int) or not isinstance(data, bytes):
            message = f"messages of {path.name} are not stamps and bytes"
            raise LogError(
                message, hint="was the bag written by a recorder?", code=Code.UNSAFE_INPUT, subject=path.name
            )
        yield stamp, data


def _read_mcap_topics(path: Path) -> dict[str, str]:
    with path.open("rb") as stream:
        return {channel.topic: schema.name for schema, channel, _ in _read_mcap(stream, path, None) if schema}


def _read_mcap_messages(path: Path, topic: str) -> Iterator[tuple[int, bytes]]:
    with path.open("rb") as stream:
        for _, channel, message in _read_mcap(stream, path, [topic]):
            if channel.message_encoding != "cdr":
                message = f"topic {topic!r} of {path.name} is encoded as {channel.message_encoding!r}, not cdr"
                raise LogError(message, code=Code.UNSUPPORTED, subject=topic)
            yield int(message.log_time), message.data


def _read_mcap(stream: Any, path: Path, topics: list[str] | None) -> Iterator[tuple[Any, Any, Any]]:
    """Yield schema, channel and message of every message on the topics; without topics, yield each channel."""
    try:
        from mcap.exceptions import McapError
        from mcap.reader import make_reader
    except ImportError as error:
        message = f"{path.name} is an MCAP file, which needs mcap"
        raise MissingExtraError(message, hint=install_command("ros"), subject="ros") from error
    try:
        require_plausible_chunks(stream, path.name)
        reader = make_reader(stream)
        summary = reader.get_summary()
        if topics is None and summary is not None:
            yield from ((summary.schemas.get(c.schema_id), c, None) for c in summary.channels.values())
        else:
            yield from reader.iter_messages(topics=topics)
    except (McapError, EOFError, ValueError, struct.error) as error:
        raise unreadable_error(path.name, "MCAP", repr(error)) from error


JOINT_STATE_FIELDS: Final = ("position", "velocity", "effort")


def stack_messages(messages: Sequence[JointState], names: Collection[str], file: str) -> dict[str, NDArray[Any]]:
    """Return the columns `stamp` and `{joint}.{field}`; look up the joints by name in every message."""
    places = [name.rpartition(".") for name in names if name != "stamp"]
    joints, fields = (list(dict.fromkeys(place[k] for place in places)) for k in (0, 2))
    tables = {field: _stack_field(messages, joints, field, file) for field in fields}
    columns = {f"{joint}.{field}": tables[field][:, joints.index(joint)] for joint, _, field in places}
    stamps = np.array([message.stamp_ns for message in messages], dtype=np.int64)
    return {name: stamps if name == "stamp" else columns[name] for name in names}


def _stack_field(messages: Sequence[JointState], joints: Sequence[str], field: str, file: str) -> Array:
    """Return one field as (messages, joints); look up the joints again only if the names change."""
    table = np.empty((len(messages), len(joints)))
    known: tuple[str, ...] | None = None
    places: list[int] = []
    for row, message in zip(table, messages, strict=True):
        if message.names != known:
            known, places = message.names, [message.names.index(joint) for joint in joints]
        values = getattr(message, field)
        if len(values) != len(known):
            raise LogError(
                f"a JointState message of {file} at stamp {message.stamp_ns} ns names {len(known)} joints "
                f"but holds {len(values)} values of {field}",
                hint=f"does the driver publish {field}?",
                code=Code.MISSING_VALUE,
                subject=field,
            )
        row[:] = values[places]
    return table


@dataclass(frozen=True, slots=True, eq=False)
class JointState:
    """JointState message: stamp in ns, joint names, and arrays that are empty if the publisher does not fill them."""

    stamp_ns: int
    names: tuple[str, ...]
    position: Array
    velocity: Array
    effort: Array


class _CdrReader:
    """Reader of CDR bytes; alignment counts from the end of the 4-byte encapsulation header."""

    def __init__(self, data: bytes) -> None:
        if len(data) < 4 or data[0] != 0 or data[1] not in (0, 1):
            message = f"a JointState message starts with {data[:4].hex()}; plain CDR starts with 0000 or 0001"
            raise LogError(message, code=Code.UNSUPPORTED, subject="JointState")
        self.data = data
        self.order = "<" if data[1] else ">"
        self.at = 4

    def align(self, size: int) -> None:
        self.at += -(self.at - 4) % size

    def integer(self, code: str = "I") -> int:
        self.align(4)
        (value,) = struct.unpack_from(self.order + code, self.data, self.at)
        self.at += 4
        return int(value)

    def text(self) -> str:
        length = self.integer()
        self.at += length  # if this is past the end, reading the number that follows raises
        return self.data[self.at - length : self.at - 1].decode()

    def doubles(self) -> Array:
        length = self.integer()
        if length == 0:
            return np.empty(0)
        self.align(8)
        values = np.frombuffer(self.data, self.order + "f8", length, self.at)
        self.at += 8 * length
        return values


def decode_joint_state(data: bytes) -> JointState:
    """Decode a serialized JointState: header (stamp, frame), name[], position[], velocity[], effort[]."""
    reader = _CdrReader(data)
    try:
        stamp = reader.integer("i") * 10**9 + reader.integer()
        reader.text()
        if (count := reader.integer()) > MAX_COLUMNS:
            raise ValueError(f"it declares {count} joints")
        names = tuple(reader.text() for _ in range(count))
        return JointState(stamp, names, reader.doubles(), reader.doubles(), reader.doubles())
    except (struct.error, ValueError, UnicodeDecodeError) as error:
        message = f"a JointState message of {len(data)} bytes is truncated: {error}"
        raise LogError(message, code=Code.UNREADABLE, subject="JointState") from error


def require_plausible_chunks(stream: IO[bytes], name: str) -> None:
    """Raise if a chunk is implausibly large, or if an index points to bytes that are not such a record.

    Rewind the stream afterwards.
    """
    if not are_limits_active():
        return
    budget = InputBudget(name, os.fstat(stream.fileno()).st_size, LogError)
    stream.seek(max(0, budget.size - _MAGIC_BYTES - _FOOTER_BYTES + 9))
    wanted = {int.from_bytes(stream.read(8), "little") or _MAGIC_BYTES}
    chunks, indexed, at = set(), set(), _MAGIC_BYTES
    while at < budget.size - _MAGIC_BYTES:
        wanted.discard(at)
        stream.seek(at)
        kind, length = struct.unpack("<BQ", stream.read(9))
        if length > budget.size - at - 9:
            raise ValueError(f"a record declares {length} bytes where {budget.size - at - 9} are left")
        if kind == _CHUNK:
            unpacked = _unpacked_size(stream)
            if unpacked > MAX_CHUNK_BYTES:
                raise LogError(
                    f"a chunk of {name} expands to {unpacked / 2**20:.3g} MiB; at most {MAX_CHUNK_BYTES // 2**20} MiB "
                    "are allowed",
                    hint=f"the file is damaged, or crafted to fill the memory; {LIFT_LIMITS_HINT}",
                    code=Code.TOO_LARGE,
                    subject=name,
                )
            budget.take_bytes(unpacked)
            stream.seek(at + 9)
            for _ in _dense_messages(stream, unpacked):
                budget.take_bytes(_MESSAGE_OBJECT)
            chunks.add(at)
        elif kind == _CHUNK_INDEX:
            indexed.add(int.from_bytes(stream.read(24)[16:], "little"))
        at += 9 + length
    if wanted or not indexed <= chunks:
        raise ValueError("its index points to a place where no such record begins")
    stream.seek(0)


def _chunk_head(stream: IO[bytes]) -> tuple[int, str, int]:
    """Return the uncompressed length of the records, their compression, and their compressed length."""
    head = stream.read(32)
    if len(head) < 32:
        return 0, "", 0
    _, _, declared, _, letters = struct.unpack("<QQQII", head)
    compression = stream.read(min(letters, 16)).decode("latin-1")
    return int(declared), compression, int.from_bytes(stream.read(8), "little")


def _unpacked_size(stream: IO[bytes]) -> int:
    """Return the uncompressed size of a chunk: the largest of its header, its frame and the bound of its data."""
    declared, compression, packed = _chunk_head(stream)
    start = stream.tell()
    by_frame = _zstd_content_size(compression, stream.read(32))
    stream.seek(start)
    return max(declared, by_frame, _max_lz4_size(stream, packed) if compression == "lz4" else 0)


def _dense_messages(stream: IO[bytes], unpacked: int) -> Iterator[int]:
    """Yield where messages begin in a chunk that may hold very many for its size; other chunks are not decompressed."""
    _, compression, packed = _chunk_head(stream)
    if unpacked // _SHORTEST_MESSAGE * _MESSAGE_OBJECT <= MAX_EXPANSION_RATIO * packed:
        return
    data = stream.read(packed)
    if compression == "zstd":
        import zstandard

        data = zstandard.ZstdDecompressor().decompress(data, max_output_size=MAX_CHUNK_BYTES)
    elif compression == "lz4":
        import lz4.frame  # type: ignore[import-untyped]

        data = lz4.frame.decompress(data)
    at = 0
    while at + 9 <= len(data):
        if data[at] == _MESSAGE:
            yield at
        at += 9 + int.from_bytes(data[at + 1 : at + 9], "little")


def _max_lz4_size(stream: IO[bytes], packed: int) -> int:
    """Return the largest uncompressed size of LZ4 frames: blocks times the block size of the frame header.

    The header may omit the length of the content. All blocks but the last are full, so the bound is tight.
    """
    end, total = stream.tell() + packed, 0
    while stream.tell() + 7 <= end:
        magic, flags, descriptor = struct.unpack("<IBB", stream.read(6))
        if magic != _LZ4_MAGIC:
            return total + _LZ4_MAX_EXPANSION * (end - stream.tell())
        stream.seek((8 if flags & 0x08 else 0) + (4 if flags & 0x01 else 0) + 1, os.SEEK_CUR)
        while stream.tell() + 4 <= end and (size := int.from_bytes(stream.read(4), "little") & 0x7FFFFFFF):
            total += 1 << (8 + 2 * (descriptor >> 4 & 7))
            stream.seek(size + (4 if flags & 0x10 else 0), os.SEEK_CUR)
        stream.seek(4 if flags & 0x04 else 0, os.SEEK_CUR)
    return total


def _zstd_content_size(compression: str, data: bytes) -> int:
    if compression != "zstd":
        return 0
    import zstandard

    try:
        return max(0, int(zstandard.frame_content_size(data)))
    except zstandard.ZstdError:
        return 0
