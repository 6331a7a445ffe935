"""Base parameters of planar parallelograms in closed form.

The loop is described as a polygon of links. The form is theorem 2.5.1 of [Yoshida 1996] with two corrections: A_rho of
(2.144) is a rotation, and sums run over the index of their terms.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from mindyn.foundation.algebra.poses import IDENTITY, Pose
from mindyn.foundation.algebra.rotations import PARALLEL_ANGLE_RAD
from mindyn.foundation.algebra.values import Array, frozen_array
from mindyn.foundation.errors import Code, RobotError
from mindyn.parameters.augmented_links import AugmentedLink, step_to_next, yoshida_frames
from mindyn.parameters.axis_groups import axis_groups
from mindyn.parameters.base_parameters import BaseParameters
from mindyn.parameters.general import NamedRows, base_of_rows, general_rows, sum_carried_moments
from mindyn.parameters.linear_forms import (
    Moments,
    link_moments,
    outer,
    point_mass_tensor,
    rotate_tensor,
    shift_tensor,
)
from mindyn.robots.parts import Joint, Loop
from mindyn.robots.robot import Robot

EQUAL_LENGTH_TOLERANCE = 1e-9
"""Vectors of a loop that differ by less, relative to its longest side, are equal."""


@dataclass(frozen=True, slots=True)
class Hinge:
    """An axis of a loop at home, in the root frame; `joint` is its index in q, None for the pin that closes it."""

    joint: int | None
    point: Array
    axis: Array


@dataclass(frozen=True, slots=True)
class Polygon:
    """A planar loop at home: links[i] lies between hinges[i - 1] and hinges[i]; links[0] carries both branches.

    links  indices of links, -1 for the root
    sides  (m, 3) vectors along the links, in the plane; zero where two axes coincide
    """

    links: tuple[int, ...]
    hinges: tuple[Hinge, ...]
    normal: Array
    sides: Array

    @property
    def corners(self) -> tuple[int, ...]:
        """Positions in `links` of the sides that are not zero."""
        sizes = np.linalg.norm(self.sides, axis=1)
        return tuple(np.flatnonzero(sizes > EQUAL_LENGTH_TOLERANCE * sizes.max()).tolist())

    @property
    def is_parallelogram(self) -> bool:
        """Whether there are four sides, opposite ones equal and opposed (not an antiparallelogram)."""
        if len(self.corners) != 4:
            return False
        s = self.sides[list(self.corners)]
        return bool(np.abs(s[:2] + s[2:]).max() <= EQUAL_LENGTH_TOLERANCE * np.abs(s).max())


def moving_link_poses(robot: Robot, q: Array) -> tuple[Pose, ...]:
    """Return the poses of the moving links in the root frame."""
    poses: list[Pose] = []
    for joint, parent, position in zip(robot.joints, robot.parents, q, strict=True):
        poses.append((IDENTITY if parent < 0 else poses[parent]) @ joint.at(float(position)))
    return tuple(poses)


def branches(robot: Robot, loop: Loop) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the joints from the link that carries the loop to its first and to its second link."""
    first, second = robot.path(robot.link_index(loop.first)), robot.path(robot.link_index(loop.second))
    shared = sum(a == b for a, b in zip(first, second, strict=False))
    return first[shared:], second[shared:]


def find_polygon(robot: Robot, loop: Loop, home: Array) -> Polygon | None:
    """Return the loop as a polygon at the closed configuration `home`; None unless planar with revolute joints."""
    if loop.kind in ("slide", "weld"):
        return None
    first, second = branches(robot, loop)
    poses = moving_link_poses(robot, home)
    pin = _pose_of_link(poses, robot.link_index(loop.first)) @ loop.first_pose
    ring = (*first, None, *reversed(second))
    hinges = [Hinge(None, pin.translation, pin.rotation[:, 2]) if j is None else _hinge(robot, poses, j) for j in ring]
    normal = hinges[0].axis
    turning = all(robot.joints[j].kind == "revolute" for j in (*first, *second))
    if not turning or any(np.linalg.norm(np.cross(normal, h.axis)) > PARALLEL_ANGLE_RAD for h in hinges):
        return None
    points = np.array([hinge.point for hinge in hinges])
    sides = points - np.roll(points, 1, axis=0)
    links = (robot.parents[(*first, *second)[0]], *first, *reversed(second))
    return Polygon(links, tuple(hinges), normal, sides - np.outer(sides @ normal, normal))


