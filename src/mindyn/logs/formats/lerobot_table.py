"""Read a LeRobot dataset (folder of version 2 or 3) as a `LogTable`: all its episodes, one after the other.

Version 2 has a Parquet file for each episode, version 3 files with several episodes. `observation.state` is the
position and `action` the target of the position. Each episode starts at time 0.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from mindyn.foundation.errors import Code, list_names
from mindyn.foundation.safe_reading import MAX_ENTRIES, InputBudget, is_file, read_json, require_file
from mindyn.logs.formats.parquet_table import ParquetTable
from mindyn.logs.formats.tables import Chunk, LogTable
from mindyn.logs.log_errors import LogError
from mindyn.logs.servo_presets import guess_robot_servo

INFO_FILE: Final = Path("meta") / "info.json"
SUPPORTED_VERSIONS: Final = ("v2.", "v3.")


def is_lerobot_folder(path: Path) -> bool:
    """Return whether a folder is a LeRobot dataset."""
    return is_file(path / INFO_FILE)


class LeRobotTable(LogTable):
    """Columns of all episodes of a dataset; its features are arrays with a column for each motor."""

    def __init__(self, path: Path, joints: Sequence[str]) -> None:
        self.name = path.name
        info = read_json(path / INFO_FILE, "LeRobot's info.json", LogError)
        version = str(info.get("codebase_version", ""))
        if not version.startswith(SUPPORTED_VERSIONS):
            raise LogError(
                f"{path.name} is a LeRobot dataset of version {version or 'unknown'}; mindyn reads versions 2 and 3",
                hint="convert it with LeRobot's own scripts",
                code=Code.UNSUPPORTED,
                subject=path.name,
            )
        files = sorted((path / "data").glob("chunk-*/*.parquet"))
        if not files:
            raise LogError(
                f"{path.name} has no data/chunk-*/*.parquet",
                hint="was only meta/ downloaded?",
                code=Code.MISSING_FILE,
                subject=path.name,
            )
        InputBudget(path.name, 0, LogError, MAX_ENTRIES).take_keys(len(files))
        self._tables = [_open_part(file) for file in files]
        self.names: tuple[str, ...] = self._tables[0].names
        for table in self._tables:
            if absent := [name for name in self.names if name not in table.names]:
                message = (
                    f"{table.name} of {path.name} does not have the columns {list_names(absent)} of the first part"
                )
                hint = "was the dataset joined from different recordings? Copy it anew"
                raise LogError(message, hint=hint, code=Code.DISAGREEMENT, subject=table.name)
        columns = {"time": "timestamp", "position": "observation.state", "target": "action"}
        present = {signal: column for signal, column in columns.items() if column in self.names}
        named = match_motor_names(info, columns["position"], joints)
        self.metadata = {
            "columns": present,
            "units": {"time": "s"},
            "side": "joint",
            "accept": ["restarts"],
            **({} if (servo := guess_robot_servo(info.get("robot_type"))) is None else {"servo": servo}),
            **({} if named is None else {"joints": named}),
        }

    def read_chunks(self, names: Collection[str], rows: int) -> Iterator[Chunk]:
        """Yield the chunks of all files in order."""
        for table in self._tables:
            yield from table.read_chunks(names, rows)


def _open_part(file: Path) -> ParquetTable:
    """Open a part of a dataset; raise `LogError` if it is not a regular file."""
    require_file(file, "part of the LeRobot dataset", LogError)
    return ParquetTable(file)


def match_motor_names(info: Mapping[str, Any], array: str, joints: Sequence[str]) -> list[str] | None:
    """Return the names of an array's columns in `info`, with joints by the robot's names; None if they do not match."""
    features = info.get("features", {})
    feature = features.get(array, {}) if isinstance(features, Mapping) else {}
    names = feature.get("names") if isinstance(feature, Mapping) else None
    flat: object = next(iter(names.values()), []) if isinstance(names, Mapping) else names
    if not isinstance(flat, list) or not all(isinstance(name, str) for name in flat):
        return None
    meant = {_find_joint_name(name, joints) or name: None for name in flat}
    return list(meant) if set(joints) <= set(meant) and len(meant) == len(flat) else None


def _find_joint_name(name: str, joints: Sequence[str]) -> str | None:
    """Return the longest joint name, with or without its ending `_joint`, that a name contains."""
    known = [joint for joint in joints if joint.removesuffix("_joint") in name.removesuffix(".pos")]
    return max(known, key=len, default=None)
