"""Draw from a normal distribution restricted to matrices between bounds, by hit-and-run.

z is standard normal, restricted by linear rows and by positive definite matrices. Each step of hit-and-run draws a
random direction, computes the interval of steps that stay inside, and draws the step from the normal distribution on
this interval [Smith 1984; Belisle, Romeijn & Smith 1993]. The stationary distribution of these steps is the restricted
normal distribution. The covariance of directions is the inverse Hessian, at its minimum, of 1/2 |z|^2 with logarithmic
barriers, so that narrow conditions do not shorten the steps in other directions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.special import log_ndtr, ndtri_exp

from mindyn.foundation.algebra.values import Array

KEPT_FRACTION: Final = 0.999
"""Largest step, as a fraction of the distance to the boundary, because the next factorisation needs an inner point."""
NEWTON_STEPS: Final = 200
CENTRED: Final = 0.1
"""Newton decrement at which the centre is accurate enough for scaling directions."""
BURN_IN_STEPS: Final = 20
"""Steps before the first draw, as a multiple of the number of dimensions."""
STEPS_BETWEEN: Final = 3
"""Steps between two draws, as a multiple of the number of dimensions."""


@dataclass(frozen=True, slots=True, eq=False)
class Restriction:
    """Conditions on z.

    rows, offsets   rows @ z + offsets >= 0
    matrices, constants  constants[i] + sum_k z_k matrices[i, k] is positive definite, (c, d, n, n) and (c, n, n)
    """

    rows: Array
    offsets: Array
    matrices: Array
    constants: Array

    def margins(self, z: Array) -> Array:
        """Return the values of the rows and the smallest eigenvalues of the matrices."""
        if not len(self.constants):
            return self.rows @ z + self.offsets
        matrices = self.constants + np.tensordot(z, self.matrices, axes=(0, 1))
        return np.concatenate([self.rows @ z + self.offsets, np.linalg.eigvalsh(matrices)[:, 0]])

    def gradient_and_hessian(self, z: Array) -> tuple[Array, Array]:
        """Return the derivatives of 1/2 |z|^2 minus the logarithms of the rows and of the determinants."""
        slopes = self.rows / (self.rows @ z + self.offsets)[:, None]
        gradient, hessian = z - slopes.sum(axis=0), np.eye(len(z)) + slopes.T @ slopes
        for constant, matrices in zip(self.constants, self.matrices, strict=True):
            inverse = np.linalg.inv(np.linalg.cholesky(constant + np.tensordot(z, matrices, axes=1)))
            parts = inverse @ matrices @ inverse.T
            gradient -= np.trace(parts, axis1=1, axis2=2)
            flat: Array = np.asarray(parts).reshape(len(z), -1)
            hessian += flat @ flat.T
        return gradient, hessian


def _centre(restriction: Restriction, start: Array) -> tuple[Array, Array]:
    """Return z near the minimum of the barrier function, and the Hessian there, by damped Newton steps."""
    z = start.copy()
    gradient, hessian = restriction.gradient_and_hessian(z)
    for _ in range(NEWTON_STEPS):
        size = np.sqrt(np.diag(hessian))
        step = -np.linalg.solve(hessian / np.outer(size, size), gradient / size) / size
        decrement = float(np.sqrt(max(float(-gradient @ step), 0.0)))
        if decrement < CENTRED:
            break
        step /= 1 + decrement  # stays inside without rounding: the barriers are self-concordant
        while not (restriction.margins(z + step) > 0).all():
            step /= 2
        z = z + step
        gradient, hessian = restriction.gradient_and_hessian(z)
    return z, hessian


def draw_restricted(restriction: Restriction, start: Array, rng: np.random.Generator) -> Iterator[Array]:
    """Yield draws of z without end. `start` must satisfy all conditions with a margin."""
    z, hessian = _centre(restriction, start)
    scale = np.linalg.inv(np.linalg.cholesky(hessian)).T
    steps = BURN_IN_STEPS * len(start)
    values = restriction.rows @ z + restriction.offsets
    while True:
        matrices = restriction.constants + np.tensordot(z, restriction.matrices, axes=(0, 1))
        for _ in range(steps):
            direction = scale @ rng.normal(size=len(z))
            direction /= np.linalg.norm(direction)
            slopes = restriction.rows @ direction
            turns = np.tensordot(direction, restriction.matrices, axes=(0, 1))
            low, high = _inner_steps(values, slopes, matrices, turns)
            step = _draw_normal(-float(z @ direction), low, high, rng)
            z, values, matrices = z + step * direction, values + step * slopes, matrices + step * turns
        yield z.copy()
        steps = STEPS_BETWEEN * len(z)


def _inner_steps(values: Array, slopes: Array, matrices: Array, turns: Array) -> tuple[float, float]:
    """Return the interval of steps t with values + t slopes >= 0 and matrices + t turns positive definite."""
    rates = [np.divide(slopes, values, out=np.zeros_like(slopes), where=values > 0)]
    if len(matrices):
        inverse = np.linalg.inv(np.linalg.cholesky(matrices))
        rates.append(np.linalg.eigvalsh(inverse @ turns @ inverse.transpose(0, 2, 1)).ravel())
    rate = np.concatenate(rates)
    fastest, slowest = float(rate.max(initial=0.0)), float(rate.min(initial=0.0))
    low = -KEPT_FRACTION / fastest if fastest > 0 else -np.inf
    return low, KEPT_FRACTION / -slowest if slowest < 0 else np.inf


def _draw_normal(mean: float, low: float, high: float, rng: np.random.Generator) -> float:
    """Draw from the normal distribution with deviation 1 on an interval, by the inverse of its logarithmic integral."""
    a, b = low - mean, high - mean
    sign = 1.0
    if a > 0:  # the lower tail has more digits
        a, b, sign = -b, -a, -1.0
    below, above = float(log_ndtr(a)), float(log_ndtr(b))
    u = rng.uniform()
    drawn = float(ndtri_exp(above + np.log(u + (1 - u) * np.exp(below - above))))
    return mean + sign * min(max(drawn, a), b)
