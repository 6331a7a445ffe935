"""`Bodies`: the solids of links and obstacles, their poses along a motion, and the distances between them.

`Pairs`: distances between capsules along a motion, with exact derivatives with respect to q.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import product
from typing import Any, Final

import casadi
import numpy as np
from numpy.typing import NDArray

from mindyn.equations.chain import SX, constant, kinematic_chain
from mindyn.equations.closed_motion import CLOSURE, closed_motion, is_affine
from mindyn.equations.kinematics import frame_placements
from mindyn.equations.loop_closure import affine_closure
from mindyn.foundation.algebra.rotations import frame_along
from mindyn.foundation.algebra.values import Array
from mindyn.kernels.closed_kernel import make_kernel
from mindyn.kernels.derivatives import jacobians
from mindyn.kernels.kernel import Kernel
from mindyn.motions.excitation.volumes import Capsule, Volume
from mindyn.robots.link_solids import Solid
from mindyn.robots.robot import Robot

KEPT_ROWS: Final = 1000
"""Largest number of instants whose nearest points are cached; those of a check are used once."""
_TINY = 1e-12
"""Squared lengths below are those of points, m^2."""
_REFERENCE: Final = np.vstack([np.zeros(3), np.eye(3)])
"""Points of a link frame whose positions determine its pose."""
THICKNESS_RATIO: Final = 1e-6
"""Half of the thickness that a flat solid gets, relative to its size."""
MIN_THICKNESS_M: Final = 1e-9
ALL: Final = (slice(None), slice(None))
"""All parts of two bodies."""
MOST_NEIGHBOURS: Final = 250
"""Edges that meet in one corner of a hull: coal has room for 255."""


class Points:
    """Points fixed to links, in the root frame: positions (N, k, 3), and their derivatives (N, k, 3, n) by q.

    q are the primary joints of a robot with loops.
    """

    def __init__(self, robot: Robot, links: Sequence[int], points: Array) -> None:
        q, whole, _, closed = primary_motion(robot)
        P = casadi.densify(placed_points(robot, whole, links, points))
        outputs = ["P", *[CLOSURE] * len(closed)]
        function = casadi.Function("points", [q], casadi.cse([P, *closed]), ["q"], outputs)
        self._positions, self._slopes = kernel_and_slopes(robot, function)
        self._shape = (len(points), 3)

    def positions(self, q: Array) -> Array:
        """Return the positions (N, k, 3)."""
        return np.asarray(self._positions(q)).reshape(len(q), *self._shape)

    def slopes(self, q: Array) -> Array:
        """Return the derivatives (N, k, 3, n) by q."""
        return np.asarray(self._slopes(q)).reshape(len(q), *self._shape, q.shape[1])


def kernel_and_slopes(robot: Robot, function: casadi.Function) -> tuple[Kernel, Kernel]:
    """Return the kernels of a function and of its derivatives with respect to each input."""
    slopes = jacobians(function, function.name_in())
    matrices = [name for name in slopes.name_out() if name != CLOSURE]
    return make_kernel(robot, function), make_kernel(robot, slopes, matrices=matrices)


def primary_motion(robot: Robot) -> tuple[SX, SX, SX, list[SX]]:
    """Return symbols q, the positions of all joints, W, whose product with qd are their rates, and any loop closure."""
    if is_affine(robot):
        affine = affine_closure(robot)
        q, W = casadi.SX.sym("q", affine.matrix.shape[1]), constant(affine.matrix)
        return q, W @ q + constant(affine.offset), W, []
    q = casadi.SX.sym("q", len(robot.joints))
    motion = closed_motion(robot, q)
    return q, motion.q, motion.W, [motion.closure]


def placed_points(robot: Robot, q: SX, links: Sequence[int], points: Array) -> SX:
    """Return points (3 k,) of links in the root frame at the positions q of all joints."""
    chain = kinematic_chain(robot)
    placed, root = frame_placements(chain, chain.at(q)), chain.frames.root
    positions = []
    for link, point in zip(links, points, strict=True):
        if link < 0:
            positions.append(casadi.SX(casadi.DM(point)))
            continue
        R, p = placed[link]
        inside = p + R @ casadi.SX(casadi.DM(chain.frames.steps[link].link.apply(point)))
        positions.append(constant(root.translation) + constant(root.rotation) @ inside)
    return casadi.vertcat(*positions)


@dataclass(frozen=True, slots=True, eq=False)
class NearestPoints:
    """The nearest points of pairs of segments: distance (N, c), unit normal (N, c, 3), places s, t in [0, 1]."""

    distance: Array
    normal: Array
    s: Array
    t: Array


def nearest(ends: Array) -> NearestPoints:
    """Compute distances of segments a1-b1 and a2-b2 from their ends (N, c, 4, 3); the normal points to the first."""
    distance, normal, s, t = _nearest_kernel()(ends)
    return NearestPoints(distance[..., 0], normal, s[..., 0], t[..., 0])


@cache
def _nearest_kernel() -> Kernel:
    """Compute the distance of one pair; compiled, since a search evaluates all pairs at all instants often."""
    ends = casadi.SX.sym("ends", 4, 3)
    a1, b1, a2, b2 = (ends[k, :].T for k in range(4))
    d1, d2, r = b1 - a1, b2 - a2, a1 - a2
    A, E, B = casadi.dot(d1, d1), casadi.dot(d2, d2), casadi.dot(d1, d2)
    C, F = casadi.dot(d1, r), casadi.dot(d2, r)
    where = casadi.if_else
    safe_A, safe_E = where(A > _TINY, A, 1.0), where(E > _TINY, E, 1.0)
    denominator = A * E - B * B
    crossing = denominator > 1e-9 * A * E
    s = where(crossing, _clip((B * F - C * E) / where(crossing, denominator, 1.0)), 0.5)
    s = where(A > _TINY, s, 0.0)
    t = where(E > _TINY, _clip((B * s + F) / safe_E), 0.0)
    s = where(A > _TINY, _clip((B * t - C) / safe_A), 0.0)
    t = where(E > _TINY, _clip((B * s + F) / safe_E), 0.0)
    gap = r + s * d1 - t * d2
    distance = casadi.sqrt(casadi.dot(gap, gap))
    outputs = [distance, gap / casadi.fmax(distance, 1e-9), s, t]
    return Kernel(casadi.Function("nearest", [ends], outputs, ["ends"], ["distance", "normal", "s", "t"]))


def _clip(x: SX) -> SX:
    return casadi.fmin(casadi.fmax(x, 0.0), 1.0)


class Pairs:
    """Pairs of capsules that must not touch, of a robot and its surroundings.

    capsules  of the links and of obstacles
    pairs     (c, 2) their numbers
    """

    def __init__(self, robot: Robot, capsules: Sequence[Capsule], pairs: NDArray[np.intp]) -> None:
        self.capsules, self.pairs = tuple(capsules), pairs
        self.points = end_points(robot, self.capsules)
        self._ends = np.stack([2 * pairs[:, 0], 2 * pairs[:, 0] + 1, 2 * pairs[:, 1], 2 * pairs[:, 1] + 1], axis=1)
        self._reach = np.array([c.radius for c in self.capsules])[pairs].sum(axis=1)
        self._last: tuple[Array, NearestPoints] | None = None

    def gaps(self, q: Array) -> Array:
        """Return the distances (N, c) between surfaces, m; negative if they overlap."""
        return np.asarray(self._nearest(q).distance - self._reach)

    def slopes(self, q: Array) -> Array:
        """Return the derivatives (N, c, n) of the gaps by q."""
        nearest_points, J = self._nearest(q), self.points.slopes(q)
        first, second = self.pairs.T
        moves = slopes_between(J, first, nearest_points.s) - slopes_between(J, second, nearest_points.t)
        return np.asarray(np.einsum("tci,tcij->tcj", nearest_points.normal, moves))

    def _nearest(self, q: Array) -> NearestPoints:
        """Return the nearest points, cached: solvers ask for gaps, then for slopes at the same q."""
        last = self._last
        if last is not None and np.array_equal(last[0], q):
            return last[1]
        nearest_points = nearest(self.points.positions(q).take(self._ends, axis=1))
        if len(q) <= KEPT_ROWS:
            self._last = q.copy(), nearest_points
        return nearest_points


def slopes_between(J: Array, capsule: NDArray[np.intp], s: Array) -> Array:
    """Return the derivatives (N, c, 3, n) of the point at s of the segment of a capsule."""
    s = s[..., None, None]
    return np.asarray((1 - s) * J[:, 2 * capsule] + s * J[:, 2 * capsule + 1])


def end_points(robot: Robot, capsules: Sequence[Capsule]) -> Points:
    """Return the ends of capsules, two for each; those without a link are in the root frame."""
    links = [robot.link_index(c.link) if c.link else -1 for c in capsules for _ in range(2)]
    ends = np.array([end for c in capsules for end in (c.a, c.b)]).reshape(-1, 3)
    return Points(robot, links, ends)


def import_coal() -> Any | None:
    """Return the collision library coal, which comes with the extra `collision`; None where it is not installed."""
    try:
        import coal  # type: ignore[import-untyped]
    except ImportError:
        return None
    return coal


class Bodies:
    """Volumes of links (root or moving) and of obstacles, which have the link ""."""

    def __init__(self, robot: Robot, volumes: Sequence[Volume]) -> None:
        self.volumes = tuple(volumes)
        self.links = [robot.link_index(volume.link) if volume.link else -1 for volume in volumes]
        moving = [k for k in self.links for _ in _REFERENCE]
        self._frames = Points(robot, moving, np.tile(_REFERENCE, (len(volumes), 1)))
        self._corners = np.array([volume.corners for volume in volumes]).reshape(-1, 8, 3)
        self._coal = import_coal()

    @property
    def is_exact(self) -> bool:
        """Whether distances between solids can be measured."""
        return self._coal is not None

    def poses(self, q: Array) -> Array:
        """Return (N, bodies, 4, 3): origin and axes of every body's frame, in the root frame."""
        places = self._frames.positions(q).reshape(len(q), -1, 4, 3)
        return np.concatenate([places[:, :, :1], places[:, :, 1:] - places[:, :, :1]], axis=2)

    def corners(self, q: Array) -> Array:
        """Return the corners (N, bodies, 8, 3) of the boxes around the bodies."""
        poses = self.poses(q)
        return np.asarray(poses[:, :, :1] + self._corners @ poses[:, :, 1:])

    def heights(self, body: int, poses: Array, direction: Array, *, covers: bool = False) -> Array:
        """Return (N,), the least coordinate of a body, or of its covers, along a direction of the root frame."""
        axes, volume = poses[:, body] @ direction, self.volumes[body]  # (N, 4): of the origin and of the three axes
        solids = [part.solid for part in volume.covers] if covers else volume.solids
        least = [(solid.points @ axes[:, 1:].T).min(axis=0) - solid.radius for solid in solids]
        return np.asarray(axes[:, 0] + np.min(least, axis=0))

    def distances(
        self, pair: tuple[int, int], poses: Array, *, surfaces: bool = False, parts: tuple[slice, slice] = ALL
    ) -> Array:
        """Return distances (N,) of two bodies at poses (N, bodies, 4, 3): of hulls, or of the surfaces of meshes."""
        assert self._coal is not None
        first, second = (self._shapes[surfaces][k][part] for k, part in zip(pair, parts, strict=True))
        request, result = self._coal.DistanceRequest(), self._coal.DistanceResult()
        least = np.full(len(poses), np.inf)
        for row, pose in enumerate(poses):
            place, other_place = (self._coal.Transform3s(pose[k, 1:].T.copy(), pose[k, 0]) for k in pair)
            for (solid, X), (other, Y) in product(first, second):
                result.clear()
                gap = self._coal.distance(solid, place * X, other, other_place * Y, request, result)
                least[row] = min(least[row], gap)
        return least

    @cached_property
    def _shapes(self) -> dict[bool, list[list[Any]]]:
        """Shapes of coal for every body: hulls, and with the surfaces of meshes."""
        return {
            surfaces: [[self._shape(solid, surfaces) for solid in volume.solids] for volume in self.volumes]
            for surfaces in (False, True)
        }

    def _shape(self, solid: Solid, surfaces: bool) -> tuple[Any, Any]:
        """Return the shape of coal, and its pose in the frame of its body."""
        from scipy.spatial import ConvexHull, QhullError

        coal = self._coal
        assert coal is not None
        if surfaces and solid.surface is not None:
            corners, faces = _vectors(coal, solid.surface.corners, solid.surface.faces)
            mesh = coal.BVHModelOBBRSS()
            mesh.beginModel(len(faces), len(corners))
            mesh.addSubModel(corners, faces)
            mesh.endModel()
            return mesh, coal.Transform3s()
        if len(solid.points) <= 2:
            along = solid.points[-1] - solid.points[0]
            length = float(np.linalg.norm(along))
            place = coal.Transform3s(frame_along(along / length) if length else np.eye(3), solid.points.mean(axis=0))
            return coal.Capsule(solid.radius, length), place
        try:
            hull = ConvexHull(solid.points)
        except QhullError:  # flat, or nearly
            return self._shape(_thicken(solid), surfaces)
        if np.bincount(hull.simplices.ravel()).max() > MOST_NEIGHBOURS:
            return self._shape(_thin(Solid(solid.points[hull.vertices], solid.radius)), surfaces)
        number = np.zeros(len(solid.points), dtype=np.int64)
        number[hull.vertices] = np.arange(len(hull.vertices))
        shape = coal.Convex(*_vectors(coal, solid.points[hull.vertices], number[hull.simplices]))
        shape.setSweptSphereRadius(solid.radius)
        return shape, coal.Transform3s()


