"""`Conditioning`: settings that turn a log into samples, and their application to uniform rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from math import ceil
from statistics import median
from typing import Any, Final, Literal, NamedTuple

import numpy as np

from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, InputError
from mindyn.foundation.schemas import (
    ANY_NUMBER,
    POSITIVE_NUMBER,
    allow_also,
    list_schema,
    require_valid,
    table_schema,
)
from mindyn.logs.differentiation import central_difference
from mindyn.logs.filters import lowpass, lowpass_positions, settling_rows
from mindyn.logs.interpolation import SHIFT_REACH_ROWS, delay_rows
from mindyn.logs.log import Log
from mindyn.logs.log_errors import LogError
from mindyn.logs.servos import apply_gains
from mindyn.logs.time_stamps import MIN_GAP_PERIODS

Origin = Literal["differentiated", "measured"]
Auto = Literal["auto"]


CONDITIONING_SCHEMA: Final = table_schema(
    {},
    {
        "rate_hz": allow_also(POSITIVE_NUMBER, "auto"),
        "stamps": {"enum": ["auto", "measured", "uniform"]},
        "longest_gap_rows": POSITIVE_NUMBER,
        "motion_hz": allow_also(POSITIVE_NUMBER, "auto", null=True),
        "velocity": {"enum": ["differentiated", "measured"]},
        "acceleration": {"enum": ["differentiated", "measured"]},
        "delay_s": allow_also(list_schema(ANY_NUMBER, "number"), "auto"),
        "edge_s": allow_also({"type": "number", "minimum": 0}, "auto"),
        "slow_speed": list_schema(ANY_NUMBER, "number", "null"),
        "gains": list_schema(ANY_NUMBER, "null"),
    },
)
"""JSON Schema of the settings; in files, "none" stands for null."""


@dataclass(frozen=True, slots=True)
class Conditioning:
    """Settings that turn a log into samples.

    `condition` replaces each "auto" by a value that it selects from the logs, and reports the selection.

    Parameters
    ----------
    rate_hz : float or "auto"
        Rate of the samples, in Hz; "auto" takes the rate of the log.
    stamps : {"auto", "measured", "uniform"}
        "measured" interpolates the rows to uniform times; "uniform" takes the rows as uniform.
    longest_gap_rows : float
        A longer step between stamps, in sampling periods, splits the log into segments.
    motion_hz : float, "auto" or None
        Cut-off of the zero-phase low pass on the motion, in Hz; None applies no filter.
    velocity : {"differentiated", "measured"}
        Differentiate the position by central differences, or take the logged velocity and filter it in the same way.
    acceleration : {"differentiated", "measured"}
        Differentiate the velocity, or take the logged acceleration and filter it in the same way.
    delay_s : float, tuple of n floats, or "auto"
        Delay of the torque relative to the motion, in s: one value, or one for each joint. The motion is shifted by the
        median of the delays, also by fractions of a row. A torque whose delay differs from the median is shifted by the
        difference.
    edge_s : float or "auto"
        Time that is cut at both ends of every segment after filtering, in s; "auto" is
        max(0.1 s, 0.5 / lowest cut-off).
    slow_speed : float, tuple of n floats, or None
        Rows in which a joint is slower than this (rad/s or m/s) are not used for this joint; None uses all rows.
    gains : tuple of n or 2 n floats, or None
        Gains of joints whose gains are unknown in the metadata of a log, in N m or N per unit of the signal; then kd of
        servos with a target velocity.

    Raises
    ------
    InputError
        If a setting has the wrong type or value.

    Examples
    --------
    >>> from mindyn import Conditioning
    >>> Conditioning(motion_hz=20.0, delay_s=0.002).is_resolved
    False
    """

    rate_hz: float | Auto = "auto"
    stamps: Literal["auto", "measured", "uniform"] = "auto"
    longest_gap_rows: float = MIN_GAP_PERIODS
    motion_hz: float | Auto | None = "auto"
    velocity: Origin = "differentiated"
    acceleration: Origin = "differentiated"
    delay_s: float | tuple[float, ...] | Auto = 0.0
    edge_s: float | Auto = "auto"
    slow_speed: float | tuple[float, ...] | None = None
    gains: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        require_valid(
            {key: getattr(self, key) for key in CONDITIONING_SCHEMA["properties"]}, CONDITIONING_SCHEMA, "conditioning"
        )

    @property
    def is_resolved(self) -> bool:
        """Whether no setting is "auto"."""
        return all(getattr(self, entry.name) != "auto" for entry in fields(self))

    @property
    def motion_delay_s(self) -> float:
        """Time by which the motion is shifted: the median of the torque's delays."""
        delay = self.delay_s
        return float(median(delay)) if isinstance(delay, tuple) else require_resolved(delay, "delay_s")

    @property
    def torque_shifts_s(self) -> tuple[float, ...]:
        """Differences of the delays of the joints from `motion_delay_s`; empty if all joints have one delay."""
        delays = self.delay_s if isinstance(self.delay_s, tuple) else ()
        return tuple(delay - self.motion_delay_s for delay in delays)

    def for_prediction(self) -> Conditioning:
        """Return the settings for the same motion at every row and the torque as logged.

        Rows are not cut, masked or decimated, and the torque is not filtered.
        """
        return replace(self, edge_s=0.0, slow_speed=None)

    def for_log(self, *, velocity: bool, acceleration: bool) -> Conditioning:
        """Return the settings for a log. A velocity or acceleration that the log does not hold is differentiated."""
        return replace(
            self,
            velocity=self.velocity if velocity else "differentiated",
            acceleration=self.acceleration if acceleration else "differentiated",
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as JSON and TOML can store them; "none" stands for None, which TOML lacks."""
        words = {name: list(v) if isinstance(v, tuple) else v for name, v in asdict(self).items()}
        return {name: "none" if value is None else value for name, value in words.items()}

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> Conditioning:
        """Create settings from the result of `to_dict`; missing entries have their defaults."""
        words: dict[str, Any] = {name: None if value == "none" else value for name, value in values.items()}
        words |= {name: tuple(value) for name, value in words.items() if isinstance(value, list)}
        require_valid(words, CONDITIONING_SCHEMA, "conditioning")
        return Conditioning(**words)


AS_LOGGED: Final = Conditioning(
    motion_hz=None, velocity="measured", acceleration="measured", edge_s=0.0, stamps="uniform"
)
"""Settings that keep the logged q, qd, qdd and tau unchanged, for exact or already conditioned logs."""


def require_resolved(value: float | Auto | None, name: str) -> float:
    """Return a setting as a number; raise `InputError` if it is not resolved yet."""
    if not isinstance(value, (int, float)):
        message = f"{name} is {value!r} instead of a number: resolve the settings with the training logs first"
        raise InputError(message, code=Code.WRONG_TYPE, subject=name)
    return float(value)


def motion_cutoff(c: Conditioning) -> float | None:
    """Return the cut-off of the motion; None for no filter."""
    return None if c.motion_hz is None else require_resolved(c.motion_hz, "motion_hz")


def edge_rows(c: Conditioning) -> int:
    """Return the number of rows that are removed at each end of a segment."""
    return ceil(require_resolved(c.edge_s, "edge_s") * require_resolved(c.rate_hz, "rate_hz") - 1e-9)


def min_segment_rows(c: Conditioning) -> int:
    """Return the smallest number of rows of a segment that still gives a sample after cutting and differentiation."""
    return max(2 * edge_rows(c) + 1, 2)


DIFFERENCE_ROWS: Final = 22
"""Rows around a row that two central differences use, with a margin."""


def reach_rows(c: Conditioning) -> int:
    """Return the number of rows on each side of a row that affect its sample, to `filters.SETTLED_FRACTION`.

    Blocks of a stream overlap by this number.
    """
    rate = require_resolved(c.rate_hz, "rate_hz")
    smooth = settling_rows(motion_cutoff(c), rate) + DIFFERENCE_ROWS
    delay = ceil(abs(c.motion_delay_s) * rate) + SHIFT_REACH_ROWS
    shift = max((ceil(abs(seconds) * rate) + SHIFT_REACH_ROWS for seconds in c.torque_shifts_s), default=0)
    return max(smooth + delay, shift) + edge_rows(c) + 2


class ConditionedMotion(NamedTuple):
    """Arrays (N, n) in SI units at the joints; motor_q is None if it was not logged."""

    q: Array
    qd: Array
    qdd: Array
    tau: Array
    motor_q: Array | None = None


def condition_motion(rows: Log, c: Conditioning) -> ConditionedMotion:
    """Filter and differentiate the motion, and delay it to match the torque."""
    rate = require_resolved(c.rate_hz, "rate_hz")
    rows = rows if c.gains is None else apply_gains(rows, c.gains)
    motion = _filter_motion(rows, c, rate)
    delay = c.motion_delay_s * rate
    q, qd, qdd = (delay_rows(array, delay) for array in motion) if delay else motion
    tau = delay_torques(rows.tau, c, -rate)
    if rows.motor_q is None:
        return ConditionedMotion(q, qd, qdd, tau)
    motor_q = lowpass_positions(rows.motor_q, motion_cutoff(c), rate)
    return ConditionedMotion(q, qd, qdd, tau, delay_rows(motor_q, delay) if delay else motor_q)


def delay_torques(tau: Array, c: Conditioning, rate: float) -> Array:
    """Return torques (N, n) of uniform rows, delayed by `torque_shifts_s`. A negative rate reverses the delays."""
    shifts = c.torque_shifts_s
    if shifts and len(shifts) != tau.shape[1]:
        message = f"delay_s must have one number for each of {tau.shape[1]} joints; got {len(shifts)}"
        raise InputError(message, code=Code.WRONG_SHAPE, subject="delay_s")
    if not any(shifts):
        return tau
    return np.hstack([delay_rows(tau[:, [joint]], shift * rate) for joint, shift in enumerate(shifts)])


def _filter_motion(rows: Log, c: Conditioning, rate: float) -> tuple[Array, Array, Array]:
    cutoff = motion_cutoff(c)
    q = lowpass_positions(rows.q, cutoff, rate)
    is_measured = c.velocity == "measured"
    qd = lowpass(_require_logged(rows.qd, "velocity"), cutoff, rate) if is_measured else central_difference(q, rate)
    if c.acceleration == "measured":
        return q, qd, lowpass(_require_logged(rows.qdd, "acceleration"), cutoff, rate)
    return q, qd, central_difference(qd, rate)


def _require_logged(values: Array | None, what: str) -> Array:
    if values is None:
        raise LogError(
            f'{what} = "measured" is set, but the log has no {what}',
            hint=f'set columns.{what} of the log, or {what} = "differentiated"',
            code=Code.MISSING_VALUE,
            subject=what,
        )
    return values
