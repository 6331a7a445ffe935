"""Formats of log files: for each suffix the function that opens a file as a `PaperTable`.

A new format is one function and one entry of `LOG_FORMATS`, also of a program that uses mindyn:
`LOG_FORMATS[".dat"] = open_dat`. Readers are imported when a file of their format is opened.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from mindyn.logs.errors import LogError
from mindyn.logs.locations import FileLocation, RemoteFile
from mindyn.logs.metadata import LogMetadata
from mindyn.logs.tables import GuardedTable, LogTable, raise_as_damaged
from mindyn.reading import require_file
from mindyn.robots.robot import Robot

Opener = Callable[[Path, Robot, LogMetadata], LogTable]


def _open_text(path: Path, robot: Robot, said: LogMetadata) -> LogTable:  # noqa: ARG001 - one signature for all formats
    from mindyn.logs.text_table import TextTable

    return TextTable(path, said.separator, said.decimal, said.skip_rows)


def _open_parquet(path: Path, robot: Robot, said: LogMetadata) -> LogTable:  # noqa: ARG001
    from mindyn.logs.parquet_table import ParquetTable

    return ParquetTable(path)


def _open_json(path: Path, robot: Robot, said: LogMetadata) -> LogTable:  # noqa: ARG001
    from mindyn.logs.json_table import JsonLinesTable

    return JsonLinesTable(path)


def _open_arrays(path: Path, robot: Robot, said: LogMetadata) -> LogTable:
    from mindyn.logs.array_table import open_arrays

    return open_arrays(path, len(said.joints or robot.primary_names))


def _open_bag(path: Path, robot: Robot, said: LogMetadata) -> LogTable:
    from mindyn.logs.bag_table import BagTable

    return BagTable(path, robot, said.topic)


TEXT_FORMATS: Final = (".csv", ".txt", ".tsv")
LOG_FORMATS: Final[dict[str, Opener]] = {
    **dict.fromkeys(TEXT_FORMATS, _open_text),
    **dict.fromkeys((".jsonl", ".ndjson"), _open_json),
    ".parquet": _open_parquet,
    **dict.fromkeys((".h5", ".hdf5", ".npz", ".mat"), _open_arrays),
    **dict.fromkeys((".mcap", ".db3"), _open_bag),
}


CONVERSION_HINTS: Final = {
    **dict.fromkeys((".gz", ".zip", ".zst", ".xz", ".bz2", ".7z"), "unpack it first"),
    ".bag": "that is a bag of ROS 1: rosbags-convert (of the package rosbags) makes a rosbag2 of it",
    ".json": "one JSON object a line is read, as .jsonl: polars.read_json(...).write_ndjson(...) makes it",
    ".npy": "numpy.savez puts named arrays into one .npz file: time, positions, torques",
}
"""What to do with a log of a format that is not read."""


def open_table(path: FileLocation, robot: Robot, said: LogMetadata) -> LogTable:
    """The table of a log file; the suffix says the format, a folder is a rosbag2; in object stores Parquet alone."""
    if isinstance(path, RemoteFile):
        return _open_remote(path)
    folder = _is_folder(path)
    if not folder and require_file(path, "log", LogError) == 0:
        raise LogError(f"{path.name} is empty (0 bytes)", hint="did the recording or the copy fail?")
    suffix = path.suffix.lower()
    opener = _open_bag if folder else LOG_FORMATS.get(suffix)
    if opener is None:
        raise LogError(
            f"{path.name}: mindyn reads {', '.join(LOG_FORMATS)}, and rosbag2 folders",
            hint=CONVERSION_HINTS.get(suffix, "write it as CSV or Parquet, with pandas or polars for instance"),
        )
    form = "rosbag2" if folder else f"{suffix} file"
    with raise_as_damaged(form, path.name):
        return GuardedTable(opener(path, robot, said), form)


def _open_remote(place: RemoteFile) -> LogTable:
    if place.suffix.lower() != ".parquet":
        raise LogError(
            f"{place.name}: from an object store mindyn reads .parquet, which can be fetched block by block",
            hint="copy the file here first, or write such logs as Parquet",
        )
    if place.info().size == 0:
        raise LogError(f"{place.name} is empty (0 bytes)", hint="did the recording or the copy fail?")
    from mindyn.logs.parquet_table import ParquetTable

    with raise_as_damaged(".parquet file", place.name):
        return GuardedTable(ParquetTable(place), ".parquet file")


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):  # a name that the system does not take; `require_file` says which
        return False
