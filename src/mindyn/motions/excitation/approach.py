"""`approach_from`: a path from home to the start of a motion that keeps every distance and limit."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import UnsafeMotionError
from mindyn.motions.excitation.constraints import Constraint, sizes
from mindyn.motions.excitation.encounters import Encounter, Encounters, gaps_of
from mindyn.motions.excitation.limits import MotionLimits
from mindyn.motions.excitation.motions import CHECK_HZ, ApproachPath, State
from mindyn.motions.excitation.safety import Safety

PEAKS: Final = (2.1875, 7.5132, 52.5)
"""Largest first, second and third derivative of the ramp from 0 to 1 within one second."""
SHORTEST_S: Final = 0.5
DETOURS: Final = 100
"""Rest positions that a path may use if the straight line hits something."""
MOST_TRIED: Final = 500
"""Largest number of paths that are checked."""
LEG_M: Final = 0.01
"""m: largest motion of a volume between two checked positions of a leg; the final check is finer."""
SLOWER: Final = 1.5
"""Factor by which an approach is slowed, several times, if its torque or speed exceeds a limit."""
TRIES: Final = 12


def approach_from(
    begin: Array,
    start: Array,
    limits: MotionLimits,
    safety: Safety,
    places: Array,
    rng: np.random.Generator,
) -> ApproachPath:
    """Return the shortest path from home to the start through some rest positions, with straight lines in joint space.

    Edges of the graph of all positions are checked only if the shortest path uses them, and removed if they hit
    something (lazy roadmap, Bohlin and Kavraki 2000). Distances are those of the final check.

    limits  with the full ranges of the joints: home may be closer to their ends than a motion
    safety  the path keeps its distances, and is slowed until its dynamics hold
    """
    blocked = first_blocked(safety.encounters, begin[None])
    if blocked is not None:
        raise UnsafeMotionError(
            f"home {np.round(begin, 3).tolist()} is not safe: the distance {' - '.join(blocked.names)} is less than "
            f"the required {1e3 * blocked.required_m:.0f} mm",
            hint="give a home with a larger distance, lower --clearance, or omit home",
            subject="home",
        )
    chosen = rng.permutation(len(places))[:DETOURS]
    nodes = np.vstack([begin, start, places[chosen]])
    way = _shortest_way(safety.encounters, nodes, np.maximum(limits.upper - limits.lower, 1e-9))
    if way is None:
        raise UnsafeMotionError(
            f"no path from home {np.round(begin, 3).tolist()} to the start {np.round(start, 3).tolist()} keeps all "
            f"distances: the straight path and those through {len(chosen)} other positions hit something",
            hint="give another home, or omit home and move the arm to the start first",
            subject="home",
        )
    path = ApproachPath(way, _leg_seconds(way, limits))
    for _ in range(TRIES):
        if _worst(path, safety.dynamics) <= 1.0:
            return path
        path = ApproachPath(path.places, SLOWER * path.seconds)
    raise UnsafeMotionError(
        f"the path from home {np.round(begin, 3).tolist()} to the start exceeds a limit at every speed",
        hint="give another home: holding the arm there or on the path takes more torque than the limits allow",
        subject="home",
    )


def _shortest_way(encounters: Encounters, nodes: Array, ranges: Array) -> Array | None:
    """Return the positions (k + 1, n) of the shortest path from node 0 to node 1 that hits nothing."""
    finite = np.where(np.isfinite(ranges), ranges, 2 * np.pi)
    lengths = np.linalg.norm((nodes[:, None] - nodes[None]) / finite, axis=-1) + 1e-3  # few legs rather than many
    np.fill_diagonal(lengths, 0.0)
    clear: set[tuple[int, int]] = set()
    for _ in range(MOST_TRIED):
        distances, before = dijkstra(csr_array(lengths), indices=0, return_predecessors=True)
        if not np.isfinite(distances[1]):
            return None
        way = [1]
        while way[-1] != 0:
            way.append(int(before[way[-1]]))
        for i, j in pairwise(way):
            edge = (min(i, j), max(i, j))
            if edge in clear:
                continue
            if _hits(encounters, nodes[i], nodes[j]):
                lengths[i, j] = lengths[j, i] = 0.0  # no edge
                break
            clear.add(edge)
        else:
            return np.asarray(nodes[way[::-1]])
    return None


def _hits(encounters: Encounters, a: Array, b: Array) -> bool:
    """Return whether a straight leg comes too close to something."""
    share = np.linspace(0.0, 1.0, 33)[:, None]
    corners = encounters.bodies.corners(a + share * (b - a))
    length = np.linalg.norm(np.diff(corners, axis=0), axis=-1).sum(axis=0).max(initial=0.0)
    share = np.linspace(0.0, 1.0, int(np.ceil(length / LEG_M)) + 2)[:, None]
    return first_blocked(encounters, a + share * (b - a)) is not None


def first_blocked(encounters: Encounters, q: Array) -> Encounter | None:
    """Return an encounter that violates its distance at one of the positions q (N, n); None if there is none.

    Covers are compared first; shapes are measured only if their covers are too close.
    """
    bodies = encounters.bodies
    poses = bodies.poses(q)
    for encounter in encounters.checked:
        near = poses if encounter.by != "covers" else poses[gaps_of(bodies, encounter, poses) < encounter.needed_m]
        if len(near) and (gaps_of(bodies, encounter, near, is_exact=True) < encounter.needed_m).any():
            return encounter
    return None


def _leg_seconds(places: Array, limits: MotionLimits) -> Array:
    steps = np.abs(np.diff(places, axis=0))
    bounds = (limits.velocity, limits.acceleration, limits.jerk)
    needed = [
        (peak * np.divide(steps, bound, out=np.full_like(steps, np.inf), where=bound > 0)) ** (1 / order)
        for order, (peak, bound) in enumerate(zip(PEAKS, bounds, strict=True), start=1)
    ]
    seconds = np.maximum(np.nan_to_num(np.max(needed, axis=(0, 2)), nan=0.0), SHORTEST_S)
    return np.asarray(np.where(np.isfinite(seconds), 1.001 * seconds, SHORTEST_S))


def _worst(approach: ApproachPath, constraints: Sequence[Constraint]) -> float:
    count = int(min(CHECK_HZ * approach.whole_s, 20_000)) + 1
    t = np.linspace(0.0, approach.whole_s, count)
    state: State = tuple(approach.derivative(t, order) for order in range(4))  # type: ignore[assignment] # four of them
    return float(max((sizes(constraint, state).max() for constraint in constraints), default=0.0))
