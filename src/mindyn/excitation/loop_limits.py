"""What loops ask of a motion: ranges and rates of the dependent joints, and parallelograms that stay open."""

from __future__ import annotations

from math import atan2, pi
from typing import Final

import numpy as np

from mindyn.algebra.values import Array
from mindyn.equations.loop_closure import AffineClosure, affine_closure
from mindyn.excitation.constraints import LinkedRates
from mindyn.excitation.limits import STILL, MotionLimits
from mindyn.parameters.parallelogram import link_turns, polygon_of
from mindyn.robots.parts import Loop
from mindyn.robots.robot import Robot

OPENING: Final = pi / 18
"""A parallelogram keeps this far from flat, where it could fold over, rad."""


def loop_constraints(robot: Robot, limits: MotionLimits) -> list[LinkedRates]:
    """The constraints in terms of the primary joints; none for a robot without dependent ones."""
    if not robot.has_dependents:
        return []
    affine = affine_closure(robot)
    return [*_dependent_rates(robot, affine, limits), *([_open_loops(robot, affine, limits)] if robot.loops else [])]


def _dependent_rates(robot: Robot, affine: AffineClosure, limits: MotionLimits) -> list[LinkedRates]:
    dependent = limits.dependent
    assert dependent is not None
    names = [name for name in robot.joint_names if name not in robot.primary_names]
    numbers = [robot.joint_index(name) for name in names]
    bounds = (dependent.upper - dependent.middle, dependent.velocity, dependent.acceleration, dependent.jerk)
    made = []
    for order, half in enumerate(bounds):
        limited = np.flatnonzero(np.isfinite(half))
        if not len(limited):
            continue
        of = [numbers[k] for k in limited]
        middle = dependent.middle[limited] - affine.offset[of] if order == 0 else np.zeros(len(of))
        labels = tuple(f"{('position', 'velocity', 'acceleration', 'jerk')[order]} of {names[k]}" for k in limited)
        made.append(LinkedRates(order, affine.matrix[of], middle, np.maximum(half[limited], STILL), labels))
    return made


def _open_loops(robot: Robot, affine: AffineClosure, limits: MotionLimits) -> LinkedRates:
    """The corner of every parallelogram between OPENING and pi - OPENING, in the half turn in which it is at home."""
    rows, middles = [], []
    for loop in robot.loops:
        turns, at_zero = _corner(robot, loop, affine)
        row = turns @ affine.matrix
        flat = abs(np.sin(at_zero)) < STILL
        angle = at_zero + float(row @ limits.middle) if flat else at_zero
        rows.append(row)
        middles.append((np.floor(angle / pi) + 0.5) * pi - at_zero)
    labels = tuple(f"opening of {loop.name}" for loop in robot.loops)
    return LinkedRates(0, np.array(rows), np.array(middles), np.full(len(rows), pi / 2 - OPENING), labels)


def _corner(robot: Robot, loop: Loop, affine: AffineClosure) -> tuple[Array, float]:
    """(n,) by which the angle between two sides changes with q, and that angle where the primary joints are zero."""
    polygon = polygon_of(robot, loop, affine.offset)
    assert polygon is not None
    turns = link_turns(robot, polygon)
    a, b = polygon.corners[:2]
    one, other = polygon.sides[a], polygon.sides[b]
    return turns[b] - turns[a], atan2(polygon.normal @ np.cross(one, other), one @ other)
