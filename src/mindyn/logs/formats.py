"""Formats of log files: for each suffix, a function that opens a file as a `LogTable`.

To add a format, also from a program that uses mindyn, write a function and add it to `LOG_FORMATS`:
`LOG_FORMATS[".dat"] = open_dat`. Readers are imported when a file of their format is opened.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from mindyn.errors import Code
from mindyn.logs.errors import LogError
from mindyn.logs.locations import FileLocation, RemoteFile
from mindyn.logs.metadata import LogMetadata
from mindyn.logs.tables import LogTable, raise_as_damaged
from mindyn.reading import require_file
from mindyn.robots.robot import Robot

Opener = Callable[[Path, Robot, LogMetadata], LogTable]


def _open_text(path: Path, robot: Robot, metadata: LogMetadata) -> LogTable:  # noqa: ARG001 - one signature for all formats
    from mindyn.logs.text_table import TextTable

    return TextTable(path, metadata.separator, metadata.decimal, metadata.skip_rows)


def _open_parquet(path: Path, robot: Robot, metadata: LogMetadata) -> LogTable:  # noqa: ARG001
    from mindyn.logs.parquet_table import ParquetTable

    return ParquetTable(path)


def _open_json(path: Path, robot: Robot, metadata: LogMetadata) -> LogTable:  # noqa: ARG001
    from mindyn.logs.json_table import JsonLinesTable

    return JsonLinesTable(path)


def _open_arrays(path: Path, robot: Robot, metadata: LogMetadata) -> LogTable:
    from mindyn.logs.array_table import open_arrays

    return open_arrays(path, len(metadata.joints or robot.primary_names))


def _open_lerobot(path: Path, robot: Robot, metadata: LogMetadata) -> LogTable:  # noqa: ARG001
    from mindyn.logs.lerobot_table import LeRobotTable

    return LeRobotTable(path, robot.primary_names)


def _open_bag(path: Path, robot: Robot, metadata: LogMetadata) -> LogTable:
    from mindyn.logs.bag_table import BagTable

    return BagTable(path, robot, metadata.topic)


TEXT_FORMATS: Final = (".csv", ".txt", ".tsv")
LOG_FORMATS: Final[dict[str, Opener]] = {
    **dict.fromkeys(TEXT_FORMATS, _open_text),
    **dict.fromkeys((".jsonl", ".ndjson"), _open_json),
    ".parquet": _open_parquet,
    **dict.fromkeys((".h5", ".hdf5", ".npz", ".mat"), _open_arrays),
    **dict.fromkeys((".mcap", ".db3"), _open_bag),
}


CONVERSION_HINTS: Final = {
    **dict.fromkeys((".gz", ".zip", ".zst", ".xz", ".bz2", ".7z"), "decompress it first"),
    ".bag": "this is a bag of ROS 1: convert it to a rosbag2 with rosbags-convert (package rosbags)",
    ".json": "write one JSON object per line as .jsonl: polars.read_json(...).write_ndjson(...)",
    ".npy": "write named arrays (time, positions, torques) to one .npz file with numpy.savez",
}
"""Hints on how to convert logs of unsupported formats."""


def open_table(path: FileLocation, robot: Robot, metadata: LogMetadata) -> LogTable:
    """Open a log file by its suffix; a folder is a LeRobot dataset or a rosbag2; object stores support only Parquet."""
    if isinstance(path, RemoteFile):
        return _open_remote(path)
    folder = _is_folder(path)
    if not folder and require_file(path, "log", LogError) == 0:
        raise _empty_error(path)
    suffix = path.suffix.lower()
    is_dataset = folder and (path / "meta" / "info.json").is_file()
    opener = _open_lerobot if is_dataset else _open_bag if folder else LOG_FORMATS.get(suffix)
    if opener is None:
        raise LogError(
            f"{path.name} has an unsupported format; mindyn reads {', '.join(LOG_FORMATS)}, and folders of "
            "rosbag2 and LeRobot",
            hint=CONVERSION_HINTS.get(suffix, "write it as CSV or Parquet, with pandas or polars for instance"),
            code=Code.UNSUPPORTED,
            subject=path.name,
        )
    form = "LeRobot dataset" if is_dataset else "rosbag2" if folder else f"{suffix} file"
    with raise_as_damaged(form, path.name):
        table = opener(path, robot, metadata)
    table.form = form
    return table


def _open_remote(file: RemoteFile) -> LogTable:
    if file.suffix.lower() != ".parquet":
        raise LogError(
            f"{file.name} is not Parquet, the only format that mindyn reads from an object store",
            hint="copy the file to this machine, or write the log as Parquet",
            code=Code.UNSUPPORTED,
            subject=file.name,
        )
    if file.info().size == 0:
        raise _empty_error(file)
    from mindyn.logs.parquet_table import ParquetTable

    with raise_as_damaged(".parquet file", file.name):
        return ParquetTable(file)


def _empty_error(file: FileLocation) -> LogError:
    return LogError(
        f"{file.name} is empty (0 bytes)",
        hint="did the recording or the copy fail?",
        code=Code.TOO_LITTLE_DATA,
        subject=file.name,
    )


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):  # an invalid file name; `require_file` raises an error that names it
        return False
