"""Power density of signals by Welch's method."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from mindyn.foundation.algebra.values import Array

HANN: Final = (0.5, -0.5)
"""Cosine terms of the Hann window."""


def power_density(
    segments: Iterable[Array], rate_hz: float, length: int, cosines: tuple[float, ...] = HANN, degree: int = 0
) -> tuple[Array, Array]:
    """Return frequencies (k,), Hz, and the one-sided power density (k, n) by Welch's method.

    segments (N, n) or (N,) signals, averaged with the weights N; segments that are shorter than a window are ignored
    length   rows of a window; each window overlaps the previous window by half
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
