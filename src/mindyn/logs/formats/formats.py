"""Formats of log files: for each suffix, a function that opens a file as a `LogTable`.

To add a format, also from a program that uses mindyn, write a function and add it to `LOG_FORMATS`:
`LOG_FORMATS[".dat"] = open_dat`. Readers are imported when a file of their format is opened.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from mindyn.foundation.errors import Code
from mindyn.foundation.safe_reading import require_file
from mindyn.logs.formats.tables import LogTable, raise_as_damaged
from mindyn.logs.locations import FileLocation, RemoteFile
from mindyn.logs.log_errors import LogError
from mindyn.logs.metadata import LogMetadata
from mindyn.robots.robot import Robot

Opener = Callable[[Any, Robot, LogMetadata], LogTable]
"""Function of a path (a `RemoteFile` for Parquet in an object store), the robot and the metadata."""


def _open_text(path: Path, robot: Robot, metadata: LogMetadata) -> LogTable:  # noqa: ARG001 - one signature for all formats
    from mindyn.logs.formats.text_table import TextTable

    return TextTable(path, metadata.separator, metadata.decimal, metadata.skip_rows)


def _open_parquet(path: FileLocation, robot: Robot, metadata: LogMetadata) -> LogTable:  # noqa: ARG001
    from mindyn.logs.formats.parquet_table import ParquetTable

    return ParquetTable(path)


def _open_json(path: Path, robot: Robot, metadata: LogMetadata) -> LogTable:  # noqa: ARG001
    from mindyn.logs.formats.json_table import JsonLinesTable

    return JsonLinesTable(path)


def _open_arrays(path: Path, robot: Robot, metadata: LogMetadata) -> LogTable:
    from mindyn.logs.formats.array_table import open_arrays

    return open_arrays(path, len(metadata.joints or robot.primary_names))


def _open_lerobot(path: Path, robot: Robot, metadata: LogMetadata) -> LogTable:  # noqa: ARG001
    from mindyn.logs.formats.lerobot_table import LeRobotTable

    return LeRobotTable(path, robot.primary_names)


def _open_sage(path: Path, robot: Robot, metadata: LogMetadata) -> LogTable:  # noqa: ARG001
    from mindyn.logs.formats.sage_table import SageTable

    return SageTable(path)


def _open_bag(path: Path, robot: Robot, metadata: LogMetadata) -> LogTable:
    from mindyn.logs.formats.bag_table import BagTable

    return BagTable(path, robot, metadata.topic)


LOG_FORMATS: Final[dict[str, Opener]] = {
    **dict.fromkeys((".csv", ".txt", ".tsv"), _open_text),
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
    """Open a log file by its suffix; a folder is a LeRobot dataset, a motion of SAGE or a rosbag2.

    Object stores support only Parquet.
    """
    suffix, form, opener = path.suffix.lower(), f"{path.suffix.lower()} file", LOG_FORMATS.get(path.suffix.lower())
    if isinstance(path, RemoteFile):
        if suffix != ".parquet":
            raise LogError(
                f"{path.name} is not Parquet, the only format that mindyn reads from an object store",
                hint="copy the file to this machine, or write the log as Parquet",
                code=Code.UNSUPPORTED,
                subject=path.name,
            )
        size = path.info().size
    elif _is_folder(path):
        size = 1
        if (path / "meta" / "info.json").is_file():
            form, opener = "LeRobot dataset", _open_lerobot
        elif (path / "state_motor.csv").is_file():
            form, opener = "motion folder of SAGE", _open_sage
        else:
            form, opener = "rosbag2", _open_bag
    else:
        size = require_file(path, "log", LogError)
    if size == 0:
        message, hint = f"{path.name} is empty (0 bytes)", "did the recording or the copy fail?"
        raise LogError(message, hint=hint, code=Code.TOO_LITTLE_DATA, subject=path.name)
    if opener is None:
        raise LogError(
            f"{path.name} has an unsupported format; mindyn reads {', '.join(LOG_FORMATS)}, and folders of "
            "rosbag2, LeRobot and SAGE",
            hint=CONVERSION_HINTS.get(suffix, "write it as CSV or Parquet, with pandas or polars for instance"),
            code=Code.UNSUPPORTED,
            subject=path.name,
        )
    with raise_as_damaged(form, path.name):
        table = opener(path, robot, metadata)
    table.form = form
    return table


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):  # an invalid file name; `require_file` raises an error that names it
        return False
