"""`hold_joints`: lock grippers, fingers that mimic other joints, and propellers, because they are not part of the
arm.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any, Final

import numpy as np

from mindyn.equations.loop_closure import home_closure
from mindyn.foundation.errors import Code, InputError
from mindyn.foundation.findings import Finding, Kind, Severity
from mindyn.motions.excitation.limits import BOUNDS, MotionLimits
from mindyn.parameters.parallelogram import branches
from mindyn.robots.robot import Robot

FINGER: Final = re.compile(r"finger|knuckle|jaw|claw|thumb", re.IGNORECASE)
GRIPPER: Final = re.compile(r"gripper", re.IGNORECASE)
WRIST: Final = re.compile(r"wrist|yaw|pitch|roll|rot", re.IGNORECASE)
"""Words in names of joints that rotate a whole gripper."""
PROPELLER: Final = re.compile(r"propell|rotor|wheel|blade", re.IGNORECASE)
ARM_JOINTS: Final = 3
"""Smallest number of joints before the loops of a gripper; loops closer to the root are part of the arm."""


def joints_to_hold(robot: Robot, move: Collection[str] = ()) -> tuple[dict[str, float], tuple[Finding, ...]]:
    """Return the positions at which joints of grippers and propellers are held, and a finding that names them.

    move  joints that are not held
    """
    for name in move:
        robot.joint_index(name)
    propellers = _propellers(robot)
    loops = [{robot.joint_names[k] for k in sum(branches(robot, loop), ())} for loop in robot.loops]
    chosen = (_grippers(robot) | propellers | _gripper_loops(robot, loops)) - set(move)
    for ring in loops:
        if not ring <= chosen:
            chosen -= ring
    followers = {relation.joint for relation in robot.mimics}
    names = [joint.name for joint in robot.joints if joint.name in chosen - followers]
    if names and propellers - set(move) >= set(robot.primary_names):
        raise InputError(
            f"all joints of robot {robot.name!r} look like propellers or wheels, which a motion does not move",
            code=Code.UNSUPPORTED,
            subject=names[0],
            hint=f"--move {names[0]} (move=[{names[0]!r}]) moves it anyway",
        )
    if not names or len(chosen | followers) >= len(robot.joints):
        return {}, ()
    home = home_closure(robot).home if any(ring <= chosen for ring in loops) else np.zeros(len(robot.joints))
    held = {}
    for joint, position in zip(robot.joints, home.tolist(), strict=True):
        if joint.name in names:
            low, high = (position if end is None else end for end in (joint.limits.lower, joint.limits.upper))
            held[joint.name] = min(max(position, low), max(high, low))
    finding = Finding(
        Kind.HELD_JOINT,
        Severity.INFO,
        f"these joints look like a gripper or propellers and are held: {', '.join(held)}",
        f"--move {next(iter(held))} moves one",
        (*held, *(mimic.joint for mimic in robot.mimics if mimic.of in held)),
    )
    return held, (finding,)


def hold_joints(
    robot: Robot, move: Collection[str], limits: MotionLimits | None, *rows: Any
) -> tuple[Robot, tuple[Finding, ...], MotionLimits | None, list[Any]]:
    """Return the robot with these joints locked, the finding, and the given values (n,) without the entries of locked
    joints.
    """
    held, findings = joints_to_hold(robot, move)
    if not held:
        return robot, findings, limits, list(rows)
    arm = robot.lock(held)
    kept = [robot.primary_names.index(name) for name in arm.primary_names]
    n = robot.joint_count
    if isinstance(limits, MotionLimits) and len(limits.lower) == n:
        bounds = {name: getattr(limits, name)[kept] for name in BOUNDS}
        limits = MotionLimits(**bounds, torque_margin=limits.torque_margin)
    return arm, findings, limits, [np.asarray(row)[kept] if np.shape(row) == (n,) else row for row in rows]


def _grippers(robot: Robot) -> set[str]:
    """Return joints whose name is that of a gripper, other joints of the same hand, and mimicked joints without other
    links.
    """
    named = {
        j.name
        for j in robot.joints
        if FINGER.search(f"{j.name} {j.child}") or (GRIPPER.search(j.name) and not WRIST.search(j.name))
    }
    hands = {j.parent for j in robot.joints if j.name in named and FINGER.search(f"{j.name} {j.child}")}
    carried = {j.child for j in robot.joints if j.name in named or j.parent in hands - {robot.root.name}}
    for joint in robot.joints:  # parents come first
        if joint.parent in carried:
            carried.add(joint.child)
    linked = {name for mimic in robot.mimics for name in (mimic.joint, mimic.of)}
    carrying = {joint.parent for joint in robot.joints if joint.name not in linked}
    return {j.name for j in robot.joints if j.child in carried or (j.name in linked and j.child not in carrying)}


def _propellers(robot: Robot) -> set[str]:
    """Return last joints that are propellers by their name, or that are continuous and come in pairs on a link."""
    parents = {joint.parent for joint in robot.joints}
    leaves = [joint for joint in robot.joints if joint.child not in parents and joint.kind == "revolute"]
    count = Counter(joint.parent for joint in leaves if joint.limits.continuous)
    return {
        joint.name
        for joint in leaves
        if (joint.limits.continuous and count[joint.parent] > 1) or PROPELLER.search(f"{joint.name} {joint.child}")
    }


def _gripper_loops(robot: Robot, loops: Sequence[set[str]]) -> set[str]:
    """Return the joints of loops at the end of an arm that carry no further links."""
    ends = set().union(*loops)
    gripper_joints = set()
    for loop, ring in zip(robot.loops, loops, strict=True):
        hand = robot.path(robot.link_index(loop.first))[: -len(branches(robot, loop)[0]) or None]
        below = {
            name for k, name in enumerate(robot.joint_names) if robot.path(k)[: len(hand)] == hand and k not in hand
        }
        if len(hand) >= ARM_JOINTS and below <= ends:
            gripper_joints |= ring
    return gripper_joints
