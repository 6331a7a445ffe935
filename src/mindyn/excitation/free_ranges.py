"""`free_ranges`: ranges of the joints within which bodies keep apart that the search does not see."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mindyn.algebra.values import Array
from mindyn.errors import list_names
from mindyn.excitation.bodies import Bodies
from mindyn.excitation.constraints import LinkedRates
from mindyn.excitation.encounters import Encounter, Encounters, gaps_of
from mindyn.excitation.limits import MotionLimits
from mindyn.findings import Finding, Kind, Severity
from mindyn.robots.robot import Robot

POSITIONS: Final = 1000
"""Random positions at which the distances are measured."""
CENTRES: Final = 30
"""Positions around which ranges are tried,"""
SHAPES: Final = 20
"""each with so many proportions."""


def free_ranges(
    robot: Robot,
    encounters: Encounters,
    limits: MotionLimits,
    places: Array,
    fraction: float,
    rng: np.random.Generator,
) -> MotionLimits:
    """Return the limits with narrower ranges, where a motion hit something that its search does not see.

    The search keeps covers apart. Where these touch in every position, it can only be kept away from the positions of
    the joints between the two bodies at which their shapes are too near.

    places    (N, n) positions at which everything that the search sees is far enough apart
    fraction  of the ranges to use, below 1 as a margin between the random positions
    """
    bodies, unseen = encounters.bodies, [one for one in encounters.checked if one.by != "covers"]
    at = rng.uniform(-1, 1, (POSITIONS, len(limits.lower)))
    kept = np.ones(len(places), dtype=bool)
    pairs = []
    for one in unseen:
        is_free, is_kept = (_is_apart(bodies, one, q) for q in (limits.middle + limits.reach * at, places))
        kept &= is_kept
        at_joints = at[:, joints := _joints_between(robot, bodies, one)]
        pairs.append((joints, at_joints[is_free], at_joints[~is_free]))
    centres = ((places - limits.middle) / limits.reach)[kept][:CENTRES]
    if not len(centres):
        return limits
    weights = 10 ** rng.uniform(-1, 1, (SHAPES, at.shape[1]))
    boxes = [(centre, _empty_box(centre, pairs, one)) for centre in centres for one in weights]
    centre, box = max(boxes, key=lambda one: _count_free(one[1], pairs))
    lower, upper = centre + fraction * (box - centre)
    is_cut = (box != [[-1], [1]]).any(axis=0)
    return replace(
        limits,
        lower=np.where(is_cut, limits.middle + limits.reach * lower, limits.lower),
        upper=np.where(is_cut, limits.middle + limits.reach * upper, limits.upper),
    )


def _is_apart(bodies: Bodies, one: Encounter, q: Array) -> NDArray[np.bool_]:
    return np.asarray(gaps_of(bodies, one, bodies.poses(q), is_exact=True) >= one.needed_m)


def _joints_between(robot: Robot, bodies: Bodies, one: Encounter) -> list[int]:
    """Return the joints that change a distance, by their number among the primary ones."""
    if robot.has_dependents:
        return list(range(len(robot.primary_names)))
    first, second = (set(robot.path(bodies.links[body] if body >= 0 else -1)) for body in one.bodies)
    return sorted(first ^ second)


_Pair = tuple[list[int], Array, Array]
"""Joints between two bodies, and their positions (N, k) from -1 to 1 at which the bodies are apart, and too near."""


def _empty_box(centre: Array, pairs: Sequence[_Pair], weights: Array) -> Array:
    """Return ends (2, n) of a large box around a centre that holds no position at which a pair is too near.

    The nearest such position is cut off along the axis on which it is farthest from the centre, and so on.

    weights  (n,) of distances along the axes: an axis of large weight is cut rather than others
    """
    box = np.stack([-np.ones(len(centre)), np.ones(len(centre))])
    for axes, _, near in pairs:
        away = np.abs(near - centre[axes]) * weights[axes]
        distance = away.max(axis=1, initial=0.0)
        while (inside := _is_inside(box[:, axes], near)).any():
            k = int(np.where(inside, distance, np.inf).argmin())
            j = int(away[k].argmax())
            box[int(near[k, j] > centre[axes[j]]), axes[j]] = near[k, j]
    return box


def _is_inside(box: Array, points: Array) -> NDArray[np.bool_]:
    return np.asarray(((points > box[0]) & (points < box[1])).all(axis=1))


def _count_free(box: Array, pairs: Sequence[_Pair]) -> float:
    """Return the logarithm of the number of free positions in a box; a box between some positions has none."""
    return float(sum(np.log1p(_is_inside(box[:, axes], free).sum()) for axes, free, _ in pairs))


def range_constraint(
    robot: Robot, whole: MotionLimits, narrow: MotionLimits
) -> tuple[list[LinkedRates], list[Finding]]:
    """Return the constraint that keeps the joints within narrower ranges, and a finding that lists them."""
    joints = np.flatnonzero((narrow.lower > whole.lower) | (narrow.upper < whole.upper))
    if not len(joints):
        return [], []
    names = [robot.primary_names[k] for k in joints]
    labels = tuple(f"free range of {name}" for name in names)
    rows = np.eye(len(narrow.lower))[joints]
    listed = [f"{name} {narrow.lower[k]:.3g} to {narrow.upper[k]:.3g}" for name, k in zip(names, joints, strict=True)]
    finding = Finding(
        Kind.NARROWED_RANGE,
        Severity.INFO,
        f"these joints stay within narrower ranges, in which all links keep apart: {list_names(listed, 12)}",
        "Add finer collision geometry to the robot file for wider ranges",
        tuple(names),
    )
    return [LinkedRates(narrow.middle[joints], narrow.reach[joints], labels, 0, rows)], [finding]
