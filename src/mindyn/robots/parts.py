"""Parts of a robot: `Link`, `Joint`, `Limits`, `Frame`, `Shape`, `Drive`, `Mimic`, `Loop`; validated on creation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from math import inf, isfinite
from numbers import Real
from types import MappingProxyType
from typing import Any, Literal, get_args

import numpy as np

from mindyn.foundation.algebra.inertia import Consistency, check_consistency
from mindyn.foundation.algebra.poses import IDENTITY, Pose
from mindyn.foundation.algebra.rotations import rotation_about_axis
from mindyn.foundation.algebra.values import Array, Value, frozen_array
from mindyn.foundation.errors import Code, RobotError, require_choice
from mindyn.foundation.notation import DRIVE_PARAMETERS, LINK_PARAMETERS, PARAMETERS_PER_LINK
from mindyn.robots.expressions import parse_formula

JointKind = Literal["revolute", "prismatic"]
ShapeKind = Literal["box", "sphere", "cylinder", "capsule", "mesh"]
Side = Literal["motor", "joint"]
LoopKind = Literal["pin", "slide", "ball", "weld"]

SHAPE_DIMENSIONS = {"box": 3, "sphere": 1, "cylinder": 2, "capsule": 2, "mesh": 3}
"""Number of dimensions in m: box x, y, z; sphere radius; cylinder, capsule radius and length along z; mesh scale x,
y, z."""


def require_name(name: object, what: str) -> None:
    """Raise `RobotError` if a name is not a non-empty string."""
    if not isinstance(name, str) or not name.strip():
        raise RobotError(f"{what} needs a name, got {name!r}", code=Code.INVALID_VALUE, subject=what)


def require_finite_number(value: object, what: str, *, least: float = -inf) -> None:
    """Raise `RobotError` if a value is not a finite number of at least `least`."""
    number = isinstance(value, Real) and not isinstance(value, (bool, np.bool_))
    try:
        finite = number and isfinite(float(value))  # type: ignore[arg-type]
    except OverflowError:  # an integer of very many digits
        finite = False
    if not finite or float(value) < least:  # type: ignore[arg-type]
        bound = "" if least == -inf else f" and at least {least:g}"
        shown = f"an integer of {value.bit_length()} bits" if isinstance(value, int) and not finite else repr(value)
        code = Code.OUT_OF_RANGE if finite else Code.NOT_FINITE
        raise RobotError(f"{what} must be finite{bound}, got {shown}", code=code, subject=what)


@dataclass(frozen=True, slots=True, eq=False)
class Shape(Value):
    """Collision shape.

    Parameters
    ----------
    kind : {"box", "sphere", "cylinder", "capsule", "mesh"}
        Kind of shape.
    dimensions : tuple of float
        Dimensions in m (see `SHAPE_DIMENSIONS`); scale factors for a mesh.
    pose : Pose
        Pose in the link frame.
    filename : str
        File of a mesh.

    Raises
    ------
    RobotError
        If the number of dimensions does not match the kind, or one is negative or not finite.
    """

    kind: ShapeKind
    dimensions: tuple[float, ...]
    pose: Pose = IDENTITY
    filename: str = ""

    def __post_init__(self) -> None:
        require_choice(self.kind, get_args(ShapeKind), "shape kind", RobotError)
        if len(self.dimensions) != SHAPE_DIMENSIONS[self.kind]:
            message = f"a {self.kind} has {SHAPE_DIMENSIONS[self.kind]} dimensions, got {self.dimensions}"
            raise RobotError(message, code=Code.WRONG_SHAPE, subject=self.kind)
        for value in self.dimensions:
            require_finite_number(value, f"{self.kind} dimension", least=0.0 if self.kind != "mesh" else -inf)


@dataclass(frozen=True, slots=True, eq=False)
class Link(Value):
    """Rigid body.

    Parameters
    ----------
    name : str
        Name of the link.
    phi : array_like, shape (10,), optional
        Standard parameters in the link frame (see NOTATION.md), SI units; None if they are unknown.
    shapes : tuple of Shape
        Collision shapes.

    Raises
    ------
    RobotError
        If the mass is negative.
    """

    name: str
    phi: Array | None = None
    shapes: tuple[Shape, ...] = ()

    def __post_init__(self) -> None:
        require_name(self.name, "a link")
        if self.phi is None:
            return
        phi = frozen_array(self.phi, (PARAMETERS_PER_LINK,), f"parameters {LINK_PARAMETERS} of link {self.name!r}")
        if phi[0] < 0:
            message = f"link {self.name!r} has a negative mass of {phi[0]:g} kg"
            raise RobotError(message, code=Code.NOT_FEASIBLE, subject=self.name)
        object.__setattr__(self, "phi", phi)

    def consistency(self) -> Consistency:
        """Check whether a mass distribution with these parameters exists.

        Returns
        -------
        Consistency
            Status of the check, and the condition that is violated.
        """
        return check_consistency(self.phi)


@dataclass(frozen=True, slots=True)
class Limits:
    """Joint limits; None for a limit that is not given.

    Parameters
    ----------
    lower, upper : float, optional
        Ends of the position range, rad or m.
    velocity, acceleration, jerk : float, optional
        Largest magnitudes, rad/s or m/s and their derivatives.
    effort : float, optional
        Largest torque or force, N m or N.
    continuous : bool, default False
        Whether the joint turns without end, so that it has no position limits.

    Raises
    ------
    RobotError
        If a limit is not finite or negative, or the lower end is above the upper one.
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
            message = f"a continuous joint has no position limits, got {self.lower} to {self.upper}"
            raise RobotError(message, code=Code.DISAGREEMENT, subject="continuous")
        for name in ("lower", "upper", "velocity", "acceleration", "jerk", "effort"):
            value = getattr(self, name)
            if value is not None:
                require_finite_number(value, f"limit {name!r}", least=-inf if name in ("lower", "upper") else 0.0)
        if self.lower is not None and self.upper is not None and self.lower > self.upper:
            message = f"the lower limit {self.lower:g} is above the upper limit {self.upper:g}"
            raise RobotError(message, code=Code.OUT_OF_RANGE, subject="lower")


