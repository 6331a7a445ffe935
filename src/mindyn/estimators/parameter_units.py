"""Units of base, drive and friction parameters."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from mindyn.notation import LINK_PARAMETER_UNITS, LINK_PARAMETERS
from mindyn.parameters.base import BaseParameters

TORQUE_UNITS: Final[Mapping[str, tuple[str, str]]] = {
    "Im": ("kg m^2", "kg"),
    "fv": ("N m s", "N s/m"),
    "fc": ("N m", "N"),
    "fo": ("N m", "N"),
}
"""Of drive parameters, by the kind of joint: revolute, prismatic."""


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
    return TORQUE_UNITS[kind][base.robot.joints[joint].kind == "prismatic"]
