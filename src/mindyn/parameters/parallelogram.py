"""Planar parallelograms: the loop as a polygon of links, and its base parameters in closed form.

[Yoshida 1996, theorem 2.5.1], corrected: A_rho of (2.144) is a rotation, and sums run over the index of their terms.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import atan2, cos, sin

import numpy as np
from numpy.typing import ArrayLike

from mindyn.algebra.poses import IDENTITY, PARALLEL_ANGLE_RAD, Pose, perpendicular_vector, tidy
from mindyn.algebra.values import Array, frozen_array
from mindyn.errors import Code, RobotError
from mindyn.parameters.base import BaseParameters, remove_rounding
from mindyn.parameters.linear_forms import Moments, link_moments, outer, point_mass_tensor, rotate_tensor
from mindyn.robots.parts import Loop
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


def link_poses(robot: Robot, q: Array) -> tuple[Pose, ...]:
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
    poses = link_poses(robot, home)
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
    """Return (m, n): how far each link of a polygon turns about its normal per turn of every joint of the loop."""
    turns = np.zeros((len(polygon.links), len(robot.joints)))
    for i, link in enumerate(polygon.links[1:], start=1):
        for hinge in polygon.hinges:
            if hinge.joint is not None and hinge.joint in robot.path(link):
                turns[i, hinge.joint] = np.sign(hinge.axis @ polygon.normal)
    return turns


@dataclass(frozen=True, slots=True)
class ParallelogramChain:
    """A serial arm of N revolute joints with a parallelogram, in Yoshida's frames at home.

    links   indices in the robot of links 1..N, then of the side links zeta and zeta + 1
    xi      number of the link next to zeta, from 1
    frames  poses of the N + 2 frames in the root frame
    L       (N + 2, 3) far end of each link in its frame
    twists  (N + 4,) alpha_n at n for n = 2..N; zero elsewhere
    rho     angle at link xi + 1 from x to the line from the pin to axis xi + 1, rad
    """

    links: tuple[int, ...]
    xi: int
    frames: tuple[Pose, ...]
    L: Array
    twists: Array
    rho: float

    @property
    def N(self) -> int:
        """Number of links of the main chain."""
        return len(self.links) - 2

    @property
    def parallel(self) -> int:
        """K: number of leading axes parallel to the first."""
        turned = np.flatnonzero(np.abs(np.sin(self.twists[2 : self.N + 1])) > PARALLEL_ANGLE_RAD)
        return int(turned[0]) + 1 if turned.size else self.N

    def hidden_link_count(self, gravity: Array) -> int:
        """Return Q: the number of leading links whose first moment has no effect."""
        z = self.frames[0].rotation[:, 2]
        if np.linalg.norm(np.cross(z, gravity)) > PARALLEL_ANGLE_RAD * np.linalg.norm(gravity):
            return 0
        for n in range(1, self.parallel + 1):
            if (n == self.parallel < self.N) or abs(self.L[n - 1, 0]) > PARALLEL_ANGLE_RAD:
                return n
        return self.parallel


def _unsupported_structure(robot: Robot, why: str) -> RobotError:
    return RobotError(
        f"the closed form of parallelograms does not apply to robot {robot.name!r}: {why}",
        hint='use form="numeric", which covers every loop',
        code=Code.UNSUPPORTED,
        subject=robot.name,
    )


def parallelogram_chain(robot: Robot, home: Array) -> ParallelogramChain:
    """Return the robot in the terms of the theorem; raise RobotError if its structure does not fit."""
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
    trunk, tail = robot.path(polygon.links[0]), _tail(robot, polygon)
    if hanging := set(range(len(robot.joints))) - {*trunk, *polygon.links, *tail}:
        raise _unsupported_structure(
            robot, f"link {robot.links[min(hanging)].name!r} is not part of the main chain or the loop"
        )
    ring = polygon.links[1:] if tail[0] == polygon.links[2] else polygon.links[:0:-1]
    hinges = polygon.hinges if tail[0] == polygon.links[2] else polygon.hinges[::-1]
    return _assign_frames(robot, home, (*trunk, ring[0], *tail), (ring[3], ring[2]), hinges, len(trunk) + 1)


def _tail(robot: Robot, polygon: Polygon) -> tuple[int, ...]:
    """Return link xi + 1 and the links after it: the branch that continues, or the first one if neither does."""
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


def _assign_frames(
    robot: Robot,
    home: Array,
    chain: tuple[int, ...],
    side_links: tuple[int, int],
    hinges: tuple[Hinge, ...],
    xi: int,
) -> ParallelogramChain:
    """Return Yoshida's frames: z on the joint, origin at the foot of the previous normal, x along the next normal."""
    poses = link_poses(robot, home)
    axes = [_hinge(robot, poses, link) for link in chain]
    axes[xi - 1 : xi + 1] = hinges[0], hinges[1]
    points, z, twists = [axes[0].point], [axes[0].axis], np.zeros(len(chain) + 4)
    x: list[Array] = []
    for n, axis in enumerate(axes[1:], start=2):
        step = _next_axis(points[-1], z[-1], axis, x[-1] if x else None)
        x.append(step[0])
        points.append(step[1])
        z.append(step[2])
        twists[n] = step[3]
    x.append(_perpendicular(z[-1], x[-1]))
    frames = [Pose(tidy(np.column_stack([a, np.cross(c, a), c])), o) for a, c, o in zip(x, z, points, strict=True)]
    L = [X.rotation.T @ (after - X.translation) for X, after in zip(frames, points[1:], strict=False)]
    along = hinges[3].point - hinges[4].point
    along = along - (along @ z[xi - 1]) * z[xi - 1]
    side, z_xi, o_xi = float(np.linalg.norm(along)), z[xi - 1], points[xi - 1]
    x_zeta = along / side
    frames.append(Pose(np.column_stack([x_zeta, np.cross(z_xi, x_zeta), z_xi]), o_xi))
    frames.append(Pose(frames[xi - 1].rotation, o_xi + along))
    ends = np.array([*L, np.zeros(3), [side, 0, 0], np.zeros(3)])
    back = frames[xi].rotation.T @ -along
    return ParallelogramChain((*chain, *side_links), xi, tuple(frames), ends, twists, atan2(back[1], back[0]))


