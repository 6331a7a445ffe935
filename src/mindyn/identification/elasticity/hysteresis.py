"""Dahl's hysteresis as a function of the torque through a joint."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mindyn.foundation.algebra.values import Array


def dahl_states(torque: Array, width: float, starts: Sequence[int]) -> Array:
    """Return the state z (N,) between -1 and 1 of Dahl's element: dz = (1 - sgn(dtau) z) dtau / width.

    torque  (N,) N m
    width   torque over which the state follows a reversal
    starts  rows at which the recording starts, with z = 0
    """
    z = np.zeros(len(torque))
    for start, stop in zip(starts, [*starts[1:], len(torque)], strict=True):
        steps = np.diff(torque[start:stop])
        signs = np.sign(steps)
        turns = np.flatnonzero(np.diff(signs)) + 1
        state, first = 0.0, start
        for end in [*(start + turns), stop - 1]:
            if end <= first:
                continue
            sign = signs[first - start]
            gone = np.abs(torque[first + 1 : end + 1] - torque[first])
            z[first + 1 : end + 1] = sign + (state - sign) * np.exp(-gone / width) if sign else state
            state, first = z[end], end
    return z
