"""Motions as functions of time: a `Fourier` series between ramps, and the run of a controller with its approach.

`Motion`: joint positions as start + basis(t) @ coefficients. `Instants`: the basis at fixed times, at which motions are
linear maps of the unknowns. `Run`: the path from home to the start, the motion, and the path back, at any fraction of
the designed speed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import comb
from typing import Any, Final

import numpy as np
from numpy.polynomial.polynomial import polyval
from numpy.typing import ArrayLike, NDArray

from mindyn.foundation.algebra.requirements import require_number
from mindyn.foundation.algebra.values import Array, frozen_array
from mindyn.foundation.errors import Code, InputError, UnsafeMotionError
from mindyn.foundation.schemas import (
    ANY_NUMBER,
    ANY_TEXT,
    POSITIVE_INTEGER,
    POSITIVE_NUMBER,
    Schema,
    allow_also,
    list_schema,
    require_valid,
    require_valid_file,
    table_schema,
)

CHECK_HZ: Final = 1000.0
"""Rate at which a motion is checked against every limit."""
LONGEST_S: Final = 1e6
"""Longest motion that is read from a file: eleven days."""
MAX_START_ERROR: Final = 0.05
"""rad or m: a player or script begins to move only if each joint is within this distance of the first position."""
RAMP: Final = np.polynomial.Polynomial([0, 0, 0, 0, 35, -84, 70, -20])
"""Polynomial from 0 at 0 to 1 at 1, with three zero derivatives at both ends."""
RAMPS: Final = tuple(RAMP.deriv(order).coef for order in range(len(RAMP.coef)))
"""Coefficients of the ramp and its derivatives, lowest power first."""


FOURIER: Final = table_schema(
    {},
    {
        "harmonics": POSITIVE_INTEGER,
        "periods": POSITIVE_INTEGER,
        "ramp_s": {**POSITIVE_NUMBER, "maximum": LONGEST_S},
    },
)
"""The JSON Schema of the settings."""


@dataclass(frozen=True, slots=True)
class Fourier:
    """Fourier series that starts and ends at rest [Swevers et al. 1997].

    The functions are sin(k w s) and cos(k w s), k = 1 ... harmonics; s is the time since the end of the first ramp.

    Parameters
    ----------
    harmonics : int, default 5
        Number of harmonics.
    periods : int, default 1
        Number of whole periods of 2 pi / w between the ramps.
    ramp_s : float, default 2.0
        Seconds over which the functions are faded in and out. Between the ramps the motion is periodic.

    Raises
    ------
    InputError
        If a number is not positive.

    Examples
    --------
    >>> Fourier(3).count
    6
    """

    harmonics: int = 5
    periods: int = 1
    ramp_s: float = 2.0

    def __post_init__(self) -> None:
        require_valid({name: getattr(self, name) for name in FOURIER["properties"]}, FOURIER, "Fourier")
        object.__setattr__(self, "ramp_s", float(self.ramp_s))

    @property
    def count(self) -> int:
        """Return the number m of functions."""
        return 2 * self.harmonics

    def cycles(self, seconds: float) -> float:
        """Return the number of periods of the last harmonic in the motion."""
        return self.harmonics * seconds / self.period(seconds)

    def period(self, seconds: float) -> float:
        """Return the period of the first harmonic, s."""
        between = seconds - 2 * self.ramp_s
        if between <= 0:
            raise InputError(
                f"two ramps of {self.ramp_s:g} s take all of a motion of {seconds:g} s",
                hint="use a longer motion, or a shorter ramp: Fourier(ramp_s=...)",
                code=Code.OUT_OF_RANGE,
                subject="ramp_s",
            )
        return between / self.periods

    def basis(self, t: Array, seconds: float, order: int) -> Array:
        """Return the derivatives (N, m) of the given order at times t in [0, seconds]."""
        # Leibniz: (r f)^(d) = sum_k binomial(d, k) r^(k) f^(d - k)
        ramps = (self._ramp(t, seconds, k) for k in range(order + 1))
        terms = (comb(order, k) * ramp[:, None] * self._waves(t, seconds, order - k)
                 for k, ramp in enumerate(ramps) if k == 0 or ramp.any())  # fmt: skip
        return np.asarray(sum(terms))

    def to_dict(self) -> dict[str, Any]:
        """Return the settings in types that JSON can store."""
        return {"kind": "Fourier", "harmonics": self.harmonics, "periods": self.periods, "ramp_s": self.ramp_s}

    def _waves(self, t: Array, seconds: float, order: int) -> Array:
        """Return derivatives of the sines, then of the cosines; each derivative shifts the phase by a quarter of a
        period.
        """
        w = 2 * np.pi / self.period(seconds) * np.arange(1, self.harmonics + 1)
        angle = np.outer(t - self.ramp_s, w) + order * np.pi / 2
        return np.asarray(np.concatenate([np.sin(angle), np.cos(angle)], axis=1) * np.tile(w, 2) ** order)

    def _ramp(self, t: Array, seconds: float, order: int) -> Array:
        rising, falling = t / self.ramp_s, (seconds - t) / self.ramp_s
        ramp = np.full(t.shape, 1.0 if order == 0 else 0.0)
        for side, sign in ((falling, (-1) ** order), (rising, 1)):
            if (at := side < 1).any():
                ramp[at] = sign * polyval(side[at], RAMPS[order]) / self.ramp_s**order
        return ramp


def sample_times(seconds: float, rate_hz: float) -> Array:
    """Return the times (N,) from 0 in steps of 1 / rate_hz to the end."""
    return np.arange(int(seconds * rate_hz + 1e-9) + 1) / rate_hz


class TimedMotion(ABC):
    """Positions of joints and their derivatives as functions of time: the reference of a controller."""

    __slots__ = ()
    seconds: Any

    @abstractmethod
    def derivative(self, t: ArrayLike, order: int) -> Array:
        """Return positions (order 0), velocities or accelerations (N, n) at times t (N,)."""

    def rows(self, times: Array) -> tuple[Array, Array, Array]:
        """Return q, qd, qdd (N, n) at times (N,)."""
        q, qd, qdd = (self.derivative(times, order) for order in range(3))
        return q, qd, qdd

    def sample(self, rate_hz: float) -> tuple[Array, Array, Array, Array]:
        """Return q, qd, qdd (N, n) and t (N,) from 0 to the end."""
        t = sample_times(self.seconds, rate_hz)
        return (*self.rows(t), t)

    def __call__(self, t: float) -> tuple[Array, Array, Array]:
        """Return q, qd, qdd (n,) at time t."""
        q, qd, qdd = self.rows(np.array([t]))
        return q[0], qd[0], qdd[0]


@dataclass(frozen=True, slots=True, eq=False)
class Motion(TimedMotion):
    """q(t) = start + basis(t) @ coefficients on [0, seconds].

    Before and after this time, the robot rests in `start`.

    start         (n,) where the motion begins and ends, rad or m
    coefficients  (m, n)
    """

    family: Fourier
    seconds: float
    start: Array
    coefficients: Array

    def derivative(self, t: ArrayLike, order: int) -> Array:
        """Return positions (order 0), velocities, accelerations or jerks (N, n) at times t (N,)."""
        times = np.atleast_1d(np.asarray(t, dtype=np.float64))
        inside = np.clip(times, 0.0, self.seconds)
        values = self.family.basis(inside, self.seconds, order) @ self.coefficients
        if order == 0:
            return np.asarray(values + self.start)
        values[(times < 0) | (times > self.seconds)] = 0.0
        return np.asarray(values)

    def scaled(self, factor: float) -> Motion:
        """Return the motion with all displacements from the start scaled."""
        return Motion(self.family, self.seconds, self.start, factor * self.coefficients)


State = tuple[Array, Array, Array, Array]
"""q, qd, qdd and the jerk, (N, n) each."""


@dataclass(frozen=True, slots=True, eq=False)
class Instants:
    """Times t (N,) and the basis (N, 1 + m) of every order 0 to 3; the first column of the basis belongs to the start.

    The unknowns are z (1 + m, n): the start in the first row, and the coefficients in the other rows; q = basis[0] @ z.

    segments  number w of consecutive parts with equal numbers of instants; series are summed over each part
    """

    t: Array
    basis: tuple[Array, ...]
    segments: int = 1

    @staticmethod
    def of(family: Fourier, seconds: float, count: int, segments: int = 1) -> Instants:
        """Return at least `count` instants in the middles of equal intervals, with the same number in each segment."""
        whole = -(-count // segments) * segments
        t = np.asarray((np.arange(whole) + 0.5) * (seconds / whole), dtype=np.float64)
        return replace(Instants.at(t, family, seconds), segments=segments)

    @staticmethod
    def at(t: Array, family: Fourier, seconds: float) -> Instants:
        """Return the given instants."""
        starts = [np.full((len(t), 1), 1.0 if order == 0 else 0.0) for order in range(4)]
        basis = (np.hstack([start, family.basis(t, seconds, order)]) for order, start in enumerate(starts))
        return Instants(t, tuple(basis))

    def taken(self, rows: NDArray[np.intp]) -> Instants:
        """Return the selected instants."""
        return Instants(self.t[rows], tuple(B[rows] for B in self.basis))

    def state(self, z: Array) -> State:
        """Return the motion at the instants."""
        q, qd, qdd, qddd = (B @ z for B in self.basis)
        return q, qd, qdd, qddd

    def pulled_back(self, *slopes: Array) -> Array:
        """Convert derivatives (N, n) with respect to q, qd, ... to derivatives (1 + m, n) with respect to z, summed
        over all instants.
        """
        return np.asarray(sum(B.T @ slope for B, slope in zip(self.basis, slopes, strict=False)))

    def pulled_back_series(self, *slopes: Array) -> Array:
        """Convert derivatives (N, c, n) with respect to q, qd, ... to (w, c, 1 + m, n) with respect to z, summed over
        each segment.
        """
        _, c, n = slopes[0].shape
        orders = zip(self.basis, slopes, strict=False)
        flat = sum(self.by_segment(B).swapaxes(1, 2) @ self.by_segment(slope).reshape(self.segments, -1, c * n)
                   for B, slope in orders)  # fmt: skip
        return np.asarray(flat).reshape(self.segments, -1, c, n).transpose(0, 2, 1, 3)

    def by_segment(self, series: Array) -> Array:
        """Reshape (N, ...) to (w, N / w, ...)."""
        return series.reshape(self.segments, -1, *series.shape[1:])


@dataclass(frozen=True, slots=True, eq=False)
class ApproachPath:
    """Path through `places` (k + 1, n), with a stop in each: k straight lines in joint space of `seconds` (k,)."""

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
    """A motion with its approach from home and the same path back; only the motion if there is no approach.

    joints  names of the (primary) joints
    speed   fraction of the designed speed
    """

    joints: tuple[str, ...]
    motion: Motion
    approach: ApproachPath | None = None
    speed: float = 1.0

    def __post_init__(self) -> None:
        require_number(self.speed, "speed", "(0, 1]", "a fraction of the designed speed, such as 0.2")

    def require_start(self, q: ArrayLike, tolerance: float = MAX_START_ERROR) -> None:
        """Raise `UnsafeMotionError` if a joint of q (n,) is farther than the tolerance from the first position.

        A player calls this method before it sends the first sample, because the path to the first position was not
        checked.

        tolerance  rad or m
        """
        first, actual = self.derivative(0.0, 0)[0], frozen_array(q, (len(self.joints),), "q")
        far = [
            f"{name} at {now:.3f} instead of {then:.3f}"
            for name, now, then in zip(self.joints, actual, first, strict=True)
            if not abs(now - then) <= tolerance
        ]
        if far:
            raise UnsafeMotionError(
                f"the robot is not at the first position of the motion: {', '.join(far)}",
                hint="move it there on a path that you checked, or design the motion with home at its present position",
                subject=far[0].split(" at ")[0],
            )

    @property
    def seconds(self) -> float:
        """Return the duration of the run, from home to home."""
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
MOTION: Final[Schema] = {
    **table_schema(
        {
            "joints": list_schema(ANY_TEXT, minItems=1),
            "seconds": _SECONDS,
            "start": list_schema(ANY_NUMBER),
            "family": table_schema({"kind": {"enum": ["Fourier"]}}, FOURIER["properties"]),
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
"""JSON Schema of the entries of motion.json that define a run; other entries are for people and other programs."""


def run_of(record: Mapping[str, Any], where: str) -> Run:
    """Return the run that the JSON of a motion defines; `where` is the name of the file in errors."""
    hint = "`mindyn excite ROBOT --out DIR` writes DIR/motion.json"
    require_valid_file(record, MOTION, where, hint=hint)
    family = Fourier(**{name: value for name, value in record["family"].items() if name != "kind"})
    joints, way = tuple(record["joints"]), record.get("approach")
    start = frozen_array(record["start"], (len(joints),), "start")
    coefficients = frozen_array(record["coefficients"], (family.count, len(joints)), "coefficients")
    approach = None
    if way is not None:
        legs = len(way["seconds"])
        places = frozen_array(way["places"], (legs + 1, len(joints)), "approach.places")
        approach = ApproachPath(places, frozen_array(way["seconds"], (legs,), "approach.seconds"))
    return Run(joints, Motion(family, float(record["seconds"]), start, coefficients), approach)
