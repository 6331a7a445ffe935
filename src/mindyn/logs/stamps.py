"""Stamps of rows: the period of even rows, whether stamps come in bursts, and what to make of those that go back.

A few rows that came late are put in order; a clock that began anew is another recording.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from mindyn.algebra.values import Array

MAX_BURST_STEP_FRACTION: Final = 0.5
"""A step below this part of the mean is one within a burst."""
MIN_BURST_FRACTION: Final = 0.2
"""Share of such steps from which stamps come in bursts; jitter of nine tenths of a period has a tenth of them."""
MIN_GAP_RATIO: Final = 10.0
"""A step above this many means is a gap."""
BURST_CHECK_PARTS: Final = 20
MIN_BURSTS_PER_PART: Final = 8
"""Bursts that a part must hold for its mean step to tell the rate: of 2 and of 3 the means differ by half."""
STEADY_RATE_TOLERANCE: Final = 0.3
"""Parts of a log whose mean step differs by less than this from the usual one have its rate."""
MAX_LATE_ROWS: Final = 50
"""Rows in a row that may come late: packets overtake each other by a few."""
MAX_LATE_FRACTION: Final = 0.1
"""Part of the rows that may come late."""
RESTART_GAP_S: Final = 10.0
"""s that are put between two recordings in one file: longer than any gap within one."""


def has_bursts(steps: Array) -> bool:
    """Whether many stamps lie much closer together than their steady rate says, as of rows that wait for a network."""
    within = _drop_gaps(steps)
    close = within < MAX_BURST_STEP_FRACTION * within.mean()
    if not close.mean() > MIN_BURST_FRACTION:
        return False
    count = max(2, min(BURST_CHECK_PARTS, int((~close).sum()) // MIN_BURSTS_PER_PART))
    means = np.array([part.mean() for part in np.array_split(within, min(count, len(within)))])
    return bool((np.abs(means / np.median(means) - 1) < STEADY_RATE_TOLERANCE).mean() > 1 - MIN_BURST_FRACTION)


def estimate_even_step(steps: Array) -> float:
    """The step (s) of even rows whose stamps come in bursts: the slope of the stamps over the rows between gaps."""
    longest = MIN_GAP_RATIO * float(_drop_gaps(steps).mean())
    together = square = 0.0
    for part in np.split(steps, np.flatnonzero(steps > longest)):
        stamps = np.concatenate([[0.0], np.cumsum(part[part <= longest])])
        rows = np.arange(len(stamps)) - (len(stamps) - 1) / 2
        together += float(rows @ stamps)
        square += float(rows @ rows)
    return together / square


def estimate_usual_step(steps: Array) -> float:
    """The step (s) that most rows are apart: the median; that of even rows where stamps come in bursts."""
    return estimate_even_step(steps) if has_bursts(steps) else float(np.median(steps))


def _drop_gaps(steps: Array) -> Array:
    """The steps that are no gaps."""
    within = steps
    while len(shorter := within[within <= MIN_GAP_RATIO * within.mean()]) < len(within):
        within = shorter
    return within


def sort_late_rows(time: Array) -> NDArray[np.int64] | None:
    """(N,) the rows in the order of their stamps, where a few came late; None where the time goes back otherwise.

    A row that came late fills a gap between its neighbours. Where a clock is set back, rows of different instants get
    the same or interleaved stamps, and no order of them is right.
    """
    late = time < np.maximum.accumulate(time)
    if late.mean() > MAX_LATE_FRACTION or _longest_run(late) > MAX_LATE_ROWS:
        return None
    order = np.argsort(time, kind="stable")
    steps = np.diff(time[order])
    beside = late[order][1:] | late[order][:-1]
    return None if (steps[beside] < MAX_BURST_STEP_FRACTION * np.median(steps)).any() else order


def count_restarts(time: Array) -> int:
    """How often the time goes back as of a clock that begins anew; 0 where rows only came late."""
    back = int((np.diff(time) < 0).sum())
    return 0 if back == 0 or sort_late_rows(time) is not None else back


def _longest_run(flags: NDArray[np.bool_]) -> int:
    edges = np.flatnonzero(np.diff(flags.astype(np.int8), prepend=0, append=0))
    return int((edges[1::2] - edges[::2]).max(initial=0))
