"""`MotionLimits`: the limits of every joint that a motion keeps, from the robot or given by the user."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mindyn.foundation.algebra.requirements import make_read_only, require_number, require_shape
from mindyn.foundation.algebra.values import Array, ShortRepr
from mindyn.foundation.errors import Code, InputError, MissingPhysicsError
from mindyn.foundation.findings import Finding, Kind, warning
from mindyn.foundation.schemas import ANY_NUMBER, list_schema, require_valid, table_schema
from mindyn.robots.parts import Joint
from mindyn.robots.robot import Robot
from mindyn.robots.table import format_table

BOUNDS: Final = ("lower", "upper", "velocity", "acceleration", "jerk", "effort")
REQUIRED: Final = ("lower", "upper", "velocity", "effort")
"""Limits that every motion needs. Give infinity for one that does not exist."""
ONE_TURN: Final = 2 * np.pi
"""rad: range of a continuous joint in either direction. Beyond this range, the dynamics repeat, and cables wind up."""
POSITION_FRACTION: Final = 0.95
"""Fraction of every position range that motions use."""
TO_FULL_SPEED_S: Final = 0.2
"""s: if a joint has no acceleration limit, the guessed limit reaches full speed in this time."""
STILL: Final = 1e-12
"""Value that replaces a limit of zero in divisions."""

_BOUND: Final = {"type": ["number", "infinite"]}
LIMITS: Final = table_schema(
    {}, {**dict.fromkeys(BOUNDS, list_schema(_BOUND, "object", *_BOUND["type"])), "torque_margin": ANY_NUMBER}
)
"""JSON Schema of limits in a file: each is a number, a list with a number for each joint, or a table by joint name."""

Given = ArrayLike | Mapping[str, float] | None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MotionLimits(ShortRepr):
    """Limits of every joint that a motion keeps; infinite if there is no limit.

    For a robot with loops, n counts the primary joints, in the order of `primary_names`. `MotionLimits.of(robot)` takes
    the limits of the robot.

    Parameters
    ----------
    lower, upper : array_like, shape (n,)
        Range of positions, in rad or m.
    velocity, acceleration, jerk : array_like, shape (n,)
        Largest rates, in rad or m per s, s^2 and s^3.
    effort : array_like, shape (n,)
        Largest torque or force, in N m or N.
    torque_margin : float, default 0.1
        Fraction of `effort` that is reserved for errors of the model and the controller.
    dependent : MotionLimits, optional
        Limits of the dependent joints of loops, whose efforts do not count.

    Raises
    ------
    InputError
        If shapes differ, a limit is not a number or negative, or a range is empty or has one end.
    """

    lower: Array
    upper: Array
    velocity: Array
    acceleration: Array
    jerk: Array
    effort: Array
    torque_margin: float = 0.1
    dependent: MotionLimits | None = None

    def __post_init__(self) -> None:
        for name in BOUNDS:
            array = make_read_only(np.array(getattr(self, name), dtype=np.float64))
            object.__setattr__(self, name, array)
            require_shape(array.shape, (self.lower.size,), name)
        for message, code, subject in self._violations():
            raise InputError(message, code=code, subject=subject)
        require_number(self.torque_margin, "torque_margin", "[0, 1)", "a fraction of the effort limit, such as 0.1")

    def _violations(self) -> Iterator[tuple[str, Code, str]]:
        for name in BOUNDS:
            array = getattr(self, name)
            if np.isnan(array).any():
                yield f"{name} has a limit that is not a number: {array.tolist()}", Code.NOT_FINITE, name
            if name not in ("lower", "upper") and (array < 0).any():
                yield f"{name} has a negative limit: {array.tolist()}", Code.OUT_OF_RANGE, name
        ends = f"lower {self.lower.tolist()}, upper {self.upper.tolist()}"
        if (self.lower > self.upper).any():
            yield f"a lower limit lies above the upper one: {ends}", Code.OUT_OF_RANGE, "lower"
        if (np.isfinite(self.lower) != np.isfinite(self.upper)).any():
            yield f"a range needs both ends or none: {ends}", Code.DISAGREEMENT, "lower"

    def __str__(self) -> str:
        rows: list[tuple[str, ...]] = [("joint", *BOUNDS)]
        rows += [(str(j + 1), *(f"{getattr(self, name)[j]:.5g}" for name in BOUNDS)) for j in range(len(self.lower))]
        return format_table(rows)

    @property
    def torque(self) -> Array:
        """(n,) torque that a motion may use: effort without the margin."""
        return np.asarray((1 - self.torque_margin) * self.effort)

    @property
    def middle(self) -> Array:
        """(n,) middle of the range; 0 if it is infinite."""
        bounded = np.isfinite(self.lower)
        return np.asarray(np.where(bounded, self.upper, 0.0) + np.where(bounded, self.lower, 0.0)) / 2

    @property
    def reach(self) -> Array:
        """(n,) half of the range; half a turn if the range is infinite."""
        return np.asarray(np.where(np.isfinite(self.lower), (self.upper - self.lower) / 2, np.pi))

    @property
    def still(self) -> NDArray[np.bool_]:
        """(n,) whether the limits of a joint allow no motion."""
        rates = np.stack([self.upper - self.lower, self.velocity, self.acceleration, self.jerk])
        return np.asarray((rates == 0).any(axis=0))

    @staticmethod
    def of(
        robot: Robot,
        *,
        lower: Given = None,
        upper: Given = None,
        velocity: Given = None,
        acceleration: Given = None,
        jerk: Given = None,
        effort: Given = None,
        torque_margin: float = 0.1,
    ) -> MotionLimits:
        """Return the limits of the robot; given limits replace them.

        Positions, velocity and effort must come from the robot or the arguments; acceleration and jerk are optional. A
        continuous joint stays within `ONE_TURN` in either direction, unless ends or infinity are given.

        Parameters
        ----------
        robot : Robot
            Robot whose limits are used where none are given.
        lower, upper, velocity, acceleration, jerk, effort : float, array_like (n,) or mapping of joint name to float
            In rad or m, and per s, s^2, s^3; N m or N. Numbers are for the primary joints of a robot with loops; give
            limits of dependent joints by name, if there are any.
        torque_margin : float
            Fraction of `effort` that is kept in reserve, 0 to below 1.

        Returns
        -------
        MotionLimits

        Raises
        ------
        MissingPhysicsError
            If neither the robot nor the arguments state a limit that every motion needs.
        InputError
            If a limit has the wrong shape or is not a number.
        """
        given = dict(zip(BOUNDS, (lower, upper, velocity, acceleration, jerk, effort), strict=True))
        stated = {name: _by_joint(robot, name, value) for name, value in given.items()}
        bounds = {name: _values_of(robot.primary_joints, name, stated[name]) for name in BOUNDS}
        _require_limits(robot, bounds)
        filled = {name: np.where(np.isnan(bound), np.inf, bound) for name, bound in bounds.items()}
        dependent = dependent_limits(robot, stated) if robot.has_dependents else None
        return MotionLimits(**filled, torque_margin=torque_margin, dependent=dependent)

    @staticmethod
    def from_dict(robot: Robot, values: Mapping[str, Any]) -> MotionLimits:
        """Return the limits of a table from a TOML file; its keys are the keyword arguments of `of`."""
        require_valid(values, LIMITS, "limits", hint="for example: velocity = { joint1 = 2.0 }")
        return MotionLimits.of(robot, **values)

    def parts(self, speed: float, acceleration: float) -> MotionLimits:
        """Return the limits with these fractions of the speeds and accelerations, at most 1.

        For a fraction below 1, a joint without an acceleration limit gets the acceleration that reaches its full speed
        within `TO_FULL_SPEED_S`, because a fraction of infinity would not limit the motion.
        """
        for name, part in (("speed", speed), ("acceleration", acceleration)):
            require_number(part, name, "(0, 1]", "a fraction of the limits, such as 0.5")
        taken = self.acceleration
        if acceleration < 1:
            taken = np.where(np.isfinite(taken), taken, self.velocity / TO_FULL_SPEED_S)
        return replace(
            self,
            velocity=speed * self.velocity,
            acceleration=acceleration * taken,
            dependent=None if self.dependent is None else self.dependent.parts(speed, acceleration),
        )

    def narrowed(self, fraction: float) -> MotionLimits:
        """Return the limits with every finite position range reduced to this fraction, about its middle."""
        lower, upper = (
            np.where(np.isfinite(end), self.middle + fraction * (end - self.middle), end)
            for end in (self.lower, self.upper)
        )
        dependent = None if self.dependent is None else self.dependent.narrowed(fraction)
        return replace(self, lower=lower, upper=upper, dependent=dependent)

    def findings(self, robot: Robot, acceleration: float) -> tuple[Finding, ...]:
        """Return findings on guessed limits: ranges of continuous joints, and accelerations that were not given."""
        ends = zip(robot.primary_joints, self.lower, self.upper, strict=True)
        turning = [j.name for j, low, high in ends if j.limits.continuous and (low, high) == (-ONE_TURN, ONE_TURN)]
        findings = []
        if turning:
            message = f"lower and upper are guessed as one turn either way for continuous joints: {', '.join(turning)}"
            findings.append(guessed_limit(message, ("lower", "upper"), turning))
        unstated = [name for name, a in zip(robot.primary_names, self.acceleration, strict=True) if np.isinf(a)]
        if unstated and acceleration < 1:
            values = dict(zip(robot.primary_names, self.velocity / TO_FULL_SPEED_S, strict=True))
            guesses = ", ".join(f"{name} = {values[name]:.3g}" for name in unstated)
            message = (
                f"acceleration is guessed: {guesses} (full speed in {TO_FULL_SPEED_S:g} s), of which {acceleration:g} "
                "is used"
            )
            findings.append(guessed_limit(message, ("acceleration",), unstated))
        return tuple(findings)

    def to_dict(self) -> dict[str, Any]:
        """Return the limits for JSON; null for infinity."""
        table: dict[str, Any] = {
            name: [float(v) if np.isfinite(v) else None for v in getattr(self, name)] for name in BOUNDS
        }
        table["torque_margin"] = self.torque_margin
        return table if self.dependent is None else table | {"dependent": self.dependent.to_dict()}


def limited_rates(limits: MotionLimits) -> Iterator[tuple[int, NDArray[np.intp], Array, Array]]:
    """Yield the order, the joints, the middle and half of the range of each limited rate, from positions to jerks."""
    halves = (limits.upper - limits.middle, limits.velocity, limits.acceleration, limits.jerk)
    for order, half in enumerate(halves):
        joints = np.flatnonzero(np.isfinite(half))
        if len(joints):
            middle = limits.middle[joints] if order == 0 else np.zeros(len(joints))
            yield order, joints, middle, np.maximum(half[joints], STILL)


def guessed_limit(sentence: str, keys: tuple[str, ...], joints: Sequence[str]) -> Finding:
    """Return the finding that limits were guessed, with the keys of these limits in the limits file as details."""
    names, whose = " and ".join(keys), "this joint" if len(joints) == 1 else "these joints"
    remedy = (
        f"The robot file states no {names} for {whose}, so mindyn assumed values. Set {names} in the limits file "
        "(--limits), for example from the robot's data sheet"
    )
    return replace(warning(Kind.GUESSED_LIMIT, sentence, remedy, tuple(joints)), details=keys)


def dependent_limits(robot: Robot, stated: Mapping[str, Mapping[str, float]]) -> MotionLimits:
    """Return the limits of dependent joints in the order of q: given by name, from the robot, or infinite."""
    joints = [joint for joint in robot.joints if joint.name not in robot.primary_names]
    bounds = {name: _values_of(joints, name, stated.get(name, {})) for name in BOUNDS}
    for name, values in bounds.items():
        values[np.isnan(values) | (name == "effort")] = -np.inf if name == "lower" else np.inf
    return MotionLimits(**bounds, torque_margin=0.0, dependent=None)


def with_limits(robot: Robot, given: Mapping[str, Given]) -> Robot:
    """Return the robot with these limits for its primary joints; infinite limits are omitted."""
    stated = {name: _by_joint(robot, name, value) for name, value in given.items() if name in BOUNDS}

    def changed(joint: Joint) -> Joint:
        own = {name: values[joint.name] for name, values in stated.items() if joint.name in values}
        changes = {name: value if np.isfinite(value) else None for name, value in own.items()}
        is_free = joint.limits.continuous and changes.get("lower") is None and changes.get("upper") is None
        return replace(joint, limits=replace(joint.limits, continuous=is_free, **changes))

    primary = robot.primary_names
    return replace(robot, joints=tuple(changed(joint) if joint.name in primary else joint for joint in robot.joints))


def _by_joint(robot: Robot, name: str, given: Given) -> dict[str, float]:
    """Return the given values of a limit by the names of joints; a number or array is for the primary joints."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        try:
            array = np.asarray(given, dtype=np.float64)
        except (TypeError, ValueError, OverflowError) as error:
            message = f"limit {name} must be numbers, got {given!r}"
            raise InputError(message, code=Code.WRONG_TYPE, subject=name) from error
        names = robot.primary_names
        if array.ndim:
            require_shape(array.shape, (len(names),), name)
        return dict(zip(names, np.broadcast_to(array, len(names)).tolist(), strict=True))
    for joint, value in given.items():
        require_valid(value, _BOUND, f"limit {name}")
        robot.joint_index(joint)
        if name == "effort" and joint not in robot.primary_names:
            message = f"limit effort names {joint!r}, a dependent joint, which no motor drives"
            raise InputError(message, code=Code.UNSUPPORTED, subject=joint)
    return dict(given)


