"""Read arrays of NPZ files by name; each array is read when it is first used."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping
from io import BytesIO
from math import prod
from pathlib import Path
from typing import IO, Any, Final

import numpy as np
from numpy.typing import NDArray

from mindyn.foundation.errors import Code
from mindyn.foundation.safe_reading import NUMBER_BYTES, InputBudget
from mindyn.logs.formats.tables import raise_as_damaged
from mindyn.logs.log_errors import LogError

MAX_NPY_HEADER_BYTES: Final = 10_000
"""NumPy's limit for the header of an array in an NPZ file."""
_MIN_ZIP_ENTRY_BYTES: Final = 46
"""Smallest size of an entry in the directory of a ZIP file."""


class NpzArrays(Mapping[str, Any]):
    """Vectors and matrices of an NPZ file, each read when it is first used.

    The declared size of an array is compared with the size of the file before memory is allocated.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: dict[str, NDArray[Any]] = {}
        self._entries: dict[str, zipfile.ZipInfo] = {}
        self._budget = InputBudget(path.name, path.stat().st_size, LogError)
        with raise_as_damaged("NPZ", path.name), path.open("rb") as raw:
            end = zipfile._EndRecData(raw)  # type: ignore[attr-defined]
            self._budget.take_keys(end[5] // _MIN_ZIP_ENTRY_BYTES if end else 0)
        with raise_as_damaged("NPZ", path.name), zipfile.ZipFile(path) as file:
            for entry in file.infolist():
                if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):  # unpacked without a limit
                    raise LogError(
                        f"{path.name} is compressed by ZIP method {entry.compress_type}; mindyn supports 0 and 8",
                        hint="write it with numpy.savez or numpy.savez_compressed",
                        code=Code.UNSUPPORTED,
                        subject=path.name,
                    )
                with file.open(entry) as stream:
                    shape, _, _ = _read_npy_header(stream)
                if len(shape) in (1, 2):
                    self._entries[entry.filename.removesuffix(".npy")] = entry

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __getitem__(self, name: str) -> NDArray[Any]:
        """Return an array; raise `LogError` if it declares more numbers than its file can hold."""
        entry = self._entries[name]
        if name not in self._known:
            with (
                raise_as_damaged("NPZ", self._path.name),
                zipfile.ZipFile(self._path) as file,
                file.open(entry) as stream,
            ):
                self._known[name] = self._array(stream, name, entry.file_size)
        return self._known[name]

    def _array(self, stream: IO[bytes], name: str, size: int) -> NDArray[Any]:
        shape, by_columns, dtype = _read_npy_header(stream)
        if dtype.hasobject:
            message = f"array {name!r} of {self._path.name} holds Python objects; mindyn reads only numbers"
            raise LogError(message, code=Code.UNSAFE_INPUT, subject=name)
        count = prod(shape)
        self._budget.take_bytes(count * max(dtype.itemsize, NUMBER_BYTES))
        content = stream.read(min(size, count * dtype.itemsize))
        if len(content) < count * dtype.itemsize:
            raise ValueError(f"array {name!r} is truncated")
        flat = np.frombuffer(content, dtype, count)
        return flat.reshape(shape[::-1]).T if by_columns else flat.reshape(shape)


def _read_npy_header(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Return the shape, whether the order is by columns, and the type of an array in NumPy's format."""
    is_first = np.lib.format.read_magic(stream) == (1, 0)
    read = np.lib.format.read_array_header_1_0 if is_first else np.lib.format.read_array_header_2_0
    length = stream.read(2 if is_first else 4)
    if int.from_bytes(length, "little") > MAX_NPY_HEADER_BYTES:
        raise ValueError(f"a header has more than {MAX_NPY_HEADER_BYTES} bytes")
    shape, by_columns, dtype = read(BytesIO(length + stream.read(int.from_bytes(length, "little"))))
    if any(n < 0 for n in shape):
        raise ValueError(f"an array has the shape {shape}")
    return shape, by_columns, dtype
