"""Where a search begins: positions at which the robot may stand, random motions scaled until a limit binds."""

from __future__ import annotations

from typing import Final

import numpy as np

from mindyn.algebra.values import Array
from mindyn.errors import InputError, UnsafeMotionError, list_names
from mindyn.excitation.columns import Columns
from mindyn.excitation.constraints import sizes
from mindyn.excitation.instants import State
from mindyn.excitation.limits import MotionLimits
from mindyn.excitation.motions import Motion
from mindyn.excitation.problem import Problem
from mindyn.excitation.safety import random_positions
from mindyn.excitation.solving import Search, exact_value, feasible
from mindyn.regression.information import null_space

POSITIONS: Final = 2000
"""Random positions among which places to stand are looked for."""
ROUNDS: Final = 12
"""Times that joints of the best positions are drawn again,"""
PARENTS: Final = 20
"""of so many positions,"""
REDRAWN: Final = 1.5
"""so many joints of each on average."""
DRAWS: Final = 4
"""Random motions for every beginning that is used, the best of them."""
UNLIMITED_S: Final = 0.2
"""Random accelerations of joints without a limit reach their top speed in this time."""


def places_to_stand(problem: Problem, limits: MotionLimits, rng: np.random.Generator) -> Array:
    """(k, n) positions at which every constraint holds at rest; the start alone where it is prescribed.

    Where no random position is one, some joints of the best are drawn again, and so on: of a robot with many limbs,
    each random position breaks some limit, but of one or two limbs only.
    """
    q = random_positions(limits, rng, POSITIONS) if problem.start is None else problem.start[None]
    for left in reversed(range(1 if problem.start is not None else ROUNDS)):
        worst = static_values(problem, q)
        holds = (worst <= 1).all(axis=1)
        if holds.any():
            return np.asarray(q[holds])
        if left:
            best = q[np.maximum(worst - 1, 0).sum(axis=1).argsort()[:PARENTS]]
            redrawn = np.repeat(best, POSITIONS // PARENTS, axis=0)
            chosen = rng.random(redrawn.shape) < REDRAWN / redrawn.shape[1]
            q = np.vstack([best, np.where(chosen, random_positions(limits, rng, len(redrawn)), redrawn)])
    best = int(worst.max(axis=1).argmin())
    broken = [label for label, value in zip(problem.labels, worst[best], strict=True) if value > 1]
    where = (
        "at the given start"
        if problem.start is not None
        else f"at any of {POSITIONS} random positions, nor near the best of them"
    )
    raise UnsafeMotionError(
        f"the robot cannot even stand still {where}: {list_names(dict.fromkeys(broken))} "
        f"(best {worst[best].max():.3g} times the limit)",
        hint="raise these limits, lower torque_margin or --clearance, or move what stands in the way; where it is the "
        "floor: floor= (--floor) states its height in the root frame, floor=None (--no-floor) that there is none",
    )


def static_values(problem: Problem, q: Array) -> Array:
    """(N, c) the parts of their limits that all series take at rest."""
    rest = np.zeros_like(q)
    state: State = (q, rest, rest, rest)
    return np.concatenate([sizes(one, state) for one in problem.constraints], axis=1)


def random_motion(problem: Problem, limits: MotionLimits, places: Array, rng: np.random.Generator) -> Motion:
    """Normal coefficients in units of each joint's range, then all scaled until a limit binds at some knot."""
    start = places[rng.integers(len(places))]
    drawn = rng.normal(size=(problem.family.count, len(start))) * (limits.reach * ~limits.still)
    motion = feasible(problem, Motion(problem.family, problem.seconds, start, drawn), problem.knots)
    return motion or Motion(problem.family, problem.seconds, start, 1e-6 * drawn)


def good_starts(
    search: Search, limits: MotionLimits, places: Array, rng: np.random.Generator, count: int
) -> list[Motion]:
    """The best of some random motions, best first; one at least, whatever the deadline."""
    problem, drawn = search.problem, []
    for _ in range(DRAWS * count):
        drawn.append(random_motion(problem, limits, places, rng))
        if search.is_late:
            break
    return sorted(drawn, key=lambda motion: exact_value(problem, motion))[:count]


def reference_entries(columns: Columns, limits: MotionLimits, rng: np.random.Generator) -> Array:
    """The regressor's entries (N, e) at random states within the limits: all that it could ever be asked to do."""
    count = 4 * columns.count
    speed = np.where(np.isfinite(limits.velocity), limits.velocity, 1.0) * ~limits.still
    push = np.where(np.isfinite(limits.acceleration), limits.acceleration, speed / UNLIMITED_S) * ~limits.still
    q = random_positions(limits, rng, count)
    qd, qdd = rng.uniform(-1, 1, (2, *q.shape)) * np.stack([speed, push])[:, None]
    return columns.signed_entries(q, qd, qdd)


def require_excitable(columns: Columns, limits: MotionLimits, earlier_rows: Array, rng: np.random.Generator) -> Array:
    """The reference entries; refused where parameters stay untold by any state within the limits."""
    entries = reference_entries(columns, limits, rng)
    open_directions = null_space(np.vstack([columns.dense(entries).reshape(-1, columns.count), earlier_rows]))
    touched = np.asarray((np.abs(open_directions) > 1e-6).any(axis=1))
    if touched.any():
        names = [name for name, one in zip(columns.base.names, touched, strict=True) if one]
        still = [name for name, one in zip(columns.robot.primary_names, limits.still, strict=True) if one]
        cause = f": joint {', '.join(still)} cannot move" if still else ""
        raise InputError(
            f"no motion within the limits tells these parameters: {', '.join(names)}{cause}",
            hint="widen the limits, lock joints that do not move (robot.lock), or give earlier logs that tell them",
        )
    return entries
