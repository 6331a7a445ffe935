"""Values of a joint by linear least squares on moving rows, from which the output error starts.

load + M a = kp (u - q) - kd v - fc sgn(v) - Ia a
"""

from __future__ import annotations

from typing import Final

import numpy as np

from mindyn.foundation.algebra.values import Array
from mindyn.identification.servos.joint_tables import ServoRows
from mindyn.logs.servos import TYPICAL_RATIOS

MOVING_PART: Final = 0.1
"""Rows faster than this part of the 99 % quantile of the speed count as moving."""
TYPICAL_KP: Final = 10.0
"""Gain, N m/rad or N/m, of a joint whose logs say nothing about it."""


def fit_linear_start(rows: ServoRows, joint: int, weights: Array, kp: float | None) -> Array:
    """Return kp, kd, fc and Ia (4,) of a joint, all positive; `kp` is the gain if it is known.

    weights  (N,) of the rows; zero leaves a row out
    """
    v, a = rows.v[:, joint], rows.a[:, joint]
    error = rows.target[:, joint] - rows.q[:, joint]
    torque = rows.load[:, joint] + rows.inertia[:, joint] * a
    moving = (np.abs(v) > MOVING_PART * np.quantile(np.abs(v), 0.99)) & (weights > 0)
    columns = np.column_stack([error, -v, -np.sign(v), -a])[moving]
    known = torque[moving]
    if kp is not None:
        columns, known = columns[:, 1:], known - kp * columns[:, 0]
    if len(known) > columns.shape[1]:
        fitted = np.linalg.lstsq(columns, known, rcond=None)[0]
    else:
        fitted = np.zeros(columns.shape[1])
    values = np.concatenate([[TYPICAL_KP if kp is None else kp] if kp is not None else [], fitted])
    gain = float(values[0]) if values[0] > 0 else TYPICAL_KP
    typical = typical_values(gain)
    return np.clip(np.where(values > 0, values, typical), typical / 30, typical * 30)


def typical_values(kp: float) -> Array:
    """Return kp, kd, fc and Ia (4,) of a usual servo with this gain."""
    return kp * np.array([1.0, *TYPICAL_RATIOS])