def position_range(limits: Limits, low: float, high: float) -> tuple[float, float]:
    """Return both ends of the range: low and high if none is given; if one is missing, the width is high - low."""
    if limits.lower is None:
        return (low, high) if limits.upper is None else (limits.upper - (high - low), limits.upper)
    return limits.lower, limits.lower + (high - low) if limits.upper is None else limits.upper


@dataclass(frozen=True, slots=True, eq=False)
class Joint(Value):
    """One degree of freedom between two links.

    Parameters
    ----------
    name : str
        Name of the joint.
    kind : {"revolute", "prismatic"}
        Kind of motion.
    parent, child : str
        Names of the links.
    origin : Pose
        Joint frame in the parent's link frame.
    axis : array_like, shape (3,)
        Unit vector in the joint frame, through its origin; the joint turns about it or moves along it.
    tip : Pose
        Child's link frame in the moved joint frame: the identity in URDF, the distal frame in standard DH.
    limits : Limits
        Limits of position, velocity, acceleration, jerk and effort.

    Raises
    ------
    RobotError
        If the axis is not a unit vector, or the joint connects a link with itself.
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
            raise RobotError(
                f"joint {self.name!r} is {self.kind}; only revolute joints are continuous", subject=self.name
            )
        if self.parent == self.child:
            raise RobotError(f"joint {self.name!r} connects link {self.parent!r} with itself", subject=self.name)
        axis = frozen_array(self.axis, (3,), f"the axis of joint {self.name!r}")
        length = float(np.linalg.norm(axis))
        if abs(length - 1) > 1e-9:
            message = f"the axis of joint {self.name!r} must have unit length, got {axis.tolist()}"
            raise RobotError(message, code=Code.INVALID_VALUE, subject=self.name)
        if abs(length - 1) > 1e-15:
            axis = frozen_array(axis / length, (3,), f"the axis of joint {self.name!r}")
        object.__setattr__(self, "axis", axis)

    def at(self, position: float) -> Pose:
        """Return the pose of the child's link frame in the parent's link frame.

        Parameters
        ----------
        position : float
            Joint position, rad or m.

        Returns
        -------
        Pose
            Pose of the child in the parent.
        """
        turns = self.kind == "revolute"
        moved = Pose(rotation_about_axis(self.axis, position)) if turns else Pose(None, self.axis * position)
        return self.origin @ moved @ self.tip


@dataclass(frozen=True, slots=True, eq=False)
class Frame(Value):
    """Named frame fixed to a link, such as `tool0` or a merged fixed link.

    Parameters
    ----------
    name : str
        Name of the frame.
    link : str
        Link that carries the frame.
    pose : Pose
        Pose in the link frame.
    """

    name: str
    link: str
    pose: Pose = IDENTITY

    def __post_init__(self) -> None:
        require_name(self.name, "a frame")


@dataclass(frozen=True, slots=True, eq=False)
class Drive(Value):
    """Motor with gear and friction: q_motor = ratio * q[joint] + sum of coupling[k] * q[k].

    Parameters
    ----------
    joint : str
        Joint that the motor drives.
    ratio : float, default 1
        Motor turns per joint turn; negative if the motor turns the other way.
    coupling : mapping of str to float
        Additional ratios by joint name.
    rotor_inertia : float, default 0
        Rotor inertia at the motor, kg m^2 (kg); 0 if the drive has none.
    viscous, coulomb, offset : float, default 0
        Viscous friction, Coulomb friction and torque offset at `side`, N m s, N m and N m (N s/m, N and N).
    side : {"motor", "joint"}, default "joint"
        Whether friction acts on the motion of the motor or of the joint.

    Raises
    ------
    RobotError
        If the ratio is zero, a number is not finite, an inertia or friction is negative, or the joint is coupled to
        itself.
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
            require_finite_number(getattr(self, name), f"{name} of the drive of joint {self.joint!r}", least=least)
        if self.ratio == 0:
            message = f"the gear ratio of the drive of joint {self.joint!r} is zero; it must be positive or negative"
            raise RobotError(message, code=Code.OUT_OF_RANGE, subject=self.joint)
        for joint, ratio in self.coupling.items():
            require_finite_number(ratio, f"the coupling of the drive of joint {self.joint!r} to {joint!r}")
        if self.joint in self.coupling:
            message = f"the drive of joint {self.joint!r} is coupled to its own joint; use ratio instead"
            raise RobotError(message, subject=self.joint)
        object.__setattr__(self, "coupling", MappingProxyType(dict(self.coupling)))

    def __reduce__(self) -> tuple[type[Drive], tuple[Any, ...]]:
        """Pickle the fields, because the read-only view of `coupling` cannot be pickled."""
        values = (getattr(self, entry.name) for entry in fields(self))
        return Drive, tuple(dict(v) if isinstance(v, Mapping) else v for v in values)


