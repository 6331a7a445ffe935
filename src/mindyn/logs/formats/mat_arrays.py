"""Read numeric arrays of MATLAB .mat files, versions 4 and 5 to 7 (7.3 is HDF5), also inside structs.

SciPy's reader crashes on some damaged files and trusts the sizes that a file declares. This reader supports only what a
log needs, and compares every length with the available bytes [MathWorks, MAT-File Format, 2021].
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from mindyn.foundation.safe_reading import NUMBER_BYTES, InputBudget
from mindyn.logs.formats.hdf5_arrays import open_hdf5
from mindyn.logs.formats.tables import raise_as_damaged
from mindyn.logs.log_errors import LogError

_HEADER, _TAG = 128, 8
_NUMBER_CODES: Final = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
"""NumPy codes of the numeric element types."""
_MATRIX, _COMPRESSED = 14, 15
_STRUCT, _FIRST_NUMERIC, _LAST_NUMERIC = 2, 6, 15
"""Array classes: struct; double, single and the integers."""
_COMPLEX: Final = 0x800
_MAX_AXES: Final = 64
_MAX_NAME_BYTES: Final = 4096
_VERSION_4_CODES: Final = ("f8", "f4", "i4", "i2", "u2", "u1")
"""NumPy codes of version 4, by its precision digit."""


def read_mat(path: Path) -> Mapping[str, Any]:
    """Read real vectors and matrices by name (`struct.field` in structs), without axes of length 1; skip other
    contents.
    """
    with path.open("rb") as file:
        if file.read(10) == b"MATLAB 7.3":
            return open_hdf5(path)
    data = path.read_bytes()
    with raise_as_damaged("a MATLAB file", path.name):
        arrays = (_read_version_4 if 0 in data[:4] else _read_arrays)(data, path.name)
        return {name: array for name, array in arrays if array.ndim in (1, 2)}


@dataclass(slots=True)
class _ByteReader:
    """Read bytes from start to end. `mark` is the byte order as in the module `struct`."""

    data: memoryview
    mark: Literal["<", ">"]
    at: int = 0

    def take(self, count: int) -> memoryview:
        if count < 0 or count > len(self.data) - self.at:
            raise ValueError(f"{count} bytes are declared, but {len(self.data) - self.at} are left")
        self.at += count
        return self.data[self.at - count : self.at]

    def element(self) -> tuple[int, memoryview]:
        """Return type and content of the next element; small elements store both in eight bytes."""
        kind, count = struct.unpack(f"{self.mark}II", self.take(_TAG))
        if kind >> 16:
            self.at -= 4
            content = self.take(4)
            if kind >> 16 > 4:
                raise ValueError("a small element has more than four bytes")
            return kind & 0xFFFF, content[: kind >> 16]
        content = self.take(count)
        if kind != _COMPRESSED:
            self.at = min(len(self.data), self.at + -count % _TAG)
        return kind, content

    def numbers(self) -> NDArray[Any]:
        kind, content = self.element()
        if kind not in _NUMBER_CODES:
            raise ValueError(f"numbers have the unknown type {kind}")
        return np.frombuffer(content, np.dtype(_NUMBER_CODES[kind]).newbyteorder(self.mark))

    def text(self) -> str:
        content = self.element()[1]
        if len(content) > _MAX_NAME_BYTES:
            raise ValueError(f"a name has {len(content)} bytes")
        return bytes(content).decode("latin-1").rstrip("\0")

    @property
    def more(self) -> bool:
        return self.at < len(self.data)


def _read_arrays(data: bytes, name: str) -> Iterator[tuple[str, NDArray[Any]]]:
    if len(data) < _HEADER or data[126:128] not in (b"IM", b"MI"):
        raise ValueError("it has no header of a MATLAB file")
    whole = _ByteReader(memoryview(data)[_HEADER:], "<" if data[126:128] == b"IM" else ">")
    budget = InputBudget(name, len(data), LogError)
    while whole.more:
        kind, content = whole.element()
        if kind == _COMPRESSED:
            kind, content = _ByteReader(_decompress(content, whole.mark, budget), whole.mark).element()
        if kind == _MATRIX:
            yield from _iterate_arrays(_ByteReader(content, whole.mark), "", budget, 1)


def _decompress(content: memoryview, mark: str, budget: InputBudget) -> memoryview:
    """Decompress an element, whose uncompressed length is stored at its beginning."""
    stream = zlib.decompressobj()
    head = stream.decompress(content, _TAG)
    _, count = struct.unpack(f"{mark}II", head)
    budget.take_bytes(count)
    body = stream.decompress(stream.unconsumed_tail, count) if count else b""
    if len(body) < count:
        raise ValueError(f"{count} bytes are declared, but {len(body)} are compressed")
    return memoryview(head + body)


def _iterate_arrays(
    part: _ByteReader, prefix: str, budget: InputBudget, depth: int, called: str | None = None
) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield the real numeric arrays of a matrix element: the array itself, or those of its fields."""
    budget.require_depth(depth)
    budget.take_keys()
    flags = int(part.numbers()[0])
    axes = part.numbers()
    if len(axes) > _MAX_AXES:
        raise ValueError(f"an array has {len(axes)} axes")
    shape = tuple(int(n) for n in axes)
    own_name = part.text()
    name = prefix + (own_name if called is None else called)
    if min(shape, default=0) < 0:
        raise ValueError(f"array {name!r} has shape {shape}")
    kind = flags & 0xFF
    if _FIRST_NUMERIC <= kind <= _LAST_NUMERIC and not flags & _COMPLEX:
        values = part.numbers()
        if len(values) != prod(shape):
            raise ValueError(f"array {name!r} has {len(values)} numbers, but its shape is {shape}")
        budget.take_bytes(len(values) * max(0, NUMBER_BYTES - values.itemsize))
        if max(shape) > 1 and name:  # MATLAB's internal data has no name
            yield name, values.reshape(shape, order="F").squeeze()
    elif kind == _STRUCT and prod(shape) == 1:
        (width,) = part.numbers()[:1].tolist() or [0]
        packed = part.element()[1]
        budget.take_keys(len(packed) // max(1, width))
        fields = [
            bytes(packed[k : k + width]).split(b"\0")[0].decode("latin-1") for k in range(0, len(packed), max(1, width))
        ]
        for field in fields:
            number, content = part.element()
            if number == _MATRIX and len(content):
                yield from _iterate_arrays(_ByteReader(content, part.mark), f"{name}.", budget, depth + 1, field)


def _read_version_4(data: bytes, file: str) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield the arrays of version 4: a sequence of matrices, each after five integers."""
    mark: Literal["<", ">"] = "<" if struct.unpack("<i", data[:4])[0] in range(5000) else ">"
    part, budget = _ByteReader(memoryview(data), mark), InputBudget(file, len(data), LogError)
    while part.more:
        budget.take_keys()
        form, rows, columns, imaginary, length = struct.unpack(f"{mark}5i", part.take(20))
        precision, kind = form // 10 % 10, form % 10
        if min(form, rows, columns, length) < 0 or precision >= len(_VERSION_4_CODES) or kind > 2:
            raise ValueError("it has no header of a MATLAB file")
        name = bytes(part.take(length)).decode("latin-1").rstrip("\0")
        dtype = np.dtype(_VERSION_4_CODES[precision]).newbyteorder(mark)
        values = np.frombuffer(part.take(rows * columns * dtype.itemsize), dtype)
        if imaginary:
            part.take(len(values) * dtype.itemsize)
        elif kind == 0 and max(rows, columns) > 1 and min(rows, columns) > 0:
            yield name, values.reshape((rows, columns), order="F").squeeze()
