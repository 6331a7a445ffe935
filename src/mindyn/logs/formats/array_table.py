"""Read named arrays (NPZ, MATLAB .mat, HDF5) as a `LogTable`."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mindyn.foundation.errors import Code
from mindyn.logs.formats.hdf5_arrays import open_hdf5
from mindyn.logs.formats.mat_arrays import read_mat
from mindyn.logs.formats.npz_arrays import NpzArrays
from mindyn.logs.formats.tables import Chunk, LogTable, require_numbers
from mindyn.logs.log_errors import LogError


class ArrayTable(LogTable):
    """Log of named arrays with time along one axis.

    Parameters
    ----------
    name : str
        Name of the file in messages.
    arrays : mapping of str to array
        Arrays of shape (N,), (N, 1), (1, N), (N, n) or (n, N) for n joints. All objects that can be sliced like NumPy
        arrays are accepted, so that an HDF5 dataset is read block by block.
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
    return ArrayTable(path.name, readers.get(suffix, open_hdf5)(path), joint_count)
