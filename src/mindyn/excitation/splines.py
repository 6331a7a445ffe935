"""`BSpline`: clamped uniform B-splines whose outer control points are at the start."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from scipy.interpolate import BSpline as Spline

from mindyn.algebra.values import Array
from mindyn.schemas import POSITIVE_INTEGER, require_valid

SPLINE_DEGREE: Final = 5
"""Quintic: accelerations and jerks are smooth."""
RESTING: Final = 4
"""Control points at either end that stay at the start: position, velocity, acceleration and jerk are then zero."""


@dataclass(frozen=True, slots=True)
class BSpline:
    """Quintic B-splines on uniform knots that start and end at rest.

    Parameters
    ----------
    points : int, default 12
        Number of free control points of each joint, between four resting ones at either end.

    Raises
    ------
    InputError
        If `points` is not a positive whole number.

    Examples
    --------
    >>> BSpline(8).count
    8
    """

    points: int = 12

    def __post_init__(self) -> None:
        require_valid(self.points, POSITIVE_INTEGER, "points")

    @property
    def count(self) -> int:
        """Return m."""
        return self.points

    def cycles(self, seconds: float) -> float:  # noqa: ARG002 - splines scale with the motion
        """Return the number of cycles: a swing there and back takes at least two intervals between knots."""
        return self.intervals / 2

    @property
    def intervals(self) -> int:
        """Return the number of polynomial pieces."""
        return self.points + 2 * RESTING - SPLINE_DEGREE

    def knots(self, seconds: float) -> Array:
        """Return the knots (points + 8 + 6,); the outer ones are six-fold."""
        inner = np.linspace(0.0, seconds, self.intervals + 1)
        return np.concatenate([np.zeros(SPLINE_DEGREE), inner, np.full(SPLINE_DEGREE, seconds)])

    def basis(self, t: Array, seconds: float, order: int) -> Array:
        """(N, m); see `Family`."""
        spline = self.spline(np.eye(self.points), seconds)
        return np.asarray(spline(t) if order == 0 else spline.derivative(order)(t))

    def spline(self, coefficients: Array, seconds: float) -> Spline:
        """Return the displacements (m, n) as a SciPy spline."""
        resting = np.zeros((RESTING, coefficients.shape[1]))
        return Spline(self.knots(seconds), np.concatenate([resting, coefficients, resting]), SPLINE_DEGREE)

    def to_dict(self) -> dict[str, Any]:
        """See `Family`."""
        return {"kind": "BSpline", "points": self.points, "degree": SPLINE_DEGREE}
