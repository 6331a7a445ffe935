"""Named arrays (NPZ, MATLAB .mat, HDF5) as a `Table`."""

from __future__ import annotations

import zipfile
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mindyn.errors import MissingExtraError
from mindyn.logs.findings import LogError
from mindyn.logs.tables import Chunk, numbers_of


class ArrayTable:
    """Arrays with time along one axis: (N,), (N, 1), (1, N), (N, n) or (n, N) for n joints.

    `arrays` may hold anything that NumPy can slice, so an HDF5 dataset is read block by block.
    """

    def __init__(self, name: str, arrays: Mapping[str, Any], joint_count: int) -> None:
        self.name = name
        self.names = tuple(key for key, array in arrays.items() if array.ndim in (1, 2))
        self.stated: Mapping[str, Any] = {}
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
    readers = {".npz": _read_npz, ".mat": _read_mat}
    return ArrayTable(path.name, readers.get(suffix, _open_hdf5)(path), joint_count)


def _read_npz(path: Path) -> dict[str, Any]:
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise LogError(f"{path.name} cannot be read as NPZ: {error}", hint="is the copy complete?") from error


def _read_mat(path: Path) -> dict[str, Any]:
    from scipy.io import loadmat

    with path.open("rb") as file:
        if file.read(10) == b"MATLAB 7.3":
            return _open_hdf5(path)
    try:
        content = loadmat(path, struct_as_record=False, squeeze_me=True)
    except Exception as error:  # loadmat raises whatever its parser trips over
        raise LogError(f"{path.name} cannot be read as MATLAB file: {error}", hint="is the copy complete?") from error
    return _numeric_leaves({name: value for name, value in content.items() if not name.startswith("__")}, "")


def _numeric_leaves(values: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, np.ndarray) and value.dtype.kind in "iufb":
            found[prefix + name] = value
        elif hasattr(value, "_fieldnames"):
            members = {field: getattr(value, field) for field in value._fieldnames}
            found |= _numeric_leaves(members, f"{prefix}{name}.")
    return found


def _open_hdf5(path: Path) -> dict[str, Any]:
    try:
        import h5py
    except ImportError as error:
        raise MissingExtraError(f"{path.name} is an HDF5 file", hint="pip install 'mindyn[hdf5]'") from error
    try:
        file = h5py.File(path, "r")
    except OSError as error:
        raise LogError(f"{path.name} cannot be read as HDF5: {error}", hint="is the copy complete?") from error
    arrays: dict[str, Any] = {}
    file.visititems(lambda name, item: arrays.update({name: item}) if isinstance(item, h5py.Dataset) else None)
    return arrays
