"""`project_to_positive_definite`: the nearest estimate, as noise measures it, whose inertia matrix is positive
definite everywhere.

What moving its parameters costs is given as columns (p, k) of moves, each worth one standard deviation.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike

from mindyn.algebra.values import Array
from mindyn.errors import InputError
from mindyn.estimators.estimate import Estimate
from mindyn.estimators.unidentifiable import infinite_variances
from mindyn.feasibility.configurations import Ranges, joint_ranges, sample_configurations
from mindyn.feasibility.inertia_family import FamilyMember, find_member
from mindyn.feasibility.nearest_positive_definite import (
    FixedParametersError,
    NearestPositiveDefinite,
    find_nearest_positive_definite,
)
from mindyn.kernels.model import compile_model
from mindyn.logs.samples import Samples
from mindyn.parameters.base import BaseParameters
from mindyn.regression.information import Information
from mindyn.regression.row_blocks import gather
from mindyn.robots.robot import Robot

EPS_FRACTION: Final = 0.01
"""eps, where none is given, as part of the smallest of the joints' typical inertias."""
TYPICAL_CONFIGURATIONS: Final = 2_000
"""Configurations that typical sizes are taken from."""
MIN_INERTIA_RATIO: Final = 1e-9
"""Part of the largest typical inertia below which a joint has none."""
MAX_NAMED_MOVES: Final = 4
"""Parameters whose moves the status names."""
EXACTLY_KNOWN: Final = 1e-14
"""Part of the largest eigenvalue of the correlation matrix below which a direction counts as exactly known."""
MIN_COST_RATIO: Final = 1e-6
"""Part of the largest singular value of scaled data that directions cost at least."""
TORQUE_STATES: Final = 500
"""Random states at which a parameter's torque is looked at."""
EXACT_FIT_RATIO: Final = 1e-6
"""Residual, as part of the torque, below which a fit counts as that exact."""


def project_to_positive_definite(
    estimate: Estimate,
    *,
    eps: float | None = None,
    drives: bool | None = None,
    data: Samples | Information | None = None,
    ranges: Ranges | None = None,
    within_limits: bool = False,
    seed: int = 0,
) -> Estimate:
    """The nearest estimate, by the covariance of noise alone or by the data, with M(q) >= eps at all configurations.

    eps      least eigenvalue, kg m^2 (prismatic joints in units of the robot's length); None: 1 % of the smallest
             typical inertia of a joint
    drives   rotors count; False: the chain alone must be possible; None: as the estimate has them
    data     samples or information of the fit: the squared residuals that a move adds are then its price, exactly
    ranges, within_limits, seed  as in `check_positive_definite`

    All parameters take part, friction too where its errors are correlated with the inertias'. Without data, untold ones
    move at the price at which their torque would be noticed. Parameters that were left out stay zero, unless no values
    are possible without them: then they move at that price too. With data they move at their own. Those that moved
    count as untold.
    Residuals stay those of the fit; the distance tells what the move costs it.
    An estimate that is possible already comes back as it is, but for its provenance.
    """
    member = find_member(estimate, drives=drives)
    bounds = joint_ranges(member.family, ranges, within_limits=within_limits)
    M = _typical_matrices(member, bounds, seed)
    eps = _default_eps(M) if eps is None else _check_eps(eps)
    if data is not None:
        found = find_nearest_positive_definite(member, estimate.beta, data_moves(estimate, data), eps, bounds, seed)
    else:
        found = _project_by_covariance(estimate, member, eps, bounds, seed)
    return _build_estimate(estimate, member, found, eps)


