"""`judge_possible`: is the inertia matrix positive definite at every configuration? [Yoshida 1996, chapter 4]."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from mindyn.algebra.values import Array
from mindyn.equations.closed_motion import is_affine
from mindyn.errors import InputError
from mindyn.feasibility.answer import Answer
from mindyn.feasibility.configurations import Ranges, joint_ranges, named_configuration, spread_configurations
from mindyn.feasibility.inertia_family import Member, Subject, member_of
from mindyn.feasibility.worst_configurations import (
    CHUNK,
    Extremes,
    descended,
    failing_minors,
    smallest_eigenvalues,
)

JUDGED_CONFIGURATIONS: Final = 100_000
CLOSED_LOOPS: Final = 300
"""Configurations that are looked at before the descent."""
SINGULAR_TO: Final = 1e-12
"""Smallest eigenvalue, as part of the largest entry of M, that is told from zero."""
TAKES_PART: Final = 0.1
"""Share of the squared eigenvector from which on a joint is named."""


def judge_possible(
    subject: Subject,
    *,
    drives: bool | None = None,
    ranges: Ranges | None = None,
    within_limits: bool = False,
    count: int = JUDGED_CONFIGURATIONS,
    seed: int = 0,
) -> Answer:
    """Is M(q) of these values positive definite everywhere? The smallest eigenvalue found is the witness.

    subject        an estimate, a robot with known parameters, or a pair (robot or base set, base values)
    drives         count the rotors; False: the kinematic chain alone; None: as the values have it
    ranges         of joints by name, rad or m; needed for prismatic joints without limits
    within_limits  revolute joints within their limits, where they state any, in place of whole turns
    count          configurations, spread evenly; descents from the worst of them follow. Through loops that are solved
                   for no more than CLOSED_LOOPS, those left out at which they do not close
    seed           of the spread

    A no is proved by its configuration. A yes rests on the sample and the descents: no configuration was found.
    """
    if count < 1:
        raise InputError(f"count = {count!r} configurations; it must be 1 or more")
    member = member_of(subject, drives=drives)
    bounds = joint_ranges(member.family, ranges, within_limits=within_limits)
    solved = not is_affine(member.family.base.robot)
    q = spread_configurations(bounds, min(count, CLOSED_LOOPS) if solved else count, seed)
    least = smallest_eigenvalues(member.family, member.values, q)
    worst = descended(member.family, member.values, bounds, q, least)
    return _answer(member, q, least, worst)


def _answer(member: Member, q: Array, least: Array, worst: Extremes) -> Answer:
    M = member.family.matrices(q[:CHUNK], member.values)
    size = float(np.abs(M).max())
    lowest = float(worst.values[0])
    holds = None if abs(lowest) <= SINGULAR_TO * size else lowest > 0
    joints = _joints_in(member, worst.u[0])
    witness = {
        "inertia_matrix": "with rotors" if member.family.base.drives else "of the chain alone",
        "smallest_eigenvalue": lowest,
        "configuration": named_configuration(member.family, worst.q[0]),
        "joints": joints,
        "direction": _named(member, worst.u[0]),
        "failing_part": float(np.mean(least <= 0)),
        "configurations": len(q),
        "failing_minors": failing_minors(M),
        "smallest_diagonal": _named(member, np.einsum("kii->ki", M).min(axis=0)),
    }
    return Answer("possible", holds, _sentence(holds, witness), witness)


def _named(member: Member, values: Array) -> dict[str, float]:
    return {joint.name: float(value) for joint, value in zip(member.family.joints, values, strict=True)}


def _joints_in(member: Member, u: Array) -> list[str]:
    """Names of the joints that make up the direction u, the largest share first."""
    return [member.family.joints[k].name for k in np.argsort(-(u**2)) if u[k] ** 2 >= TAKES_PART]


def _sentence(holds: bool | None, witness: dict[str, Any]) -> str:
    at = ", ".join(f"{name} = {one['position']:.4g} {one['unit']}" for name, one in witness["configuration"].items())
    place = f" at {at}" if at else ""
    where = f"{witness['smallest_eigenvalue']:.4g} kg m^2{place}, in the direction of {', '.join(witness['joints'])}"
    matrix = f"the inertia matrix {witness['inertia_matrix']}"
    if holds:
        return (
            f"{matrix} is positive definite at all of {witness['configurations']} configurations; "
            f"its smallest eigenvalue is {where}"
        )
    if holds is None:
        return f"{matrix} is singular to rounding; its smallest eigenvalue is {where}"
    failing = _failing_orders(witness)
    return (
        f"{matrix} is not positive definite at {100 * witness['failing_part']:.3g} % of "
        f"{witness['configurations']} configurations; its smallest eigenvalue is {where}{failing}"
    )


def _failing_orders(witness: dict[str, Any]) -> str:
    parts = witness["failing_minors"]["first"]
    told = [f"{k + 1} at {100 * part:.2g} %" for k, part in enumerate(parts) if part > 0]
    return f"; the first leading minor that fails is of order {', '.join(told)}" if told else ""
