"""Choose columns of a matrix that span all other columns.

If a column is excluded, its residual (after the best fit by the kept columns) becomes an error of everything that is
computed without this column. A column is therefore excluded only if its residual is below its floor, the rounding
level. Three steps avoid residuals that are amplified rounding errors:

1. Find how many columns are needed: keep the column with the largest residual, until all residuals are below the floor.
2. Choose that many columns in the order of preference, first those that are well separated from the columns kept
before. 3. While a factor of A_rest = A_kept X is larger than MAX_FACTOR, exchange its two columns. Each exchange
multiplies the volume of the kept columns by more than MAX_FACTOR, so that the exchanges end. Columns that are still
above the floor are then kept too.

If preference decided before the number of columns is known, the choice would pass through ill-conditioned sets, whose
residuals are amplified rounding errors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from mindyn.foundation.algebra.values import Array

MAX_FACTOR: Final = 20.0
"""Largest factor of a kept column in the combination that replaces an excluded one."""

MIN_RESIDUALS: Final = (0.1, 1e-3, 1e-6, 1e-9, 0.0)
"""Relative residual that a preferred column must have to be kept; tried in turn."""


def combination(A: Array, kept: Sequence[int], B: Array) -> Array:
    """Return X with A[:, kept] X = B by least squares: QR of scaled columns with one refinement, never a
    pseudo-inverse.

    The solution is backward stable: |A_kept X - B| is at the level of rounding, also if a kept column is very small.
    """
    if not len(kept):
        return np.zeros((0, B.shape[1]))
    columns = A[:, list(kept)]
    scale = np.linalg.norm(columns, axis=0)
    columns = columns / scale
    Q, R = np.linalg.qr(columns)  # R is triangular: its LU factors are I and R; importing scipy.linalg takes 0.2 s
    X = np.linalg.solve(R, Q.T @ B)
    X += np.linalg.solve(R, Q.T @ (B - columns @ X))
    return np.asarray(X / scale[:, None])


def residuals(A: Array, kept: Sequence[int]) -> Array:
    """Return |A_k - A_kept X_k| of every column; zero for kept columns."""
    rest = A.copy()
    if len(kept):
        columns = A[:, list(kept)]
        Q = np.linalg.qr(columns / np.linalg.norm(columns, axis=0))[0]
        for _ in range(2):
            rest -= Q @ (Q.T @ rest)
        rest[:, list(kept)] = 0.0
    return np.asarray(np.linalg.norm(rest, axis=0))


class _DeflatedMatrix:
    """A matrix from which kept columns are projected out one after the other."""

    def __init__(self, A: Array) -> None:
        self.rest = A.copy()
        self.basis = np.zeros((len(A), 0))
        self.kept: list[int] = []

    @property
    def sizes(self) -> Array:
        return np.asarray(np.sqrt(np.einsum("ij,ij->j", self.rest, self.rest)))

    def project_out(self, column: int) -> None:
        """Keep a column, and project its direction out of all others."""
        direction = self.rest[:, column]
        direction = direction / np.linalg.norm(direction)
        direction = direction - self.basis @ (self.basis.T @ direction)
        direction = direction / np.linalg.norm(direction)
        self.basis = np.column_stack([self.basis, direction])
        for _ in range(2):
            self.rest = self.rest - np.outer(direction, direction @ self.rest)
        self.kept.append(column)
        self.rest[:, self.kept] = 0.0


def rank(A: Array, floor: Array) -> int:
    """Return the number of columns that a pivoted choice keeps until every residual is below its floor."""
    state = _DeflatedMatrix(A)
    for _ in range(A.shape[1]):
        sizes = state.sizes
        above = sizes > floor
        if not above.any():
            break
        state.project_out(int(np.where(above, sizes, 0.0).argmax()))
    return len(state.kept)


def choose_columns(A: Array, order: Sequence[int], floor: Array) -> list[int]:
    """Return the numbers of the kept columns: all residuals are then below the floor, and all factors below
    MAX_FACTOR.
    """
    kept = _choose_by_preference(A, order, floor, rank(A, floor))
    while True:
        exchange_columns(A, kept)
        left = residuals(A, kept)
        if not (left > floor).any():
            return sorted(kept)
        kept.append(int(np.where(left > floor, left, 0.0).argmax()))


def exchange_columns(A: Array, kept: list[int]) -> tuple[list[int], Array]:
    """Exchange kept columns until all factors of A_rest = A_kept X are below MAX_FACTOR.

    Return the columns of A_rest, and X.
    """
    # A volume of unit columns is above eps^rank and grows by MAX_FACTOR with each exchange: 400 are more than enough.
    for _ in range(400):
        rest = [column for column in range(A.shape[1]) if column not in kept]
        X = combination(A, kept, A[:, rest])
        if not (X.size and np.abs(X).max() > MAX_FACTOR):
            break
        row, column = np.unravel_index(np.abs(X).argmax(), X.shape)
        kept[int(row)] = rest[int(column)]
    return rest, X


def _choose_by_preference(A: Array, order: Sequence[int], floor: Array, count: int) -> list[int]:
    sizes = np.linalg.norm(A, axis=0)
    state = _DeflatedMatrix(A)
    for share in MIN_RESIDUALS:
        for column in order:
            if len(state.kept) == count:
                return state.kept
            left = float(np.linalg.norm(state.rest[:, column]))
            if column not in state.kept and left > max(floor[column], share * sizes[column]):
                state.project_out(column)
    return state.kept
