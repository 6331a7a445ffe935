"""Paths of RRT-Connect in a plane with walls, compared with a search on a grid."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy.ndimage import label

from mindyn.motions.excitation.path_search import connect, shorten

LOWER, UPPER, LEVERS = np.zeros(2), np.full(2, 4.0), np.ones(2)
FINE, GRID = 1e-3, 0.01


def random_walls(seed: int, *, is_closed: bool) -> list[tuple[float, float, float]]:
    """Return vertical walls (x, lower and upper end of the gap); the last one has no gap if closed."""
    rng = np.random.default_rng(seed)
    gaps = [(1.0 + k, low, low + 0.4) for k, low in enumerate(rng.uniform(0.1, 3.4, 3))]
    return [*gaps[:-1], (gaps[-1][0], 5.0, 5.0)] if is_closed else gaps


def is_free(walls, points: np.ndarray) -> np.ndarray:
    inside = ((points >= LOWER) & (points <= UPPER)).all(axis=-1)
    for x, low, high in walls:
        inside &= (np.abs(points[..., 0] - x) > 0.05) | ((points[..., 1] > low) & (points[..., 1] < high))
    return inside


def advance_in(walls):
    def advance(a, b):
        count = int(np.linalg.norm(b - a) / FINE) + 2
        share = np.linspace(0, 1, count)
        free = is_free(walls, a + share[:, None] * (b - a))
        return 1.0 if free.all() else float(share[max(int(free.argmin()) - 1, 0)])

    return advance


def are_connected(walls, a, b) -> bool:
    ticks = np.arange(0, 4 + GRID / 2, GRID)
    regions, _ = label(is_free(walls, np.stack(np.meshgrid(ticks, ticks, indexing="ij"), axis=-1)))
    first, second = (regions[tuple(np.rint(p / GRID).astype(int))] for p in (a, b))
    return bool(first == second != 0)


@pytest.mark.parametrize("is_closed", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_a_path_is_found_if_and_only_if_there_is_one(seed, is_closed):
    walls = random_walls(seed, is_closed=is_closed)
    rng = np.random.default_rng(seed)
    begin, goal = np.array([0.5, rng.uniform(0.5, 3.5)]), np.array([3.5, rng.uniform(0.5, 3.5)])
    assert are_connected(walls, begin, goal) != is_closed
    advance = advance_in(walls)
    found = connect(begin, goal[None], LOWER, UPPER, LEVERS, advance, np.random.default_rng(0))
    assert (found is None) == is_closed
    if found is None:
        return
    number, way = found
    again = connect(begin, goal[None], LOWER, UPPER, LEVERS, advance, np.random.default_rng(0))
    short = shorten(way, LEVERS, advance, np.random.default_rng(0))
    assert number == 0
    assert np.array_equal(again[1], way), "one seed gives one path"
    lengths = []
    for path in (way, short):
        assert np.array_equal(path[[0, -1]], [begin, goal])
        lengths.append(np.linalg.norm(np.diff(path, axis=0), axis=1).sum())
        for a, b in pairwise(path):
            assert is_free(walls, a + np.linspace(0, 1, 5000)[:, None] * (b - a)).all()
    assert lengths[1] <= lengths[0] + 1e-12
    assert len(short) <= len(way)


def test_any_of_several_goals_is_reached():
    walls = random_walls(0, is_closed=True)
    goals = np.array([[3.5, 1.0], [3.7, 3.0], [2.5, 2.0]])
    number, way = connect(
        np.array([0.5, 0.5]), goals, LOWER, UPPER, LEVERS, advance_in(walls), np.random.default_rng(0)
    )
    assert number == 2
    assert np.array_equal(way[-1], goals[2])
