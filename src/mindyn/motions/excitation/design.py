"""`design_motion`: search for the motion within limits that excites the parameters best."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from time import monotonic
from typing import Final

import numpy as np

from mindyn.foundation.algebra.blas import run_on_one_blas_thread
from mindyn.foundation.algebra.requirements import require_positive
from mindyn.foundation.algebra.values import Array, RandomSource, seed_from
from mindyn.foundation.errors import RobotError, UnsafeMotionError, pluralise
from mindyn.foundation.findings import Finding
from mindyn.foundation.interrupts import acknowledge_interrupt
from mindyn.motions.excitation.approach import approach_from, is_unreachable, reachable_from, require_free_home
from mindyn.motions.excitation.better_motions import find_levers
from mindyn.motions.excitation.body_pairs import allow_distances_at, allow_overlap_at
from mindyn.motions.excitation.criteria import evaluate_criterion, parameter_deviations
from mindyn.motions.excitation.design_inputs import (
    ExpectedLog,
    MotionSettings,
    Purpose,
    SearchSettings,
    earlier_rows,
    explain_moved_arguments,
    known_rows,
    limits_for,
    noise_of,
    position_of,
    prior_values,
    require_criterion,
    require_excitable,
    require_rows,
    require_settings,
)
from mindyn.motions.excitation.free_ranges import free_ranges, range_constraint
from mindyn.motions.excitation.held_joints import hold_joints
from mindyn.motions.excitation.limits import POSITION_FRACTION, MotionLimits
from mindyn.motions.excitation.motion_columns import Columns
from mindyn.motions.excitation.motion_design import MotionDesign, Prediction, check_design, check_finding, check_times
from mindyn.motions.excitation.motion_safety import Safety, SafetySettings, safety_of
from mindyn.motions.excitation.motions import ApproachPath, Fourier, Instants, Motion, sample_times
from mindyn.motions.excitation.problem import Problem
from mindyn.motions.excitation.servo_design import describe_servos, servo_family, servo_safety
from mindyn.motions.excitation.solving import (
    Search,
    Stopped,
    good_starts,
    places_to_stand,
    random_motion,
    static_values,
)
from mindyn.motions.excitation.whole_turns import turned_motions
from mindyn.parameters.parameter import list_base_parameters
from mindyn.regression.regressor import with_estimated_drives
from mindyn.robots.edits import find_load_carrier
from mindyn.robots.robot import Robot, require_robot

BEGINNINGS: Final = 3
"""Number of first stages that are run for every search that is completed."""
FREE_FRACTIONS: Final = (0.95, 0.8, 0.0)
"""If the exact check of a result fails, the next search stays within these fractions of the ranges without contact."""
OTHER_START: Final = 0.2
"""An approach is tried to both of two starts if their distance, in units of the joints' ranges, is at least this."""
MOST_APPROACHED: Final = 4
"""Largest number of motions to whose starts approaches are planned."""
REFINEMENTS: Final = 2
"""Number of searches at the end that start near the best motion."""


