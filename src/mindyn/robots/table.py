"""A robot as a table a person can read."""

from __future__ import annotations

from collections.abc import Sequence
from math import degrees

import numpy as np

from mindyn.algebra.inertia import mass_com_inertia
from mindyn.algebra.poses import Pose
from mindyn.algebra.rotations import to_rpy
from mindyn.algebra.values import Array
from mindyn.escaping import printable
from mindyn.robots.parts import Drive, Joint, Link
from mindyn.robots.robot import Robot

_HEADER = ("", "joint", "type", "moves", "on", "axis", "origin xyz [m]", "rpy [deg]", "range", "mass [kg]", "physical")
_TIP_HEADER = ("link frame xyz [m]", "rpy [deg]")


def text_table(rows: Sequence[Sequence[str]]) -> str:
    """Rows of equal length as aligned columns; the first row is underlined."""
    rows = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:]])


def robot_table(robot: Robot, *, details: bool = False) -> str:
    """Name, joints, links, gravity, drives, loops, frames and notes."""
    rows = joint_rows(robot)
    if not all(joint.tip.is_identity for joint in robot.joints):
        tips = [_TIP_HEADER, *(_pose(joint.tip) for joint in robot.joints)]
        rows = [(*row[:8], *tip, *row[8:]) for row, tip in zip(rows, tips, strict=True)]
    parts = [
        printable(f"{robot.name}: {robot.joint_count} joints, root {robot.root.name}")
        + f", gravity {_vector(robot.gravity)} m/s^2",
        text_table(rows),
    ]
    if robot.drives:
        parts.append(text_table([_DRIVE_HEADER, *(_drive_row(drive) for drive in robot.drives)]))
    for loop in robot.loops:
        closed = {"pin": "pinned to", "slide": "sliding on", "ball": "held by a ball to", "weld": "welded to"}[
            loop.kind
        ]
        parts.append(f"loop {loop.name}: {loop.first} {closed} {loop.second}; dependent: {', '.join(loop.dependent)}")
    for mimic in robot.mimics:
        parts.append(f"{mimic.joint} mimics {mimic.of}: {mimic.multiplier:g} * q {mimic.offset:+g}")
    for extra in robot.extras:
        parts.append(f"extra torque {extra.name} on {extra.joint}: {extra.coefficient:g} * ({extra.formula})")
    if robot.frames:
        parts.append("frames: " + ", ".join(f"{frame.name} (on {frame.link})" for frame in robot.frames))
    if robot.source:
        parts.append(f"source: {robot.source}")
    for note in robot.notes:
        parts.append("\n".join([f"note: {note}", *(f"  {case}" for case in note.details if details)]))
    if not details and any(note.details for note in robot.notes):
        parts.append("single cases: mindyn robots ROBOT --details, or robot.notes[i].details")
    return printable("\n\n".join(parts), keep="\n")


def joint_rows(robot: Robot) -> list[tuple[str, ...]]:
    """A head, and a row for each joint with the link that it moves."""
    pairs = enumerate(zip(robot.joints, robot.links, strict=True), 1)
    return [_HEADER, *(_joint_row(i, joint, link) for i, (joint, link) in pairs)]


def _vector(values: Array) -> str:
    return " ".join(f"{value + 0.0:.5g}" for value in values)


def _pose(pose: Pose) -> tuple[str, str]:
    return _vector(pose.translation), _vector(np.degrees(to_rpy(pose.rotation)).round(6))


def _joint_row(number: int, joint: Joint, link: Link) -> tuple[str, ...]:
    mass = "unknown" if link.phi is None else f"{mass_com_inertia(link.phi)[0]:.5g}"
    return (
        str(number),
        joint.name,
        joint.kind,
        joint.child,
        joint.parent,
        _vector(joint.axis),
        *_pose(joint.origin),
        _range(joint),
        mass,
        link.consistency().status,
    )


def _range(joint: Joint) -> str:
    angle = joint.kind == "revolute"
    ends = [
        "?" if end is None else f"{degrees(end) if angle else end:.4g}"
        for end in (joint.limits.lower, joint.limits.upper)
    ]
    if joint.limits.continuous:
        return "without end"
    return "not stated" if ends == ["?", "?"] else f"{ends[0]} .. {ends[1]} {'deg' if angle else 'm'}"


_DRIVE_HEADER = (
    "drive of",
    "ratio",
    "coupling",
    "rotor inertia [kg m^2]",
    "viscous",
    "Coulomb",
    "offset",
    "friction at",
)


def _drive_row(drive: Drive) -> tuple[str, ...]:
    coupling = ", ".join(f"{ratio:g} {joint}" for joint, ratio in drive.coupling.items())
    numbers = (drive.rotor_inertia, drive.viscous, drive.coulomb, drive.offset)
    return (drive.joint, f"{drive.ratio:g}", coupling or "-", *(f"{value:.4g}" for value in numbers), drive.side)
