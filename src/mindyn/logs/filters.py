"""Zero-phase low pass: a Butterworth filter forward and backward, H(f) = 1 / (1 + (tan pi f/fs / tan pi fc/fs)^2p)."""

from __future__ import annotations

from functools import lru_cache
from math import ceil, log
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, InputError
from mindyn.kernels.numerics.filter_sections import Cascade

LOWEST_HZ: Final = 0.5
"""Lowest cut-off that the selection of settings tries."""
MIN_EDGE_S: Final = 0.1
"""Time from the ends of a segment within which a filter lacks data on one side, for any cut-off."""
END_DEGREE: Final = 3
END_PERIODS: Final = (1.0, 2.0)
"""Degree of the polynomial that extends positions beyond the ends of a segment, and two lengths in periods of the
cut-off: over which the polynomial is fitted, and by which it extends the positions. Between 0.1 s and half a period
from an end, the acceleration of random motion with noise is wrong by 0.1 to 2 % instead of 3 to 19 % with mirrored ends
(tests/logs/test_filters.py); a shorter fit or a higher degree amplifies noise.
"""
MIN_END_ROWS: Final = 8
"""Fewest rows that the polynomial is fitted to. With fewer, or in a segment shorter than the fit, ends are mirrored."""
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

    Mirroring the positions at an end would reverse the acceleration there: the filtered acceleration would be zero at
    the end, and wrong for about a period of the cut-off. Because positions are smooth, a cubic through the last period
    extends them better.
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
    """Return the number of rows by which the ends of a segment are extended: one period of the cut-off."""
    return ceil(rate_hz / cutoff_hz)


def _reshape_to_rows(x: Array) -> Array:
    """Return x (N, ...) as (N, k) with contiguous rows."""
    rows = x if x.ndim == 2 else x.reshape(len(x), -1)
    return rows if rows.shape[1] == 1 or rows.strides[1] == rows.itemsize else np.ascontiguousarray(rows)


def _filter_forward_and_back(design: tuple[Array, Array], x: Array, y: Array, extension: int) -> None:
    """Compute the same result as `scipy.signal.sosfiltfilt`, to the last bit, with the ends mirrored over `extension`
    rows.
    """
    before = 2 * x[0] - x[extension:0:-1]
    after = 2 * x[-1] - x[-2 : -extension - 2 : -1]
    there = _start_pass(design, before)
    there.filter_rows(x, y)
    there.filter_rows(after, after)
    _start_pass(design, after[::-1]).filter_rows(y[::-1], y[::-1])


def _start_pass(design: tuple[Array, Array], first: Array) -> Cascade:
    """Start a pass in one direction: filter the leading rows in place, and return the filter with its state."""
    sections, settled = design
    cascade = Cascade(sections, settled[:, :, None] * first[0])
    cascade.filter_rows(first, first)
    return cascade


@lru_cache
def second_order_sections(cutoff_hz: float, rate_hz: float, order: int = 4) -> tuple[Array, Array]:
    """Return the second-order sections, and their steady states for an input of 1."""
    # Cached: the selection of settings filters the same short segments thousands of times. Designed here, with the
    # operations of SciPy, since the import of scipy.signal takes 0.4 s.
    poles, gain = _butterworth_poles(cutoff_hz, rate_hz, order)
    poles = poles[poles.imag >= 0]
    poles = poles[np.argsort(np.abs(poles))]  # the pole nearest to the unit circle last
    sections = np.zeros((len(poles), 6))
    sections[:, :4], sections[:, 4], sections[:, 5] = (1, 2, 1, 1), -2 * poles.real, poles.real**2 + poles.imag**2
    if order % 2:
        sections[0, 4:] = -poles[0].real, 0
        sections[max(np.flatnonzero(poles.real > -0.5), default=0), 1:3] = 1, 0
    sections[0, :3] *= gain
    settled, size = np.empty((len(poles), 2)), 1.0
    for state, (b0, b1, b2, _, a1, a2) in zip(settled, sections, strict=True):
        state[:] = size * np.linalg.solve([[1 + a1, -1], [a2, 1]], [b1 - a1 * b0, b2 - a2 * b0])
        size *= (b0 + b1 + b2) / (1 + a1 + a2)
    return sections, settled


def _butterworth_poles(cutoff_hz: float, rate_hz: float, order: int) -> tuple[NDArray[np.complex128], float]:
    """Return the poles and the gain of a Butterworth low pass after the bilinear transform; its zeros are -1."""
    warped = 4 * np.tan(np.pi * (2 * cutoff_hz / rate_hz) / 2)
    poles = warped * -np.exp(1j * np.pi * np.arange(1 - order, order, 2) / (2 * order))
    return (4 + poles) / (4 - poles), float(warped**order * (1 / np.prod(4 - poles)).real)


def edge_duration_s(*cutoffs_hz: float | None) -> float:
    """Return max(0.1 s, half a period of the lowest cut-off): the time in which filters are not reliable."""
    return max([MIN_EDGE_S, *(0.5 / cutoff for cutoff in cutoffs_hz if cutoff is not None)])


@lru_cache
def settling_rows(cutoff_hz: float | None, rate_hz: float, order: int = 4) -> int:
    """Return the number of rows after which the filter has settled to `SETTLED_FRACTION`, including the mirrored
    ends.
    """
    if cutoff_hz is None:
        return 0
    _require_below_nyquist(cutoff_hz, rate_hz)
    slowest = float(np.abs(_butterworth_poles(cutoff_hz, rate_hz, order)[0]).max())
    # Forward and backward passes convolve two decays: n r^n decays as fast as r^n except for the factor n.
    single = log(SETTLED_FRACTION) / log(slowest)
    return ceil(1.3 * single) + extension_rows(cutoff_hz, rate_hz)


def _require_below_nyquist(cutoff_hz: float, rate_hz: float) -> None:
    if not cutoff_hz < rate_hz / 2:
        message = f"a cut-off of {cutoff_hz:g} Hz must be below {rate_hz / 2:g} Hz, half the rate of the log"
        raise InputError(message, code=Code.OUT_OF_RANGE, subject="cutoff_hz")
