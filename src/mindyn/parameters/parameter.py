"""`Parameter`: what one dynamic parameter is; of the standard, drive and extra ones, and of base sets made of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np

from mindyn.notation import DRIVE_PARAMETERS, LINK_PARAMETER_UNITS, LINK_PARAMETERS
from mindyn.parameters.base import BaseParameters
from mindyn.parameters.labels import DRIVE_SYMBOLS
from mindyn.robots.friction_laws import FRICTION_LAWS, LOAD_SHAPES
from mindyn.robots.parts import Drive
from mindyn.robots.robot import Robot

Kind = Literal["link", "rotor", "viscous", "coulomb", "offset", "friction", "joint_side", "extra"]
FRICTION_KINDS: Final[tuple[Kind, ...]] = ("viscous", "coulomb", "friction", "joint_side")
"""Kinds of parameters that take power from the motion."""
_DRIVE_KINDS: Final[Mapping[str, tuple[Kind, tuple[str, str]]]] = {
    "rotor_inertia": ("rotor", ("kg m^2", "kg")),
    "viscous": ("viscous", FRICTION_LAWS["speed"].unit),
    "coulomb": ("coulomb", FRICTION_LAWS["direction"].unit),
    "offset": ("offset", ("N m", "N")),
}
"""Kind and unit of a drive's parameters; the unit by the motion that they belong to: turning, sliding."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of an estimate, or behind it.

    name           unique: symbol and joint number, `Izz3`; of a base set with R where it has taken others up, `Izz3R`
    kind           link; rotor, viscous, coulomb, offset of a drive; friction: a further shape; joint_side: friction of
                   a joint's own motion beside its motor's; extra: the coefficient of an extra torque
    link_or_joint  the name of the link, or of the joint that the drive, friction or torque belongs to
    unit           empty where a parameter has none of the usual ones
    label          symbol without a number: `Izz`, `fc`, `f_root`, `fvj`; of an extra torque its name
    """

    name: str
    kind: Kind
    link_or_joint: str
    unit: str
    label: str

    @property
    def identity(self) -> tuple[Kind, str, str]:
        """What tells it from the others, whatever it is called: kind, link or joint, label."""
        return self.kind, self.link_or_joint, self.label

    @property
    def is_friction(self) -> bool:
        """Whether it is friction."""
        return self.kind in FRICTION_KINDS

    @property
    def depends_on_direction(self) -> bool:
        """Whether its torque depends on the direction of the motion, not on position and speed alone."""
        return self.kind in ("coulomb", "friction") or (self.kind, self.label) == ("joint_side", "fcj")

    @property
    def load_shape(self) -> str:
        """Of friction that depends on the load, which of `LOAD_SHAPES` it is; else empty."""
        shapes = [shape for shape in LOAD_SHAPES if (self.kind, self.label) == ("friction", friction_label(shape))]
        return shapes[0] if shapes else ""

    @property
    def family(self) -> str:
        """Parameters of one family have comparable sizes: masses and first moments, inertias, one friction, ..."""
        if self.kind == "link":
            return "inertia" if LINK_PARAMETERS.index(self.label) > 3 else "mass"
        return "inertia" if self.kind == "rotor" else self.label


def standard_parameters(robot: Robot, *, drives: bool) -> tuple[Parameter, ...]:
    """Every parameter in the order of phi and, with drives, drive parameters and coefficients of extra torques."""
    made = [
        Parameter(f"{symbol}{i}", "link", link.name, unit, symbol)
        for i, link in enumerate(robot.links, 1)
        for symbol, unit in zip(LINK_PARAMETERS, LINK_PARAMETER_UNITS, strict=True)
    ]
    if drives:
        made += [_drive_parameter(robot, drive, name) for drive in robot.drives for name in DRIVE_PARAMETERS]
        made += [Parameter(one.name, "extra", one.joint, "", one.name) for one in robot.extras]
    return tuple(made)


def list_base_parameters(base: BaseParameters) -> tuple[Parameter, ...]:
    """Every parameter of a base set: what the standard one is that carries it.

    Where the form has none that do, a combination is a link's as soon as a link takes part in it.
    """
    standard = standard_parameters(base.robot, drives=base.drives)
    if base.survivors is not None:
        carriers = [standard[k] for k in base.survivors]
        return tuple(replace(one, name=name) for one, name in zip(carriers, base.names, strict=True))
    behind = [[standard[k] for k in np.flatnonzero(row)] for row in base.matrix]
    return tuple(replace(_carrier(one), name=name) for one, name in zip(behind, base.names, strict=True))


def _carrier(behind: Sequence[Parameter]) -> Parameter:
    """Of a combination, the link parameter of the highest moment: the others count times a length or its square."""
    links = [one for one in behind if one.kind == "link"]
    return max(links, key=lambda one: LINK_PARAMETERS.index(one.label)) if links else behind[0]


def friction_label(shape: str) -> str:
    """The label of the coefficient of a further friction shape."""
    return f"f_{shape}"


def friction_parameter(robot: Robot, joint: str, shape: str) -> Parameter:
    """The coefficient of a further friction shape of a joint's drive."""
    label, index = friction_label(shape), robot.joint_index(joint)
    unit = FRICTION_LAWS[shape].unit[robot.joints[index].kind == "prismatic"]
    return Parameter(f"{label}{index + 1}", "friction", joint, unit, label)


def joint_side_parameters(robot: Robot, joint: str) -> tuple[Parameter, Parameter]:
    """Viscous and Coulomb friction of a joint's own motion."""
    number = robot.joint_index(joint) + 1
    slides = robot.joints[number - 1].kind == "prismatic"
    units = _DRIVE_KINDS["viscous"][1][slides], _DRIVE_KINDS["coulomb"][1][slides]
    return (
        Parameter(f"fvj{number}", "joint_side", joint, units[0], "fvj"),
        Parameter(f"fcj{number}", "joint_side", joint, units[1], "fcj"),
    )


def _drive_parameter(robot: Robot, drive: Drive, name: str) -> Parameter:
    (kind, units), symbol = _DRIVE_KINDS[name], DRIVE_SYMBOLS[name]
    index = robot.joint_index(drive.joint)
    # A motor with a gear turns, whatever its joint does: its rotor does, and its friction where that is at its side.
    turns = drive.ratio != 1 and (kind == "rotor" or drive.side == "motor")
    slides = robot.joints[index].kind == "prismatic" and not turns
    return Parameter(f"{symbol}{index + 1}", kind, drive.joint, units[slides], symbol)
