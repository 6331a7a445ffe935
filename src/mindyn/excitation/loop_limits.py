"""What loops ask of a motion: ranges and rates of the dependent joints, and parallelograms that stay open."""

from __future__ import annotations

from itertools import product
from math import atan2, pi
from typing import Final

import numpy as np

from mindyn.algebra.values import Array
from mindyn.equations.closed_motion import is_affine
from mindyn.equations.loop_closure import AffineClosure, affine_closure, closure_of
from mindyn.errors import InputError
from mindyn.excitation.constraints import LinkedRates
from mindyn.excitation.limits import STILL, MotionLimits
from mindyn.parameters.parallelogram import link_turns, polygon_of
from mindyn.robots.parts import Loop
from mindyn.robots.robot import Robot

LOOKED_AT: Final = 300
"""Positions within the limits at which loops that are solved for must close."""

OPENING: Final = pi / 18
"""A parallelogram keeps this far from flat, where it could fold over, rad."""


def loop_constraints(robot: Robot, limits: MotionLimits) -> list[LinkedRates]:
    """The constraints in terms of the primary joints; none for a robot without dependent ones."""
    if not robot.has_dependents:
        return []
    if not is_affine(robot):
        return []  # `require_closing` has seen to it
    affine = affine_closure(robot)
    return [*_dependent_rates(robot, affine, limits), *([_open_loops(robot, affine, limits)] if robot.loops else [])]


def require_closing(robot: Robot, limits: MotionLimits) -> None:
    """Refuse limits of primary joints within which loops that are solved for open, or dependent joints leave theirs.

    Within limits that pass, every motion closes: they are looked at in corners, on edges and inside.
    """
    dependent = limits.dependent
    assert dependent is not None
    names = robot.dependent_names
    rates = (dependent.velocity, dependent.acceleration, dependent.jerk)
    if stated := [name for k, name in enumerate(names) if any(np.isfinite(rate[k]) for rate in rates)]:
        raise InputError(
            f"rates of {', '.join(stated)} are limited, dependent joints of loops that are solved for: designs hold "
            "their positions alone",
            hint="leave those limits out, and check the designed motion: loop_dynamics(robot).motion(q, qd, qdd)",
        )
    if not (np.isfinite(limits.lower).all() and np.isfinite(limits.upper).all()):
        raise InputError(
            f"the loops of robot {robot.name!r} close in a part of all positions only: primary joints need limits",
            hint="MotionLimits.of(robot, lower=..., upper=...), in which the loops close",
        )
    corners = np.array(list(product((0.0, 0.5, 1.0), repeat=len(limits.lower))))
    shares = np.vstack([corners, np.random.default_rng(0).random((LOOKED_AT, len(limits.lower)))])
    p = limits.lower + shares * (limits.upper - limits.lower)
    closure = closure_of(robot)
    q, reached = closure.reachable(p)
    if not reached.all():
        where = ", ".join(f"{n} = {v:.3g}" for n, v in zip(robot.primary_names, p[~reached][0], strict=True))
        raise InputError(
            f"the loops of robot {robot.name!r} do not close everywhere within the limits of its primary joints: not "
            f"at {where}",
            hint="narrow the limits to where they close",
        )
    numbers = [robot.joint_index(name) for name in names]
    outside = (q[:, numbers] < dependent.lower) | (q[:, numbers] > dependent.upper)
    if outside.any():
        name = names[int(np.argwhere(outside)[0, 1])]
        raise InputError(
            f"the dependent joint {name!r} leaves its range within the limits of the primary joints",
            hint="narrow the limits of the primary joints, or leave that range out",
        )


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
