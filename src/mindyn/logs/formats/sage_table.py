"""Read a motion folder of SAGE (Sim2Real Actuator Gap Estimator) as a `LogTable`.

`joint_list.txt` names the joints, `state_motor.csv` has lists of positions, velocities and torques, `control.csv` lists
of commanded positions at other times: a command is held until the next one. Stamps are in us, or in s in simulations.
`event.csv` may bound the motion by MOTION_START and DISABLE.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray
from polars.exceptions import PolarsError

from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code
from mindyn.foundation.safe_reading import require_file
from mindyn.logs.formats.tables import Chunk, LogTable, split_rows, unreadable_error
from mindyn.logs.log_errors import LogError

STATE_FILE: Final = "state_motor.csv"
JOINTS_FILE: Final = "joint_list.txt"
_CONTROL_FILE: Final = "control.csv"
_EVENT_FILE: Final = "event.csv"
_LARGEST_SECONDS: Final = 1e6
"""Stamps above this are in us."""
_SIGNALS: Final = {"position": "positions", "velocity": "velocities", "torque": "torques"}


def is_sage_folder(path: Path) -> bool:
    """Return whether a folder is a motion of SAGE."""
    return all((path / name).is_file() for name in (STATE_FILE, JOINTS_FILE))


class SageTable(LogTable):
    """Arrays of a motion folder, with the command that acts at each state as `target`."""

    def __init__(self, path: Path) -> None:
        self.name = path.name
        joints = [line.strip().split("/")[-1] for line in (path / JOINTS_FILE).read_text().splitlines() if line.strip()]
        state = _read_lists(path / STATE_FILE, tuple(_SIGNALS.values()), len(joints))
        stamps = state.pop("timestamp")
        if (path / _CONTROL_FILE).is_file():
            control = _read_lists(path / _CONTROL_FILE, ("positions",), len(joints))
            place = np.searchsorted(control["timestamp"], stamps, side="right") - 1
            state["target"] = control["positions"][np.maximum(place, 0)]
        scale = 1e-6 if len(stamps) and np.abs(stamps).max() > _LARGEST_SECONDS else 1.0
        inside = _rows_of_motion(path / _EVENT_FILE, stamps)
        self._arrays = {"timestamp": (stamps - stamps[0])[inside] * scale, **{k: v[inside] for k, v in state.items()}}
        self.names: tuple[str, ...] = tuple(self._arrays)
        columns = {"time": "timestamp", "position": "positions", "target": "target"}
        self.metadata = {
            "columns": {signal: column for signal, column in columns.items() if column in self.names},
            "units": {"time": "s", "position": "rad"},
            "side": "joint",
            "joints": joints,
        }

    def read_chunks(self, names: Collection[str], rows: int) -> Iterator[Chunk]:
        """Yield slices of the arrays."""
        yield from split_rows({name: self._arrays[name] for name in names}, rows)


def _read_lists(file: Path, names: Sequence[str], count: int) -> dict[str, NDArray[Any]]:
    """Return the stamps (N,) of a file, and its columns of lists (N, count) that are present."""
    require_file(file, "part of the motion folder", LogError)
    try:
        frame = pl.read_csv(file, infer_schema=False)
        stamps = frame["timestamp"].cast(pl.Float64).to_numpy()
        lists = {name: frame[name].str.json_decode(pl.List(pl.Float64)) for name in names if name in frame.columns}
    except PolarsError as error:
        raise unreadable_error(file.name, "a motion of SAGE", str(error).splitlines()[0]) from None
    arrays: dict[str, NDArray[Any]] = {"timestamp": stamps}
    for name, column in lists.items():
        if not len(column) or (column.list.len() != count).any() or column.null_count():
            message = f"column {name!r} of {file.name} does not hold {count} values in every row, one for each joint"
            raise LogError(message, hint=f"{JOINTS_FILE} names them", code=Code.WRONG_SHAPE, subject=name)
        arrays[name] = np.array(column.to_list(), dtype=np.float64)
    return arrays


def _rows_of_motion(file: Path, stamps: Array) -> NDArray[np.bool_]:
    """Return the rows (N,) between MOTION_START and DISABLE; all rows if these events are not recorded."""
    inside = np.ones(len(stamps), dtype=bool)
    if not file.is_file():
        return inside
    try:
        frame = pl.read_csv(file, infer_schema=False)
        times = dict(zip(frame["event"], frame["timestamp"].cast(pl.Float64), strict=True))
    except PolarsError as error:
        raise unreadable_error(file.name, "events of SAGE", str(error).splitlines()[0]) from None
    first, last = times.get("MOTION_START", -np.inf), times.get("DISABLE", np.inf)
    within = (stamps >= first) & (stamps <= last)
    return within if within.any() else inside
