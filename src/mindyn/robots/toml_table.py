"""Convert a robot to the table of mindyn's format (docs/robot-format.md), for TOML files and estimates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from mindyn.algebra.poses import Pose
from mindyn.notation import DRIVE_PARAMETERS
from mindyn.robots.assembly import assemble
from mindyn.robots.parts import Drive, Frame, Joint, Limits, Link, Loop, Shape
from mindyn.robots.robot import Robot
from mindyn.robots.snapping import Snapper
from mindyn.robots.toml_reader import ROBOT_FORMAT, read_table


def toml_table(robot: Robot) -> dict[str, Any]:
    """Return the robot, except findings and selection, as texts, numbers, lists and tables."""
    head = {
        "format": ROBOT_FORMAT,
        "name": robot.name,
        **({"source": robot.source} if robot.source else {}),
        "convention": "axes",
        "angles": "rad",
        "inertia": "origin",
        "gravity": robot.gravity.tolist(),
        "root": robot.root.name,
        **({} if robot.home is None else {"home": dict(zip(robot.joint_names, robot.home.tolist(), strict=True))}),
    }
    links = [link for link in (robot.root, *robot.links) if link.phi is not None or link.shapes]
    lists: dict[str, list[dict[str, Any]]] = {
        "joint": [_joint(joint) for joint in robot.joints],
        "link": [_link(link) for link in links],
        "drive": [_drive(drive) for drive in robot.drives],
        "loop": [_loop(loop) for loop in robot.loops],
        "mimic": [asdict(mimic) for mimic in robot.mimics],
        "extra": [asdict(extra) for extra in robot.extras],
        "frame": [_frame(frame) for frame in robot.frames],
    }
    return head | {name: entries for name, entries in lists.items() if entries}


def robot_from_table(table: Mapping[str, Any]) -> Robot:
    """Return the robot of a table, the exact inverse of `toml_table`."""
    return assemble(read_table(table, Snapper(active=False)))


def _pose(pose: Pose) -> dict[str, Any]:
    rotation = {} if (pose.rotation == np.eye(3)).all() else {"rotation": pose.rotation.tolist()}
    return {"xyz": pose.translation.tolist(), **rotation}


def _joint(joint: Joint) -> dict[str, Any]:
    table: dict[str, Any] = {
        "name": joint.name,
        "type": joint.kind,
        "parent": joint.parent,
        "child": joint.child,
        "origin": _pose(joint.origin),
        "axis": joint.axis.tolist(),
    }
    if not joint.tip.is_identity:
        table["tip"] = _pose(joint.tip)
    if limits := dict(_limits(joint.limits)):
        table["limits"] = limits
    return table


def _limits(limits: Limits) -> Iterable[tuple[str, float | bool]]:
    for name in limits.__slots__:
        if (value := getattr(limits, name)) is not None and value is not False:
            yield name, value


def _link(link: Link) -> dict[str, Any]:
    table: dict[str, Any] = {"name": link.name}
    if link.phi is not None:
        mass, *phi = link.phi.tolist()
        table |= {"mass": mass, "first_moment": phi[:3], "inertia": phi[3:]}
    if link.shapes:
        table["shapes"] = [_shape(shape) for shape in link.shapes]
    return table


def _shape(shape: Shape) -> dict[str, Any]:
    named = {"filename": shape.filename} if shape.filename else {}
    return {"kind": shape.kind, "dimensions": list(shape.dimensions), **_pose(shape.pose), **named}


def _drive(drive: Drive) -> dict[str, Any]:
    coupling = {"coupling": dict(drive.coupling)} if drive.coupling else {}
    values = {name: getattr(drive, name) for name in DRIVE_PARAMETERS}
    return {"joint": drive.joint, "ratio": drive.ratio, **coupling, **values, "side": drive.side}


def _loop(loop: Loop) -> dict[str, Any]:
    return {
        "name": loop.name,
        "first": {"link": loop.first, **_pose(loop.first_pose)},
        "second": {"link": loop.second, **_pose(loop.second_pose)},
        "dependent": list(loop.dependent),
        "kind": loop.kind,
    }


def _frame(frame: Frame) -> dict[str, Any]:
    return {"name": frame.name, "link": frame.link, **_pose(frame.pose)}
