"""Read named arrays (NPZ, MATLAB .mat, HDF5) as a `LogTable`.

Read numeric arrays of MATLAB .mat files, versions 4 and 5 to 7 (7.3 is HDF5), also inside structs.

SciPy's reader crashes on some damaged files and trusts the sizes that a file declares. This reader supports only what a
log needs, and compares every length with the available bytes [MathWorks, MAT-File Format, 2021].
"""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from io import BytesIO
from itertools import product
from math import prod
from pathlib import Path
from typing import IO, Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from mindyn.foundation.errors import Code, MissingExtraError
from mindyn.foundation.hints import install_command
from mindyn.foundation.reading import ALWAYS_ALLOWED_BYTES, NUMBER_BYTES, InputBudget, are_limits_active
from mindyn.logs.errors import LogError
from mindyn.logs.formats.tables import COPY_HINT, Chunk, LogTable, raise_as_damaged, require_numbers

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
    """Read real vectors and matrices by name, `struct.field` in structs, without axes of length 1; skip the rest."""
    with path.open("rb") as file:
        if file.read(10) == b"MATLAB 7.3":
            return _open_hdf5(path)
    data = path.read_bytes()
    with raise_as_damaged("a MATLAB file", path.name):
        arrays = (_read_version_4 if 0 in data[:4] else _read_arrays)(data, path.name)
        return {name: array for name, array in arrays if array.ndim in (1, 2)}


@dataclass(slots=True)
class _ByteReader:
    """Bytes that are read from start to end; `mark` is the byte order as in `struct`."""

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
    """Yield the real numeric arrays of a matrix element: itself, or those of its fields."""
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


MAX_NPY_HEADER_BYTES: Final = 10_000
"""NumPy's limit for the header of an array in an NPZ file."""
_MIN_ZIP_ENTRY_BYTES: Final = 46
"""Smallest size of an entry in the directory of a ZIP file."""
_DEFLATE, _SHUFFLE, _FLETCHER, _LZF = 1, 2, 3, 32000
"""Numbers of the supported HDF5 filters."""
_LZF_EXPANSION: Final = 88
"""Largest expansion of a byte packed by LZF: three bytes become 264."""


class ArrayTable(LogTable):
    """Log of named arrays with time along one axis.

    Parameters
    ----------
    name : str
        Name of the file in messages.
    arrays : mapping of str to array
        Arrays of shape (N,), (N, 1), (1, N), (N, n) or (n, N) for n joints. Anything that NumPy can slice is
        accepted, so an HDF5 dataset is read block by block.
    joint_count : int
        Number n of joints.
    """

    def __init__(self, name: str, arrays: Mapping[str, Any], joint_count: int) -> None:
        self.name = name
        self.names = tuple(arrays)
        self._arrays = arrays
        self._joint_count = joint_count

    def read_chunks(self, names: Collection[str], rows: int) -> Iterator[Chunk]:
        """Yield slices of the arrays with time along the first axis."""
        along = {name: self._time_axis(name) for name in names}
        lengths = {name: self._arrays[name].shape[along[name]] for name in names}
        if len(set(lengths.values())) > 1:
            listed = ", ".join(f"{name} {length}" for name, length in lengths.items())
            raise LogError(
                f"arrays of {self.name} have different lengths: {listed}",
                hint="torque and motion must have the same rows; was one of the arrays cut?",
                code=Code.DISAGREEMENT,
                subject=self.name,
            )
        for start in range(0, next(iter(lengths.values())), rows):
            yield {name: self._slice(name, along[name], start, start + rows) for name in names}

    def head(self, rows: int) -> dict[str, NDArray[Any]]:
        """Return the first `rows` of every array of real numbers, with time along its longer axis."""
        columns = {}
        for name, array in self._arrays.items():
            if array.dtype.kind not in "iuf":
                continue
            wide = len(array.shape) == 2 and array.shape[1] > array.shape[0]
            columns[name] = self._slice(name, int(wide), 0, rows)
        return columns

    def _time_axis(self, name: str) -> int:
        shape, n = self._arrays[name].shape, self._joint_count
        if len(shape) == 1 or shape[1] == 1:
            return 0
        if shape[0] == 1:
            return 1
        fitting = [axis for axis in (0, 1) if shape[1 - axis] == n]
        if len(fitting) != 1:
            raise LogError(
                f"array {name!r} of {self.name} has shape {shape}; the robot's {n} joints need (N, {n}) or ({n}, N)",
                hint="is it the log of another robot?"
                if not fitting
                else "there are as many rows as joints, so the time axis is ambiguous: log more rows",
                code=Code.AMBIGUOUS if fitting else Code.WRONG_SHAPE,
                subject=name,
            )
        return fitting[0]

    def _slice(self, name: str, axis: int, start: int, stop: int) -> NDArray[Any]:
        array = self._arrays[name]
        block = np.asarray(array[start:stop] if axis == 0 else array[:, start:stop].T)
        return require_numbers(block[:, 0] if block.ndim == 2 and block.shape[1] == 1 else block, name, self.name)


