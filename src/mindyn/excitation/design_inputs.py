"""Arguments of a design: every one is checked and completed before the search."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final, Literal, Protocol, TypeVar, get_args

import numpy as np
from numpy.typing import ArrayLike

from mindyn.algebra.values import Array, frozen_array
from mindyn.equations.closed_motion import is_affine
from mindyn.errors import Code, InputError, MissingPhysicsError, require_choice
from mindyn.excitation.columns import Columns
from mindyn.excitation.criteria import Name
from mindyn.excitation.fourier import Fourier
from mindyn.excitation.limits import MotionLimits, dependent_limits
from mindyn.excitation.loop_limits import require_closing
from mindyn.excitation.motions import Family, sample_times
from mindyn.findings import Finding, Kind, Severity
from mindyn.notation import PARAMETERS_PER_LINK
from mindyn.parameters.parameter import standard_parameters
from mindyn.regression.information import Information
from mindyn.robots.edits import find_load_carrier
from mindyn.robots.robot import Robot
from mindyn.simulation.inputs import require_count, require_number

T = TypeVar("T")

NOISE_PART: Final = 0.01
"""Standard deviation of the torque noise relative to the effort limit, if it is not given."""


class PriorEstimate(Protocol):
    """Estimated parameters, such as an `Estimate`."""

    @property
    def robot(self) -> Robot:
        """The robot that they belong to."""

    @property
    def base_values(self) -> Array:
        """Values of the base set."""


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """How long and from how many starts `design_motion` searches.

    Parameters
    ----------
    starts : int, default 4
        Number of completed searches. They start from the best of three times as many random motions.
    deadline_s : float, optional
        Seconds after which the search ends. `design_motion` then checks and assesses the best motion so far, which
        takes up to two more seconds for a motion of ten minutes.

    Raises
    ------
    InputError
        If `starts` is not a positive whole number, or the deadline is negative.

    Examples
    --------
    >>> SearchSettings(starts=1, deadline_s=20.0)
    SearchSettings(starts=1, deadline_s=20.0)
    """

    starts: int = 4
    deadline_s: float | None = None

    def __post_init__(self) -> None:
        require_count(self.starts, "starts")
        if self.deadline_s is not None:
            require_number(self.deadline_s, "deadline_s", "[0, inf]")

    def deadline(self, begin: float) -> float | None:
        """Return the time at which the search ends, on the clock of `begin`."""
        return None if self.deadline_s is None else begin + self.deadline_s


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """The completed arguments of a design.

    noise    (n,) standard deviation of the torque, and rate_hz of the log
    beta     (p,) prior values, None if nothing needs them
    earlier  (k, p) weighted rows of earlier logs
    start    (n,) or None if it is free
    """

    columns: Columns
    limits: MotionLimits
    family: Family
    seconds: float
    criterion: Name
    noise: Array
    rate_hz: float
    beta: Array | None
    earlier: Array
    start: Array | None

    @property
    def robot(self) -> Robot:
        """With the drives whose parameters are to be estimated."""
        return self.columns.robot

    @property
    def weights(self) -> Array:
        """(n,) sum of the weights of all rows of a log, for each joint."""
        return np.asarray(len(sample_times(self.seconds, self.rate_hz)) / self.noise**2)


def require_criterion(criterion: str, robot: Robot, previous: Information | None) -> None:
    """Raise if the criterion is unknown, or "joints" for a robot that cannot be identified joint by joint."""
    require_choice(criterion, get_args(Name), "criterion")
    if criterion == "joints" and (robot.has_dependents or previous is not None):
        cause = f"robot {robot.name!r} has {robot.dependence}" if robot.has_dependents else "earlier logs are given"
        raise InputError(
            f"criterion 'joints' is for identification from the last link to the first, but {cause}",
            hint='take criterion="condition"',
            code=Code.UNSUPPORTED,
            subject="criterion" if robot.has_dependents else "previous",
        )


def require_settings(given: T | None, kind: type[T], name: str) -> T:
    """Return the settings, the default ones for None; raise for another type."""
    return kind() if given is None else require_type(given, kind, name, f"{name}=mindyn.{kind.__name__}(...)")


def require_type(given: Any, kind: type[T], name: str, hint: str, what: str = "") -> T:
    """Return an argument; raise if it is not an instance of `kind` (described by `what`), or a class."""
    if isinstance(given, type) or not isinstance(given, kind):
        message = f"{name} must be {what or kind.__name__}, got {given!r}"
        raise InputError(message, hint=hint, code=Code.WRONG_TYPE, subject=name)
    return given


def require_family(family: Family | None) -> Family:
    """Return the family, `Fourier()` if None; raise for anything else, such as a name or a class."""
    if family is None:
        return Fourier()
    hint = "family=mindyn.Fourier(5), or mindyn.BSpline(12)"
    return require_type(family, Family, "family", hint, "a Fourier or a BSpline")  # type: ignore[type-abstract]


def limits_for(robot: Robot, limits: MotionLimits | None) -> MotionLimits:
    """Return the limits, by default the robot's; raise if they have other joints, or leave a joint unlimited."""
    chosen = MotionLimits.of(robot) if limits is None else limits
    require_type(chosen, MotionLimits, "limits", "MotionLimits.of(robot, ...)")
    names = robot.primary_names
    if len(chosen.lower) != len(names):
        raise InputError(
            f"the limits are for {len(chosen.lower)} joints, but robot {robot.name!r} has {len(names)}",
            code=Code.WRONG_SHAPE,
            subject="limits",
        )
    if robot.has_dependents and chosen.dependent is None:
        chosen = replace(chosen, dependent=dependent_limits(robot, {}))
    if not is_affine(robot):
        require_closing(robot, chosen)
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


