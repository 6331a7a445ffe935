"""`find_levers`: how many parameters a faster or a longer version of a motion would determine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Literal

import numpy as np

from mindyn.foundation.algebra.significance import MAX_WELL_DETERMINED_DEVIATION, relative_deviation
from mindyn.foundation.algebra.values import Array
from mindyn.motions.excitation.criteria import parameter_deviations
from mindyn.motions.excitation.motions import Instants, Motion
from mindyn.motions.excitation.problem import Problem

FACTORS: Final = (1.5, 2.0)
"""Factors by which speed and duration are multiplied."""


@dataclass(frozen=True, slots=True)
class Lever:
    """Effect of one change of the motion.

    what        "speed": the same path, faster, repeated for the same time; "duration": the same path, repeated
    factor      on the speed or the duration
    determined  number of parameters with a relative deviation of at most 10 %
    exceeded    kinds of limits of the robot that the motion would then exceed
    """

    what: Literal["speed", "duration"]
    factor: float
    determined: int
    exceeded: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the fields in types that JSON can store."""
        return {**asdict(self), "exceeded": list(self.exceeded)}


def find_levers(problem: Problem, motion: Motion, beta: Array | None, parts: Mapping[str, float]) -> tuple[Lever, ...]:
    """Return the levers of a motion. Without a prior model there are none, because relative deviations need values.

    parts  limits of the problem relative to the limits of the robot
    """
    if beta is None:
        return ()
    own = _information(problem, motion)
    faster = [
        Lever("speed", factor, count_determined(_information(problem, at) * factor + problem.earlier, beta),
              _exceeded(problem, at, parts))
        for factor in FACTORS
        for at in [speed_up(motion, factor)]
    ]  # fmt: skip
    longer = [Lever("duration", f, count_determined(own * f + problem.earlier, beta)) for f in FACTORS]
    return (*faster, *longer)


def speed_up(motion: Motion, factor: float) -> Motion:
    """Return the motion along the same path at another speed."""
    family = replace(motion.family, ramp_s=motion.family.ramp_s / factor)
    return Motion(family, motion.seconds / factor, motion.start, motion.coefficients)


def count_determined(S: Array, beta: Array) -> int:
    """Return how many parameters have a relative deviation of at most 10 %."""
    return int(np.sum(relative_deviation(beta, parameter_deviations(S)) <= MAX_WELL_DETERMINED_DEVIATION))


def describe_levers(levers: Sequence[Lever], tip_speed: float, seconds: float) -> str:
    """Return a clause such as "16 with --tip-speed 1.5, 22 with --tip-speed 2; 14 with --seconds 30"; "" without
    levers.
    """
    clauses = []
    for what in ("speed", "duration"):
        words = []
        for lever in (lever for lever in levers if lever.what == what):
            speed = (
                f"with --tip-speed {lever.factor * tip_speed:g}"
                if np.isfinite(tip_speed)
                else f"at {lever.factor:g} times the speed"
            )
            place = speed if what == "speed" else f"with --seconds {lever.factor * seconds:g}"
            beyond = f" (beyond the limits of {' and '.join(lever.exceeded)})" if lever.exceeded else ""
            words.append(f"{lever.determined} {place}{beyond}")
        if words:
            clauses.append(", ".join(words))
    return "; ".join(clauses)


def _information(problem: Problem, motion: Motion) -> Array:
    """Return the information (p, p) of a log of the motion."""
    q, qd, qdd, _ = motion.sample(problem.rate_hz)
    columns = problem.columns
    return columns.information(columns.signed_entries(q, qd, qdd), 1 / problem.noise**2)


def _exceeded(problem: Problem, motion: Motion, parts: Mapping[str, float]) -> tuple[str, ...]:
    """Return the kinds of the robot's limits that a motion exceeds.

    The speed of points is not included, because it was changed.
    """
    instants = Instants.of(motion.family, motion.seconds, len(problem.knots.t))
    kinds: dict[str, float] = {}
    for label, value in problem.used(motion, instants).items():
        kind = label.split(" of ")[0]
        kinds[kind] = max(kinds.get(kind, 0.0), value * parts.get(kind, 1.0))
    return tuple(kind for kind in ("velocity", "acceleration", "jerk", "torque") if kinds.get(kind, 0.0) > 1.0)
