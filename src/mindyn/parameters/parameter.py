"""`Parameter`: description of one dynamic parameter: of a link, a drive, an extra torque or a base set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np

from mindyn.foundation.notation import DRIVE_PARAMETERS, LINK_PARAMETER_UNITS, LINK_PARAMETERS
from mindyn.parameters.base_parameters import DRIVE_SYMBOLS, BaseParameters
from mindyn.robots.friction_laws import FRICTION_LAWS, LOAD_SHAPES, FrictionLaw
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
"""Kind and units of a drive's parameters; the units are for revolute and for prismatic motion."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """Description of a parameter of an estimate.

    Attributes
    ----------
    name : str
        Unique symbol and joint number, `Izz3`; in a base set with R if others are regrouped with it, `Izz3R`.
    kind : str
        "link"; "rotor", "viscous", "coulomb" or "offset" of a drive; "friction": a further friction shape;
        "joint_side": friction of a joint's own motion in addition to its motor's; "extra": the coefficient of an extra
        torque.
    link_or_joint : str
        Name of the link, or of the joint of the drive, friction or torque.
    unit : str
        Empty if the parameter has no usual unit.
    label : str
        Symbol without a number: `Izz`, `fc`, `f_root`, `fvj`; for an extra torque its name.
    """

    name: str
    kind: Kind
    link_or_joint: str
    unit: str
    label: str

    @property
    def identity(self) -> tuple[Kind, str, str]:
        """Kind, link or joint, and label: they identify the parameter independently of its name."""
        return self.kind, self.link_or_joint, self.label

    @property
    def is_friction(self) -> bool:
        """Whether the parameter is friction."""
        return self.kind in FRICTION_KINDS

    @property
    def depends_on_direction(self) -> bool:
        """Whether its torque depends on the direction of motion in addition to position and speed."""
        return self.kind in ("coulomb", "friction") or (self.kind, self.label) == ("joint_side", "fcj")

    @property
    def load_shape(self) -> str:
        """Which of `LOAD_SHAPES` a load-dependent friction is; empty for other parameters."""
        described = self.kind, self.label
        return next((shape for shape in LOAD_SHAPES if described == ("friction", friction_label(shape))), "")

    @property
    def family(self) -> str:
        """Parameters of one family have comparable sizes: masses and first moments, inertias, one friction, ..."""
        if self.kind == "link":
            return "inertia" if LINK_PARAMETERS.index(self.label) > 3 else "mass"
        return "inertia" if self.kind == "rotor" else self.label


def standard_parameters(robot: Robot, *, with_drives: bool) -> tuple[Parameter, ...]:
    """Return every parameter in the order of phi and, with `with_drives`, of drive parameters and coefficients of extra
    torques.
    """
    parameters = [
        Parameter(f"{symbol}{i}", "link", link.name, unit, symbol)
        for i, link in enumerate(robot.links, 1)
        for symbol, unit in zip(LINK_PARAMETERS, LINK_PARAMETER_UNITS, strict=True)
    ]
    if with_drives:
        parameters += [_drive_parameter(robot, drive, name) for drive in robot.drives for name in DRIVE_PARAMETERS]
        parameters += [Parameter(extra.name, "extra", extra.joint, "", extra.name) for extra in robot.extras]
    return tuple(parameters)


def list_base_parameters(base: BaseParameters) -> tuple[Parameter, ...]:
    """Return every parameter of a base set, described by the standard parameter that carries it.

    If the form has no survivors, a combination that contains a link parameter is described as a parameter of a link.
    """
    standard = standard_parameters(base.robot, with_drives=base.with_drives)
    if base.survivors is not None:
        carriers = [standard[k] for k in base.survivors]
        return tuple(replace(parameter, name=name) for parameter, name in zip(carriers, base.names, strict=True))
    behind = [[standard[k] for k in np.flatnonzero(row)] for row in base.matrix]
    return tuple(replace(_carrier(combined), name=name) for combined, name in zip(behind, base.names, strict=True))


def _carrier(behind: Sequence[Parameter]) -> Parameter:
    """Return the link parameter of the highest moment in a combination, because the other parameters are multiplied by
    lengths.
    """
    links = [parameter for parameter in behind if parameter.kind == "link"]
    return max(links, key=lambda parameter: LINK_PARAMETERS.index(parameter.label)) if links else behind[0]


def friction_label(shape: str) -> str:
    """Return the label of the coefficient of a further friction shape."""
    return f"f_{shape}"


def friction_parameter(robot: Robot, joint: str, law: FrictionLaw) -> Parameter:
    """Return the coefficient of a further friction law of a joint's drive."""
    label, index = friction_label(law.name), robot.joint_index(joint)
    unit = law.unit[robot.joints[index].kind == "prismatic"]
    return Parameter(f"{label}{index + 1}", "friction", joint, unit, label)


def joint_side_parameters(robot: Robot, joint: str) -> tuple[Parameter, Parameter]:
    """Return viscous and Coulomb friction of a joint's own motion."""
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
    # A geared motor rotates even if its joint slides; so do its rotor and its friction on the motor side.
    turns = drive.ratio != 1 and (kind == "rotor" or drive.side == "motor")
    slides = robot.joints[index].kind == "prismatic" and not turns
    return Parameter(f"{symbol}{index + 1}", kind, drive.joint, units[slides], symbol)
