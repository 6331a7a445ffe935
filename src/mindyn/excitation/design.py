"""`design_motion`: the motion within limits from which a log tells the parameters best."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import monotonic
from typing import Final, Protocol, get_args

import numpy as np
from numpy.typing import ArrayLike

from mindyn.algebra.values import Array, frozen_array
from mindyn.errors import InputError, MissingPhysicsError
from mindyn.excitation.capsules import Capsule
from mindyn.excitation.columns import Columns
from mindyn.excitation.constraints import Box
from mindyn.excitation.criteria import Criterion, Name
from mindyn.excitation.fourier import Fourier
from mindyn.excitation.instants import Instants
from mindyn.excitation.limits import MotionLimits
from mindyn.excitation.motion_design import MotionDesign, Prediction, earlier_rows, sample_times
from mindyn.excitation.motions import Family, Motion, require_seconds
from mindyn.excitation.problem import KNOTS_PER_CYCLE, SAMPLES_PER_CYCLE, Problem
from mindyn.excitation.safety import Safety, Surroundings, safety_of
from mindyn.excitation.solving import Search, Stopped
from mindyn.excitation.starts import good_starts, places_to_stand, require_excitable
from mindyn.regression.information import Information
from mindyn.regression.regressor import with_estimated_drives
from mindyn.robots.robot import Robot

CHECK_HZ: Final = 1000.0
"""Rate at which a motion is checked against every limit."""
NOISE_PART: Final = 0.01
"""Standard deviation of the torque noise as part of the effort limit, where it is not given."""


class Fitted(Protocol):
    """Parameters found in data, as an `Estimate` holds them."""

    @property
    def robot(self) -> Robot:
        """Whose they are."""

    @property
    def base_values(self) -> Array:
        """Values of the base set."""


def design_motion(
    robot: Robot,
    *,
    seconds: float = 20.0,
    family: Family | None = None,
    criterion: Name = "condition",
    limits: MotionLimits | None = None,
    prior: Fitted | ArrayLike | None = None,
    drives: bool = True,
    noise: ArrayLike | None = None,
    rate_hz: float = 100.0,
    previous: Information | None = None,
    start: ArrayLike | None = None,
    obstacles: Sequence[Capsule] = (),
    workspace: Box | None = None,
    self_collision: bool = True,
    capsules: Sequence[Capsule] | None = None,
    capsule_radius: float | None = None,
    clearance_m: float = 0.01,
    starts: int = 6,
    seed: int = 0,
    deadline_s: float | None = None,
    progress: Callable[[str], None] | None = None,
) -> MotionDesign:
    """A motion within all limits that makes the criterion small; the best so far when it is interrupted.

    family          `Fourier()` if left out, or a `BSpline`
    criterion       "condition", "D", "A" or "E" of the base regressor, rows weighted by 1 / noise^2
    limits          the robot's own if left out; limits that it does not state are asked for
    prior           base values for the torque limits: an estimate or (p,) numbers; the robot's own if left out
    drives          rotor inertia and friction of every joint are parameters as well
    noise           (n,) or one number: standard deviation of the torque noise, N m or N; 1 % of the effort if left out
    rate_hz         of the log that will be recorded, its torque noise independent from row to row
    previous        information of earlier logs: the new motion tells what they do not
    start           (n,) where the motion begins and ends; free if left out
    obstacles       capsules fixed in the root frame (link "")
    workspace       a `Box` that the moving links stay in
    self_collision  whether links must keep apart; by `capsules`, or those made of shapes and joints (`capsules_of`)
    starts          how many searches are made from random motions, drawn by `seed`
    deadline_s      seconds after which the best motion so far is returned
    progress        called with a sentence now and then
    """
    begin = monotonic()
    arm, bounds = _checked_robot(robot, drives), limits or MotionLimits.of(robot)
    deviations = _noise(arm, bounds, noise)
    columns = Columns(arm, drives=drives, speeds=bounds.velocity)
    beta = _prior_values(columns, bounds, prior)
    around = Surroundings(tuple(obstacles), workspace, self_collision, capsules and tuple(capsules), capsule_radius,
                          clearance_m)  # fmt: skip
    safety = safety_of(columns, bounds, beta, around, seed)
    rng = np.random.default_rng(seed)
    problem = _problem(columns, safety, bounds, family or Fourier(), require_seconds(seconds), criterion,
                       _weights(deviations, seconds, rate_hz), _previous(columns, previous, deviations),
                       _start(arm, bounds, start), rng)  # fmt: skip
    places = places_to_stand(problem, bounds, rng)
    dense = Instants.at(sample_times(problem.seconds, CHECK_HZ), problem.family, problem.seconds)
    search = Search(problem, dense, None if deadline_s is None else begin + deadline_s)
    ending = _searched(search, bounds, places, rng, _count(starts), progress or (lambda _: None))
    notes = (*safety.notes, *_noise_note(noise))
    return _design(arm, bounds, problem, search, beta, deviations, rate_hz,
                   f"{ending} after {monotonic() - begin:.1f} s", notes)  # fmt: skip


def _checked_robot(robot: Robot, drives: bool) -> Robot:
    if not isinstance(robot, Robot):
        raise InputError(f"a motion is designed for a Robot, got {type(robot).__name__}")
    if robot.loops:
        raise InputError(f"robot {robot.name!r} has loops; motions are designed for open chains and trees")
    return with_estimated_drives(robot) if drives else robot


def _noise(robot: Robot, limits: MotionLimits, noise: ArrayLike | None) -> Array:
    n = robot.joint_count
    if noise is None:
        unknown = [name for name, one in zip(robot.joint_names, limits.effort, strict=True) if not np.isfinite(one)]
        if unknown:
            raise MissingPhysicsError(
                f"the torque noise of {', '.join(unknown)} is not known: these joints have no effort limit to take "
                f"{100 * NOISE_PART:g} % of",
                hint="give noise=..., the standard deviation of the torque of every joint",
            )
        return np.asarray(NOISE_PART * limits.effort)
    given = np.asarray(noise, dtype=np.float64)
    found = frozen_array(np.full(n, float(given)) if given.ndim == 0 else given, (n,), "noise")
    if (found <= 0).any():
        raise InputError(f"noise must be positive, got {found.tolist()}")
    return found


def _noise_note(noise: ArrayLike | None) -> tuple[str, ...]:
    taken = f"the torque noise was not given: {100 * NOISE_PART:g} % of each effort limit is taken for it"
    return (taken,) if noise is None else ()


def _weights(deviations: Array, seconds: float, rate_hz: float) -> Array:
    """(n,) information of all rows of a log, for each joint."""
    if not np.isfinite(rate_hz) or rate_hz <= 0:
        raise InputError(f"rate_hz must be positive, got {rate_hz!r}")
    return np.asarray(len(sample_times(seconds, rate_hz)) / deviations**2)


def _prior_values(columns: Columns, limits: MotionLimits, prior: Fitted | ArrayLike | None) -> Array | None:
    base = columns.base
    if prior is None:
        if columns.robot.has_parameters:
            return base.values
        if np.isfinite(limits.effort).any():
            raise MissingPhysicsError(
                f"robot {columns.robot.name!r} states no inertial parameters, so its torques are not known",
                hint="give prior=, an estimate or base values; or effort=inf where torques need no check",
            )
        return None
    if hasattr(prior, "base_values"):
        if prior.robot.joint_names != columns.robot.joint_names or len(prior.base_values) < base.count:
            raise InputError("the prior is an estimate of other joints or of other parameters than the motion's")
        return frozen_array(prior.base_values, (base.count,), "the prior's base values")
    return frozen_array(prior, (base.count,), f"prior values of {', '.join(base.names)}")


def _previous(columns: Columns, previous: Information | None, deviations: Array) -> Array:
    if previous is not None and previous.names != columns.base.names:
        raise InputError(
            "the earlier information is of other parameters than the motion's",
            hint="gather it with the same robot, drives and plain friction: gather(Regressor(robot), samples)",
        )
    return earlier_rows(previous, columns.count, 1 / deviations**2)


def _start(robot: Robot, limits: MotionLimits, start: ArrayLike | None) -> Array | None:
    if start is None:
        return None
    q = frozen_array(start, (robot.joint_count,), "start")
    outside = [
        f"{name} at {value:g} ({low:g} to {high:g})"
        for name, value, low, high in zip(robot.joint_names, q, limits.lower, limits.upper, strict=True)
        if not low <= value <= high
    ]
    if outside:
        raise InputError(f"the start lies outside the position limits: {', '.join(outside)}")
    return q


def _count(starts: int) -> int:
    if not isinstance(starts, int) or isinstance(starts, bool) or starts < 1:
        raise InputError(f"starts must be a whole number of at least 1, got {starts!r}")
    return starts


def _problem(
    columns: Columns, safety: Safety, limits: MotionLimits, family: Family, seconds: float, criterion: Name,
    weights: Array, earlier: Array, start: Array | None, rng: np.random.Generator,
) -> Problem:  # fmt: skip
    if criterion not in get_args(Name):
        raise InputError(f"criterion = {criterion!r}; it may be: {', '.join(get_args(Name))}")
    Y = require_excitable(columns, limits, earlier, rng)
    reference = columns.information(Y, weights / len(Y))
    cycles = family.cycles(seconds)
    samples = Instants.of(family, seconds, int(SAMPLES_PER_CYCLE * cycles) + 1)
    knots = Instants.of(family, seconds, int(KNOTS_PER_CYCLE * cycles) + 1)
    return Problem(
        columns,
        Criterion(criterion, 1 / np.sqrt(np.diag(reference))),
        safety.constraints,
        family,
        seconds,
        samples,
        knots,
        weights / len(samples.t),
        earlier.T @ earlier,
        _scales(limits, knots),
        start,
    )


def _scales(limits: MotionLimits, knots: Instants) -> Array:
    """(1 + m, n): the amplitude at which each function alone takes each joint to its nearest limit."""
    halves = (limits.reach, limits.velocity, limits.acceleration, limits.jerk)
    sizes = [np.abs(B[:, 1:]).max(axis=0)[:, None] for B in knots.basis]
    amplitudes = np.min([half / size for half, size in zip(halves, sizes, strict=True)], axis=0)
    return np.vstack([np.minimum(limits.reach, 1.0), amplitudes])


def _searched(
    search: Search, limits: MotionLimits, places: Array, rng: np.random.Generator, starts: int, say: Callable[[str], None]
) -> str:
    """Runs the search; how it ended."""
    problem = search.problem
    try:
        begun = good_starts(problem, limits, places, rng, starts)
        for motion in begun[:1]:
            search.offer(problem.unknowns(motion))
        for number, motion in enumerate(begun, start=1):
            value = search.improve(problem.unknowns(motion))
            say(f"search {number} of {starts}: {_shown(problem, value)}, best {_shown(problem, search.value)}")
    except (KeyboardInterrupt, Stopped) as stop:
        search.salvage()
        if search.best is None:
            _fallback(search, limits, places, rng)
        reason = "interrupted" if isinstance(stop, KeyboardInterrupt) else "stopped at the deadline"
        return f"{reason} in search {len(search.finished) + 1} of {starts}, the best motion so far"
    return f"best of {starts} searches"


def _fallback(search: Search, limits: MotionLimits, places: Array, rng: np.random.Generator) -> None:
    """A random motion, where the time did not suffice for anything else."""
    drawn = rng.normal(size=(search.problem.family.count, len(limits.lower))) * limits.reach
    search.offer(search.problem.unknowns(Motion(search.problem.family, search.problem.seconds, places[0], drawn)))


def _shown(problem: Problem, value: float) -> str:
    if problem.criterion.name == "condition":
        return f"condition number {np.exp(value):.3g}"
    return f"{problem.criterion.name} {value:.4g}"


def _design(
    robot: Robot, limits: MotionLimits, problem: Problem, search: Search, beta: Array | None, noise: Array,
    rate_hz: float, ending: str, notes: tuple[str, ...],
) -> MotionDesign:  # fmt: skip
    motion, columns = search.best, problem.columns
    if motion is None:
        raise InputError(
            "no motion away from any place to stand keeps to the limits",
            hint="widen the limits, give a start with room around it, or lower the clearance",
        )
    log = Instants.at(sample_times(problem.seconds, rate_hz), problem.family, problem.seconds)
    state = log.state(np.vstack([motion.start, motion.coefficients]))
    S = columns.information(columns.signed_regressor(*state[:3]), 1 / noise**2)
    whole = S + problem.earlier
    deviations = np.sqrt(np.diag(_inverse(whole)))
    excitation = np.sqrt(np.diag(S) / len(log.t))
    criteria = {name: Criterion(name, problem.criterion.scales).value(whole) for name in get_args(Name)}
    criteria["condition"] = float(np.exp(criteria["condition"]))
    used = dict(zip(problem.labels, problem.greatest(motion, search.dense).tolist(), strict=True))
    status = (
        f"{ending}: condition number {criteria['condition']:.3g}, {columns.count} parameters, "
        f"{max(used.values()):.1%} of the nearest limit"
    )
    prediction = Prediction(columns.base.names, beta, deviations, excitation)
    return MotionDesign(robot, motion, limits, problem.criterion.name, criteria, prediction, used, noise, rate_hz,
                        status, notes)  # fmt: skip


def _inverse(S: Array) -> Array:
    """Of an information matrix, its columns scaled: entries of different units differ by many powers of ten."""
    d = np.sqrt(np.diag(S))
    return np.asarray(np.linalg.inv(S / d / d[:, None]) / d / d[:, None])
