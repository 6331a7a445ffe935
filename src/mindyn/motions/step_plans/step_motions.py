"""Motions of step-by-step tests: breakaways, a constant speed, sines; all other joints are held."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from mindyn.foundation.algebra.values import Array

CREEP: Final = 1e-3
"""rad/s or m/s: velocity in the log of a breakaway; its sign is the direction in which the joint began to move."""
AT_REST: Final = 1e-9
"""Fraction of its highest speed below which a joint counts as resting, because friction has no direction at a reversal.
"""
BREAKAWAY_S: Final = 1.0
"""s between the stamps of two breakaways; the value has no physical meaning."""


class Trajectory(NamedTuple):
    """t (N,) s; q, qd, qdd (N, n) rad or m, and per s, s^2."""

    t: Array
    q: Array
    qd: Array
    qdd: Array


@dataclass(frozen=True, slots=True)
class Breakaways:
    """The torque of one joint grows until it begins to move, forwards and backwards, at several positions.

    q          (n,) where joints are held
    joint      number of the joint that begins to move
    positions  rad or m, of that joint
    """

    name: str
    q: tuple[float, ...]
    joint: int
    positions: tuple[float, ...]
    kind: str = "static"

    @property
    def joints(self) -> tuple[int, ...]:
        """Numbers of the moving joints."""
        return (self.joint,)

    def trajectory(self, rate_hz: float) -> Trajectory:  # noqa: ARG002 - instants, at no rate
        """Return one row for each breakaway: forwards, then backwards, position by position."""
        count = 2 * len(self.positions)
        q, qd = np.tile(self.q, (count, 1)), np.zeros((count, len(self.q)))
        q[:, self.joint] = np.repeat(self.positions, 2)
        qd[:, self.joint] = np.tile([CREEP, -CREEP], len(self.positions))
        return Trajectory(BREAKAWAY_S * np.arange(count, dtype=np.float64), q, qd, np.zeros_like(q))


@dataclass(frozen=True, slots=True)
class ConstantSpeed:
    """One joint passes its position in q at a constant speed (rad/s or m/s, signed), halfway through `seconds`."""

    name: str
    q: tuple[float, ...]
    joint: int
    speed: float
    seconds: float
    kind: str = "constant velocity"

    @property
    def joints(self) -> tuple[int, ...]:
        """Numbers of the moving joints."""
        return (self.joint,)

    def trajectory(self, rate_hz: float) -> Trajectory:
        """Return rows at a rate, without the run-up."""
        t = _instants(self.seconds, rate_hz)
        q, qd = np.tile(self.q, (len(t), 1)), np.zeros((len(t), len(self.q)))
        q[:, self.joint] += self.speed * (t - self.seconds / 2)
        qd[:, self.joint] = self.speed
        return Trajectory(t, q, qd, np.zeros_like(q))


@dataclass(frozen=True, slots=True)
class Sines:
    """q_j(t) = q_j - amplitude_j cos(2 pi frequency_j t) of one or two joints, from rest."""

    name: str
    q: tuple[float, ...]
    joints: tuple[int, ...]
    amplitudes: tuple[float, ...]
    frequencies_hz: tuple[float, ...]
    seconds: float
    kind: str = "accelerated"

    def trajectory(self, rate_hz: float) -> Trajectory:
        """Return rows at a rate."""
        t = _instants(self.seconds, rate_hz)
        q, qd = np.tile(self.q, (len(t), 1)), np.zeros((len(t), len(self.q)))
        qdd = np.zeros_like(q)
        for joint, a, f in zip(self.joints, self.amplitudes, self.frequencies_hz, strict=True):
            w = 2 * np.pi * f
            q[:, joint] -= a * np.cos(w * t)
            sine = np.sin(w * t)
            qd[:, joint] = a * w * np.where(np.abs(sine) > AT_REST, sine, 0.0)
            qdd[:, joint] = a * w * w * np.cos(w * t)
        return Trajectory(t, q, qd, qdd)


StepMotion = Breakaways | ConstantSpeed | Sines


def _instants(seconds: float, rate_hz: float) -> Array:
    return np.arange(int(seconds * rate_hz + 1e-6) + 1) / rate_hz
