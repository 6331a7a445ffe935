"""What a log says that a working sensor does not: positions that jump, columns that hold one value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from mindyn.algebra.values import Array
from mindyn.logs.columns import Pick
from mindyn.logs.log import Log
from mindyn.robots.robot import Robot

FASTEST: Final = 10.0
"""Speed (rad/s or m/s) that a joint without a stated speed limit hardly exceeds: wrists of industrial arms reach it."""
USUAL: Final = 0.9
JUMP: Final = 5.0
"""A step is a jump when it is faster than the speed limit, and than this multiple of the speed that the share `USUAL`
of the joint's steps keep: of a smooth motion the fastest step is below 2 of it, of noise below 3."""
SAME: Final = 1e-12
"""Values that vary by less, relative, are one value."""


@dataclass(frozen=True, slots=True)
class _Jump:
    size: float
    time: float
    row: int


class Oddities:
    """Watches the chunks of one log in order, and reports at the end."""

    def __init__(self, robot: Robot) -> None:
        self.joints = robot.primary_joints
        self.limits = np.array([joint.limits.velocity or FASTEST for joint in self.joints])
        self.largest: list[_Jump | None] = [None] * len(self.joints)
        self.counts = np.zeros(len(self.joints), dtype=int)
        self.last: Log | None = None
        self.ends: dict[str, tuple[Pick, Array, Array]] = {}

    def see_columns(self, pick: Pick, values: Array) -> None:
        """The next rows of a signal as logged, (rows, n)."""
        low, high = np.fmin.reduce(values), np.fmax.reduce(values)
        if pick.signal in self.ends:
            _, lowest, highest = self.ends[pick.signal]
            low, high = np.fmin(low, lowest), np.fmax(high, highest)
        self.ends[pick.signal] = (pick, low, high)

    def see(self, chunk: Log) -> None:
        """The next usable rows."""
        before = chunk if self.last is None else self.last
        time, q = np.append(before.time[-1], chunk.time), np.vstack([before.q[-1], chunk.q])
        first = 1 if self.last is None else 0  # the first row of all has none before it
        steps, speeds = np.diff(q, axis=0)[first:], np.abs(np.diff(q, axis=0)[first:])
        speeds = speeds / np.diff(time)[first:, None]
        if len(steps):
            usual = np.quantile(speeds, USUAL, axis=0)
            self._count(chunk, first, steps, speeds > np.maximum(self.limits, JUMP * usual))
        self.last = chunk.take(slice(len(chunk) - 1, None))

    def _count(
        self, chunk: Log, first: int, steps: Array, jumps: np.ndarray[tuple[int, int], np.dtype[np.bool_]]
    ) -> None:
        self.counts += jumps.sum(axis=0)
        for joint in np.flatnonzero(jumps.any(axis=0)):
            at = int(np.argmax(np.abs(steps[:, joint]) * jumps[:, joint]))
            known = self.largest[joint]
            if known is None or abs(steps[at, joint]) > abs(known.size):
                row = at + first
                self.largest[joint] = _Jump(float(steps[at, joint]), float(chunk.time[row]), int(chunk.rows[row]))

    def notes(self) -> tuple[str, ...]:
        """A sentence on each joint that jumps and each torque or velocity that never changes."""
        return (*self._jump_notes(), *self._constant_notes())

    def _jump_notes(self) -> list[str]:
        notes = []
        for joint, jump, count in zip(self.joints, self.largest, self.counts, strict=True):
            if jump is not None:
                unit = "m" if joint.kind == "prismatic" else "rad"
                rest = f", the largest of {count} such steps" if count > 1 else ""
                notes.append(
                    f"joint {joint.name} jumps by {jump.size:.4g} {unit} at {jump.time:.6g} s (row {jump.row}){rest}: "
                    "bad samples, or an angle that wraps around? they are used as they are"
                )
        return notes

    def _constant_notes(self) -> list[str]:
        notes = []
        still = self._constant("position")
        for signal in ("velocity", "torque"):
            for joint in np.flatnonzero(self._constant(signal) & ~(still & (signal == "velocity"))):
                pick, low, _ = self.ends[signal]
                column = pick.names[joint] if pick.order is None else f"{pick.names[0]}[{pick.order[joint]}]"
                notes.append(
                    f"the {signal} of joint {self.joints[joint].name} never changes: column {column!r} holds "
                    f"{low[joint]:.4g} in every row; is its sensor dead, or was another column meant?"
                )
        return notes

    def _constant(self, signal: str) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """(n,) whether the column of each joint holds one value."""
        if signal not in self.ends:
            return np.zeros(len(self.joints), dtype=bool)
        _, low, high = self.ends[signal]
        return np.asarray(high - low <= SAME * np.maximum(np.abs(low), np.abs(high)))
