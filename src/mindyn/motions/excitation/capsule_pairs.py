"""`Pairs`: distances between capsules along a motion, with exact derivatives with respect to q."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

import casadi
import numpy as np
from numpy.typing import NDArray

from mindyn.equations.chain import SX, constant, kinematic_chain
from mindyn.equations.closed_motion import CLOSURE, closed_motion, is_affine
from mindyn.equations.kinematics import frame_placements
from mindyn.equations.loop_closure import affine_closure
from mindyn.foundation.algebra.values import Array
from mindyn.kernels.closed_kernel import make_kernel
from mindyn.kernels.derivatives import jacobians
from mindyn.kernels.kernel import Kernel
from mindyn.motions.excitation.volumes import Capsule
from mindyn.robots.robot import Robot

KEPT_ROWS: Final = 1000
"""Largest number of instants for which nearest points are cached; a check uses its nearest points only once."""
CACHED_ROWS: Final = 500
"""Number of instants in one part of a check."""
_TINY = 1e-12
"""Segments whose squared length (m^2) is below this count as points."""


class Points:
    """Points that are fixed to links, in the root frame: positions (N, k, 3), and derivatives (N, k, 3, n) with respect
    to q.

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
        """Return the derivatives (N, k, 3, n) with respect to q."""
        return np.asarray(self._slopes(q)).reshape(len(q), *self._shape, q.shape[1])


def kernel_and_slopes(robot: Robot, function: casadi.Function) -> tuple[Kernel, Kernel]:
    """Return the kernels of a function and of its derivatives with respect to each input."""
    slopes = jacobians(function, function.name_in())
    matrices = [name for name in slopes.name_out() if name != CLOSURE]
    return make_kernel(robot, function), make_kernel(robot, slopes, matrices=matrices)


def primary_motion(robot: Robot) -> tuple[SX, SX, SX, list[SX]]:
    """Return symbols q, the positions of all joints, W (W qd are the rates of all joints), and the closure of loops, if
    any.
    """
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
    """Compute the nearest points of segments a1-b1 and a2-b2 from their ends (N, c, 4, 3).

    The normal points to the first segment.
    """
    distance, normal, s, t = _nearest_kernel()(ends)
    return NearestPoints(distance[..., 0], normal, s[..., 0], t[..., 0])


@cache
def _nearest_kernel() -> Kernel:
    """Return the kernel for the distance of one pair, compiled because a search often evaluates all pairs at all
    instants.
    """
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
    """Pairs of capsules of a robot and its surroundings that must not touch each other.

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
        """Return the distances (N, c) between surfaces, m; negative if they overlap.

        Many positions are evaluated in parts that fit into the processor's cache, which is three times as fast.
        """
        parts = [q] if len(q) <= KEPT_ROWS else np.array_split(q, len(q) // CACHED_ROWS)
        return np.asarray(np.concatenate([self._nearest(part).distance for part in parts]) - self._reach)

    def slopes(self, q: Array) -> Array:
        """Return the derivatives (N, c, n) of the gaps with respect to q."""
        nearest_points, J = self._nearest(q), self.points.slopes(q)
        first, second = self.pairs.T
        moves = slopes_between(J, first, nearest_points.s) - slopes_between(J, second, nearest_points.t)
        return np.asarray(np.einsum("tci,tcij->tcj", nearest_points.normal, moves))

    def _nearest(self, q: Array) -> NearestPoints:
        """Return the nearest points, from a cache: solvers request first the gaps and then the slopes at the same q."""
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
