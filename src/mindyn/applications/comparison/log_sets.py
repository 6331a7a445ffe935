"""`read_sets`: a folder of recorded logs whose `splits.json` names sets, models, columns and rows.

A set is a folder of the same name next to `splits.json`. Its entry has

    model       robot file in that folder; its joints that are not in `joints` are locked at zero
    joints      names in the order of the columns
    rate_hz     rows are uniform at this rate; or `time`: column of time stamps in s
    position, velocity (or null), torque
                location of the columns ("columns": names of a table, or a pattern; "array": one of an .npz; "struct"
                and "field" of a .mat file), "scale" to rad or m (default 1), "to_joint" (default: the identity) and
                "offset": q_joint = to_joint @ (raw * scale) + offset, tau_joint = to_joint @ raw
    splits      name -> {"train": [{"file", "rows"}], "held_out": [{"file", "rows", "score_rows"}]}; a file is a name,
                or a table with one for each signal; rows are half open, from 0
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from mindyn.foundation.algebra.values import Array, ShortRepr
from mindyn.foundation.errors import Code, InputError, require_choice
from mindyn.foundation.safe_reading import read_json
from mindyn.logs.log import Log
from mindyn.logs.read_log import read_log
from mindyn.logs.units import RAD_PER_DEGREE
from mindyn.robots.loading import load_robot
from mindyn.robots.robot import Robot

SPLITS_FILE: Final = "splits.json"
MATRIX_TOLERANCE: Final = 1e-9
"""Relative difference below which matrices are equal."""


@dataclass(frozen=True, slots=True, eq=False)
class HeldOut:
    """Held-out log, and its rows that are scored."""

    log: Log
    rows: tuple[int, int]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Split(ShortRepr):
    """Training logs and held-out rows of one robot."""

    name: str
    robot: Robot
    training: tuple[Log, ...]
    held_out: tuple[HeldOut, ...]


def read_sets(
    folder: Path, names: Sequence[str] | None = None, models: Mapping[str, Path] | None = None
) -> list[Split]:
    """Read the splits of recorded log sets.

    Parameters
    ----------
    folder : Path
        Folder with `splits.json`.
    names : sequence of str, optional
        Sets to read; all by default.
    models : Mapping of str to Path, optional
        Robot files that replace those of sets, for example with springs or drives.

    Returns
    -------
    list of Split
        Training and held-out logs of every set.

    Raises
    ------
    InputError
        If a set does not exist or its entry is not valid.
    """
    sets = _read_entries(folder)
    for name in (*(names or ()), *(models or {})):
        require_choice(name, sets, f"a set of {folder / SPLITS_FILE}")
    return [
        split
        for name, entry in sets.items()
        if not names or name in names
        for split in _build_splits(folder / name, name, entry, (models or {}).get(name))
    ]


def _read_entries(folder: Path) -> dict[str, dict[str, Any]]:
    path = folder / SPLITS_FILE
    hint = "it names sets, models, columns and rows: see the documentation of `mindyn.applications.comparison.log_sets`"
    content = read_json(path, "list of sets", InputError, hint)
    sets = content.get("sets")
    if not isinstance(sets, dict) or not all(isinstance(entry, dict) for entry in sets.values()) or not sets:
        raise InputError(f'{path} has no table "sets" of sets', code=Code.WRONG_FORMAT, subject=path)
    return sets


def _build_splits(folder: Path, name: str, entry: Mapping[str, Any], model: Path | None) -> list[Split]:
    try:
        robot = _load_robot(folder, entry, model)
        metadata = _build_metadata(robot, entry)
        splits = []
        for split, parts in entry["splits"].items():
            training = tuple(_read_log(folder, robot, metadata, part).between(*part["rows"]) for part in parts["train"])
            held_out = tuple(
                HeldOut(_read_log(folder, robot, metadata, part), (part["score_rows"][0], part["score_rows"][1]))
                for part in parts["held_out"]
            )
            splits.append(Split(name if len(entry["splits"]) == 1 else f"{name}, {split}", robot, training, held_out))
    except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
        raise InputError(
            f"set {name!r} of {SPLITS_FILE} is not valid: {type(error).__name__} {error}",
            hint="see the documentation of `mindyn.applications.comparison.log_sets` for the format of an entry",
            code=Code.WRONG_FORMAT,
            subject=name,
        ) from error
    return splits


def _load_robot(folder: Path, entry: Mapping[str, Any], model: Path | None) -> Robot:
    robot = load_robot(model or folder / str(entry["model"]).split()[0])
    others = [joint.name for joint in robot.primary_joints if joint.name not in entry["joints"]]
    return robot.lock(dict.fromkeys(others, 0.0)) if others else robot


def _build_metadata(robot: Robot, entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entry as metadata of a log."""
    signals = {s: entry[s] for s in ("position", "velocity", "torque") if entry.get(s)}
    scales = {signal: float(columns.get("scale", 1.0)) for signal, columns in signals.items()}
    metadata: dict[str, Any] = {
        "columns": {signal: _list_columns(columns) for signal, columns in signals.items()},
        "joints": list(entry["joints"]),
        "units": {
            s: {j.name: _find_unit(s, scale, j.kind) for j in robot.primary_joints} for s, scale in scales.items()
        },
        **_build_gear_metadata(signals, len(entry["joints"])),
    }
    if "time" in entry:
        metadata["columns"]["time"], metadata["units"]["time"] = str(entry["time"]), "s"
    else:
        metadata["rate_hz"] = float(entry["rate_hz"])
    offset = np.asarray(entry["position"].get("offset", 0.0), dtype=float)
    if offset.any():
        metadata["position_offset"] = (offset / scales["position"]).tolist()
    if all("columns" in columns for columns in signals.values()):
        del metadata["joints"]  # names of columns are in the order of the robot already
    return metadata


