"""Recordings with known content: a planar arm moving along sines, and what its log states."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mindyn.robots.parts import Drive, Joint, Limits, Link
from mindyn.robots.robot import Robot

NAMES = ("shoulder", "elbow", "wrist")
RATE = 500.0
COLUMNS = {"time": "t", "position": "q_{joint}", "velocity": "v_{joint}", "torque": "tau_{joint}"}
UNITS = {"time": "s", "position": "rad", "velocity": "rad/s", "torque": "N m"}
STATED = {"columns": COLUMNS, "units": UNITS, "side": "joint"}


def arm(*, drives: tuple[Drive, ...] = ()) -> Robot:
    links = ("base", "upper", "fore", "hand")
    limits = Limits(-3.0, 3.0, 10.0, effort=50.0)
    joints = tuple(Joint(n, "revolute", links[i], links[i + 1], limits=limits) for i, n in enumerate(NAMES))
    return Robot("arm", Link("base"), joints, tuple(map(Link, links[1:])), drives=drives)


@dataclass(frozen=True)
class Motion:
    t: np.ndarray
    q: np.ndarray
    qd: np.ndarray
    qdd: np.ndarray
    tau: np.ndarray

    def table(self) -> dict[str, np.ndarray]:
        columns = {"t": self.t}
        for j, name in enumerate(NAMES):
            columns |= {f"q_{name}": self.q[:, j], f"v_{name}": self.qd[:, j], f"tau_{name}": self.tau[:, j]}
        return columns


def sines(rows: int = 2000, *, t: np.ndarray | None = None) -> Motion:
    """q_j = a sin(w t + p) with its exact derivatives; tau is a known function of them."""
    t = np.arange(rows) / RATE if t is None else t
    a, w, p = np.array([1.0, 0.8, 0.5]), 2 * np.pi * np.array([0.5, 0.9, 1.4]), np.array([0.0, 1.0, 2.0])
    phase = t[:, None] * w + p
    q, qd, qdd = a * np.sin(phase), a * w * np.cos(phase), -a * w**2 * np.sin(phase)
    return Motion(t, q, qd, qdd, 2.0 * qdd + 1.5 * qd + 5.0 * np.cos(q))
