"""Identified motors: gain, friction, rotor inertia and gear of motors that were measured in a robot."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import resources
from typing import Any

from mindyn.foundation.errors import Code, RobotFileError, require_choice
from mindyn.robots.parts import Drive


def identified_motors() -> dict[str, dict[str, Any]]:
    """Return the identification results of measured motors, by the name that the drives of a robot file may refer to.

    Returns
    -------
    dict of str to dict
        For each motor: its title, source, licence, the robot and the joints in which it was measured, and its
        `parameters` at the output of the gear with intervals over these joints: gain (of position servos), coulomb,
        viscous and rotor_inertia. Other specimens differ.

    Examples
    --------
    >>> "sts3215" in identified_motors()
    True
    """
    folder = resources.files("mindyn.robots") / "data" / "zoo" / "motors"
    names = sorted(entry.name.removesuffix(".json") for entry in folder.iterdir() if entry.name.endswith(".json"))
    return {name: json.loads((folder / f"{name}.json").read_text(encoding="utf-8")) for name in names}


def build_drive(table: Mapping[str, Any]) -> Drive:
    """Return the drive of a table of a robot file, with the values of its `motor` where the table has none."""
    if "motor" not in table:
        return Drive(**table)
    if table["side"] != "joint":
        raise RobotFileError(
            f"the drive of joint {table['joint']!r} has the motor {table['motor']!r}, whose friction is at the joint",
            hint='write side = "joint", or the values instead of the motor',
            code=Code.DISAGREEMENT,
            subject=table["joint"],
        )
    motors = identified_motors()
    require_choice(table["motor"], motors, f"the motor of the drive of joint {table['joint']!r}", RobotFileError)
    motor = motors[table["motor"]]
    at_output = {parameter["name"]: parameter["value"] for parameter in motor["parameters"]}
    gear = float(table.get("ratio", motor["gear"] or 1.0))
    of_motor = {
        "ratio": gear,
        "rotor_inertia": at_output["rotor_inertia"] / gear**2,
        "viscous": at_output["viscous"],
        "coulomb": at_output["coulomb"],
    }
    return Drive(**{**of_motor, **{key: value for key, value in table.items() if key != "motor"}})
