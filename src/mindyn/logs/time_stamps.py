"""Examine time stamps: the period of even rows, bursts of stamps, late rows, and restarts of the clock.

A few late rows can be sorted. If the clock restarts, another recording begins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from mindyn.foundation.algebra.values import Array

if TYPE_CHECKING:
    pass

from numpy.typing import NDArray

MAX_BURST_STEP_FRACTION: Final = 0.5
"""Largest step from one stamp to the next within a burst, relative to the mean step."""
MIN_BURST_FRACTION: Final = 0.2
"""Smallest fraction of such steps if stamps come in bursts; stamps of even rows with a jitter of 0.9 periods have 0.1.
"""
MIN_GAP_RATIO: Final = 10.0
"""Smallest gap, relative to the mean step."""
MIN_GAP_PERIODS: Final = 2.5
"""Smallest gap, relative to the usual step, unless stamps come in bursts."""
BURST_CHECK_PARTS: Final = 20
MIN_BURSTS_PER_PART: Final = 8
"""Smallest number of bursts in a part of a log that gives a reliable mean step; with 2 or 3 bursts, means differ by
half.
"""
STEADY_RATE_TOLERANCE: Final = 0.3
"""Relative difference of the mean step below which parts of a log have the same rate."""
MAX_LATE_ROWS: Final = 50
"""Most consecutive late rows: packets overtake each other by a few rows."""
MAX_LATE_FRACTION: Final = 0.1
"""Largest fraction of late rows."""
RESTART_GAP_S: Final = 10.0
"""Time between two recordings in one file: longer than any gap within a recording."""


def has_bursts(steps: Array) -> bool:
    """Return whether many stamps are much closer to each other than the rate of the rows, as if rows waited for a
    network.
    """
    within = _drop_gaps(steps)
    close = within < MAX_BURST_STEP_FRACTION * within.mean()
    if not close.mean() > MIN_BURST_FRACTION:
        return False
    count = max(2, min(BURST_CHECK_PARTS, int((~close).sum()) // MIN_BURSTS_PER_PART))
    means = np.array([part.mean() for part in np.array_split(within, min(count, len(within)))])
    return bool((np.abs(means / np.median(means) - 1) < STEADY_RATE_TOLERANCE).mean() > 1 - MIN_BURST_FRACTION)


def estimate_even_step(steps: Array) -> float:
    """Return the step (s) of even rows whose stamps come in bursts: the slope of the stamps over rows between gaps."""
    longest = MIN_GAP_RATIO * float(_drop_gaps(steps).mean())
    together = square = 0.0
    for part in np.split(steps, np.flatnonzero(steps > longest)):
        stamps = np.concatenate([[0.0], np.cumsum(part[part <= longest])])
        rows = np.arange(len(stamps)) - (len(stamps) - 1) / 2
        together += float(rows @ stamps)
        square += float(rows @ rows)
    return together / square


def estimate_usual_step(steps: Array) -> float:
    """Return the median step (s), or the step of even rows if stamps come in bursts."""
    return estimate_even_step(steps) if has_bursts(steps) else float(np.median(steps))


def sum_recorded_time(time: Array) -> float:
    """Return the sum of the steps (s) between stamps that are not gaps."""
    steps = np.diff(time)
    if not len(steps):
        return 0.0
    return float((_drop_gaps(steps) if has_bursts(steps) else steps[steps <= MIN_GAP_PERIODS * np.median(steps)]).sum())


def _drop_gaps(steps: Array) -> Array:
    """Return the steps that are not gaps."""
    within = steps
    while len(shorter := within[within <= MIN_GAP_RATIO * within.mean()]) < len(within):
        within = shorter
    return within


def sort_late_rows(time: Array) -> NDArray[np.int64] | None:
    """Return the order (N,) of rows by their stamps if a few rows are late; None if the time goes back for another
    reason.

    A late row fills a gap between its neighbours. If a clock is set back, rows of different instants get equal or
    interleaved stamps, and no order is correct.
    """
    late = time < np.maximum.accumulate(time)
    if late.mean() > MAX_LATE_FRACTION or _longest_run(late) > MAX_LATE_ROWS:
        return None
    order = np.argsort(time, kind="stable")
    steps = np.diff(time[order])
    is_next_to_late = late[order][1:] | late[order][:-1]
    return None if (steps[is_next_to_late] < MAX_BURST_STEP_FRACTION * np.median(steps)).any() else order


def count_restarts(time: Array) -> int:
    """Count the restarts of the clock; 0 if rows are only late."""
    back = int((np.diff(time) < 0).sum())
    return 0 if back == 0 or sort_late_rows(time) is not None else back


def _longest_run(flags: NDArray[np.bool_]) -> int:
    edges = np.flatnonzero(np.diff(flags.astype(np.int8), prepend=0, append=0))
    return int((edges[1::2] - edges[::2]).max(initial=0))
