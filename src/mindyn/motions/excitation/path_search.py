"""`connect`: find a path between positions by rapidly exploring random trees from both ends.

`explore`: find positions that free lines connect with a position.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from mindyn.foundation.algebra.values import Array

GROWTHS: Final = 2000
"""Largest number of random positions towards which the trees grow."""
DIRECT: Final = 8
"""Number of starts to which a straight line is tried before trees grow, the nearest start first."""
TOWARDS_OTHER: Final = 0.1
"""Fraction of growths that are directed towards a root of the other tree."""
NEARBY: Final = 0.5
"""Fraction of growths towards random positions between the ends, or up to half a turn beyond them; the others use the
full ranges.
"""
EXPLORED: Final = 300
"""Number of random positions towards which a tree grows that only explores."""
REACH_M: Final = 0.5
"""m: largest motion of a volume in one growth step."""
SHORTEST_M: Final = 0.02
"""m: a growth step that is shorter than this adds no new position."""
KEPT_FREE: Final = 0.9
"""Fraction of the free part of a blocked line that is used, because the end of this part touches the obstacle."""
SHORTCUTS: Final = 60
"""Number of random shortcuts that are tried."""

Advance = Callable[[Array, Array], float]
"""(a, b) -> the fraction of the straight line from a to b that is free, from a."""


class _Tree:
    """Positions that can be reached from the roots (k, n) along free lines."""

    def __init__(self, roots: Array, levers: Array) -> None:
        self.nodes, self.parents, self.levers = list(roots), [-1] * len(roots), levers

    def nearest(self, q: Array) -> int:
        return int(np.linalg.norm((np.array(self.nodes) - q) * self.levers, axis=1).argmin())

    def grow(self, target: Array, advance: Advance, reach: float) -> int | None:
        """Add a position on the line to the target. Return its number, or None if no part of the line is free."""
        parent = self.nearest(target)
        a, way = self.nodes[parent], target - self.nodes[parent]
        length = float(np.linalg.norm(way * self.levers))
        if length < 1e-9:
            return parent
        b = target if length <= reach else a + reach / length * way
        share = advance(a, b)
        if share < 1:
            b = a + KEPT_FREE * share * (b - a)
            if KEPT_FREE * share * min(length, reach) < SHORTEST_M:
                return None
        self.nodes.append(b)
        self.parents.append(parent)
        return len(self.nodes) - 1

    def way_from_root(self, number: int) -> tuple[int, list[Array]]:
        """Return the number of the root, and the positions from it."""
        way = []
        while True:
            way.append(self.nodes[number])
            if self.parents[number] < 0:
                return number, way[::-1]
            number = self.parents[number]


def connect(
    begin: Array, goals: Array, lower: Array, upper: Array, levers: Array, advance: Advance, rng: np.random.Generator
) -> tuple[int, Array] | None:
    """Return the number of a goal and a path (k, n) to it; None if no path was found.

    One tree grows from the begin, and one from all goals. In turns, one tree grows towards a random position, and the
    other tree then grows towards the new position until it is blocked (RRT-Connect, Kuffner and LaValle 2000).

    goals         (k, n) positions, earlier ones are preferred
    lower, upper  (n,) ranges of random positions
    levers        (n,) weights of the joints in distances
    """
    for direct, goal in enumerate(goals[:DIRECT]):
        if advance(begin, goal) == 1.0:
            return direct, np.stack([begin, goal])
    near = np.stack([begin, goals[0]])
    box = np.maximum(near.min(axis=0) - np.pi, lower), np.minimum(near.max(axis=0) + np.pi, upper)
    growing, other = _Tree(begin[None], levers), _Tree(goals, levers)
    is_forward = True
    for _ in range(GROWTHS):
        draw = rng.random()
        if draw < TOWARDS_OTHER:
            target = other.nodes[int(rng.integers(len(goals) if is_forward else 1))]
        else:
            target = rng.uniform(*(box if draw < TOWARDS_OTHER + NEARBY else (lower, upper)))
        number = growing.grow(target, advance, REACH_M)
        if number is not None:
            met = other.grow(growing.nodes[number], advance, np.inf)
            if met is not None and np.array_equal(other.nodes[met], growing.nodes[number]):
                (first, way), (last, back) = growing.way_from_root(number), other.way_from_root(met)
                whole = way + back[::-1][1:]
                return (last, np.array(whole)) if is_forward else (first, np.array(whole[::-1]))
        growing, other, is_forward = other, growing, not is_forward
    return None


def explore(
    begin: Array, lower: Array, upper: Array, levers: Array, advance: Advance, rng: np.random.Generator
) -> Array:
    """Return the positions (k, n) of a tree that grows from `begin` towards random positions."""
    tree = _Tree(begin[None], levers)
    for _ in range(EXPLORED):
        tree.grow(rng.uniform(lower, upper), advance, REACH_M)
    return np.array(tree.nodes)


def shorten(way: Array, levers: Array, advance: Advance, rng: np.random.Generator) -> Array:
    """Return a path with fewer and shorter lines: try random shortcuts, then lines that skip a single position."""
    for _ in range(SHORTCUTS if len(way) > 2 else 0):
        lengths = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(way, axis=0) * levers, axis=1))])
        s, t = np.sort(rng.uniform(0, lengths[-1], 2))
        i, j = (int(np.clip(np.searchsorted(lengths, x, side="right") - 1, 0, len(way) - 2)) for x in (s, t))
        if i == j:
            continue
        a, b = (
            way[k] + (x - lengths[k]) / max(lengths[k + 1] - lengths[k], 1e-12) * (way[k + 1] - way[k])
            for k, x in ((i, s), (j, t))
        )
        if advance(a, b) == 1.0:
            way = np.vstack([way[: i + 1], a, b, way[j + 1 :]])
    k = 1
    while k < len(way) - 1:
        if advance(way[k - 1], way[k + 1]) == 1.0:
            way = np.delete(way, k, axis=0)
        else:
            k += 1
    return way
