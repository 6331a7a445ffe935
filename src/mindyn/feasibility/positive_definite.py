"""Check whether the inertia matrix is positive definite in every configuration [Yoshida 1996, chapter 4]."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from mindyn.algebra.values import Array, RandomSource, seed_from
from mindyn.equations.closed_motion import is_affine
from mindyn.errors import Code, InputError
from mindyn.feasibility.answer import Answer
from mindyn.feasibility.inertia_family import FamilyMember, Subject, find_member
from mindyn.feasibility.worst_configurations import (
    CONFIGURATIONS_PER_CHUNK,
    Ranges,
    failing_minors,
    find_lowest,
    joint_ranges,
    name_positions,
    sample_configurations,
    smallest_eigenvalues,
)

CHECKED_CONFIGURATIONS: Final = 100_000
MAX_LOOP_CONFIGURATIONS: Final = 300
"""Configurations checked before the descent, of robots whose loops must be solved."""
SINGULAR_RATIO: Final = 1e-12
"""Smallest eigenvalue relative to the largest entry of M that differs from zero."""
NAMED_JOINT_FRACTION: Final = 0.1
"""Smallest fraction of the squared eigenvector at which a joint is named."""


def check_positive_definite(
    subject: Subject,
    *,
    drives: bool | None = None,
    ranges: Ranges | None = None,
    count: int = CHECKED_CONFIGURATIONS,
    rng: RandomSource = 0,
) -> Answer:
    """Check whether the inertia matrix is positive definite in every configuration.

    A configuration proves a negative answer. A positive answer relies on the sample and the descents from its worst
    configurations.

    Parameters
    ----------
    subject : Estimate, Robot, or (Robot or BaseParameters, array_like)
        An estimate, a robot with known parameters, or base values with their robot or base set.
    drives : bool, optional
        Whether rotors count; False: the kinematic chain alone. Default: as the values have it.
    ranges : Mapping of str to (float, float), optional
        Joint ranges by name, rad or m; required for prismatic joints without limits.
    count : int
        Number of configurations; at most `MAX_LOOP_CONFIGURATIONS` if loops must be solved, without those where they do
        not close.
    rng : int, numpy.random.Generator or None, default 0
        Seed or generator of the sampled configurations; None draws others in every call.

    Returns
    -------
    Answer
        The witness contains the smallest eigenvalue found and its configuration.

    Raises
    ------
    InputError
        If `count` is below 1, or the values do not belong to the robot.
    MissingPhysicsError
        If a prismatic joint has no range.
    """
    seed = seed_from(rng)
    if count < 1:
        raise InputError(f"count must be at least 1, got {count!r}", code=Code.OUT_OF_RANGE, subject="count")
    member = find_member(subject, drives=drives)
    bounds = joint_ranges(member.family, ranges)
    solved = not is_affine(member.family.base.robot)
    q = sample_configurations(bounds, min(count, MAX_LOOP_CONFIGURATIONS) if solved else count, seed)
    least = smallest_eigenvalues(member.family, member.values, q)
    return _build_answer(member, q, least, *find_lowest(member.family, member.values, bounds, q, least))


def _build_answer(member: FamilyMember, q: Array, least: Array, worst_q: Array, lowest: float, u: Array) -> Answer:
    M = member.family.matrices(q[:CONFIGURATIONS_PER_CHUNK], member.values)
    size = float(np.abs(M).max())
    holds = None if abs(lowest) <= SINGULAR_RATIO * size else lowest > 0
    joints = _name_joints(member, u)
    witness = {
        "inertia_matrix": "with rotors" if member.family.base.drives else "of the chain alone",
        "smallest_eigenvalue": lowest,
        "configuration": name_positions(member.family, worst_q),
        "joints": joints,
        "direction": _name_values(member, u),
        "failing_fraction": float(np.mean(least <= 0)),
        "configurations": len(q),
        "failing_minors": failing_minors(M),
        "smallest_diagonal": _name_values(member, np.einsum("kii->ki", M).min(axis=0)),
    }
    return Answer("positive_definite", holds, _format_reason(holds, witness), witness)


def _name_values(member: FamilyMember, values: Array) -> dict[str, float]:
    return {joint.name: float(value) for joint, value in zip(member.family.joints, values, strict=True)}


def _name_joints(member: FamilyMember, u: Array) -> list[str]:
    """Return the names of the joints that dominate the direction u, largest first."""
    return [member.family.joints[k].name for k in np.argsort(-(u**2)) if u[k] ** 2 >= NAMED_JOINT_FRACTION]


def _format_reason(holds: bool | None, witness: dict[str, Any]) -> str:
    at = ", ".join(
        f"{name} = {joint['position']:.4g} {joint['unit']}" for name, joint in witness["configuration"].items()
    )
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
    failing = _format_failing_orders(witness)
    return (
        f"{matrix} is not positive definite at {100 * witness['failing_fraction']:.3g} % of "
        f"{witness['configurations']} configurations; its smallest eigenvalue is {where}{failing}"
    )


def _format_failing_orders(witness: dict[str, Any]) -> str:
    parts = witness["failing_minors"]["first"]
    orders = [f"{k + 1} at {100 * part:.2g} %" for k, part in enumerate(parts) if part > 0]
    return f"; the first leading minor that fails is of order {', '.join(orders)}" if orders else ""
