"""The low pass beside SciPy's: all columns at once, in whatever way they lie in memory."""

from __future__ import annotations

from math import ceil

import numpy as np
import pytest
from closeness import SAME_ALGEBRA, assert_close
from scipy.signal import butter, sosfilt_zi, sosfiltfilt, welch

from mindyn.logs.differentiation import central_difference
from mindyn.logs.filters import MIN_EDGE_S, lowpass, lowpass_positions, second_order_sections
from mindyn.logs.noise_cutoff import BLACKMAN_HARRIS
from mindyn.logs.power_spectrum import power_density

RATE_HZ = 1000.0


def scipys(x, cutoff_hz, order):
    mirrored = min(len(x) - 1, ceil(RATE_HZ / cutoff_hz))
    return sosfiltfilt(butter(order, cutoff_hz, fs=RATE_HZ, output="sos"), x, axis=0, padlen=mirrored)


@pytest.mark.parametrize("order", [1, 4, 7])
@pytest.mark.parametrize("shape", [(2, 3), (40,), (900, 1), (900, 35), (4000, 163), (300, 2, 5)])
def test_filters_as_scipy_does(order, shape):
    x = np.random.default_rng(0).normal(size=shape).cumsum(axis=0)
    for cutoff_hz in (0.5, 10.0, 200.0):
        assert_close(lowpass(x, cutoff_hz, RATE_HZ, order), scipys(x, cutoff_hz, order), rtol=SAME_ALGEBRA)


@pytest.mark.parametrize("order", range(1, 9))
@pytest.mark.parametrize("rate_hz", [10.0, 125.0, 1000.0, 5000.0])
def test_sections_are_scipys(order, rate_hz):
    """To the last bit, over cut-offs from 0.05 Hz to 0.45 of the rate."""
    for cutoff_hz in np.geomspace(0.05, 0.45 * rate_hz, 50):
        sections, settled = second_order_sections(cutoff_hz, rate_hz, order)
        expected = butter(order, cutoff_hz, fs=rate_hz, output="sos")
        np.testing.assert_array_equal(sections, expected)
        np.testing.assert_array_equal(settled, sosfilt_zi(expected))


@pytest.mark.parametrize(("rows", "length"), [(1000, 256), (1001, 255), (300, 300)])
def test_power_densities_are_scipys(rows, length):
    x = np.random.default_rng(0).normal(size=(rows, 3)).cumsum(axis=0)
    given = {"fs": 200.0, "nperseg": length, "axis": 0}
    harris = welch(x, window="blackmanharris", detrend="linear", **given)
    for values, expected in zip(power_density([x, x[:9]], 200.0, length, BLACKMAN_HARRIS, 1), harris, strict=True):
        assert_close(values, expected, rtol=SAME_ALGEBRA)
    for values, expected in zip(power_density([x[:, 0]], 200.0, length), welch(x[:, 0], **given), strict=True):
        assert_close(values, expected, rtol=SAME_ALGEBRA)


def end_error(smooth, accelerations, rate_hz, periods_s):
    """Return the error of filtered accelerations between 0.1 s and half a period from both ends, relative to them."""
    rows = slice(round(MIN_EDGE_S * rate_hz), round(max(0.2, periods_s / 2) * rate_hz))
    left = central_difference(central_difference(smooth, rate_hz), rate_hz) - accelerations
    ends = np.concatenate([left[rows], left[::-1][rows]])
    return np.sqrt((ends**2).mean() / (accelerations**2).mean())


@pytest.mark.parametrize(
    ("rate_hz", "cutoff_hz", "fastest_hz", "noise"),
    [(200.0, 3.0, 0.9, 1e-4), (200.0, 5.0, 0.9, 1e-4), (100.0, 4.0, 1.2, 1e-3), (1000.0, 2.0, 0.5, 1e-4)],
)
def test_positions_have_no_transients_at_their_ends(rate_hz, cutoff_hz, fastest_hz, noise):
    """40 random motions each, cut off in mid-motion."""
    rng, t = np.random.default_rng(0), np.arange(round(6 * rate_hz)) / rate_hz
    w = 2 * np.pi * rng.uniform(0.1, fastest_hz, (5, 40))
    a, phase = rng.uniform(0.3, 1.0, w.shape) / 3, rng.uniform(0, 2 * np.pi, w.shape)
    angle = t[:, None, None] * w + phase
    q, qdd = (a * np.sin(angle)).sum(axis=1), -(a * w**2 * np.sin(angle)).sum(axis=1)
    measured = q + noise * rng.standard_normal(q.shape)
    mirrored = end_error(lowpass(measured, cutoff_hz, rate_hz), qdd, rate_hz, 1 / cutoff_hz)
    extended = end_error(lowpass_positions(measured, cutoff_hz, rate_hz), qdd, rate_hz, 1 / cutoff_hz)
    assert mirrored > 0.1
    assert extended < 0.025


@pytest.mark.parametrize("rows", [2, 7, 9, 60, 700])
def test_positions_keep_cubics_and_short_segments_stay_bounded(rows):
    t = np.arange(rows) / 100
    cubic = np.column_stack([1 + t - t**3, 0.2 * t**2, np.full(rows, 3.0)])
    assert_close(lowpass_positions(cubic, None, 100.0), cubic, SAME_ALGEBRA)
    noise = np.random.default_rng(rows).standard_normal((rows, 3))
    for cutoff_hz in (0.5, 3.0, 30.0):
        smooth = lowpass_positions(cubic, cutoff_hz, 100.0)
        assert np.abs(smooth - cubic).max() <= np.abs(lowpass(cubic, cutoff_hz, 100.0) - cubic).max() + 1e-12
        assert (
            np.abs(lowpass_positions(noise, cutoff_hz, 100.0)).max()
            <= 1.1 * np.abs(lowpass(noise, cutoff_hz, 100.0)).max()
        )
    assert np.array_equal(lowpass_positions(noise, 30.0, 100.0), lowpass(noise, 30.0, 100.0))


def test_any_layout_gives_the_same_bits():
    wide = np.random.default_rng(0).normal(size=(900, 50)).cumsum(axis=0)
    expected = lowpass(np.ascontiguousarray(wide[:, 7:30]), 10.0, RATE_HZ)
    for same in (wide[:, 7:30], np.asfortranarray(wide[:, 7:30]), wide[::-1, ::-1][::-1, ::-1][:, 7:30]):
        assert np.array_equal(lowpass(same, 10.0, RATE_HZ), expected)


def test_in_place_and_beside_it():
    x = np.random.default_rng(0).normal(size=(900, 20)).cumsum(axis=0)
    given = x.copy()
    smooth = lowpass(x, 10.0, RATE_HZ)
    assert np.array_equal(x, given)
    lowpass(x, 10.0, RATE_HZ, out=x)
    assert np.array_equal(x, smooth)
