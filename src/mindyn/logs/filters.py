"""Zero-phase low pass: a Butterworth filter forward and backward, H(f) = 1 / (1 + (tan pi f/fs / tan pi fc/fs)^2p).

Velocity and acceleration from uniform positions: central differences, interpolating spline.

Interpolate between rows with polynomials through the nearest rows; a block needs only a few rows around it.

Angular velocity and accelerations of a frame from its logged poses: quaternions are differentiated, not angles, so that
no attitude is singular. With unit quaternions s, w = 2 vec(s* sd) and wd = 2 vec(s* sdd), in the axes of the frame.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from math import ceil, log, prod
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mindyn.foundation.algebra.rotations import quaternion_from_rotation
from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, InputError
from mindyn.kernels.numerics.filter_sections import Cascade
from mindyn.robots.floating_base import rotations_from_quaternions

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
    """Compute `scipy.signal.sosfiltfilt`, to the last bit, with the ends mirrored over `extension` rows."""
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
    """Return the rows after which the filter has settled to `SETTLED_FRACTION`, including the mirrored ends."""
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


HANN: Final = (0.5, -0.5)
"""Cosine terms of the Hann window."""


def power_density(
    segments: Iterable[Array], rate_hz: float, length: int, cosines: tuple[float, ...] = HANN, degree: int = 0
) -> tuple[Array, Array]:
    """Return frequencies (k,), Hz, and the one-sided power density (k, n) by Welch's method.

    segments (N, n) or (N,): averaged with the weights N; those shorter than a window do not count
    length   rows of a window; each overlaps half of the one before
    cosines  terms of the window: sum_k cosines[k] cos(2 pi k i / length)
    degree   degree of the polynomial that is subtracted from each window
    """
    powers = np.vander(np.linspace(-1, 1, length), degree + 1)
    window = np.cos(2 * np.pi / length * np.outer(np.arange(length), np.arange(len(cosines)))) @ cosines
    kept = [x for x in segments if len(x) >= length]
    densities = []
    for x in kept:
        starts = np.arange(0, len(x) - length + 1, length - length // 2)
        parts = x[starts + np.arange(length)[:, None]].reshape(length, -1)
        parts = parts - powers @ np.linalg.lstsq(powers, parts, rcond=None)[0]
        density = np.abs(np.fft.rfft(window[:, None] * parts, axis=0)) ** 2 / (rate_hz * (window @ window))
        density[1 : (length + 1) // 2] *= 2
        densities.append(density.reshape(-1, len(starts), *x.shape[1:]).mean(axis=1))
    mean = np.average(densities, axis=0, weights=[len(x) for x in kept])
    return np.asarray(np.fft.rfftfreq(length, 1 / rate_hz)), np.asarray(mean)


def central_difference(x: Array, rate_hz: float) -> Array:
    """Return (x[k+1] - x[k-1]) rate / 2; at the ends, the slope of the parabola through the nearest three rows."""
    return np.asarray(np.gradient(x, 1.0 / rate_hz, axis=0, edge_order=2 if len(x) > 2 else 1))


def fit_spline(q: Array, rate_hz: float) -> tuple[Array, Array, Array]:
    """Return q, qd, qdd of the interpolating quintic spline; knots are counted in rows to scale the equations well."""
    from scipy.interpolate import make_interp_spline

    rows = np.arange(len(q), dtype=np.float64)
    spline = make_interp_spline(rows, q, k=5, axis=0)
    return tuple(np.asarray(spline(rows, nu=k)) * rate_hz**k for k in (0, 1, 2))  # type: ignore[return-value]


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


def differentiate_quaternions(s: Array, rate_hz: float, cutoff_hz: float | None) -> tuple[Array, Array, Array]:
    """Return filtered unit quaternions (N, 4) in the order (x, y, z, w), w (N, 3) and wd (N, 3) in the frame's axes."""
    continuous = with_continuous_sign(s)
    smooth = lowpass(continuous / np.linalg.norm(s, axis=1, keepdims=True), cutoff_hz, rate_hz)
    smooth = smooth / np.linalg.norm(smooth, axis=1, keepdims=True)
    _, rate, second = fit_spline(smooth, rate_hz)
    return smooth, 2 * _product(smooth, rate), 2 * _product(smooth, second)


def with_continuous_sign(s: Array) -> Array:
    """Return poses (N, .) that end with quaternions, without jumps between s and -s, which are the same attitude."""
    turns = np.where((s[1:, -4:] * s[:-1, -4:]).sum(axis=1) < 0, -1.0, 1.0)
    signs = np.concatenate([np.ones(min(len(s), 1)), np.cumprod(turns)])[:, None]
    return np.hstack([s[:, :-4], s[:, -4:] * signs])


def differentiate_poses(
    R: Array, position: Array | None, rate_hz: float, cutoff_hz: float | None
) -> tuple[Array, Array, Array, Array]:
    """Return filtered rotations (N, 3, 3), and w, wd and the acceleration of the origin (N, 3) in the frame's axes.

    Without positions, the acceleration is zero.
    """
    s = np.array([np.roll(quaternion_from_rotation(rotation), -1) for rotation in R])
    smooth, w, wd = differentiate_quaternions(s, rate_hz, cutoff_hz)
    R = rotations_from_quaternions(smooth)
    if position is None:
        return R, w, wd, np.zeros_like(w)
    acceleration = fit_spline(lowpass(position, cutoff_hz, rate_hz), rate_hz)[2]
    return R, w, wd, np.einsum("nji,nj->ni", R, acceleration)


def _product(s: Array, t: Array) -> Array:
    """Return the vector part (N, 3) of the product s* t of quaternions (N, 4)."""
    return np.asarray(s[:, 3:] * t[:, :3] - t[:, 3:] * s[:, :3] - np.cross(s[:, :3], t[:, :3]))