def _thicken(solid: Solid) -> Solid:
    """Return a solid with corners of a small box around each point."""
    half = max(MIN_THICKNESS_M, THICKNESS_RATIO * float(np.ptp(solid.points, axis=0).max()))
    box = half * np.array(list(product((-1.0, 1.0), repeat=3)))
    return Solid((solid.points[:, None] + box).reshape(-1, 3), solid.radius)


def _thin(solid: Solid) -> Solid:
    """Return a solid of fewer points that contains this one, with a larger radius.

    Each further point is the farthest from the earlier ones, so that points remain all around the rim of a disc.
    """
    kept = [0]
    away = np.linalg.norm(solid.points - solid.points[0], axis=1)
    while len(kept) < MOST_NEIGHBOURS and away.max() > 0:
        kept.append(int(away.argmax()))
        away = np.minimum(away, np.linalg.norm(solid.points - solid.points[kept[-1]], axis=1))
    return Solid(solid.points[kept], solid.radius + float(away.max()))


def _vectors(coal: Any, corners: Array, faces: NDArray[np.int64]) -> tuple[Any, Any]:
    points, triangles = coal.StdVec_Vec3s(), coal.StdVec_Triangle()
    points.extend([np.array(corner) for corner in corners])
    triangles.extend([coal.Triangle(*map(int, face)) for face in faces])
    return points, triangles
