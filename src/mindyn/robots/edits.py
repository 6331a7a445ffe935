"""Derive new robots: cut a chain, lock joints, add a payload, change gravity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from mindyn.foundation.algebra.inertia import check_consistency, phi_about_origin, transform_phi
from mindyn.foundation.algebra.poses import IDENTITY, Pose
from mindyn.foundation.algebra.rotations import rotation_from_rpy
from mindyn.foundation.algebra.values import Array, frozen_array
from mindyn.foundation.errors import Code, InputError, list_names
from mindyn.robots.assembly import (
    assemble_robot,
    attach_frame,
    attach_joint,
    attach_loop,
    describe_robot,
    transform_link,
)
from mindyn.robots.description import Selection
from mindyn.robots.parts import Link
from mindyn.robots.robot import Robot

MOUNTS: Mapping[str, tuple[float, float, float]] = {
    "floor": (0.0, 0.0, 0.0),
    "ceiling": (np.pi, 0.0, 0.0),
    "wall": (0.0, np.pi / 2, 0.0),
}
"""Named orientations of the root frame in the world, as roll, pitch, yaw in rad."""


def select_part(robot: Robot, wanted: Selection) -> Robot:
    """Hold the given joints and all joints that mimic them, then cut a chain or a subtree.

    A held link becomes a rigid part of its parent and a frame of the same name. Its drive is dropped; drives coupled to
    a held joint lose that coupling, because the joint no longer turns. The new root has its orientation at q = 0. Links
    off a chain are dropped with their mass; lock their joints first to keep them as rigid parts.
    """
    return replace(assemble_robot(describe_robot(robot).select(wanted)), file=robot.file)


def change_link_frames(robot: Robot, links: Sequence[Pose]) -> Robot:
    """Return a robot that describes the same mechanism in other link frames, with transformed parameters.

    links  pose of each source link frame in the new one
    """
    root = robot.root.name
    places = {root: (root, IDENTITY)} | {name: (name, X) for name, X in zip(robot.link_names, links, strict=True)}
    joints = [
        replace(attach_joint(joint, places), tip=joint.tip @ X.inverse())
        for joint, X in zip(robot.joints, links, strict=True)
    ]
    return replace(
        robot,
        joints=tuple(joints),
        links=tuple(transform_link(link, X) for link, X in zip(robot.links, links, strict=True)),
        frames=tuple(attach_frame(frame, places) for frame in robot.frames),
        loops=tuple(attach_loop(loop, places) for loop in robot.loops),
    )


def with_payload(robot: Robot, mass: float, com: ArrayLike, inertia: ArrayLike, at: str | None = None) -> Robot:
    """Add a rigid payload: `mass` kg, centre `com` (3,) m, tensor `inertia` (3, 3) about that centre.

    `at` names the link or frame in which the payload is given; it is optional if the robot has only one last link.
    """
    centre = frozen_array(com, (3,), "payload com")
    tensor = frozen_array(inertia, (3, 3), "payload inertia")
    load = phi_about_origin(float(frozen_array(mass, (), "payload mass")), centre, (tensor + tensor.T) / 2)
    consistency = check_consistency(load)
    if not consistency.is_feasible or load[0] <= 0 or not np.allclose(tensor, tensor.T):
        reason = consistency.reason or ("its mass is not positive" if load[0] <= 0 else "its tensor is not symmetric")
        message = f"the payload is not physically consistent: {reason}"
        raise InputError(message, code=Code.NOT_FEASIBLE, subject="payload")
    index, X = robot.locate(_only_tip(robot, "at") if at is None else at)
    if index < 0:
        message = f"a payload on the root link {robot.root.name!r} does not move and has no effect"
        raise InputError(message, subject=robot.root.name if at is None else at, code=Code.UNSUPPORTED)
    carrier = robot.links[index]
    if carrier.phi is None:
        robot.phi  # noqa: B018 - raises the error that names the links without parameters
    links = list(robot.links)
    links[index] = Link(carrier.name, carrier.phi + transform_phi(X, load), carrier.shapes)  # type: ignore[operator]
    return replace(robot, links=tuple(links))


def _only_tip(robot: Robot, option: str) -> str:
    """Return the only last link.

    If there are several, raise `InputError` with the name of the option that selects one.
    """
    tips = _tip_links(robot)
    if len(tips) != 1:
        message = f"robot {robot.name!r} has several last links: {list_names(tips)}"
        hint = f'pass {option}="{tips[0]}"{" (--link)" if option == "link" else ""}'
        raise InputError(message, hint=hint, code=Code.AMBIGUOUS, subject=option)
    return tips[0]


def _tip_links(robot: Robot) -> list[str]:
    """Return the links that have no child joint and are not held by a loop.

    If loops hold all of them, return all links without a child joint.
    """
    tips = [robot.links[i].name for i in range(len(robot.joints)) if not robot.children[i]]
    held = {end for loop in robot.loops for end in (loop.first, loop.second)}
    return [name for name in tips if name not in held] or tips


def find_load_carrier(robot: Robot, link: str | None) -> str:
    """Return the link that carries a load: `link`, or else the only last link that no loop holds."""
    if link is not None:
        robot.link_index(link)
        return link
    return _only_tip(robot, "link") if robot.loops else robot.link_names[-1]


def with_gravity(robot: Robot, gravity: ArrayLike | None, mount: str | ArrayLike | None) -> Robot:
    """Set `gravity` (3,) of the world, with the root turned in the world by `mount`.

    `mount` is "floor", "ceiling", "wall", or roll, pitch, yaw in rad. Without `mount` the root frame is the world.
    """
    if isinstance(mount, str) and mount not in MOUNTS:
        message = f"mount must be one of {', '.join(MOUNTS)} or roll, pitch, yaw in rad; got {mount!r}"
        raise InputError(message, code=Code.UNKNOWN_NAME, subject=mount)
    world = robot.gravity if gravity is None else frozen_array(gravity, (3,), "gravity")
    rpy = MOUNTS[mount] if isinstance(mount, str) else (0.0, 0.0, 0.0) if mount is None else mount
    R_world_root: Array = rotation_from_rpy(*frozen_array(rpy, (3,), "mount"))
    return replace(robot, gravity=R_world_root.T @ world)
