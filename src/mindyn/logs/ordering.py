"""Rows whose stamps go back: a few that came late are put in order; a clock that began anew is another recording."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from mindyn.algebra.values import Array
from mindyn.logs.stamps import CLOSE

LATE_ROWS: Final = 50
"""Rows in a row that may come late: packets overtake each other by a few."""
LATE_SHARE: Final = 0.1
"""Part of the rows that may come late."""
RESTART_GAP_S: Final = 10.0
"""s that are put between two recordings in one file: longer than any gap within one."""


def order_of(time: Array) -> NDArray[np.int64] | None:
    """(N,) the rows in the order of their stamps, where a few came late; None where the time goes back otherwise.

    A row that came late fills a gap between its neighbours. Where a clock is set back, rows of different instants get
    the same or interleaved stamps, and no order of them is right.
    """
    late = time < np.maximum.accumulate(time)
    if late.mean() > LATE_SHARE or _longest_run(late) > LATE_ROWS:
        return None
    order = np.argsort(time, kind="stable")
    steps = np.diff(time[order])
    beside = late[order][1:] | late[order][:-1]
    return None if (steps[beside] < CLOSE * np.median(steps)).any() else order


def restarts(time: Array) -> int:
    """How often the time goes back as of a clock that begins anew; 0 where rows only came late."""
    back = int((np.diff(time) < 0).sum())
    return 0 if back == 0 or order_of(time) is not None else back


def _longest_run(flags: NDArray[np.bool_]) -> int:
    edges = np.flatnonzero(np.diff(flags.astype(np.int8), prepend=0, append=0))
    return int((edges[1::2] - edges[::2]).max(initial=0))
