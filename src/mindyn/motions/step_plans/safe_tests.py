"""`plan_safe_tests`: plan step-by-step tests within collision-free ranges of the joints, checked like a motion."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from mindyn.foundation.algebra.values import Array, frozen_array
from mindyn.foundation.errors import UnsafeMotionError
from mindyn.foundation.findings import Finding, Severity
from mindyn.motions.excitation.body_pairs import Encounters, gaps_of
from mindyn.motions.excitation.limits import POSITION_FRACTION, guessed_limit, with_limits
from mindyn.motions.excitation.motion_check import PathCheck, check_path
from mindyn.motions.excitation.motion_design import require_safe, speed_findings
from mindyn.motions.excitation.motion_safety import (
    PROBES,
    SafetySettings,
    floor_findings,
    unchecked_findings,
    what_to_check,
)
from mindyn.motions.step_plans.joint_reach import DEFAULT_RANGE, DEFAULT_SPEED, USED_SHARE, JointReach
from mindyn.motions.step_plans.plan import StepPlan
from mindyn.motions.step_plans.planner import plan_tests
from mindyn.motions.step_plans.step_motions import Breakaways
from mindyn.robots.parts import Limits
from mindyn.robots.robot import Robot

FRACTIONS: Final = (1.0, 0.8, 0.6, 0.45, 0.35, 0.25, 0.18, 0.12, 0.08, 0.05)
"""Fractions of the range of every joint that are tried, largest first."""
CENTRES: Final = 40
"""Number of positions that are tried as the middle of the ranges."""
TRIED: Final = 200
"""Number of random positions within the ranges that must all be free of collisions."""
RATE_HZ: Final = 100.0
RUN_UP_S: Final = 0.1
"""s: time for which a joint moves at its constant speed along the distance in which it accelerates."""
SLOWED: Final = 4
"""Largest number of plans, each slower than the previous one, until no point exceeds the tip speed."""
SLOWER: Final = 0.95
"""Fraction of the tip speed at which a slower plan aims."""


def plan_safe_tests(
    robot: Robot, around: SafetySettings, *, home: ArrayLike | None = None, seconds: float = 2.0, seed: int = 0
) -> tuple[StepPlan, PathCheck]:
    """Plan tests without collisions, also on the straight paths in joint space from each motion to the next.

    Motions of constant speed begin and end at that speed; the path on which the joint accelerates before and brakes
    after is checked too.

    home  (n,) the paths from home to the first motion, and from the last motion back to home, are checked too

    Raises
    ------
    UnsafeMotionError
        If a moving link has no volume, or the smallest ranges still lead to contact.
    """
    rng, reach = np.random.default_rng(seed), JointReach.of(robot, None)
    margin = (1 - POSITION_FRACTION) / 2 * (reach.upper - reach.lower)
    reach = replace(reach, lower=reach.lower + margin, upper=reach.upper - margin)
    probes = reach.lower + rng.random((PROBES, len(reach.lower))) * (reach.upper - reach.lower)
    volumes, encounters = what_to_check(robot, probes, around)
    centres = probes[_are_apart(encounters, probes)][:CENTRES]
    if not len(centres):
        raise UnsafeMotionError(
            f"robot {robot.name!r} violates a distance at each of {PROBES} random positions",
            hint="give the height of the real floor (--floor HEIGHT), or a smaller distance (--clearance 0.02)",
            subject=robot.name,
        )
    stops = [] if home is None else [(frozen_array(home, reach.lower.shape, "home"),) * 2]
    require_safe(check_path(encounters, [(stop[0][None], None) for stop in stops], 0).findings)
    for lower, upper in _safe_ranges(encounters, reach, centres, rng):
        ranges = dict(zip(robot.primary_names, zip(lower.tolist(), upper.tolist(), strict=True), strict=True))
        slowed = robot
        for _ in range(SLOWED):
            plan = plan_tests(slowed, ranges=ranges, seconds=seconds, rng=seed)
            tracks = [(motion.trajectory(RATE_HZ), isinstance(motion, Breakaways)) for motion in plan.motions.values()]
            paths = [(path.q, None if is_still else path.t) for path, is_still in tracks]
            ends = [(path.q[0] - RUN_UP_S * path.qd[0], path.q[-1] + RUN_UP_S * path.qd[-1]) for path, _ in tracks]
            runs_up = [
                (np.stack(way), None)
                for (path, _), (begin, end) in zip(tracks, ends, strict=True)
                for way in ((begin, path.q[0]), (path.q[-1], end))
                if path.qd[0].any()
            ]
            ways = [(np.stack([before[1], after[0]]), None) for before, after in pairwise([*stops, *ends, *stops])]
            check = check_path(encounters, [*paths, *runs_up, *ways], len(volumes.unknown))
            if check.speed <= around.tip_speed:
                break
            fastest = np.max([np.abs(path.qd).max(axis=0) for path, is_still in tracks if not is_still], axis=0)
            allowed = SLOWER * around.tip_speed / check.speed * fastest
            slowed = with_limits(slowed, {"velocity": np.where(allowed > 0, allowed, reach.speed) / USED_SHARE})
        findings = [*check.findings, *speed_findings(check, around.tip_speed)]
        if not any(finding.severity is Severity.ERROR for finding in findings):
            off = unchecked_findings(around, volumes)
            assumed = (*off, *guessed_reach(robot), *volumes.findings, *floor_findings(robot, around))
            return plan, replace(check, findings=(*assumed, *findings))
    require_safe(findings)
    raise AssertionError("a check that fails has an error among its findings")


def guessed_reach(robot: Robot) -> list[Finding]:
    """Return findings about joints without a range or speed, with the values that tests use."""
    findings = []
    for keys, values in ((("lower", "upper"), DEFAULT_RANGE), (("velocity",), DEFAULT_SPEED)):
        joints = [joint for joint in robot.primary_joints if any(not _is_stated(joint.limits, name) for name in keys)]
        if joints:
            said = ", ".join(f"{joint.name} = {np.round(values[joint.kind], 3).tolist()}" for joint in joints)
            findings.append(guessed_limit(f"guessed {' and '.join(keys)}: {said}", keys, [j.name for j in joints]))
    return findings


def _is_stated(limits: Limits, name: str) -> bool:
    value = getattr(limits, name)
    return value is not None and (name != "velocity" or value > 0)


def _safe_ranges(
    encounters: Encounters, reach: JointReach, centres: Array, rng: np.random.Generator
) -> list[tuple[Array, Array]]:
    """Return ranges in which distances are kept at random positions, the largest first, several for each fraction."""
    ranges = []
    half = (reach.upper - reach.lower) / 2
    for fraction in FRACTIONS:
        for centre in centres:
            lower = np.maximum(centre - fraction * half, reach.lower)
            upper = np.minimum(centre + fraction * half, reach.upper)
            if _are_apart(encounters, lower + rng.random((TRIED, len(half))) * (upper - lower)).all():
                ranges.append((lower, upper))
                break
    return ranges or [(centres[0] - FRACTIONS[-1] * half / 2, centres[0] + FRACTIONS[-1] * half / 2)]


def _are_apart(encounters: Encounters, q: Array) -> Array:
    """Return the rows (N,) in which every encounter keeps its distance."""
    bodies, kept = encounters.bodies, np.ones(len(q), dtype=bool)
    poses = bodies.poses(q)
    for encounter in sorted(
        encounters.checked, key=lambda encounter: encounter.by
    ):  # covers first: they are the fastest
        if kept.any():
            kept[kept] = gaps_of(bodies, encounter, poses[kept]) >= encounter.needed_m
    return kept
