"""Findings about targets that do not belong to the positions: wrong unit, sign or joint, locked joint, resting tip.

Each is compared with its alternatives before it is stated: a servo of any gain follows slow targets with a slope near
one, at its own joint best.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mindyn.foundation.algebra.values import Array
from mindyn.foundation.findings import Finding, Kind, Severity
from mindyn.identification.servos.joint_tables import ServoRows

STANDING_PART: Final = 0.05
"""Range of positions relative to that of the targets, below which a joint does not follow."""
DEGREES_SLOPE: Final = (15.0, 200.0)
"""Ratio of the ranges of targets and positions around 57.3 that means degrees; those of servos are 0.5 to 3."""
_OTHER: Final = {"targets": "positions", "positions": "targets"}
MIN_RANGE_RAD: Final = 0.01
"""A joint with a smaller range may rest, which says nothing about units."""
MAX_TURNS: Final = 2.0
"""Joints of arms and legs turn less than this: position servos turn once, and most links less."""
OTHER_CORRELATION: Final = 0.8
"""Smallest correlation of a position with the target of another joint, for both to be swapped."""
OWN_CORRELATION: Final = 0.6
"""Joints are swapped only if the correlation of a position with the target of its own joint is at most this."""
LOWEST_BAND: Final = 0.05
"""Part of the range of heights above the lowest one that counts as resting."""
DEEPEST_PART: Final = 0.02
"""Part of the rows in which the tip may be lower than at rest: impacts."""
RESTING_PART: Final = 0.35
"""Part of the rows in which a tip that rests on something is at its lowest height. Rows on a table up to 30 % are found
by their errors and left out."""
PUSHED_PART: Final = 0.7
"""Part of the resting rows in which the target is lower than the tip; gravity alone makes it higher. Of 25 motions of
an SO-101, the six that are low for more than 35 % have no such rows. Of eight arms on tables, all have 80 % or more."""


def find_degrees(names: Sequence[str], rows: ServoRows, is_turning: NDArray[np.bool_]) -> list[Finding]:
    """Return a finding if targets or positions seem to be in degrees; is_turning (n,) revolute joints."""
    ranges = [np.ptp(x, axis=0) for x in (rows.target, rows.q)]
    moves: NDArray[np.bool_] = is_turning & (ranges[0] > MIN_RANGE_RAD) & (ranges[1] > MIN_RANGE_RAD)
    joints = [names[int(k)] for k in np.flatnonzero(moves)]
    if not joints:
        return []
    ratios = ranges[0][moves] / ranges[1][moves]
    low, high = DEGREES_SLOPE
    for factor, signal in ((ratios, "targets"), (1 / ratios, "positions")):
        if (factor > low).all() and (factor < high).all():
            message = f"{signal} are {np.median(factor):.3g} times the {_OTHER[signal]}: they may be in degrees"
            return [_error(message, f"Correct units.{signal[:-1]} or units.{_OTHER[signal][:-1]}", joints)]
    turns = float(min(range_.max() for range_ in ranges)) / (2 * np.pi)
    if turns > MAX_TURNS:
        message = f"targets and positions span {turns:.1f} turns: they may be in degrees"
        return [_error(message, "Correct units.position and units.target", joints)]
    return []


def stands(rows: ServoRows) -> NDArray[np.bool_]:
    """Return the joints (n,) that do not follow their targets at all: locked, or without power."""
    moved = np.ptp(rows.target, axis=0)
    return np.asarray((np.ptp(rows.q, axis=0) < STANDING_PART * moved) & (moved > 0), dtype=bool)


def find_wrong_targets(names: Sequence[str], rows: ServoRows, moves: NDArray[np.bool_]) -> list[Finding]:
    """Return a finding if targets have another sign or order than positions; moves (n,) joints that move."""
    from scipy.optimize import linear_sum_assignment

    joints = np.flatnonzero(moves)
    correlations = _correlate(rows.q[:, joints], rows.target[:, joints])
    if len(
        inverted := [
            names[int(j)] for j, r in zip(joints, np.diag(correlations), strict=True) if r < -OTHER_CORRELATION
        ]
    ):
        message = f"positions of {', '.join(inverted)} follow their targets with the opposite sign"
        return [_error(message, "Correct the gears or the columns of these joints", inverted)]
    places = linear_sum_assignment(-correlations)[1]
    other = [
        k
        for k, place in enumerate(places)
        if place != k and correlations[k, place] > OTHER_CORRELATION and correlations[k, k] < OWN_CORRELATION
    ]
    if not other:
        return []
    pairs = ", ".join(f"{names[int(joints[k])]} follows that of {names[int(joints[places[k]])]}" for k in other)
    message = f"positions follow targets of other joints: {pairs}"
    return [_error(message, "Correct columns.target or joints", [names[int(joints[k])] for k in other])]


def find_resting_tip(heights: Array, target_heights: Array, tip: str) -> list[Finding]:
    """Return a finding if the tip lies at its lowest height, with lower targets, in too many rows to leave them out.

    heights, target_heights  (N,) heights of the tip, and where the targets would bring it
    """
    span = float(np.ptp(heights))
    low = heights < np.quantile(heights, DEEPEST_PART) + LOWEST_BAND * span
    if not span > 0 or low.mean() < RESTING_PART or (target_heights < heights)[low].mean() < PUSHED_PART:
        return []
    below = 1e3 * float(np.median((heights - target_heights)[low]))
    message = (
        f"{tip} is at its lowest height in {100 * low.mean():.0f} % of the rows, where targets are {below:.0f} mm "
        "lower: it rests on something"
    )
    remedy = "Record a motion in the air: contact forces are not modelled"
    return [Finding(Kind.CONTACT, Severity.WARNING, message, remedy)]


def _correlate(q: Array, target: Array) -> Array:
    """Return the correlation (n, n) of each position with each target."""
    q, target = q - q.mean(axis=0), target - target.mean(axis=0)
    scale = np.outer(np.sqrt((q * q).sum(axis=0)), np.sqrt((target * target).sum(axis=0)))
    return np.asarray(q.T @ target / np.where(scale > 0, scale, np.inf))


def _error(message: str, remedy: str, joints: Sequence[str]) -> Finding:
    return Finding(Kind.WRONG_TARGET, Severity.ERROR, message, remedy, tuple(joints))
