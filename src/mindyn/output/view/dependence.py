"""`describe_dependence`: how the joints of a robot follow its primary ones, for the sliders of a page."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from mindyn.equations.loop_closure import LoopClosure, home_closure
from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import MindynError
from mindyn.foundation.pages.plots import pack_exactly
from mindyn.robots.robot import Robot

SWEEP: Final = 60
"""Positions on each side of home in the table of a joint that opens or closes loops."""
UNLIMITED: Final = np.pi
"""rad: range of a slider without limits, on each side of home."""
UNLIMITED_M: Final = 0.5


def whole_positions(robot: Robot, q: Array) -> Array:
    """Return the positions (N, joints) of all joints for those of the primary ones (N, n)."""
    q = np.ascontiguousarray(q, dtype=np.float64)
    return np.asarray(home_closure(robot).along(q)) if robot.has_dependents else q


def rest_position(robot: Robot) -> Array:
    """Return positions (n,) of the primary joints: zero within the limits, or where the loops are closed."""
    closure = home_closure(robot) if robot.has_dependents else None
    home = np.zeros(robot.joint_count) if closure is None else closure.home[list(closure.primary)]
    if robot.loops:
        return np.asarray(home)
    low, high = slider_ranges(robot, np.asarray(home))
    return np.asarray(np.clip(home, low, high))


def slider_ranges(robot: Robot, home: Array) -> tuple[Array, Array]:
    """Return the ends (n,) of the ranges of the primary joints; around home without limits."""
    low, high = [], []
    for joint, middle in zip(robot.primary_joints, home.tolist(), strict=True):
        reach = UNLIMITED if joint.kind == "revolute" else UNLIMITED_M
        low.append(middle - reach if joint.limits.lower is None else joint.limits.lower)
        high.append(middle + reach if joint.limits.upper is None else joint.limits.upper)
    return np.array(low), np.array(high)


def describe_dependence(robot: Robot, home: Array, low: Array, high: Array) -> dict[str, Any]:
    """Return a matrix and offset, or tables for one primary joint at a time if loops must be solved."""
    if not robot.has_dependents:
        return {"kind": "affine", "matrix": np.eye(len(home)).tolist(), "offset": [0.0] * len(home)}
    closure = home_closure(robot)
    affine = closure.affine
    if affine is not None:
        return {"kind": "affine", "matrix": affine.matrix.tolist(), "offset": affine.offset.tolist()}
    tables = [_sweep(closure, home, k, low[k], high[k]) for k in range(len(home))]
    return {
        "kind": "tables",
        "positions": [table[0].tolist() for table in tables],
        "joints": [pack_exactly(table[1].ravel()) for table in tables],
    }


def _sweep(closure: LoopClosure, home: Array, k: int, low: float, high: float) -> tuple[Array, Array]:
    """Return positions (N,) of one primary joint and those of all joints (N, joints), as far as the loops close."""
    sides = [_side(closure, home, k, end) for end in (low, high)]
    positions = np.concatenate([sides[0][0][:0:-1], sides[1][0]])
    return positions, np.vstack([sides[0][1][:0:-1], sides[1][1]])


def _side(closure: LoopClosure, home: Array, k: int, end: float) -> tuple[Array, Array]:
    """Return the positions from home towards one end; half as many as long as the loops do not close there."""
    count = SWEEP
    while count:
        q = np.tile(home, (count + 1, 1))
        q[:, k] = home[k] + np.linspace(0.0, 1.0, SWEEP + 1)[: count + 1] * (end - home[k])
        try:
            return q[:, k], np.asarray(closure.along(q))
        except MindynError:
            count = count // 2
    return home[k : k + 1], np.asarray(closure.along(home[None]))
