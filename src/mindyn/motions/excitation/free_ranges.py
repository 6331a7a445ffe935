"""Narrow the ranges of joints after a motion caused a contact that its search cannot detect."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import list_names
from mindyn.foundation.findings import Finding, Kind, Severity
from mindyn.motions.excitation.body_pairs import Encounter, Encounters, gaps_of
from mindyn.motions.excitation.collision_shapes import Bodies
from mindyn.motions.excitation.constraints import Rates
from mindyn.motions.excitation.limits import MotionLimits
from mindyn.robots.robot import Robot

POSITIONS: Final = 1000
"""Number of random positions at which the distances are measured."""
CENTRES: Final = 30
"""Number of positions around which narrower ranges are tried."""
SHAPES: Final = 20
"""Number of proportions of the ranges that are tried at each position."""


def free_ranges(
    robot: Robot,
    encounters: Encounters,
    limits: MotionLimits,
    places: Array,
    fraction: float,
    rng: np.random.Generator,
) -> MotionLimits:
    """Return limits that are narrowed around a position, after a motion caused a contact that its search cannot detect.

    The search keeps covers apart. If two covers touch in every position, the search must instead avoid the positions of
    the joints between the two bodies at which the shapes are too close to each other.

    places    (N, n) positions at which all distances that the search measures are large enough
    fraction  fraction of the ranges to use; below 1, it is a margin between the random positions
    """
    bodies, middle, reach = encounters.bodies, limits.middle, limits.reach
    at, stood = rng.uniform(-1, 1, (POSITIONS, len(middle))), (places - middle) / reach
    weights = 10 ** rng.uniform(-1, 1, (SHAPES, len(middle)))
    box = np.stack([-np.ones(len(middle)), np.ones(len(middle))])
    for one in encounters.checked:
        if one.by == "covers":
            continue
        joints = _joints_between(robot, bodies, one)
        is_free, is_kept = (
            gaps_of(bodies, one, bodies.poses(q), is_exact=True) >= one.needed_m for q in (middle + reach * at, places)
        )
        free, near = at[is_free][:, joints], at[~is_free][:, joints]
        whole, centres = box[:, joints], stood[is_kept & _is_inside(box, stood)][:CENTRES, joints]
        boxes = [(centre, _empty_box(whole, centre, near, weight[joints])) for centre in centres for weight in weights]
        if boxes and len(near):
            centre, cut = max(boxes, key=lambda tried: int(_is_inside(tried[1], free).sum()))
            box[:, joints] = np.where(cut == whole, whole, centre + fraction * (cut - centre))
    ends, is_cut = middle + reach * box, box != [[-1], [1]]
    is_cut |= is_cut.any(axis=0) & ~np.isfinite(limits.lower)  # a range needs both ends
    return replace(
        limits,
        lower=np.where(is_cut[0], ends[0], limits.lower),
        upper=np.where(is_cut[1], ends[1], limits.upper),
    )


def _joints_between(robot: Robot, bodies: Bodies, one: Encounter) -> list[int]:
    """Return the joints that change a distance, as numbers of primary joints."""
    if robot.has_dependents:
        return list(range(robot.joint_count))
    first, second = (set(robot.path(bodies.links[body] if body >= 0 else -1)) for body in one.bodies)
    return sorted(first ^ second)


def _empty_box(whole: Array, centre: Array, near: Array, weights: Array) -> Array:
    """Return the ends (2, k) of a box around a centre, inside a larger box, that contains none of the points `near` (N,
    k).

    The nearest point is cut off along the axis on which it is farthest from the centre; this is repeated for the
    remaining points.

    weights  (k,) weights of distances along the axes; an axis with a large weight is cut first
    """
    box = whole.copy()
    away = np.abs(near - centre) * weights
    distance = away.max(axis=1, initial=0.0)
    while (inside := _is_inside(box, near)).any():
        k = int(np.where(inside, distance, np.inf).argmin())
        axis = int(away[k].argmax())
        box[int(near[k, axis] > centre[axis]), axis] = near[k, axis]
    return box


def _is_inside(box: Array, points: Array) -> NDArray[np.bool_]:
    return np.asarray(((points > box[0]) & (points < box[1])).all(axis=1))


def range_constraint(robot: Robot, whole: MotionLimits, narrow: MotionLimits) -> tuple[list[Rates], list[Finding]]:
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
        f"these joints stay within narrower ranges, in which no links touch: {list_names(listed, 12)}",
        "Add finer collision geometry to the robot file for wider ranges",
        tuple(names),
    )
    return [Rates(labels, narrow.middle[joints], narrow.reach[joints], 0, rows)], [finding]
