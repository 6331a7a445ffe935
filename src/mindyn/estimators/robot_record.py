"""A robot as plain lists and dictionaries, so that an estimate's file is complete in itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from mindyn.algebra.poses import Pose
from mindyn.robots.description import Selection
from mindyn.robots.parts import Drive, ExtraTorque, Frame, Joint, Limits, Link, Loop, Mimic, Shape
from mindyn.robots.robot import Robot


def robot_record(robot: Robot) -> dict[str, Any]:
    """All of a robot but its notes."""
    return {
        "name": robot.name,
        "root": _link_record(robot.root),
        "gravity": robot.gravity.tolist(),
        "joints": [_joint_record(joint) for joint in robot.joints],
        "links": [_link_record(link) for link in robot.links],
        "frames": [{"name": k.name, "link": k.link, "pose": _pose_record(k.pose)} for k in robot.frames],
        "drives": [{**_drive_fields(drive), "coupling": dict(drive.coupling)} for drive in robot.drives],
        "loops": [_loop_record(loop) for loop in robot.loops],
        "extras": [asdict(extra) for extra in robot.extras],
        "mimics": [asdict(mimic) for mimic in robot.mimics],
        "home": None if robot.home is None else robot.home.tolist(),
        "source": robot.source,
        "selection": robot.selection.to_dict(),
    }


def robot_from_record(record: Mapping[str, Any]) -> Robot:
    """The inverse of `robot_record`; keys that files of earlier versions do not have are taken as empty."""
    root = record["root"]
    return Robot(
        record["name"],
        Link(root) if isinstance(root, str) else _link(root),
        tuple(_joint(one) for one in record["joints"]),
        tuple(_link(one) for one in record["links"]),
        np.array(record["gravity"]),
        frames=tuple(Frame(k["name"], k["link"], _pose(k["pose"])) for k in record.get("frames", ())),
        drives=tuple(Drive(**one) for one in record["drives"]),
        loops=tuple(_loop(one) for one in record.get("loops", ())),
        extras=tuple(ExtraTorque(**one) for one in record.get("extras", ())),
        mimics=tuple(Mimic(**one) for one in record.get("mimics", ())),
        home=record.get("home"),
        source=record.get("source", ""),
        selection=Selection(**record.get("selection", {})),
    )


def _link_record(link: Link) -> dict[str, Any]:
    shapes = [
        {"kind": k.kind, "dimensions": list(k.dimensions), "pose": _pose_record(k.pose), "filename": k.filename}
        for k in link.shapes
    ]
    return {"name": link.name, "phi": None if link.phi is None else link.phi.tolist(), "shapes": shapes}


def _link(record: Mapping[str, Any]) -> Link:
    shapes = tuple(
        Shape(k["kind"], tuple(k["dimensions"]), _pose(k["pose"]), k["filename"]) for k in record.get("shapes", ())
    )
    return Link(record["name"], None if record["phi"] is None else np.array(record["phi"]), shapes)


def _drive_fields(drive: Drive) -> dict[str, Any]:
    names = ("joint", "ratio", "rotor_inertia", "viscous", "coulomb", "offset", "side")
    return {name: getattr(drive, name) for name in names}


def _joint_record(joint: Joint) -> dict[str, Any]:
    return {
        "name": joint.name,
        "kind": joint.kind,
        "parent": joint.parent,
        "child": joint.child,
        "origin": _pose_record(joint.origin),
        "axis": joint.axis.tolist(),
        "tip": _pose_record(joint.tip),
        "limits": asdict(joint.limits),
    }


def _joint(record: Mapping[str, Any]) -> Joint:
    return Joint(
        record["name"],
        record["kind"],
        record["parent"],
        record["child"],
        _pose(record["origin"]),
        np.array(record["axis"]),
        _pose(record["tip"]),
        Limits(**record["limits"]),
    )


def _loop_record(loop: Loop) -> dict[str, Any]:
    return {
        "name": loop.name,
        "links": [loop.first, loop.second],
        "poses": [_pose_record(loop.first_pose), _pose_record(loop.second_pose)],
        "dependent": list(loop.dependent),
        "kind": loop.kind,
    }


def _loop(record: Mapping[str, Any]) -> Loop:
    first, second = record["links"]
    poses = (_pose(record["poses"][0]), _pose(record["poses"][1]))
    return Loop(record["name"], first, second, *poses, tuple(record["dependent"]), record.get("kind", "pin"))


def _pose_record(pose: Pose) -> dict[str, Any]:
    return {"rotation": pose.rotation.tolist(), "translation": pose.translation.tolist()}


def _pose(record: Mapping[str, Any]) -> Pose:
    return Pose(np.array(record["rotation"]), np.array(record["translation"]))
