"""Derive new robots: cut a chain, lock joints, add a payload, change gravity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from mindyn.algebra.inertia import check_consistency, phi_about_origin, transform_phi
from mindyn.algebra.poses import IDENTITY, Pose, rotation_from_rpy
from mindyn.algebra.values import Array, frozen_array
from mindyn.errors import Code, InputError, list_names
from mindyn.robots.assembly import assemble, describe_robot
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
    """Hold joints, and those that mimic them, and cut a chain or subtree.

    A held link becomes a rigid part of its parent and a frame of the same name. Its drive is dropped; drives coupled to
    a held joint lose that coupling, because the joint no longer turns. The new root has its orientation at q = 0. Links
    off a chain are dropped with their mass; lock their joints first to keep them as rigid parts.
    """
    return replace(assemble(describe_robot(robot).select(wanted)), file=robot.file)


def change_link_frames(robot: Robot, links: Sequence[Pose]) -> Robot:
    """Describe the same mechanism in other link frames, with transformed parameters.

    links  pose of each source link frame in the new one
    """
    to_source = dict(zip(robot.link_names, links, strict=True))
    joints = [
        replace(
            joint,
            origin=to_source[joint.parent] @ joint.origin if joint.parent in to_source else joint.origin,
            tip=joint.tip @ to_source[joint.child].inverse(),
        )
        for joint in robot.joints
    ]
    moved = [
        Link(
            link.name,
            None if link.phi is None else transform_phi(X, link.phi),
            tuple(replace(shape, pose=X @ shape.pose) for shape in link.shapes),
        )
        for link, X in zip(robot.links, links, strict=True)
    ]
    frames = [
        replace(frame, pose=to_source[frame.link] @ frame.pose) if frame.link in to_source else frame
        for frame in robot.frames
    ]
    loops = [
        replace(
            loop,
            first_pose=to_source.get(loop.first, IDENTITY) @ loop.first_pose,
            second_pose=to_source.get(loop.second, IDENTITY) @ loop.second_pose,
        )
        for loop in robot.loops
    ]
    return replace(robot, joints=tuple(joints), links=tuple(moved), frames=tuple(frames), loops=tuple(loops))


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
    index, X = robot.locate(_last_link(robot) if at is None else at)
    if index < 0:
        message = f"a payload on the root link {robot.root.name!r} does not move and has no effect"
        raise InputError(message, subject=robot.root.name if at is None else at, code=Code.UNSUPPORTED)
    carrier = robot.links[index]
    if carrier.phi is None:
        robot.phi  # noqa: B018 - raises the error that names the links without parameters
    links = list(robot.links)
    links[index] = Link(carrier.name, carrier.phi + transform_phi(X, load), carrier.shapes)  # type: ignore[operator]
    return replace(robot, links=tuple(links))


def _last_link(robot: Robot) -> str:
    tips = _tips(robot)
    if len(tips) != 1:
        message = f"the robot has several last links: {list_names(tips)}"
        raise InputError(message, hint=f"pass at={tips[0]!r}", code=Code.AMBIGUOUS, subject="at")
    return tips[0]


def _tips(robot: Robot) -> list[str]:
    """Return the links without a child joint that no loop holds; if loops hold all of them, return all."""
    tips = [robot.links[i].name for i in range(len(robot.joints)) if not robot.children[i]]
    held = {end for loop in robot.loops for end in (loop.first, loop.second)}
    return [name for name in tips if name not in held] or tips


def find_load_carrier(robot: Robot, link: str | None) -> str:
    """Return the link that carries a load: `link` or the last one; with loops, the only tip that no loop holds."""
    if link is not None:
        robot.link_index(link)
        return link
    if not robot.loops:
        return robot.link_names[-1]
    tips = _tips(robot)
    if len(tips) != 1:
        raise InputError(
            f"robot {robot.name!r} has {robot.dependence} and several possible load links: {list_names(tips)}",
            hint=f'pass link="{tips[0]}" (--link)',
            code=Code.AMBIGUOUS,
            subject="link",
        )
    return tips[0]


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