def _pose_of_link(poses: tuple[Pose, ...], link: int) -> Pose:
    return IDENTITY if link < 0 else poses[link]


def _hinge(robot: Robot, poses: tuple[Pose, ...], index: int) -> Hinge:
    joint = robot.joints[index]
    frame = _pose_of_link(poses, robot.parents[index]) @ joint.origin
    return Hinge(index, frame.translation, frame.rotation @ joint.axis)


def parallelogram_relations(robot: Robot, loop: Loop, home: Array) -> Array | None:
    """Return C (2, n) with C (q - home) = 0: opposite sides stay parallel; None if the loop is not a parallelogram."""
    polygon = find_polygon(robot, loop, home)
    if polygon is None or not polygon.is_parallelogram:
        return None
    turns = link_turns(robot, polygon)
    a, b, c, d = polygon.corners
    return np.array([turns[a] - turns[c], turns[b] - turns[d]])


def link_turns(robot: Robot, polygon: Polygon) -> Array:
    """Return (m, n): the rotation of each link of a polygon about its normal, per rotation of each joint of the
    loop.
    """
    turns = np.zeros((len(polygon.links), len(robot.joints)))
    for i, link in enumerate(polygon.links[1:], start=1):
        for hinge in polygon.hinges:
            if hinge.joint is not None and hinge.joint in robot.path(link):
                turns[i, hinge.joint] = np.sign(hinge.axis @ polygon.normal)
    return turns


@dataclass(frozen=True, slots=True)
class ParallelogramArm:
    """A serial arm of N revolute joints with a parallelogram, in Yoshida's notation.

    main   links 1..N as a serial robot, at home at q = 0
    links  indices in the robot of links 1..N, then of the side links zeta and zeta + 1
    xi     number of the link next to zeta, from 1
    along  (3,) side of the parallelogram along link zeta at home, in the root frame
    """

    main: Robot
    links: tuple[int, ...]
    xi: int
    along: Array


def _unsupported_structure(robot: Robot, why: str) -> RobotError:
    return RobotError(
        f"the closed form of parallelograms does not apply to robot {robot.name!r}: {why}",
        hint='use form="numeric", which covers every loop',
        code=Code.UNSUPPORTED,
        subject=robot.name,
    )


def find_parallelogram_arm(robot: Robot, home: Array) -> ParallelogramArm:
    """Return the robot in the notation of the theorem.

    Raise `RobotError` if the theorem does not cover its structure.
    """
    if len(robot.loops) != 1:
        raise _unsupported_structure(robot, f"it has {len(robot.loops)} loops instead of one")
    polygon = find_polygon(robot, robot.loops[0], home)
    if polygon is None or not polygon.is_parallelogram:
        raise _unsupported_structure(robot, f"loop {robot.loops[0].name!r} is not a planar parallelogram")
    if polygon.corners != (1, 2, 3, 4):
        raise _unsupported_structure(robot, "the two branches of the loop do not start on one axis")
    if any(joint.kind != "revolute" for joint in robot.joints):
        raise _unsupported_structure(robot, "not all joints are revolute")
    if not robot.gravity.any():
        raise _unsupported_structure(robot, "it has no gravity")
    trunk, tail = robot.path(polygon.links[0]), _links_after(robot, polygon)
    if hanging := set(range(len(robot.joints))) - {*trunk, *polygon.links, *tail}:
        raise _unsupported_structure(
            robot, f"link {robot.links[min(hanging)].name!r} is not part of the main chain or the loop"
        )
    ring = polygon.links[1:] if tail[0] == polygon.links[2] else polygon.links[:0:-1]
    hinges = polygon.hinges if tail[0] == polygon.links[2] else polygon.hinges[::-1]
    chain, xi = (*trunk, ring[0], *tail), len(trunk) + 1
    poses = moving_link_poses(robot, home)
    axes = [_hinge(robot, poses, link) for link in chain]
    axes[xi - 1 : xi + 1] = hinges[0], hinges[1]
    along = hinges[3].point - hinges[4].point
    along = along - (along @ hinges[0].axis) * hinges[0].axis
    return ParallelogramArm(_main_chain(robot, poses, chain, axes), (*chain, ring[3], ring[2]), xi, along)


