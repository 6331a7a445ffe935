"""`Folds`: fit all blocks of rows except one, for each block in turn, from the Gram matrices of the blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mindyn.foundation.algebra.values import Array
from mindyn.regression.friction_limits import FrictionLimits, PriorGroups

REWEIGHTINGS: Final = 4
"""Number of fits with weights from the residuals of the previous fit. With 4 fits, the errors of a TX40 have converged
to 2e-6 of their value; with 1 fit, they are wrong by 4e-4, which changes the settings of three measured logs. Starting
with the weights of all blocks would need as many fits, because these weights also depend on the held-out blocks.
"""
SMALLEST: Final = 1e-12
"""Eigenvalues of the scaled normal matrix below this fraction of the largest count as zero in a trial."""
WELL_CONDITIONED: Final = 1e-8
"""Reciprocal condition number above which no eigenvalue is near `SMALLEST`, so that eigenvalues need not be computed.
"""

LARGE_PIVOT: Final = 1e-2
"""Smallest entry on the diagonal of the Cholesky factor above which a scaled matrix counts as well conditioned."""


class Fits(NamedTuple):
    """Results of fits: normal matrix (k, k) and right side (k,) of the kept parameters, beta (p,), and weights (n,)."""

    matrices: Array
    rights: Array
    betas: Array
    weights: Array


class Kept(NamedTuple):
    """Numbers of the fitted parameters, the priors of some of them, and the limits of friction."""

    numbers: list[int]
    priors: PriorGroups
    limits: FrictionLimits | None


@dataclass(frozen=True, slots=True, eq=False)
class Folds:
    """Blocks of rows; each of them is held out in turn.

    columns  for each joint, the numbers of its parameters
    fitted   for each joint (m, k + 1, k + 1) Gram matrices [Y | tau] of the rows of m blocks to fit
    scored   for each joint (m, k + 1, k + 1) Gram matrices of the rows to score
    rows     (m, n) numbers of rows to fit
    count    number of parameters
    """

    columns: tuple[NDArray[np.intp], ...]
    fitted: list[Array]
    scored: list[Array]
    rows: Array
    count: int

    def fit_all(self, kept: Kept) -> Fits:
        """Fit the rows of all blocks."""
        squares = [joint.sum(axis=0, keepdims=True) for joint in self.fitted]
        sums = replace(self, fitted=squares, rows=self.rows.sum(axis=0, keepdims=True))
        return fit_sums(sums, kept, equal_weights(squares), REWEIGHTINGS)

    def combine(self, groups: Sequence[Sequence[int]]) -> Folds:
        """Return the sums over groups of blocks."""
        fitted, scored = (
            [np.array([joint[list(group)].sum(axis=0) for group in groups]) for joint in matrices]
            for matrices in (self.fitted, self.scored)
        )
        rows = np.array([self.rows[list(group)].sum(axis=0) for group in groups])
        return Folds(self.columns, fitted, scored, rows, self.count)

    def squared_residuals_and_torques(self, betas: Array) -> tuple[Array, Array]:
        """Return squared residuals (steps, m, n) of betas (m, steps, p) on the scored rows, and squared torques (m,
        n).
        """
        error = []
        for columns, matrices in zip(self.columns, self.scored, strict=True):
            v = np.concatenate([betas[:, :, columns], np.full((*betas.shape[:2], 1), -1.0)], axis=2)
            error.append(np.maximum(0.0, ((v @ matrices) * v).sum(axis=2)).T)
        return np.stack(error, axis=2), squares_of_torque(self.scored)


def squares_of_torque(matrices: Sequence[Array]) -> Array:
    """Return the squared torques (f, n) from Gram matrices (f, k + 1, k + 1) of each joint."""
    return np.stack([joint[:, -1, -1] for joint in matrices], axis=1)


def fits_without_each(foldings: Sequence[Folds], kept: Kept) -> list[Fits]:
    """Leave out each block in turn, and fit the others; do this for every division of the rows into blocks."""
    joints = zip(*(folds.fitted for folds in foldings), strict=True)
    squares = [np.concatenate([_of_others(matrices) for matrices in joint]) for joint in joints]
    rows = np.concatenate([_of_others(folds.rows) for folds in foldings])
    fits = fit_sums(replace(foldings[0], fitted=squares, rows=rows), kept, equal_weights(squares), REWEIGHTINGS)
    ends = np.cumsum([0, *(len(folds.rows) for folds in foldings)])
    return [Fits(*(array[a:b] for array in fits)) for a, b in pairwise(ends)]


def equal_weights(squares: Sequence[Array]) -> Array:
    """Return weights (f, n): 1 for joints with torque, otherwise 0."""
    return (squares_of_torque(squares) > 0).astype(np.float64)


def _of_others(x: Array) -> Array:
    """Return for each fold the sum (folds, ...) over all other folds.

    If all values are zero, the sum is exactly zero.
    """
    return np.asarray(x.sum(axis=0) - x)


def fit_sums(folds: Folds, kept: Kept, weights: Array, repeats: int) -> Fits:
    """Fit each block alone; then weight each joint (m, n) by its residuals, and repeat the fit.

    Joints without torque have weight zero. Friction has priors, and stays within its limits. The fits are used only to
    compare settings, so that they do not need the last digits that a QR factorisation would give. Whether a coefficient
    has a prior does not depend on the weights of the joints.
    """
    squares, counts = folds.fitted, folds.rows
    torques, size = squares_of_torque(squares), folds.count + 1
    # Rounding may make the residual of a fully explained torque negative.
    least = np.maximum(1e-12 * torques, 1e-18 * torques.max(axis=1, keepdims=True) + 1e-300)
    betas, alive = np.zeros((len(counts), size)), torques > 0
    numbers = np.array(kept.numbers, dtype=np.intp)
    betas[:, -1], chosen, priors = -1.0, np.append(numbers, size - 1), kept.priors
    places = [np.append(columns, size - 1) for columns in folds.columns]
    is_shared = np.bincount(np.concatenate(places), minlength=size) > 1  # by several joints
    entries = [(place[:, None] * size + place).ravel() for place in places]
    flat = [joint.reshape(len(counts), -1) for joint in squares]
    for repeat in range(repeats + 1):
        whole = np.zeros((len(counts), size, size))
        for joint, entry in enumerate(entries):
            whole.reshape(len(counts), -1)[:, entry] += weights[:, joint, None] * flat[joint]
        if priors.groups:
            precisions = priors.precisions(whole)
            np.einsum("fkk->fk", whole)[:] += precisions
            priors = priors.select(precisions.any(axis=0) | is_shared, kept.numbers) if repeat == 0 else priors
        whole = whole if len(chosen) == size else whole[:, chosen[:, None], chosen]
        matrices, rights = whole[:, :-1, :-1], whole[:, :-1, -1]
        betas[:, numbers] = _solve_folds(matrices, rights)
        if kept.limits is not None:
            for k in np.flatnonzero((betas[:, :-1] @ kept.limits.rows.T < 0).any(axis=1)):
                betas[k, :-1] = kept.limits.apply(matrices[k], betas[k, :-1], numbers)
        if repeat < repeats:
            v = [betas[:, place] for place in places]
            left = [((x[:, None] @ joint)[:, 0] * x).sum(axis=1) for x, joint in zip(v, squares, strict=True)]
            weights = alive * counts / np.maximum(np.stack(left, axis=1), least)
    return Fits(matrices, rights, betas[:, :-1], weights)


def _solve_folds(matrices: Array, rights: Array) -> Array:
    """Return the solutions (fits, k) for matrices (fits, k, k) and right sides (fits, k)."""
    scales = np.sqrt(np.einsum("fkk->fk", matrices))
    scales = np.where(scales > 0, scales, 1.0)
    scaled, scaled_rights = matrices / scales[:, None] / scales[:, :, None], rights / scales
    return np.array([_solve_identifiable(*problem) for problem in zip(scaled, scaled_rights, strict=True)]) / scales


def _solve_identifiable(matrix: Array, right: Array) -> Array:
    from scipy.linalg.lapack import dpocon, dpotrf, dpotrs

    L, info = dpotrf(matrix.T)  # symmetric: the transpose has LAPACK's memory order
    # Pivots take no time, the condition number as much as the solution.
    if info == 0 and (
        L.diagonal().min() > LARGE_PIVOT or dpocon(L, np.abs(matrix).sum(axis=0).max())[0] > WELL_CONDITIONED
    ):
        return np.asarray(dpotrs(L, right)[0])
    values, vectors = np.linalg.eigh(matrix)
    inverse = np.where(values > SMALLEST * values[-1], 1 / np.where(values > 0, values, 1.0), 0.0)
    return np.asarray(vectors @ (inverse * (vectors.T @ right)))
