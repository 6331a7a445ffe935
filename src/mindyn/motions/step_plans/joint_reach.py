"""`JointReach`: range and speed of every joint, from the limits of a robot, given ranges and defaults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, InputError, unknown_name_error
from mindyn.robots.parts import position_range
from mindyn.robots.robot import Robot

DEFAULT_RANGE: Final = {"revolute": (-np.pi, np.pi), "prismatic": (-0.3, 0.3)}
"""rad or m: range of joints without limits."""
DEFAULT_SPEED: Final = {"revolute": 3.0, "prismatic": 0.5}
"""rad/s or m/s: highest speed of a test within the limits."""
USED_SHARE: Final = 0.8
"""Fraction of a speed or acceleration limit that tests use."""
VALUES: Final = 3
"""Number of positions of a held joint that is varied, and of a joint whose breakaway is measured."""
LOWER_SPEED: Final = 1 / 3
"""The lower of the two constant speeds, relative to the higher one."""


@dataclass(frozen=True, slots=True, eq=False)
class JointReach:
    """Limits of primary joints: lower, upper (n,) rad or m; speed, acceleration (n,), infinite if not stated."""

    lower: Array
    upper: Array
    speed: Array
    acceleration: Array

    @staticmethod
    def of(robot: Robot, ranges: Mapping[str, tuple[float, float]] | None = None) -> JointReach:
        """Return the limits of the robot; `ranges` (joint -> lower, upper) replace its position limits."""
        stated = dict(ranges or {})
        for name in stated:
            if name not in robot.primary_names:
                raise unknown_name_error("primary joint", name, robot.primary_names)
        joints = robot.primary_joints
        own_ranges = {joint.name: position_range(joint.limits, *DEFAULT_RANGE[joint.kind]) for joint in joints}
        pairs = np.array([*(own_ranges | stated).values()], dtype=np.float64)
        for joint, (low, high) in zip(joints, pairs, strict=True):
            if not (np.isfinite([low, high]).all() and low < high):
                message = f"the range of joint {joint.name!r} must be finite and not empty, got {low:g} to {high:g}"
                raise InputError(message, code=Code.OUT_OF_RANGE, subject=joint.name)
        speed = np.array([_limit_rate(joint.limits.velocity, DEFAULT_SPEED[joint.kind]) for joint in joints])
        acceleration = np.array([_limit_rate(joint.limits.acceleration, np.inf) for joint in joints])
        return JointReach(pairs[:, 0], pairs[:, 1], speed, acceleration)

    def amplitude(self, joint: int, frequency_hz: float) -> float:
        """Return the amplitude of a sine: a quarter of the range unless speed or acceleration allow less."""
        w = 2 * np.pi * frequency_hz
        allowed = (self.upper[joint] - self.lower[joint]) / 4, self.speed[joint] / w, self.acceleration[joint] / w**2
        return float(min(allowed))

    def steady_speed(self, joint: int, seconds: float) -> float:
        """Return the highest speed that can be kept for `seconds` within half the range."""
        return float(min(self.speed[joint], (self.upper[joint] - self.lower[joint]) / (2 * seconds)))

    def inside(self, joint: int, share: float, margin: float) -> float:
        """Return the position at a fraction (0 to 1) of the range, where a margin at both ends is excluded."""
        low, high = self.lower[joint] + margin, self.upper[joint] - margin
        return float(low + share * (high - low))

    def spread(self, joint: int, shares: Sequence[float]) -> tuple[float, ...]:
        """Divide the range into as many equal parts as there are fractions, and return one position in each part: at
        its fraction of that part.
        """
        count = len(shares)
        return tuple(self.inside(joint, (k + share) / count, 0.0) for k, share in enumerate(shares))


def _limit_rate(limit: float | None, default: float) -> float:
    return default if not limit else min(default, USED_SHARE * limit)