def _links_after(robot: Robot, polygon: Polygon) -> tuple[int, ...]:
    """Return link xi + 1 and the links after it: the branch that has further links, or the first branch if none has."""
    ring = set(polygon.links[1:])
    ends = [link for link in polygon.links[1:] if any(child not in ring for child in robot.children[link])]
    tail = [ends[0] if ends else polygon.links[2]]
    if len(ends) > 1 or tail[0] not in (polygon.links[2], polygon.links[3]):
        raise _unsupported_structure(robot, "the arm does not continue from one of the two outer sides")
    while beyond := [child for child in robot.children[tail[-1]] if child not in ring]:
        if len(beyond) > 1:
            raise _unsupported_structure(robot, f"link {robot.links[tail[-1]].name!r} carries several links")
        tail.append(beyond[0])
    return tuple(tail)


def _main_chain(robot: Robot, poses: tuple[Pose, ...], chain: tuple[int, ...], axes: list[Hinge]) -> Robot:
    """Return the links of a chain as a serial robot with the given axes; parallel axes point the same way."""
    joints: list[Joint] = []
    parent, before, z = robot.root.name, IDENTITY, axes[0].axis
    for link, hinge in zip(chain, axes, strict=True):
        is_parallel = np.linalg.norm(np.cross(z, hinge.axis)) <= PARALLEL_ANGLE_RAD
        z = z if is_parallel else hinge.axis
        frame, child = Pose(None, hinge.point), robot.links[link].name
        name = robot.joints[link].name
        joints.append(
            Joint(name, "revolute", parent, child, before.inverse() @ frame, z, frame.inverse() @ poses[link])
        )
        parent, before = child, poses[link]
    return Robot(robot.name, robot.root, tuple(joints), tuple(robot.links[link] for link in chain), robot.gravity)


def parallelogram_base(robot: Robot, home: ArrayLike | None = None) -> BaseParameters:
    """Return the base set of a serial arm with one planar parallelogram [Yoshida 1996, theorem 2.5.1, corrected].

    `home` (n,) is a configuration with a closed loop, q = 0 by default.
    """
    q = np.zeros(len(robot.joints)) if home is None else frozen_array(home, (len(robot.joints),), "home")
    _require_closed(robot, q)
    note = "closed form of planar parallelograms [Yoshida 1996, theorem 2.5.1, corrected]"
    return base_of_rows(robot, "mayeda", _named_rows(robot, find_parallelogram_arm(robot, q), q), (note,))


def _require_closed(robot: Robot, q: Array) -> None:
    for loop in robot.loops:
        poses = moving_link_poses(robot, q)
        ends = [_pose_of_link(poses, robot.link_index(loop.first)) @ loop.first_pose]
        ends.append(_pose_of_link(poses, robot.link_index(loop.second)) @ loop.second_pose)
        gap = float(np.linalg.norm(ends[0].translation - ends[1].translation))
        if gap > 1e-9:
            raise RobotError(
                f"loop {loop.name!r} is open by {gap:.3g} m at the given home configuration",
                code=Code.NOT_CONVERGED,
                subject=loop.name,
            )


