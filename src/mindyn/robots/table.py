"""Format a robot as a text table."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from math import degrees
from textwrap import wrap
from typing import Final

import numpy as np

from mindyn.foundation.algebra.inertia import mass_com_inertia
from mindyn.foundation.algebra.poses import Pose
from mindyn.foundation.algebra.rotations import rpy_from_rotation
from mindyn.foundation.algebra.values import Array
from mindyn.foundation.escaping import TERMINAL_COLUMNS
from mindyn.foundation.hints import Command
from mindyn.foundation.pages.document import format_plural
from mindyn.foundation.printable import make_printable
from mindyn.robots.parts import Drive, Joint
from mindyn.robots.robot import Robot

MIN_COLUMN_WIDTH: Final = 8
"""Columns are not made narrower than this to fit a table."""


def format_table(rows: Sequence[Sequence[str]]) -> str:
    """Format rows of equal length as aligned columns with the first row underlined."""
    head, *others = wrap_rows(rows)
    rule = "-" * max(len(line) for lines in (head, *others) for line in lines)
    return "\n".join([*head, rule, *(line for lines in others for line in lines)])


def wrap_rows(rows: Sequence[Sequence[str]], indent: int = 0) -> list[list[str]]:
    """Return the lines of every row; cells are wrapped to fit `TERMINAL_COLUMNS` minus `indent`."""
    rows = [[make_printable(cell) for cell in row] for row in rows]
    widths = _fit_widths(list(zip(*rows, strict=True)), indent)
    wrapped = []
    for row in rows:
        pairs = zip(row, widths, strict=True)
        cells = [wrap(cell, width, break_on_hyphens=False) if len(cell) > width else [cell] for cell, width in pairs]
        lines = zip_longest(*cells, fillvalue="")
        wrapped.append(["  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() for line in lines])
    return wrapped


def _fit_widths(columns: Sequence[Sequence[str]], indent: int) -> list[int]:
    """Return column widths that fit: the widest column shrinks first, and words are broken only if necessary."""
    widths, available = [max(map(len, column)) for column in columns], TERMINAL_COLUMNS.get()
    words = [max((len(word) for cell in column for word in cell.split()), default=0) for column in columns]
    for least in (words, [MIN_COLUMN_WIDTH] * len(words)):
        while available is not None and sum(widths) + 2 * (len(widths) - 1) > available - indent:
            spare = [width if width > end else 0 for width, end in zip(widths, least, strict=True)]
            if not any(spare):
                break
            widths[spare.index(max(spare))] -= 1
    return widths


def count_joints(robot: Robot) -> str:
    """Return the number of joints with a column in arrays, and that of dependent joints."""
    dependent = len(robot.dependent_names)
    follow = f" and {format_plural(dependent, 'dependent joint')}" if dependent else ""
    return format_plural(robot.joint_count, "joint") + follow


def robot_table(robot: Robot, *, details: bool = False) -> str:
    """Format name, joints, links, gravity, drives, loops, frames and findings of a robot."""
    frames: list[tuple[str, ...]] = [("", "joint", "moves", "on", "axis", "origin xyz [m]", "rpy [deg]")]
    for number, joint in enumerate(robot.joints, 1):
        frames.append((str(number), joint.name, joint.child, joint.parent, _vector(joint.axis), *_pose(joint.origin)))
    if not all(joint.tip.is_identity for joint in robot.joints):
        tips = [("link frame xyz [m]", "rpy [deg]"), *(_pose(joint.tip) for joint in robot.joints)]
        frames = [(*frame, *tip) for frame, tip in zip(frames, tips, strict=True)]
    parts = [
        make_printable(f"{robot.name}: {count_joints(robot)}, root {robot.root.name}")
        + f", gravity {_vector(robot.gravity)} m/s^2",
        format_table(tabulate_joints(robot)),
        format_table(frames),
    ]
    if robot.drives:
        head = (
            "drive of",
            "ratio",
            "coupling",
            "rotor inertia [kg m^2]",
            "viscous",
            "Coulomb",
            "offset",
            "friction at",
        )
        parts.append(format_table([head, *(_drive_row(drive) for drive in robot.drives)]))
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
    for finding in robot.findings:
        cases = [f"  {case}" for case in finding.details if details]
        parts.append("\n".join([f"{finding.severity}: {finding}", *cases]))
    if not details and any(finding.details for finding in robot.findings):
        parts.append(f"individual cases: {Command('robots', robot.file or 'ROBOT', '--details')}")
    return make_printable("\n\n".join(parts), keep="\n")


def tabulate_joints(robot: Robot) -> list[tuple[str, ...]]:
    """Return a header row, and a row for each joint and the link that it moves."""
    rows: list[tuple[str, ...]] = [("", "joint", "type", "range", "mass [kg]", "physical")]
    for number, (joint, link) in enumerate(zip(robot.joints, robot.links, strict=True), 1):
        mass = "unknown" if link.phi is None else f"{mass_com_inertia(link.phi)[0]:.5g}"
        rows.append((str(number), joint.name, joint.kind, _format_range(joint), mass, link.consistency().status))
    return rows


def _vector(values: Array) -> str:
    return " ".join(f"{value + 0.0:.5g}" for value in values)


def _pose(pose: Pose) -> tuple[str, str]:
    return _vector(pose.translation), _vector(np.degrees(rpy_from_rotation(pose.rotation)).round(6))


def _format_range(joint: Joint) -> str:
    angle = joint.kind == "revolute"
    ends = [
        "?" if end is None else f"{degrees(end) if angle else end:.4g}"
        for end in (joint.limits.lower, joint.limits.upper)
    ]
    if joint.limits.continuous:
        return "continuous"
    return "not given" if ends == ["?", "?"] else f"{ends[0]} .. {ends[1]} {'deg' if angle else 'm'}"


def _drive_row(drive: Drive) -> tuple[str, ...]:
    coupling = ", ".join(f"{ratio:g} {joint}" for joint, ratio in drive.coupling.items())
    numbers = (drive.rotor_inertia, drive.viscous, drive.coulomb, drive.offset)
    return (drive.joint, f"{drive.ratio:g}", coupling or "-", *(f"{value:.4g}" for value in numbers), drive.side)