@dataclass(frozen=True, slots=True)
class ExtraTorque:
    """Torque of a joint in addition to links and drive: coefficient * formula.

    Parameters
    ----------
    name : str
        Name of the torque.
    joint : str
        Joint on which it acts.
    formula : str
        Function of q and qd of the joint, or of q1, qd2, ... of joints by number (see `mindyn.robots.expressions`).
    coefficient : float, default 0
        Factor that identification estimates; N m if the formula is dimensionless.

    Raises
    ------
    RobotError
        If the formula cannot be parsed or has no finite value.
    """

    name: str
    joint: str
    formula: str
    coefficient: float = 0.0

    def __post_init__(self) -> None:
        require_name(self.name, "an extra torque")
        require_name(self.joint, f"the joint of the extra torque {self.name!r}")
        require_finite_number(self.coefficient, f"the coefficient of the extra torque {self.name!r}")
        parse_formula(self.formula)


@dataclass(frozen=True, slots=True)
class Mimic:
    """Joint that follows another one, as <mimic> in URDF: q[joint] = multiplier * q[of] + offset.

    Parameters
    ----------
    joint : str
        Joint that follows.
    of : str
        Joint that it follows.
    multiplier : float, default 1
        Factor.
    offset : float, default 0
        Offset, rad or m.

    Raises
    ------
    RobotError
        If a joint mimics itself, or a number is not finite.
    """

    joint: str
    of: str
    multiplier: float = 1.0
    offset: float = 0.0

    def __post_init__(self) -> None:
        require_name(self.joint, "a joint that mimics another")
        require_name(self.of, f"the joint that {self.joint!r} mimics")
        for name in ("multiplier", "offset"):
            require_finite_number(getattr(self, name), f"{name} of the mimic joint {self.joint!r}")
        if self.joint == self.of:
            raise RobotError(f"joint {self.joint!r} mimics itself", subject=self.joint)


@dataclass(frozen=True, slots=True, eq=False)
class Loop(Value):
    """Joint that closes a kinematic loop between two links.

    Parameters
    ----------
    name : str
        Name of the loop.
    first, second : str
        Links that it connects.
    first_pose, second_pose : Pose
        Pose of the closing joint in each link frame.
    dependent : tuple of str
        Joints whose motion follows from the others through this loop.
    kind : {"pin", "slide", "ball", "weld"}, default "pin"
        pin: origins and z axes coincide; slide: the second origin lies on the first z axis and all axes are parallel;
        ball: origins coincide; weld: origins and all axes coincide.

    Raises
    ------
    RobotError
        If the loop connects a link with itself.
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
            raise RobotError(f"loop {self.name!r} connects link {self.first!r} with itself", subject=self.name)
