"""The nearest values whose inertia matrix is at least eps everywhere, by cutting planes.

    minimise |y|^2  subject to  u^T M(q; beta) u >= eps |u|^2 for every q and u,    beta = centre + spread @ y

M is linear in beta, so that every pair (q, u) is a half space. Rounds add those that the solution so far violates
most; no minors are needed, and the set is convex.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from mindyn.algebra.values import Array
from mindyn.errors import InputError
from mindyn.feasibility.configurations import sample_configurations
from mindyn.feasibility.conic import ConeRows, ConicError, ConicProgram
from mindyn.feasibility.inertia_family import FamilyMember
from mindyn.feasibility.worst_configurations import descend_from, smallest_eigenvalues

CONFIGURATIONS_PER_ROUND: Final = 6_000
"""Configurations of one round; each round has its own."""
FINAL_CONFIGURATIONS: Final = 60_000
"""Configurations that a solution must pass at the end ..."""
CHECKED_SAMPLES: Final = 2
"""... and how many such samples: descents from one of them may all end beside the worst place."""
EPS_TOLERANCE: Final = 0.01
"""Part of eps by which the smallest eigenvalue may fall short of it."""
MAX_CUT_ROUNDS: Final = 300
MIN_KEPT_CUTS: Final = 300
"""Newest cuts, which are kept whatever their multiplier; older ones are dropped when they are not active."""
ACTIVE_MULTIPLIER_RATIO: Final = 1e-7
"""Multiplier of a cut, as part of the largest, from which on it counts as active."""
SAMPLE_CUTS: Final = 40
"""Configurations of a round's sample whose cuts are added beside those of the descents."""


class FixedParametersError(InputError):
    """Parameters that may not move make the inertia matrix indefinite, whatever the others are."""


@dataclass(frozen=True, slots=True, eq=False)
class NearestPositiveDefinite:
    """What was found.

    beta      (p,) all parameters, mended
    y         (k,) the move in the coordinates of its price; |y| is the distance
    before    smallest eigenvalue of the values as given
    after     and of the mended ones, at configurations that made no cut
    rounds    of cuts
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
        """The length of the move, in the units of its price."""
        return float(np.linalg.norm(self.y))


def find_nearest_positive_definite(
    member: FamilyMember, centre: Array, spread: Array, eps: float, ranges: Array, seed: int
) -> NearestPositiveDefinite:
    """The nearest beta (p,) to `centre` in the metric of `spread` (p, k).

    member  family, and chart (count, p) from beta to its values
    eps     least eigenvalue, kg m^2 (prismatic joints in units of the robot's length)
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
        f"after {MAX_CUT_ROUNDS} rounds the inertia matrix of {family.base.robot.name!r} still falls to {after:.3g} kg m^2"
    )


class _Cuts:
    """Half spaces rows @ y >= sides, rows of unit length."""

    def __init__(self, member: FamilyMember, centre: Array, spread: Array, eps: float) -> None:
        self.member, self.centre, self.spread, self.eps = member, centre, spread, eps
        self.rows = np.zeros((0, spread.shape[1]))
        self.sides = np.zeros(0)

    def add_violated(self, beta: Array, q: Array, ranges: Array) -> float:
        """Cuts at the worst of the configurations and at the minima that descents reach; the smallest eigenvalue."""
        family, values = self.member.family, self.member.chart @ beta
        least = smallest_eigenvalues(family, values, q)
        minima = descend_from(family, values, ranges, q, least)
        beside = np.argsort(least)[:: max(1, len(q) // (10 * SAMPLE_CUTS))][:SAMPLE_CUTS]
        self._add(values, np.concatenate([minima.q, q[beside[least[beside] < self.eps]]]))
        return float(min(minima.values[0], least.min()))

    def _add(self, values: Array, q: Array) -> None:
        """Cuts of every eigenvector below eps."""
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
        """The shortest y behind all cuts."""
        size = float(self.sides.max())
        k = self.spread.shape[1]
        program = ConicProgram(k)
        program.add_squares(np.eye(k), np.zeros(k))
        program.add_rows(ConeRows("nonnegative", self.rows, -self.sides / size))
        try:
            found = program.solve()
        except ConicError as error:
            count = len(self.rows)
            raise _no_solution_error(
                f"no values of the free parameters satisfy all of {count} cuts ({error})"
            ) from error
        (multipliers,) = found.duals
        self._drop_inactive(multipliers)
        return size * found.x

    def _drop_inactive(self, multipliers: Array) -> None:
        """The distance grows from round to round as long as the active cuts stay."""
        kept = multipliers > ACTIVE_MULTIPLIER_RATIO * multipliers.max()
        kept[-MIN_KEPT_CUTS:] = True
        self.rows, self.sides = self.rows[kept], self.sides[kept]

    def _require_movable(self, lengths: Array, before: Array) -> None:
        if (lengths <= 1e-14 * before * np.abs(self.spread).max()).any():
            raise _no_solution_error("the inertia matrix fails in a direction that no free parameter changes")


def _no_solution_error(message: str) -> FixedParametersError:
    return FixedParametersError(
        f"{message}: held parameters make the inertia matrix indefinite",
        hint="let more parameters move, or ask for a smaller eps",
    )