def _project_by_covariance(
    estimate: Estimate, member: FamilyMember, eps: float, ranges: Array, seed: int
) -> NearestPositiveDefinite:
    """By the covariance; parameters that were left out move only where nothing is possible without them."""
    noticed = noticeable_moves(estimate, sample_configurations(ranges, TYPICAL_CONFIGURATIONS, seed), seed)
    moves = np.column_stack([covariance_moves(estimate), noticed[:, ~np.isfinite(estimate.deviations)]])
    try:
        return find_nearest_positive_definite(member, estimate.beta, moves, eps, ranges, seed)
    except FixedParametersError:
        left_out = noticed[:, [name in estimate.dropped for name in estimate.names]]
        return find_nearest_positive_definite(
            member, estimate.beta, np.column_stack([moves, left_out]), eps, ranges, seed
        )


def project_values(
    of: Robot | BaseParameters,
    values: ArrayLike,
    weights: ArrayLike,
    *,
    eps: float,
    drives: bool | None = None,
    ranges: Ranges | None = None,
    within_limits: bool = False,
    seed: int = 0,
) -> NearestPositiveDefinite:
    """The base values that minimise |weights * (beta - values)| with M(q) >= eps at all configurations.

    weights  (count,) positive; infinite for values that must not move
    """
    member = find_member((of, values), drives=drives)
    beta = np.asarray(values, dtype=np.float64)
    w = np.asarray(weights, dtype=np.float64)
    if w.shape != beta.shape or not (w > 0).all():
        raise InputError(f"weights must be {len(beta)} positive numbers, one for each base value; got shape {w.shape}")
    bounds = joint_ranges(member.family, ranges, within_limits=within_limits)
    spread = np.diag(1 / w)[:, np.isfinite(w)]
    return find_nearest_positive_definite(member, beta, spread, _check_eps(eps), bounds, seed)


def _check_eps(eps: float) -> float:
    if not (np.isfinite(eps) and eps > 0):
        raise InputError(f"eps = {eps!r} must be a positive number: least eigenvalue of the inertia matrix, kg m^2")
    return float(eps)


def _typical_matrices(member: FamilyMember, ranges: Array, seed: int) -> Array:
    return member.family.matrices(sample_configurations(ranges, TYPICAL_CONFIGURATIONS, seed), member.values)


def _default_eps(M: Array) -> float:
    sizes = np.median(np.abs(np.einsum("kii->ki", M)), axis=0)
    return _check_eps(EPS_FRACTION * float(sizes[sizes > MIN_INERTIA_RATIO * sizes.max()].min(initial=np.inf)))


def _build_estimate(estimate: Estimate, member: FamilyMember, found: NearestPositiveDefinite, eps: float) -> Estimate:
    moves = _moves(estimate, found)
    largest = sorted(moves.items(), key=lambda one: -abs(one[1]["deviations"] or 0.0))[:MAX_NAMED_MOVES]
    told = ", ".join(f"{name} {one['from']:.4g} -> {one['to']:.4g}{_format_move(one)}" for name, one in largest)
    matrix = "inertia matrix with rotors" if member.family.base.drives else "inertia matrix of the chain alone"
    record = {
        "matrix": matrix,
        "eps": eps,
        "distance": found.distance,
        "smallest_eigenvalue_before": found.before,
        "smallest_eigenvalue_after": found.after,
        "rounds": found.rounds,
        "cuts": found.cuts,
        "moves": moves,
    }
    status = estimate.status
    if found.rounds:
        status = (
            f"{estimate.status.rstrip('.')}; then mended by {found.distance:.3g} standard deviations of noise alone "
            f"in all, so that the smallest eigenvalue of the {matrix} is {found.after:.3g} in place of "
            f"{found.before:.3g} kg m^2; moved most, in deviations of noise alone: {told}."
        )
    freed = tuple(name for name in estimate.dropped if name in moves)
    return (
        replace(
            estimate,
            beta=found.beta,
            covariance=infinite_variances(estimate.covariance, estimate.names, freed),
            status=status,
            dropped=tuple(name for name in estimate.dropped if name not in freed),
            unidentifiable=(*estimate.unidentifiable, *freed),
            projected=estimate.projected or found.rounds > 0,
        )
        .with_provenance(projected=record)
        .with_own_load()
    )


