"""Project values onto those whose inertia matrix is at least eps in every configuration, by cutting planes.

    minimise |y|^2  subject to  u^T M(q; beta) u >= eps |u|^2 for every q and u,    beta = centre + spread @ y

M is linear in beta, so every pair (q, u) is a half space, and the feasible set is convex. Each round adds the half
spaces that the current solution violates most. No minors are expanded, so that the robot may have any number of joints.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from mindyn.equations.closed_motion import is_affine
from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, InputError
from mindyn.identification.feasibility.checks.positive_definite import (
    MAX_LOOP_CONFIGURATIONS,
    find_minima,
    joint_ranges,
    sample_configurations,
    smallest_eigenvalues,
)
from mindyn.identification.feasibility.conditions.inertia_matrix_family import InertiaMatrixFamily, resolve_subject
from mindyn.identification.feasibility.optimisation.conic_program import ConeRows, ConicError, ConicProgram
from mindyn.parameters.base_parameters import BaseParameters
from mindyn.robots.robot import Robot

CONFIGURATIONS_PER_ROUND: Final = 6_000
"""Configurations sampled in each round."""
FINAL_CONFIGURATIONS: Final = 60_000
"""Number of configurations of a final check."""
CHECKED_SAMPLES: Final = 2
"""Number of final checks: the descents from one sample may all miss the worst configuration."""
EPS_TOLERANCE: Final = 0.01
"""Relative amount by which the smallest eigenvalue may be below eps."""
MAX_CUT_ROUNDS: Final = 300
MIN_KEPT_CUTS: Final = 300
"""Number of newest cuts that are always kept; older ones are dropped if they are not active."""
ACTIVE_SLACK_RATIO: Final = 1e-5
"""A cut is active if its slack, relative to the length of the change, is below this."""
SAMPLE_CUTS: Final = 40
"""Number of sampled configurations in each round whose cuts are added to those of the descents."""
MIN_SIZE_FRACTION: Final = 0.01
"""Smallest size of a value relative to the largest, as the unit of its change."""
EPS_FRACTION: Final = 0.01
"""Default of eps relative to the smallest typical inertia of a joint."""
TYPICAL_CONFIGURATIONS: Final = 2_000
"""Configurations from which typical inertias are computed."""
MIN_INERTIA_RATIO: Final = 1e-9
"""Typical inertia relative to the largest below which a joint counts as having none."""
IMMOVABLE_RATIO: Final = 1e-14
"""If the length of a cut in the allowed changes, relative to its length in the parameters, is below this, no change can
satisfy the cut.
"""


@dataclass(frozen=True, slots=True, eq=False)
class NearestPositiveDefinite:
    """Result of the projection.

    beta      (p,) all parameters, projected
    distance  length of the move in units of its cost
    before    smallest eigenvalue of the given values
    after     smallest eigenvalue of the projected values, at configurations that were not used for cuts
    eps       smallest eigenvalue that was required
    rounds    number of rounds
    """

    beta: Array
    distance: float
    before: float
    after: float
    eps: float
    rounds: int


def find_nearest_positive_definite(
    family: InertiaMatrixFamily, centre: Array, spread: Array, eps: float | None = None, seed: int = 0
) -> NearestPositiveDefinite:
    """Return the beta (p,) nearest to `centre`, measured by `spread` (p, k), with a positive definite inertia matrix.

    The first parameters are those of the family; friction may follow. eps is the smallest eigenvalue, kg m^2 (prismatic
    joints in units of the length of the robot), by default 1 % of the smallest typical inertia of a joint.
    """
    ranges = joint_ranges(family)
    most = FINAL_CONFIGURATIONS if is_affine(family.base.robot) else MAX_LOOP_CONFIGURATIONS
    if eps is None:
        eps = _default_eps(family, centre[: family.base.count], ranges, min(TYPICAL_CONFIGURATIONS, most), seed)
    cuts, y, before = _Cuts(family, centre, spread, eps), np.zeros(spread.shape[1]), np.nan
    after = np.nan
    for number in range(MAX_CUT_ROUNDS):
        beta = centre + spread @ y
        q = sample_configurations(ranges, min(CONFIGURATIONS_PER_ROUND, most), seed + 2 * number)
        after = cuts.add_violated(beta, q, ranges)
        before = after if number == 0 else before
        for check in range(CHECKED_SAMPLES):
            if after < eps * (1 - EPS_TOLERANCE):
                break
            fresh = sample_configurations(ranges, most, seed + 2 * number + 1 + check * 2 * MAX_CUT_ROUNDS)
            after = min(after, cuts.add_violated(beta, fresh, ranges))
        if after >= eps * (1 - EPS_TOLERANCE):
            return NearestPositiveDefinite(beta, float(np.linalg.norm(y)), before, after, eps, number)
        y = cuts.nearest()
    raise InputError(
        f"after {MAX_CUT_ROUNDS} rounds the smallest eigenvalue of the inertia matrix is still {after:.3g} kg m^2",
        code=Code.NOT_CONVERGED,
        subject=family.base.robot.name,
    )


def project_to_positive_definite(
    robot_or_base: Robot | BaseParameters, values: ArrayLike, *, eps: float | None = None
) -> Array:
    """Project base values onto those with a positive definite inertia matrix in every configuration.

    The values change by the smallest distance, each relative to its size (at least 1 % of the largest).
    `make_feasible(estimate, level="positive definite")` measures the distance by the covariance of an estimate instead.

    Parameters
    ----------
    robot_or_base : Robot or BaseParameters
        Robot or base set of the values.
    values : array_like
        Base values, in SI units.
    eps : float, optional
        Smallest eigenvalue of the inertia matrix, kg m^2 (prismatic joints in units of the length of the robot).
        Default: 1 % of the smallest typical inertia of a joint.

    Returns
    -------
    ndarray
        The nearest base values.

    Raises
    ------
    InputError
        If the values do not belong to the robot, `eps` is not positive, or no values satisfy the condition.

    Examples
    --------
    >>> import mindyn
    >>> from mindyn.identification import check_positive_definite, project_to_positive_definite
    >>> base = mindyn.base_parameters(mindyn.load_robot("planar2"))
    >>> projected = project_to_positive_definite(base, -base.values)
    >>> check_positive_definite((base, projected)).holds
    True
    """
    if eps is not None and not (np.isfinite(eps) and eps > 0):
        raise InputError(f"eps must be a positive number, got {eps!r}", code=Code.OUT_OF_RANGE, subject="eps")
    family, beta = resolve_subject((robot_or_base, values))
    sizes = np.maximum(np.abs(beta), MIN_SIZE_FRACTION * float(np.abs(beta).max(initial=0.0)))
    return find_nearest_positive_definite(family, beta, np.diag(np.where(sizes > 0, sizes, 1.0)), eps).beta


class _Cuts:
    """Half spaces rows @ y >= sides; all rows have unit length."""

    def __init__(self, family: InertiaMatrixFamily, centre: Array, spread: Array, eps: float) -> None:
        self.family, self.centre, self.spread, self.eps = family, centre, spread, eps
        self.rows = np.zeros((0, spread.shape[1]))
        self.sides = np.zeros(0)

    def add_violated(self, beta: Array, q: Array, ranges: Array) -> float:
        """Add cuts at the worst configurations and at the minima of descents. Return the smallest eigenvalue."""
        values = beta[: self.family.base.count]
        least = smallest_eigenvalues(self.family, values, q)
        minima = find_minima(self.family, values, ranges, q, least)
        sampled = np.argsort(least)[:: max(1, len(q) // (10 * SAMPLE_CUTS))][:SAMPLE_CUTS]
        self._add(values, np.concatenate([minima, q[sampled[least[sampled] < self.eps]]]))
        lowest = smallest_eigenvalues(self.family, values, minima).min()
        return float(min(lowest, least.min()))

    def _add(self, values: Array, q: Array) -> None:
        """Add a cut for every eigenvector whose eigenvalue is below eps."""
        eigenvalues, vectors = np.linalg.eigh(self.family.matrices(q, values))
        where, which = np.nonzero(eigenvalues < self.eps)
        if not len(where):
            return
        rows = self.family.rows(q[where], vectors[where, :, which])
        slopes = rows @ self.spread[: rows.shape[1]]
        lengths = np.linalg.norm(slopes, axis=1)
        if (lengths <= IMMOVABLE_RATIO * np.linalg.norm(rows, axis=1) * np.abs(self.spread).max()).any():
            raise _no_solution_error("the inertia matrix fails in a direction that no parameter changes")
        self.rows = np.vstack([self.rows, slopes / lengths[:, None]])
        self.sides = np.append(self.sides, (self.eps - rows @ self.centre[: rows.shape[1]]) / lengths)

    def nearest(self) -> Array:
        """Return the shortest y that satisfies all cuts, and drop old cuts that are not active there."""
        size, k = float(self.sides.max()), self.spread.shape[1]
        program = ConicProgram(k)
        program.add_squares(np.eye(k), np.zeros(k))
        program.add_rows(ConeRows("nonnegative", self.rows, -self.sides / size))
        try:
            y = size * program.solve().x
        except ConicError as error:
            raise _no_solution_error(f"no values satisfy all of {len(self.rows)} conditions ({error})") from error
        kept = self.rows @ y - self.sides <= ACTIVE_SLACK_RATIO * np.linalg.norm(y)
        kept[-MIN_KEPT_CUTS:] = True
        self.rows, self.sides = self.rows[kept], self.sides[kept]
        return np.asarray(y)


def _no_solution_error(message: str) -> InputError:
    return InputError(message, hint="pass a smaller eps", code=Code.NOT_FEASIBLE, subject="values")


def _default_eps(family: InertiaMatrixFamily, values: Array, ranges: Array, count: int, seed: int) -> float:
    """Return a fraction of the smallest typical inertia of a joint."""
    M = family.matrices(sample_configurations(ranges, count, seed), values)
    sizes = np.median(np.abs(np.einsum("kii->ki", M)), axis=0)
    return EPS_FRACTION * float(sizes[sizes > MIN_INERTIA_RATIO * sizes.max()].min())
