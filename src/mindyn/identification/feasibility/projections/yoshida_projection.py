"""Project values onto Yoshida's cones, for small robots [Yoshida 1996, section 4.4].

The projection repeats four steps:

    1  compute the coefficients p_i of each minor, and find those outside their cones
    2  take the nearest point of each cone
    3  take a step inside
    4  find base values with these p_i

Distances between coefficients do not take the uncertainty of the parameters into account, and step 4 is not convex;
`make_feasible` avoids both problems.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, InputError
from mindyn.identification.feasibility.checks.positive_definite import check_positive_definite
from mindyn.identification.feasibility.checks.yoshida_cones import Minor, leading_minors
from mindyn.identification.feasibility.conditions.inertia_matrix_family import resolve_subject
from mindyn.parameters.base_parameters import BaseParameters
from mindyn.robots.robot import Robot

STEP_INSIDE_RATIO: Final = 0.02
"""Length of the step inside a cone relative to the norm of the point."""
LONGER_STEP: Final = 2.0
"""Factor of the step if the cones of the grid contain values that are not positive definite."""
MAX_PROJECTION_ROUNDS: Final = 12
STAY_WEIGHT: Final = 1e-3
"""Weight in step 4 of the distance from the values, relative to the distance from the point in the cone."""


def project_on_polyhedral_cone(p: Array, facets: Array) -> Array:
    """Return the nearest point to p of the cone facets @ p >= 0: p + facets^T x, x >= 0 of smallest norm (Moreau)."""
    from scipy.optimize import nnls

    x, _ = nnls(facets.T, -p)
    return np.asarray(p + facets.T @ x)


def project_by_cones(robot_or_base: Robot | BaseParameters, values: ArrayLike) -> Array:
    """Return base values inside the polyhedral cones of a grid: repeat steps 1 to 4 until every minor is inside.

    Step 4 takes the base values whose coefficients are nearest to the points in the cones, relative to the lengths of
    the points. (In general, no base values have exactly these coefficients, because there are fewer base values than
    coefficients.) Step 4 is not convex, and may fail if the values are far outside, which raises `InputError`. If the
    inertia matrix is not positive definite between the points of the grid, the steps inside become longer: the result
    is positive definite in every configuration.
    """
    family, beta = resolve_subject((robot_or_base, values))
    minors = leading_minors(family)
    facets = [minor.facets() for minor in minors]
    ratio = STEP_INSIDE_RATIO
    for _ in range(MAX_PROJECTION_ROUNDS):
        lifted = [minor.coefficients(beta) for minor in minors]
        if all((F @ p > 0).all() for F, p in zip(facets, lifted, strict=True)):
            if check_positive_definite((family.base, beta)).holds:
                return beta
            ratio *= LONGER_STEP
        goals = [_step_inside(project_on_polyhedral_cone(p, F), F, ratio) for p, F in zip(lifted, facets, strict=True)]
        beta = _solve_base_values(minors, goals, beta)
        if not np.isfinite(beta).all():
            raise _not_converged("a step has no finite values")
    raise _not_converged(f"{MAX_PROJECTION_ROUNDS} rounds found no positive definite values inside the cones")


def _not_converged(message: str) -> InputError:
    return InputError(
        f"Yoshida's modification failed: {message}",
        hint="use project_to_positive_definite or make_feasible, which solve convex problems",
        code=Code.NOT_CONVERGED,
        subject="values",
    )


def _step_inside(p: Array, facets: Array, ratio: float) -> Array:
    """Move p along the axis of the constant function until every facet is `ratio` of its length away."""
    short = ratio * float(np.linalg.norm(p)) - float((facets @ p).min())
    return np.asarray(p + max(0.0, short) * np.eye(len(p))[-1])


def _solve_base_values(minors: tuple[Minor, ...], goals: list[Array], beta: Array) -> Array:
    from scipy.optimize import least_squares

    sizes = [max(float(np.linalg.norm(goal)), 1e-300) for goal in goals]
    units = np.maximum(np.abs(beta), 0.01 * np.abs(beta).max())

    def misses(x: Array) -> Array:
        lifted = [minor.coefficients(beta + units * x) for minor in minors]
        return np.concatenate([*((p - g) / s for p, g, s in zip(lifted, goals, sizes, strict=True)), STAY_WEIGHT * x])

    with np.errstate(
        all="ignore"
    ):  # a step that overflows ends in values that are not finite, which the caller rejects
        if not np.isfinite(misses(np.zeros(len(beta)))).all():
            return np.full_like(beta, np.nan)
        return np.asarray(beta + units * least_squares(misses, np.zeros(len(beta))).x)
