"""Read sensor_msgs/JointState from a rosbag2 (.db3, .mcap, or a folder of them) as a `LogTable`, without ROS.

Messages are decoded from CDR bytes [OMG DDS-RTPS 2.5, 10.2; ROS 2 uses XCDR1].

An MCAP file is a sequence of records [MCAP specification]. A record is its kind (1 byte), its length (8 bytes) and its
content. A chunk is a record of compressed records; it is decompressed to at most the length that it declares. If the
recorder was killed, the file has no footer: the records before the cut are read.
"""

from __future__ import annotations

import re
import sqlite3
import struct
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from heapq import heappop, heappush
from importlib.util import find_spec
from io import BytesIO
from itertools import count, islice
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, MissingExtraError, list_names, pluralise
from mindyn.foundation.hints import Command, install_command
from mindyn.foundation.reading import LIFT_LIMITS_HINT, MAX_COLUMNS, InputBudget, are_limits_active, require_file
from mindyn.logs.errors import LogError
from mindyn.logs.formats.tables import Chunk, LogTable
from mindyn.logs.metadata import si_units
from mindyn.robots.robot import Robot

MESSAGE_TYPES: Final = ("sensor_msgs/msg/JointState", "sensor_msgs/JointState")
MAX_MESSAGE_BYTES: Final = 2**24
"""Largest message of a bag: a JointState of a thousand joints has 50 kB."""
_SAMPLED_MESSAGES: Final = 200
"""Messages from which the joint names are collected, because several publishers may share a topic."""
MAX_CHUNK_BYTES: Final = 2**28
"""Largest uncompressed chunk; recorders write chunks of 1 to 16 MiB."""
_MAGIC: Final = b"\x89MCAP0\r\n"
_FOOTER, _SCHEMA, _CHANNEL, _MESSAGE, _CHUNK, _DATA_END = 2, 3, 4, 5, 6, 15
"""Kinds of MCAP records."""
_RECORD_HEAD_BYTES, _FOOTER_BYTES, _MESSAGE_HEAD_BYTES = 9, 29, 22
"""Bytes of the head of a record, of a footer, and of channel, number and stamps before the data of a message."""
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
        self.losses = tuple(loss for part in _list_parts(path) if part.suffix == ".mcap" for loss in _list_losses(part))
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
            "side": dict.fromkeys((signals[kind] for kind in filled), "joint"),  # as the message type defines
        }

    def read_chunks(self, names: Collection[str], rows: int) -> Iterator[Chunk]:
        """Yield `rows` messages at a time with the joints in the order of `names`."""
        wanted = {name.rpartition(".")[0] for name in names if name != "stamp"}
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
    return {channel.topic: channel.message_type for channel in _read_mcap_channels(path).values()}


class _Channel(NamedTuple):
    topic: str
    message_type: str
    encoding: str


def _read_mcap_channels(path: Path) -> dict[bytes, _Channel]:
    """Return the channels by number, from the summary if it repeats them, otherwise from the whole file."""
    with _open_mcap(path) as (stream, end, summary, _, budget):
        for start in dict.fromkeys((summary, len(_MAGIC))):
            stream.seek(start)
            schemas: dict[bytes, str] = {}
            channels: dict[bytes, _Channel] = {}
            for kind, content in _split_records(stream, end, budget):
                if kind == _SCHEMA:
                    schemas[content[:2]] = _read_text(content, 2)
                elif kind == _CHANNEL and (schema := schemas.get(content[2:4])) is not None:
                    topic = _read_text(content, 4)
                    channels[content[:2]] = _Channel(topic, schema, _read_text(content, 8 + len(topic.encode())))
            if channels:
                break
    return channels


def _read_mcap_messages(path: Path, topic: str) -> Iterator[tuple[int, bytes]]:
    """Yield stamps and messages in the order of their stamps; recorders may write them in another order."""
    channels = {number: channel for number, channel in _read_mcap_channels(path).items() if channel.topic == topic}
    for channel in channels.values():
        if channel.encoding != "cdr":
            message = f"topic {topic!r} of {path.name} is encoded as {channel.encoding!r}, not cdr"
            hint = "record the topic with rosbag2, or write its messages as JSON lines or CSV"
            raise LogError(message, hint=hint, code=Code.UNSUPPORTED, subject=topic)
    waiting: list[tuple[int, int, bytes]] = []
    numbers = count()
    with _open_mcap(path) as (stream, end, _, _, budget):
        stream.seek(len(_MAGIC))
        places = np.fromiter(_locate_messages(stream, end), dtype=[("stamp", "u8"), ("at", "u8"), ("length", "u8")])
        for earliest, at, length in places[np.argsort(places["stamp"], kind="stable")]:
            while waiting and waiting[0][0] < earliest:
                yield heappop(waiting)[::2]
            stream.seek(int(at))
            for kind, content in _split_records(stream, int(at + length), budget):
                if kind == _MESSAGE and content[:2] in channels:
                    (stamp,) = struct.unpack_from("<Q", content, 6)
                    heappush(waiting, (stamp, next(numbers), content[_MESSAGE_HEAD_BYTES:]))
        while waiting:
            yield heappop(waiting)[::2]


def _read_text(content: bytes, at: int) -> str:
    (length,) = struct.unpack_from("<I", content, at)
    return content[at + 4 : at + 4 + length].decode()


