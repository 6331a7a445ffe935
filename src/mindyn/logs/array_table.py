"""Named arrays (NPZ, MATLAB .mat, HDF5) as a `Table`."""

from __future__ import annotations

import zipfile
from collections.abc import Collection, Iterator, Mapping
from math import prod
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from mindyn.errors import MissingExtraError
from mindyn.logs.findings import LogError
from mindyn.logs.mat_file import read_mat
from mindyn.logs.tables import Chunk, damaged_as, numbers_of
from mindyn.reading import require_plausible


class ArrayTable:
    """Arrays with time along one axis: (N,), (N, 1), (1, N), (N, n) or (n, N) for n joints.

    `arrays` may hold anything that NumPy can slice, so an HDF5 dataset is read block by block.
    """

    def __init__(self, name: str, arrays: Mapping[str, Any], joint_count: int) -> None:
        self.name = name
        self.names = tuple(arrays)
        self.stated: Mapping[str, Any] = {}
        self.notes: tuple[str, ...] = ()
        self._arrays = arrays
        self._joint_count = joint_count

    def chunks(self, names: Collection[str], rows: int) -> Iterator[Chunk]:
        """Slices of the arrays, time along the first axis."""
        along = {name: self._time_axis(name) for name in names}
        lengths = {name: self._arrays[name].shape[along[name]] for name in names}
        if len(set(lengths.values())) > 1:
            listed = ", ".join(f"{name} {length}" for name, length in lengths.items())
            hint = "are torque and motion out of step?"
            raise LogError(f"arrays of {self.name} have different lengths: {listed}", hint=hint)
        for start in range(0, next(iter(lengths.values())), rows):
            yield {name: self._slice(name, along[name], start, start + rows) for name in names}

    def head(self, rows: int) -> dict[str, NDArray[Any]]:
        """The first `rows` of every array of real numbers, time along its longer axis."""
        found = {}
        for name, array in self._arrays.items():
            if array.dtype.kind not in "iuf":
                continue
            wide = len(array.shape) == 2 and array.shape[1] > array.shape[0]
            found[name] = self._slice(name, int(wide), 0, rows)
        return found

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
                hint="is it the log of another robot?" if not fitting else "there are as many rows as joints",
            )
        return fitting[0]

    def _slice(self, name: str, axis: int, start: int, stop: int) -> NDArray[Any]:
        array = self._arrays[name]
        block = np.asarray(array[start:stop] if axis == 0 else array[:, start:stop].T)
        return numbers_of(block[:, 0] if block.ndim == 2 and block.shape[1] == 1 else block, name, self.name)


def open_arrays(path: Path, joint_count: int) -> ArrayTable:
    """The arrays of an .npz, .mat, .h5 or .hdf5 file; `struct.field` and `group/dataset` name nested ones."""
    suffix = path.suffix.lower()
    readers = {".npz": NpzArrays, ".mat": _read_mat}
    return ArrayTable(path.name, readers.get(suffix, _open_hdf5)(path), joint_count)


class NpzArrays(Mapping[str, Any]):
    """Vectors and matrices of an NPZ file, each read when first asked for.

    What a header declares is compared with the size of the file before any memory is taken for it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: dict[str, NDArray[Any]] = {}
        self._entries: dict[str, zipfile.ZipInfo] = {}
        with damaged_as("NPZ", path.name), zipfile.ZipFile(path) as file:
            for entry in file.infolist():
                with file.open(entry) as stream:
                    shape, _, _ = _npy_header(stream)
                if len(shape) in (1, 2):
                    self._entries[entry.filename.removesuffix(".npy")] = entry

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __getitem__(self, name: str) -> NDArray[Any]:
        """The array; refused where it claims more numbers than its file can hold."""
        entry = self._entries[name]
        if name not in self._known:
            with damaged_as("NPZ", self._path.name), zipfile.ZipFile(self._path) as file, file.open(entry) as stream:
                self._known[name] = self._array(stream, name)
        return self._known[name]

    def _array(self, stream: IO[bytes], name: str) -> NDArray[Any]:
        shape, by_columns, dtype = _npy_header(stream)
        if dtype.hasobject:
            raise LogError(f"array {name!r} of {self._path.name} holds Python objects, which are not read")
        count = prod(shape)
        earlier = sum(one.size for one in self._known.values())
        require_plausible(count + earlier, self._path.stat().st_size, self._path.name, LogError)
        content = stream.read(count * dtype.itemsize)
        if len(content) < count * dtype.itemsize:
            raise ValueError(f"array {name!r} is cut off")
        flat = np.frombuffer(content, dtype, count)
        return flat.reshape(shape[::-1]).T if by_columns else flat.reshape(shape)


def _npy_header(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, whether by columns, and type of an array in NumPy's format."""
    version = np.lib.format.read_magic(stream)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, by_columns, dtype = read(stream)
    if any(n < 0 for n in shape):
        raise ValueError(f"a shape of {shape}")
    return shape, by_columns, dtype


def _read_mat(path: Path) -> Mapping[str, Any]:
    with path.open("rb") as file:
        if file.read(10) == b"MATLAB 7.3":
            return _open_hdf5(path)
    return {name: array for name, array in read_mat(path).items() if array.ndim in (1, 2)}


def _open_hdf5(path: Path) -> Mapping[str, Any]:
    try:
        import h5py
    except ImportError as error:
        raise MissingExtraError(f"{path.name} is an HDF5 file", hint="pip install 'mindyn[hdf5]'") from error
    arrays: dict[str, Any] = {}

    def see(given: str | bytes, item: object) -> None:
        name = given if isinstance(given, str) else given.decode(errors="replace")  # bytes where it is no UTF-8
        if not isinstance(item, h5py.Dataset) or item.shape is None or item.dtype.kind not in "iufb":
            return
        if item.external or item.is_virtual:
            raise LogError(f"dataset {name!r} of {path.name} lies in other files, which are not read")
        if item.ndim in (1, 2):
            require_plausible(prod(item.shape), path.stat().st_size, f"dataset {name!r} of {path.name}", LogError)
            arrays[name] = item

    with damaged_as("HDF5", path.name):
        h5py.File(path, "r").visititems(see)
    return arrays
