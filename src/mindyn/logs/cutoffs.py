"""A cut-off told from the data: where the motion's spectrum sinks into the noise floor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from scipy.signal import welch

from mindyn.algebra.values import Array
from mindyn.logs.log import Log

CutoffRule = Callable[[Sequence[Log], float], float | None]
"""From the uniform stretches of the training logs and their rate to a cut-off in Hz; None: no filter."""

FLOOR_BAND: Final = (0.5, 0.9)
"""Part of the band below the Nyquist frequency that holds noise alone."""
MIN_SIGNAL_TO_FLOOR: Final = 4.0
"""The motion ends where its power density last exceeds this multiple of the floor."""
MAX_CUTOFF_FRACTION: Final = 0.4
"""A cut-off above this part of the rate filters nothing that matters: no filter."""
MAX_WELCH_ROWS: Final = 4096


def noise_floor_cutoff(stretches: Sequence[Log], rate_hz: float) -> float | None:
    """The highest frequency up to which, without a break, some joint's position stands above its noise floor."""
    joints = range(len(stretches[0].joint_names))
    found = [_joint_cutoff([part.q[:, j] for part in stretches], rate_hz) for j in joints]
    highest = max(found)
    return None if highest >= MAX_CUTOFF_FRACTION * rate_hz else highest


def _joint_cutoff(parts: Sequence[Array], rate_hz: float) -> float:
    frequency, density = _power_density(parts, rate_hz)
    inside = (frequency >= FLOOR_BAND[0] * rate_hz / 2) & (frequency <= FLOOR_BAND[1] * rate_hz / 2)
    floor = float(np.median(density[inside]))
    sunk = np.flatnonzero(density[1:] <= MIN_SIGNAL_TO_FLOOR * floor) + 1
    return float(frequency[sunk[0]]) if len(sunk) else float(frequency[-1])


def _power_density(parts: Sequence[Array], rate_hz: float) -> tuple[Array, Array]:
    """Power density averaged over the segments that are long enough, weighted by their lengths."""
    length = min(MAX_WELCH_ROWS, max(len(part) for part in parts))
    weights, densities = [], []
    for part in parts:
        if len(part) >= length:
            frequency, density = welch(part, rate_hz, window="blackmanharris", nperseg=length, detrend="linear")
            weights.append(len(part))
            densities.append(density)
    return frequency, np.average(densities, axis=0, weights=weights)
