"""`read_sets`: a folder of recorded logs whose `splits.json` names sets, models, columns and rows.

A set is a folder of the same name beside `splits.json`. Its entry has

    model       the robot's file in that folder; joints of it that `joints` does not list are locked at zero
    joints      names in the order of the columns
    rate_hz     rows are uniform at this rate
    position, velocity (or null), torque
                where its columns stand ("columns": names of a table; "array": one of an .npz; "struct" and "field" of a
                .mat file), "scale" to rad or m, "to_joint" and "offset": q_joint = to_joint @ (raw * scale) + offset,
                tau_joint = to_joint @ raw
    splits      name -> {"train": [{"file", "rows"}], "held_out": [{"file", "rows", "score_rows"}]}; a file is a name,
                or a table with one for each signal; rows are half open, from 0
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from mindyn.algebra.values import Array
from mindyn.errors import InputError
from mindyn.logs.log import Log
from mindyn.logs.reading import read_log
from mindyn.logs.units import RAD_PER_DEGREE
from mindyn.reading import read_json
from mindyn.robots.loading import load_robot
from mindyn.robots.robot import Robot

SPLITS_FILE: Final = "splits.json"
MATRIX_TOLERANCE: Final = 1e-9
"""Relative: matrices that differ by less are one and the same, written with other digits."""


@dataclass(frozen=True, slots=True, eq=False)
class HeldOut:
    """A log that no fit sees, and the rows of it that are scored."""

    log: Log
    rows: tuple[int, int]


@dataclass(frozen=True, slots=True, eq=False)
class Split:
    """Training logs and held-out rows of one robot."""

    name: str
    robot: Robot
    training: tuple[Log, ...]
    held_out: tuple[HeldOut, ...]


def read_sets(
    folder: Path, names: Sequence[str] | None = None, models: Mapping[str, Path] | None = None
) -> list[Split]:
    """The splits of all sets, or of those named.

    models  for a set, another robot file, such as one that states springs or drives that its own cannot
    """
    sets = _read_entries(folder)
    for name in (*(names or ()), *(models or {})):
        if name not in sets:
            raise InputError(f"{folder / SPLITS_FILE} has no set {name!r}", hint=f"it has: {', '.join(sets)}")
    return [
        split
        for name, entry in sets.items()
        if not names or name in names
        for split in _build_splits(folder / name, name, entry, (models or {}).get(name))
    ]


def _read_entries(folder: Path) -> dict[str, dict[str, Any]]:
    path = folder / SPLITS_FILE
    hint = "it names sets, models, columns and rows: `mindyn.comparison.log_sets` tells how"
    content = read_json(path, "list of sets", InputError, hint)
    sets = content.get("sets")
    if not isinstance(sets, dict) or not all(isinstance(entry, dict) for entry in sets.values()) or not sets:
        raise InputError(f'{path} has no table "sets" of sets')
    return sets


def _build_splits(folder: Path, name: str, entry: Mapping[str, Any], model: Path | None) -> list[Split]:
    try:
        robot = _load_robot(folder, entry, model)
        stated = _build_metadata(robot, entry)
        made = []
        for split, parts in entry["splits"].items():
            training = tuple(_read_log(folder, robot, stated, part).between(*part["rows"]) for part in parts["train"])
            held_out = tuple(
                HeldOut(_read_log(folder, robot, stated, part), (part["score_rows"][0], part["score_rows"][1]))
                for part in parts["held_out"]
            )
            made.append(Split(name if len(entry["splits"]) == 1 else f"{name}, {split}", robot, training, held_out))
    except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
        raise InputError(
            f"set {name!r} of {SPLITS_FILE} cannot be understood: {type(error).__name__} {error}",
            hint="what an entry needs is told by `mindyn.comparison.log_sets`",
        ) from error
    return made


def _load_robot(folder: Path, entry: Mapping[str, Any], model: Path | None) -> Robot:
    robot = load_robot(model or folder / str(entry["model"]).split()[0])
    others = [joint.name for joint in robot.primary_joints if joint.name not in entry["joints"]]
    return robot.lock(dict.fromkeys(others, 0.0)) if others else robot


def _build_metadata(robot: Robot, entry: Mapping[str, Any]) -> dict[str, Any]:
    """The entry in the words of a log's sidecar file."""
    signals = {s: entry[s] for s in ("position", "velocity", "torque") if entry.get(s)}
    scales = {signal: float(one.get("scale", 1.0)) for signal, one in signals.items()}
    stated: dict[str, Any] = {
        "columns": {signal: _list_columns(one) for signal, one in signals.items()},
        "joints": list(entry["joints"]),
        "units": {
            s: {j.name: _find_unit(s, scale, j.kind) for j in robot.primary_joints} for s, scale in scales.items()
        },
        "rate_hz": float(entry["rate_hz"]),
        **_find_gears(signals),
    }
    offset = np.asarray(entry["position"].get("offset", 0.0), dtype=float)
    if offset.any():
        stated["position_offset"] = (offset / scales["position"]).tolist()
    if all(isinstance(one, list) for one in stated["columns"].values()):
        del stated["joints"]  # names of columns stand in the robot's order already
    return stated


def _find_unit(signal: str, scale: float, kind: str) -> str:
    slides = kind == "prismatic"
    if signal == "torque":
        return "N" if slides else "N m"
    known = {1.0: "m"} if slides else {1.0: "rad", RAD_PER_DEGREE: "deg"}
    unit = next((unit for value, unit in known.items() if abs(scale - value) <= MATRIX_TOLERANCE * value), None)
    if unit is None:
        raise InputError(f"{SPLITS_FILE}: scale {scale} of {signal} leads to no unit of a {kind} joint")
    return unit if signal == "position" else f"{unit}/s"


def _list_columns(one: Mapping[str, Any]) -> str | list[str]:
    if "columns" in one:
        return list(one["columns"])
    return str(one["array"]) if "array" in one else f"{one['struct']}.{one['field']}"


def _find_gears(signals: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Gears G and sides such that q_joint = G^-1 q_motor or q, and tau_joint = G^T tau_motor or tau."""
    matrices = {signal: np.asarray(one["to_joint"], dtype=float) for signal, one in signals.items()}
    G = matrices["torque"].T
    identity = np.eye(len(G))
    if _are_equal(G, identity) and all(_are_equal(A, identity) for A in matrices.values()):
        return {"side": "joint"}
    back = np.linalg.inv(G)
    sides = {signal: "joint" if _are_equal(A, identity) else "motor" for signal, A in matrices.items()}
    for signal, A in matrices.items():
        if sides[signal] == "motor" and not _are_equal(A, G.T if signal == "torque" else back):
            raise InputError(
                f"{SPLITS_FILE}: to_joint of {signal} is neither one nor that of the gears which the torque has"
            )
    return {"side": sides, "gears": G.tolist()}


def _are_equal(A: Array, B: Array) -> bool:
    return A.shape == B.shape and bool(np.abs(A - B).max() <= MATRIX_TOLERANCE * max(1.0, float(np.abs(B).max())))


def _read_log(folder: Path, robot: Robot, stated: Mapping[str, Any], part: Mapping[str, Any]) -> Log:
    file = part["file"]
    if isinstance(file, str):
        return read_log(folder / file, robot, stated=stated)
    others = {signal: name for signal, name in file.items() if signal != "position"}
    return read_log(folder / file["position"], robot, stated={**stated, "files": others})
