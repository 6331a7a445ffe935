"""Projection of an estimate onto values whose inertia matrix is positive definite in every configuration.

The cost of a change is given as columns (p, k) of moves, each of which costs one standard deviation.

Nearest values whose inertia matrix is at least eps in every configuration, by cutting planes.

    minimise |y|^2  subject to  u^T M(q; beta) u >= eps |u|^2 for every q and u,    beta = centre + spread @ y

M is linear in beta, so every pair (q, u) is a half space, and the feasible set is convex. Each round adds the half
spaces that the current solution violates most; minors are not needed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from mindyn.algebra.values import Array, RandomSource, seed_from
from mindyn.errors import Code, InputError
from mindyn.estimators.estimate import Estimate
from mindyn.estimators.estimate_parts import infinite_variances
from mindyn.feasibility.conic import ConeRows, ConicError, ConicProgram
from mindyn.feasibility.inertia_family import FamilyMember, find_member
from mindyn.feasibility.worst_configurations import (
    Ranges,
    descend_from,
    joint_ranges,
    sample_configurations,
    smallest_eigenvalues,
)
from mindyn.kernels.model import compile_model
from mindyn.logs.samples import Samples
from mindyn.regression.information import Information
from mindyn.regression.row_blocks import gather

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


EPS_FRACTION: Final = 0.01
"""Default of eps relative to the smallest typical inertia of a joint."""
TYPICAL_CONFIGURATIONS: Final = 2_000
"""Configurations from which typical inertias are computed."""
MIN_INERTIA_RATIO: Final = 1e-9
"""Typical inertia relative to the largest below which a joint counts as having none."""
MAX_NAMED_MOVES: Final = 4
"""Largest number of parameters whose moves the status lists."""
EXACTLY_KNOWN: Final = 1e-14
"""Eigenvalue of the correlation matrix relative to the largest below which a direction is exactly known."""
MIN_COST_RATIO: Final = 1e-6
"""Smallest cost of a direction relative to the largest singular value of the scaled data."""
TORQUE_STATES: Final = 500
"""Random states at which the torque of a parameter is evaluated."""
EXACT_FIT_RATIO: Final = 1e-6
"""Lower bound of residuals relative to the torque, for exact fits."""


def project_to_positive_definite(
    estimate: Estimate,
    *,
    eps: float | None = None,
    drives: bool | None = None,
    data: Samples | Information | None = None,
    ranges: Ranges | None = None,
    within_limits: bool = False,
    rng: RandomSource = 0,
) -> Estimate:
    """Project an estimate onto values with M(q) >= eps in every configuration.

    All parameters take part, and friction too if its errors are correlated with those of the inertias. Without data,
    unidentifiable parameters move at the cost at which their torque would be noticed. Dropped parameters stay zero
    unless there is no solution without them; then they move at the same cost. With data they move at the cost of their
    residuals. Dropped parameters that moved become unidentifiable. Residuals stay those of the fit. An estimate that
    already satisfies the condition is returned with an entry in its provenance only.

    Parameters
    ----------
    estimate : Estimate
        Estimate to use.
    eps : float, optional
        Smallest eigenvalue, kg m^2 (prismatic joints in units of the length of the robot). Default: 1 % of the smallest
        typical inertia of a joint.
    drives : bool, optional
        Whether rotors count; False: the matrix of the chain alone must be positive definite. Default: as in the
        estimate.
    data : Samples or Information, optional
        Data of the fit. The cost of a move is then the increase of the squared residuals.
    ranges : Mapping of str to (float, float), optional
        Joint ranges, rad or m, as in `check_positive_definite`.
    within_limits : bool
        Restrict revolute joints to their limits.
    rng : int, numpy.random.Generator or None, default 0
        Seed or generator of the sampled configurations; None draws others in every call.

    Returns
    -------
    Estimate
        An estimate whose inertia matrix is positive definite in every configuration.

    Raises
    ------
    InputError
        If `eps` is not positive, the data belong to other parameters, or fixed parameters admit no solution.
    """
    seed = seed_from(rng)
    member = find_member(estimate, drives=drives)
    bounds = joint_ranges(member.family, ranges, within_limits=within_limits)
    M = member.family.matrices(sample_configurations(bounds, TYPICAL_CONFIGURATIONS, seed), member.values)
    eps = _default_eps(M) if eps is None else _check_eps(eps)
    if data is not None:
        nearest = find_nearest_positive_definite(member, estimate.beta, data_moves(estimate, data), eps, bounds, seed)
    else:
        nearest = _project_by_covariance(estimate, member, eps, bounds, seed)
    return _build_estimate(estimate, member, nearest, eps)


def _project_by_covariance(
    estimate: Estimate, member: FamilyMember, eps: float, ranges: Array, seed: int
) -> NearestPositiveDefinite:
    """Project in the metric of the covariance; dropped parameters move only if there is no other solution."""
    noticeable = noticeable_moves(estimate, sample_configurations(ranges, TYPICAL_CONFIGURATIONS, seed), seed)
    moves = np.column_stack([covariance_moves(estimate), noticeable[:, ~np.isfinite(estimate.deviations)]])
    try:
        return find_nearest_positive_definite(member, estimate.beta, moves, eps, ranges, seed)
    except FixedParametersError:
        dropped = noticeable[:, [name in estimate.dropped for name in estimate.names]]
        return find_nearest_positive_definite(
            member, estimate.beta, np.column_stack([moves, dropped]), eps, ranges, seed
        )


def _check_eps(eps: float) -> float:
    if not (np.isfinite(eps) and eps > 0):
        raise InputError(
            f"eps must be a positive number (smallest eigenvalue of the inertia matrix, kg m^2), got {eps!r}",
            code=Code.OUT_OF_RANGE,
            subject="eps",
        )
    return float(eps)


def _default_eps(M: Array) -> float:
    sizes = np.median(np.abs(np.einsum("kii->ki", M)), axis=0)
    return _check_eps(EPS_FRACTION * float(sizes[sizes > MIN_INERTIA_RATIO * sizes.max()].min(initial=np.inf)))


def _build_estimate(estimate: Estimate, member: FamilyMember, nearest: NearestPositiveDefinite, eps: float) -> Estimate:
    moves = _moves(estimate, nearest)
    largest = sorted(moves.items(), key=lambda item: -abs(item[1]["deviations"] or 0.0))[:MAX_NAMED_MOVES]
    listed_moves = ", ".join(
        f"{name} {move['from']:.4g} -> {move['to']:.4g}{_format_move(move)}" for name, move in largest
    )
    matrix = "inertia matrix with rotors" if member.family.base.drives else "inertia matrix of the chain alone"
    record = {
        "matrix": matrix,
        "eps": eps,
        "distance": nearest.distance,
        "smallest_eigenvalue_before": nearest.before,
        "smallest_eigenvalue_after": nearest.after,
        "rounds": nearest.rounds,
        "cuts": nearest.cuts,
        "moves": moves,
    }
    status = estimate.status
    if nearest.rounds:
        status = (
            f"{estimate.status.rstrip('.')}; then projected by {nearest.distance:.3g} standard deviations of noise, "
            f"which raises the smallest eigenvalue of the {matrix} from {nearest.before:.3g} to {nearest.after:.3g} "
            f"kg m^2; largest moves in deviations of noise: {listed_moves}."
        )
    freed = tuple(name for name in estimate.dropped if name in moves)
    return (
        replace(
            estimate,
            beta=nearest.beta,
            covariance=infinite_variances(estimate.covariance, estimate.names, freed),
            status=status,
            dropped=tuple(name for name in estimate.dropped if name not in freed),
            unidentifiable=(*estimate.unidentifiable, *freed),
            projected=estimate.projected or nearest.rounds > 0,
        )
        .with_provenance(projected=record)
        .with_own_load()
    )


def _moves(estimate: Estimate, nearest: NearestPositiveDefinite) -> dict[str, dict[str, Any]]:
    """Return old value, new value and change in noise deviations (None if unidentifiable) of each moved parameter."""
    moves: dict[str, dict[str, Any]] = {}
    deviations = estimate.by_noise_alone().deviations
    for name, old, new, deviation in zip(estimate.names, estimate.beta, nearest.beta, deviations, strict=True):
        if old != new:
            known = np.isfinite(deviation) and deviation > 0
            by = float((new - old) / deviation) if known else None
            moves[name] = {"from": float(old), "to": float(new), "deviations": by}
    return moves


def _format_move(move: dict[str, Any]) -> str:
    return " (unidentifiable)" if move["deviations"] is None else f" ({move['deviations']:+.2g})"


def covariance_moves(estimate: Estimate) -> Array:
    """Return independent directions of the noise covariance of the parameters that have a variance."""
    estimate = estimate.by_noise_alone()
    deviations = estimate.deviations
    known = np.flatnonzero(np.isfinite(deviations) & (deviations > 0))
    correlations = estimate.correlations[np.ix_(known, known)]
    eigenvalues, vectors = np.linalg.eigh((correlations + correlations.T) / 2)
    kept = eigenvalues > EXACTLY_KNOWN * eigenvalues.max(initial=0.0)
    moves = np.zeros((len(deviations), int(kept.sum())))
    moves[known] = deviations[known, None] * vectors[:, kept] * np.sqrt(eigenvalues[kept])
    return moves


def noticeable_moves(estimate: Estimate, q: Array, seed: int) -> Array:
    """Return a diagonal (p, p) of moves of single parameters that a log of the same length would just reveal.

    1 / sqrt(sum_j rows_j mean(Y_jk^2) / rms_j^2) at configurations q (N, n) and random speeds and accelerations up to
    1 rad/s and 1 rad/s^2: a substitute for parameters without covariance if the data are not available.
    """
    rng = np.random.default_rng(seed)
    q = q[:TORQUE_STATES]
    qd, qdd = rng.uniform(-1, 1, (2, *q.shape))
    base = estimate.base
    Y = compile_model(base.robot, drives=base.drives, base=base).regressor(q, qd, qdd)
    weights = np.ones(q.shape[1])
    if estimate.residuals:
        rms = np.array(
            [max(residual.rms, EXACT_FIT_RATIO * residual.rms_torque, 1e-300) for residual in estimate.residuals]
        )
        weights = np.array([residual.rows for residual in estimate.residuals]) / rms**2
    information = np.einsum("j,kjp->p", weights, Y**2) / len(Y)
    sizes = np.zeros(len(estimate.beta))
    sizes[: base.count] = np.where(information > 0, 1 / np.sqrt(np.where(information > 0, information, 1.0)), 0.0)
    return np.diag(sizes)


def data_moves(estimate: Estimate, data: Samples | Information) -> Array:
    """Return independent directions of R, where |R x|^2 is the increase of the weighted squared residuals by a move x.

    Directions that the data hardly determine cost `MIN_COST_RATIO` of the best determined one.
    """
    information = data if isinstance(data, Information) else _information(estimate, data)
    if information.names != estimate.names:
        raise InputError(
            "the data have other parameters than the estimate: the robot or the friction model differs",
            code=Code.DISAGREEMENT,
            subject="data",
        )
    residuals = np.maximum(information.residuals(estimate.beta), EXACT_FIT_RATIO**2 * information.torques())
    R, _ = information.stacked(np.array(information.counts) / np.maximum(residuals, 1e-300))
    scales = np.linalg.norm(R, axis=0)
    scales = np.where(scales > 0, scales, 1.0)
    _, s, Vt = np.linalg.svd(R / scales, full_matrices=True)
    s = np.maximum(np.append(s, np.zeros(len(Vt) - len(s))), MIN_COST_RATIO * s.max())
    return np.asarray(Vt.T / s / scales[:, None])


def _information(estimate: Estimate, samples: Samples) -> Information:
    return gather(estimate.regressor, samples, cutoff_hz=estimate.filter_hz, decimation=estimate.settings.step)
