"""Decode JointState messages from CDR bytes [OMG DDS-RTPS 2.5, 10.2; ROS 2 uses XCDR1]."""

from __future__ import annotations

import struct
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, pluralise
from mindyn.foundation.safe_reading import MAX_COLUMNS
from mindyn.logs.log_errors import LogError

MESSAGE_TYPES: Final = ("sensor_msgs/msg/JointState", "sensor_msgs/JointState")
MAX_MESSAGE_BYTES: Final = 2**24
"""Largest message of a bag: a JointState of a thousand joints has 50 kB."""


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
    """Reader of CDR bytes. Alignment is counted from the end of the 4-byte encapsulation header."""

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
