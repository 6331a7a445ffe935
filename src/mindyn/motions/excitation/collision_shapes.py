"""`Bodies`: the solids of links and obstacles, their poses along a motion, and the distances between them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import product
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mindyn.foundation.algebra.rotations import frame_along
from mindyn.foundation.algebra.values import Array
from mindyn.motions.excitation.capsule_pairs import Points
from mindyn.motions.excitation.volumes import Volume
from mindyn.robots.link_solids import Solid
from mindyn.robots.robot import Robot

_REFERENCE: Final = np.vstack([np.zeros(3), np.eye(3)])
"""Points of a link frame; their positions determine the pose of the frame."""
THICKNESS_RATIO: Final = 1e-6
"""Half of the thickness that a flat solid gets, relative to its size."""
MIN_THICKNESS_M: Final = 1e-9
ALL: Final = (slice(None), slice(None))
"""All parts of two bodies."""
MOST_NEIGHBOURS: Final = 250
"""Largest number of edges that meet in one corner of a hull: coal can store 255."""


def import_coal() -> Any | None:
    """Return the collision library coal, which the extra `collision` installs; None if it is not installed."""
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
        """Return for each pose (N,) the smallest coordinate of a body, or of its covers, along a direction of the root
        frame.
        """
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
    """Return a solid in which each point is replaced by the corners of a small box."""
    half = max(MIN_THICKNESS_M, THICKNESS_RATIO * float(np.ptp(solid.points, axis=0).max()))
    box = half * np.array(list(product((-1.0, 1.0), repeat=3)))
    return Solid((solid.points[:, None] + box).reshape(-1, 3), solid.radius)


def _thin(solid: Solid) -> Solid:
    """Return a solid with fewer points and a larger radius that contains this solid.

    Points are chosen one after the other, each as far as possible from those chosen before, so that points remain all
    around the rim of a disc.
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
