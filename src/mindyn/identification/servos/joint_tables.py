"""Tables for the simulation of each joint: held targets, and loads by the masses of the robot file along the motion."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from math import ceil
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, InputError
from mindyn.kernels.model import Model, compile_model
from mindyn.logs.filters import lowpass_positions
from mindyn.logs.log import Log
from mindyn.robots.robot import CACHED_ROBOTS, Robot

STEP_S: Final = 0.002
"""Longest step of the simulation, MuJoCo's default."""
MAX_GAP_STEPS: Final = 5.0
"""Stamps further apart than this multiple of the usual step begin a new segment."""
MIN_SEGMENT_ROWS: Final = 20
"""Shorter segments are left out: their motion cannot be smoothed."""
POWER_KEPT: Final = 0.98
"""Part of the power of the target's velocity below the cut-off of the smoothed motion."""
CUTOFF_LIMITS: Final = (2.0, 0.12)
"""Lowest cut-off, Hz, and highest as a multiple of the row rate. Only couplings and the linear start depend on it."""


@dataclass(frozen=True, slots=True, eq=False)
class ServoRows:
    """Rows of all logs, in their order.

    time, q, target  (N,), (N, n): stamps, measured positions, and mean targets from a row to the next
    early, switch    (N, n), (N,): the early target acts for `switch` steps after the row, then the late one
    late             (N, n) targets that act at the end of the row
    v, a             (N, n) smoothed velocities and accelerations
    load             (N, n) torque of gravity and of the motion of the other joints
    gravity          (N, n) the part of the load that gravity causes
    inertia          (N, n) diagonal of the inertia matrix
    step_s, steps    (N,) length and number of steps to the next row
    is_start         (N,) rows at which a simulation begins, from the measured state
    log              (N,) number of the log
    """

    time: Array
    q: Array
    target: Array
    early: Array
    late: Array
    switch: Array
    v: Array
    a: Array
    load: Array
    gravity: Array
    inertia: Array
    step_s: Array
    steps: Array
    is_start: NDArray[np.bool_]
    log: NDArray[np.intp]

    def table(self, joint: int) -> Array:
        """Return the table (N, 10) of a joint for `simulate_joint`."""
        columns = (self.late, self.load, self.inertia, None, None, None, self.q, self.v, self.early, None)
        shared = {3: self.step_s, 4: self.steps, 5: self.is_start, 9: self.switch}
        return np.column_stack([shared[k] if c is None else c[:, joint] for k, c in enumerate(columns)])

    def with_later_targets(self, delay_s: float) -> ServoRows:
        """Return the rows with targets that act later by `delay_s`, which may be negative; they have no delay yet."""
        parts = [
            delay_held_targets(self.time[segment], self.target[segment], delay_s)
            for segment in np.split(np.arange(len(self.time)), np.flatnonzero(self.is_start)[1:])
        ]
        mean, early, late, switch_s = (np.concatenate(column) for column in zip(*parts, strict=True))
        return replace(self, target=mean, early=early, late=late, switch=switch_s / self.step_s)

    @property
    def rate_hz(self) -> float:
        """Usual number of rows per second."""
        steps = (self.steps * self.step_s)[self.steps > 0]
        return 1.0 / float(np.median(steps))


def build_servo_rows(robot: Robot, logs: Sequence[Log], delay_s: float = 0.0) -> ServoRows:
    """Return the rows of logs with position targets; targets act `delay_s` after their stamps.

    Raises `InputError` if a log has no targets or too few rows, or the robot has no masses.
    """
    if not robot.has_parameters:
        raise InputError(
            f"robot {robot.name!r} has no masses, which servo gains are measured against",
            hint="use a robot file with inertials",
            code=Code.MISSING_VALUE,
            subject="robot",
        )
    model = _model_of(robot)
    parts = [
        _segment_rows(model, segment, number, delay_s) for number, log in enumerate(logs) for segment in _split_log(log)
    ]
    if not parts:
        raise InputError(
            f"the logs have no {MIN_SEGMENT_ROWS} rows without a gap",
            hint="record a longer motion",
            code=Code.TOO_LITTLE_DATA,
            subject="logs",
        )
    columns = (np.concatenate(column) for column in zip(*parts, strict=True))
    return ServoRows(*columns)


@lru_cache(maxsize=CACHED_ROBOTS)
def _model_of(robot: Robot) -> Model:
    """Return the model of a robot. Every delay that is tried needs it, and tracing it takes 0.1 s."""
    return compile_model(robot)


