"""Constraints of loops on a motion: ranges and rates of dependent joints, and parallelograms that stay open."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import atan2, pi
from typing import Any, Final

import casadi
import numpy as np

from mindyn.algebra.values import Array
from mindyn.equations.closed_motion import CLOSURE, closed_motion, is_affine
from mindyn.equations.loop_closure import AffineClosure, affine_closure, home_closure
from mindyn.errors import Code, InputError
from mindyn.excitation.constraints import RATES, Rates, SolvedRates
from mindyn.excitation.limits import STILL, MotionLimits, limited_rates
from mindyn.kernels.closed_kernel import jacobians, make_kernel
from mindyn.kernels.kernel import Kernel
from mindyn.parameters.parallelogram import find_polygon, link_turns
from mindyn.robots.parts import Loop
from mindyn.robots.robot import Robot

LOOKED_AT: Final = 300
"""Random positions within the limits at which numerically solved loops must close."""


OPENING: Final = pi / 18
"""rad: smallest angle between a parallelogram and its flat position, where it could fold over."""


def loop_constraints(robot: Robot, limits: MotionLimits) -> Sequence[Rates | SolvedRates]:
    """Return the constraints as functions of the primary joints; none for a robot without dependent joints."""
    if not robot.has_dependents:
        return []
    affine = affine_closure(robot) if is_affine(robot) else None  # else `require_closing` has checked the loops
    opened = [] if affine is None or not robot.loops else [_open_loops(robot, affine, limits)]
    return [*_dependent_rates(robot, affine, limits), *opened]


def require_closing(robot: Robot, limits: MotionLimits) -> None:
    """Raise if numerically solved loops do not close everywhere within the limits of the primary joints.

    The check covers corners, edges and random positions inside.
    """
    if not (np.isfinite(limits.lower).all() and np.isfinite(limits.upper).all()):
        raise InputError(
            f"the loops of robot {robot.name!r} close only at some positions: primary joints need limits",
            code=Code.MISSING_VALUE,
            subject=robot.name,
            hint="MotionLimits.of(robot, lower=..., upper=...), in which the loops close",
        )
    require_closing_within(robot, limits.lower, limits.upper)


def require_closing_within(robot: Robot, lower: Array, upper: Array) -> None:
    """Raise if numerically solved loops do not close everywhere within ranges (k,) of the primary joints."""
    corners = np.array(list(product((0.0, 0.5, 1.0), repeat=len(lower))))
    shares = np.vstack([corners, np.random.default_rng(0).random((LOOKED_AT, len(lower)))])
    p = lower + shares * (upper - lower)
    closure = home_closure(robot)
    _, reached = closure.find_reachable(p)
    if not reached.all():
        where = ", ".join(f"{n} = {v:.3g}" for n, v in zip(robot.primary_names, p[~reached][0], strict=True))
        raise InputError(
            f"the loops of robot {robot.name!r} do not close everywhere within the limits of its primary joints: not "
            f"at {where}",
            hint="narrow the limits to positions where they close",
            code=Code.OUT_OF_RANGE,
            subject=robot.name,
        )


def _dependent_rates(robot: Robot, affine: AffineClosure | None, limits: MotionLimits) -> Iterator[Rates | SolvedRates]:
    """Yield the constraints on dependent joints, from positions to jerks; without `affine`, loops are solved."""
    assert limits.dependent is not None
    for order, limited, middle, half in limited_rates(limits.dependent):
        names = [robot.dependent_names[k] for k in limited]
        joints = [robot.joint_index(name) for name in names]
        labels = tuple(f"{RATES[order]} of {name}" for name in names)
        if affine is None:
            kernels = rate_kernels(robot, _rate_function(robot, order, joints))
            yield SolvedRates(labels, middle, half, *kernels)
        else:
            middle = middle - affine.offset[joints] if order == 0 else middle
            yield Rates(labels, middle, half, order, affine.matrix[joints])


def rate_kernels(robot: Robot, function: casadi.Function) -> tuple[Kernel, Kernel]:
    """Return the kernels of a function and of its derivatives by each input."""
    slopes = jacobians(function, function.name_in())
    matrices = [name for name in slopes.name_out() if name != CLOSURE]
    return make_kernel(robot, function), make_kernel(robot, slopes, matrices=matrices)


def _rate_function(robot: Robot, order: int, joints: list[int]) -> Any:
    """(q, qd, ...) of primary joints -> position, speed, acceleration or jerk of the dependent ones, and the closure.

    A jerk is the change of the acceleration along the motion: through Newton's steps positions of dependent joints
    change with the primary ones as they do when the loops stay closed.
    """
    count = robot.joint_count
    sizes = {"q": len(robot.joints), "qd": count, "qdd": count, "jerk": count}
    symbols = {name: casadi.SX.sym(name, size) for name, size in list(sizes.items())[: order + 1]}
    motion = closed_motion(robot, symbols["q"], symbols.get("qd"), symbols.get("qdd"))
    rates = [motion.q, motion.qd, motion.qdd]
    if order == len(rates):
        moved = casadi.SX(len(robot.joints), 1)
        moved[[robot.joint_index(name) for name in robot.primary_names]] = symbols["qd"]
        state = casadi.vertcat(*(symbols[name] for name in ("q", "qd", "qdd")))
        along = casadi.vertcat(moved, symbols["qdd"], symbols["jerk"])
        rates.append(casadi.jtimes(motion.qdd, state, along))
    rate = casadi.densify(rates[order][joints])
    results: Any = casadi.cse([rate, motion.closure])
    return casadi.Function("dependent", [*symbols.values()], results, [*symbols], ["rate", CLOSURE])


def _open_loops(robot: Robot, affine: AffineClosure, limits: MotionLimits) -> Rates:
    """Keep the corner of every parallelogram between OPENING and pi - OPENING, in the half turn of its home."""
    rows, middles = [], []
    for loop in robot.loops:
        turns, at_zero = _corner(robot, loop, affine)
        row = turns @ affine.matrix
        flat = abs(np.sin(at_zero)) < STILL
        angle = at_zero + float(row @ limits.middle) if flat else at_zero
        rows.append(row)
        middles.append((np.floor(angle / pi) + 0.5) * pi - at_zero)
    labels = tuple(f"opening of {loop.name}" for loop in robot.loops)
    return Rates(labels, np.array(middles), np.full(len(rows), pi / 2 - OPENING), 0, np.array(rows))


def _corner(robot: Robot, loop: Loop, affine: AffineClosure) -> tuple[Array, float]:
    """Return the derivative (n,) of the angle between two sides by q, and the angle at zero primary joints."""
    polygon = find_polygon(robot, loop, affine.offset)
    assert polygon is not None
    turns = link_turns(robot, polygon)
    a, b = polygon.corners[:2]
    first, second = polygon.sides[a], polygon.sides[b]
    return turns[b] - turns[a], atan2(polygon.normal @ np.cross(first, second), first @ second)
