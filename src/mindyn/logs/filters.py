"""Zero-phase low pass: a Butterworth filter forward and backward, H(f) = 1 / (1 + (tan pi f/fs / tan pi fc/fs)^2p)."""

from __future__ import annotations

from functools import lru_cache
from math import ceil, log
from typing import Final

import numpy as np
from scipy.signal import butter, sosfiltfilt

from mindyn.algebra.values import Array
from mindyn.errors import InputError

SHORTEST_EDGE_S: Final = 0.1
"""s; nearer to the ends of a stretch a filter has one side alone, whatever its cut-off."""
FORGOTTEN: Final = 1e-13
"""What is left of a disturbance, relative to it, when its effect counts as over."""


def lowpass(x: Array, cutoff_hz: float | None, rate_hz: float, order: int = 4) -> Array:
    """The rows of x (N, ...) without what varies faster than the cut-off; no delay.

    The ends are continued by ceil(fs/fc) rows, mirrored through the end point. None: x as it is.
    """
    if cutoff_hz is None or len(x) < 2:
        return x
    _require_below_nyquist(cutoff_hz, rate_hz)
    extension = min(len(x) - 1, ceil(rate_hz / cutoff_hz))
    return np.asarray(sosfiltfilt(_sections(order, cutoff_hz, rate_hz), x, axis=0, padlen=extension))


@lru_cache
def _sections(order: int, cutoff_hz: float, rate_hz: float) -> Array:
    # Kept: the choice of settings filters the same short stretches thousands of times, and a design takes 1 ms.
    return np.asarray(butter(order, cutoff_hz, fs=rate_hz, output="sos"))


def edge_s(*cutoffs_hz: float | None) -> float:
    """max(0.1 s, half a period of the lowest cut-off): where filters have seen too little to be trusted."""
    return max([SHORTEST_EDGE_S, *(0.5 / cutoff for cutoff in cutoffs_hz if cutoff is not None)])


def settling_rows(cutoff_hz: float | None, rate_hz: float, order: int = 4) -> int:
    """Rows after which the filter has forgotten a disturbance to `FORGOTTEN`, the mirrored ends included."""
    if cutoff_hz is None:
        return 0
    _require_below_nyquist(cutoff_hz, rate_hz)
    _, poles, _ = butter(order, cutoff_hz, fs=rate_hz, output="zpk")
    slowest = float(np.abs(poles).max())
    # Forward and backward passes convolve two decays: n r^n decays as fast as r^n but for the factor n.
    single = log(FORGOTTEN) / log(slowest)
    return ceil(1.3 * single) + ceil(rate_hz / cutoff_hz)


def _require_below_nyquist(cutoff_hz: float, rate_hz: float) -> None:
    if not cutoff_hz < rate_hz / 2:
        raise InputError(f"a cut-off of {cutoff_hz:g} Hz must lie below {rate_hz / 2:g} Hz, half the rate of the log")
