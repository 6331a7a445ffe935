"""Times of samples."""

from __future__ import annotations

import numpy as np

from mindyn.algebra.values import Array


def sample_times(seconds: float, rate_hz: float) -> Array:
    """Return the times (N,) from 0 in steps of 1 / rate_hz to the end."""
    return np.arange(int(seconds * rate_hz + 1e-9) + 1) / rate_hz
