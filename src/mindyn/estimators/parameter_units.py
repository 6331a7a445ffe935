"""Units of base, drive and friction parameters."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from mindyn.notation import LINK_PARAMETER_UNITS, LINK_PARAMETERS
from mindyn.parameters.base import BaseParameters
from mindyn.robots.robot import Robot

TORQUE_UNITS: Final[Mapping[str, tuple[str, str]]] = {
    "Im": ("kg m^2", "kg"),
    "fv": ("N m s", "N s/m"),
    "fc": ("N m", "N"),
    "fo": ("N m", "N"),
}
"""Of drive parameters, by the motion that they belong to: a rotation, a translation."""


def parameter_units(base: BaseParameters, names: tuple[str, ...]) -> tuple[str, ...]:
    """Of each parameter that of the standard one that carries it; empty where none does, as of friction shapes."""
    labels = list(names)
    if base.survivors is not None:
        labels[: base.count] = [base.labels[k] for k in base.survivors]
    return tuple(_unit(base, label) for label in labels)


def _unit(base: BaseParameters, label: str) -> str:
    found = re.fullmatch(r"([A-Za-z]+?)(\d+)", label)
    if found is None:
        return ""
    if found[1] in LINK_PARAMETERS:
        return LINK_PARAMETER_UNITS[LINK_PARAMETERS.index(found[1])]
    kind, joint = found[1].removesuffix("j"), int(found[2]) - 1
    if kind not in TORQUE_UNITS or joint >= base.robot.joint_count:
        return ""
    slides = base.robot.joints[joint].kind == "prismatic" and not _of_rotation(base.robot, joint, found[1])
    return TORQUE_UNITS[kind][slides]


def _of_rotation(robot: Robot, joint: int, kind: str) -> bool:
    """Whether a drive parameter belongs to a motor that turns: one with a gear, its rotor or friction at its side."""
    geared = [one for one in robot.drives if one.joint == robot.joint_names[joint] and one.ratio != 1]
    return any(kind == "Im" or (one.side == "motor" and not kind.endswith("j")) for one in geared)
