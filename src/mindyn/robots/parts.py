"""The parts of a robot: `Link`, `Joint`, `Limits`, `Frame`, `Shape`, `Drive`, `Mimic`, `Loop`; validated at birth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from math import inf, isfinite
from numbers import Real
from types import MappingProxyType
from typing import Any, Literal, get_args

import numpy as np

from mindyn.algebra.inertia import Consistency, check_consistency
from mindyn.algebra.poses import IDENTITY, Pose
from mindyn.algebra.rotations import rotation_about_axis
from mindyn.algebra.values import Array, Value, frozen_array
from mindyn.errors import RobotError, require_choice
from mindyn.notation import DRIVE_PARAMETERS, LINK_PARAMETERS, PARAMETERS_PER_LINK
from mindyn.robots.expressions import parse_formula

JointKind = Literal["revolute", "prismatic"]
ShapeKind = Literal["box", "sphere", "cylinder", "capsule", "mesh"]
Side = Literal["motor", "joint"]
LoopKind = Literal["pin", "slide", "ball", "weld"]

SHAPE_DIMENSIONS = {"box": 3, "sphere": 1, "cylinder": 2, "capsule": 2, "mesh": 3}
"""box: x y z; sphere: radius; cylinder, capsule: radius, length along z; mesh: scale x y z. In m."""


def require_name(name: object, what: str) -> None:
    """Refuse a name that is not a non-empty string."""
    if not isinstance(name, str) or not name.strip():
        raise RobotError(f"{what} needs a name, got {name!r}")


def require_number(value: object, what: str, *, least: float = -inf) -> None:
    """Refuse a value that is not a finite number of at least `least`."""
    number = isinstance(value, Real) and not isinstance(value, (bool, np.bool_))
    try:
        finite = number and isfinite(float(value))  # type: ignore[arg-type]
    except OverflowError:  # an integer of very many digits
        finite = False
    if not finite or float(value) < least:  # type: ignore[arg-type]
        bound = "" if least == -inf else f" and at least {least:g}"
        shown = f"an integer of {value.bit_length()} bits" if isinstance(value, int) and not finite else repr(value)
        raise RobotError(f"{what} must be finite{bound}, got {shown}")


@dataclass(frozen=True, slots=True, eq=False)
class Shape(Value):
    """A collision shape: `kind`, its `dimensions` (see SHAPE_DIMENSIONS) and its pose in the link frame."""

    kind: ShapeKind
    dimensions: tuple[float, ...]
    pose: Pose = IDENTITY
    filename: str = ""

    def __post_init__(self) -> None:
        require_choice(self.kind, get_args(ShapeKind), "shape kind", RobotError)
        if len(self.dimensions) != SHAPE_DIMENSIONS[self.kind]:
            raise RobotError(f"a {self.kind} has {SHAPE_DIMENSIONS[self.kind]} dimensions, got {self.dimensions}")
        for value in self.dimensions:
            require_number(value, f"{self.kind} dimension", least=0.0 if self.kind != "mesh" else -inf)


@dataclass(frozen=True, slots=True, eq=False)
class Link(Value):
    """A rigid body: `phi` (10,) its standard parameters in the link frame, None when they are not known."""

    name: str
    phi: Array | None = None
    shapes: tuple[Shape, ...] = ()

    def __post_init__(self) -> None:
        require_name(self.name, "a link")
        if self.phi is None:
            return
        phi = frozen_array(self.phi, (PARAMETERS_PER_LINK,), f"parameters {LINK_PARAMETERS} of link {self.name!r}")
        if phi[0] < 0:
            raise RobotError(f"link {self.name!r} has a negative mass of {phi[0]:g} kg")
        object.__setattr__(self, "phi", phi)

    def consistency(self) -> Consistency:
        """Whether some mass distribution has these parameters."""
        return check_consistency(self.phi)


@dataclass(frozen=True, slots=True)
class Limits:
    """Joint limits in rad or m, rad/s or m/s, N m or N; None where a limit is not stated.

    continuous  the joint is stated to turn without end, so that it has no limits of position
    """

    lower: float | None = None
    upper: float | None = None
    velocity: float | None = None
    acceleration: float | None = None
    jerk: float | None = None
    effort: float | None = None
    continuous: bool = False

    def __post_init__(self) -> None:
        if self.continuous and (self.lower is not None or self.upper is not None):
            raise RobotError(f"a continuous joint has no ends, but they are stated: {self.lower} to {self.upper}")
        for name in ("lower", "upper", "velocity", "acceleration", "jerk", "effort"):
            value = getattr(self, name)
            if value is not None:
                require_number(value, f"limit {name!r}", least=-inf if name in ("lower", "upper") else 0.0)
        if self.lower is not None and self.upper is not None and self.lower > self.upper:
            raise RobotError(f"the lower limit {self.lower:g} lies above the upper limit {self.upper:g}")


@dataclass(frozen=True, slots=True, eq=False)
class Joint(Value):
    """One degree of freedom between two links.

    origin  pose of the joint frame in the parent's link frame
    axis    (3,) unit vector in the joint frame, through its origin; the motion is about or along it
    tip     pose of the child's link frame in the moved joint frame (identity in URDF, the distal frame in standard DH)
    """

    name: str
    kind: JointKind
    parent: str
    child: str
    origin: Pose = IDENTITY
    axis: Array = field(default_factory=lambda: np.array([0.0, 0.0, 1.0]))
    tip: Pose = IDENTITY
    limits: Limits = Limits()

    def __post_init__(self) -> None:
        require_name(self.name, "a joint")
        require_name(self.parent, f"the parent of joint {self.name!r}")
        require_name(self.child, f"the child of joint {self.name!r}")
        require_choice(self.kind, get_args(JointKind), f"the kind of joint {self.name!r}", RobotError)
        if self.limits.continuous and self.kind != "revolute":
            raise RobotError(f"joint {self.name!r} is {self.kind}: only a revolute joint is continuous")
        if self.parent == self.child:
            raise RobotError(f"joint {self.name!r} connects link {self.parent!r} with itself")
        axis = frozen_array(self.axis, (3,), f"the axis of joint {self.name!r}")
        length = float(np.linalg.norm(axis))
        if abs(length - 1) > 1e-9:
            raise RobotError(f"the axis of joint {self.name!r} must have unit length, got {axis.tolist()}")
        if abs(length - 1) > 1e-15:
            axis = frozen_array(axis / length, (3,), f"the axis of joint {self.name!r}")
        object.__setattr__(self, "axis", axis)

    def at(self, position: float) -> Pose:
        """Pose of the child's link frame in the parent's link frame at a joint position, rad or m."""
        turns = self.kind == "revolute"
        moved = Pose(rotation_about_axis(self.axis, position)) if turns else Pose(None, self.axis * position)
        return self.origin @ moved @ self.tip


@dataclass(frozen=True, slots=True, eq=False)
class Frame(Value):
    """A named frame fixed to a link (`tool0`, a merged fixed link): its pose in the link frame."""

    name: str
    link: str
    pose: Pose = IDENTITY

    def __post_init__(self) -> None:
        require_name(self.name, "a frame")


@dataclass(frozen=True, slots=True, eq=False)
class Drive(Value):
    """A motor with gear and friction: q_motor = ratio * q[joint] + sum of coupling[k] * q[k].

    rotor_inertia               kg m^2 (kg) at the motor; 0 when the drive has no such effect, as below
    viscous, coulomb, offset    N m s, N m, N m at `side`: of the motor's motion, or of the joint's own
    """

    joint: str
    ratio: float = 1.0
    coupling: Mapping[str, float] = field(default_factory=dict)
    rotor_inertia: float = 0.0
    viscous: float = 0.0
    coulomb: float = 0.0
    offset: float = 0.0
    side: Side = "joint"

    def __post_init__(self) -> None:
        require_name(self.joint, "the joint of a drive")
        require_choice(self.side, get_args(Side), f"the friction side of the drive of joint {self.joint!r}", RobotError)
        for name in ("ratio", *DRIVE_PARAMETERS):
            least = 0.0 if name in ("rotor_inertia", "viscous", "coulomb") else -inf
            require_number(getattr(self, name), f"{name} of the drive of joint {self.joint!r}", least=least)
        if self.ratio == 0:
            raise RobotError(f"the gear ratio of the drive of joint {self.joint!r} is zero: the motor would not turn")
        for joint, ratio in self.coupling.items():
            require_number(ratio, f"the coupling of the drive of joint {self.joint!r} to {joint!r}")
        if self.joint in self.coupling:
            raise RobotError(f"the drive of joint {self.joint!r} is coupled to its own joint; use its ratio")
        object.__setattr__(self, "coupling", MappingProxyType(dict(self.coupling)))

    def __reduce__(self) -> tuple[type[Drive], tuple[Any, ...]]:
        """Pickles as its fields; the read-only view of `coupling` cannot be pickled itself."""
        values = (getattr(self, one.name) for one in fields(self))
        return Drive, tuple(dict(v) if isinstance(v, Mapping) else v for v in values)


@dataclass(frozen=True, slots=True)
class ExtraTorque:
    """A torque that a joint takes beside the rigid chain and its drive: coefficient * formula.

    formula      of q and qd of the joint, or q1, qd2, ... of joints by number (see robots/expressions.py)
    coefficient  what identification finds; N m where the formula has no unit
    """

    name: str
    joint: str
    formula: str
    coefficient: float = 0.0

    def __post_init__(self) -> None:
        require_name(self.name, "an extra torque")
        require_name(self.joint, f"the joint of the extra torque {self.name!r}")
        require_number(self.coefficient, f"the coefficient of the extra torque {self.name!r}")
        parse_formula(self.formula)


@dataclass(frozen=True, slots=True)
class Mimic:
    """A joint that follows another: q[joint] = multiplier * q[of] + offset; rad or m (URDF's <mimic>)."""

    joint: str
    of: str
    multiplier: float = 1.0
    offset: float = 0.0

    def __post_init__(self) -> None:
        require_name(self.joint, "a joint that mimics another")
        require_name(self.of, f"the joint that {self.joint!r} mimics")
        for name in ("multiplier", "offset"):
            require_number(getattr(self, name), f"{name} of the mimic joint {self.joint!r}")
        if self.joint == self.of:
            raise RobotError(f"joint {self.joint!r} mimics itself")


@dataclass(frozen=True, slots=True, eq=False)
class Loop(Value):
    """A joint that closes a kinematic loop of two poses, one on either link.

    first, second              the links that it joins
    first_pose, second_pose    the joint in either link frame
    dependent                  joints whose motion follows from the others by this loop
    kind                       pin: origins and z axes coincide; slide: the second origin lies on the first z axis and
                               all axes are parallel; ball: origins coincide; weld: origins and all axes coincide
    """

    name: str
    first: str
    second: str
    first_pose: Pose
    second_pose: Pose
    dependent: tuple[str, ...] = ()
    kind: LoopKind = "pin"

    def __post_init__(self) -> None:
        require_name(self.name, "a loop")
        require_choice(self.kind, get_args(LoopKind), f"the kind of loop {self.name!r}", RobotError)
        if self.first == self.second:
            raise RobotError(f"loop {self.name!r} joins link {self.first!r} with itself")
