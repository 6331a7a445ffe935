"""Differentiate uniform positions: by central differences, or by an interpolating spline."""

from __future__ import annotations

import numpy as np

from mindyn.foundation.algebra.values import Array


def central_difference(x: Array, rate_hz: float) -> Array:
    """Return (x[k+1] - x[k-1]) rate / 2.

    At the ends, return the slope of the parabola through the nearest three rows.
    """
    return np.asarray(np.gradient(x, 1.0 / rate_hz, axis=0, edge_order=2 if len(x) > 2 else 1))


def fit_spline(q: Array, rate_hz: float) -> tuple[Array, Array, Array]:
    """Return q, qd and qdd of the quintic spline through uniform positions.

    Knots are counted in rows, to scale the equations well.
    """
    from scipy.interpolate import make_interp_spline

    rows = np.arange(len(q), dtype=np.float64)
    spline = make_interp_spline(rows, q, k=5, axis=0)
    return tuple(np.asarray(spline(rows, nu=k)) * rate_hz**k for k in (0, 1, 2))  # type: ignore[return-value]
