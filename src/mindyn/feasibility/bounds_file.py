"""`Bounds` from a TOML file: total_mass = [5, 20]; tables masses, centres and symmetric by link name."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from mindyn.errors import InputError
from mindyn.feasibility.bounds import Bounds

TABLES = ("masses", "centres", "total_mass", "symmetric")


def read_bounds(path: str | Path) -> Bounds:
    """The bounds of a file."""
    try:
        stated = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(
            f"{path} cannot be read as bounds: {error}", hint="a line of it is like: total_mass = [20.0, 30.0]"
        ) from error
    unknown = [name for name in stated if name not in TABLES]
    if unknown:
        raise InputError(f"{path} states {', '.join(unknown)}; bounds are: {', '.join(TABLES)}")
    try:
        return _bounds(stated)
    except (TypeError, ValueError, AttributeError) as error:
        raise InputError(
            f"{path} does not state bounds as numbers: {error}",
            hint="total_mass = [5, 20]; [masses] link1 = [1, 3]; [centres] link1 = [[-0.1, -0.1, 0], [0.1, 0.1, 0.3]]",
        ) from error


def _bounds(stated: dict[str, Any]) -> Bounds:
    total = stated.get("total_mass")
    return Bounds(
        {link: _range(pair) for link, pair in stated.get("masses", {}).items()},
        {link: (_corner(a), _corner(b)) for link, (a, b) in stated.get("centres", {}).items()},
        None if total is None else _range(total),
        {link: str(plane) for link, plane in stated.get("symmetric", {}).items()},
    )


def _range(values: Any) -> tuple[float, float]:
    low, high = _numbers(values)
    return low, high


def _corner(values: Any) -> tuple[float, float, float]:
    x, y, z = _numbers(values)
    return x, y, z


def _numbers(values: Any) -> list[float]:
    if not isinstance(values, list) or not all(isinstance(value, (int, float)) for value in values):
        raise TypeError(f"{values!r} is no list of numbers")
    return [float(value) for value in values]