def _perpendicular(z: Array, preferred: Array) -> Array:
    v = preferred - (preferred @ z) * z
    size = float(np.linalg.norm(v))
    return v / size if size > 0.1 else perpendicular_vector(z)


def _next_axis(o: Array, z: Array, axis: Hinge, before: Array | None) -> tuple[Array, Array, Array, float]:
    """Return x of a frame at o on z, and origin, z and twist of the next frame, on the given axis."""
    gap, normal = axis.point - o, np.cross(z, axis.axis)
    if np.linalg.norm(normal) <= PARALLEL_ANGLE_RAD:
        across = gap - (gap @ z) * z
        size = float(np.linalg.norm(across))
        coaxial = size <= EQUAL_LENGTH_TOLERANCE * (1 + float(np.linalg.norm(gap)))
        x = _perpendicular(z, perpendicular_vector(z) if before is None else before) if coaxial else across / size
        return x, o + (0 if coaxial else 1) * across, z, 0.0
    x = normal / np.linalg.norm(normal)
    if gap @ x < -EQUAL_LENGTH_TOLERANCE:
        x = -x
    # Feet of the common normal: o + s z + d x lies on the next axis, at the parameter t from its point.
    t = float(np.linalg.solve(np.column_stack([z, x, -axis.axis]), gap)[2])
    return x, axis.point + t * axis.axis, axis.axis, atan2(np.cross(z, axis.axis) @ x, z @ axis.axis)


def parallelogram_base(robot: Robot, home: ArrayLike | None = None) -> BaseParameters:
    """Return the base set of a serial arm with one planar parallelogram [Yoshida 1996, theorem 2.5.1, corrected].

    `home` (n,) is a configuration with a closed loop, q = 0 by default.
    """
    q = np.zeros(len(robot.joints)) if home is None else frozen_array(home, (len(robot.joints),), "home")
    _require_closed(robot, q)
    arm = parallelogram_chain(robot, q)
    rows = _Forms(robot, arm, q).rows()
    matrix = remove_rounding(robot, np.array([row for _, row in rows]))
    note = "closed form of planar parallelograms [Yoshida 1996, theorem 2.5.1, corrected]"
    return BaseParameters(robot, "mayeda", False, matrix, tuple(name for name, _ in rows), None, (note,))


def _require_closed(robot: Robot, q: Array) -> None:
    for loop in robot.loops:
        poses = link_poses(robot, q)
        ends = [_pose_of_link(poses, robot.link_index(loop.first)) @ loop.first_pose]
        ends.append(_pose_of_link(poses, robot.link_index(loop.second)) @ loop.second_pose)
        gap = float(np.linalg.norm(ends[0].translation - ends[1].translation))
        if gap > 1e-9:
            raise RobotError(
                f"loop {loop.name!r} is open by {gap:.3g} m at the given home configuration",
                code=Code.NOT_CONVERGED,
                subject=loop.name,
            )


def _bodies(robot: Robot, arm: ParallelogramChain, home: Array) -> list[Moments]:
    """Return the moments of the arm's links in its frames, in the theorem's order."""
    poses = list(link_poses(robot, home))
    for link, frame in zip(arm.links, arm.frames, strict=True):
        poses[link] = frame.inverse() @ poses[link]
    bodies = link_moments(poses)
    return [bodies[link] for link in arm.links]


