"""Nearest values whose inertia matrix is at least eps in every configuration, by cutting planes.

    minimise |y|^2  subject to  u^T M(q; beta) u >= eps |u|^2 for every q and u,    beta = centre + spread @ y

M is linear in beta, so every pair (q, u) is a half space, and the feasible set is convex. Each round adds the half
spaces that the current solution violates most; minors are not needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from mindyn.algebra.values import Array
from mindyn.errors import Code, InputError
from mindyn.feasibility.conic import ConeRows, ConicError, ConicProgram
from mindyn.feasibility.inertia_family import FamilyMember
from mindyn.feasibility.worst_configurations import descend_from, sample_configurations, smallest_eigenvalues

CONFIGURATIONS_PER_ROUND: Final = 6_000
"""Configurations sampled in each round."""
FINAL_CONFIGURATIONS: Final = 60_000
"""Configurations of a final check ..."""
CHECKED_SAMPLES: Final = 2
"""... and the number of such checks: all descents of one sample may miss the worst configuration."""
EPS_TOLERANCE: Final = 0.01
"""Relative amount by which the smallest eigenvalue may be below eps."""
MAX_CUT_ROUNDS: Final = 300
MIN_KEPT_CUTS: Final = 300
"""Number of newest cuts that are always kept; older ones are dropped if they are not active."""
ACTIVE_MULTIPLIER_RATIO: Final = 1e-7
"""Multiplier relative to the largest above which a cut is active."""
SAMPLE_CUTS: Final = 40
"""Sampled configurations in each round whose cuts are added to those of the descents."""


class FixedParametersError(InputError):
    """Error raised if fixed parameters make the inertia matrix indefinite, whatever the others are."""


@dataclass(frozen=True, slots=True, eq=False)
class NearestPositiveDefinite:
    """Result of the projection.

    beta      (p,) all parameters, projected
    y         (k,) the move in the coordinates of its cost; |y| is the distance
    before    smallest eigenvalue of the given values
    after     smallest eigenvalue of the projected values, at configurations that made no cut
    rounds    number of rounds
    cuts      half spaces in the last round
    """

    beta: Array
    y: Array
    before: float
    after: float
    rounds: int
    cuts: int

    @property
    def distance(self) -> float:
        """Return the length of the move in units of its cost."""
        return float(np.linalg.norm(self.y))


def find_nearest_positive_definite(
    member: FamilyMember, centre: Array, spread: Array, eps: float, ranges: Array, seed: int
) -> NearestPositiveDefinite:
    """Return the nearest beta (p,) to `centre` in the metric of `spread` (p, k).

    `member.chart` (count, p) maps beta to the values of the family. eps is the smallest eigenvalue, kg m^2 (prismatic
    joints in units of the length of the robot).
    """
    family, cuts = member.family, _Cuts(member, centre, spread, eps)
    y, before = np.zeros(spread.shape[1]), np.nan
    for number in range(MAX_CUT_ROUNDS):
        beta = centre + spread @ y
        lowest = cuts.add_violated(
            beta, sample_configurations(ranges, CONFIGURATIONS_PER_ROUND, seed + 2 * number), ranges
        )
        before = lowest if number == 0 else before
        after = lowest
        if lowest >= eps * (1 - EPS_TOLERANCE):
            for check in range(CHECKED_SAMPLES):
                fresh = sample_configurations(
                    ranges, FINAL_CONFIGURATIONS, seed + 2 * number + 1 + check * 2 * MAX_CUT_ROUNDS
                )
                after = min(after, cuts.add_violated(beta, fresh, ranges))
                if after < eps * (1 - EPS_TOLERANCE):
                    break
            else:
                return NearestPositiveDefinite(beta, y, before, after, number, len(cuts.rows))
        y = cuts.nearest()
    raise InputError(
        f"after {MAX_CUT_ROUNDS} rounds the smallest eigenvalue is still {after:.3g} kg m^2",
        code=Code.NOT_CONVERGED,
        subject=family.base.robot.name,
    )


class _Cuts:
    """Half spaces rows @ y >= sides with rows of unit length."""

    def __init__(self, member: FamilyMember, centre: Array, spread: Array, eps: float) -> None:
        self.member, self.centre, self.spread, self.eps = member, centre, spread, eps
        self.rows = np.zeros((0, spread.shape[1]))
        self.sides = np.zeros(0)

    def add_violated(self, beta: Array, q: Array, ranges: Array) -> float:
        """Add cuts at the worst configurations and at the minima of descents; return the smallest eigenvalue."""
        family, values = self.member.family, self.member.chart @ beta
        least = smallest_eigenvalues(family, values, q)
        minima = descend_from(family, values, ranges, q, least)
        sampled = np.argsort(least)[:: max(1, len(q) // (10 * SAMPLE_CUTS))][:SAMPLE_CUTS]
        self._add(values, np.concatenate([minima.q, q[sampled[least[sampled] < self.eps]]]))
        return float(min(minima.values[0], least.min()))

    def _add(self, values: Array, q: Array) -> None:
        """Add a cut for every eigenvector whose eigenvalue is below eps."""
        eigenvalues, vectors = np.linalg.eigh(self.member.family.matrices(q, values))
        where, which = np.nonzero(eigenvalues < self.eps)
        if not len(where):
            return
        rows = self.member.family.rows(q[where], vectors[where, :, which]) @ self.member.chart
        slopes = rows @ self.spread
        lengths = np.linalg.norm(slopes, axis=1)
        self._require_movable(lengths, np.linalg.norm(rows, axis=1))
        self.rows = np.vstack([self.rows, slopes / lengths[:, None]])
        self.sides = np.append(self.sides, (self.eps - rows @ self.centre) / lengths)

    def nearest(self) -> Array:
        """Return the shortest y that satisfies all cuts."""
        size = float(self.sides.max())
        k = self.spread.shape[1]
        program = ConicProgram(k)
        program.add_squares(np.eye(k), np.zeros(k))
        program.add_rows(ConeRows("nonnegative", self.rows, -self.sides / size))
        try:
            minimum = program.solve()
        except ConicError as error:
            count = len(self.rows)
            raise _no_solution_error(
                f"no values of the free parameters satisfy all of {count} cuts ({error})"
            ) from error
        (multipliers,) = minimum.duals
        self._drop_inactive(multipliers)
        return size * minimum.x

    def _drop_inactive(self, multipliers: Array) -> None:
        """Drop old inactive cuts; the distance grows from round to round as long as the active cuts stay."""
        kept = multipliers > ACTIVE_MULTIPLIER_RATIO * multipliers.max()
        kept[-MIN_KEPT_CUTS:] = True
        self.rows, self.sides = self.rows[kept], self.sides[kept]

    def _require_movable(self, lengths: Array, before: Array) -> None:
        if (lengths <= 1e-14 * before * np.abs(self.spread).max()).any():
            raise _no_solution_error("the inertia matrix fails in a direction that no free parameter changes")


def _no_solution_error(message: str) -> FixedParametersError:
    return FixedParametersError(
        f"{message}: fixed parameters make the inertia matrix indefinite",
        hint="let more parameters move, or pass a smaller eps",
        code=Code.NOT_FEASIBLE,
        subject="fixed parameters",
    )
