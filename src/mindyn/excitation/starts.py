"""Starts of a search: positions in which the robot can rest, and random motions scaled up to a limit."""

from __future__ import annotations

from typing import Final

import numpy as np

from mindyn.algebra.values import Array
from mindyn.errors import Code, InputError, UnsafeMotionError, list_names
from mindyn.excitation.columns import Columns
from mindyn.excitation.constraints import sizes
from mindyn.excitation.limits import MotionLimits
from mindyn.excitation.motions import Motion, State
from mindyn.excitation.problem import Problem
from mindyn.excitation.safety import random_positions
from mindyn.excitation.solving import Search, exact_value, feasible
from mindyn.regression.information import null_space

POSITIONS: Final = 2000
"""Random positions that are searched for feasible rest positions."""
ROUNDS: Final = 12
"""Rounds in which joints of the best positions are drawn again."""
PARENTS: Final = 20
"""Best positions that each round starts from."""
REDRAWN: Final = 1.5
"""Mean number of joints that are drawn again in each position."""
DRAWS: Final = 4
"""Random motions drawn for every start that is used."""
UNLIMITED_S: Final = 0.2
"""Random accelerations of joints without a limit reach their top speed in this time."""


def places_to_stand(problem: Problem, limits: MotionLimits, rng: np.random.Generator) -> Array:
    """Return positions (k, n) at which every constraint holds at rest; only the start if it is prescribed.

    If no random position is feasible, some joints of the best ones are drawn again: for a robot with many limbs, every
    random position violates some limit, but usually of one or two limbs only.
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
        f"the robot cannot stand still {where}: {list_names(dict.fromkeys(broken))} "
        f"(best {worst[best].max():.3g} times the limit)",
        subject=broken[0] if broken else "start",
        hint="raise these limits, lower torque_margin or --clearance, or move the obstacle; for the floor: "
        "floor= (--floor) states its height in the root frame, floor=None (--no-floor) that there is none",
    )


def static_values(problem: Problem, q: Array) -> Array:
    """Return the values (N, c) of all series at rest, relative to their limits."""
    rest = np.zeros_like(q)
    state: State = (q, rest, rest, rest)
    return np.concatenate([sizes(constraint, state) for constraint in problem.constraints], axis=1)


def random_motion(problem: Problem, limits: MotionLimits, places: Array, rng: np.random.Generator) -> Motion:
    """Draw normal coefficients in units of each joint's range, and scale them until a limit is active at some knot."""
    start = places[rng.integers(len(places))]
    drawn = rng.normal(size=(problem.family.count, len(start))) * (limits.reach * ~limits.still)
    motion = feasible(problem, Motion(problem.family, problem.seconds, start, drawn), problem.knots)
    return motion or Motion(problem.family, problem.seconds, start, 1e-6 * drawn)


def good_starts(
    search: Search, limits: MotionLimits, places: Array, rng: np.random.Generator, count: int
) -> list[Motion]:
    """Return the best of some random motions, best first; at least one, whatever the deadline."""
    problem, drawn = search.problem, []
    for _ in range(DRAWS * count):
        drawn.append(random_motion(problem, limits, places, rng))
        if search.is_late:
            break
    return sorted(drawn, key=lambda motion: exact_value(problem, motion))[:count]


def require_excitable(columns: Columns, limits: MotionLimits, earlier_rows: Array, rng: np.random.Generator) -> Array:
    """Return the regressor's entries (N, e) at random states; raise if none of them determines a parameter."""
    speed = np.where(np.isfinite(limits.velocity), limits.velocity, 1.0) * ~limits.still
    push = np.where(np.isfinite(limits.acceleration), limits.acceleration, speed / UNLIMITED_S) * ~limits.still
    q = random_positions(limits, rng, 4 * columns.count)
    qd, qdd = rng.uniform(-1, 1, (2, *q.shape)) * np.stack([speed, push])[:, None]
    entries = columns.signed_entries(q, qd, qdd)
    open_directions = null_space(np.vstack([columns.dense(entries).reshape(-1, columns.count), earlier_rows]))
    touched = np.asarray((np.abs(open_directions) > 1e-6).any(axis=1))
    if touched.any():
        names = [name for name, is_open in zip(columns.base.names, touched, strict=True) if is_open]
        still = [name for name, held in zip(columns.robot.primary_names, limits.still, strict=True) if held]
        cause = f": joint {', '.join(still)} cannot move" if still else ""
        raise InputError(
            f"no motion within the limits determines these parameters: {', '.join(names)}{cause}",
            hint="widen the limits, lock joints that do not move (robot.lock), or pass earlier logs that do",
            code=Code.NOT_IDENTIFIABLE,
            subject=names[0],
        )
    return entries
