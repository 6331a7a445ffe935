"""The low pass beside SciPy's: all columns at once, in whatever way they lie in memory."""

from __future__ import annotations

from math import ceil

import numpy as np
import pytest
from closeness import SAME_ALGEBRA, assert_close
from scipy.signal import butter, sosfiltfilt

from mindyn.logs import filters
from mindyn.logs.filters import lowpass
from mindyn.numerics import threads

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


def test_any_layout_gives_the_same_bits():
    wide = np.random.default_rng(0).normal(size=(900, 50)).cumsum(axis=0)
    own = lowpass(np.ascontiguousarray(wide[:, 7:30]), 10.0, RATE_HZ)
    for same in (wide[:, 7:30], np.asfortranarray(wide[:, 7:30]), wide[::-1, ::-1][::-1, ::-1][:, 7:30]):
        assert np.array_equal(lowpass(same, 10.0, RATE_HZ), own)


def test_in_place_and_beside_it():
    x = np.random.default_rng(0).normal(size=(900, 20)).cumsum(axis=0)
    given = x.copy()
    smooth = lowpass(x, 10.0, RATE_HZ)
    assert np.array_equal(x, given)
    lowpass(x, 10.0, RATE_HZ, out=x)
    assert np.array_equal(x, smooth)


def test_columns_shared_out_among_threads_have_the_same_bits(monkeypatch):
    x = np.random.default_rng(1).normal(size=(700, 71)).cumsum(axis=0)
    whole = lowpass(x, 10.0, RATE_HZ)
    monkeypatch.setattr(filters, "MIN_THREADED_SIZE", 1)
    for cores in (1, 2, 5):
        monkeypatch.setattr(threads, "usable_cores", lambda cores=cores: cores)
        assert np.array_equal(lowpass(x, 10.0, RATE_HZ), whole)
