"""One step of Dormand and Prince's 8(5,3) method, with its error estimate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mindyn.algebra.values import Array
from mindyn.simulation.dormand_prince_table import ERROR_WEIGHTS, STAGE_WEIGHTS, STAGES, STEP_WEIGHTS

Slope = Callable[[Array], Array]

_SAFETY, _LEAST, _MOST = 0.9, 0.2, 6.0
_ORDER = 8
_ROWS = [STAGE_WEIGHTS[i, :i].copy() for i in range(STAGES)]


@dataclass(frozen=True, slots=True)
class Tolerance:
    """The local error of a step stays below absolute + relative * |y|, in the root mean square."""

    relative: float = 1e-12
    absolute: float = 1e-12


def step(slope: Slope, y: Array, first: Array, h: float) -> tuple[Array, Array]:
    """y after time h, and the slopes (12, size) of the stages; `first` is the slope at y."""
    slopes = np.empty((STAGES, len(y)))
    slopes[0] = first
    for i in range(1, STAGES):
        slopes[i] = slope(y + (h * _ROWS[i]) @ slopes[:i])
    return y + (h * STEP_WEIGHTS) @ slopes, slopes


def error_ratio(y: Array, y_next: Array, slopes: Array, h: float, tolerance: Tolerance) -> float:
    """Estimated error of a step in units of what is tolerated [Hairer, Norsett, Wanner 1993, II.10]."""
    scale = tolerance.absolute + tolerance.relative * np.maximum(np.abs(y), np.abs(y_next))
    fifth, third = ERROR_WEIGHTS @ slopes / scale
    large, small = float(fifth @ fifth), float(third @ third)
    if large == 0.0:
        return 0.0
    return abs(h) * large / float(np.sqrt((large + 0.01 * small) * len(y)))


def next_size(h: float, ratio: float) -> float:
    """Size of the step that would just meet the tolerance, with some safety."""
    growth = _MOST if ratio == 0.0 else _SAFETY * ratio ** (-1 / _ORDER)
    return h * min(_MOST, max(_LEAST, growth))