def open_arrays(path: Path, joint_count: int) -> ArrayTable:
    """Open an .npz, .mat, .h5 or .hdf5 file; `struct.field` and `group/dataset` name nested arrays."""
    suffix = path.suffix.lower()
    readers = {".npz": NpzArrays, ".mat": read_mat}
    return ArrayTable(path.name, readers.get(suffix, _open_hdf5)(path), joint_count)


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


class Hdf5Array:
    """Dataset of an HDF5 file whose chunks are checked before the library decompresses them.

    The library decompresses a deflated chunk completely, even if the result is larger than the chunk's shape.
    """

    def __init__(self, data: Any, name: str, file_size: int) -> None:
        self.shape, self.dtype = data.shape, data.dtype
        self._data, self._name = data, name
        self._chunk_bytes = prod(data.chunks or (0,)) * data.dtype.itemsize
        self._checked: set[tuple[int, ...]] = set()
        created = data.id.get_create_plist()
        self._filters = [created.get_filter(k)[0] for k in range(created.get_nfilters())]
        numbers = prod(data.shape) * max(data.dtype.itemsize, NUMBER_BYTES)
        for count in (numbers, 4 * self._chunk_bytes):  # chunks are copied
            InputBudget(name, file_size, LogError).take_bytes(count)
        if data.chunks is None:
            stored, declared = data.id.get_storage_size(), prod(data.shape) * data.dtype.itemsize
        else:
            stored = data.id.get_num_chunks()
            declared = prod(-(-n // chunk) for n, chunk in zip(data.shape, data.chunks, strict=True))
        if stored < declared and are_limits_active():
            what = "bytes" if data.chunks is None else "chunks"
            message = f"{name} declares {declared} {what}, but the file holds {stored}"
            raise LogError(message, hint=COPY_HINT, code=Code.UNREADABLE, subject=name)

    def __getitem__(self, where: slice | tuple[slice, slice]) -> NDArray[Any]:
        """Return the values of a range of rows or columns."""
        if self._filters and self._data.chunks and are_limits_active():
            spans = [*(where if isinstance(where, tuple) else (where,)), slice(None)]
            limits = [(span.indices(n)[:2], step) for span, n, step in zip(spans, self.shape, self._data.chunks)]  # noqa: B905
            grid = [range(start - start % step, stop, step) for (start, stop), step in limits]
            for corner in set(product(*grid)) - self._checked:
                self._require_honest(corner)
                self._checked.add(corner)
        return np.asarray(self._data[where])

    def _require_honest(self, corner: tuple[int, ...]) -> None:
        """Raise if a chunk is larger than its shape, or if its filter does not bound the size."""
        skipped, content = self._data.id.read_direct_chunk(corner)
        for number, code in reversed(list(enumerate(self._filters))):
            if skipped >> number & 1 or code == _SHUFFLE:
                continue
            if code == _FLETCHER:
                content = content[:-4]
            elif code == _DEFLATE:
                content = zlib.decompressobj().decompress(content, self._chunk_bytes + 5)
                if len(content) > self._chunk_bytes + 4:  # a checksum may be packed too
                    message = f"a chunk of {self._name} expands to more than the {self._chunk_bytes} bytes of its shape"
                    raise LogError(message, code=Code.UNSAFE_INPUT, subject=self._name)
            elif code != _LZF or len(content) * _LZF_EXPANSION > ALWAYS_ALLOWED_BYTES:
                raise LogError(
                    f"chunks of {self._name} are compressed by filter {code}; mindyn supports gzip and small LZF "
                    "chunks",
                    hint="convert the file with h5repack -f GZIP=4",
                    code=Code.UNSUPPORTED,
                    subject=self._name,
                )


def _open_hdf5(path: Path) -> Mapping[str, Any]:
    try:
        import h5py
    except ImportError as error:
        message = f"{path.name} is an HDF5 file, which needs h5py"
        raise MissingExtraError(message, hint=install_command("hdf5"), subject="hdf5") from error
    arrays: dict[str, Any] = {}
    size = path.stat().st_size
    budget = InputBudget(path.name, size, LogError)

    def visit(path_in_file: str | bytes, item: Any) -> None:
        # h5py follows hard links only, visits every object once, and gives names that are not UTF-8 as bytes.
        name = path_in_file if isinstance(path_in_file, str) else path_in_file.decode(errors="replace")
        budget.take_keys()
        budget.require_depth(name.count("/") + 1)
        if not isinstance(item, h5py.Dataset) or item.shape is None or item.dtype.kind not in "iufb":
            return
        if item.external or item.is_virtual:
            message = f"dataset {name!r} of {path.name} is stored in other files, which is not supported"
            raise LogError(message, code=Code.UNSAFE_INPUT, subject=name)
        if item.ndim in (1, 2):
            arrays[name] = Hdf5Array(item, f"dataset {name!r} of {path.name}", size)

    with raise_as_damaged("HDF5", path.name):
        h5py.File(path, "r").visititems(visit)
    return arrays