def _moves(estimate: Estimate, found: NearestPositiveDefinite) -> dict[str, dict[str, Any]]:
    """For each parameter that moved: from, to, and how many deviations of noise alone; None where untold."""
    moves: dict[str, dict[str, Any]] = {}
    deviations = estimate.by_noise_alone().deviations
    for name, old, new, deviation in zip(estimate.names, estimate.beta, found.beta, deviations, strict=True):
        if old != new:
            known = np.isfinite(deviation) and deviation > 0
            by = float((new - old) / deviation) if known else None
            moves[name] = {"from": float(old), "to": float(new), "deviations": by}
    return moves


def _format_move(move: dict[str, Any]) -> str:
    return " (untold)" if move["deviations"] is None else f" ({move['deviations']:+.2g})"


def covariance_moves(estimate: Estimate) -> Array:
    """Of the parameters that have a variance: independent directions of their covariance by noise alone."""
    estimate = estimate.by_noise_alone()
    deviations = estimate.deviations
    told = np.flatnonzero(np.isfinite(deviations) & (deviations > 0))
    correlations = estimate.correlations[np.ix_(told, told)]
    eigenvalues, vectors = np.linalg.eigh((correlations + correlations.T) / 2)
    kept = eigenvalues > EXACTLY_KNOWN * eigenvalues.max(initial=0.0)
    moves = np.zeros((len(deviations), int(kept.sum())))
    moves[told] = deviations[told, None] * vectors[:, kept] * np.sqrt(eigenvalues[kept])
    return moves


def noticeable_moves(estimate: Estimate, q: Array, seed: int) -> Array:
    """(p, p), diagonal: moves of single parameters that as many rows as the fit's would just notice.

    1 / sqrt(sum_j rows_j mean(Y_jk^2) / rms_j^2) at configurations q (N, n) and random speeds and accelerations up to
    1 rad/s and 1 rad/s^2: a stand-in where the covariance says nothing of a parameter and the data are not at hand.
    """
    rng = np.random.default_rng(seed)
    q = q[:TORQUE_STATES]
    qd, qdd = rng.uniform(-1, 1, (2, *q.shape))
    base = estimate.base
    Y = compile_model(base.robot, drives=base.drives, base=base).regressor(q, qd, qdd)
    worth = np.ones(q.shape[1])
    if estimate.residuals:
        rms = np.array([max(one.rms, EXACT_FIT_RATIO * one.rms_torque, 1e-300) for one in estimate.residuals])
        worth = np.array([one.rows for one in estimate.residuals]) / rms**2
    told = np.einsum("j,kjp->p", worth, Y**2) / len(Y)
    sizes = np.zeros(len(estimate.beta))
    sizes[: base.count] = np.where(told > 0, 1 / np.sqrt(np.where(told > 0, told, 1.0)), 0.0)
    return np.diag(sizes)


def data_moves(estimate: Estimate, data: Samples | Information) -> Array:
    """Of all parameters: independent directions of R, |R x|^2 the weighted squared residuals that a move x adds.

    Directions that the data hardly tell cost `MIN_COST_RATIO` of the best-told one.
    """
    information = data if isinstance(data, Information) else _information(estimate, data)
    if information.names != estimate.names:
        raise InputError("the data are of other parameters than the estimate's: robot or friction differ")
    left = np.maximum(information.residuals(estimate.beta), EXACT_FIT_RATIO**2 * information.torques())
    R, _ = information.stacked(np.array(information.counts) / np.maximum(left, 1e-300))
    scales = np.linalg.norm(R, axis=0)
    scales = np.where(scales > 0, scales, 1.0)
    _, s, Vt = np.linalg.svd(R / scales, full_matrices=True)
    s = np.maximum(np.append(s, np.zeros(len(Vt) - len(s))), MIN_COST_RATIO * s.max())
    return np.asarray(Vt.T / s / scales[:, None])


def _information(estimate: Estimate, samples: Samples) -> Information:
    return gather(estimate.regressor, samples, cutoff_hz=estimate.filter_hz, decimation=estimate.settings.step)
