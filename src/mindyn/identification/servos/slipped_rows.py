"""Rows in which all joints follow their targets with the same additional delay, unlike in the rest of the logs.

A recorder that loses rows, or servos that plan their own motion, delay all joints alike from one instant on. Such rows
say nothing about gains and friction: they get no weight in the fit, and are stated. Friction, damping and armature of a
wrong size delay each joint differently, and a bus delays all rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mindyn.foundation.algebra.values import Array
from mindyn.identification.servos.joint_tables import ServoRows
from mindyn.identification.servos.rollout import simulate_joint

WINDOW_S: Final = 5.0
SHIFTS: Final = np.array([-6.0, -4.0, -3.0, -2.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0])
"""Further delays that are tried, in rows."""
LARGE_RATIO: Final = 3.0
"""A window has slipped rows only if its error exceeds this multiple of the median of all windows, at each joint."""
BETTER_RATIO: Final = 0.6
"""Largest error with the further delay, relative to that without it, of each joint; and of all joints together:"""
MUCH_BETTER_RATIO: Final = 0.4
MIN_JOINTS: Final = 2
MAX_PART: Final = 0.3
"""If more windows differ, the rest of the logs says nothing about what is usual."""


@dataclass(frozen=True, slots=True)
class Slip:
    """Times (s) of a log between which all joints follow `delay_s` later than elsewhere."""

    log: int
    begin_s: float
    end_s: float
    delay_s: float


def find_slips(rows: ServoRows, values: Sequence[Array | None], weights: Array) -> list[Slip]:
    """Return the windows in which a further delay of all targets explains most of the error.

    values   (4,) of each joint that moves
    weights  (N, n) zero for rows in contact
    """
    joints = [j for j, some in enumerate(values) if some is not None]
    if len(joints) < MIN_JOINTS:
        return []
    windows = _number_windows(rows)
    used = np.array([np.bincount(windows, weights[:, j] > 0) for j in joints])
    enough = used > 0.5 * np.bincount(windows)
    errors = _window_errors(rows, joints, values, weights, windows)
    counts = enough & (errors > 0)
    usual = np.array([np.median(e[some]) if some.any() else np.inf for e, some in zip(errors, counts, strict=True)])
    suspects = (counts & (errors > LARGE_RATIO * usual[:, None])).sum(axis=0) >= MIN_JOINTS
    best, delays = np.full(len(suspects), np.inf), np.zeros(len(suspects))
    for shift in SHIFTS / rows.rate_hz if suspects.any() else ():
        late = _window_errors(rows.with_later_targets(shift), joints, values, weights, windows)
        ratios = np.where(counts, late / np.where(counts, errors, 1.0), 0.0)
        total = np.sqrt((ratios**2).sum(axis=0) / np.maximum(counts.sum(axis=0), 1))
        total[ratios.max(axis=0) > BETTER_RATIO] = np.inf
        delays = np.where(total < best, shift, delays)
        best = np.minimum(best, total)
    slipped = suspects & (best < MUCH_BETTER_RATIO)
    if slipped.mean() > MAX_PART:
        return []
    return _join_windows(rows, windows, slipped, delays)


def slipped_rows(rows: ServoRows, slips: Sequence[Slip]) -> NDArray[np.bool_]:
    """Return the rows (N,) of slips, and of a window before each, in which it may have begun."""
    result = np.zeros(len(rows.time), dtype=bool)
    for slip in slips:
        inside = (rows.time > slip.begin_s - WINDOW_S) & (rows.time < slip.end_s + WINDOW_S)
        result |= inside & (rows.log == slip.log)
    return result


def _number_windows(rows: ServoRows) -> NDArray[np.intp]:
    """Return the window (N,) of each row; no window spans two segments."""
    segments = np.cumsum(rows.is_start) - 1
    starts = rows.time[rows.is_start][segments]
    inside = ((rows.time - starts) // WINDOW_S).astype(np.intp)
    return np.unique(segments * (inside.max() + 1) + inside, return_inverse=True)[1]


def _window_errors(
    rows: ServoRows, joints: Sequence[int], values: Sequence[Array | None], weights: Array, windows: NDArray[np.intp]
) -> Array:
    """Return the rms error (joints, windows) of the simulation in free rows; zero without any."""
    errors = []
    for joint in joints:
        some = values[joint]
        assert some is not None
        free = weights[:, joint] > 0
        q = simulate_joint(rows.table(joint), some[None])[:, 0]
        squares = np.where(free, (q - rows.q[:, joint]) ** 2, 0.0)
        errors.append(np.sqrt(np.bincount(windows, squares) / np.maximum(np.bincount(windows, free), 1)))
    return np.array(errors)


def _join_windows(rows: ServoRows, windows: NDArray[np.intp], slipped: NDArray[np.bool_], delays: Array) -> list[Slip]:
    """Join slips of neighbouring windows to one slip with the median of their delays."""
    slips: list[list[int]] = []
    logs = np.array([rows.log[np.argmax(windows == w)] for w in range(len(slipped))])
    for window in np.flatnonzero(slipped):
        if slips and window - slips[-1][-1] <= 1 and logs[window] == logs[slips[-1][-1]]:
            slips[-1].append(int(window))
        else:
            slips.append([int(window)])
    result = []
    for some in slips:
        times = rows.time[np.isin(windows, some)]
        delay = float(np.median(delays[some]))
        result.append(Slip(int(logs[some[0]]), float(times.min()), float(times.max()), delay))
    return result
