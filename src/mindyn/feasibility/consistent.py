"""Physically consistent: does some mass distribution of every link, with drives that brake, have these base values?

Judged by the nearest consistent values in relative terms; the way to them is the proof where the answer is no.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np
from scipy.special import chdtri

from mindyn.algebra.values import Array
from mindyn.errors import InputError
from mindyn.estimators.estimate import Estimate
from mindyn.feasibility.answer import Answer
from mindyn.feasibility.conic import DIAGONAL_PLACES, ConeRows, ConicError, ConicProgram
from mindyn.feasibility.nearest import (
    CERTIFICATE_MASS_COST,
    MASS_COST,
    NearestConsistent,
    certificate_slack,
    find_nearest_consistent,
    match_values,
    relative_metric,
    root_of_inverse,
)
from mindyn.feasibility.physical_space import PhysicalSpace, physical_values, space_of, space_of_base
from mindyn.parameters.base import BaseParameters

CONSISTENT_DISTANCE: Final = 1e-5
"""Relative rms distance from consistent values up to which values count as consistent: what a solver can tell."""
FALLBACK_MASS_COSTS: Final = (CERTIFICATE_MASS_COST, 1e-6, 1e-5)
"""Weights of masses tried where the solver stops too early to prove its answer. Each proof is checked by itself; at the
edge of what a solver can tell, rounding decides which of them it finds."""
MIN_EXCLUSION_RATIO: Final = 1000.0
"""A certificate must exclude arms up to this multiple of the size that the values have, or the answer is undecided."""
MAX_NAMED_PARAMETERS: Final = 5
NAMED_FRACTION: Final = 0.8
"""Parameters of the largest weights are named until this part of the certificate is covered, at most `MAX_NAMED_ROBOTS`."""
CONSISTENT: Final = "consistent"


def check_consistent(estimate: Estimate) -> Answer:
    """The answer for an estimate, friction and further columns included; a consistent fit's own links prove it."""
    space = space_of(estimate.regressor)
    answer, own = check_values(space, estimate.beta), physical_values(estimate, space)
    if answer.holds is False:
        return _add_likelihood(answer, estimate, space)
    if not answer.holds or own is None:
        return answer
    return replace(answer, witness={**answer.witness, **arm_witness(space, own)})


def _add_likelihood(answer: Answer, estimate: Estimate, space: PhysicalSpace) -> Answer:
    """A no, with how far the nearest consistent values are by the covariance: it surprises beyond the 95 % region."""
    told = np.isfinite(estimate.deviations) & (estimate.deviations > 0)
    if not told.any():
        return answer
    W = np.zeros((int(told.sum()), len(told)))
    W[:, told] = root_of_inverse(estimate.correlations[np.ix_(told, told)], estimate.deviations[told])
    # What has no spread at all stays.
    fixed = np.diag(np.where(told | ~np.isfinite(estimate.deviations), 0.0, 1.0))
    try:
        near = find_nearest_consistent(space, estimate.beta, np.vstack([W, fixed[fixed.any(axis=1)]]))
    except ConicError:
        return answer
    region = float(np.sqrt(chdtri(int(told.sum()), 0.05)))
    likely = near.distance <= region
    words = f" By the estimate's covariance the nearest lie {near.distance:.2g} deviations away, "
    words += f"{'within' if likely else 'beyond'} the 95 % region ({region:.2g})."
    witness = {**answer.witness, "deviations": near.distance, "region": region, "within_uncertainty": likely}
    return replace(answer, reason=f"{answer.reason}{words}", witness=witness)


def check_base_values(base: BaseParameters, values: Array) -> Answer:
    """The answer for values of a base set."""
    return check_values(space_of_base(base), np.asarray(values, dtype=np.float64))


def check_values(space: PhysicalSpace, beta: Array) -> Answer:
    """The answer with its witness: link parameters that have these values, or a certificate that none can."""
    if beta.shape != (len(space.names),) or not np.isfinite(beta).all():
        raise InputError(f"{len(space.names)} finite values are needed, got {np.isfinite(beta).sum()} of {beta.shape}")
    W = relative_metric(space, beta)
    answer = Answer(CONSISTENT, None, "no nearest consistent values were found.")
    for heaviness in (MASS_COST, *FALLBACK_MASS_COSTS):
        try:
            found = find_nearest_consistent(space, beta, W, mass_cost=heaviness)
        except ConicError:
            continue
        distance = found.distance / np.sqrt(len(beta))
        if distance <= CONSISTENT_DISTANCE:
            return _consistent_answer(space, beta, found, distance)
        answer = _inconsistent_answer(space, beta, found, distance, 1 / np.diag(W))
        if answer.holds is False:
            break
    return answer


