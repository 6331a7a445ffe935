"""Augmented links: Yoshida's frames, and the moments of every revolute link including the masses that it carries.

Revolute links are numbered n = 1..N; the prismatic links (n, t), t = 1..T_n, slide on link n; n = 0 is the base. Frame
n has z_n on its joint axis, x_n along the common normal to axis n+1, and its origin o_n at the foot of the common
normal of axes n-1 and n, with all prismatic joints at q = 0. The sliding links are described in frame n too. Yoshida
leaves the reference point p_{n,t} free; here it is o_n. Another choice only adds multiples of M_{n,t} to RC_{n,t}.
[Yoshida 1996, sections 2.3.1 and 2.4.1]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from mindyn.foundation.algebra.poses import IDENTITY, Pose
from mindyn.foundation.algebra.rotations import PARALLEL_ANGLE_RAD, rot_x, rot_z, tidy
from mindyn.foundation.algebra.values import Array
from mindyn.parameters.linear_forms import Moments, link_moments, outer, point_mass_tensor, zero_moments
from mindyn.robots.joint_frames import home_axes, modified_dh
from mindyn.robots.robot import Robot


@dataclass(frozen=True, slots=True)
class SlidingLink:
    """Prismatic link (n, t): its index `joint`, its `axis` (3,) in frame n, and M_{n,t} (p,) and RC_{n,t} (3, p) in
    frame n.
    """

    joint: int
    axis: Array
    mass: Array
    first: Array


@dataclass(frozen=True, slots=True)
class AugmentedLink:
    """Revolute link n with its sliding links; n = 0 has no joint and carries the links that slide on the base.

    joint      index in the robot; -1 for the base
    frame      pose of frame n in the root frame at q = 0
    length     (3,) L_n = (L_x, 0, L_z), from o_n to o_{n+1} in frame n; zero for n = N
    next_axis  (3,) z_{n+1} = (0, -sin alpha_{n+1}, cos alpha_{n+1}) in frame n; e_3 for n = N
    first      (3, p) RC_n, eq. (2.52)
    tensor     (3, 3, p) J_n, eq. (2.59)
    sliding    links (n, 1), ..., (n, T_n)
    """

    joint: int
    frame: Pose
    length: Array
    next_axis: Array
    first: Array
    tensor: Array
    sliding: tuple[SlidingLink, ...]

    @property
    def twist(self) -> tuple[float, float]:
        """cos and sin of alpha_{n+1}."""
        return float(self.next_axis[2]), -float(self.next_axis[1])


def upright_links(robot: Robot) -> tuple[AugmentedLink, ...]:
    """Return links 0..N.

    Axes are reversed where needed: twists of 180 degrees become 0, and twists of -90 degrees become +90.
    """
    frames = yoshida_frames(robot)
    for n in range(1, len(frames)):
        if next_axis_in_frame(frames[n - 1], frames[n])[2] < PARALLEL_ANGLE_RAD - 1:
            frames[n] = frames[n] @ Pose(rot_x(-1.0, 0.0))
    for n in range(len(frames) - 1):
        if next_axis_in_frame(frames[n], frames[n + 1])[1] > PARALLEL_ANGLE_RAD:
            frames[n] = frames[n] @ Pose(rot_z(-1.0, 0.0))
    return augment_links(robot, frames)


def far_joints(robot: Robot) -> tuple[str, ...]:
    """Return the joints whose frame is far away because two revolute axes are nearly parallel."""
    skeleton = _without_prismatic_joints(robot)
    return () if skeleton is None else modified_dh(skeleton).far


def _without_prismatic_joints(robot: Robot) -> Robot | None:
    """Return the robot with revolute joints only, all prismatic joints fixed at q = 0; None if all joints are
    prismatic.
    """
    slides = {joint.name: 0.0 for joint in robot.joints if joint.kind == "prismatic"}
    return None if len(slides) == len(robot.joints) else robot.lock(slides)


def yoshida_frames(robot: Robot) -> list[Pose]:
    """Return Yoshida's frames 1..N in the root frame at q = 0.

    If axes n-1 and n are parallel the foot is free: o_n is then the DH origin, which keeps the frames of the source.
    """
    skeleton = _without_prismatic_joints(robot)
    if skeleton is None:
        return []
    dh = modified_dh(skeleton)
    frames, end = [], dh.base
    for row in dh.rows:
        is_parallel = abs(np.sin(row.alpha)) <= PARALLEL_ANGLE_RAD
        end = end @ row.pose
        frames.append(end if is_parallel else end @ Pose(None, (0.0, 0.0, -row.d)))
    return frames


def next_axis_in_frame(frame: Pose, after: Pose) -> Array:
    """Return z_{n+1} in frame n, which is perpendicular to x_n by the choice of frames."""
    _, y, z = tidy(frame.rotation.T @ after.rotation[:, 2])
    return np.array([0.0, y, z])


def step_to_next(frames: Sequence[Pose]) -> tuple[Array, Array]:
    """Return L_n and z_{n+1} in the first of the given frames n..N. For the last frame, return zero and e_3."""
    if len(frames) == 1:
        return np.zeros(3), np.array([0.0, 0.0, 1.0])
    frame, after = frames[:2]
    return frame.rotation.T @ (after.translation - frame.translation), next_axis_in_frame(frame, after)


def augment_links(robot: Robot, frames: list[Pose]) -> tuple[AugmentedLink, ...]:
    """Return the augmented links 0..N in the given frames."""
    turning = [i for i, joint in enumerate(robot.joints) if joint.kind == "revolute"]
    bounds = [-1, *turning, len(robot.joints)]
    homes = [IDENTITY, *frames]
    bodies = _link_moments(robot, homes, bounds)
    links = []
    for n, frame in enumerate(homes):
        length, next_axis = step_to_next(homes[n:] if n else [frame])
        carried = _sum(bodies[bounds[n + 1] :], bodies[0].mass.size).mass
        body = _sum(bodies[max(bounds[n], 0) : bounds[n + 1]], bodies[0].mass.size)
        first, tensor = body.first + outer(length, carried), body.tensor + point_mass_tensor(length, carried)
        sliding = tuple(
            _make_sliding_link(robot, frame, t, bodies[t : bounds[n + 1]], length, carried)
            for t in range(bounds[n] + 1, bounds[n + 1])
        )
        links.append(AugmentedLink(bounds[n], frame, length, next_axis, first, tensor, sliding))
    return tuple(links)


def _link_moments(robot: Robot, homes: list[Pose], bounds: list[int]) -> list[Moments]:
    """Return the moments of every link, in frame n of the revolute link that it is or on which it slides."""
    number = np.searchsorted(bounds[1:], np.arange(len(robot.joints)), side="right")
    axes = home_axes(robot)
    poses = [
        homes[n].inverse() @ axis.frame @ joint.tip for n, axis, joint in zip(number, axes, robot.joints, strict=True)
    ]
    return link_moments(poses)


def _make_sliding_link(
    robot: Robot, frame: Pose, joint: int, bodies: Sequence[Moments], length: Array, carried: Array
) -> SlidingLink:
    """Return M_{n,t} and RC_{n,t} of eq. (2.49), (2.53); `bodies` are the links (n, t)..(n, T_n)."""
    total = _sum(bodies, carried.size)
    axis = frame.rotation.T @ home_axes(robot)[joint].axis
    return SlidingLink(joint, tidy(axis), total.mass + carried, total.first + outer(length, carried))


def _sum(bodies: Sequence[Moments], size: int) -> Moments:
    return reduce(lambda a, b: a + b, bodies, zero_moments(size))
