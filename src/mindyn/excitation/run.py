"""`Run`: the motion for a controller: from home to the start, the motion, and back, at any fraction of its speed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.polynomial.polynomial import polyval
from numpy.typing import ArrayLike

from mindyn.algebra.values import Array, frozen_array
from mindyn.excitation.fourier import FOURIER, RAMPS, Fourier
from mindyn.excitation.motions import Family, Motion, TimedMotion
from mindyn.excitation.splines import BSpline
from mindyn.schemas import (
    ANY_NUMBER,
    ANY_TEXT,
    POSITIVE_INTEGER,
    POSITIVE_NUMBER,
    Schema,
    allow_also,
    list_schema,
    require_valid,
    table_schema,
)
from mindyn.simulation.inputs import require_number

CHECK_HZ: Final = 1000.0
"""Rate at which a motion is checked against every limit."""
LONGEST_S: Final = 1e6
"""Longest motion that is read from a file: eleven days."""


@dataclass(frozen=True, slots=True, eq=False)
class ApproachPath:
    """Path through `places` (k + 1, n), at rest in each: k legs of `seconds` (k,), straight lines in joint space."""

    places: Array
    seconds: Array

    @property
    def whole_s(self) -> float:
        """Return the duration of all legs."""
        return float(self.seconds.sum())

    def derivative(self, t: Array, order: int) -> Array:
        """Return derivatives (N, n) of order 0 to 3 at times from 0 to the end; at rest outside."""
        ends = np.cumsum(self.seconds)
        leg = np.minimum(np.searchsorted(ends, t, side="right"), len(ends) - 1)
        T = self.seconds[leg]
        u = np.clip((t - (ends[leg] - T)) / T, 0.0, 1.0)
        shape = polyval(u, RAMPS[order]) / T**order
        step = self.places[leg + 1] - self.places[leg]
        return np.asarray(shape[:, None] * step + (self.places[leg] if order == 0 else 0.0))

    def to_dict(self) -> dict[str, Any]:
        """Return the path in types that JSON can store."""
        return {"places": self.places.tolist(), "seconds": self.seconds.tolist()}


@dataclass(frozen=True, slots=True, eq=False)
class Run(TimedMotion):
    """A motion with its approach from home and the same path back; without an approach, only the motion.

    joints  names of the (primary) joints
    speed   fraction of the designed speed
    """

    joints: tuple[str, ...]
    motion: Motion
    approach: ApproachPath | None = None
    speed: float = 1.0

    def __post_init__(self) -> None:
        require_number(self.speed, "speed", "(0, 1]", "a fraction of the designed speed, such as 0.2")

    @property
    def seconds(self) -> float:
        """Return the duration from home to home."""
        ways = 0.0 if self.approach is None else 2 * self.approach.whole_s
        return (self.motion.seconds + ways) / self.speed

    def derivative(self, t: ArrayLike, order: int) -> Array:
        """Return positions (order 0), velocities or accelerations (N, n) at times t (N,)."""
        times = self.speed * np.atleast_1d(np.asarray(t, dtype=np.float64))
        lead = 0.0 if self.approach is None else self.approach.whole_s
        values = self.motion.derivative(times - lead, order)
        if self.approach is not None:
            coming, going = times < lead, times > lead + self.motion.seconds
            values[coming] = self.approach.derivative(times[coming], order)
            back = 2 * lead + self.motion.seconds - times[going]
            values[going] = (-1) ** order * self.approach.derivative(back, order)
        return np.asarray(values * self.speed**order)


_LISTS: Final = list_schema(list_schema(ANY_NUMBER))
_SECONDS: Final = {**POSITIVE_NUMBER, "maximum": LONGEST_S}
_FAMILIES: Final[Mapping[str, tuple[Callable[..., Family], Schema]]] = {
    "Fourier": (Fourier, FOURIER),
    "BSpline": (BSpline, table_schema({"points": POSITIVE_INTEGER})),
}
MOTION: Final[Schema] = {
    **table_schema(
        {
            "joints": list_schema(ANY_TEXT, minItems=1),
            "seconds": _SECONDS,
            "start": list_schema(ANY_NUMBER),
            "family": {"type": "object", "required": ["kind"], "properties": {"kind": {"enum": list(_FAMILIES)}}},
            "coefficients": _LISTS,
        },
        {
            "approach": allow_also(
                table_schema({"places": _LISTS, "seconds": list_schema(_SECONDS, minItems=1)}), null=True
            )
        },
    ),
    "additionalProperties": True,
}
"""The JSON Schema of motion.json: what a run is made of; its other entries are for people and other programs."""


def run_of(record: Mapping[str, Any], where: str) -> Run:
    """Return the run of the JSON of a motion; `where` names its source in errors."""
    hint = "`mindyn excite ROBOT --out DIR` writes DIR/motion.json"
    require_valid(record, MOTION, where, hint=hint)
    make, schema = _FAMILIES[record["family"]["kind"]]
    settings = {name: value for name, value in record["family"].items() if name not in ("kind", "degree")}
    require_valid(settings, schema, f"{where}: family", hint=hint)
    family = make(**settings)
    joints, way = tuple(record["joints"]), record.get("approach")
    start = frozen_array(record["start"], (len(joints),), "start")
    coefficients = frozen_array(record["coefficients"], (family.count, len(joints)), "coefficients")
    approach = None
    if way is not None:
        legs = len(way["seconds"])
        places = frozen_array(way["places"], (legs + 1, len(joints)), "approach.places")
        approach = ApproachPath(places, frozen_array(way["seconds"], (legs,), "approach.seconds"))
    return Run(joints, Motion(family, float(record["seconds"]), start, coefficients), approach)
