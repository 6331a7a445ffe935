"""Ranges of the joints, and configurations sampled evenly from them, at which inertia matrices are checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from mindyn.algebra.values import Array
from mindyn.errors import Code, InputError, MissingPhysicsError, unknown_name_error
from mindyn.feasibility.inertia_family import InertiaFamily
from mindyn.robots.parts import Joint

Ranges = Mapping[str, tuple[float, float]]
"""Lowest and highest position by joint name, rad or m."""


def joint_ranges(family: InertiaFamily, ranges: Ranges | None = None, *, within_limits: bool = False) -> Array:
    """Return the range (n, 2) of each joint: as given, else its limits, else a full turn.

    Limits of revolute joints count only with `within_limits`. The range is (0, 0) if M does not depend on the joint. A
    prismatic joint without limits needs a given range.
    """
    given = dict(ranges or {})
    names = [joint.name for joint in family.joints]
    for name in given:
        if name not in names:
            raise unknown_name_error("joint", name, names)
    rows = np.zeros((len(names), 2))
    for k in family.moving:
        joint = family.joints[k]
        rows[k] = (
            _check_range(joint, given[joint.name]) if joint.name in given else _default_range(joint, within_limits)
        )
    return rows


def _check_range(joint: Joint, pair: tuple[float, float]) -> Array:
    low_high = np.asarray(pair, dtype=np.float64)
    if low_high.shape != (2,) or not np.isfinite(low_high).all() or low_high[0] > low_high[1]:
        raise InputError(
            f"the range of joint {joint.name!r} must be two finite numbers in order, got {pair!r}",
            code=Code.OUT_OF_RANGE,
            subject=joint.name,
        )
    return low_high


def _default_range(joint: Joint, within_limits: bool) -> Array:
    limits = (joint.limits.lower, joint.limits.upper)
    has_limits = limits[0] is not None and limits[1] is not None
    if has_limits and (within_limits or joint.kind == "prismatic"):
        return np.array(limits, dtype=np.float64)
    if joint.kind == "prismatic":
        raise MissingPhysicsError(
            f"joint {joint.name!r} is prismatic and has no limits, but the inertia matrix depends on its position",
            hint=f"give ranges={{{joint.name!r}: (lowest, highest)}} in m",
            subject=joint.name,
        )
    return np.array([-np.pi, np.pi])


def sample_configurations(ranges: Array, count: int, seed: int) -> Array:
    """Return points (count, n) of a low-discrepancy sequence over the ranges, shifted by the seed.

    The sequence is an additive recurrence with steps that are powers of 1/g, g the root of g^(d + 1) = g + 1
    [Roberts 2018, generalised golden ratio].
    """
    wide = ranges[:, 1] > ranges[:, 0]
    d = int(wide.sum())
    g = 2.0
    for _ in range(64):
        g = (1 + g) ** (1 / (d + 1))
    steps = g ** -np.arange(1, d + 1)
    shift = np.random.default_rng(seed).random(d)
    q = np.tile(ranges[:, 0], (count, 1))
    q[:, wide] += ((shift + np.arange(1, count + 1)[:, None] * steps) % 1.0) * np.ptp(ranges[wide], axis=1)
    return q


def name_positions(family: InertiaFamily, q: Array) -> dict[str, dict[str, Any]]:
    """Return the positions of the joints that M depends on, in degrees (-180 to 180) or m, by joint name."""
    positions = {}
    for joint, position in ((family.joints[k], q[k]) for k in family.moving):
        is_revolute = joint.kind == "revolute"
        value = float(np.degrees((position + np.pi) % (2 * np.pi) - np.pi)) if is_revolute else float(position)
        positions[joint.name] = {"position": value, "unit": "deg" if is_revolute else "m"}
    return positions
