"""Steps between stamps: the period of rows that are even, and whether their stamps come in bursts."""

from __future__ import annotations

from typing import Final

import numpy as np

from mindyn.algebra.values import Array

CLOSE: Final = 0.5
"""A step below this part of the mean is one within a burst."""
OFTEN: Final = 0.2
"""Share of such steps from which stamps come in bursts; jitter of nine tenths of a period has a tenth of them."""
LONG: Final = 10.0
"""A step above this many means is a gap."""
PARTS: Final = 20
BURSTS: Final = 8
"""Bursts that a part must hold for its mean step to tell the rate: of 2 and of 3 the means differ by half."""
STEADY: Final = 0.3
"""Parts of a log whose mean step differs by less than this from the usual one have its rate."""


def in_bursts(steps: Array) -> bool:
    """Whether many stamps lie much closer together than their steady rate says, as of rows that wait for a network."""
    within = _without_gaps(steps)
    close = within < CLOSE * within.mean()
    if not close.mean() > OFTEN:
        return False
    count = max(2, min(PARTS, int((~close).sum()) // BURSTS))
    means = np.array([part.mean() for part in np.array_split(within, min(count, len(within)))])
    return bool((np.abs(means / np.median(means) - 1) < STEADY).mean() > 1 - OFTEN)


def even_step(steps: Array) -> float:
    """The step (s) of even rows whose stamps come in bursts: the slope of the stamps over the rows between gaps."""
    longest = LONG * float(_without_gaps(steps).mean())
    together = square = 0.0
    for part in np.split(steps, np.flatnonzero(steps > longest)):
        stamps = np.concatenate([[0.0], np.cumsum(part[part <= longest])])
        rows = np.arange(len(stamps)) - (len(stamps) - 1) / 2
        together += float(rows @ stamps)
        square += float(rows @ rows)
    return together / square


def usual_step(steps: Array) -> float:
    """The step (s) that most rows are apart: the median; that of even rows where stamps come in bursts."""
    return even_step(steps) if in_bursts(steps) else float(np.median(steps))


def _without_gaps(steps: Array) -> Array:
    """The steps that are no gaps."""
    within = steps
    while len(shorter := within[within <= LONG * within.mean()]) < len(within):
        within = shorter
    return within
