"""Draw random states of a robot, and return rows of its energy differences or torques at these states.

A state has the positions, velocities and accelerations of the primary joints.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

from mindyn.equations.identifiability.regressor_rows import Regressors
from mindyn.equations.loop_closure import LoopClosure, home_closure
from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, InputError, RobotError, require_choice
from mindyn.robots.mimics import mimic_map
from mindyn.robots.parts import Limits
from mindyn.robots.robot import Robot

RowSource = Literal["energy", "torque"]

ROWS_PER_PARAMETER = 4

MAX_MIMIC_RANGE_FACTOR = 30
"""A joint moves at most this many times its own range to excite the joints that mimic it."""

MAX_DRAWS, MIN_BOX_FRACTION = 50, 1e-3
"""Largest number of redraws of a position at which the loops do not close, and the size of the smallest box for
redraws, relative to the first box.
"""


def draw_positions(robot: Robot, rng: np.random.Generator, count: int, *, within_limits: bool = True) -> Array:
    """Return random positions (count, k) of the primary joints.

    A revolute joint gets any angle, and a prismatic joint a position within the robot's length. If the robot has
    dependent joints, the loops close at all positions, in the same assembly as at home; positions at which the loops do
    not close are drawn again from a smaller box around home.

    within_limits  whether dependent and primary joints of loops stay within their limits
    """
    if not robot.has_dependents:
        return rng.uniform(-1, 1, (count, len(robot.joints))) * _position_ranges(robot)
    closure = home_closure(robot)
    primary = list(closure.primary)
    home, (lower, upper) = closure.home[primary], _limits_with_home(closure, within_limits=within_limits)
    around = _primary_ranges(robot)
    low, high = np.maximum(home - around, lower[primary]), np.minimum(home + around, upper[primary])
    q, lost = np.zeros((count, len(robot.joints))), np.arange(count)
    for share in np.maximum(0.6 ** np.arange(MAX_DRAWS), MIN_BOX_FRACTION):
        q[lost], closed = closure.find_reachable(home + share * (rng.uniform(low, high, (len(lost), len(home))) - home))
        lost = lost[~(closed & ((q[lost] >= lower) & (q[lost] <= upper)).all(axis=1))]
        if not lost.size:
            closure.remember(q)
            return q[:, primary]
    raise RobotError(
        f"the loops of robot {robot.name!r} close at {count - len(lost)} of {count} random positions around home "
        "within the limits of its joints: too few to find its parameter space",
        hint="home may be close to the end of the range of the loops or joints: choose another with "
        "load_robot(..., home={...}) or --assembly",
        code=Code.TOO_LITTLE_DATA,
        subject=robot.name,
    )


def _limits_with_home(closure: LoopClosure, *, within_limits: bool) -> tuple[Array, Array]:
    """Return limits (n,) of all joints, extended to include home."""
    applied = within_limits and closure.affine is None
    limits = [joint.limits if applied else Limits() for joint in closure.robot.joints]
    lower = np.array([-np.inf if limit.lower is None else limit.lower for limit in limits])
    upper = np.array([np.inf if limit.upper is None else limit.upper for limit in limits])
    return np.minimum(lower, closure.home), np.maximum(upper, closure.home)


def characteristic_length(robot: Robot) -> float:
    """Return a length unit of the robot, m: the largest distance between consecutive joints."""
    lengths = [np.linalg.norm(X.translation) for joint in robot.joints for X in (joint.origin, joint.tip)]
    return float(max(lengths)) or 1.0


def _position_ranges(robot: Robot) -> Array:
    return np.array([np.pi if joint.kind == "revolute" else characteristic_length(robot) for joint in robot.joints])


def _primary_ranges(robot: Robot) -> Array:
    """Return ranges (k,) of the primary joints in which each mimic joint moves through its own range.

    If mimic joints turn by nearly equal multiples of one angle, the range is so large that their angles differ by half
    a turn.
    """
    mimics, own_ranges = mimic_map(robot), _position_ranges(robot)
    ranges = []
    for name in robot.primary_names:
        of = robot.joint_index(name)
        column = mimics.matrix[:, mimics.free.index(of)]
        turning = [0.0, *(m for m, joint in zip(column, robot.joints, strict=True) if joint.kind == "revolute")]
        apart = np.abs(np.subtract.outer(turning, turning))
        needed = [own_ranges[i] / abs(m) for i, m in enumerate(column) if m] + [np.pi / d for d in apart[apart > 0]]
        ranges.append(min(max(needed), MAX_MIMIC_RANGE_FACTOR * own_ranges[of]))
    return np.array(ranges)


def typical_rates(robot: Robot) -> tuple[Array, Array]:
    """Return speeds and accelerations (k,) of the primary joints at which inertial torques are about as large as
    gravity.
    """
    length, g = characteristic_length(robot), float(np.linalg.norm(robot.gravity))
    per_second = np.sqrt(g / length) if g > 0 else 1.0
    units = np.array([1.0 if joint.kind == "revolute" else length for joint in robot.primary_joints])
    return units * per_second, units * per_second**2


def sample_rows(
    rows: Regressors,
    source: RowSource,
    *,
    parameters: int,
    seed: int,
    rates: tuple[Array, Array],
    within_limits: bool = True,
) -> Array:
    """Return rows (m, p) at random states that determine the dynamics: energy differences, or torques.

    `rates` (k,) bound random speeds and accelerations.
    """
    require_choice(source, get_args(RowSource), "source")
    if source == "energy" and rows.with_drives:
        raise InputError(
            "energy does not depend on friction and offsets; with with_drives=True use source='torque'",
            code=Code.UNSUPPORTED,
            subject="source",
        )
    rng = np.random.default_rng(seed)
    # A torque sample gives a row for each joint, so one sample per parameter is more than enough.
    count = ROWS_PER_PARAMETER * parameters if source == "energy" else max(40, parameters)
    q = draw_positions(rows.robot, rng, count + 1, within_limits=within_limits)
    speeds, accelerations = rates
    qd, qdd = rng.uniform(-1, 1, (2, *q.shape))
    qd, qdd = speeds * qd, accelerations * qdd
    if source == "energy":
        return np.diff(rows.energy_rows(q, qd), axis=0)
    return rows.torque_rows(q, qd, qdd).reshape(-1, parameters)
