"""Check the arguments of a design, and complete missing ones, before the search."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from typing import Final, Literal, ParamSpec, TypeVar, get_args

import numpy as np
from numpy.typing import ArrayLike

from mindyn.equations.closed_motion import is_affine
from mindyn.foundation.algebra.requirements import require_count, require_number, require_type
from mindyn.foundation.algebra.values import Array, frozen_array
from mindyn.foundation.errors import Code, InputError, MissingPhysicsError, pluralise, require_choice
from mindyn.foundation.findings import Finding, Kind, Severity
from mindyn.foundation.notation import PARAMETERS_PER_LINK
from mindyn.motions.excitation.constraints import require_closing
from mindyn.motions.excitation.criteria import Name
from mindyn.motions.excitation.limits import MotionLimits, dependent_limits
from mindyn.motions.excitation.motion_columns import Columns
from mindyn.motions.excitation.motion_safety import random_positions
from mindyn.motions.excitation.motions import Fourier
from mindyn.parameters.parameter import standard_parameters
from mindyn.regression.information import Information, null_space
from mindyn.robots.edits import find_load_carrier
from mindyn.robots.robot import Robot

P = ParamSpec("P")
T = TypeVar("T")

UNLIMITED_S: Final = 0.2
"""s: random accelerations of joints without an acceleration limit reach the speed limit in this time."""
NOISE_PART: Final = 0.01
"""Standard deviation of the torque noise relative to the effort limit, if it is not given."""


@dataclass(frozen=True, slots=True, eq=False)
class MotionSettings:
    """How the arm moves: functions of time, fractions of its limits, where it begins, and which grippers move too.

    Parameters
    ----------
    family : Fourier, optional
        Functions of time; by default `Fourier()`, with several periods for servos.
    speed, acceleration : float, default 0.5
        Fraction of the speed and acceleration limits that may be used (see `MotionLimits.parts`).
    start : array_like (n,), optional
        Position in rad or m at which the motion begins and ends; free by default.
    home : array_like (n,), optional
        Position in rad or m of the arm before the run. The path to the start and back is then planned and checked too.
    move : sequence of str, optional
        Joints of a gripper or propeller to move. The others are locked, with a finding, and have no row in the design;
        limits, noise, start and home may include or omit them.

    Examples
    --------
    >>> MotionSettings(speed=1.0, home=[0.0, -1.5]).acceleration
    0.5
    """

    family: Fourier | None = None
    speed: float = 0.5
    acceleration: float = 0.5
    start: ArrayLike | None = None
    home: ArrayLike | None = None
    move: Sequence[str] = ()


@dataclass(frozen=True, slots=True, eq=False)
class ExpectedLog:
    """The log that will be recorded: its rate and noise, the parameters that it determines, and what is known already.

    Parameters
    ----------
    rate_hz : float, default 100.0
        Sample rate. The torque noise is taken as independent from row to row.
    noise : float or array_like (n,), optional
        Standard deviation of the torque noise in N m or N; by default 1 % of the effort limit.
    with_drives : bool, default True
        Whether rotor inertia and friction of every joint are parameters too.
    beta : array_like (p,), optional
        Base values for the torque limits, such as `estimate.base_values`; by default those of the robot.
    previous : Information, optional
        Information of earlier logs, which the new motion complements.

    Examples
    --------
    >>> ExpectedLog(rate_hz=500.0, noise=0.2).with_drives
    True
    """

    rate_hz: float = 100.0
    noise: ArrayLike | None = None
    with_drives: bool = True
    beta: ArrayLike | None = None
    previous: Information | None = None


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """What the search of `design_motion` minimises, from how many starts, and how long it lasts.

    Parameters
    ----------
    starts : int, default 4
        Number of completed searches. They start from the best of three times as many random motions.
    deadline_s : float, optional
        Seconds after which the search ends. `design_motion` then checks and assesses the best motion so far, which
        takes up to two more seconds for a motion of ten minutes.
    criterion : {"D", "A", "E", "condition", "joints"}, default "D"
        Criterion of the base regressor, with rows weighted by 1 / noise^2. "D" is the volume of the confidence
        ellipsoid, "A" the mean variance of the parameters and "E" the largest variance of a combination, both in SI
        units, so that parameters with large values in SI units count most. A small condition number determines all
        parameters equally well, also in a slow motion. "joints" is the largest condition number of all joints' own
        columns, for identification from the last link to the first (`LastLinkFirst`) of robots without dependent
        joints.

    Raises
    ------
    InputError
        If `starts` is not a positive whole number, the deadline is negative, or the criterion is unknown.

    Examples
    --------
    >>> SearchSettings(starts=1, deadline_s=20.0)
    SearchSettings(starts=1, deadline_s=20.0, criterion='D')
    """

    starts: int = 4
    deadline_s: float | None = None
    criterion: Name = "D"

    def __post_init__(self) -> None:
        require_count(self.starts, "starts")
        if self.deadline_s is not None:
            require_number(self.deadline_s, "deadline_s", "[0, inf]")
        require_choice(self.criterion, get_args(Name), "criterion")


MOVED: Final = {
    **dict.fromkeys(("family", "speed", "acceleration", "start", "home", "move"), ("motion", MotionSettings)),
    **dict.fromkeys(("rate_hz", "noise", "with_drives", "beta", "previous"), ("log", ExpectedLog)),
    "criterion": ("search", SearchSettings),
}
"""Earlier arguments of `design_motion`: the argument and the settings that they are fields of."""


def explain_moved_arguments(function: Callable[P, T]) -> Callable[P, T]:
    """Decorate a design function to name the settings if an argument is a field of them."""

    @wraps(function)
    def explained(*args: P.args, **kwargs: P.kwargs) -> T:
        for name in kwargs:
            if name in MOVED:
                group, kind = MOVED[name]
                raise TypeError(
                    f"{function.__name__}() has no argument {name!r}; it is a field of the argument {group!r}: "
                    f"{group}=mindyn.{kind.__name__}({name}=...)"
                )
        return function(*args, **kwargs)

    return explained


def require_criterion(criterion: str, robot: Robot, previous: Information | None) -> None:
    """Raise if the criterion is "joints" for a robot that cannot be identified joint by joint."""
    if criterion == "joints" and (robot.has_dependents or previous is not None):
        cause = f"robot {robot.name!r} has {robot.dependence}" if robot.has_dependents else "earlier logs are given"
        raise InputError(
            f"criterion 'joints' is for identification from the last link to the first, but {cause}",
            hint='take search=mindyn.SearchSettings(criterion="condition")',
            code=Code.UNSUPPORTED,
            subject="criterion" if robot.has_dependents else "previous",
        )


def require_settings(given: T | None, kind: type[T], name: str) -> T:
    """Return the settings, or the default settings for None. Raise an error for another type."""
    if given is None:
        return kind()
    require_type(given, kind, name, f"{name}=mindyn.{kind.__name__}(...)")
    return given


def limits_for(robot: Robot, limits: MotionLimits | None) -> MotionLimits:
    """Return the limits, by default those of the robot.

    Raise an error if they have other joints, or no limit for a joint.
    """
    chosen = MotionLimits.of(robot) if limits is None else require_settings(limits, MotionLimits, "limits")
    names = robot.primary_names
    if len(chosen.lower) != len(names):
        raise InputError(
            f"the limits are for {pluralise(len(chosen.lower), 'joint')}, but robot {robot.name!r} has {len(names)}",
            code=Code.WRONG_SHAPE,
            subject="limits",
        )
    if robot.has_dependents and chosen.dependent is None:
        chosen = replace(chosen, dependent=dependent_limits(robot, {}))
    if not is_affine(robot):
        require_closing(robot, chosen.lower, chosen.upper)
    bounds = np.stack([chosen.lower, chosen.velocity, chosen.acceleration, chosen.jerk, chosen.effort])
    free = [name for name, column in zip(names, bounds.T, strict=True) if np.isinf(column).all()]
    if free:
        raise InputError(
            f"nothing limits the motion of {', '.join(free)}: position, velocity, acceleration, jerk and effort are "
            "all infinite",
            hint="give at least one of them",
            code=Code.MISSING_VALUE,
            subject=free[0],
        )
    return chosen


def noise_of(robot: Robot, limits: MotionLimits, noise: ArrayLike | None) -> tuple[Array, tuple[Finding, ...]]:
    """Return the standard deviations (n,) of the torque noise, with a finding if they are guessed."""
    n = robot.joint_count
    if noise is not None:
        given = np.broadcast_to(frozen_array(noise, () if np.ndim(noise) == 0 else (n,), "noise"), (n,))
        if (given <= 0).any():
            raise InputError(f"noise must be positive, got {given.tolist()}", code=Code.OUT_OF_RANGE, subject="noise")
        return given, ()
    unknown = [name for name, effort in zip(robot.primary_names, limits.effort, strict=True) if np.isinf(effort)]
    if unknown:
        raise MissingPhysicsError(
            f"the torque noise of {', '.join(unknown)} is not known: these joints have no effort limit to take "
            f"{100 * NOISE_PART:g} % of",
            hint="give the standard deviation of each torque: noise in the --limits file, "
            "log=mindyn.ExpectedLog(noise=...) in Python",
            subject="noise",
        )
    sentence = f"the torque noise is guessed as {100 * NOISE_PART:g} % of each effort limit"
    guess = Finding(Kind.GUESSED_NOISE, Severity.INFO, sentence, "Set noise in the limits file")
    return np.asarray(NOISE_PART * limits.effort), (guess,)


def require_rows(columns: Columns, times: int, earlier: Array) -> None:
    """Raise an error if the log has fewer rows than parameters."""
    rows = times * columns.robot.joint_count
    if rows + len(earlier) < columns.count:
        raise InputError(
            f"a log of {times} samples has {rows} rows, too few for {columns.count} parameters",
            hint="raise rate_hz or seconds",
            code=Code.TOO_LITTLE_DATA,
            subject="seconds",
        )


def require_excitable(columns: Columns, limits: MotionLimits, earlier_rows: Array, rng: np.random.Generator) -> None:
    """Raise an error if a parameter has no effect at random states within the limits."""
    speed = np.where(np.isfinite(limits.velocity), limits.velocity, 1.0) * ~limits.still
    push = np.where(np.isfinite(limits.acceleration), limits.acceleration, speed / UNLIMITED_S) * ~limits.still
    q = random_positions(limits, rng, 4 * columns.count)
    qd, qdd = rng.uniform(-1, 1, (2, *q.shape)) * np.stack([speed, push])[:, None]
    entries = columns.signed_entries(q, qd, qdd)
    open_directions = null_space(np.vstack([columns.dense(entries).reshape(-1, columns.count), earlier_rows]))
    touched = np.asarray((np.abs(open_directions) > 1e-6).any(axis=1))
    if touched.any():
        names = [name for name, is_open in zip(columns.base.names, touched, strict=True) if is_open]
        still = [name for name, held in zip(columns.robot.primary_names, limits.still, strict=True) if held]
        cause = f": joint {', '.join(still)} cannot move" if still else ""
        raise InputError(
            f"no motion within the limits determines these parameters: {', '.join(names)}{cause}",
            hint="widen the limits, lock joints that do not move (robot.lock), or pass earlier logs that do",
            code=Code.NOT_IDENTIFIABLE,
            subject=names[0],
        )


def prior_values(columns: Columns, limits: MotionLimits, prior: ArrayLike | None) -> Array | None:
    """Return the base values (p,) for the torque limits; None if there are neither values nor torque limits."""
    base = columns.base
    if prior is not None:
        return frozen_array(prior, (base.count,), f"prior values of {', '.join(base.names)}")
    if columns.robot.has_parameters:
        return base.values
    if np.isfinite(limits.effort).any():
        raise MissingPhysicsError(
            f"robot {columns.robot.name!r} has no inertial parameters, so its torques are not known",
            hint="set effort = inf and noise in N m in the --limits file, or use a robot file with "
            "inertial parameters. In Python, pass log=mindyn.ExpectedLog(beta=estimate.base_values)",
            subject=columns.robot.name,
        )
    return None


def earlier_rows(columns: Columns, previous: Information | None, deviations: Array) -> Array:
    """Return R (k, p); R^T R is the information of earlier logs, with joints weighted by their noise."""
    if previous is not None and previous.names != columns.base.names:
        raise InputError(
            "the earlier information has other parameters than the motion",
            hint="gather it with the same robot, drives and plain friction: gather(Regressor(robot), samples)",
            code=Code.DISAGREEMENT,
            subject="previous",
        )
    return np.zeros((0, columns.count)) if previous is None else previous.stacked(1 / deviations**2)[0]


def position_of(robot: Robot, limits: MotionLimits, given: ArrayLike | None, name: str) -> Array | None:
    """Return a given position (n,), such as the start. Raise an error if it is outside the limits."""
    if given is None:
        return None
    q = frozen_array(given, (robot.joint_count,), name)
    outside = [
        f"{joint} at {value:g} ({low:g} to {high:g})"
        for joint, value, low, high in zip(robot.primary_names, q, limits.lower, limits.upper, strict=True)
        if not low <= value <= high
    ]
    if outside:
        raise InputError(
            f"{name} lies outside the position limits: {', '.join(outside)}",
            hint=f"{name} has one position for each joint, in rad or m, in the order of the robot file",
            code=Code.OUT_OF_RANGE,
            subject=name,
        )
    return q


Purpose = Literal["arm", "payload", "servo"]

KNOWN: Final = 1e4
"""1 / (kg m, kg m^2, ...): assumed accuracy of the arm's parameters in a design that determines the payload."""


