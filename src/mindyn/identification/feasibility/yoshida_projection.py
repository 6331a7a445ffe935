"""Yoshida's modification of impossible values, for robots small enough to expand [Yoshida 1996, section 4.4].

    1  compute p_i of the values, and find those outside their cones
    2  take the nearest point of each cone
    3  take a step inside
    4  find base values with these p_i

Lifted distances do not weigh parameters by their uncertainty, and step 4 is not convex;
`make_feasible` avoids both.

Leading minors of small robots as p_i . f_i(theta), and the cones of p_i that keep them positive.

Minor i of M(theta; beta) is a trigonometric polynomial: p_i, polynomials of degree i in the base values, times
independent functions f_i of the angles. On a grid of angles, F_i^T p_i > 0 is a polyhedral cone, whose facets have the
normals f_i(theta_k) [Yoshida 1996, eq. 4.8-4.25]. The test on a grid is necessary, not sufficient.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, InputError, RobotError
from mindyn.identification.feasibility.answer import Answer
from mindyn.identification.feasibility.inertia_family import InertiaFamily, find_member
from mindyn.identification.feasibility.positive_definite import check_positive_definite
from mindyn.parameters.base import BaseParameters
from mindyn.robots.robot import Robot

MAX_ANGLES: Final = 2
"""Largest number of angles: with more, there are too many functions to expand."""
ZERO_COEFFICIENT_RATIO: Final = 1e-10
"""Coefficient relative to the largest below which a function is absent."""
GRID_POINTS: Final = 15
"""Grid points per angle. Odd, because functions of 2 theta see half as many points of an even grid."""


@dataclass(frozen=True, slots=True, eq=False)
class Minor:
    """Leading principal minor of one order: p . f(theta), f = (cos, sin of frequencies . theta, ..., 1).

    frequencies  (k, angles) of the pairs of functions; the constant 1 comes last
    """

    family: InertiaFamily
    order: int
    frequencies: NDArray[np.int64]

    @property
    def count(self) -> int:
        """Return the number of functions."""
        return 2 * len(self.frequencies) + 1

    def functions(self, theta: Array) -> Array:
        """Return F (N, count) with rows f(theta), theta (N, angles)."""
        angles = theta @ self.frequencies.T
        waves = np.stack([np.cos(angles), np.sin(angles)], axis=2).reshape(len(theta), -1)
        return np.column_stack([waves, np.ones(len(theta))])

    def coefficients(self, beta: ArrayLike) -> Array:
        """Return p (count,) of base values."""
        c = _fourier(self.family, np.asarray(beta, dtype=np.float64), self.order)
        waves = [part for w in self.frequencies for part in (2 * c[tuple(w)].real, -2 * c[tuple(w)].imag)]
        return np.array([*waves, c[(0,) * c.ndim].real])

    def facets(self, points: int = GRID_POINTS) -> Array:
        """Return the distinct normals (m', count) of the cone on a grid with `points` values of each angle."""
        axis = 2 * np.pi * np.arange(points) / points
        F = self.functions(np.array(list(product(axis, repeat=self.frequencies.shape[1]))))
        return F[np.sort(np.unique(np.round(F, 12), axis=0, return_index=True)[1])]


def leading_minors(family: InertiaFamily) -> tuple[Minor, ...]:
    """Return the leading minors of order 1 to n, or raise `RobotError` if there are too many functions."""
    sliding = [family.joints[k].name for k in family.moving if family.joints[k].kind == "prismatic"]
    if sliding or len(family.moving) > MAX_ANGLES:
        cause = f"depends on prismatic joint {sliding[0]!r}" if sliding else f"depends on {len(family.moving)} angles"
        raise RobotError(
            f"the inertia matrix of {family.base.robot.name!r} {cause}, so its minors cannot be expanded",
            hint="check_positive_definite and make_feasible need no minors",
            code=Code.UNSUPPORTED,
            subject=family.base.robot.name,
        )
    return tuple(_expand_minor(family, order) for order in range(1, len(family.joints) + 1))


def check_by_cones(robot_or_base: Robot | BaseParameters, values: ArrayLike) -> Answer:
    """Check whether the coefficients of every leading minor lie in their cones."""
    family, beta = find_member((robot_or_base, values))
    orders = [_order_record(minor, beta) for minor in leading_minors(family)]
    failing = [record for record in orders if record["margin"] <= 0]
    cone = f"cone of a grid of {GRID_POINTS} points"
    if not failing:
        return Answer("positive_definite", True, f"every leading minor is inside its {cone}", {"minors": orders})
    margins = ", ".join(f"order {record['order']} by {-record['margin']:.3g}" for record in failing)
    return Answer("positive_definite", False, f"leading minors outside their {cone}: {margins}", {"minors": orders})


def _order_record(minor: Minor, beta: Array) -> dict[str, Any]:
    p = minor.coefficients(beta)
    slacks = minor.facets() @ p
    return {
        "order": minor.order,
        "coefficients": p.tolist(),
        "margin": float(slacks.min()),
        "violated_facets": int((slacks <= 0).sum()),
    }


def _expand_minor(family: InertiaFamily, order: int) -> Minor:
    """Return the minor with the frequencies that occur at random values; of w and -w, the positive one."""
    rng = np.random.default_rng(0)
    sizes = np.max([np.abs(_fourier(family, rng.normal(size=family.base.count), order)) for _ in range(4)], axis=0)
    degree = 2 * order
    spectrum = [w for w in product(range(-degree, degree + 1), repeat=sizes.ndim) if w > (0,) * sizes.ndim]
    kept = [w for w in spectrum if sizes[w] > ZERO_COEFFICIENT_RATIO * sizes.max()]
    return Minor(family, order, np.array(kept, dtype=np.int64).reshape(len(kept), sizes.ndim))


def _fourier(family: InertiaFamily, beta: Array, order: int) -> NDArray[np.complex128]:
    """Return exact Fourier coefficients of the minor: entries of M are of degree 2 in cos and sin of each angle."""
    points, angles = 4 * order + 1, len(family.moving)
    axis = 2 * np.pi * np.arange(points) / points
    q = np.zeros((points**angles, len(family.joints)))
    q[:, family.moving] = np.array(list(product(axis, repeat=angles)))
    minors = np.linalg.det(family.matrices(q, beta)[:, :order, :order])
    return np.asarray(np.fft.fftn(minors.reshape((points,) * angles))) / len(q)


STEP_INSIDE_RATIO: Final = 0.02
"""Length of the step inside a cone relative to the norm of the point."""
LONGER_STEP: Final = 2.0
"""Factor of the step if the cones of the grid contain values that are not positive definite."""
MAX_PROJECTION_ROUNDS: Final = 12
STAY_WEIGHT: Final = 1e-3
"""Weight of the distance from the values relative to that from the point in the cone, in step 4."""


def project_on_polyhedral_cone(p: Array, facets: Array) -> Array:
    """Return the nearest point to p of the cone facets @ p >= 0: p + facets^T x, x >= 0 of smallest norm (Moreau)."""
    from scipy.optimize import nnls

    x, _ = nnls(facets.T, -p)
    return np.asarray(p + facets.T @ x)


def project_by_cones(robot_or_base: Robot | BaseParameters, values: ArrayLike) -> Array:
    """Return base values inside the polyhedral cones of a grid: repeat steps 1 to 4 until every minor is inside.

    Step 4 takes the base values whose coefficients are nearest to the points in the cones, in units of their lengths:
    coefficients of a higher order do not fill a box, since they are polynomials of fewer values. It is not convex and
    may fail from values far outside, which raises `InputError`. If the inertia matrix is not positive definite between
    the points of the grid, the steps inside become longer: the result is positive definite in every configuration.
    """
    family, beta = find_member((robot_or_base, values))
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
