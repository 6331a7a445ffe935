"""Limit the amplitude of motions of robots with dependent joints to their limits and to well-closed loops."""

from __future__ import annotations

from itertools import product
from typing import Final

import numpy as np

from mindyn.equations.loop_closure import LoopClosure, home_closure
from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, InputError
from mindyn.robots.parts import Limits
from mindyn.robots.robot import Robot

BISECTION_STEPS: Final = 10
"""Bisections of the fraction, which give it to a thousandth."""
MIN_RELATIVE_REGULARITY: Final = 0.3
"""Smallest regularity of the loops, relative to that at the centre of the motion."""
MIN_MOTION_FRACTION: Final = 1e-2
"""Smallest fraction of the motion that is accepted."""


def centre_of_motion(robot: Robot, lower: Array, upper: Array) -> Array:
    """Return the middle (k,) of the ranges of the primary joints, or the home if the loops do not close there."""
    centre = (lower + upper) / 2
    if not robot.loops or home_closure(robot).affine is not None:
        return np.asarray(centre)
    closure = home_closure(robot)
    home = closure.home[list(closure.primary)]
    stated = np.array([None not in (joint.limits.lower, joint.limits.upper) for joint in robot.primary_joints])
    centre = np.where(stated, centre, home)
    return np.asarray(centre if closure.find_reachable(centre[None])[1][0] else home)


def largest_amplitude_fraction(robot: Robot, centre: Array, reach: Array) -> float:
    """Return the largest fraction of `reach` (k,) by which all primary joints may move from `centre` (k,) at once."""
    if len(reach) < 6:
        corners = np.array(list(product((-1.0, 0.0, 1.0), repeat=len(reach))))
    else:
        corners = np.random.default_rng(0).choice([-1.0, 0.0, 1.0], (256, len(reach)))
    return largest_motion_fraction(robot, centre, corners * reach)


def largest_motion_fraction(robot: Robot, centre: Array, offsets: Array) -> float:
    """Return the largest fraction of the `offsets` (N, k) from `centre` (k,) that keeps limits and loops."""
    if not robot.has_dependents:
        return 1.0
    closure = home_closure(robot)
    _require_centre(robot, closure, centre)
    least = MIN_RELATIVE_REGULARITY * float(closure.regularity(closure.positions(centre[None]))[0])
    if _stays_closed_within_limits(robot, closure, centre + offsets, least):
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(BISECTION_STEPS):
        share = (low + high) / 2
        low, high = (
            (share, high)
            if _stays_closed_within_limits(robot, closure, centre + share * offsets, least)
            else (low, share)
        )
    if low < MIN_MOTION_FRACTION:
        where = ", ".join(f"{name} = {value:.4g}" for name, value in zip(robot.primary_names, centre, strict=True))
        raise InputError(
            f"robot {robot.name!r} cannot move around {where}: a dependent joint is at its limit, or a loop is close "
            "to a singular configuration",
            hint="set limits of the primary joints within which the loops close, or another home",
            code=Code.OUT_OF_RANGE,
            subject=robot.name,
        )
    return low


def _stays_closed_within_limits(robot: Robot, closure: LoopClosure, p: Array, least: float) -> bool:
    q, reached = closure.find_reachable(p)
    if not reached.all() or (closure.regularity(q) < least).any():
        return False
    lower, upper = _dependent_limits(robot)
    return bool(((q >= lower) & (q <= upper)).all())


def _require_centre(robot: Robot, closure: LoopClosure, centre: Array) -> None:
    q = closure.positions(centre[None])[0]
    lower, upper = _dependent_limits(robot)
    for k in np.flatnonzero((q <= lower) | (q >= upper)):
        raise InputError(
            f"the dependent joint {robot.joint_names[k]!r} is at {q[k]:g}, outside its range, if the other joints "
            "are in the middle of their ranges",
            hint="use mindyn.simulate in Python with your own motion",
            code=Code.OUT_OF_RANGE,
            subject=robot.joint_names[k],
        )


def _dependent_limits(robot: Robot) -> tuple[Array, Array]:
    """Return the ranges (n,) of the dependent joints; primary joints have infinite ranges."""
    ends = [
        _limit_pair(joint.limits) if joint.name in robot.dependent_names else _limit_pair(None)
        for joint in robot.joints
    ]
    lower, upper = np.array(ends).T
    return lower, upper


def _limit_pair(limits: Limits | None) -> tuple[float, float]:
    lower, upper = (None, None) if limits is None else (limits.lower, limits.upper)
    return -np.inf if lower is None else lower, np.inf if upper is None else upper
