"""The three identified value sets of Yoshida's PUMA 560, and the robot that has them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from importlib import resources
from typing import Any

import numpy as np

from mindyn.algebra.values import Array
from mindyn.errors import unknown_name_error
from mindyn.notation import DRIVE_PARAMETERS
from mindyn.parameters.parameter import Parameter
from mindyn.robots.loading import load_robot
from mindyn.robots.parts import Drive, Link
from mindyn.robots.robot import Robot

VALUE_TABLES = ("table1", "table2", "table3")
"""Step by step; simultaneous with least squares; simultaneous with instrumental variables."""

_YOSHIDA_DRIVE_SYMBOLS = dict(zip(DRIVE_PARAMETERS, ("h", "b", "c", ""), strict=True))


def yoshida_values(table: str = "table1") -> dict[str, float]:
    """Return the 52 values of a table by Yoshida's names: J1z and J2z contain the rotors of motors 1 and 2."""
    if table not in VALUE_TABLES:
        raise unknown_name_error("table", table, VALUE_TABLES, "the thesis has")
    return dict(_data()["values"][table])


def yoshida_load() -> Array:
    """Return the printed parameters (10,) of the load on link 6, about the origin of its frame [section 3.2]."""
    load = _data()["load"]
    return np.array([load["mass"], *(load["mass"] * x for x in load["centre"]), *load["tensor"]])


def _data() -> dict[str, Any]:
    path = resources.files("mindyn.robots") / "data" / "puma560_yoshida_values.json"
    return dict(json.loads(path.read_text(encoding="utf-8")))


def yoshida_puma(table: str = "table1") -> Robot:
    """Load the robot `puma560_yoshida` with the identified values of a table.

    Parameters
    ----------
    table : {"table1", "table2", "table3"}
        Step by step; least squares; instrumental variables [Yoshida 1996, section 3.6].

    Returns
    -------
    Robot
        Each value is in the position of one parameter.

    Raises
    ------
    UnknownNameError
        If there is no such table.
    """
    robot, values = load_robot("puma560_yoshida"), yoshida_values(table)
    links = [Link(link.name, _phi(i + 1, values), link.shapes) for i, link in enumerate(robot.links)]
    drives = [_drive(i + 1, drive, values) for i, drive in enumerate(robot.drives)]
    return replace(robot, links=tuple(links), drives=tuple(drives))


def _phi(i: int, values: dict[str, float]) -> Array:
    """Return m, mcx, mcy, mcz, Ixx, Ixy, Iyy, Ixz, Iyz, Izz with the base values in place, all else zero."""
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
"""Yoshida's symbols of the parameters in the structural set, by their labels."""


def yoshida_symbols(parameters: Sequence[Parameter]) -> dict[str, int]:
    """Return the indices of Yoshida's parameters in the structural set with drives, by his names."""
    indices = {}
    for k, parameter in enumerate(parameters):
        if parameter.label in _LINK_SYMBOLS:
            indices[_LINK_SYMBOLS[parameter.label].format(parameter.link_or_joint[-1])] = k
    return indices