@explain_moved_arguments
@run_on_one_blas_thread
def design_motion(
    robot: Robot,
    *,
    seconds: float = 20.0,
    purpose: Purpose = "arm",
    limits: MotionLimits | None = None,
    motion: MotionSettings | None = None,
    safety: SafetySettings | None = None,
    log: ExpectedLog | None = None,
    search: SearchSettings | None = None,
    rng: RandomSource = 0,
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
    purpose : {"arm", "payload", "servo"}, default "arm"
        "arm" excites all parameters; "payload" those of a load on the last link and friction, with a known arm;
        "servo" damping, friction, armature and gravity, for `identify_servos` with the masses of the robot file. The
        default family then has a period of about 10 s, and the tracking error of the tip is at least 30 mm.
    limits : MotionLimits, optional
        Limits of the joints; by default those of the robot.
    motion : MotionSettings, optional
        Functions of time, fractions of the limits, start, home, and joints of grippers that move too.
    safety : SafetySettings, optional
        Obstacles, floor, volumes, clearance and tip speed.
    log : ExpectedLog, optional
        Rate and noise of the log that will be recorded, its parameters, and what is known already.
    search : SearchSettings, optional
        Criterion, number of starts, and the deadline.
    rng : int, numpy.random.Generator or None, default 0
        Source of the random starts. None draws other starts in every call.
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
    require_robot(robot, "design_motion")
    motion = require_settings(motion, MotionSettings, "motion")
    log = require_settings(log, ExpectedLog, "log")
    search = require_settings(search, SearchSettings, "search")
    safety = require_settings(safety, SafetySettings, "safety")
    joints = (log.noise, motion.start, motion.home)
    robot, held, limits, (noise, start, home) = hold_joints(robot, motion.move, limits, *joints)
    require_criterion(search.criterion, robot, log.previous)
    seed = seed_from(rng)
    arm = with_estimated_drives(robot) if log.with_drives else robot
    whole = limits_for(arm, limits)
    bounds = whole.parts(motion.speed, motion.acceleration).narrowed(POSITION_FRACTION)
    deviations, guessed_noise = noise_of(arm, bounds, noise)
    from_there = position_of(arm, bounds, start, "start")
    allowed = bounds if robot.has_dependents else replace(bounds, lower=whole.lower, upper=whole.upper)
    stand = position_of(arm, allowed, home, "home")
    columns = Columns(arm, with_drives=log.with_drives, speeds=bounds.velocity)
    seconds = require_positive(seconds, "seconds", "such as 20.0")
    family = servo_family(seconds) if purpose == "servo" and motion.family is None else motion.family
    functions = require_settings(family, Fourier, "family")
    rate_hz = require_positive(log.rate_hz, "rate_hz", "such as 100.0")
    beta = prior_values(columns, bounds, log.beta)
    earlier = np.vstack([earlier_rows(columns, log.previous, deviations), known_rows(columns, purpose)])
    require_rows(columns, len(sample_times(seconds, rate_hz)), earlier)
    if purpose == "payload":
        safety = replace(safety, loaded=find_load_carrier(arm, None))
    if purpose == "servo":
        safety = servo_safety(safety)
    generator = np.random.default_rng(seed)
    with _naming_singular_positions(arm.name):
        checks = safety_of(columns, bounds, beta, safety, seed)
        require_excitable(columns, bounds, earlier, generator)
    home_checks, way_checks = checks, checks
    if stand is not None:  # before the search: it would be in vain
        home_checks = replace(checks, encounters=allow_overlap_at(checks.encounters, stand))
        near = allow_distances_at(home_checks.encounters, stand, safety.tracking_error_m)
        way_checks = replace(checks, encounters=near)
        require_free_home(stand, way_checks)
    information = earlier.T @ earlier
    problem = Problem(
        columns,
        bounds,
        functions,
        seconds,
        search.criterion,
        deviations,
        rate_hz,
        information,
        from_there,
        checks.constraints,
    )
    checked = check_times(seconds, functions.cycles(seconds))
    dense = Instants.at(checked, functions, seconds)
    findings = (
        *held,
        *whole.findings(arm, motion.acceleration),
        *checks.findings,
        *guessed_noise,
        *check_finding(checked),
    )
    parts = {
        "position": POSITION_FRACTION,
        "velocity": float(motion.speed),
        "acceleration": float(motion.acceleration),
    }
    deadline = None if search.deadline_s is None else begin + search.deadline_s
    say = progress or (lambda _: None)
    ranges, listed, nearby = bounds, list[Finding](), None
    for fraction in FREE_FRACTIONS:
        run = Search(problem, dense, deadline)
        with _naming_singular_positions(arm.name):
            ending, is_interrupted = _search_motion(run, ranges, generator, search.starts, say, nearby)
        towards = np.zeros(arm.joint_count) if stand is None else stand
        bodies = checks.encounters.bodies
        try:
            chosen, kept, way = turned_motions(problem, _best_motion(run), dense, bodies, towards)[0], checks, None
            if stand is not None:
                kept = home_checks
                groups = [turned_motions(problem, found, dense, bodies, towards) for found in reachable(run)]
                chosen, way = approach_first(stand, groups, allowed, way_checks, seed)
            design = replace(
                _design(run, chosen, ending, beta),
                findings=(*findings, *listed),
                parts=parts,
                approach=way,
                levers=find_levers(problem, chosen, beta, parts),
                is_interrupted=is_interrupted,
                safety=safety,
                capsules=checks.volumes.capsules,
            )
            design = check_design(design, kept, way_checks, safety.tip_speed)
        except UnsafeMotionError as unsafe:  # the search ignores pairs whose covers always touch
            if not fraction:
                raise
            say(f"searching again: {unsafe}")
            problem = replace(problem, constraints=checks.constraints)
            nearby = None
            if stand is not None and from_there is None and is_unreachable(unsafe):
                nearby = reachable_from(stand, bounds, way_checks, generator)
                nearby = nearby[(static_values(problem, nearby) <= 1).all(axis=1)]
                if not len(nearby):
                    raise
            places = places_to_stand(problem, bounds, generator) if nearby is None else nearby
            ranges = free_ranges(arm, checks.encounters, bounds, places, fraction, generator)
            narrower, listed = range_constraint(arm, bounds, ranges)
            problem = replace(problem, constraints=(*problem.constraints, *narrower))
        else:
            break
    design = describe_servos(design) if purpose == "servo" else design
    return replace(design, status=f"{design.status} after {monotonic() - begin:.1f} s")


def reachable(search: Search) -> list[Motion]:
    """Return the best motion, then further motions that begin at other positions, in case the best one has no
    approach.
    """
    best = _best_motion(search)
    return [best, *(motion for motion in search.results(OTHER_START) if motion is not best)][:MOST_APPROACHED]


def approach_first(
    home: Array, groups: Sequence[Sequence[Motion]], limits: MotionLimits, safety: Safety, seed: int
) -> tuple[Motion, ApproachPath]:
    """Return a motion whose start a free path from home reaches, and the path: one of the first group if possible.

    groups  groups of motions that differ by whole turns, the best group first
    """
    best, *others = groups
    for motions in filter(None, (best, [motion for group in others for motion in group])):
        starts = np.array([motion.start for motion in motions])
        try:
            number, way = approach_from(home, starts, limits, safety, np.random.default_rng(seed))
        except UnsafeMotionError as unreachable:
            if motions is not best or not others or not is_unreachable(unreachable):
                raise
        else:
            return motions[number], way
    raise AssertionError("there is at least one group")


@contextmanager
def _naming_singular_positions(robot: str) -> Iterator[None]:
    """Convert errors at a position where loops are singular or open to an error about the motion."""
    try:
        yield
    except RobotError as error:
        raise UnsafeMotionError(
            f"a motion within the limits may pass a position that the robot must not reach: {error}",
            hint="narrow lower and upper of the primary joints to positions away from it",
            subject=robot,
        ) from error


def _search_motion(
    search: Search,
    limits: MotionLimits,
    rng: np.random.Generator,
    starts: int,
    say: Callable[[str], None],
    nearby: Array | None = None,
) -> tuple[str, bool]:
    """Run the search. Return how the search ended, and whether Ctrl-C ended it.

    nearby  (k, n) positions from which the search starts; by default any in which the robot can rest
    """
    problem = search.problem
    if nearby is not None:
        nearby = nearby[((nearby >= limits.lower) & (nearby <= limits.upper)).all(axis=1)]
    places = places_to_stand(problem, limits, rng) if nearby is None or not len(nearby) else nearby
    try:
        begun = [problem.unknowns(m) for m in good_starts(search, limits, places, rng, BEGINNINGS * starts)]
        search.offer(begun[0])
        for number, value in enumerate(search.improve(search.first_stage(begun, starts)), start=1):
            say(
                f"search {number} of {starts}: {_describe_design(problem, value)}, "
                f"best {_describe_design(problem, search.value)}"
            )
        say(f"refined: {_describe_design(problem, search.refine(rng, REFINEMENTS))}")
    except (KeyboardInterrupt, Stopped) as stop:
        acknowledge_interrupt()
        if search.nearly is not None:
            search.offer(search.nearly)
        if search.best is None:
            search.offer(problem.unknowns(random_motion(problem, limits, places, rng)))
        is_interrupted = isinstance(stop, KeyboardInterrupt)
        reason = "interrupted" if is_interrupted else "stopped at the deadline"
        where = f"search {search.finished + 1} of {starts}" if search.finished < starts else "refinement"
        return f"{reason} in {where}, the best motion so far", is_interrupted
    return f"best of {starts} {'search' if starts == 1 else 'searches'}", False


def _describe_design(problem: Problem, value: float) -> str:
    if problem.criterion == "D":
        return f"D {value:.4g}"
    return f"condition number {np.exp(value):.3g}"


def _best_motion(search: Search) -> Motion:
    if search.best is None:
        raise UnsafeMotionError(
            "no motion from any feasible rest position keeps the limits",
            hint="widen the limits, give a start with free space around it, or lower the clearance",
            subject=search.problem.columns.robot.name,
        )
    return search.best


def _design(search: Search, motion: Motion, ending: str, beta: Array | None) -> MotionDesign:
    """Return the design: the motion with the predicted accuracy of its log."""
    problem, columns = search.problem, search.problem.columns
    q, qd, qdd, t = motion.sample(problem.rate_hz)
    entries = columns.signed_entries(q, qd, qdd)
    S = columns.information(entries, 1 / problem.noise**2)
    whole = S + problem.earlier
    criteria = {name: evaluate_criterion(name, whole, columns.owners)[0] for name in ("D", "condition")}
    if problem.criterion in ("A", "E"):
        criteria[problem.criterion] = evaluate_criterion(problem.criterion, whole, columns.owners)[0]
    if problem.criterion == "joints":
        blocks = columns.information(entries * columns.own, 1 / problem.noise**2)
        criteria["joints"] = float(np.exp(evaluate_criterion("joints", blocks, columns.owners)[0]))
    criteria["condition"] = float(np.exp(criteria["condition"]))
    used = problem.used(motion, search.dense)
    units = tuple(parameter.unit for parameter in list_base_parameters(columns.base))
    excitation = np.sqrt(np.diag(S) / len(t))
    return MotionDesign(
        columns.robot,
        motion,
        problem.limits,
        problem.criterion,
        criteria,
        Prediction(columns.base.names, units, beta, parameter_deviations(whole), excitation),
        used,
        problem.noise,
        problem.rate_hz,
        f"{ending}: condition number {criteria['condition']:.3g}, {pluralise(columns.count, 'parameter')}, "
        f"{100 * max(used.values()):.1f} % of the nearest limit",
        is_start_given=problem.start is not None,
    )
