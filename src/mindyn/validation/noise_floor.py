"""The noise floor of a torque sensor: how much of what a model misses is flat noise, which no model can explain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mindyn.algebra.values import Array
from mindyn.validation.prediction import TorquePrediction
from mindyn.validation.residual_spectra import spectrum

MAX_FLOOR_RATIO: Final = 1.1
"""A residual up to this multiple of its floor is noise: a fifth of its power at most is anything else."""
UPPER_FREQUENCY_FRACTION: Final = 0.5
"""The floor is read in this upper part of the frequencies, where the motion has ended."""
MAX_MOTION_POWER_FRACTION: Final = 0.02
"""Part of a joint's speed, in power, that may lie in the upper frequencies; with more, motion reaches there too, and
what is flat may be the model's fault.
"""
MAX_KURTOSIS: Final = 5.0
"""Fourth moment in squares of the second; 3 for normal noise, 1.8 for rounding."""
MIN_FREQUENCIES: Final = 16


def noise_floor(made: TorquePrediction) -> Array:
    """(n,) rms, N m or N, of noise as strong at all frequencies as the residual is at the upper ones.

    The residual's power density S(f) has the median s over the upper half of the frequencies up to rate / 2; white
    noise of that density has the rms sqrt(s rate / 2). A sensor that filters has less noise up there, so that its
    floor comes out too low, never too high. NaN where the motion itself reaches the upper half, where the residual is
    spikes (at reversals, say, whose spectrum is flat as well), or the log is too short for a spectrum.
    """
    rate, segments = made.samples.rate_hz, made.samples.segments
    frequency, residual = spectrum(made.residual, segments, rate)
    upper = frequency > UPPER_FREQUENCY_FRACTION * rate / 2
    if upper.sum() < MIN_FREQUENCIES:
        return np.full(made.measured.shape[1], np.nan)
    _, speed = spectrum(made.samples.qd, segments, rate)
    if (speed[upper].sum(axis=0) > MAX_MOTION_POWER_FRACTION * speed.sum(axis=0)).any():
        return np.full(made.measured.shape[1], np.nan)
    floor = np.sqrt(np.median(residual[upper], axis=0) * rate / 2)
    return np.where(_is_even_in_time(made.residual[made.scored]), floor, np.nan)


def _is_even_in_time(left: Array) -> NDArray[np.bool_]:
    """(n,) whether residuals (k, n) are like noise in time: their fourth moment is not that of spikes."""
    centred = left - left.mean(axis=0)
    square = np.mean(centred**2, axis=0)
    return np.asarray(np.mean(centred**4, axis=0) <= MAX_KURTOSIS * square**2)


def pool_floors(predictions: Sequence[TorquePrediction]) -> Array:
    """(n,) rms over the scored rows of several logs; NaN where one of them has no floor."""
    rows = np.array([len(one.scored) for one in predictions], dtype=np.float64)
    squares = np.array([noise_floor(one) ** 2 for one in predictions])
    return np.asarray(np.sqrt(rows @ squares / rows.sum()))


def is_at_floor(rms: float, floor: float) -> bool:
    """Whether a residual is no more than its noise floor; no where that is not known."""
    return bool(rms <= MAX_FLOOR_RATIO * floor)
