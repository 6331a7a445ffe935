"""Constraints on a motion: series over time that must stay at or below 1, with exact derivatives.

A series is a joint's position, velocity, acceleration, jerk or torque relative to its limit, or the approach of two
capsules, or of a capsule and a wall. `aggregate_values` reduces each series to a smooth maximum over time. For robots
with loops, there are also constraints on the positions and rates of dependent joints, and constraints that keep
parallelograms away from their flat position.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import atan2, pi
from typing import Any, ClassVar, Final

import casadi
import numpy as np
from numpy.typing import NDArray

from mindyn.equations.closed_motion import CLOSURE, closed_motion, is_affine
from mindyn.equations.loop_closure import AffineClosure, affine_closure, home_closure
from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, InputError
from mindyn.kernels.kernel import Kernel
from mindyn.motions.excitation.capsule_pairs import Pairs, Points, kernel_and_slopes, slopes_between
from mindyn.motions.excitation.limits import STILL, MotionLimits, limited_rates
from mindyn.motions.excitation.motions import Instants, State
from mindyn.parameters.parallelogram import find_polygon, link_turns
from mindyn.robots.parts import Loop
from mindyn.robots.robot import Robot

APPROACH_M: Final = 0.1
"""m: distance over which the value of an approach of two surfaces grows from 0 to 1."""


BISECTIONS: Final = 40
"""Number of bisections of a segment; the result is accurate to 1e-12 of its length."""


RATES: Final = ("position", "velocity", "acceleration", "jerk")
"""Names in labels, by order of the derivative."""
LOOKED_AT: Final = 300
"""Number of random positions within the limits at which numerically solved loops must close."""


OPENING: Final = pi / 18
"""rad: smallest angle between a parallelogram and its flat position, where it could fold over."""


@dataclass(frozen=True, slots=True, eq=False)
class Constraint(ABC):
    """A number c of series over time, named by `labels`. If `two_sided`, values must also be at least -1."""

    labels: tuple[str, ...]

    two_sided: ClassVar[bool] = True

    @abstractmethod
    def values(self, state: State) -> Array:
        """Return (N, c), at most 1 if the constraint holds."""

    @abstractmethod
    def pulled_back(self, instants: Instants, state: State, weights: Array) -> Array:
        """Return (w, c, 1 + m, n): for each segment, the derivatives with respect to z of sum_t weights[t]
        values[t].
        """


@dataclass(frozen=True, slots=True, eq=False)
class Rates(Constraint):
    """Positions (order 0), velocities, accelerations or jerks: (rows @ rate - middle) / half.

    rows  (c, n), linear in the rates of all joints
    """

    middle: Array
    half: Array
    order: int
    rows: Array

    def values(self, state: State) -> Array:
        """See `Constraint`."""
        return np.asarray((state[self.order] @ self.rows.T - self.middle) / self.half)

    def pulled_back(self, instants: Instants, state: State, weights: Array) -> Array:  # noqa: ARG002 - linear
        """See `Constraint`."""
        B = instants.by_segment(instants.basis[self.order])
        summed = B.swapaxes(1, 2) @ instants.by_segment(weights / self.half)
        return np.asarray(summed.swapaxes(1, 2)[:, :, :, None] * self.rows[:, None, :])


@dataclass(frozen=True, slots=True, eq=False)
class SolvedRates(Constraint):
    """Results of a kernel, such as rates of dependent joints or torques: (result - middle) / half.

    kernel   function of (q, qd, ...), with as many inputs as needed, and of the constant `parameters`; returns the
             results
    slopes   function of the same arguments that returns the derivatives with respect to each of (q, qd, ...)
    columns  (c,) numbers of the results that are used
    """

    middle: Array
    half: Array
    kernel: Kernel
    slopes: Kernel
    parameters: tuple[Array, ...] = ()
    columns: NDArray[np.intp] | slice = field(default_factory=lambda: slice(None))

    def values(self, state: State) -> Array:
        """See `Constraint`."""
        return np.asarray((self.kernel(*self._inputs(state))[:, self.columns] - self.middle) / self.half)

    def pulled_back(self, instants: Instants, state: State, weights: Array) -> Array:
        """See `Constraint`."""
        result = self.slopes(*self._inputs(state))
        slopes = result if isinstance(result, tuple) else (result,)
        return instants.pulled_back_series(*((weights / self.half)[:, :, None] * J[:, self.columns] for J in slopes))

    def _inputs(self, state: State) -> tuple[Array, ...]:
        return (*state[: len(self.kernel.program.inputs) - len(self.parameters)], *self.parameters)


@dataclass(frozen=True, slots=True, eq=False)
class Distances(Constraint):
    """Distances between surfaces, at least `clearance` (c,) m."""

    clearance: Array | float
    surfaces: Pairs | Walls | KeepOut

    two_sided = False

    def values(self, state: State) -> Array:
        """See `Constraint`."""
        return np.asarray(1 - (self.surfaces.gaps(state[0]) - self.clearance) / APPROACH_M)

    def pulled_back(self, instants: Instants, state: State, weights: Array) -> Array:
        """See `Constraint`."""
        return instants.pulled_back_series(-weights[:, :, None] * self.surfaces.slopes(state[0]) / APPROACH_M)


@dataclass(frozen=True, slots=True, eq=False)
class Box:
    """A box with faces parallel to the axes of the root frame: a workspace or an obstacle.

    Parameters
    ----------
    lower, upper : array_like, shape (3,)
        Corners in m; there is no face where an entry is infinite. A floor is Box(lower=(-inf, -inf, 0)).

    Raises
    ------
    InputError
        If a corner is not three numbers, or the box is empty.
    """

    lower: Array
    upper: Array

    def __init__(self, lower: object = (-np.inf,) * 3, upper: object = (np.inf,) * 3) -> None:
        for name, given in (("lower", lower), ("upper", upper)):
            try:
                array = np.array(given, dtype=np.float64)
            except (TypeError, ValueError):
                array = np.array(np.nan)
            if array.shape != (3,) or np.isnan(array).any():
                raise InputError(
                    f"the {name} corner of a box must be three numbers, got {given!r}",
                    code=Code.WRONG_SHAPE,
                    subject=name,
                )
            object.__setattr__(self, name, array)
        if not (self.lower < self.upper).all():
            raise InputError(
                f"a box from {self.lower.tolist()} to {self.upper.tolist()} has no inside",
                code=Code.OUT_OF_RANGE,
                subject="upper",
            )


@dataclass(frozen=True, slots=True, eq=False)
class Walls:
    """Coordinates of points along the inward normals of walls: distances from planes through the origin.

    point       (c,) numbers of the points
    directions  (c, 3) inward normals
    """

    points: Points
    point: NDArray[np.intp]
    directions: Array

    def gaps(self, q: Array) -> Array:
        """See `Pairs`."""
        return np.asarray((self.points.positions(q)[:, self.point] * self.directions).sum(-1))

    def slopes(self, q: Array) -> Array:
        """See `Pairs`."""
        return np.asarray(np.einsum("tcij,ci->tcj", self.points.slopes(q)[:, self.point], self.directions))


@dataclass(frozen=True, slots=True, eq=False)
class KeepOut:
    """Boxes that the capsules of a robot must not enter.

    The signed distance of a point from a box is convex, also along the segment of a capsule. The minimum along the
    segment is computed by bisection of the slope. Its derivative with respect to q is that of the point at the minimum.

    body     capsules with their end points; the pairs of `body` are not used
    boxes    finite ones in the root frame
    series   (c, 2) numbers of a capsule and a box
    """

    body: Pairs
    boxes: tuple[Box, ...]
    series: NDArray[np.intp]

    def gaps(self, q: Array) -> Array:
        """See `Pairs`."""
        return self._nearest(self.body.points.positions(q))[0]

    def slopes(self, q: Array) -> Array:
        """See `Pairs`."""
        _, normal, s = self._nearest(self.body.points.positions(q))
        moves = slopes_between(self.body.points.slopes(q), self.series[:, 0], s)
        return np.asarray(np.einsum("tci,tcij->tcj", normal, moves))

    def _nearest(self, P: Array) -> tuple[Array, Array, Array]:
        """Return gaps (N, c), outward unit normals (N, c, 3) of the boxes, and places s in [0, 1] on the segments."""
        capsule, box = self.series.T
        a, b = P[:, 2 * capsule], P[:, 2 * capsule + 1]
        lower = np.array([obstacle.lower for obstacle in self.boxes])[box]
        upper = np.array([obstacle.upper for obstacle in self.boxes])[box]
        low, high = np.zeros(a.shape[:-1]), np.ones(a.shape[:-1])
        for _ in range(BISECTIONS):
            s = (low + high) / 2
            rising = (signed_distance(a + s[..., None] * (b - a), lower, upper)[1] * (b - a)).sum(-1) > 0
            low, high = np.where(rising, low, s), np.where(rising, s, high)
        s = (low + high) / 2
        distance, normal = signed_distance(a + s[..., None] * (b - a), lower, upper)
        radii = np.array([self.body.capsules[i].radius for i in capsule])
        return distance - radii, normal, s


def signed_distance(p: Array, lower: Array, upper: Array) -> tuple[Array, Array]:
    """Return the distances of points (..., 3) from boxes, negative inside, and their gradients: unit vectors that point
    outwards.
    """
    outside = p - np.clip(p, lower, upper)
    length = np.sqrt((outside**2).sum(-1))
    depths = np.stack([p - lower, upper - p], axis=-2).reshape(*p.shape[:-1], 6)
    face = depths.argmin(-1)
    shortest = np.take_along_axis(depths, face[..., None], axis=-1)[..., 0]
    outward = np.vstack([-np.eye(3), np.eye(3)])[face]
    is_out = length > 0
    normal = np.where(is_out[..., None], outside / np.where(is_out, length, 1.0)[..., None], outward)
    return np.where(is_out, length, -shortest), normal


def aggregate_values(
    constraint: Constraint, instants: Instants, state: State, sharpness: float
) -> tuple[Array, Callable[[], Array]]:
    """Return smooth maxima (w, c) over each segment of time, and a function for their derivatives (w, c, 1 + m, n) with
    respect to z.

    A smooth maximum is the mean of v with weights exp(sharpness v), over both signs of v if both are limited. It is
    exact for a constant series, and about 1 / (2 sharpness) below a peak. (The logarithm of a sum of exponentials would
    be log(N) / sharpness above a constant series.)
    """
    v = instants.by_segment(constraint.values(state))
    signed = np.concatenate([v, -v], axis=1) if constraint.two_sided else v
    weights = np.exp(sharpness * (signed - signed.max(axis=1, keepdims=True)))
    weights /= weights.sum(axis=1, keepdims=True)
    mean = (weights * signed).sum(axis=1)

    def derivatives() -> Array:
        slopes = weights * (1 + sharpness * (signed - mean[:, None]))
        if constraint.two_sided:
            slopes = slopes[:, : v.shape[1]] - slopes[:, v.shape[1] :]
        return constraint.pulled_back(instants, state, slopes.reshape(-1, v.shape[2]))

    return mean, derivatives


def sizes(constraint: Constraint, state: State) -> Array:
    """Return the values (N, c) of a constraint; absolute values if both signs are limited."""
    v = constraint.values(state)
    return np.abs(v) if constraint.two_sided else v


def loop_constraints(robot: Robot, limits: MotionLimits) -> Sequence[Rates | SolvedRates]:
    """Return the constraints of loops as functions of the primary joints; none for a robot without dependent joints."""
    if not robot.has_dependents:
        return []
    affine = affine_closure(robot) if is_affine(robot) else None  # else `require_closing` has checked the loops
    opened = [] if affine is None or not robot.loops else [_open_loops(robot, affine, limits)]
    return [*_dependent_rates(robot, affine, limits), *opened]


def require_closing(robot: Robot, lower: Array, upper: Array) -> None:
    """Raise an error if numerically solved loops do not close everywhere within finite ranges (k,) of the primary
    joints.

    The check covers corners, edges and random positions inside.
    """
    if not np.isfinite([lower, upper]).all():
        raise InputError(
            f"the loops of robot {robot.name!r} close only at some positions: primary joints need limits",
            code=Code.MISSING_VALUE,
            subject=robot.name,
            hint="MotionLimits.of(robot, lower=..., upper=...), in which the loops close",
        )
    corners = np.array(list(product((0.0, 0.5, 1.0), repeat=len(lower))))
    shares = np.vstack([corners, np.random.default_rng(0).random((LOOKED_AT, len(lower)))])
    p = lower + shares * (upper - lower)
    _, reached = home_closure(robot).find_reachable(p)
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
    """Yield the constraints on dependent joints, from positions to jerks.

    Without `affine`, the loops are solved numerically.
    """
    assert limits.dependent is not None
    for order, limited, middle, half in limited_rates(limits.dependent):
        names = [robot.dependent_names[k] for k in limited]
        joints = [robot.joint_index(name) for name in names]
        labels = tuple(f"{RATES[order]} of {name}" for name in names)
        if affine is None:
            kernels = kernel_and_slopes(robot, _rate_function(robot, order, joints))
            yield SolvedRates(labels, middle, half, *kernels)
        else:
            middle = middle - affine.offset[joints] if order == 0 else middle
            yield Rates(labels, middle, half, order, affine.matrix[joints])


def _rate_function(robot: Robot, order: int, joints: list[int]) -> Any:
    """Return the function (q, qd, ...) of primary joints -> position, speed, acceleration or jerk of dependent joints,
    and the closure.

    A jerk is the derivative of the acceleration along the motion. The derivative of Newton's steps gives the motion of
    dependent joints for which the loops stay closed.
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
    """Return constraints that keep the corner of every parallelogram between OPENING and pi - OPENING, in the half turn
    of home.
    """
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
    """Return the derivative (n,) with respect to q of the angle between two sides, and the angle for primary joints at
    zero.
    """
    polygon = find_polygon(robot, loop, affine.offset)
    assert polygon is not None
    turns = link_turns(robot, polygon)
    a, b = polygon.corners[:2]
    first, second = polygon.sides[a], polygon.sides[b]
    return turns[b] - turns[a], atan2(polygon.normal @ np.cross(first, second), first @ second)
