"""Compressed chunks of an MCAP file, looked at before a reader unpacks them: how long they say they become.

A record is its kind (a byte), its length (eight), and its content; that of a chunk begins with two stamps, the length
of its records unpacked, a checksum and the name of the compression [MCAP specification, "Chunk (op=0x06)"].
"""

from __future__ import annotations

import os
import struct
from typing import IO, Final

from mindyn.logs.findings import LogError
from mindyn.reading import LIFT, limited, require_plausible

LARGEST_CHUNK: Final = 2**28
"""Bytes of a chunk, unpacked; recorders make chunks of 1 to 16 MiB."""
_MAGIC, _CHUNK, _FOOTER = 8, 0x06, 0x02
_EXPANSION: Final = {"lz4": 255}
"""What a compression packs into a byte at most, where its own head need not say how long it becomes."""


def require_plausible_chunks(stream: IO[bytes], name: str) -> None:
    """Refuse chunks, one or all together, that become larger than recordings do; the stream is back at its start."""
    if not limited():
        return
    size, total = os.fstat(stream.fileno()).st_size, 0
    stream.seek(_MAGIC)
    while len(head := stream.read(9)) == 9:
        kind, length = struct.unpack("<BQ", head)
        start = stream.tell()
        if kind == _CHUNK:
            unpacked = _unpacked(stream)
            total += unpacked
            if unpacked > LARGEST_CHUNK:
                raise LogError(
                    f"a chunk of {name} becomes {unpacked / 2**20:.3g} MiB; {LARGEST_CHUNK // 2**20} are the most",
                    hint=f"the file is damaged, or made to fill the memory; {LIFT}",
                )
            require_plausible(total // 8, size, name, LogError)
        if kind == _FOOTER or length > size - start:
            break
        stream.seek(start + length)
    stream.seek(0)


def _unpacked(stream: IO[bytes]) -> int:
    """The length that a chunk's own head says, or that its packed data says or allows, if more."""
    head = stream.read(32)
    if len(head) < 32:
        return 0
    _, _, stated, _, letters = struct.unpack("<QQQII", head)
    compression = stream.read(min(letters, 16)).decode("latin-1")
    packed = int.from_bytes(stream.read(8), "little")
    return max(int(stated), _said_by_frame(compression, stream.read(32)), packed * _EXPANSION.get(compression, 0))


def _said_by_frame(compression: str, data: bytes) -> int:
    if compression != "zstd":
        return 0
    import zstandard

    try:
        return max(0, int(zstandard.frame_content_size(data)))
    except zstandard.ZstdError:
        return 0
