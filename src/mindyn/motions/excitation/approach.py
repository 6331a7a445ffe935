"""`approach_from`: plan a path from home to the start of a motion within all distances and limits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, UnsafeMotionError
from mindyn.foundation.findings import Severity
from mindyn.motions.excitation.body_pairs import STEP_M, Encounter, Encounters, cover_gaps, gaps_of
from mindyn.motions.excitation.constraints import Constraint, sizes
from mindyn.motions.excitation.limits import MotionLimits
from mindyn.motions.excitation.motion_check import check_path, relative_steps
from mindyn.motions.excitation.motion_safety import Safety
from mindyn.motions.excitation.motions import CHECK_HZ, ApproachPath, State
from mindyn.motions.excitation.path_search import connect, explore, shorten

PEAKS: Final = (2.1875, 7.5132, 52.5)
"""Largest values of the first, second and third derivative of the ramp, which goes from 0 to 1 within one second."""
SHORTEST_S: Final = 0.5
STEPS_M: Final = (0.01, 0.004, STEP_M)
"""m: largest motion of a volume between two checked positions of a line; the searches use these values one after the
other. The final check of the path is as fine as that of a motion.
"""
SLOWER: Final = 1.5
"""Factor by which an approach is slowed down if its torque or speed exceeds a limit; it is applied repeatedly."""
TRIES: Final = 12
LEVERS: Final = 50
"""Number of random positions at which the motion of the volumes per motion of each joint is measured."""


def approach_from(
    begin: Array, starts: Array, limits: MotionLimits, safety: Safety, rng: np.random.Generator
) -> tuple[int, ApproachPath]:
    """Return a path from home to one of several starts: straight lines in joint space, and the number of the start.

    starts  (k, n) starts of the same motion, shifted by whole turns; earlier ones are preferred
    limits  limits with the full ranges of the joints, because home may be closer to their ends than a motion safety
    distances that the path keeps; the path is slowed down until rates, torques and speeds are within limits
    """
    require_free_home(begin, safety)
    lower, upper = _search_box(begin, starts, limits)
    levers = _levers(safety.encounters, lower, upper, rng)
    for step_m in STEPS_M:
        space = FreeSpace(safety, step_m)
        found = connect(begin, starts, lower, upper, levers, space.advance, rng)
        if found is None:
            break
        number, way = found
        way = shorten(way, levers, space.advance, rng)
        if _is_safe(safety.encounters, way):
            return number, _timed(way, limits, safety)
    raise UnsafeMotionError(
        f"no path that keeps all distances was found from home {np.round(begin, 3).tolist()} to the start "
        f"{np.round(starts[0], 3).tolist()} or to {len(starts) - 1} others that differ by whole turns",
        hint="try another --seed or home, correct the floor and obstacles, lower --clearance, or prescribe a start "
        "whose surroundings are free",
        code=Code.NOT_CONVERGED,
        subject="home",
    )


def reachable_from(begin: Array, limits: MotionLimits, safety: Safety, rng: np.random.Generator) -> Array:
    """Return positions (k, n) to which free paths lead from home."""
    lower, upper = _search_box(begin, begin[None], limits)
    levers = _levers(safety.encounters, lower, upper, rng)
    return explore(begin, lower, upper, levers, FreeSpace(safety, STEPS_M[0]).advance, rng)


def require_free_home(begin: Array, safety: Safety) -> None:
    """Raise `UnsafeMotionError` if home (n,) is too close to another body, or if the arm cannot be held there."""
    blocked = first_blocked(safety.encounters, begin[None])
    if blocked is not None:
        raise UnsafeMotionError(
            f"home {np.round(begin, 3).tolist()} is not safe: the distance {' - '.join(blocked.names)} is less than "
            f"the required {1e3 * blocked.required_m:.0f} mm",
            hint="give a home with a larger distance, or lower --clearance",
            subject="home",
        )
    if _worst_at_rest(safety.dynamics, begin[None]).max() > 1.0:
        raise UnsafeMotionError(
            f"home {np.round(begin, 3).tolist()} is not possible: holding the arm there takes more torque than the "
            "limits allow",
            hint="give another home, or lower torque_margin",
            subject="home",
        )


def is_unreachable(error: UnsafeMotionError) -> bool:
    """Return whether only the path to these starts failed. If home itself is not free, the result is False."""
    return error.code is Code.NOT_CONVERGED


class FreeSpace:
    """Positions at which all distances are kept and the motors can hold the arm.

    step_m  largest motion of a corner of a volume between two checked positions
    """

    def __init__(self, safety: Safety, step_m: float) -> None:
        self.encounters, self.dynamics, self.step_m = safety.encounters, safety.dynamics, step_m

    def advance(self, a: Array, b: Array) -> float:
        """Return the fraction of the straight line from a to b that is free, from a on; 1 if the whole line is free."""
        corners = self.encounters.bodies.corners(a + np.linspace(0.0, 1.0, 17)[:, None] * (b - a))
        length = np.linalg.norm(np.diff(corners, axis=0), axis=-1).sum(axis=0).max(initial=0.0)
        share = np.linspace(0.0, 1.0, int(np.ceil(1.02 * length / self.step_m)) + 2)
        q = a + share[:, None] * (b - a)
        held = _worst_at_rest(self.dynamics, q) <= 1.0
        count = len(q) if held.all() else int(held.argmin())
        count = count_free(self.encounters, q[:count])
        return 1.0 if count == len(q) else float(share[max(count - 1, 0)])


def first_blocked(encounters: Encounters, q: Array) -> Encounter | None:
    """Return an encounter whose distance is too small at one of the positions q (N, n); None if there is none.

    Covers are compared first; shapes are measured only if their covers are too close.
    """
    bodies = encounters.bodies
    poses = bodies.poses(q)
    for encounter in encounters.checked:
        near = poses if encounter.by != "covers" else poses[gaps_of(bodies, encounter, poses) < encounter.needed_m]
        if len(near) and (gaps_of(bodies, encounter, near, is_exact=True) < encounter.needed_m).any():
            return encounter
    return None


def count_free(encounters: Encounters, q: Array) -> int:
    """Return how many positions of a path q (N, n), from its begin, keep all distances.

    Between two positions, a distance changes at most by the motion of one body relative to the other. Positions at
    which the distance cannot be too small yet are therefore skipped.
    """
    bodies, count = encounters.bodies, len(q)
    poses, corners = bodies.poses(q), bodies.corners(q)
    for encounter in encounters.checked:
        i, j = encounter.bodies
        if encounter.direction is not None:
            gaps = gaps_of(bodies, encounter, poses[:count])
        else:
            gaps = cover_gaps(bodies, (i, j), poses[:count], encounter.parts)
        near = np.flatnonzero(gaps < encounter.needed_m)
        if not len(near):
            continue
        if encounter.direction is not None or not bodies.is_exact:
            count = int(near[0])
            continue
        way = np.concatenate([[0.0], np.cumsum(relative_steps(poses[:count], corners[:count], i, j))])
        k = 0
        while k < len(near):
            row = int(near[k])
            gap = float(gaps_of(bodies, encounter, poses[row : row + 1], is_exact=True)[0])
            if gap < encounter.needed_m:
                count = row
                break
            beyond = int(np.searchsorted(way, way[row] + gap - encounter.needed_m, side="right"))
            k = max(k + 1, int(np.searchsorted(near, beyond)))
    return count


def _search_box(begin: Array, starts: Array, limits: MotionLimits) -> tuple[Array, Array]:
    """Return the ranges (n,) that a path may use: the limits; for joints without limits, half a turn beyond the end
    positions.
    """
    ends = np.vstack([begin, starts])
    low, high = ends.min(axis=0) - np.pi, ends.max(axis=0) + np.pi
    bounded = np.isfinite(limits.lower)
    return np.where(bounded, limits.lower, low), np.where(bounded, limits.upper, high)


def _levers(encounters: Encounters, lower: Array, upper: Array, rng: np.random.Generator) -> Array:
    """Return for each joint (n,) how far the fastest corner of a volume moves per rad or m of the joint."""
    q, step = rng.uniform(lower, upper, (LEVERS, len(lower))), 1e-4
    here = encounters.bodies.corners(q)
    moved = [encounters.bodies.corners(np.clip(q + step * unit, lower, upper)) - here for unit in np.eye(len(lower))]
    levers = np.array([np.linalg.norm(way, axis=-1).max(initial=0.0) for way in moved]) / step
    return np.maximum(levers, 0.05 * max(float(levers.max(initial=0.0)), 1e-3))


def _is_safe(encounters: Encounters, way: Array) -> bool:
    """Return whether the check of motions finds no distance that is too small on a path."""
    return all(finding.severity is not Severity.ERROR for finding in check_path(encounters, [(way, None)], 0).findings)


def _timed(way: Array, limits: MotionLimits, safety: Safety) -> ApproachPath:
    """Return the path with the shortest times that keep the limits of rates, torques and speeds."""
    path = ApproachPath(way, _leg_seconds(way, limits))
    for _ in range(TRIES):
        if _worst(path, safety.dynamics) <= 1.0:
            return path
        path = ApproachPath(path.places, SLOWER * path.seconds)
    raise UnsafeMotionError(
        f"the path from home {np.round(way[0], 3).tolist()} to the start exceeds a limit at every speed",
        hint="give another home: holding the arm there or on the path takes more torque than the limits allow",
        subject="home",
    )


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


def _worst_at_rest(constraints: Sequence[Constraint], q: Array) -> Array:
    """Return for each position (N,) the largest fraction of a limit that the arm uses at rest."""
    rest = np.zeros_like(q)
    worst = [sizes(constraint, (q, rest, rest, rest)).max(axis=1) for constraint in constraints]
    return np.asarray(np.max(worst, axis=0)) if worst else np.zeros(len(q))
