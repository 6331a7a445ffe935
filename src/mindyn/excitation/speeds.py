"""`speed_constraint`: no point of any volume moves faster than the tip speed."""

from __future__ import annotations

from typing import Any, Final

import casadi
import numpy as np

from mindyn.equations.closed_motion import CLOSURE
from mindyn.excitation.bodies import Bodies
from mindyn.excitation.clearance import placed_points, primary_motion
from mindyn.excitation.constraints import SolvedRates
from mindyn.excitation.limits import MotionLimits
from mindyn.excitation.loop_limits import rate_kernels
from mindyn.robots.robot import Robot

STATES: Final = 500
"""Random states that show which links can be too fast."""
KEPT: Final = 0.97
"""Fraction of the tip speed that the search uses."""


def speed_constraint(
    robot: Robot, limits: MotionLimits, bodies: Bodies, tip_speed: float, seed: int
) -> list[SolvedRates]:
    """Return the constraint on every link that can be too fast; none for an infinite speed."""
    if not np.isfinite(tip_speed):
        return []
    rng = np.random.default_rng(seed)
    q = limits.middle + limits.reach * rng.uniform(-1, 1, (STATES, len(limits.lower)))
    rates = np.where(np.isfinite(limits.velocity), limits.velocity, 10.0)
    step = 1e-6 * rng.choice([-1.0, 1.0], q.shape) * rates
    moved = np.linalg.norm(bodies.corners(q + step) - bodies.corners(q - step), axis=-1).max(axis=(0, 2)) / 2e-6
    volumes = [body for body, speed in zip(bodies.volumes, moved, strict=True) if body.link and speed > tip_speed / 2]
    if not volumes:
        return []
    points = np.concatenate([volume.corners for volume in volumes])
    function = _speeds(robot, [robot.link_index(body.link) for body in volumes for _ in range(8)], points)
    labels, zero = tuple(f"speed of {body.link}" for body in volumes), np.zeros(len(volumes))
    return [SolvedRates(labels, zero, zero + KEPT * tip_speed, *rate_kernels(robot, function))]


def _speeds(robot: Robot, links: list[int], points: Any) -> casadi.Function:
    """Return (q, qd) of primary joints -> speed of the fastest of each 8 points, m/s, and the loop closure."""
    tree = casadi.SX.sym("tree", len(robot.joints))
    rate = casadi.SX.sym("rate", len(robot.joints))
    moved = casadi.jtimes(placed_points(robot, tree, links, points), tree, rate)
    qd = casadi.SX.sym("qd", robot.joint_count)
    q, whole, W, closure = primary_motion(robot)
    velocity = casadi.reshape(casadi.Function("velocity", [tree, rate], [moved])(whole, W @ qd), 3, -1)
    squares = casadi.reshape(casadi.sum1(velocity**2), 8, -1)
    fastest = squares[0, :]
    for k in range(1, 8):
        fastest = casadi.fmax(fastest, squares[k, :])
    speed = casadi.sqrt(fastest.T + 1e-12)
    outputs: Any = casadi.cse([casadi.densify(speed), *closure])
    return casadi.Function("speeds", [q, qd], outputs, ["q", "qd"], ["rate", *[CLOSURE] * len(closure)])