def _consistent_answer(space: PhysicalSpace, beta: Array, found: NearestConsistent, distance: float) -> Answer:
    x, margin = _find_innermost(space, beta, found)
    sentence = "some mass distribution of every link, with drives that brake, has these values"
    if margin <= CONSISTENT_DISTANCE:
        sentence += (
            ", at the edge of what is physical (a link that is flat, a point, or a drive without inertia or friction)"
        )
    return Answer(CONSISTENT, True, f"{sentence}.", {"distance": distance, "margin": margin, **arm_witness(space, x)})


def arm_witness(space: PhysicalSpace, x: Array) -> dict[str, dict[str, float]]:
    """One arm that has the values: all physical parameters by their labels, and the masses of its links, kg."""
    return {
        "masses": dict(zip(space.robot.link_names, x[space.masses].tolist(), strict=True)),
        "physical": dict(zip(space.labels, x.tolist(), strict=True)),
    }


def _find_innermost(space: PhysicalSpace, beta: Array, found: NearestConsistent) -> tuple[Array, float]:
    """Of all x with these values the one furthest inside, links and drives each by their least, and `worst` there."""
    units = space.units
    program = ConicProgram(space.size)
    program.cost[space.masses] = MASS_COST
    margins = program.add_variables(2)
    program.cost[margins] = -1.0
    program.add_rows(ConeRows("zero", space.matrix * units, -beta))
    for rows in space.cone_rows(units):
        inner = np.zeros((rows.count, program.size))
        inner[:, : space.size] = rows.matrix
        if rows.kind == "semidefinite":
            inner[DIAGONAL_PLACES, margins.start] = -1.0
        else:
            inner[:, margins.start + 1] = -1.0
        program.add_rows(ConeRows(rows.kind, inner, rows.offset, rows.order))
    program.add_rows(ConeRows("nonnegative", -np.eye(program.size)[margins], np.ones(2)))
    try:
        x = match_values(space, units * program.solve().x[: space.size], beta)
    except ConicError:  # values at the edge leave the equations no room
        x = found.x
    return x, space.smallest_margin(x)


def _inconsistent_answer(
    space: PhysicalSpace, beta: Array, found: NearestConsistent, distance: float, scales: Array
) -> Answer:
    y, braking = found.certificate / found.distance, found.braking / found.distance
    value, slack = float(y @ beta), certificate_slack(space, y, braking)
    size = float(np.abs(np.linalg.pinv(space.matrix * space.units) @ beta).sum())
    excludes = value / min(slack, -1e-300)
    names = _select_largest(space.names, np.abs(y) * scales)
    witness: dict[str, Any] = {
        "distance": distance,
        "certificate": {name: float(v) for name, v in zip(space.names, y, strict=True)},
        "braking": braking.tolist(),
        "value": value,
        "slack": slack,
        "contradicting": names,
        "nearest": {name: float(v) for name, v in zip(space.names, found.beta, strict=True)},
    }
    if not (value < 0 and excludes > MIN_EXCLUSION_RATIO * size):
        return Answer(CONSISTENT, None, f"consistent values lie {100 * distance:.2g} % away.", witness)
    moved = ", ".join(
        "{} = {} (nearest {})".format(name, *_format_apart(b, n))
        for name, b, n in _pair_moves(space.names, names, beta, found.beta)
    )
    return Answer(
        CONSISTENT,
        False,
        f"these parameters contradict: {moved}; no mass distribution and friction has them all, "
        f"the nearest that one has differ by {100 * distance:.2g} % (rms).",
        witness,
    )


def _select_largest(names: tuple[str, ...], weights: Array) -> list[str]:
    order = np.argsort(weights**2)[::-1]
    covered = np.cumsum(weights[order] ** 2) / (weights**2).sum()
    count = min(MAX_NAMED_PARAMETERS, int(np.searchsorted(covered, NAMED_FRACTION)) + 1)
    return [names[k] for k in order[:count]]


def _format_apart(one: float, other: float) -> tuple[str, str]:
    """Two numbers with as many digits, from four on, as tell them apart."""
    return next(
        (made for digits in range(4, 17) if (made := (f"{one:.{digits}g}", f"{other:.{digits}g}"))[0] != made[1]),
        (f"{one:.4g}", f"{other:.4g}"),
    )


def _pair_moves(names: tuple[str, ...], chosen: list[str], beta: Array, moved: Array) -> list[tuple[str, float, float]]:
    return [(name, float(beta[names.index(name)]), float(moved[names.index(name)])) for name in chosen]
