"""`Capsule`: a segment with a radius, fixed to a link, and the smallest capsules around given solids."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.spatial import ConvexHull, QhullError

from mindyn.algebra.poses import frame_along, rotation_about_axis
from mindyn.algebra.values import Array, Value, frozen_array
from mindyn.robots.geometry import Solid, mesh_solid
from mindyn.robots.mesh_files import Triangles
from mindyn.simulation.inputs import require_number

MOST_COVERS: Final = 3
"""Capsules of one link: the search compares all pairs of them at every instant."""
SPLIT_GAIN: Final = 0.8
"""Another capsule is used if it reduces the total volume below this fraction."""
DESCENT_STEPS: Final = 150
"""Number of evaluations that improve the axis of a capsule."""
MARGIN_M: Final = 1e-6
"""Added to every radius, against rounding."""


@dataclass(frozen=True, slots=True, eq=False)
class Capsule(Value):
    """All points within a radius of a segment, in the frame of a link.

    Parameters
    ----------
    link : str
        Name of a link. The name of the root, or "", is an obstacle that does not move.
    a, b : array_like, shape (3,)
        Ends of the segment, in m; a sphere if they are equal.
    radius : float
        In m.

    Raises
    ------
    InputError
        If an end is not three numbers, or the radius is not positive.
    """

    link: str
    a: Array
    b: Array
    radius: float

    def __post_init__(self) -> None:
        for name in ("a", "b"):
            object.__setattr__(self, name, frozen_array(getattr(self, name), (3,), f"end {name} of a capsule"))
        require_number(self.radius, "radius", "(0, inf)", "the radius of a capsule in metres")

    @property
    def solid(self) -> Solid:
        """The capsule as the hull of its ends, swept by its radius."""
        return Solid(np.array([self.a, self.b] if (self.a != self.b).any() else [self.a]), self.radius)


@dataclass(frozen=True, slots=True, eq=False)
class _Balls:
    """Balls (V, 3), (V,) of pieces (V,) of solids (V,); a convex body that contains them contains the piece."""

    centres: Array
    radii: Array
    pieces: NDArray[np.int64]
    solids: NDArray[np.int64]

    def chosen(self, mask: NDArray[Any]) -> _Balls:
        return _Balls(self.centres[mask], self.radii[mask], self.pieces[mask], self.solids[mask])


def cover(solids: Sequence[Solid], link: str, most: int = MOST_COVERS) -> tuple[tuple[Capsule, ...], tuple[Solid, ...]]:
    """Return at most `most` capsules whose union contains the solids, and the solids divided among them.

    Each solid, or each triangle of a mesh, is in one capsule. A capsule is convex, so it contains them if it contains
    their corners. A mesh that several capsules share is divided in the same way.
    """
    balls = _balls(solids)
    part = np.zeros(len(balls.centres), dtype=np.int64)
    for count in range(2, most + 1):
        best = min(
            (_division(balls, count, axis) for axis in range(3)), key=lambda cut: _approximate_volume(balls, cut)
        )
        if _approximate_volume(balls, best) < SPLIT_GAIN * _approximate_volume(balls, part):
            part = best
    fits = [_fit(balls.chosen(part == k)) for k in np.unique(part)]
    capsules = tuple(Capsule(link, a, b, radius + MARGIN_M) for a, b, radius in fits)
    return capsules, tuple(_pieces(solids, balls, part))


def _pieces(solids: Sequence[Solid], balls: _Balls, part: NDArray[np.int64]) -> Iterator[Solid]:
    for number, solid in enumerate(solids):
        parts = part[balls.solids == number]
        if solid.surface is None or len(np.unique(parts)) == 1:
            yield solid
            continue
        corners, faces = solid.surface.corners, solid.surface.faces
        yield from (mesh_solid(Triangles(corners, faces[parts[::3] == k])) for k in np.unique(parts))


_Fit = tuple[Array, Array, float]


def _volume(fit: _Fit) -> float:
    a, b, r = fit
    return float(np.pi * r**2 * (np.linalg.norm(b - a) + 4 / 3 * r))


def _approximate_volume(balls: _Balls, part: NDArray[np.int64]) -> float:
    parts = [_hull(balls.chosen(part == k)) for k in np.unique(part)]
    return sum(min(_volume(_around(subset, *line)) for line in _lines(subset)) for subset in parts)


def _balls(solids: Sequence[Solid]) -> _Balls:
    centres, pieces, count = [], [], 0
    for solid in solids:
        if solid.surface is None:
            centres.append(solid.points)
            pieces.append(np.full(len(solid.points), count))
            count += 1
        else:
            faces = solid.surface.faces
            centres.append(solid.surface.corners[faces].reshape(-1, 3))
            pieces.append(count + np.repeat(np.arange(len(faces)), 3))
            count += len(faces)
    sizes = [len(centre) for centre in centres]
    radii = np.repeat([solid.radius for solid in solids], sizes)
    return _Balls(np.concatenate(centres), radii, np.concatenate(pieces), np.repeat(np.arange(len(solids)), sizes))


def _division(balls: _Balls, count: int, axis: int) -> NDArray[np.int64]:
    """Return the part (V,) of every ball: pieces are divided into equal lengths along a principal axis."""
    along = balls.centres @ _lines(balls)[axis][1]
    sizes = np.bincount(balls.pieces)
    middles = (np.bincount(balls.pieces, along) / np.maximum(sizes, 1))[balls.pieces]
    return np.searchsorted(np.linspace(along.min(), along.max(), count + 1)[1:-1], middles)


def _lines(balls: _Balls) -> list[tuple[Array, Array]]:
    """Return the principal axes through the middle of the extents along them: (point, direction)."""
    centred = balls.centres - balls.centres.mean(axis=0)
    axes = np.linalg.svd(centred[:: 1 + len(centred) // 2000], full_matrices=True)[2]
    extents = centred @ axes.T
    middle = balls.centres.mean(axis=0) + axes.T @ ((extents.min(axis=0) + extents.max(axis=0)) / 2)
    return [(middle, axis) for axis in axes]


def _fit(balls: _Balls) -> _Fit:
    """Return a capsule of small volume around balls: a descent from the best principal axis."""
    balls = _hull(balls)
    point, axis = min(_lines(balls), key=lambda line: _volume(_around(balls, *line)))
    u, v, _ = frame_along(axis).T

    def capsule(x: Array) -> _Fit:
        turn = x[0] * u + x[1] * v
        angle = float(np.linalg.norm(turn))
        d = axis if angle == 0 else rotation_about_axis(turn / angle, angle) @ axis
        return _around(balls, point + x[2] * u + x[3] * v, d)

    size = float(np.ptp(balls.centres, axis=0).max() + balls.radii.max())
    simplex = np.vstack([np.zeros(4), np.diag([0.2, 0.2, 0.1 * size, 0.1 * size])])
    options = {"initial_simplex": simplex, "maxfev": DESCENT_STEPS, "xatol": 1e-4 * size, "fatol": 1e-9}
    return capsule(minimize(lambda x: _volume(capsule(x)), np.zeros(4), method="Nelder-Mead", options=options).x)


def _hull(balls: _Balls) -> _Balls:
    """Return the relevant balls: corners of the hull if all have the same size."""
    if len(balls.centres) > 20 and np.ptp(balls.radii) == 0:
        try:
            return balls.chosen(ConvexHull(balls.centres).vertices)
        except QhullError:
            pass
    return balls


def _around(balls: _Balls, point: Array, d: Array) -> _Fit:
    """Return the shortest capsule of least radius around the balls whose axis is the line through point along d."""
    along = (balls.centres - point) @ d
    off = np.linalg.norm(balls.centres - point - along[:, None] * d, axis=1)
    radius = float((off + balls.radii).max())
    half = np.sqrt(np.maximum((radius - balls.radii) ** 2 - off**2, 0.0))
    low, high = float((along + half).min()), float((along - half).max())
    low, high = (low, high) if low < high else ((low + high) / 2,) * 2
    return point + low * d, point + high * d, radius
