"""A robot as plain lists and dictionaries, so that an estimate's file is complete in itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from mindyn.algebra.poses import Pose
from mindyn.robots.parts import Drive, Joint, Limits, Link
from mindyn.robots.robot import Robot


def robot_record(robot: Robot) -> dict[str, Any]:
    """Kinematics, parameters where known, gravity and drives; frames, shapes and loops are not part of an estimate."""
    return {
        "name": robot.name,
        "root": robot.root.name,
        "gravity": robot.gravity.tolist(),
        "joints": [_joint_record(joint) for joint in robot.joints],
        "links": [{"name": k.name, "phi": None if k.phi is None else k.phi.tolist()} for k in robot.links],
        "drives": [{**_drive_fields(drive), "coupling": dict(drive.coupling)} for drive in robot.drives],
    }


def robot_from_record(record: Mapping[str, Any]) -> Robot:
    """The inverse of `robot_record`."""
    return Robot(
        record["name"],
        Link(record["root"]),
        tuple(_joint(one) for one in record["joints"]),
        tuple(Link(k["name"], None if k["phi"] is None else np.array(k["phi"])) for k in record["links"]),
        np.array(record["gravity"]),
        drives=tuple(Drive(**one) for one in record["drives"]),
    )


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


def _pose_record(pose: Pose) -> dict[str, Any]:
    return {"rotation": pose.rotation.tolist(), "translation": pose.translation.tolist()}


def _pose(record: Mapping[str, Any]) -> Pose:
    return Pose(np.array(record["rotation"]), np.array(record["translation"]))