def _named_rows(robot: Robot, arm: ParallelogramArm, home: Array) -> NamedRows:
    """Return the rows (2.170)-(2.174): the general form of the main chain, to which the side links add their moments.

    Link zeta turns with link xi + 1, link zeta + 1 with link xi.
    """
    xi, count, side = arm.xi, len(arm.links) - 2, float(np.linalg.norm(arm.along))
    frames = yoshida_frames(arm.main)
    R_xi, o_xi = frames[xi - 1].rotation, frames[xi - 1].translation
    x, z = arm.along / side, R_xi[:, 2]
    # Parallel axes leave the origin of frame xi + 1 free: level with frame xi, all sides are in one plane.
    frames[xi] = Pose(frames[xi].rotation, frames[xi].translation - z * (z @ (frames[xi].translation - o_xi)))
    zeta_frames = [Pose(np.column_stack([x, np.cross(z, x), z]), o_xi), Pose(R_xi, o_xi + arm.along)]
    *bodies, zeta, outer_side = _moments_in_frames(robot, arm.links, [*frames, *zeta_frames], home)
    reach = np.array([side, 0.0, 0.0])
    R_zeta = zeta.first + outer(reach, outer_side.mass)
    J_zeta = zeta.tensor + point_mass_tensor(reach, outer_side.mass) + shift_tensor(reach, _along_z(outer_side.first))
    A = frames[xi].rotation.T @ zeta_frames[0].rotation  # A_rho: frame zeta to frame xi + 1
    links = []
    for n, (frame, body) in enumerate(zip(frames, bodies, strict=True), start=1):
        L, axis = step_to_next(frames[n - 1 :])
        beyond = [*bodies[n:], zeta, outer_side] if n < xi else bodies[n:]
        carried = sum((other.mass for other in beyond), start=np.zeros_like(body.mass))
        first, tensor = body.first + outer(L, carried), body.tensor + point_mass_tensor(L, carried)
        if n == xi:  # the moment of zeta along z does not pass through link xi
            first = first + outer_side.first
            tensor = tensor + outer_side.tensor - shift_tensor(L, _along_z(R_zeta))
        if n == xi + 1:
            first, tensor = first + A @ R_zeta, tensor + rotate_tensor(A, J_zeta)
        links.append(AugmentedLink(n - 1, frame, L, axis, first, tensor, ()))
    places = list(axis_groups(arm.main))
    if places[xi].group == "parallel" and not places[xi - 1].swings:
        places[xi] = replace(places[xi], swings=False)
    rows = general_rows(links, places, lambda *_: [])
    # (2.173), (2.174): the coupled moments of the two outer links, that of link xi + 1 without zeta.
    R = links[xi].first - A @ R_zeta + sum_carried_moments(links)[xi].u
    (cosine, sine), (outer_x, outer_y, _) = -A[:2, 0], outer_side.first
    along = links[xi - 1].length[0] * R[0] - cosine * side * outer_x
    across = links[xi - 1].length[0] * R[1] - sine * side * outer_x
    names = f"L{xi}R{xi + 1}x", f"L{xi}R{xi + 1}y"
    if places[xi].group == "parallel":
        along, across = along - sine * side * outer_y, across + cosine * side * outer_y
    else:
        rows.append((f"R{count + 2}y", outer_y))
    return [*rows, (names[0], along), (names[1], across)]


def _along_z(first: Array) -> Array:
    return outer(np.array([0.0, 0.0, 1.0]), first[2])


def _moments_in_frames(robot: Robot, links: Sequence[int], frames: Sequence[Pose], home: Array) -> list[Moments]:
    """Return the moments of links in given frames at home."""
    poses = list(moving_link_poses(robot, home))
    for link, frame in zip(links, frames, strict=True):
        poses[link] = frame.inverse() @ poses[link]
    bodies = link_moments(poses)
    return [bodies[link] for link in links]