class _OpenMcap(NamedTuple):
    """Open file, the end of its records, where its summary starts, whether messages are cut off, and its budget."""

    stream: IO[bytes]
    end: int
    summary: int
    is_cut: bool
    budget: InputBudget


@contextmanager
def _open_mcap(path: Path) -> Iterator[_OpenMcap]:
    if not all(map(find_spec, ("lz4", "zstandard"))):
        message = f"{path.name} is an MCAP file, which needs lz4 and zstandard"
        raise MissingExtraError(message, hint=install_command("ros"), subject="ros")
    with path.open("rb") as stream:
        if stream.read(len(_MAGIC)) != _MAGIC:
            raise ValueError("it does not start like an MCAP file")
        size = path.stat().st_size
        budget = InputBudget(path.name, size, LogError)
        stream.seek(end := max(0, size - _FOOTER_BYTES - len(_MAGIC)))
        footer = stream.read()
        if len(footer) == _FOOTER_BYTES + len(_MAGIC) and footer[0] == _FOOTER and footer.endswith(_MAGIC):
            (start,) = struct.unpack_from("<Q", footer, 9)
            yield _OpenMcap(stream, end, start or len(_MAGIC), False, budget)
        else:
            yield _OpenMcap(stream, *_find_cut(stream, size), budget)


def _find_cut(stream: IO[bytes], size: int) -> tuple[int, int, bool]:
    """Return the end of the last complete record, the start of the first, and whether messages may follow the cut."""
    end, kinds = len(_MAGIC), set()
    stream.seek(end)
    with suppress(ValueError, struct.error):  # the last record is not complete
        for kind, length in _locate_records(stream, size):
            if kind == 0:  # not a kind of MCAP: space that the recorder reserved
                break
            kinds.add(kind)
            end = stream.tell() + length
    if not kinds & {_MESSAGE, _CHUNK}:
        name = Path(stream.name).name
        raise ValueError(
            f"{name} ends before its first chunk of messages is complete: the recording or the copy failed"
        )
    return end, len(_MAGIC), _DATA_END not in kinds


def _list_losses(path: Path) -> list[str]:
    """Return a message if the end of a file is missing."""
    with _open_mcap(path) as file:
        if not file.is_cut:
            return []
        unread = file.budget.size - file.end
    return [
        f"{path.name} is not complete: its last {unread} of {file.budget.size} bytes are an unfinished record and are "
        "not read; later messages are missing"
    ]


def _locate_records(stream: IO[bytes], end: int) -> Iterator[tuple[int, int]]:
    """Yield kind and length of the records before `end`, with the stream at their content."""
    while (at := stream.tell()) < end:
        kind, length = struct.unpack("<BQ", stream.read(_RECORD_HEAD_BYTES))
        if length > (left := end - at - _RECORD_HEAD_BYTES):
            raise ValueError(f"a record declares {length} bytes where {left} are left")
        yield kind, length
        stream.seek(at + _RECORD_HEAD_BYTES + length)


def _locate_messages(stream: IO[bytes], end: int) -> Iterator[tuple[int, int, int]]:
    """Yield the earliest stamp, the place and the length of each message and each chunk of messages."""
    for kind, length in _locate_records(stream, end):
        if kind in (_MESSAGE, _CHUNK):
            at = stream.tell() - _RECORD_HEAD_BYTES
            (stamp,) = struct.unpack_from("<Q", stream.read(14), 6 if kind == _MESSAGE else 0)
            yield stamp, at, _RECORD_HEAD_BYTES + length


def _split_records(stream: IO[bytes], end: int, budget: InputBudget) -> Iterator[tuple[int, bytes]]:
    """Yield kind and content of the schemas, channels and messages before `end`, also those in chunks."""
    for kind, length in _locate_records(stream, end):
        if kind == _CHUNK:
            records = _decompress_chunk(stream.read(length), budget)
            yield from _split_records(BytesIO(records), len(records), budget)
        elif kind in (_SCHEMA, _CHANNEL, _MESSAGE):
            yield kind, stream.read(length)


def _decompress_chunk(content: bytes, budget: InputBudget) -> bytes:
    """Return the records of a chunk, at most as many bytes as it declares."""
    import lz4.frame
    import zstandard

    _, _, declared, _ = struct.unpack_from("<QQQI", content)
    if declared > MAX_CHUNK_BYTES and are_limits_active():
        raise LogError(
            f"a chunk of {budget.name} expands to {declared / 2**20:.3g} MiB; at most {MAX_CHUNK_BYTES // 2**20} MiB "
            "are allowed",
            hint=f"the file is damaged, or crafted to fill the memory; {LIFT_LIMITS_HINT}",
            code=Code.TOO_LARGE,
            subject=budget.name,
        )
    budget.take_bytes(declared)
    compression = _read_text(content, 28)
    packed = content[40 + len(compression) :]
    if compression == "zstd":
        unpacked = zstandard.ZstdDecompressor().stream_reader(packed).read(declared + 1)
    elif compression == "lz4":
        unpacked = lz4.frame.LZ4FrameDecompressor().decompress(packed, declared + 1)
    else:
        return packed
    if len(unpacked) != declared:
        raise ValueError(f"a chunk does not expand to the {declared} bytes that it declares")
    return bytes(unpacked)


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
                f"a JointState message of {file} at stamp {message.stamp_ns} ns names {pluralise(len(known), 'joint')} "
                f"but holds {pluralise(len(values), 'value')} of {field}",
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
