"""Assembling a robot from links and joints in any order: the root found, fixed joints merged, joints sorted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from mindyn.algebra.inertia import moved_phi
from mindyn.algebra.poses import IDENTITY, Pose
from mindyn.algebra.values import Array
from mindyn.errors import RobotError, unknown_name
from mindyn.robots.parts import Drive, ExtraTorque, Frame, Joint, Link, Loop, Shape
from mindyn.robots.robot import Robot, duplicates


@dataclass(frozen=True, slots=True)
class FixedJoint:
    """A rigid connection: `origin` is the pose of the child's link frame in the parent's."""

    name: str
    parent: str
    child: str
    origin: Pose


def assemble(
    name: str,
    links: Sequence[Link],
    joints: Sequence[Joint | FixedJoint],
    *,
    gravity: Array,
    frames: Sequence[Frame] = (),
    drives: Sequence[Drive] = (),
    loops: Sequence[Loop] = (),
    extras: Sequence[ExtraTorque] = (),
    source: str = "",
    notes: Sequence[str] = (),
) -> Robot:
    """The robot of these parts: one root, no cycle; links behind fixed joints become frames of their carrier."""
    by_name = {link.name: link for link in links}
    if repeated := duplicates(link.name for link in links):
        raise RobotError(f"link names must be unique; repeated: {', '.join(repeated)}")
    order = _depth_first(by_name, joints)
    carrier = _carriers(order, by_name)
    moving = [joint for joint in order if isinstance(joint, Joint)]
    root = next(name for name in by_name if carrier[name][0] == name and all(j.child != name for j in moving))
    merged = {place: _merge(place, by_name, carrier) for place in [root, *(j.child for j in moving)]}
    fixed = [Frame(n, *carrier[n]) for n in by_name if carrier[n][0] != n]
    return Robot(
        name=name,
        root=merged[root],
        joints=tuple(_on_carrier(joint, carrier) for joint in moving),
        links=tuple(merged[joint.child] for joint in moving),
        gravity=gravity,
        frames=(*fixed, *(Frame(f.name, *_carried(f.link, f.pose, carrier)) for f in frames)),
        drives=tuple(drives),
        loops=tuple(_loop_on_carrier(loop, carrier) for loop in loops),
        extras=tuple(extras),
        source=source,
        notes=tuple(notes),
    )


def _depth_first(links: dict[str, Link], joints: Sequence[Joint | FixedJoint]) -> list[Joint | FixedJoint]:
    """The joints with parents before children, siblings in the given order; refuses what is not a tree."""
    for joint in joints:
        for role, link in (("parent", joint.parent), ("child", joint.child)):
            if link not in links:
                raise RobotError(f"joint {joint.name!r} names the {role} link {link!r}, which does not exist")
    children = [joint.child for joint in joints]
    if repeated := duplicates(children):
        raise RobotError(
            f"link {repeated[0]!r} is the child of more than one joint",
            hint="a closed loop is described as a tree plus a loop (mindyn's TOML format), not as a second parent",
        )
    roots = [name for name in links if name not in children]
    if not roots:
        raise RobotError("the links form a cycle: every link is the child of a joint")
    if len(roots) > 1:
        raise RobotError(f"a robot has one root link; these have no parent: {', '.join(roots)}")
    order: list[Joint | FixedJoint] = []
    waiting = [joint for joint in reversed(joints) if joint.parent == roots[0]]
    while waiting:
        joint = waiting.pop()
        order.append(joint)
        waiting.extend(below for below in reversed(joints) if below.parent == joint.child)
    if len(order) < len(joints):
        reached = {joint.child for joint in order}
        lost = [joint.child for joint in joints if joint.child not in reached]
        raise RobotError(f"these links form a cycle apart from the root {roots[0]!r}: {', '.join(lost)}")
    return order


def _carriers(order: Sequence[Joint | FixedJoint], links: dict[str, Link]) -> dict[str, tuple[str, Pose]]:
    """For every link, the link that carries it rigidly (itself if moving) and its pose there."""
    carrier = {name: (name, IDENTITY) for name in links}
    for joint in order:
        if isinstance(joint, FixedJoint):
            place, pose = carrier[joint.parent]
            carrier[joint.child] = (place, pose @ joint.origin)
    return carrier


def _carried(link: str, pose: Pose, carrier: dict[str, tuple[str, Pose]]) -> tuple[str, Pose]:
    if link not in carrier:
        raise unknown_name("link", link, carrier)
    place, X = carrier[link]
    return place, X @ pose


def _on_carrier(joint: Joint, carrier: dict[str, tuple[str, Pose]]) -> Joint:
    place, origin = _carried(joint.parent, joint.origin, carrier)
    return replace(joint, parent=place, origin=origin)


def _loop_on_carrier(loop: Loop, carrier: dict[str, tuple[str, Pose]]) -> Loop:
    first, first_pose = _carried(loop.first, loop.first_pose, carrier)
    second, second_pose = _carried(loop.second, loop.second_pose, carrier)
    return replace(loop, first=first, first_pose=first_pose, second=second, second_pose=second_pose)


def _merge(place: str, links: dict[str, Link], carrier: dict[str, tuple[str, Pose]]) -> Link:
    """The rigid body of `place` and all it carries; parameters are unknown only if none of them states any."""
    parts = [(links[name], X) for name, (on, X) in carrier.items() if on == place]
    if len(parts) == 1:
        return parts[0][0]
    stated = [link.phi if X.is_identity else moved_phi(X, link.phi) for link, X in parts if link.phi is not None]
    shapes = [
        Shape(shape.kind, shape.dimensions, X @ shape.pose, shape.filename)
        for link, X in parts
        for shape in link.shapes
    ]
    return Link(place, sum(stated[1:], start=stated[0]) if stated else None, tuple(shapes))