def known_rows(columns: Columns, purpose: Purpose) -> Array:
    """Return rows (k, p) of prior knowledge, with noise of one unit: none for "arm".

    "payload": a load on the last link (see `find_load_carrier`) changes the base parameters by K_load phi, and it also
    changes friction. Combinations in the left null space of [K_load, K_friction] do not change; they are known for an
    arm that was identified before. "servo": moments of inertia are known from the robot file. First moments count as
    unknown, so that the motion changes the gravity torques, with which gains are compared. Friction and armature are
    unknown.
    """
    require_choice(purpose, get_args(Purpose), "purpose")
    robot = columns.robot
    if purpose == "arm":
        return np.zeros((0, columns.count))
    base = columns.base
    standard = standard_parameters(base.robot, with_drives=base.with_drives)
    if purpose == "payload":
        carrier = robot.link_index(find_load_carrier(robot, None))
        links = [PARAMETERS_PER_LINK * carrier + k for k in range(PARAMETERS_PER_LINK)]
        kinds = ("viscous", "coulomb", "offset")
    else:
        links = [PARAMETERS_PER_LINK * link + k for link in range(len(robot.links)) for k in (1, 2, 3)]
        kinds = ("viscous", "coulomb", "rotor")
    friction = [k for k, parameter in enumerate(standard) if parameter.kind in kinds]
    U, s, _ = np.linalg.svd(base.matrix[:, [*links, *friction]])
    return np.asarray(KNOWN * U[:, int((s > 1e-9 * s[0]).sum()) :].T)
