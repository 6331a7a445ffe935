"""Velocity and acceleration from uniform positions: central differences, Savitzky-Golay, smoothing spline."""

from __future__ import annotations

from math import ceil, log, pi, sqrt
from typing import Final, Literal

import numpy as np
from scipy.interpolate import make_interp_spline, make_smoothing_spline
from scipy.signal import savgol_filter

from mindyn.algebra.values import Array
from mindyn.logs.filters import SETTLED_FRACTION

DifferentiationMethod = Literal["central", "savitzky-golay", "spline"]
SPLINE_ORDER: Final = 2
"""A smoothing spline is a zero-phase Butterworth filter of this order (see `fit_smoothing_spline`)."""


def central_difference(x: Array, rate_hz: float) -> Array:
    """Return (x[k+1] - x[k-1]) rate / 2; at the ends, the slope of the parabola through the nearest three rows."""
    return np.asarray(np.gradient(x, 1.0 / rate_hz, axis=0, edge_order=2 if len(x) > 2 else 1))


def savitzky_golay(q: Array, rate_hz: float, window: int, degree: int) -> tuple[Array, Array, Array]:
    """Return q, qd, qdd of the polynomial of `degree` that best fits the `window` rows around each row."""
    step = 1.0 / rate_hz
    parts = (savgol_filter(q, window, degree, deriv=k, delta=step, axis=0, mode="interp") for k in (0, 1, 2))
    smooth, qd, qdd = (np.asarray(part) for part in parts)
    return smooth, qd, qdd


def fit_smoothing_spline(q: Array, rate_hz: float, cutoff_hz: float | None) -> tuple[Array, Array, Array]:
    """Return q, qd, qdd of the cubic spline that minimises sum (q - s)^2 + lambda integral s''^2.

    For uniform rows it acts as 1 / (1 + lambda w^4 / rate): a zero-phase Butterworth filter of order 2 with
    w_c^4 = rate / lambda [Silverman 1984]. Without a cut-off, the spline is the interpolating quintic. Knots are
    counted in rows to scale the equations well.
    """
    rows = np.arange(len(q), dtype=np.float64)
    if cutoff_hz is None:
        spline = make_interp_spline(rows, q, k=5, axis=0)
    else:
        spline = make_smoothing_spline(rows, q, lam=(2 * pi * cutoff_hz / rate_hz) ** -4, axis=0)
    return tuple(np.asarray(spline(rows, nu=k)) * rate_hz**k for k in (0, 1, 2))  # type: ignore[return-value]


def spline_settling_rows(cutoff_hz: float | None, rate_hz: float) -> int:
    """Return the settling rows of the spline: e^(-w_c n / (sqrt 2 rate)); 0.43^n for the interpolating quintic."""
    decay = log(1 / 0.43) if cutoff_hz is None else 2 * pi * cutoff_hz / rate_hz / sqrt(2)
    return ceil(-log(SETTLED_FRACTION) / decay) + 8