def _split_log(log: Log) -> list[Log]:
    if log.target is None:
        raise InputError(
            f"log {log.name!r} has no position targets",
            hint="name their columns in columns.target of its sidecar",
            code=Code.MISSING_VALUE,
            subject="target",
        )
    if len(log) < MIN_SEGMENT_ROWS:
        return []
    steps = np.diff(log.time)
    cuts = [0, *(np.flatnonzero(steps > MAX_GAP_STEPS * np.median(steps)) + 1), len(log)]
    return [log.take(slice(int(a), int(b))) for a, b in pairwise(cuts) if b - a >= MIN_SEGMENT_ROWS]


def _segment_rows(model: Model, segment: Log, number: int, delay_s: float) -> tuple[Array, ...]:
    """Return the fields of `ServoRows` for a segment."""
    assert segment.target is not None
    time, q = segment.time, segment.q
    durations = np.diff(time)
    rate = 1.0 / float(np.median(durations))
    smooth = lowpass_positions(q, _motion_cutoff(segment.target, rate), rate)
    v = np.gradient(smooth, time, axis=0)
    a = np.gradient(v, time, axis=0)
    M = model.inertia_matrix(q)
    inertia = np.einsum("kii->ki", M).copy()
    load = model.inverse_dynamics(q, v, a) - inertia * a
    counts = np.maximum(1, np.ceil(durations / STEP_S - 1e-6))
    steps_s = np.append(durations / counts, STEP_S)
    mean, early, late, switch_s = delay_held_targets(time, segment.target, delay_s)
    return (
        time,
        q,
        mean,
        early,
        late,
        switch_s / steps_s,
        v,
        a,
        load,
        model.gravity(q),
        inertia,
        steps_s,
        np.append(counts, 0.0),
        np.arange(len(time)) == 0,
        np.full(len(time), number),
    )


def delay_held_targets(time: Array, target: Array, delay_s: float) -> tuple[Array, Array, Array, Array]:
    """Return held targets that act `delay_s` after their stamps: mean, early and late (N, n), and the switch (N,), s.

    The early target acts from a row until the switch, the late one until the next row. If several targets begin within
    a row, because stamps are irregular, the early one is the mean of all but the last.
    """
    if not delay_s:
        return target, target, target, np.zeros(len(time))
    usual = float(np.median(np.diff(time)))
    edges = np.append(time, time[-1] + usual)
    area = np.vstack([np.zeros(target.shape[1]), np.cumsum(target * np.diff(edges)[:, None], axis=0)])

    def area_until(when: Array) -> Array:
        sent = when - delay_s
        before = np.minimum(sent - edges[0], 0.0)[:, None] * target[0]  # the first target was held before
        return np.asarray(np.column_stack([np.interp(sent, edges, column) for column in area.T]) + before)

    durations = np.diff(edges)
    acting = np.searchsorted(time, edges[1:] - delay_s, side="left") - 1  # the last stamp that acts before the next row
    late = target[np.maximum(acting, 0)]
    begins = np.where(acting < 0, -np.inf, time[acting] + delay_s)
    switch = np.clip(begins - edges[:-1], 0.0, durations)
    reached = area_until(edges)
    mean = np.diff(reached, axis=0) / durations[:, None]
    some = np.where(switch > 0, switch, 1.0)[:, None]
    early = np.where(switch[:, None] > 0, (area_until(edges[:-1] + switch) - reached[:-1]) / some, late)
    return mean, early, late, switch


def _motion_cutoff(target: Array, rate_hz: float) -> float | None:
    """Return the frequency, Hz, below which most of the power of the target's velocity lies."""
    power = (np.abs(np.fft.rfft(np.diff(target, axis=0), axis=0)) ** 2).sum(axis=1)
    if not power.sum() > 0:
        return CUTOFF_LIMITS[0] if CUTOFF_LIMITS[0] < rate_hz / 2 else None
    place = int(np.searchsorted(np.cumsum(power), POWER_KEPT * power.sum()))
    wanted = 1.5 * np.fft.rfftfreq(len(target) - 1, 1 / rate_hz)[place]
    return float(min(max(wanted, CUTOFF_LIMITS[0]), CUTOFF_LIMITS[1] * rate_hz))


def count_rows(seconds: float, rate_hz: float) -> int:
    """Return the rows of a duration, at least one."""
    return max(1, ceil(seconds * rate_hz))
