"""The three identified value sets of Yoshida's PUMA 560, and the robot that has them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from importlib import resources
from typing import Any

import numpy as np

from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import unknown_name_error
from mindyn.foundation.notation import DRIVE_PARAMETERS, LINK_PARAMETERS
from mindyn.parameters.base_parameters import DRIVE_SYMBOLS
from mindyn.parameters.parameter import Parameter
from mindyn.robots.loading import load_robot
from mindyn.robots.parts import Link
from mindyn.robots.robot import Robot

VALUE_TABLES = ("table1", "table2", "table3")
"""Step by step; simultaneous with least squares; simultaneous with instrumental variables."""


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

    def value(label: str, number: int) -> float:
        return values.get(_LINK_SYMBOLS.get(label, "").format(number), 0.0)

    phis = [np.array([value(label, i) for label in LINK_PARAMETERS]) for i in range(1, len(robot.joints) + 1)]
    links = [Link(link.name, phi, link.shapes) for link, phi in zip(robot.links, phis, strict=True)]
    drives = []
    for i, drive in enumerate(robot.drives, 1):
        changes: dict[str, Any] = {name: value(DRIVE_SYMBOLS[name], i) for name in DRIVE_PARAMETERS}
        drives.append(replace(drive, **changes))
    return replace(robot, links=tuple(links), drives=tuple(drives))


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
