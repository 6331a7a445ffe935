"""`KeepOut`: boxes that the capsules of a robot must stay outside of, with exact derivatives.

The signed distance of a point from a box is convex, also along the segment of a capsule. Its minimum is found by
bisection of the slope, and has the derivative by q of the point at the minimum.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mindyn.algebra.values import Array
from mindyn.excitation.clearance import Pairs, slopes_between
from mindyn.excitation.constraints import Box

BISECTIONS: Final = 40
"""Number of bisections of a segment: accurate to 1e-12 of its length."""


@dataclass(frozen=True, slots=True, eq=False)
class KeepOut:
    """Capsules and boxes.

    body     capsules, with their end points; its pairs do not count
    boxes    finite ones in the root frame
    series   (c, 2) numbers of a capsule and a box
    """

    body: Pairs
    boxes: tuple[Box, ...]
    series: NDArray[np.intp]

    def gaps(self, q: Array) -> Array:
        """See `Surfaces`."""
        return self._nearest(self.body.points.positions(q))[0]

    def slopes(self, q: Array) -> Array:
        """See `Surfaces`."""
        _, normal, s = self._nearest(self.body.points.positions(q))
        moves = slopes_between(self.body.points.slopes(q), self.series[:, 0], s)
        return np.asarray(np.einsum("tci,tcij->tcj", normal, moves))

    def _nearest(self, P: Array) -> tuple[Array, Array, Array]:
        """Return gaps (N, c), outward unit normals (N, c, 3) of the boxes, and places s in [0, 1] on the segments."""
        capsule, box = self.series.T
        a, b = P[:, 2 * capsule], P[:, 2 * capsule + 1]
        lower = np.array([obstacle.lower for obstacle in self.boxes])[box]
        upper = np.array([obstacle.upper for obstacle in self.boxes])[box]
        low, high = np.zeros(a.shape[:-1]), np.ones(a.shape[:-1])
        for _ in range(BISECTIONS):
            s = (low + high) / 2
            rising = (signed_distance(a + s[..., None] * (b - a), lower, upper)[1] * (b - a)).sum(-1) > 0
            low, high = np.where(rising, low, s), np.where(rising, s, high)
        s = (low + high) / 2
        distance, normal = signed_distance(a + s[..., None] * (b - a), lower, upper)
        radii = np.array([self.body.capsules[i].radius for i in capsule])
        return distance - radii, normal, s


def signed_distance(p: Array, lower: Array, upper: Array) -> tuple[Array, Array]:
    """Return distances of points (..., 3) from boxes, negative inside, and their gradients, unit vectors outwards."""
    outside = p - np.clip(p, lower, upper)
    length = np.sqrt((outside**2).sum(-1))
    depths = np.stack([p - lower, upper - p], axis=-2).reshape(*p.shape[:-1], 6)
    face = depths.argmin(-1)
    shortest = np.take_along_axis(depths, face[..., None], axis=-1)[..., 0]
    outward = np.vstack([-np.eye(3), np.eye(3)])[face]
    is_out = length > 0
    normal = np.where(is_out[..., None], outside / np.where(is_out, length, 1.0)[..., None], outward)
    return np.where(is_out, length, -shortest), normal
