"""Check the leading minors of small robots by polyhedral cones [Yoshida 1996, eq. 4.8-4.25].

Minor i of M(theta; beta) is p_i . f_i(theta): the coefficients p_i are polynomials of degree i in the base values, and
the entries of f_i are independent trigonometric functions of the angles. Minor i is positive at every angle of a grid
if p_i lies inside a polyhedral cone, whose facets have the normals f_i(theta_k). The test is necessary, not sufficient:
between the angles of the grid, a minor may still be negative.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, RobotError
from mindyn.identification.feasibility.checks.answer import Answer
from mindyn.identification.feasibility.conditions.inertia_matrix_family import InertiaMatrixFamily, resolve_subject
from mindyn.parameters.base_parameters import BaseParameters
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

    frequencies  (k, angles) frequencies of the pairs of functions; the constant 1 comes last
    """

    family: InertiaMatrixFamily
    order: int
    frequencies: NDArray[np.int64]

    @property
    def basis_size(self) -> int:
        """Return the number of basis functions f of this minor."""
        return 2 * len(self.frequencies) + 1

    def basis_rows(self, theta: Array) -> Array:
        """Return the basis functions at theta (N, angles): F (N, basis_size) with one row f(theta) for each angle."""
        angles = theta @ self.frequencies.T
        waves = np.stack([np.cos(angles), np.sin(angles)], axis=2).reshape(len(theta), -1)
        return np.column_stack([waves, np.ones(len(theta))])

    def coefficients(self, beta: ArrayLike) -> Array:
        """Return the coefficients p (basis_size,) of base values."""
        c = _fourier(self.family, np.asarray(beta, dtype=np.float64), self.order)
        waves = [part for w in self.frequencies for part in (2 * c[tuple(w)].real, -2 * c[tuple(w)].imag)]
        return np.array([*waves, c[(0,) * c.ndim].real])

    def facets(self, points: int = GRID_POINTS) -> Array:
        """Return the distinct normals (m', basis_size) of the facets of the cone, on a grid with `points` values of
        each angle.
        """
        axis = 2 * np.pi * np.arange(points) / points
        F = self.basis_rows(np.array(list(product(axis, repeat=self.frequencies.shape[1]))))
        return F[np.sort(np.unique(np.round(F, 12), axis=0, return_index=True)[1])]


def leading_minors(family: InertiaMatrixFamily) -> tuple[Minor, ...]:
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
    family, beta = resolve_subject((robot_or_base, values))
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


def _expand_minor(family: InertiaMatrixFamily, order: int) -> Minor:
    """Expand a minor of the inertia matrix as a Fourier series in the joint positions.

    Its frequencies are those with a coefficient for random base values; of w and -w only one is kept.
    """
    rng = np.random.default_rng(0)
    sizes = np.max([np.abs(_fourier(family, rng.normal(size=family.base.count), order)) for _ in range(4)], axis=0)
    degree = 2 * order
    spectrum = [w for w in product(range(-degree, degree + 1), repeat=sizes.ndim) if w > (0,) * sizes.ndim]
    kept = [w for w in spectrum if sizes[w] > ZERO_COEFFICIENT_RATIO * sizes.max()]
    return Minor(family, order, np.array(kept, dtype=np.int64).reshape(len(kept), sizes.ndim))


def _fourier(family: InertiaMatrixFamily, beta: Array, order: int) -> NDArray[np.complex128]:
    """Return the exact Fourier coefficients of the minor; the entries of M have degree 2 in the cos and sin of each
    angle.
    """
    points, angles = 4 * order + 1, len(family.moving)
    axis = 2 * np.pi * np.arange(points) / points
    q = np.zeros((points**angles, len(family.joints)))
    q[:, family.moving] = np.array(list(product(axis, repeat=angles)))
    minors = np.linalg.det(family.matrices(q, beta)[:, :order, :order])
    return np.asarray(np.fft.fftn(minors.reshape((points,) * angles))) / len(q)
