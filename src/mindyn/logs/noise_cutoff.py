"""Select a cut-off from the data: the frequency at which the spectrum of the motion falls to the noise floor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from mindyn.foundation.algebra.values import Array
from mindyn.logs.filters import LOWEST_HZ
from mindyn.logs.log import Log
from mindyn.logs.power_spectrum import power_density

CutoffRule = Callable[[Sequence[Log], float], float | None]
"""Function of the uniform segments of the training logs and their rate (Hz). The function returns a cut-off in Hz; None
means no filter.
"""

FLOOR_BAND: Final = (0.5, 0.9)
"""Band, relative to the Nyquist frequency, that contains only noise."""
MIN_SIGNAL_TO_FLOOR: Final = 4.0
"""The motion ends where its power density falls below this multiple of the noise floor."""
MAX_CUTOFF_FRACTION: Final = 0.4
"""If the cut-off is above this fraction of the rate, a filter has no significant effect, so that no filter is applied.
"""
MAX_WELCH_ROWS: Final = 4096
BLACKMAN_HARRIS: Final = (0.35875, -0.48829, 0.14128, -0.01168)
"""Cosine terms of the Blackman-Harris window: a strong low frequency does not leak into the noise floor."""


def noise_floor_cutoff(segments: Sequence[Log], rate_hz: float) -> float | None:
    """Return the highest frequency (Hz) at which the position of at least one joint is above its noise floor.

    The result is at least `LOWEST_HZ`: positions at constant speed have no spectrum, and a slower filter would leave no
    rows.
    """
    joints = range(len(segments[0].joint_names))
    highest = max(LOWEST_HZ, *(_joint_cutoff([segment.q[:, j] for segment in segments], rate_hz) for j in joints))
    return None if highest >= MAX_CUTOFF_FRACTION * rate_hz else highest


def _joint_cutoff(parts: Sequence[Array], rate_hz: float) -> float:
    frequency, density = _power_density(parts, rate_hz)
    inside = (frequency >= FLOOR_BAND[0] * rate_hz / 2) & (frequency <= FLOOR_BAND[1] * rate_hz / 2)
    if not inside.any():  # a log of a few rows
        return float(frequency[-1])
    floor = float(np.median(density[inside]))
    sunk = np.flatnonzero(density[1:] <= MIN_SIGNAL_TO_FLOOR * floor) + 1
    return float(frequency[sunk[0]]) if len(sunk) else float(frequency[-1])


def _power_density(parts: Sequence[Array], rate_hz: float) -> tuple[Array, Array]:
    """Return the power density of the parts that are long enough."""
    return power_density(parts, rate_hz, min(MAX_WELCH_ROWS, max(map(len, parts))), BLACKMAN_HARRIS, 1)