def _values_of(joints: Sequence[Joint], name: str, stated: Mapping[str, float]) -> Array:
    """Return the limit (joints,): given, or from the robot; NaN if neither gives it."""
    turn = {"lower": -ONE_TURN, "upper": ONE_TURN}
    values = [
        stated.get(joint.name, turn[name] if joint.limits.continuous and name in turn else getattr(joint.limits, name))
        for joint in joints
    ]
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def _require_limits(robot: Robot, bounds: Mapping[str, Array]) -> None:
    unstated = {name: np.array(robot.primary_names)[np.isnan(bounds[name])].tolist() for name in REQUIRED}
    missing = {name: joints for name, joints in unstated.items() if joints}
    if missing:
        missing_limits = "; ".join(f"{name} of {', '.join(joints)}" for name, joints in missing.items())
        lines = ", ".join(
            f"{name} = 10.0 or {name} = {{ {joints[0]} = 10.0, ... }}" for name, joints in missing.items()
        )
        needed = "" if robot.has_parameters else "; without inertial parameters also effort = inf, and noise in N m"
        raise MissingPhysicsError(
            f"robot {robot.name!r} has no limits for: {missing_limits}",
            subject=next(iter(missing)),
            hint=f"write them into limits.toml, for example {lines} (inf means no limit{needed}), and pass --limits "
            "limits.toml. In Python: MotionLimits.of(robot, " + ", ".join(f"{name}=..." for name in missing) + ")",
        )
