"""Zero-phase low pass: a Butterworth filter forward and backward, H(f) = 1 / (1 + (tan pi f/fs / tan pi fc/fs)^2p)."""

from __future__ import annotations

from functools import lru_cache
from math import ceil, log
from typing import Final

import numpy as np
from scipy.signal import butter, sosfilt_zi

from mindyn.algebra.values import Array
from mindyn.errors import Code, InputError
from mindyn.numerics.sections import Cascade
from mindyn.numerics.threads import can_use_threads, map_in_threads

LOWEST_HZ: Final = 0.5
"""Lowest cut-off that the selection of settings tries."""
MIN_EDGE_S: Final = 0.1
"""Closer to the ends of a segment, a filter lacks data on one side, for any cut-off."""
END_DEGREE: Final = 3
END_PERIODS: Final = (1.0, 2.0)
"""Degree of the polynomial that extends positions beyond their ends, and periods of the cut-off over which it is fitted
and by which it extends. Between 0.1 s and half a period from an end, the acceleration of random motion with noise is
wrong by 0.1 to 2 % instead of 3 to 19 % with mirrored ends (tests/logs/test_filters.py); a shorter fit or a higher
degree amplifies noise."""
MIN_END_ROWS: Final = 8
"""Fewest rows that the polynomial is fitted to. With fewer, or in a segment shorter than the fit, ends are mirrored."""
MIN_THREADED_SIZE: Final = 2**20
"""Smallest array, in elements, whose columns are filtered on several threads."""
COLUMNS_PER_TASK: Final = 32
"""Columns that a thread filters at a time."""
SETTLED_FRACTION: Final = 1e-13
"""Fraction of a disturbance below which a filter has settled."""


def lowpass(x: Array, cutoff_hz: float | None, rate_hz: float, order: int = 4, out: Array | None = None) -> Array:
    """Remove frequencies above the cut-off from the rows of x (N, ...) without delay.

    The ends are extended by `extension_rows`, mirrored through the end point. Without a cut-off, return x.

    out  array for the result, which may be x itself; None creates a new array. Requires a cut-off
    """
    if cutoff_hz is None or len(x) < 2:
        return x
    _require_below_nyquist(cutoff_hz, rate_hz)
    extension = min(len(x) - 1, extension_rows(cutoff_hz, rate_hz))
    rows = _reshape_to_rows(np.asarray(x, dtype=np.float64))
    smooth = np.empty(rows.shape) if out is None else out
    _filter_forward_and_back(second_order_sections(cutoff_hz, rate_hz, order), rows, smooth, extension)
    return smooth if out is not None else smooth.reshape(np.shape(x))


def lowpass_positions(q: Array, cutoff_hz: float | None, rate_hz: float, order: int = 4) -> Array:
    """Remove frequencies above the cut-off from positions (N, n) without delay and without transients at the ends.

    A mirrored end reverses the acceleration there: its filtered value would be zero at the end, and wrong for about a
    period of the cut-off. Positions are smooth, so that the cubic through their last period extends them better.
    """
    if cutoff_hz is None:
        return q
    fitted, added = (ceil(periods * rate_hz / cutoff_hz) for periods in END_PERIODS)
    if not MIN_END_ROWS <= fitted <= len(q):
        return lowpass(q, cutoff_hz, rate_hz, order)
    before, after = _extrapolate(q[:fitted], added)[::-1], _extrapolate(q[: -fitted - 1 : -1], added)
    return lowpass(np.concatenate([before, q, after]), cutoff_hz, rate_hz, order)[added : added + len(q)]


def _extrapolate(x: Array, count: int) -> Array:
    """Return `count` rows that continue the polynomial of least squares through x (k, n) before its first row."""
    rows = np.arange(-count, len(x)) / len(x)
    powers = np.vander(rows, END_DEGREE + 1, increasing=True)
    return np.asarray(powers[count - 1 :: -1][:count] @ np.linalg.lstsq(powers[count:], x, rcond=None)[0])


def extension_rows(cutoff_hz: float, rate_hz: float) -> int:
    """Return the rows by which the ends of a segment are extended: a period of the cut-off."""
    return ceil(rate_hz / cutoff_hz)


def _reshape_to_rows(x: Array) -> Array:
    """Return x (N, ...) as (N, k) with contiguous rows."""
    rows = x if x.ndim == 2 else x.reshape(len(x), -1)
    return rows if rows.shape[1] == 1 or rows.strides[1] == rows.itemsize else np.ascontiguousarray(rows)


def _filter_forward_and_back(design: tuple[Array, Array], x: Array, y: Array, extension: int) -> None:
    """Compute `scipy.signal.sosfiltfilt`, to the last bit, with the ends mirrored over `extension` rows.

    Columns are independent; those of a large array are distributed over threads.
    """
    width = x.shape[1]
    size = COLUMNS_PER_TASK if x.size >= MIN_THREADED_SIZE and can_use_threads() else width
    taken = [slice(first, first + size) for first in range(0, width, size)]
    map_in_threads(lambda columns: _filter_columns(design, x[:, columns], y[:, columns], extension), taken)


def _filter_columns(design: tuple[Array, Array], x: Array, y: Array, extension: int) -> None:
    before = 2 * x[0] - x[extension:0:-1]
    after = 2 * x[-1] - x[-2 : -extension - 2 : -1]
    there = _start_pass(design, before)
    there.filter_rows(x, y)
    there.filter_rows(after, after)
    _start_pass(design, after[::-1]).filter_rows(y[::-1], y[::-1])


def _start_pass(design: tuple[Array, Array], first: Array) -> Cascade:
    """Start a pass in one direction; filter its leading rows in place."""
    sections, settled = design
    cascade = Cascade(sections, settled[:, :, None] * first[0])
    cascade.filter_rows(first, first)
    return cascade


@lru_cache
def second_order_sections(cutoff_hz: float, rate_hz: float, order: int = 4) -> tuple[Array, Array]:
    """Return the second-order sections, and their steady states for an input of 1."""
    # Cached: the selection of settings filters the same short segments thousands of times, and a design takes 1 ms.
    sections = np.asarray(butter(order, cutoff_hz, fs=rate_hz, output="sos"))
    return sections, np.asarray(sosfilt_zi(sections))


def edge_duration_s(*cutoffs_hz: float | None) -> float:
    """Return max(0.1 s, half a period of the lowest cut-off): the time in which filters are not reliable."""
    return max([MIN_EDGE_S, *(0.5 / cutoff for cutoff in cutoffs_hz if cutoff is not None)])


@lru_cache
def settling_rows(cutoff_hz: float | None, rate_hz: float, order: int = 4) -> int:
    """Return the rows after which the filter has settled to `SETTLED_FRACTION`, including the mirrored ends."""
    if cutoff_hz is None:
        return 0
    _require_below_nyquist(cutoff_hz, rate_hz)
    _, poles, _ = butter(order, cutoff_hz, fs=rate_hz, output="zpk")
    slowest = float(np.abs(poles).max())
    # Forward and backward passes convolve two decays: n r^n decays as fast as r^n except for the factor n.
    single = log(SETTLED_FRACTION) / log(slowest)
    return ceil(1.3 * single) + extension_rows(cutoff_hz, rate_hz)


def _require_below_nyquist(cutoff_hz: float, rate_hz: float) -> None:
    if not cutoff_hz < rate_hz / 2:
        message = f"a cut-off of {cutoff_hz:g} Hz must be below {rate_hz / 2:g} Hz, half the rate of the log"
        raise InputError(message, code=Code.OUT_OF_RANGE, subject="cutoff_hz")
