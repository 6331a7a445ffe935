"""Fit all folds but one, for each fold, from the normal matrices of their rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpocon, dpotrf, dpotrs

from mindyn.algebra.values import Array
from mindyn.identification.selection.column_sums import Part
from mindyn.regression.friction_limits import FrictionLimits, shape_precision

REWEIGHTINGS: Final = 4
SMALLEST: Final = 1e-12
"""Eigenvalues of the scaled normal matrix below this fraction of the largest count as zero in a trial."""
WELL_CONDITIONED: Final = 1e-8
"""Reciprocal condition number above which no eigenvalue is near `SMALLEST`, so that none are computed."""


@dataclass(frozen=True, slots=True, eq=False)
class Fold:
    """Rows that are held out together.

    squares  (n, p + 1, p + 1) normal matrices [Y | tau]^T [Y | tau] of each joint's rows to fit
    rows     (n,) their number
    fitted   parts to fit
    scored   parts to score
    """

    squares: Array
    rows: NDArray[np.int64]
    fitted: list[Part]
    scored: list[Part]


def fold_of(
    matrices: Sequence[Sequence[Array]],
    rows: Sequence[Sequence[int]],
    fitted: list[Part],
    scored: list[Part],
    columns: Sequence[NDArray[np.intp]],
    count: int,
) -> Fold:
    """Build a fold from the matrices [Y | tau | .]^T [Y | tau | .] and row counts of each part and joint."""
    squares = np.zeros((len(columns), count + 1, count + 1))
    for joint, (joint_matrices, places) in enumerate(zip(zip(*matrices, strict=True), columns, strict=True)):
        index = np.append(places, count)
        squares[joint, index[:, None], index] = sum(joint_matrices)[:-1, :-1]
    return Fold(squares, np.asarray(rows, dtype=np.int64).sum(axis=0), fitted, scored)


class Fits(NamedTuple):
    """Normal matrix (k, k) and right side (k,) of the kept parameters, and beta (p,), of each fit."""

    matrices: Array
    rights: Array
    betas: Array


class Kept(NamedTuple):
    """Numbers of the parameters that a fit has, `shape_groups` among them, and the limits of friction."""

    numbers: list[int]
    shapes: list[tuple[int, list[int]]]
    limits: FrictionLimits


def fit_of_all(folds: Sequence[Fold], kept: Kept) -> tuple[Array, Array, Array]:
    """Return normal matrix, right side and beta of the rows of all folds."""
    squares, rows = sum(fold.squares for fold in folds), sum(fold.rows for fold in folds)
    fits = _reweight(np.asarray(squares)[None], np.asarray(rows)[None], kept)
    return fits.matrices[0], fits.rights[0], fits.betas[0]


def fits_without_each(folds: Sequence[Fold], kept: Kept) -> Fits:
    """Fit all folds but one, for each fold."""
    squares, rows = [fold.squares for fold in folds], [fold.rows.astype(np.float64) for fold in folds]
    return _reweight(_of_others(squares), _of_others(rows), kept)


def _of_others(x: Sequence[Array]) -> Array:
    """Return (folds, ...) the sum over all other folds, for each fold."""
    total = np.zeros((len(x), *x[0].shape))
    for k in range(1, len(x)):
        total[k] = total[k - 1] + x[k - 1]
    after = np.zeros(x[0].shape)
    for k in range(len(x) - 1, 0, -1):
        after += x[k]
        total[k - 1] += after
    return total


def _reweight(squares: Array, counts: Array, kept: Kept) -> Fits:
    """Fit squares (fits, n, p + 1, p + 1), weighting each joint by its residuals; joints without torque have no weight.

    Friction shapes have their prior, and all friction stays within its limits. The fits only compare settings, so that
    they do not need the last digits that a QR would give.
    """
    fits, n, size, _ = squares.shape
    torques = squares[:, :, -1, -1]
    # Rounding may make the residual of a fully explained torque negative.
    least = np.maximum(1e-12 * torques, 1e-18 * torques.max(axis=1, keepdims=True) + 1e-300)
    alive, betas = torques > 0, np.zeros((fits, size))
    weights = alive.astype(np.float64)
    numbers = np.array(kept.numbers, dtype=np.intp)
    betas[:, -1], chosen = -1.0, np.append(numbers, size - 1)
    for _ in range(REWEIGHTINGS + 1):
        whole = (weights[:, None] @ squares.reshape(fits, n, -1)).reshape(fits, size, size)
        for k, others in kept.shapes:
            for fit in whole:
                fit[k, k] += shape_precision(fit[np.ix_([k, *others], [k, *others])])
        whole = whole if len(chosen) == size else whole[:, chosen[:, None], chosen]
        matrices, rights = whole[:, :-1, :-1], whole[:, :-1, -1]
        betas[:, numbers] = _solve_folds(matrices, rights)
        for beta, matrix in zip(betas[:, :-1], matrices, strict=True):
            beta[:] = kept.limits.apply(matrix, beta, numbers)
        left = np.einsum("fnk,fk->fn", (squares @ betas[:, None, :, None])[..., 0], betas)
        weights = alive * counts / np.maximum(left, least)
    return Fits(matrices, rights, betas[:, :-1])


def _solve_folds(matrices: Array, rights: Array) -> Array:
    """Return the solutions (fits, k) for matrices (fits, k, k) and right sides (fits, k)."""
    scales = np.sqrt(np.einsum("fkk->fk", matrices))
    scales = np.where(scales > 0, scales, 1.0)
    scaled, scaled_rights = matrices / scales[:, None] / scales[:, :, None], rights / scales
    norms = np.abs(scaled).sum(axis=1).max(axis=1)
    return np.array([_solution(*problem) for problem in zip(scaled, scaled_rights, norms, strict=True)]) / scales


def _solution(matrix: Array, right: Array, norm: float) -> Array:
    L, info = dpotrf(matrix.T)  # symmetric: the transpose has LAPACK's memory order
    if info == 0 and dpocon(L, norm)[0] > WELL_CONDITIONED:
        return np.asarray(dpotrs(L, right)[0])
    values, vectors = np.linalg.eigh(matrix)
    inverse = np.where(values > SMALLEST * values[-1], 1 / np.where(values > 0, values, 1.0), 0.0)
    return np.asarray(vectors @ (inverse * (vectors.T @ right)))
