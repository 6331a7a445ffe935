"""Check physical consistency: does some mass distribution of every link, with dissipative friction, have the values?

The nearest consistent values, measured by relative distance, decide. For a negative answer, the step to these values is
the certificate.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np

from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, InputError
from mindyn.identification.estimators.estimate import Estimate
from mindyn.identification.feasibility.checks.answer import Answer
from mindyn.identification.feasibility.conditions.nearest_values import (
    MASS_COST,
    NearestConsistent,
    certificate_slack,
    find_certificate,
    find_nearest_consistent,
    known_metric,
    match_values,
    relative_metric,
)
from mindyn.identification.feasibility.conditions.physical_space import PhysicalSpace, physical_values, space_of
from mindyn.identification.feasibility.optimisation.conic_program import ConeRows, ConicError, ConicProgram

CONSISTENT_DISTANCE: Final = 1e-5
"""Largest relative rms distance to consistent values at which values count as consistent: the precision of the solver.
"""
MIN_EXCLUSION_RATIO: Final = 1000.0
"""A certificate must exclude robots up to this multiple of the size of the values, or the answer is undecided."""
MAX_NAMED_PARAMETERS: Final = 5
NAMED_FRACTION: Final = 0.8
"""Messages name the parameters with the largest weights that together make up this fraction of the certificate."""
ROUNDED_FRACTION: Final = 1e-6
"""Messages write a nearest value as 0 below this fraction of the identified one: the precision of the solver."""
CONSISTENT: Final = "consistent"


def check_consistent(estimate: Estimate) -> Answer:
    """Check the values of an estimate with its friction. For a consistent fit, the links of the fit are the witness."""
    space = space_of(estimate.regressor)
    answer, fitted = check_values(space, estimate.beta), physical_values(estimate, space)
    if answer.holds is False:
        return _add_likelihood(answer, estimate, space)
    if not answer.holds or fitted is None:
        return answer
    return replace(answer, witness={**answer.witness, **arm_witness(space, fitted)})


def _add_likelihood(answer: Answer, estimate: Estimate, space: PhysicalSpace) -> Answer:
    """Add to a negative answer the distance of the nearest consistent values, measured by the covariance."""
    from scipy.special import chdtri

    known = np.isfinite(estimate.deviations) & (estimate.deviations > 0)
    if not known.any():
        return answer
    # Parameters without variance must not move.
    fixed = np.diag(np.where(known | ~np.isfinite(estimate.deviations), 0.0, 1.0))
    W = np.vstack([known_metric(estimate, known), fixed[fixed.any(axis=1)]])
    try:
        nearest = find_nearest_consistent(space, estimate.beta, W)
    except ConicError:
        return answer
    region = float(np.sqrt(chdtri(int(known.sum()), 0.05)))
    is_within = nearest.distance <= region
    sentence = f" In the metric of the covariance, the nearest are {nearest.distance:.2g} deviations away, "
    sentence += f"{'within' if is_within else 'beyond'} the 95 % region ({region:.2g})."
    witness = {**answer.witness, "deviations": nearest.distance, "region": region, "within_uncertainty": is_within}
    return replace(answer, reason=f"{answer.reason}{sentence}", witness=witness)


def check_values(space: PhysicalSpace, beta: Array) -> Answer:
    """Check values.

    The witness is a set of link parameters with these values, or a certificate that no such set exists.
    """
    if beta.shape != (len(space.names),) or not np.isfinite(beta).all():
        raise InputError(
            f"{len(space.names)} finite values are needed, got {np.isfinite(beta).sum()} of {beta.shape}",
            code=Code.WRONG_SHAPE,
            subject="values",
        )
    W = relative_metric(space, beta)
    try:
        nearest = find_nearest_consistent(space, beta, W)
        distance = nearest.distance / np.sqrt(len(beta))
        if distance <= CONSISTENT_DISTANCE:
            return _consistent_answer(space, beta, nearest, distance)
        return _inconsistent_answer(space, beta, nearest, distance, W)
    except ConicError:
        return Answer(CONSISTENT, None, "no nearest consistent values were found.")


def _consistent_answer(space: PhysicalSpace, beta: Array, nearest: NearestConsistent, distance: float) -> Answer:
    x, margin = _find_innermost(space, beta, nearest)
    sentence = "some mass distribution of every link, with dissipative friction, has these values"
    if margin <= CONSISTENT_DISTANCE:
        sentence += (
            ", on the boundary of the physical set (a flat or point-like link, or a drive without inertia or friction)"
        )
    return Answer(CONSISTENT, True, f"{sentence}.", {"distance": distance, "margin": margin, **arm_witness(space, x)})


def arm_witness(space: PhysicalSpace, x: Array) -> dict[str, dict[str, float]]:
    """Return the physical parameters by label, and the masses of the links by name, kg."""
    return {
        "masses": dict(zip(space.robot.link_names, x[space.masses].tolist(), strict=True)),
        "physical": dict(zip(space.labels, x.tolist(), strict=True)),
    }


def _find_innermost(space: PhysicalSpace, beta: Array, nearest: NearestConsistent) -> tuple[Array, float]:
    """Return x with these values and the largest margins of links and drives, and the smallest of these margins."""
    units = space.units
    program = ConicProgram(space.size)
    program.cost[space.masses] = MASS_COST
    margins = program.add_variables(2)
    program.cost[margins] = -1.0
    program.add_rows(ConeRows("zero", space.matrix * units, -beta))
    for rows in space.cone_rows(units):
        margin = margins.start if rows.kind == "semidefinite" else margins.start + 1
        program.add_rows(rows.with_margin(margin, program.size))
    program.add_rows(ConeRows("nonnegative", -np.eye(program.size)[margins], np.ones(2)))
    try:
        x = match_values(space, units * program.solve().x[: space.size], beta)
    except ConicError:  # values on the boundary leave no interior point
        x = nearest.x
    return x, space.smallest_margin(x)


def _inconsistent_answer(
    space: PhysicalSpace, beta: Array, nearest: NearestConsistent, distance: float, W: Array
) -> Answer:
    y, braking = find_certificate(space, beta, W)
    value, slack = float(y @ beta), certificate_slack(space, y, braking)
    size = float(np.abs(np.linalg.pinv(space.matrix * space.units) @ beta).sum())
    excludes = value / min(slack, -1e-300)
    names = _select_largest(space.names, np.abs(y) / np.diag(W))
    witness: dict[str, Any] = {
        "distance": distance,
        "certificate": {name: float(v) for name, v in zip(space.names, y, strict=True)},
        "braking": braking.tolist(),
        "value": value,
        "slack": slack,
        "contradicting": names,
        "nearest": {name: float(v) for name, v in zip(space.names, nearest.beta, strict=True)},
    }
    if not (value < 0 and excludes > MIN_EXCLUSION_RATIO * size):
        return Answer(
            CONSISTENT, None, f"the nearest consistent values found differ by {100 * distance:.2g} % (rms).", witness
        )
    moves = dict(zip(space.names, zip(beta, nearest.beta, strict=True), strict=True))
    moved = ", ".join("{} = {} (nearest {})".format(name, *_format_apart(*moves[name])) for name in names)
    return Answer(
        CONSISTENT,
        False,
        f"these parameters conflict: {moved}; no mass distribution and friction has all of them, "
        f"the nearest consistent values differ by {100 * distance:.2g} % (rms).",
        witness,
    )


def _select_largest(names: tuple[str, ...], weights: Array) -> list[str]:
    order = np.argsort(weights**2)[::-1]
    covered = np.cumsum(weights[order] ** 2) / (weights**2).sum()
    count = min(MAX_NAMED_PARAMETERS, int(np.searchsorted(covered, NAMED_FRACTION)) + 1)
    return [names[k] for k in order[:count]]


def _format_apart(first: float, second: float) -> tuple[str, str]:
    """Format two numbers with the smallest number of digits, at least four, for which the texts differ.

    A second number that is a rounding error of the first is written as 0.
    """
    if abs(second) < ROUNDED_FRACTION * abs(first):
        return f"{first:.4g}", "0"
    return next(
        (texts for digits in range(4, 17) if (texts := (f"{first:.{digits}g}", f"{second:.{digits}g}"))[0] != texts[1]),
        (f"{first:.4g}", f"{second:.4g}"),
    )
