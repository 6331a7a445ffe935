"""Power spectra of residuals and torques, and the noise floor: flat noise of a sensor that no model can explain."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mindyn.foundation.algebra.values import Array
from mindyn.identification.prediction.prediction import TorquePrediction
from mindyn.logs.power_spectrum import power_density
from mindyn.logs.samples import segment_ends

MAX_FLOOR_RATIO: Final = 1.1
"""If the ratio of residual to floor is at most this, the residual counts as noise: at most a fifth of its power has
another cause.
"""
UPPER_FREQUENCY_FRACTION: Final = 0.5
"""Upper fraction of the frequencies, beyond the motion, from which the floor is computed."""
MAX_MOTION_POWER_FRACTION: Final = 0.02
"""Largest fraction of the power of the speed in the upper frequencies; with more, motion contributes there and a flat
residual may be an error of the model."""
MAX_KURTOSIS: Final = 5.0
"""Fourth moment divided by the squared second; 3 for normal noise, 1.8 for rounding, larger for spikes."""
MIN_FREQUENCIES: Final = 16
MAX_WINDOW_ROWS: Final = 4096
MIN_WINDOW_ROWS: Final = 64
"""Largest and smallest number of rows of a window; if the longest segment is long enough, it contains at least four
windows.
"""


def spectrum(values: Array, segments: NDArray[np.int64], rate_hz: float) -> tuple[Array, Array]:
    """Return frequencies (k,), Hz, and one-sided power density (k, n) of values (N, n), per Hz, by Welch's method.

    Segments that are shorter than a window are skipped; both results are empty if all segments are.
    """
    parts = [values[start:stop] for start, stop in segment_ends(segments)]
    longest = max(map(len, parts))
    window = int(2 ** np.floor(np.log2(np.clip(longest / 4, MIN_WINDOW_ROWS, MAX_WINDOW_ROWS))))
    if longest < window:
        return np.zeros(0), np.zeros((0, values.shape[1]))
    return power_density(parts, rate_hz, window)


def noise_floor(prediction: TorquePrediction) -> Array:
    """Return the rms (n,), N m or N, of white noise with the same power density as the residual at high frequencies.

    Let s be the median of the residual's power density over the upper half of the frequencies up to rate / 2. White
    noise with this density has the rms sqrt(s rate / 2). A sensor that filters its signal has less noise at high
    frequencies, so that the floor may be too low, but never too high. The result is NaN if the motion reaches the upper
    half, if the residual consists of spikes (for example at reversals, whose spectrum is flat too), or if the log is
    too short for a spectrum.
    """
    rate, segments = prediction.samples.rate_hz, prediction.samples.segments
    frequency, residual = spectrum(prediction.residual, segments, rate)
    upper = frequency > UPPER_FREQUENCY_FRACTION * rate / 2
    if upper.sum() < MIN_FREQUENCIES:
        return np.full(prediction.measured.shape[1], np.nan)
    _, speed = spectrum(prediction.samples.qd, segments, rate)
    if (speed[upper].sum(axis=0) > MAX_MOTION_POWER_FRACTION * speed.sum(axis=0)).any():
        return np.full(prediction.measured.shape[1], np.nan)
    floor = np.sqrt(np.median(residual[upper], axis=0) * rate / 2)
    scored = prediction.residual[prediction.scored]
    centred = scored - scored.mean(axis=0)
    has_no_spikes = np.mean(centred**4, axis=0) <= MAX_KURTOSIS * np.mean(centred**2, axis=0) ** 2
    return np.where(has_no_spikes, floor, np.nan)


def pool_floors(predictions: Sequence[TorquePrediction]) -> Array:
    """Return the rms (n,) over the scored rows of several logs; NaN if one of them has no floor."""
    rows = np.array([len(prediction.scored) for prediction in predictions], dtype=np.float64)
    squares = np.array([noise_floor(prediction) ** 2 for prediction in predictions])
    return np.asarray(np.sqrt(rows @ squares / rows.sum()))


def is_at_floor(rms: float, floor: float) -> bool:
    """Return whether a residual does not exceed its noise floor; False if the floor is unknown."""
    return bool(rms <= MAX_FLOOR_RATIO * floor)


def flat_fraction(rms: float, floor: float) -> float:
    """Return the fraction of a residual's power that is equally distributed over all frequencies; 0 if the floor is
    unknown.
    """
    return 0.0 if isnan(floor) else min(1.0, (floor / rms) ** 2)
