"""sensor_msgs/JointState decoded from CDR bytes [OMG DDS-RTPS 2.5, 10.2; ROS 2 uses XCDR1]."""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np

from mindyn.algebra.values import Array
from mindyn.logs.findings import LogError


@dataclass(frozen=True, slots=True, eq=False)
class JointState:
    """One message: stamp in ns, joint names, and arrays that are empty when the publisher does not fill them."""

    stamp_ns: int
    names: tuple[str, ...]
    position: Array
    velocity: Array
    effort: Array


class _Reader:
    """Walks CDR bytes; alignment counts from the end of the 4-byte encapsulation header."""

    def __init__(self, data: bytes) -> None:
        if len(data) < 4 or data[0] != 0 or data[1] not in (0, 1):
            raise LogError(f"a JointState message starts with {data[:4].hex()}; plain CDR starts with 0000 or 0001")
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
        self.at += length
        if self.at > len(self.data):
            raise struct.error("text runs past the end")
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
    """The JointState of a serialized message: header (stamp, frame), name[], position[], velocity[], effort[]."""
    reader = _Reader(data)
    try:
        stamp = reader.integer("i") * 10**9 + reader.integer()
        reader.text()
        names = tuple(reader.text() for _ in range(reader.integer()))
        return JointState(stamp, names, reader.doubles(), reader.doubles(), reader.doubles())
    except (struct.error, ValueError, UnicodeDecodeError) as error:
        raise LogError(f"a JointState message of {len(data)} bytes breaks off: {error}") from error
