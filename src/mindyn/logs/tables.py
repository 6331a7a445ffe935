"""`Table`: named columns of any log file, read in chunks of rows; what each format gives (`mindyn.logs.formats`)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mindyn.logs.findings import LogError

Chunk = Mapping[str, NDArray[Any]]
"""Columns of some rows: (rows,) numbers, or (rows, k) for a column that holds arrays."""


class Table(Protocol):
    """Named columns of one log.

    name    what messages call the file
    names   names of its columns
    stated  what the format itself says about its columns (see `Statement`)
    """

    @property
    def name(self) -> str: ...  # noqa: D102 - see the class

    @property
    def names(self) -> Collection[str]: ...  # noqa: D102 - see the class

    @property
    def stated(self) -> Mapping[str, Any]: ...  # noqa: D102 - see the class

    def chunks(self, names: Collection[str], rows: int) -> Iterator[Chunk]:
        """The named columns, at most about `rows` rows at a time, in file order."""
        ...


def row_count(chunk: Chunk) -> int:
    """Number of rows of a chunk."""
    return len(next(iter(chunk.values())))


def numbers_of(values: NDArray[Any], column: str, file: str) -> NDArray[Any]:
    """The values if they are real numbers; integers stay integers, so that stamps in ns keep every digit."""
    if values.dtype.kind not in "iufb":
        raise LogError(f"column {column!r} of {file} holds {values.dtype}, not numbers")
    return values if values.dtype.kind in "iu" else np.asarray(values, dtype=np.float64)
