"""Compute position, velocity, acceleration and torque of uniform rows with the settings of `Conditioning`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mindyn.algebra.values import Array
from mindyn.errors import Code, InputError
from mindyn.logs.conditioning import Conditioning, motion_cutoff, require_resolved, torque_cutoff
from mindyn.logs.errors import LogError
from mindyn.logs.filters import (
    central_difference,
    delay_rows,
    fit_smoothing_spline,
    lowpass,
    lowpass_positions,
)
from mindyn.logs.log import Log
from mindyn.logs.servos import apply_gains


class ConditionedMotion(NamedTuple):
    """Arrays (N, n) in SI units at the joints."""

    q: Array
    qd: Array
    qdd: Array
    tau: Array


def condition_motion(rows: Log, c: Conditioning) -> ConditionedMotion:
    """Filter and differentiate the motion, delay it to match the torque, and filter the torque."""
    rate = require_resolved(c.rate_hz, "rate_hz")
    rows = rows if c.gains is None else apply_gains(rows, c.gains)
    motion = _filter_motion(rows, c, rate)
    delay = c.motion_delay_s * rate
    q, qd, qdd = (delay_rows(array, delay) for array in motion) if delay else motion
    tau = delay_torques(lowpass(rows.tau, torque_cutoff(c), rate, c.order), c, -rate)
    return ConditionedMotion(q, qd, qdd, tau)


def delay_torques(tau: Array, c: Conditioning, rate: float) -> Array:
    """Return torques (N, n) of uniform rows, each delayed by `torque_shifts_s`; a negative rate undoes it."""
    shifts = c.torque_shifts_s
    if shifts and len(shifts) != tau.shape[1]:
        message = f"delay_s must have one number for each of {tau.shape[1]} joints; got {len(shifts)}"
        raise InputError(message, code=Code.WRONG_SHAPE, subject="delay_s")
    if not any(shifts):
        return tau
    return np.hstack([delay_rows(tau[:, [joint]], shift * rate) for joint, shift in enumerate(shifts)])


def _filter_motion(rows: Log, c: Conditioning, rate: float) -> tuple[Array, Array, Array]:
    cutoff = motion_cutoff(c)
    if c.differentiation == "spline":
        q, qd, qdd = fit_smoothing_spline(rows.q, rate, cutoff)
    else:
        q = lowpass_positions(rows.q, cutoff, rate, c.order)
        qd = central_difference(q, rate)
        qdd = central_difference(qd, rate)
    if c.velocity == "measured":
        qd = lowpass(_require_logged(rows.qd, "velocity"), cutoff, rate, c.order)
        qdd = central_difference(qd, rate)
    if c.acceleration == "measured":
        qdd = lowpass(_require_logged(rows.qdd, "acceleration"), cutoff, rate, c.order)
    return q, qd, qdd


def _require_logged(values: Array | None, what: str) -> Array:
    if values is None:
        raise LogError(
            f'{what} = "measured" is set, but the log has no {what}',
            hint=f'set columns.{what} of the log, or {what} = "differentiated"',
            code=Code.MISSING_VALUE,
            subject=what,
        )
    return values