def noise_of(robot: Robot, limits: MotionLimits, noise: ArrayLike | None) -> Array:
    """Return the standard deviations (n,) of the torque."""
    n = robot.joint_count
    if noise is None:
        unknown = [name for name, effort in zip(robot.primary_names, limits.effort, strict=True) if np.isinf(effort)]
        if unknown:
            raise MissingPhysicsError(
                f"the torque noise of {', '.join(unknown)} is not known: these joints have no effort limit to take "
                f"{100 * NOISE_PART:g} % of",
                hint="give the standard deviation of each torque: noise in the --limits file, noise=... in Python",
                subject="noise",
            )
        return np.asarray(NOISE_PART * limits.effort)
    deviations = np.broadcast_to(frozen_array(noise, () if np.ndim(noise) == 0 else (n,), "noise"), (n,))
    if (deviations <= 0).any():
        raise InputError(f"noise must be positive, got {deviations.tolist()}", code=Code.OUT_OF_RANGE, subject="noise")
    return deviations


def noise_finding(noise: ArrayLike | None) -> tuple[Finding, ...]:
    """Return a finding if the noise was not given."""
    sentence = f"the torque noise is guessed as {100 * NOISE_PART:g} % of each effort limit"
    guess = Finding(Kind.GUESSED_NOISE, Severity.INFO, sentence, "State noise in the limits file")
    return (guess,) if noise is None else ()


def require_rows(columns: Columns, times: int, earlier: Array) -> None:
    """Raise if the log has fewer rows than parameters."""
    rows = times * columns.robot.joint_count
    if rows + len(earlier) < columns.count:
        raise InputError(
            f"a log of {times} samples has {rows} rows, too few for {columns.count} parameters",
            hint="raise rate_hz or seconds",
            code=Code.TOO_LITTLE_DATA,
            subject="seconds",
        )


def prior_values(columns: Columns, limits: MotionLimits, prior: Any) -> Array | None:
    """Return the base values (p,) for the torque limits; None if there are neither values nor torque limits."""
    base = columns.base
    if prior is None:
        if columns.robot.has_parameters:
            return base.values
        if np.isfinite(limits.effort).any():
            raise MissingPhysicsError(
                f"robot {columns.robot.name!r} states no inertial parameters, so its torques are not known",
                hint="effort = inf and noise in N m in the --limits file plan without torques; or take a robot file "
                "with inertial parameters. In Python, pass prior=, an estimate or base values",
                subject=columns.robot.name,
            )
        return None
    if not hasattr(prior, "base_values"):
        return frozen_array(prior, (base.count,), f"prior values of {', '.join(base.names)}")
    values = prior.base_values
    if prior.robot.joint_names != columns.robot.joint_names or len(values) != base.count:
        raise InputError(
            f"the prior has {len(values)} base values of {', '.join(prior.robot.joint_names)}; the motion is for "
            f"{base.count} of {', '.join(columns.robot.joint_names)}",
            hint="estimate and design with the same robot and drives",
            code=Code.DISAGREEMENT,
            subject="prior",
        )
    return frozen_array(values, (base.count,), "the prior's base values")


def earlier_rows(columns: Columns, previous: Information | None, deviations: Array) -> Array:
    """Return R (k, p), where R^T R is the information of earlier logs with joints weighted by their noise."""
    if previous is not None and previous.names != columns.base.names:
        raise InputError(
            "the earlier information has other parameters than the motion",
            hint="gather it with the same robot, drives and plain friction: gather(Regressor(robot), samples)",
            code=Code.DISAGREEMENT,
            subject="previous",
        )
    return np.zeros((0, columns.count)) if previous is None else previous.stacked(1 / deviations**2)[0]


def start_of(robot: Robot, limits: MotionLimits, start: ArrayLike | None) -> Array | None:
    """Return the prescribed start; raise if it lies outside the limits."""
    if start is None:
        return None
    q = frozen_array(start, (robot.joint_count,), "start")
    outside = [
        f"{name} at {value:g} ({low:g} to {high:g})"
        for name, value, low, high in zip(robot.primary_names, q, limits.lower, limits.upper, strict=True)
        if not low <= value <= high
    ]
    if outside:
        raise InputError(
            f"the start lies outside the position limits: {', '.join(outside)}", code=Code.OUT_OF_RANGE, subject="start"
        )
    return q


Purpose = Literal["arm", "payload"]

KNOWN: Final = 1e4
"""1 / (kg m, kg m^2, ...): accuracy of the known arm when a motion is to determine its payload."""


def known_rows(columns: Columns, purpose: Purpose) -> Array:
    """Return rows (k, p) of prior knowledge, with noise of one unit: none for "arm", the arm itself for "payload".

    A load on the last link (see `find_load_carrier`) changes the base parameters by K_load phi, and also friction. The
    left null space of [K_load, K_friction] does not change: for an arm that was identified before, it is known.
    """
    require_choice(purpose, get_args(Purpose), "purpose")
    robot = columns.robot
    if purpose == "arm":
        return np.zeros((0, columns.count))
    K, base = columns.base.matrix, columns.base
    carrier = robot.link_index(find_load_carrier(robot, None))
    load = np.arange(PARAMETERS_PER_LINK * carrier, PARAMETERS_PER_LINK * (carrier + 1))
    changing = ("viscous", "coulomb", "offset")
    standard = standard_parameters(base.robot, drives=base.drives)
    friction = [k for k, parameter in enumerate(standard) if parameter.kind in changing]
    U, s, _ = np.linalg.svd(K[:, [*load, *friction]])
    return np.asarray(KNOWN * U[:, int((s > 1e-9 * s[0]).sum()) :].T)
