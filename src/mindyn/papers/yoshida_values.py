"""The three identified value sets of Yoshida's PUMA 560, and the robot that has them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from importlib import resources
from typing import Any

import numpy as np

from mindyn.algebra.values import Array
from mindyn.errors import UnknownNameError
from mindyn.notation import DRIVE_PARAMETERS
from mindyn.parameters.parameter import Parameter
from mindyn.robots.loading import load_robot
from mindyn.robots.parts import Drive, Link
from mindyn.robots.robot import Robot

VALUE_TABLES = ("table1", "table2", "table3")
"""Step by step; simultaneous with least squares; simultaneous with instrumental variables."""

_YOSHIDA_DRIVE_SYMBOLS = dict(zip(DRIVE_PARAMETERS, ("h", "b", "c", ""), strict=True))


def yoshida_values(table: str = "table1") -> dict[str, float]:
    """The 52 values of a table by Yoshida's names: J1z and J2z contain the rotors of motors 1 and 2."""
    if table not in VALUE_TABLES:
        raise UnknownNameError(f"no table {table!r} of values; there are: {', '.join(VALUE_TABLES)}")
    return dict(_data()["values"][table])


def yoshida_load() -> Array:
    """Return the printed parameters (10,) of the load on link 6, about the origin of its frame [section 3.2]."""
    load = _data()["load"]
    return np.array([load["mass"], *(load["mass"] * x for x in load["centre"]), *load["tensor"]])


def _data() -> dict[str, Any]:
    path = resources.files("mindyn.robots") / "data" / "puma560_yoshida_values.json"
    return dict(json.loads(path.read_text(encoding="utf-8")))


def yoshida_puma(table: str = "table1") -> Robot:
    """The robot `puma560_yoshida` with the values of a table, each in the place of one parameter."""
    robot, values = load_robot("puma560_yoshida"), yoshida_values(table)
    links = [Link(link.name, _phi(i + 1, values), link.shapes) for i, link in enumerate(robot.links)]
    drives = [_drive(i + 1, drive, values) for i, drive in enumerate(robot.drives)]
    return replace(robot, links=tuple(links), drives=tuple(drives))


def _phi(i: int, values: dict[str, float]) -> Array:
    """m, mcx, mcy, mcz, Ixx, Ixy, Iyy, Ixz, Iyz, Izz with the base values in place, all else zero."""
    names = ("", f"R{i}x", f"R{i}y", "", f"J{i}(x-y)", f"J{i}xy", "", f"J{i}xz", f"J{i}yz", f"J{i}z")
    return np.array([values.get(name, 0.0) for name in names])


def _drive(i: int, drive: Drive, values: dict[str, float]) -> Drive:
    rotor, viscous, coulomb, offset = (
        values.get(f"{_YOSHIDA_DRIVE_SYMBOLS[name]}{i}", 0.0) for name in DRIVE_PARAMETERS
    )
    return replace(drive, rotor_inertia=rotor, viscous=viscous, coulomb=coulomb, offset=offset)


_LINK_SYMBOLS = {
    "mcx": "R{}x", "mcy": "R{}y", "Ixx": "J{}(x-y)", "Izz": "J{}z", "Ixy": "J{}xy", "Ixz": "J{}xz", "Iyz": "J{}yz",
    "Im": "h{}", "fv": "b{}", "fc": "c{}",
}  # fmt: skip
"""Of the parameters in the structural set, by their labels there."""


def yoshida_symbols(parameters: Sequence[Parameter]) -> dict[str, int]:
    """The numbers of Yoshida's parameters in the structural set with drives, by his names."""
    found = {}
    for k, one in enumerate(parameters):
        if one.label in _LINK_SYMBOLS:
            found[_LINK_SYMBOLS[one.label].format(one.link_or_joint[-1])] = k
    return found
