"""Rows in which a joint is held by something other than its servo: the tip on a table, or a joint at a hard stop.

Such rows, and those until the target of the joint has moved on, get no weight in the fit and do not count in scores.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import require_choice
from mindyn.identification.servos.joint_tables import ServoRows, count_rows
from mindyn.kernels.model import compile_model
from mindyn.robots.robot import Robot

LEAD_S: Final = 0.5
"""Rows this long before a contact are left out too."""
RELEASE: Final = 0.06
"""A joint is free again when its target has moved this far (rad, m) since the contact."""
BINS: Final = 40
"""Parts of the range of heights in which a table is looked for."""
LOW_PART: Final = 0.3
"""A table is below all but this part of the rows."""
MIN_ROWS: Final = 50
TABLE_RATIO: Final = 2.5
"""Rms error of the rows below a table over that of the rows just above it. On the SO-101, it is 5; without a table,
rows of the same motion differ by less than 2."""
MIN_STOP_ROWS: Final = 5
STOP_WIDTH: Final = 0.01
"""A joint at a hard stop is this close (rad, m) to the end of its positions."""
STOP_ERROR: Final = 4.0
"""Its target is beyond by more than this multiple of the rms of target - q."""


@dataclass(frozen=True, slots=True)
class Table:
    """Height (m, along the opposite of gravity from the root frame) below which the frame `tip` touches something."""

    tip: str
    height_m: float


def choose_tip(robot: Robot, tip: str | None) -> str:
    """Return the frame whose height is compared with a table: the frame of the last link farthest from its joint."""
    names = [*robot.link_names, *(frame.name for frame in robot.frames)]
    if tip is not None:
        require_choice(tip, names, "tip")
        return tip
    last = robot.link_names[-1]
    distances = {f.name: float(np.linalg.norm(f.pose.translation)) for f in robot.frames if f.link == last}
    return max(distances, key=lambda name: distances[name]) if distances else last


def tip_heights(robot: Robot, tip: str, q: Array) -> Array:
    """Return the heights (N,) of a frame, along the opposite of gravity; zeros without gravity."""
    g = np.asarray(robot.gravity, dtype=np.float64)
    if not np.linalg.norm(g) > 0:
        return np.zeros(len(q))
    up = -g / np.linalg.norm(g)
    return np.asarray(compile_model(robot).forward_kinematics(q, tip)[:, :3, 3] @ up)


def find_table(robot: Robot, rows: ServoRows, residuals: Array, tip: str) -> Table | None:
    """Find a table on which the tip rests in some rows.

    In these rows the tip is lowest, the joints are pushed up, and the simulation is bad.


    residuals  (N, n) simulated minus measured positions
    """
    heights = tip_heights(robot, tip, rows.q)
    pressed = heights - tip_heights(robot, tip, rows.target)
    spread = np.median(np.abs(residuals), axis=0)
    size = (residuals / np.where(spread > 0, spread, np.inf)) ** 2
    low, high = float(heights.min()), float(heights.max())
    width = (high - low) / BINS
    best, ratio = None, TABLE_RATIO
    for height in low + width * np.arange(1, BINS):
        below, above = heights < height, (heights >= height) & (heights < height + 3 * width)
        if below.mean() > LOW_PART:
            break
        if min(below.sum(), above.sum()) < MIN_ROWS or np.median(pressed[below]) <= np.median(pressed[above]):
            continue
        worse = np.sqrt(size[below].mean(axis=0) / np.maximum(size[above].mean(axis=0), 1e-300))
        if np.sort(worse)[-2:].min() > ratio:  # at least two joints: a contact loads more than one
            best, ratio = float(height), float(np.sort(worse)[-2:].min())
    return None if best is None else Table(tip, best)


def free_rows(robot: Robot, rows: ServoRows, table: Table | None) -> NDArray[np.bool_]:
    """Return whether each joint (N, n) is free: neither in nor after contact with the table or a hard stop."""
    free = np.ones(rows.q.shape, dtype=bool)
    touching = np.zeros(len(rows.time), dtype=bool)
    if table is not None:
        touching = tip_heights(robot, table.tip, rows.q) < table.height_m
    stopped = _rows_at_stops(rows)
    lead = count_rows(LEAD_S, rows.rate_hz)
    starts = np.flatnonzero(rows.is_start)
    for first, end in zip(starts, [*starts[1:], len(rows.time)], strict=True):
        for joint in range(rows.q.shape[1]):
            held = touching[first:end] | stopped[first:end, joint]
            if held.any():
                free[first:end, joint] = ~_extend_contact(held, rows.target[first:end, joint], lead)
    return free


def _rows_at_stops(rows: ServoRows) -> NDArray[np.bool_]:
    """Return whether each row (N, n) is at a mechanical stop.

    A joint is at a stop if it stands at its largest (or smallest) position although its target is far beyond.
    """
    error = rows.target - rows.q
    far = STOP_ERROR * np.median(np.abs(error), axis=0) + RELEASE
    slow = np.abs(rows.v) < 0.1 * np.quantile(np.abs(rows.v), 0.99, axis=0)
    at_high, at_low = rows.q > rows.q.max(axis=0) - STOP_WIDTH, rows.q < rows.q.min(axis=0) + STOP_WIDTH
    result = np.zeros(rows.q.shape, dtype=bool)
    for near, beyond in ((at_high, error), (at_low, -error)):
        is_stop = (near & slow & (beyond > far)).sum(axis=0) >= MIN_STOP_ROWS
        result |= near & (beyond > 0) & is_stop
    return result


def _extend_contact(held: NDArray[np.bool_], target: Array, lead: int) -> NDArray[np.bool_]:
    """Extend contacts (N,) by the `lead` rows before them, and by the rows until the target moved by `RELEASE`."""
    soon = np.convolve(held[::-1], np.ones(lead + 1))[: len(held)][::-1] > 0.5
    result = soon.copy()
    for last in np.flatnonzero(soon & ~np.append(soon[1:], False)):
        moved = np.flatnonzero(np.abs(target[last + 1 :] - target[last]) > RELEASE)
        result[last + 1 : last + 2 + (int(moved[0]) if len(moved) else len(held))] = True
    return result
