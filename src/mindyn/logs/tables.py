"""`Table`: named columns of any log file, read in chunks of rows; one opener for every format."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from mindyn.logs.findings import LogError
from mindyn.logs.statement import Statement
from mindyn.robots.robot import Robot

Chunk = Mapping[str, NDArray[Any]]
"""Columns of some rows: (rows,) numbers, or (rows, k) for a column that holds arrays."""

SUFFIXES: Final = (".csv", ".txt", ".parquet", ".h5", ".hdf5", ".npz", ".mat", ".mcap", ".db3")


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


def open_table(path: Path, robot: Robot, said: Statement) -> Table:
    """The table of a log file; the suffix says the format, a folder is a rosbag2."""
    if not path.exists():
        raise LogError(f"there is no log {str(path)!r}", hint=f"paths are taken from {str(Path.cwd())!r}")
    if path.is_file() and path.stat().st_size == 0:
        raise LogError(f"{path.name} is empty (0 bytes)", hint="did the recording or the copy fail?")
    suffix = path.suffix.lower()
    if path.is_dir() or suffix in (".mcap", ".db3"):
        from mindyn.logs.bag_table import BagTable

        return BagTable(path, robot, said.topic)
    if suffix in (".csv", ".txt"):
        from mindyn.logs.text_table import TextTable

        return TextTable(path, said.separator, said.decimal, said.skip_rows)
    if suffix == ".parquet":
        from mindyn.logs.parquet_table import ParquetTable

        return ParquetTable(path)
    if suffix in (".npz", ".mat", ".h5", ".hdf5"):
        from mindyn.logs.array_table import open_arrays

        return open_arrays(path, len(robot.primary_names))
    raise LogError(f"{path.name}: mindyn reads {', '.join(SUFFIXES)}, and rosbag2 folders")


def row_count(chunk: Chunk) -> int:
    """Number of rows of a chunk."""
    return len(next(iter(chunk.values())))


def numbers_of(values: NDArray[Any], column: str, file: str) -> NDArray[Any]:
    """The values if they are real numbers; integers stay integers, so that stamps in ns keep every digit."""
    if values.dtype.kind not in "iufb":
        raise LogError(f"column {column!r} of {file} holds {values.dtype}, not numbers")
    return values if values.dtype.kind in "iu" else np.asarray(values, dtype=np.float64)