class _Forms:
    """The theorem's forms, each a row over the standard parameters; n = 1..N, then N + 1: zeta, N + 2: zeta + 1."""

    def __init__(self, robot: Robot, arm: ParallelogramChain, home: Array) -> None:
        self.arm, self.N, self.xi = arm, arm.N, arm.xi
        self.Q, self.K = arm.hidden_link_count(robot.gravity), arm.parallel
        self.cos = [cos(a) for a in arm.twists]
        self.sin = [0.0 if abs(sin(a)) <= PARALLEL_ANGLE_RAD else sin(a) for a in arm.twists]
        self.R, self.J = self._add_carried_masses(_bodies(robot, arm, home))
        self.A_rho = np.array([[-cos(arm.rho), sin(arm.rho), 0], [-sin(arm.rho), -cos(arm.rho), 0], [0, 0, 1]])
        self.Rbar = dict(self.R)
        self.Rbar[self.xi] = self.R[self.xi] + self.R[self.N + 2]
        self.Rbar[self.xi + 1] = self.R[self.xi + 1] + self.A_rho @ self.R[self.N + 1]
        self.RZ = self._sums_of_z()
        self.Jhat = self._combined_tensors()
        self.JY = self._sums_of_y()

    def _add_carried_masses(self, bodies: list[Moments]) -> tuple[dict[int, Array], dict[int, Array]]:
        """Compute R_n and J_n: links with the mass that they carry at their far end (2.117)-(2.123)."""
        R, J = {}, {}
        for n, (L, body) in enumerate(zip(self.arm.L, bodies, strict=True), start=1):
            beyond = bodies[n:] if n < self.xi or n > self.N else bodies[n : self.N]
            carried = sum((other.mass for other in beyond), start=np.zeros_like(body.mass))
            R[n], J[n] = body.first + outer(L, carried), body.tensor + point_mass_tensor(L, carried)
        return R, J

    def _sums_of_z(self) -> dict[int, Array]:
        """Compute RZ(n) (2.153)-(2.155)."""
        zero = np.zeros_like(self.R[1][2])
        RZ = {self.N: zero, self.N + 1: self.R[self.N + 2][2], self.N + 2: zero}
        barred = zero
        for n in range(self.N - 1, 0, -1):
            beyond = self.cos[n + 2] * barred
            barred = self.Rbar[n + 1][2] + beyond
            RZ[n] = self.R[n + 1][2] + beyond if n == self.xi else barred
        return RZ

    def _combined_tensors(self) -> dict[int, Array]:
        """Compute Jhat_n (2.156)-(2.168)."""
        tilde = {n: self._tilde(n) for n in self.J}
        tilde[self.xi + 1] = tilde[self.xi + 1] + rotate_tensor(self.A_rho, tilde[self.N + 1])
        tilde[self.xi] = tilde[self.xi] + tilde[self.N + 2]
        return tilde

    def _tilde(self, n: int) -> Array:
        J = self.J[n].copy()
        c, s, RZ = self.cos[n + 1], self.sin[n + 1], self.RZ[n]
        Lx, _, Lz = self.arm.L[n - 1]
        J[0, 0] += 2 * Lz * c * RZ
        J[1, 1] += 2 * Lz * c * RZ
        for (i, j), factor in (((0, 1), Lx * s), ((0, 2), -Lx * c), ((1, 2), Lz * s)):
            J[i, j] = J[j, i] = J[i, j] + factor * RZ
        return J

    def _sums_of_y(self) -> dict[int, Array]:
        """Compute JY(n) (2.169)."""
        JY = {self.N: np.zeros_like(self.R[1][0])}
        for n in range(self.N - 1, 0, -1):
            JY[n] = self.Jhat[n + 1][1, 1] + self.cos[n + 2] ** 2 * JY[n + 1]
        return JY

    def rows(self) -> list[tuple[str, Array]]:
        """Return names and forms of the base parameters, link by link (2.170)-(2.174)."""
        rows: list[tuple[str, Array]] = []
        for n in range(1, self.N + 1):
            c, s = self.cos[n + 1], self.sin[n + 1]
            J, JY = self.Jhat[n], self.JY[n]
            rows.append((f"J{n}z", J[2, 2] + s**2 * JY))
            if n > self.K:
                rows.append((f"J{n}(x-y)", J[0, 0] - J[1, 1] + s**2 * JY))
                rows.extend(((f"J{n}xy", J[0, 1]), (f"J{n}xz", J[0, 2]), (f"J{n}yz", J[1, 2] + s * c * JY)))
            hidden = n == self.xi + 1 <= self.K and self.xi == self.Q
            if n > self.Q and not hidden:
                rows.extend(((f"R{n}x", self.Rbar[n][0]), (f"R{n}y", self.Rbar[n][1] - s * self.RZ[n])))
        return rows + self._loop_rows()

    def _loop_rows(self) -> list[tuple[str, Array]]:
        """Return (2.173), (2.174): the coupled moments of the two outer links; R of xi + 1 without its partner."""
        n = self.xi + 1
        Lx, side, rho = self.arm.L[self.xi - 1, 0], self.arm.L[self.N, 0], self.arm.rho
        Rx, Ry = self.R[n][0], self.R[n][1] - self.sin[n + 1] * self.RZ[n]
        outer_x, outer_y, _ = self.R[self.N + 2]
        along = Lx * Rx - cos(rho) * side * outer_x
        across = Lx * Ry - sin(rho) * side * outer_x
        names = f"L{self.xi}R{n}x", f"L{self.xi}R{n}y"
        if n <= self.K:
            return [
                (names[0], along - sin(rho) * side * outer_y),
                (names[1], across + cos(rho) * side * outer_y),
            ]
        return [(f"R{self.N + 2}y", outer_y), (names[0], along), (names[1], across)]
