"""Compute position, velocity, acceleration and torque of uniform rows with the settings of `Conditioning`."""

from __future__ import annotations

from typing import NamedTuple

from mindyn.algebra.values import Array
from mindyn.errors import Code
from mindyn.logs.conditioning import Conditioning, motion_cutoff, require_resolved, torque_cutoff
from mindyn.logs.errors import LogError
from mindyn.logs.filters import (
    central_difference,
    delay_rows,
    fit_smoothing_spline,
    lowpass,
    lowpass_positions,
    savitzky_golay,
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
    delay = require_resolved(c.delay_s, "delay_s") * rate
    q, qd, qdd = (delay_rows(array, delay) for array in motion) if delay else motion
    return ConditionedMotion(q, qd, qdd, lowpass(rows.tau, torque_cutoff(c), rate, c.order))


def _filter_motion(rows: Log, c: Conditioning, rate: float) -> tuple[Array, Array, Array]:
    cutoff = motion_cutoff(c)
    if c.differentiation == "spline":
        q, qd, qdd = fit_smoothing_spline(rows.q, rate, cutoff)
    elif c.differentiation == "savitzky-golay":
        q, qd, qdd = savitzky_golay(lowpass_positions(rows.q, cutoff, rate, c.order), rate, c.window, c.degree)
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
