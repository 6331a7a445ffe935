"""Interpolate between rows with polynomials through the nearest rows, so that a block needs only a few rows around
it.
"""

from __future__ import annotations

from math import prod
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mindyn.foundation.algebra.values import Array

NEIGHBOUR_ROWS: Final = 2
"""Rows on either side that `interpolate_between_stamps` uses."""
SHIFT_REACH_ROWS: Final = 5
"""Rows on either side that `delay_rows` uses, in addition to the whole rows of the delay."""


def interpolate_between_stamps(time: Array, values: Array, wanted: Array) -> Array:
    """Return values at the given times from the cubic through the four nearest stamps (or fewer, if necessary)."""
    count = min(2 * NEIGHBOUR_ROWS, len(time))
    first = np.clip(np.searchsorted(time, wanted, side="right") - count // 2, 0, len(time) - count)
    near = first[:, None] + np.arange(count)
    stamps = time[near]
    weights = np.ones(near.shape)
    for k in range(count):
        for other in range(count):
            if other != k:
                weights[:, k] *= (wanted - stamps[:, other]) / (stamps[:, k] - stamps[:, other])
    return np.asarray(np.einsum("rk,rk...->r...", weights, values[near]))


def delay_rows(x: Array, rows: float) -> Array:
    """Return x(k - rows) for uniform rows k from the polynomial of degree 7 through the eight nearest rows.

    The ends are extended as straight lines.
    """
    margin = abs(int(np.floor(rows))) + SHIFT_REACH_ROWS
    longer = _extend_ends(x, margin)
    parts = (w * longer[margin - back : margin - back + len(x)] for back, w in _delay_weights(rows))
    return np.asarray(sum(parts))


def delay_selected_rows(x: Array, rows: float, index: NDArray[np.intp]) -> Array:
    """Return x(k - rows) at the rows k of `index`, which must be |rows| + SHIFT_REACH_ROWS away from the ends."""
    start = int(index.min())
    index = index - start
    return np.asarray(sum(w * x[start - back :][index] for back, w in _delay_weights(rows)))


def _delay_weights(rows: float) -> list[tuple[int, float]]:
    """Return the offsets and weights of the eight rows nearest to a delay."""
    whole = int(np.floor(rows))
    nodes = range(-3, 5)
    return [(whole + k, prod((rows - whole - m) / (k - m) for m in nodes if m != k)) for k in nodes]


def _extend_ends(x: Array, margin: int) -> Array:
    steps = np.arange(1, margin + 1, dtype=np.float64)[:, None]
    if len(x) < 2:
        return np.repeat(x, 2 * margin + 1, axis=0)
    before, after = x[0] - steps[::-1] * (x[1] - x[0]), x[-1] + steps * (x[-1] - x[-2])
    return np.concatenate([before, x, after])
