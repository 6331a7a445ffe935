"""`hold_joints`: grippers, fingers that mimic another and propellers, which a motion of the arm does not move."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection
from typing import Any, Final

import numpy as np

from mindyn.errors import unknown_name
from mindyn.excitation.limits import BOUNDS, MotionLimits
from mindyn.findings import Finding, Kind, Severity
from mindyn.robots.robot import Robot

GRIPPER: Final = re.compile(r"finger|gripper|knuckle|jaw|claw|thumb", re.IGNORECASE)


def joints_to_hold(robot: Robot, move: Collection[str] = ()) -> tuple[dict[str, float], tuple[Finding, ...]]:
    """Return the positions at which such joints are held, and a finding that names them.

    move  joints that move all the same
    """
    for name in move:
        if name not in robot.joint_names:
            raise unknown_name("joint", name, robot.joint_names)
    followers = {one.joint for one in robot.mimics}
    chosen = {name for name in _grippers(robot) | _propellers(robot) if name not in followers and name not in move}
    if robot.loops or not chosen or len(chosen) + len(followers) >= robot.joint_count:
        return {}, ()
    held = {}
    for joint in robot.joints:
        if joint.name in chosen:
            low, high = (0.0 if end is None else end for end in (joint.limits.lower, joint.limits.upper))
            held[joint.name] = min(max(0.0, low), max(high, low))
    names = ", ".join(held)
    finding = Finding(
        Kind.HELD_JOINT,
        Severity.INFO,
        f"these joints look like a gripper or propellers and are held: {names}",
        f"--move {next(iter(held))} moves one",
        tuple(held),
    )
    return held, (finding,)


def hold_joints(
    robot: Robot, move: Collection[str], limits: MotionLimits | None, *rows: Any
) -> tuple[Robot, tuple[Finding, ...], MotionLimits | None, list[Any]]:
    """Return the robot with such joints held, the finding, and what was given for each joint (n,) without them."""
    held, findings = joints_to_hold(robot, move)
    if not held:
        return robot, findings, limits, list(rows)
    arm = robot.lock(held)
    kept = [robot.primary_names.index(name) for name in arm.primary_names]
    n = len(robot.primary_names)
    if isinstance(limits, MotionLimits) and len(limits.lower) == n:
        bounds = {name: getattr(limits, name)[kept] for name in BOUNDS}
        limits = MotionLimits(**bounds, torque_margin=limits.torque_margin)
    return arm, findings, limits, [np.asarray(row)[kept] if np.shape(row) == (n,) else row for row in rows]


def _grippers(robot: Robot) -> set[str]:
    """Joints called like a gripper's, and mimicked ones that carry nothing else."""
    named = {j.name for j in robot.joints if GRIPPER.search(j.name) or GRIPPER.search(j.child)}
    linked = {name for one in robot.mimics for name in (one.joint, one.of)}
    carrying = {joint.parent: joint.name for joint in robot.joints if joint.name not in linked}
    return named | {joint.name for joint in robot.joints if joint.name in linked and joint.child not in carrying}


def _propellers(robot: Robot) -> set[str]:
    """Joints that turn without end, carry no further joint, and are several on one link."""
    parents = {joint.parent for joint in robot.joints}
    free = [joint for joint in robot.joints if joint.limits.continuous and joint.child not in parents]
    count = Counter(joint.parent for joint in free)
    return {joint.name for joint in free if count[joint.parent] > 1}
