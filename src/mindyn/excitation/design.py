"""`design_motion`: search for the motion within limits that excites the parameters best."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import replace
from time import monotonic
from typing import Final, get_args

import numpy as np
from numpy.typing import ArrayLike

from mindyn.algebra.blas import run_on_one_blas_thread
from mindyn.algebra.deviations import MAX_WELL_DETERMINED_DEVIATION, relative_deviation
from mindyn.algebra.values import Array, RandomSource, frozen_array, seed_from
from mindyn.equations.closed_motion import is_affine
from mindyn.errors import RobotError, UnsafeMotionError
from mindyn.excitation.approach import approach_from
from mindyn.excitation.columns import Columns
from mindyn.excitation.constraints import Constraint
from mindyn.excitation.criteria import EXTREME, Criterion, Name
from mindyn.excitation.design_inputs import (
    PriorEstimate,
    Purpose,
    Question,
    SearchSettings,
    earlier_rows,
    known_rows,
    limits_for,
    noise_finding,
    noise_of,
    prior_values,
    require_criterion,
    require_family,
    require_rows,
    require_settings,
    start_of,
)
from mindyn.excitation.encounters import allow_overlap_at
from mindyn.excitation.free_ranges import free_ranges, range_constraint
from mindyn.excitation.held_joints import hold_joints
from mindyn.excitation.limits import POSITION_FRACTION, STILL, MotionLimits
from mindyn.excitation.motion_design import MotionDesign, Prediction, check_design, check_finding, check_times
from mindyn.excitation.motions import Family, Instants, sample_times
from mindyn.excitation.problem import KNOTS_PER_CYCLE, SAMPLES_PER_CYCLE, Problem, segments_of_cycle
from mindyn.excitation.safety import SafetySettings, safety_of
from mindyn.excitation.solving import Search, Stopped
from mindyn.excitation.starts import good_starts, places_to_stand, random_motion, require_excitable
from mindyn.findings import Finding
from mindyn.interrupts import acknowledge_interrupt
from mindyn.parameters.parameter import list_base_parameters
from mindyn.regression.information import Information
from mindyn.regression.regressor import with_estimated_drives
from mindyn.robots.edits import find_load_carrier
from mindyn.robots.robot import Robot, require_robot
from mindyn.simulation.inputs import require_positive

BEGINNINGS: Final = 3
"""First stages for every search that is completed."""
TIP_SPEEDS: Final = (0.25, 0.5, 1.0, 2.0)
"""m/s: tip speeds for which a design reports how many parameters the same path determines."""
FREE_FRACTIONS: Final = (0.95, 0.8, 0.0)
"""Fractions of the ranges without contact in which the next search stays if the exact check of a result fails."""
REFINEMENTS: Final = 2
"""Searches from near the best motion, at the end."""


@run_on_one_blas_thread
def design_motion(
    robot: Robot,
    *,
    seconds: float = 20.0,
    family: Family | None = None,
    criterion: Name = "D",
    purpose: Purpose = "arm",
    limits: MotionLimits | None = None,
    speed: float = 0.5,
    acceleration: float = 0.5,
    safety: SafetySettings | None = None,
    search: SearchSettings | None = None,
    prior: PriorEstimate | ArrayLike | None = None,
    drives: bool = True,
    noise: ArrayLike | None = None,
    rate_hz: float = 100.0,
    previous: Information | None = None,
    start: ArrayLike | None = None,
    home: ArrayLike | None = None,
    move: Sequence[str] = (),
    rng: RandomSource = 0,
    executor: Executor | None = None,
    progress: Callable[[str], None] | None = None,
) -> MotionDesign:
    """Design a motion within all limits that minimises the criterion.

    Ctrl-C returns the best motion so far. For robots with closed loops, n counts the primary joints.

    Parameters
    ----------
    robot : Robot
        Robot that will move.
    seconds : float, default 20.0
        Duration of the motion.
    family : Fourier or BSpline, optional
        Functions of time; by default `Fourier()`.
    criterion : {"D", "A", "E", "condition", "joints"}, default "D"
        Criterion of the base regressor, with rows weighted by 1 / noise^2. A small condition number determines all
        parameters equally well, also in a slow motion. "joints" is the largest condition number of all joints' own
        columns, for identification from the last link to the first (`LastLinkFirst`) of robots without dependent
        joints.
    purpose : {"arm", "payload"}, default "arm"
        "arm" excites all parameters; "payload" those of a load on the last link and friction, with a known arm.
    limits : MotionLimits, optional
        Limits of the joints; by default those of the robot.
    speed, acceleration : float, default 0.5
        Fraction of the speed and acceleration limits that may be used (see `MotionLimits.parts`).
    safety : SafetySettings, optional
        Obstacles, floor, volumes, clearance and tip speed.
    search : SearchSettings, optional
        Number of starts, and the deadline.
    prior : Estimate or array_like (p,), optional
        Base values for the torque limits; by default those of the robot.
    drives : bool, default True
        Whether rotor inertia and friction of every joint are parameters too.
    noise : float or array_like (n,), optional
        Standard deviation of the torque noise in N m or N; by default 1 % of the effort limit.
    rate_hz : float, default 100.0
        Sample rate of the log that will be recorded. Its torque noise is taken as independent from row to row.
    previous : Information, optional
        Information of earlier logs, which the new motion complements.
    start : array_like (n,), optional
        Position in rad or m at which the motion begins and ends; free by default.
    home : array_like (n,), optional
        Position in rad or m of the arm before the run. The path to the start and back is then planned and checked too.
    move : sequence of str, optional
        Joints of a gripper or propeller to move. The others are locked, with a finding, and have no row in the design;
        limits, noise, start and home may include or omit them.
    rng : int, numpy.random.Generator or None, default 0
        Source of the random starts. None draws other starts in every call.
    executor : concurrent.futures.Executor, optional
        Each worker runs a search. Unless a deadline ends the search, the motion does not depend on the number of
        workers.
    progress : callable, optional
        Called with a status sentence from time to time.

    Returns
    -------
    MotionDesign
        The motion, what it uses of each limit, the predicted deviations of the parameters, and findings.

    Raises
    ------
    InputError
        If an argument is invalid, or the motion cannot determine all parameters.
    MissingPhysicsError
        If neither the robot nor `limits` states a limit that is needed.
    UnsafeMotionError
        If no motion keeps the limits and distances, or a moving link has no volume.

    Examples
    --------
    >>> import mindyn
    >>> robot = mindyn.load_robot("planar2")
    >>> limits = mindyn.MotionLimits.of(robot, lower=-2.0, upper=2.0, velocity=2.0, effort=4000.0)
    >>> search = mindyn.SearchSettings(starts=1, deadline_s=0.5)
    >>> design = mindyn.design_motion(robot, seconds=6.0, limits=limits, search=search)
    >>> max(design.used.values()) <= 1
    True
    """
    begin = monotonic()
    require_robot(robot, "a motion is designed for")
    robot, held, limits, (noise, start, home) = hold_joints(robot, move, limits, noise, start, home)
    require_criterion(criterion, robot, previous)
    functions = require_family(family)
    search = require_settings(search, SearchSettings, "search")
    safety = require_settings(safety, SafetySettings, "safety")
    seed = seed_from(rng)
    arm = with_estimated_drives(robot) if drives else robot
    whole = limits_for(arm, limits)
    bounds = whole.parts(speed, acceleration).narrowed(POSITION_FRACTION)
    deviations, from_there = noise_of(arm, bounds, noise), start_of(arm, bounds, start)
    stand = None if home is None else frozen_array(home, (arm.joint_count,), "home")
    columns = Columns(arm, drives=drives, speeds=bounds.velocity)
    question = Question(
        columns,
        bounds,
        functions,
        require_positive(seconds, "seconds", "such as 20.0"),
        criterion,
        deviations,
        require_positive(rate_hz, "rate_hz", "such as 100.0"),
        prior_values(columns, bounds, prior),
        np.vstack([earlier_rows(columns, previous, deviations), known_rows(columns, purpose)]),
        from_there,
    )
    require_rows(columns, len(sample_times(question.seconds, question.rate_hz)), question.earlier)
    if purpose == "payload":
        safety = replace(safety, loaded=find_load_carrier(arm, None))
    generator = np.random.default_rng(seed)
    with _naming_singular_positions(arm.name):
        checks = safety_of(columns, bounds, question.beta, safety, seed)
        problem = problem_of(question, checks.constraints, generator)
    checked = check_times(problem.seconds, problem.family.cycles(problem.seconds))
    dense = Instants.at(checked, problem.family, problem.seconds)
    findings = (
        *held,
        *whole.findings(arm, acceleration),
        *checks.findings,
        *noise_finding(noise),
        *check_finding(checked),
    )
    parts = {"position": POSITION_FRACTION, "velocity": float(speed), "acceleration": float(acceleration)}
    say = progress or (lambda _: None)
    ranges, listed = bounds, list[Finding]()
    for fraction in FREE_FRACTIONS:
        run = Search(problem, dense, search.deadline(begin))
        with _naming_singular_positions(arm.name):
            ending = _search_motion(run, ranges, generator, search.starts, say, executor)
        design = _design(question, run, ending, (*findings, *listed), parts)
        design = replace(design, safety=safety, capsules=checks.volumes.capsules)
        try:
            kept = checks
            if stand is not None:
                kept = replace(checks, encounters=allow_overlap_at(checks.encounters, stand))
                places = places_to_stand(replace(problem, start=None), ranges, generator)
                allowed = bounds if robot.has_dependents else replace(bounds, lower=whole.lower, upper=whole.upper)
                way = approach_from(stand, design.motion.start, allowed, kept, places, generator)
                design = replace(design, approach=way)
            design = check_design(design, kept, safety.tip_speed)
        except UnsafeMotionError as unsafe:  # the search ignores pairs whose covers always touch
            if not fraction:
                raise
            say(f"searching again: {unsafe}")
            problem = replace(problem, constraints=checks.constraints)
            places = places_to_stand(problem, bounds, generator)
            ranges = free_ranges(arm, checks.encounters, bounds, places, fraction, generator)
            narrower, listed = range_constraint(arm, bounds, ranges)
            problem = replace(problem, constraints=(*problem.constraints, *narrower))
        else:
            break
    design = _with_determined(question, design, problem.earlier)
    return replace(design, status=f"{design.status} after {monotonic() - begin:.1f} s")


@contextmanager
def _naming_singular_positions(robot: str) -> Iterator[None]:
    """Turn errors at a position within the limits, where loops are singular or open, into one about the motion."""
    try:
        yield
    except RobotError as error:
        raise UnsafeMotionError(
            f"a motion within the limits may pass a position that the robot must not reach: {error}",
            hint="narrow lower and upper of the primary joints to positions away from it",
            subject=robot,
        ) from error


def problem_of(question: Question, constraints: tuple[Constraint, ...], rng: np.random.Generator) -> Problem:
    """Return criterion and constraints as functions of the unknowns; raise if some parameter is unidentifiable."""
    columns, family, seconds = question.columns, question.family, question.seconds
    entries = require_excitable(columns, question.limits, question.earlier, rng)
    earlier = question.earlier.T @ question.earlier
    reference = np.diag(columns.information(entries, question.weights / len(entries)))
    reference = np.where(reference > 0, reference, np.diag(earlier))
    cycles = family.cycles(seconds)
    samples = Instants.of(family, seconds, int(SAMPLES_PER_CYCLE * cycles) + 1)
    series = sum(len(constraint.labels) for constraint in constraints)
    knots = Instants.of(family, seconds, int(KNOTS_PER_CYCLE * cycles) + 1, segments_of_cycle(cycles, series))
    return Problem(
        columns.own_rows() if question.criterion == "joints" else columns,
        Criterion(question.criterion, 1 / np.sqrt(reference), owners=columns.owners),
        constraints,
        family,
        seconds,
        samples,
        knots,
        question.weights / len(samples.t),
        earlier,
        _scales(question.limits, knots),
        question.start,
        None if is_affine(columns.robot) else np.stack([question.limits.lower, question.limits.upper]),
    )


def _scales(limits: MotionLimits, knots: Instants) -> Array:
    """Return the amplitudes (1 + m, n) at which each function alone brings each joint to its nearest limit."""
    halves = [np.maximum(h, STILL) for h in (limits.reach, limits.velocity, limits.acceleration, limits.jerk)]
    sizes = [np.abs(B[:, 1:]).max(axis=0)[:, None] for B in knots.basis]
    amplitudes = np.min([half / size for half, size in zip(halves, sizes, strict=True)], axis=0)
    return np.vstack([np.minimum(halves[0], 1.0), amplitudes])


def _search_motion(
    search: Search,
    limits: MotionLimits,
    rng: np.random.Generator,
    starts: int,
    say: Callable[[str], None],
    executor: Executor | None,
) -> str:
    """Run the search; return how it ended."""
    problem = search.problem
    places = places_to_stand(problem, limits, rng)
    try:
        begun = [problem.unknowns(m) for m in good_starts(search, limits, places, rng, BEGINNINGS * starts)]
        search.offer(begun[0])
        for number, value in enumerate(search.improve(search.first_stage(begun, starts, executor), executor), start=1):
            say(
                f"search {number} of {starts}: {_describe_design(problem, value)}, "
                f"best {_describe_design(problem, search.value)}"
            )
        say(f"refined: {_describe_design(problem, search.refine(rng, REFINEMENTS))}")
    except (KeyboardInterrupt, Stopped) as stop:
        acknowledge_interrupt()
        search.salvage()
        if search.best is None:
            search.offer(problem.unknowns(random_motion(problem, limits, places, rng)))
        reason = "interrupted" if isinstance(stop, KeyboardInterrupt) else "stopped at the deadline"
        where = f"search {len(search.finished) + 1} of {starts}" if len(search.finished) < starts else "refinement"
        return f"{reason} in {where}, the best motion so far"
    return f"best of {starts} {'search' if starts == 1 else 'searches'}"


def _describe_design(problem: Problem, value: float) -> str:
    if problem.criterion.name == "condition":
        return f"condition number {np.exp(value):.3g}"
    if problem.criterion.name == "joints":
        return f"largest condition number of a joint {np.exp(value):.3g}"
    return f"{problem.criterion.name} {value:.4g}"


def _design(
    question: Question,
    search: Search,
    ending: str,
    findings: tuple[Finding, ...],
    parts: dict[str, float],
) -> MotionDesign:
    if search.best is None:
        raise UnsafeMotionError(
            "no motion from any feasible rest position keeps the limits",
            hint="widen the limits, give a start with free space around it, or lower the clearance",
            subject=question.robot.name,
        )
    motion, problem, columns = search.best, search.problem, question.columns
    log = Instants.at(sample_times(question.seconds, question.rate_hz), question.family, question.seconds)
    state = log.state(np.vstack([motion.start, motion.coefficients]))
    entries = columns.signed_entries(*state[:3])
    S = columns.information(entries, 1 / question.noise**2)
    whole = S + problem.earlier
    deviations, excitation = _deviations(whole), np.sqrt(np.diag(S) / len(log.t))
    of_all = [name for name in get_args(Name) if name != "joints"]
    criteria = {name: replace(problem.criterion, name=name, power=EXTREME).value(whole) for name in of_all}
    criteria["condition"] = float(np.exp(criteria["condition"]))
    if question.criterion == "joints":
        blocks = problem.columns.information(problem.columns.signed_entries(*state[:3]), 1 / question.noise**2)
        criteria["joints"] = float(np.exp(replace(problem.criterion, power=EXTREME).value(blocks)))
    used = problem.used(motion, search.dense)
    status = (
        f"{ending}: condition number {criteria['condition']:.3g}, {columns.count} parameters, "
        f"{100 * max(used.values()):.1f} % of the nearest limit"
    )
    units = tuple(parameter.unit for parameter in list_base_parameters(columns.base))
    prediction = Prediction(columns.base.names, units, question.beta, deviations, excitation)
    return MotionDesign(
        question.robot,
        motion,
        question.limits,
        question.criterion,
        criteria,
        prediction,
        used,
        question.noise,
        question.rate_hz,
        status,
        findings,
        parts=parts,
        is_start_given=question.start is not None,
    )


def _with_determined(question: Question, design: MotionDesign, earlier: Array) -> MotionDesign:
    """Add how many parameters the same path determines at other tip speeds."""
    beta, check = question.beta, design.check
    if beta is None or check is None or check.speed <= 0:
        return design
    q, qd, qdd, _ = design.sample(question.rate_hz)
    determined = {}
    for speed in TIP_SPEEDS:
        s = speed / check.speed
        entries = question.columns.signed_entries(q, s * qd, s**2 * qdd)
        S = question.columns.information(entries, 1 / question.noise**2) / s + earlier
        relative = relative_deviation(beta, _deviations(S))
        determined[speed] = int(np.sum(relative <= MAX_WELL_DETERMINED_DEVIATION))
    return replace(design, determined=determined)


def _deviations(S: Array) -> Array:
    """Return the standard deviations (p,) of an information matrix; infinite where it is singular up to rounding.

    Columns are scaled: entries in different units differ by many powers of ten.
    """
    d = np.sqrt(np.diag(S))
    variances = np.diag(np.linalg.inv(S / d / d[:, None])) / d**2
    return np.sqrt(np.where(variances > 0, variances, np.inf))
