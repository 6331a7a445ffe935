"""`Conditioning`: how a log becomes samples; one frozen value that can be saved and repeated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from math import ceil
from typing import Any, Final, Literal

from mindyn.errors import InputError
from mindyn.logs.derivatives import DifferentiationMethod, spline_settling_rows
from mindyn.logs.filters import settling_rows
from mindyn.logs.interpolation import SHIFT_REACH_ROWS
from mindyn.schemas import (
    ANY_NUMBER,
    POSITIVE_INTEGER,
    POSITIVE_NUMBER,
    allow_also,
    list_schema,
    require_valid,
    table_schema,
)

Origin = Literal["differentiated", "measured"]
Auto = Literal["auto"]


CONDITIONING_SCHEMA: Final = table_schema(
    {},
    {
        "rate_hz": allow_also(POSITIVE_NUMBER, "auto"),
        "stamps": {"enum": ["auto", "measured", "uniform"]},
        "longest_gap_rows": POSITIVE_NUMBER,
        "position_cutoff_hz": allow_also(POSITIVE_NUMBER, "auto", null=True),
        "torque_cutoff_hz": allow_also(POSITIVE_NUMBER, null=True),
        "order": {**POSITIVE_INTEGER, "maximum": 20},
        "differentiation": {"enum": ["central", "savitzky-golay", "spline"]},
        "window": {**POSITIVE_INTEGER, "maximum": 10_001},
        "degree": {"type": "integer", "minimum": 2},
        "velocity": {"enum": ["differentiated", "measured"]},
        "acceleration": {"enum": ["differentiated", "measured"]},
        "delay_s": allow_also(ANY_NUMBER, "auto"),
        "edge_s": allow_also({"type": "number", "minimum": 0}, "auto"),
        "decimation": POSITIVE_INTEGER,
        "rest_s": {"type": ["number", "null"], "minimum": 0},
        "rest_speed": POSITIVE_NUMBER,
        "slow_speed": list_schema(ANY_NUMBER, "number", "null"),
    },
)
"""The JSON Schema of the settings; in files "none" stands for null."""


@dataclass(frozen=True, slots=True)
class Conditioning:
    """From a log to samples; "auto" is replaced by a number chosen from the training log (see `resolve`).

    rate_hz             rate of the samples before decimation; "auto": the log's own
    stamps              "measured": rows are interpolated to uniform times; "uniform": rows are uniform already
    longest_gap_rows    a longer step between stamps, in periods, splits the log into segments
    position_cutoff_hz  zero-phase low pass on the logged motion; None: no filter
    torque_cutoff_hz    the same on the torque; None: as logged
    order               of the Butterworth filter, which then acts twice
    differentiation     "central", "savitzky-golay" or "spline" (which smooths at the position cut-off itself)
    window, degree      rows and polynomial degree of Savitzky-Golay
    velocity            "differentiated" from the position, or "measured" (logged, then filtered alike)
    acceleration        "differentiated" from the velocity, or "measured"
    delay_s             torque is logged this much later than motion; the motion is moved to it, fractions of rows too
    edge_s              cut at both ends of every segment after filtering; "auto": max(0.1 s, 0.5 / lowest cut-off)
    decimation          every how many rows one is kept; motion and torque then share the lower cut-off
    rest_s, rest_speed  stretches where every joint is slower than rest_speed for longer than rest_s are left out
    slow_speed          rows where a joint is not faster than this are not usable for that joint; None: all are
    """

    rate_hz: float | Auto = "auto"
    stamps: Literal["auto", "measured", "uniform"] = "auto"
    longest_gap_rows: float = 2.5
    position_cutoff_hz: float | Auto | None = "auto"
    torque_cutoff_hz: float | None = None
    order: int = 4
    differentiation: DifferentiationMethod = "central"
    window: int = 11
    degree: int = 4
    velocity: Origin = "differentiated"
    acceleration: Origin = "differentiated"
    delay_s: float | Auto = 0.0
    edge_s: float | Auto = "auto"
    decimation: int = 1
    rest_s: float | None = None
    rest_speed: float = 0.01
    slow_speed: float | tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        require_valid(
            {one: getattr(self, one) for one in CONDITIONING_SCHEMA["properties"]}, CONDITIONING_SCHEMA, "conditioning"
        )
        if self.window % 2 == 0 or not 2 <= self.degree < self.window:
            raise InputError(f"Savitzky-Golay needs an odd window above the degree >= 2: {self.window}, {self.degree}")

    @property
    def is_resolved(self) -> bool:
        """Whether every setting is a number or a choice."""
        return all(getattr(self, entry.name) != "auto" for entry in fields(self))

    def with_delay(self, seconds: float) -> Conditioning:
        """The same with torque taken as logged `seconds` later than motion."""
        return replace(self, delay_s=seconds)

    def for_prediction(self) -> Conditioning:
        """The same motion at every row, the torque as logged: nothing cut, masked, decimated, no torque filter."""
        return replace(self, torque_cutoff_hz=None, edge_s=0.0, decimation=1, rest_s=None, slow_speed=None)

    def for_log(self, *, velocity: bool, acceleration: bool) -> Conditioning:
        """The same for a log that holds no velocity or no acceleration, which are then differentiated."""
        return replace(
            self,
            velocity=self.velocity if velocity else "differentiated",
            acceleration=self.acceleration if acceleration else "differentiated",
        )

    def to_dict(self) -> dict[str, Any]:
        """The settings as JSON and TOML can hold them; "none" stands for None, which TOML lacks."""
        words = {name: list(v) if isinstance(v, tuple) else v for name, v in asdict(self).items()}
        return {name: "none" if value is None else value for name, value in words.items()}

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> Conditioning:
        """The inverse of `to_dict`; what is left out has its default."""
        words: dict[str, Any] = {name: None if value == "none" else value for name, value in values.items()}
        if isinstance(words.get("slow_speed"), list):
            words["slow_speed"] = tuple(words["slow_speed"])
        require_valid(words, CONDITIONING_SCHEMA, "conditioning")
        return Conditioning(**words)


AS_LOGGED: Final = Conditioning(
    position_cutoff_hz=None, velocity="measured", acceleration="measured", edge_s=0.0, stamps="uniform"
)
"""Logged q, qd, qdd and tau as they are, for exact or already conditioned logs."""


def require_resolved(value: float | Auto | None, name: str) -> float:
    """A resolved setting."""
    if not isinstance(value, (int, float)):
        raise InputError(f"{name} is {value!r}, not yet a number: resolve the conditioning on a training log")
    return float(value)


def motion_cutoff(c: Conditioning) -> float | None:
    """The cut-off on the motion, lowered to 0.8 of the Nyquist frequency that decimation leaves."""
    stated = None if c.position_cutoff_hz is None else require_resolved(c.position_cutoff_hz, "position_cutoff_hz")
    if c.decimation == 1:
        return stated
    highest = 0.4 * require_resolved(c.rate_hz, "rate_hz") / c.decimation
    return highest if stated is None else min(stated, highest)


def torque_cutoff(c: Conditioning) -> float | None:
    """The cut-off on the torque: its own; when rows are decimated, that of the motion if it is lower."""
    if c.decimation == 1:
        return c.torque_cutoff_hz
    cutoffs = [cutoff for cutoff in (c.torque_cutoff_hz, motion_cutoff(c)) if cutoff is not None]
    return min(cutoffs)


def edge_rows(c: Conditioning) -> int:
    """Rows cut at both ends of a segment."""
    return ceil(require_resolved(c.edge_s, "edge_s") * require_resolved(c.rate_hz, "rate_hz") - 1e-9)


def min_segment_rows(c: Conditioning) -> int:
    """Rows of a stretch below which no sample comes of it: cut away at both ends, or too few to differentiate."""
    to_differentiate = {"spline": 6, "savitzky-golay": c.window}.get(c.differentiation, 2)
    return max(2 * edge_rows(c) + 1, to_differentiate)


def rest_rows(c: Conditioning) -> int:
    """Rows that every joint must rest before they are left out; 0: rest is kept."""
    return 0 if c.rest_s is None else max(1, ceil(c.rest_s * require_resolved(c.rate_hz, "rate_hz")))


def reach_rows(c: Conditioning) -> int:
    """Rows around a row that its sample depends on, to `filters.SETTLED_FRACTION`: what streaming blocks overlap by."""
    rate = require_resolved(c.rate_hz, "rate_hz")
    if c.differentiation == "spline":
        smooth = spline_settling_rows(motion_cutoff(c), rate)
    else:
        smooth = settling_rows(motion_cutoff(c), rate, c.order) + 2 * c.window
    delay = ceil(abs(require_resolved(c.delay_s, "delay_s")) * rate) + SHIFT_REACH_ROWS
    return max(smooth + delay, settling_rows(torque_cutoff(c), rate, c.order)) + max(rest_rows(c), edge_rows(c)) + 2
