"""Yoshida's modification of impossible values, for robots small enough to expand [Yoshida 1996, section 4.4].

    1  compute p_i of the values, and find those outside their cones
    2  take the nearest point of each cone
    3  take a step inside
    4  find base values with these p_i

Lifted distances do not weigh parameters by their uncertainty, and step 4 is not convex;
`project_to_positive_definite` avoids both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from mindyn.algebra.values import Array
from mindyn.errors import Code, InputError
from mindyn.feasibility.inertia_family import find_member
from mindyn.feasibility.yoshida_cones import GRID_POINTS, Minor, minors_of
from mindyn.parameters.base import BaseParameters
from mindyn.robots.robot import Robot

STEP_INSIDE_RATIO: Final = 0.02
"""Length of the step inside a cone relative to the norm of the point."""
MAX_PROJECTION_ROUNDS: Final = 12
STAY_WEIGHT: Final = 1e-3
"""Weight of the distance from the values relative to that from the point in the cone, in step 4."""


@dataclass(frozen=True, slots=True)
class TwoLinks:
    """Base values of a planar two-link arm: J1 (with m2 L^2), J2 kg m^2, Rx, Ry kg m of link 2, L m of link 1."""

    J1: float
    J2: float
    Rx: float
    Ry: float
    L: float

    @property
    def is_possible(self) -> bool:
        """Return whether J1, J2 > 0 and J1 J2 > L^2 (Rx^2 + Ry^2); then the minor of order 1 is positive too."""
        return self.J1 > 0 and self.J2 > 0 and self.L**2 * (self.Rx**2 + self.Ry**2) < self.J1 * self.J2

    @property
    def second_minor(self) -> Array:
        """Return p_2 for the functions (cos 2 theta_2, sin 2 theta_2, 1)."""
        Rx, Ry, L2 = self.Rx, self.Ry, self.L**2
        return np.array([-L2 * (Rx**2 - Ry**2) / 2, L2 * Rx * Ry, self.J1 * self.J2 - L2 * (Rx**2 + Ry**2) / 2])


def project_on_circular_cone(p: Array) -> Array:
    """Return the nearest point to p (3,) of the cone p_3 >= |(p_1, p_2)|."""
    n = float(np.hypot(p[0], p[1]))
    if n <= p[2]:
        return p
    if n <= -p[2]:
        return np.zeros(3)
    s = (n + p[2]) / 2
    return np.array([s * p[0] / n, s * p[1] / n, s])


def project_on_polyhedral_cone(p: Array, facets: Array) -> Array:
    """Return the nearest point to p of the cone facets @ p >= 0: p + facets^T x, x >= 0 of smallest norm (Moreau)."""
    from scipy.optimize import nnls

    x, _ = nnls(facets.T, -p)
    return np.asarray(p + facets.T @ x)


def project_two_links(arm: TwoLinks, *, inside: float = STEP_INSIDE_RATIO) -> TwoLinks:
    """Apply steps 1 to 4 in closed form, with the exact cone of the minor of order 2.

    J1 + J2 stays constant, and J1 J2 is the fraction `inside` above the boundary.
    """
    if arm.is_possible:
        return arm
    p = project_on_circular_cone(arm.second_minor)
    n = float(np.hypot(p[0], p[1]))
    rho, angle = np.sqrt(2 * n) / arm.L, _angle(arm, p)
    product, total = (1 + inside) * (p[2] + n), arm.J1 + arm.J2
    square = total**2 / 4 - product
    if total <= 0 or square < 0 or product <= 0:
        raise InputError(
            f"no J1 and J2 have the sum {total:.4g} of the values and the product {product:.4g} that the cone requires",
            hint="project_to_positive_definite moves all base values at once",
            code=Code.NOT_FEASIBLE,
            subject="J1, J2",
        )
    larger, smaller = total / 2 + np.sqrt(square), total / 2 - np.sqrt(square)
    J1, J2 = (larger, smaller) if arm.J1 >= arm.J2 else (smaller, larger)
    return TwoLinks(float(J1), float(J2), float(rho * np.cos(angle)), float(rho * np.sin(angle)), arm.L)


def project_by_cones(
    robot_or_base: Robot | BaseParameters,
    values: ArrayLike,
    *,
    points: int = GRID_POINTS,
    inside: float = STEP_INSIDE_RATIO,
) -> Array:
    """Return base values inside the polyhedral cones of a grid: repeat steps 1 to 4 until every minor is inside.

    Step 4 takes the base values whose coefficients are nearest to the points in the cones, in units of their lengths:
    coefficients of a higher order do not fill a box, since they are polynomials of fewer values. It is not convex and
    may fail from values far outside, which raises `InputError`.
    """
    member = find_member((robot_or_base, values))
    minors = minors_of(member)
    facets = [minor.facets(points) for minor in minors]
    beta = member.values.copy()
    for _ in range(MAX_PROJECTION_ROUNDS):
        lifted = [minor.coefficients(beta) for minor in minors]
        if all((F @ p > 0).all() for F, p in zip(facets, lifted, strict=True)):
            return beta
        goals = [_step_inside(project_on_polyhedral_cone(p, F), F, inside) for p, F in zip(lifted, facets, strict=True)]
        beta = _solve_base_values(minors, goals, beta)
    raise InputError(
        f"{MAX_PROJECTION_ROUNDS} rounds of Yoshida's modification found no base values inside the cones",
        hint="project_to_positive_definite is convex and always converges",
        code=Code.NOT_CONVERGED,
        subject="values",
    )


def _angle(arm: TwoLinks, p: Array) -> float:
    """Return the angle of R: p_2 determines it up to a half turn, and R of the arm decides."""
    angle = float(np.arctan2(p[1], -p[0])) / 2
    return angle if np.cos(angle) * arm.Rx + np.sin(angle) * arm.Ry >= 0 else angle + np.pi


def _step_inside(p: Array, facets: Array, inside: float) -> Array:
    """Move p along the axis of the constant function until every facet is `inside` times its length away."""
    short = inside * float(np.linalg.norm(p)) - float((facets @ p).min())
    return np.asarray(p + max(0.0, short) * np.eye(len(p))[-1])


def _solve_base_values(minors: tuple[Minor, ...], goals: list[Array], beta: Array) -> Array:
    from scipy.optimize import least_squares

    sizes = [max(float(np.linalg.norm(goal)), 1e-300) for goal in goals]
    units = np.maximum(np.abs(beta), 0.01 * np.abs(beta).max())

    def misses(x: Array) -> Array:
        lifted = [minor.coefficients(beta + units * x) for minor in minors]
        return np.concatenate([*((p - g) / s for p, g, s in zip(lifted, goals, sizes, strict=True)), STAY_WEIGHT * x])

    return np.asarray(beta + units * least_squares(misses, np.zeros(len(beta))).x)
