"""Leading minors of small robots as p_i . f_i(theta), and the cones of p_i that keep them positive.

Minor i of M(theta; beta) is a trigonometric polynomial: p_i, polynomials of degree i in the base values, times
independent functions f_i of the angles. On a grid of angles F_i^T p_i > 0 is a polyhedral cone, whose facets have the
normals f_i(theta_k) [Yoshida 1996, eq. 4.8-4.25]. The grid's test is necessary, not sufficient.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mindyn.algebra.values import Array
from mindyn.errors import InputError, RobotError
from mindyn.feasibility.answer import Answer
from mindyn.feasibility.inertia_family import FamilyMember, InertiaFamily, find_member
from mindyn.parameters.base import BaseParameters
from mindyn.robots.robot import Robot

MAX_ANGLES: Final = 2
"""Angles beyond which the functions are too many to expand."""
ZERO_COEFFICIENT_RATIO: Final = 1e-10
"""Part of the largest coefficient below which a function does not occur."""
GRID_POINTS: Final = 15
"""Points of the grid for each angle. Odd: functions of 2 theta see half as many points of an even grid."""


@dataclass(frozen=True, slots=True, eq=False)
class Minor:
    """The leading principal minor of one order: p . f(theta), f = (cos, sin of frequencies . theta, ..., 1).

    frequencies  (k, angles) of the pairs of functions; the constant 1 comes last
    """

    family: InertiaFamily
    order: int
    frequencies: NDArray[np.int64]

    @property
    def count(self) -> int:
        """Number of functions."""
        return 2 * len(self.frequencies) + 1

    @property
    def is_circular(self) -> bool:
        """Whether the exact cone is p_3 > |(p_1, p_2)|."""
        return len(self.frequencies) == 1

    def functions(self, theta: Array) -> Array:
        """F (N, count): rows f(theta), theta (N, angles)."""
        angles = theta @ self.frequencies.T
        waves = np.stack([np.cos(angles), np.sin(angles)], axis=2).reshape(len(theta), -1)
        return np.column_stack([waves, np.ones(len(theta))])

    def coefficients(self, beta: ArrayLike) -> Array:
        """p (count,) of base values."""
        c = _fourier(self.family, np.asarray(beta, dtype=np.float64), self.order)
        waves = [part for w in self.frequencies for part in (2 * c[tuple(w)].real, -2 * c[tuple(w)].imag)]
        return np.array([*waves, c[(0,) * c.ndim].real])

    def facets(self, points: int = GRID_POINTS) -> Array:
        """(m', count): the distinct normals of the cone on a grid with `points` values of each angle."""
        axis = 2 * np.pi * np.arange(points) / points
        F = self.functions(np.array(list(product(axis, repeat=self.frequencies.shape[1]))))
        return F[np.sort(np.unique(np.round(F, 12), axis=0, return_index=True)[1])]

    def margin(self, p: Array, points: int | None) -> float:
        """The least of f . p: over a grid, or exactly where the cone is circular and points is None."""
        if points is not None:
            return float((self.facets(points) @ p).min())
        self.require_circular()
        return float(p[2] - np.hypot(p[0], p[1]))

    def require_circular(self) -> None:
        """Refuse an exact answer where there is a polyhedral one alone."""
        if not self.is_circular:
            raise InputError(
                f"the cone of the minor of order {self.order} is not circular: it has {self.count} functions",
                hint="give points=, an odd number of points of a grid",
            )


def leading_minors(of: Robot | BaseParameters, values: ArrayLike) -> tuple[Minor, ...]:
    """The leading minors of a robot's inertia matrix, of order 1 to n; refused where there are too many functions."""
    return minors_of(find_member((of, values)))


def minors_of(member: FamilyMember) -> tuple[Minor, ...]:
    """The same for a member of a family."""
    family = member.family
    sliding = [family.joints[k].name for k in family.moving if family.joints[k].kind == "prismatic"]
    if sliding or len(family.moving) > MAX_ANGLES:
        cause = f"depends on {sliding[0]!r}, which slides" if sliding else f"depends on {len(family.moving)} angles"
        raise RobotError(
            f"the inertia matrix of {family.base.robot.name!r} {cause}: its minors are not expanded",
            hint="judge_possible and mend_possible need no minors",
        )
    return tuple(_expand_minor(family, order) for order in range(1, len(family.joints) + 1))


def check_by_cones(of: Robot | BaseParameters, values: ArrayLike, *, points: int | None = GRID_POINTS) -> Answer:
    """Whether the coefficients of every leading minor lie in their cones.

    points  of the grid for each angle; None: the exact cones, where they are circular
    """
    member = find_member((of, values))
    orders = [_order_record(minor, member.values, points) for minor in minors_of(member)]
    failing = [one for one in orders if one["margin"] <= 0]
    cone = "exact cone" if points is None else f"cone of a grid of {points} points"
    if not failing:
        return Answer("positive_definite", True, f"every leading minor is inside its {cone}", {"minors": orders})
    told = ", ".join(f"order {one['order']} by {-one['margin']:.3g}" for one in failing)
    return Answer("positive_definite", False, f"leading minors outside their {cone}: {told}", {"minors": orders})


def _order_record(minor: Minor, beta: Array, points: int | None) -> dict[str, Any]:
    p = minor.coefficients(beta)
    violated = None if points is None else int((minor.facets(points) @ p <= 0).sum())
    return {
        "order": minor.order,
        "coefficients": p.tolist(),
        "margin": minor.margin(p, points),
        "violated_facets": violated,
    }


def _expand_minor(family: InertiaFamily, order: int) -> Minor:
    """Frequencies with a coefficient at some random values; of w and -w one, the first not zero entry positive."""
    rng = np.random.default_rng(0)
    sizes = np.max([np.abs(_fourier(family, rng.normal(size=family.base.count), order)) for _ in range(4)], axis=0)
    degree = 2 * order
    spectrum = [w for w in product(range(-degree, degree + 1), repeat=sizes.ndim) if w > (0,) * sizes.ndim]
    kept = [w for w in spectrum if sizes[w] > ZERO_COEFFICIENT_RATIO * sizes.max()]
    return Minor(family, order, np.array(kept, dtype=np.int64).reshape(len(kept), sizes.ndim))


def _fourier(family: InertiaFamily, beta: Array, order: int) -> NDArray[np.complex128]:
    """Fourier coefficients of the minor; exact, as entries of M are of degree 2 in cos and sin of each angle."""
    points, angles = 4 * order + 1, len(family.moving)
    axis = 2 * np.pi * np.arange(points) / points
    q = np.zeros((points**angles, len(family.joints)))
    q[:, family.moving] = np.array(list(product(axis, repeat=angles)))
    minors = np.linalg.det(family.matrices(q, beta)[:, :order, :order])
    return np.asarray(np.fft.fftn(minors.reshape((points,) * angles))) / len(q)