def _find_unit(signal: str, scale: float, kind: str) -> str:
    slides = kind == "prismatic"
    if signal == "torque":
        return "N" if slides else "N m"
    known = {1.0: "m"} if slides else {1.0: "rad", RAD_PER_DEGREE: "deg"}
    unit = next((unit for value, unit in known.items() if abs(scale - value) <= MATRIX_TOLERANCE * value), None)
    if unit is None:
        raise InputError(
            f"{SPLITS_FILE}: scale {scale} of {signal} has no unit for a {kind} joint",
            code=Code.WRONG_UNIT,
            subject=signal,
        )
    return unit if signal == "position" else f"{unit}/s"


def _list_columns(signal: Mapping[str, Any]) -> str | list[str]:
    if "columns" in signal:
        columns: str | list[str] = signal["columns"]
        return columns if isinstance(columns, str) else list(columns)
    return str(signal["array"]) if "array" in signal else f"{signal['struct']}.{signal['field']}"


def _build_gear_metadata(columns_by_signal: Mapping[str, Mapping[str, Any]], joint_count: int) -> dict[str, Any]:
    """Return gears G and sides with q_joint = G^-1 q_motor or q, and tau_joint = G^T tau_motor or tau."""
    identity = np.eye(joint_count)
    matrices = {
        signal: np.asarray(columns.get("to_joint", identity), dtype=float)
        for signal, columns in columns_by_signal.items()
    }
    G = matrices["torque"].T
    if _are_equal(G, identity) and all(_are_equal(A, identity) for A in matrices.values()):
        return {"side": "joint"}
    back = np.linalg.inv(G)
    sides = {signal: "joint" if _are_equal(A, identity) else "motor" for signal, A in matrices.items()}
    for signal, A in matrices.items():
        if sides[signal] == "motor" and not _are_equal(A, G.T if signal == "torque" else back):
            raise InputError(
                f"{SPLITS_FILE}: to_joint of {signal} is neither the identity nor that of the gears of the torque",
                code=Code.DISAGREEMENT,
                subject=signal,
            )
    return {"side": sides, "gears": G.tolist()}


def _are_equal(A: Array, B: Array) -> bool:
    return A.shape == B.shape and bool(np.abs(A - B).max() <= MATRIX_TOLERANCE * max(1.0, float(np.abs(B).max())))


def _read_log(folder: Path, robot: Robot, metadata: Mapping[str, Any], part: Mapping[str, Any]) -> Log:
    file = part["file"]
    if isinstance(file, str):
        return read_log(folder / file, robot, metadata=metadata)
    others = {signal: name for signal, name in file.items() if signal != "position"}
    return read_log(folder / file["position"], robot, metadata={**metadata, "files": others})
