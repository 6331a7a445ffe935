"""Draw from a normal distribution, and project each draw onto matrices between bounds.

z is standard normal. A draw that violates linear rows or makes a matrix indefinite is replaced by the nearest z that
does not: the projected posterior [Sen, Patra & Dunson 2018]. Draws are independent, and as far from the middle as the
conditions allow; a normal distribution that is cut off at the conditions would push them away from all boundaries.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from mindyn.foundation.algebra.values import Array
from mindyn.identification.feasibility.optimisation.conic_program import ConeRows, ConicError, ConicProgram, triangle

KEPT_FRACTION: Final = 0.999
"""Fraction of the way to the boundary that a draw may take: its matrices must stay positive definite."""
BISECTION_STEPS: Final = 30


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

    def holds(self, z: Array) -> bool:
        """Return whether z satisfies all conditions."""
        return bool((self.margins(z) > 0).all())

    def cones(self) -> list[ConeRows]:
        """Return the conditions as rows of a conic program."""
        order = self.constants.shape[-1]
        cones = [
            ConeRows("semidefinite", triangle(slopes), triangle(constant[None])[:, 0], order)
            for constant, slopes in zip(self.constants, self.matrices, strict=True)
        ]
        return [ConeRows("nonnegative", self.rows, self.offsets), *cones] if len(self.rows) else cones


def draw_projected(restriction: Restriction, start: Array, rng: np.random.Generator) -> Iterator[tuple[Array, Array]]:
    """Yield draws of z without end, before and after the projection; `start` satisfies all conditions with a margin."""
    cones = restriction.cones()
    while True:
        drawn = rng.normal(size=len(start))
        yield drawn, _nearest_inside(restriction, cones, start, drawn)


def _nearest_inside(restriction: Restriction, cones: list[ConeRows], start: Array, drawn: Array) -> Array:
    """Return the z nearest to a draw that satisfies the conditions; if none is found, the farthest on the way to it."""
    if restriction.holds(drawn):
        return drawn
    program = ConicProgram(len(drawn))
    program.add_squares(np.eye(len(drawn)), drawn)
    program.add_rows(*cones)
    try:
        nearest = start + KEPT_FRACTION * (program.solve().x - start)
    except ConicError:
        nearest = drawn
    low, high = 0.0, 1.0
    if restriction.holds(nearest):
        return np.asarray(nearest)
    for _ in range(BISECTION_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if restriction.holds(start + middle * (nearest - start)) else (low, middle)
    return np.asarray(start + KEPT_FRACTION * low * (nearest - start))
