"""Writing mindyn's own format: exact, every number with the digits that give it back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mindyn.algebra.poses import Pose
from mindyn.escaping import toml_key, toml_string
from mindyn.estimators.estimate import Estimate
from mindyn.export.models import Prior, model_of
from mindyn.files import write_whole
from mindyn.notation import DRIVE_PARAMETERS
from mindyn.robots.parts import Drive, Frame, Joint, Limits, Link, Loop, Mimic, Shape
from mindyn.robots.robot import Robot
from mindyn.robots.toml_reader import FORMAT


def robot_to_toml(robot: Robot) -> str:
    """The TOML text of a robot; reading it with snap=False gives the same robot, bit by bit."""
    head: dict[str, Any] = {
        "format": FORMAT,
        "name": robot.name,
        **({"source": robot.source} if robot.source else {}),
        "convention": "axes",
        "angles": "rad",
        "inertia": "origin",
        "gravity": robot.gravity,
        "root": robot.root.name,
        **({} if robot.home is None else {"home": dict(zip(robot.joint_names, robot.home, strict=True))}),
    }
    links = [link for link in (robot.root, *robot.links) if link.phi is not None or link.shapes]
    parts = [_lines(head)]
    parts += [_table("joint", _joint(joint)) for joint in robot.joints]
    parts += [_table("link", _link(link)) for link in links]
    parts += [_table("drive", _drive(drive)) for drive in robot.drives]
    parts += [_table("loop", _loop(loop)) for loop in robot.loops]
    parts += [_table("mimic", _mimic(mimic)) for mimic in robot.mimics]
    parts += [
        _table("extra", {"name": e.name, "joint": e.joint, "formula": e.formula, "coefficient": e.coefficient})
        for e in robot.extras
    ]
    parts += [_table("frame", _frame(frame)) for frame in robot.frames]
    return "\n\n".join(parts) + "\n"


def write_toml(model: Robot | Estimate, path: str | Path, *, prior: Prior = "robot", force: bool = False) -> None:
    """Write a robot, or the full model behind an estimate (`prior` and `force` are its own), in mindyn's format."""
    write_whole(path, robot_to_toml(model_of(model, prior, force=force)))


def _value(value: Any) -> str:
    if isinstance(value, str):
        return toml_string(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{toml_key(key)} = {_value(item)}" for key, item in value.items()) + " }"
    if isinstance(value, (np.ndarray, list, tuple)):
        return "[" + ", ".join(map(_value, value)) + "]"
    return repr(float(value))


def _lines(table: Mapping[str, Any]) -> str:
    return "\n".join(f"{toml_key(key)} = {_value(value)}" for key, value in table.items())


def _table(name: str, table: Mapping[str, Any]) -> str:
    return f"[[{name}]]\n{_lines(table)}"


def _pose(pose: Pose) -> dict[str, Any]:
    turned = {} if (pose.rotation == np.eye(3)).all() else {"rotation": pose.rotation}
    return {"xyz": pose.translation, **turned}


def _joint(joint: Joint) -> dict[str, Any]:
    table: dict[str, Any] = {
        "name": joint.name,
        "type": joint.kind,
        "parent": joint.parent,
        "child": joint.child,
        "origin": _pose(joint.origin),
        "axis": joint.axis,
    }
    if not joint.tip.is_identity:
        table["tip"] = _pose(joint.tip)
    if limits := dict(_stated(joint.limits)):
        table["limits"] = limits
    return table


def _stated(limits: Limits) -> Iterable[tuple[str, float | bool]]:
    for name in limits.__slots__:
        if (value := getattr(limits, name)) is not None and value is not False:
            yield name, value


def _link(link: Link) -> dict[str, Any]:
    table: dict[str, Any] = {"name": link.name}
    if link.phi is not None:
        table |= {"mass": link.phi[0], "first_moment": link.phi[1:4], "inertia": link.phi[4:]}
    if link.shapes:
        table["shapes"] = [_shape(shape) for shape in link.shapes]
    return table


def _shape(shape: Shape) -> dict[str, Any]:
    named = {"filename": shape.filename} if shape.filename else {}
    return {"kind": shape.kind, "dimensions": shape.dimensions, **_pose(shape.pose), **named}


def _drive(drive: Drive) -> dict[str, Any]:
    coupling = {"coupling": drive.coupling} if drive.coupling else {}
    values = {name: getattr(drive, name) for name in DRIVE_PARAMETERS}
    return {"joint": drive.joint, "ratio": drive.ratio, **coupling, **values, "side": drive.side}


def _loop(loop: Loop) -> dict[str, Any]:
    return {
        "name": loop.name,
        "first": {"link": loop.first, **_pose(loop.first_pose)},
        "second": {"link": loop.second, **_pose(loop.second_pose)},
        "dependent": loop.dependent,
        "kind": loop.kind,
    }


def _mimic(mimic: Mimic) -> dict[str, Any]:
    return {"joint": mimic.joint, "of": mimic.of, "multiplier": mimic.multiplier, "offset": mimic.offset}


def _frame(frame: Frame) -> dict[str, Any]:
    return {"name": frame.name, "link": frame.link, **_pose(frame.pose)}
