"""Read the records of an MCAP file.

An MCAP file is a sequence of records [MCAP specification]. A record is its kind (1 byte), its length (8 bytes) and its
content. A chunk is a record of compressed records; it is decompressed to at most the length that it declares. If the
recorder was killed, the file has no footer: the records before the cut are read.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from heapq import heappop, heappush
from importlib.util import find_spec
from io import BytesIO
from itertools import count
from pathlib import Path
from typing import IO, Final, NamedTuple

import numpy as np

from mindyn.foundation.errors import Code, MissingExtraError
from mindyn.foundation.hints import install_command
from mindyn.foundation.safe_reading import LIFT_LIMITS_HINT, InputBudget, are_limits_active
from mindyn.logs.log_errors import LogError

MAX_CHUNK_BYTES: Final = 2**28
"""Largest uncompressed chunk; recorders write chunks of 1 to 16 MiB."""
_MAGIC: Final = b"\x89MCAP0\r\n"
_FOOTER, _SCHEMA, _CHANNEL, _MESSAGE, _CHUNK, _DATA_END = 2, 3, 4, 5, 6, 15
"""Kinds of MCAP records."""
_RECORD_HEAD_BYTES, _FOOTER_BYTES, _MESSAGE_HEAD_BYTES = 9, 29, 22
"""Bytes of the head of a record, of a footer, and of channel, number and stamps before the data of a message."""


def read_mcap_topics(path: Path) -> dict[str, str]:
    """Return the message type of each topic."""
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


def read_mcap_messages(path: Path, topic: str) -> Iterator[tuple[int, bytes]]:
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
    """Return the end of the last complete record, the start of the first one, and whether messages may follow after the
    cut.
    """
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


def list_losses(path: Path) -> list[str]:
    """Return a message if the end of a file is missing, otherwise an empty list."""
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
    """Yield the earliest stamp, the position and the length of each message and of each chunk of messages."""
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
    """Return the records of a chunk: at most as many bytes as the chunk declares."""
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
