"""Power spectra of residuals and torques."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from mindyn.algebra.values import Array
from mindyn.regression.row_blocks import segment_ends

MAX_WINDOW_ROWS: Final = 4096
MIN_WINDOW_ROWS: Final = 64
"""Rows of a window, at most and at least; at least four windows fit into the longest segment if it is long enough."""


def spectrum(values: Array, segments: NDArray[np.int64], rate_hz: float) -> tuple[Array, Array]:
    """Return frequencies (k,), Hz, and one-sided power density (k, n) of values (N, n), per Hz, by Welch's method.

    Segments shorter than a window are skipped; both results are empty if all are.
    """
    from scipy.signal import welch

    ends = segment_ends(segments)
    longest = max(stop - start for start, stop in ends)
    window = int(2 ** np.floor(np.log2(np.clip(longest / 4, MIN_WINDOW_ROWS, MAX_WINDOW_ROWS))))
    total, weight, frequency = np.zeros(()), 0, np.zeros(0)
    for start, stop in ends:
        if stop - start >= window:
            frequency, density = welch(values[start:stop], rate_hz, nperseg=window, axis=0)
            total, weight = total + (stop - start) * density, weight + stop - start
    return frequency, total / weight if weight else np.zeros((0, values.shape[1]))
