"""`turned_motions`: shift the joints of a motion by whole turns, so that it is closest to a given position."""

from __future__ import annotations

from itertools import product
from typing import Final

import numpy as np

from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import RobotError
from mindyn.motions.excitation.collision_shapes import Bodies
from mindyn.motions.excitation.constraints import Rates, sizes
from mindyn.motions.excitation.limits import ONE_TURN
from mindyn.motions.excitation.motions import Instants, Motion, State
from mindyn.motions.excitation.problem import Problem

MOST_TURNED: Final = 64
"""Largest number of motions that are returned."""
MOST_TURNS: Final = 3
"""Largest number of shifts of one joint that are tried, the nearest first."""
COMPARED: Final = 25
"""Number of instants at which a shifted motion must have the same poses, torques and distances."""
SAME: Final = 1e-6
"""Largest change that rounding may cause in a whole turn: relative change of a constraint, and change of a position in
m.
"""


def turned_motions(problem: Problem, motion: Motion, dense: Instants, bodies: Bodies, towards: Array) -> list[Motion]:
    """Return the motion with joints shifted by whole turns, the motion nearest to `towards` (n,) first.

    A joint is shifted if its whole motion stays within its range, and if poses, torques, regressor and all other
    constraints stay the same: a mimic joint with another ratio, a loop or a spring can change them. The nearest shift
    is determined from the middle of the motion's range. A motion whose start was prescribed is not shifted.
    """
    if problem.start is not None:
        return [motion]
    q = motion.derivative(dense.t, 0)
    middle = (q.min(axis=0) + q.max(axis=0)) / 2
    at = np.linspace(0, len(q) - 1, COMPARED).astype(int)
    state: State = tuple(motion.derivative(dense.t[at], order) for order in range(4))  # type: ignore[assignment]
    kinds = [joint.kind for joint in problem.columns.robot.primary_joints]
    shifts = []
    for joint, kind in enumerate(kinds):
        allowed = _shifts_within(problem, q, joint) if kind == "revolute" else np.zeros(1)
        if allowed is None:  # no range: any number of turns
            allowed = ONE_TURN * np.unique([np.round((towards[joint] - middle[joint]) / ONE_TURN), 0.0])
        allowed = allowed[np.argsort(np.abs(middle[joint] + allowed - towards[joint]), kind="stable")][:MOST_TURNS]
        shifts.append([turn for turn in allowed if turn == 0 or _is_same(problem, bodies, state, joint, turn)])
    turned = np.array(list(product(*shifts)))
    away = np.linalg.norm(middle + turned - towards, axis=1)
    nearest = turned[np.argsort(away, kind="stable")[:MOST_TURNED]]
    return [Motion(motion.family, motion.seconds, motion.start + turn, motion.coefficients) for turn in nearest]


def _shifts_within(problem: Problem, q: Array, joint: int) -> Array | None:
    """Return the shifts, including zero, with which a joint stays within its range and narrower ranges; None if it has
    no range.
    """
    unit = np.eye(q.shape[1])[joint]
    ends = [
        (constraint.middle[k] - constraint.half[k], constraint.middle[k] + constraint.half[k])
        for constraint in problem.constraints
        if isinstance(constraint, Rates) and constraint.order == 0
        for k, row in enumerate(constraint.rows)
        if np.array_equal(row, unit)
    ]
    if not ends:
        return None
    low, high = max(low for low, _ in ends), min(high for _, high in ends)
    turns = np.arange(
        np.ceil((low - q[:, joint].min()) / ONE_TURN), np.floor((high - q[:, joint].max()) / ONE_TURN) + 1
    )
    return np.asarray(ONE_TURN * np.union1d(turns, [0.0]))


def _is_same(problem: Problem, bodies: Bodies, state: State, joint: int, turn: float) -> bool:
    """Return whether a shift of one joint changes only the position of this joint."""
    q, *rates = state
    shifted = q + turn * np.eye(q.shape[1])[joint]
    try:
        before, after = (_effects(problem, bodies, (positions, *rates), joint) for positions in (q, shifted))
    except RobotError:  # a loop does not close there
        return False
    return all(np.allclose(a, b, rtol=SAME, atol=SAME) for a, b in zip(before, after, strict=True))


def _effects(problem: Problem, bodies: Bodies, state: tuple[Array, ...], joint: int) -> list[Array]:
    """Return poses, regressor and constraints, without the range of the joint itself."""
    q, qd, qdd, jerk = state
    effects = [bodies.poses(q), problem.columns.entries(q, qd, qdd)]
    for constraint in problem.constraints:
        if isinstance(constraint, Rates) and constraint.order == 0:
            others = [k for k, row in enumerate(constraint.rows) if np.flatnonzero(row).tolist() != [joint]]
            effects.append(constraint.values((q, qd, qdd, jerk))[:, others])
        else:
            effects.append(sizes(constraint, (q, qd, qdd, jerk)))
    return effects
