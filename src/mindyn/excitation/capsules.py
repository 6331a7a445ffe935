"""`Capsule`: a segment with a radius, fixed to a link; fitted to a robot's shapes or to its joints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from mindyn.algebra.poses import Pose
from mindyn.algebra.values import Array, Value, frozen_array
from mindyn.errors import InputError
from mindyn.robots.parts import Joint, Shape
from mindyn.robots.robot import Robot

RADIUS_PART: Final = 0.05
"""Radius of capsules that are fitted between joints, where none is given: this part of all joint distances"""
RADIUS_OF_LENGTH: Final = 0.5
"""The same is at most this part of their own length: no link is thicker than long."""


@dataclass(frozen=True, slots=True, eq=False)
class Capsule(Value):
    """All points within `radius` (m) of the segment from `a` to `b`, in the frame of a link; a sphere where a = b.

    link  a link's name; the root's, or "" for it, is fixed: an obstacle
    """

    link: str
    a: Array
    b: Array
    radius: float

    def __post_init__(self) -> None:
        for name in ("a", "b"):
            object.__setattr__(self, name, frozen_array(getattr(self, name), (3,), f"end {name} of a capsule"))
        if frozen_array(self.radius, (), "the radius of a capsule") <= 0:
            raise InputError(f"the radius of a capsule must be positive, got {self.radius!r}")


@dataclass(frozen=True, slots=True, eq=False)
class CapsuleModel:
    """The capsules of a robot, and how they were made, as a sentence."""

    capsules: tuple[Capsule, ...]
    origin: str


def capsules_of(robot: Robot, radius: float | None = None) -> CapsuleModel:
    """Capsules around the shapes of every link; between its joints where it has none, or meshes alone."""
    between = _fitted_radius(robot) if radius is None else float(radius)
    made: list[Capsule] = []
    from_shapes, from_joints = [], []
    for number, link in enumerate((robot.root, *robot.links), start=-1):
        shapes = [shape for shape in link.shapes if shape.kind != "mesh" and _has_body(shape)]
        made += [around(shape, link.name) for shape in shapes]
        if shapes:
            from_shapes.append(link.name)
            continue
        segments = _segments(robot, number)
        made += [Capsule(link.name, a, b, _radius(a, b, between, radius)) for a, b in segments]
        if segments:
            from_joints.append(f"{link.name} (its mesh is not read)" if link.shapes else link.name)
    return CapsuleModel(tuple(made), _origin(from_shapes, from_joints, between, radius))


def around(shape: Shape, link: str) -> Capsule:
    """The smallest capsule of its kind around a box, sphere, cylinder or capsule."""
    if shape.kind == "sphere":
        return _placed(shape.pose, link, np.zeros(3), shape.dimensions[0])
    if shape.kind in ("cylinder", "capsule"):
        radius, length = shape.dimensions
        return _placed(shape.pose, link, np.array([0.0, 0.0, length / 2]), radius)
    if shape.kind == "mesh":
        raise InputError(f"the mesh {shape.filename!r} is not read: give its link a capsule")
    half = np.array(shape.dimensions) / 2
    longest = int(half.argmax())
    across = np.delete(half, longest)
    return _placed(shape.pose, link, np.eye(3)[longest] * half[longest], float(np.hypot(*across)))


def _has_body(shape: Shape) -> bool:
    """Whether a shape has any thickness: files state placeholders of size zero."""
    thick = shape.dimensions if shape.kind == "box" else shape.dimensions[:1]
    return sum(size > 0 for size in thick) >= (2 if shape.kind == "box" else 1)


def _placed(pose: Pose, link: str, end: Array, radius: float) -> Capsule:
    return Capsule(link, pose.apply(-end), pose.apply(end), radius)


def _segments(robot: Robot, number: int) -> list[tuple[Array, Array]]:
    """From the joint that moves a link to those and the pins that it carries, or to its frames; in the link frame."""
    begin = np.zeros(3) if number < 0 else _own_joint(robot.joints[number])
    carried = [joint.origin.translation for joint in robot.joints if joint.parent == _name(robot, number)]
    pins = [pin for loop in robot.loops for pin in ((loop.first, loop.first_pose), (loop.second, loop.second_pose))]
    carried += [pose.translation for link, pose in pins if link == _name(robot, number)]
    if not carried:
        carried = [frame.pose.translation for frame in robot.frames if frame.link == _name(robot, number)]
    ends = carried or ([] if number < 0 else [np.zeros(3)])
    return [(begin, end) for end in ends if np.linalg.norm(end - begin) > 1e-6]


def _own_joint(joint: Joint) -> Array:
    return joint.tip.inverse().translation


def _name(robot: Robot, number: int) -> str:
    return robot.root.name if number < 0 else robot.link_names[number]


def _radius(a: Array, b: Array, largest: float, given: float | None) -> float:
    return largest if given is not None else min(largest, RADIUS_OF_LENGTH * float(np.linalg.norm(b - a)))


def _fitted_radius(robot: Robot) -> float:
    lengths = [np.linalg.norm(b - a) for number in range(-1, robot.joint_count) for a, b in _segments(robot, number)]
    return RADIUS_PART * float(np.sum(lengths)) if lengths else RADIUS_PART


def _origin(from_shapes: Sequence[str], from_joints: Sequence[str], between: float, radius: float | None) -> str:
    parts = []
    if from_shapes:
        parts.append(f"around the shapes of {', '.join(from_shapes)}")
    if from_joints:
        fitted = f"at most {between:.3g} m ({RADIUS_PART:g} of the summed joint distances) and half the length"
        chosen = fitted if radius is None else f"{between:.3g} m as given"
        parts.append(f"between the joints of {', '.join(from_joints)}, radius {chosen}")
    return "; ".join(parts) or "none: the links have no shapes and no length"
