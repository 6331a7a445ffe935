"""Read datasets of HDF5 files as named arrays, a slice at a time."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from itertools import product
from math import prod
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mindyn.foundation.errors import Code, MissingExtraError
from mindyn.foundation.hints import install_command
from mindyn.foundation.safe_reading import ALWAYS_ALLOWED_BYTES, NUMBER_BYTES, InputBudget, are_limits_active
from mindyn.logs.formats.tables import COPY_HINT, raise_as_damaged
from mindyn.logs.log_errors import LogError

_DEFLATE, _SHUFFLE, _FLETCHER, _LZF = 1, 2, 3, 32000
"""Numbers of the supported HDF5 filters."""
_LZF_EXPANSION: Final = 88
"""Largest expansion of a byte packed by LZF: three bytes become 264."""


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
        """Raise an error if a chunk is larger than its shape, or if its filter does not limit the decompressed size."""
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


def open_hdf5(path: Path) -> Mapping[str, Any]:
    """Return the datasets of a file by name."""
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
