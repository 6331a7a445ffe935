"""`Triangle`: the R factor of rows that come block by block, A^T A = R^T R, with the digits of a QR factorisation."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from scipy.linalg.lapack import dgeqrf, dpotrf, dtrtri, dtrtrs

from mindyn.algebra.values import Array
from mindyn.errors import InputError
from mindyn.numerics.products import SquareSums, mirror_upper_triangle

FEWEST: Final = 64
"""Rows below which reflections take no longer than products."""
FEWEST_FOR_BASIS: Final = 512
"""Rows below which reflections take no longer than to find a basis and its products."""
PRODUCT_ROWS: Final = 512
"""Rows of a product: put side by side they stay in the cache."""
SMALLEST_PIVOT: Final = 1e-2
"""Fraction of a column that earlier columns leave unexplained, below which its remainder replaces it."""
LARGEST_CONDITION: Final = 1e3
"""Condition number of the scaled columns whose squares are summed: half of the sixteen digits of a double remain."""
LARGEST_GROWTH: Final = 1e2
"""To which multiple the squares of a column may grow before a basis is made anew: they hide what was small."""


class _Basis(NamedTuple):
    """A = C T, where the columns of C are far from dependent: those of A but for a few.

    T       (k, k) upper triangular, the identity but for the columns that are `alone`
    alone   columns that those before them explain almost: of C they are what is left, in units of what was left so far
    sums    (k, k) C^T C of all rows
    first   (k,) squares of the columns when the basis was made
    """

    T: Array
    alone: Sequence[int]
    sums: Array
    first: Array


class Triangle:
    """R (k, k) of the QR factorisation of all rows appended so far; memory for one block of rows alone.

    Where the columns are far from dependent, squares of rows are summed, C^T C = L^T L and R = L T, which takes a third
    of the time of reflections: of an arm's joint that is so but for the columns that others of the same joint explain,
    and for the torque where little of it is noise. These are replaced by what the others leave of them. Where nothing
    helps, or rows are unlike those before, [R; rows] is factored by reflections.
    """

    def __init__(self, width: int) -> None:
        self.width = width
        self.rows = 0
        self._factor: Array | None = np.zeros((width, width))
        self._basis: _Basis | None = None

    @property
    def R(self) -> Array:
        """The factor of all rows so far."""
        if self._factor is None:
            assert self._basis is not None
            L, info = dpotrf(self._basis.sums)
            _require_factored(info, "dpotrf")
            self._factor = np.triu(L) @ self._basis.T
        return self._factor

    def append(self, parts: Sequence[Array], faded: float = 1.0) -> None:
        """Appends rows, given as arrays (N, .) side by side; those that came before count with the weight faded^2."""
        if not (count := len(parts[0])):
            return
        fewest = FEWEST if self._basis else FEWEST_FOR_BASIS
        if faded != 1.0 or count < fewest or not self._summed(parts):
            self._factor, self._basis = _reflect(self.R * faded, parts), None
        self.rows += count

    def _summed(self, parts: Sequence[Array]) -> bool:
        """Whether the squares of the rows could be added to the sums; else nothing has changed."""
        basis = self._basis or _basis(self.R)
        if basis is None:
            return False
        room = _Workspace.of(self.width)
        room.sums.fill(0.0)
        for start in range(0, len(parts[0]), PRODUCT_ROWS):
            taken = [part[start : start + PRODUCT_ROWS] for part in parts]
            C = np.concatenate(taken, axis=1, out=room.rows[: len(taken[0])])
            for j in basis.alone:
                C[:, j] = (C[:, j] - C[:, :j] @ basis.T[:j, j]) / basis.T[j, j]
            room.products.add(slice(0, len(C)))
        sums = basis.sums + mirror_upper_triangle(room.sums)
        if not (sums.diagonal() < LARGEST_GROWTH * basis.first).all():  # also if an entry is not a number
            if self._factor is not None:
                return False
            _, self._basis = self.R, None  # by what came since the basis was made they may be alike
            return self._summed(parts)
        self._basis, self._factor = basis._replace(sums=sums), None
        return True


class _Workspace(NamedTuple):
    """Where a thread puts rows of some width side by side, and the sums of their squares."""

    rows: Array
    sums: Array
    products: SquareSums

    @staticmethod
    def of(width: int) -> _Workspace:
        """That of this thread."""
        known: dict[int, _Workspace] = _own.__dict__.setdefault("rooms", {})
        if width not in known:
            rows, sums = np.empty((PRODUCT_ROWS, width)), np.zeros((width, width))
            known[width] = _Workspace(rows, sums, SquareSums(sums, rows))
        return known[width]


_own = threading.local()


def _basis(R: Array) -> _Basis | None:
    """The basis in which the squares of columns may be summed; None where there is none."""
    norms, pivots = np.linalg.norm(R, axis=0), np.abs(R.diagonal())
    if not pivots.all():
        return None
    alone = np.flatnonzero(pivots < SMALLEST_PIVOT * norms).tolist()
    T, P = np.eye(len(R)), R.copy()
    for j in alone:
        T[:j, j], T[j, j] = dtrtrs(P[:j, :j], R[:j, j])[0] if j else 0.0, R[j, j]
        P[:j, j], P[j, j] = 0.0, 1.0
    scaled = P / np.linalg.norm(P, axis=0)
    inverse, info = dtrtri(scaled)
    if info or not (np.abs(inverse) @ np.abs(scaled)).sum(axis=1).max() < LARGEST_CONDITION:
        return None
    sums = P.T @ P
    return _Basis(T, alone, sums, sums.diagonal())


def _reflect(R: Array, parts: Sequence[Array]) -> Array:
    """The factor of [R; rows] by Householder reflections."""
    k = len(R)
    work = np.empty((k + len(parts[0]), k), order="F")
    work[:k] = R
    np.concatenate(parts, axis=1, out=work[k:])
    factored, _, _, info = dgeqrf(work, overwrite_a=1)
    _require_factored(info, "dgeqrf")
    return np.triu(factored[:k])


def _require_factored(info: int, routine: str) -> None:
    if info:
        raise InputError(
            f"the rows cannot be factored ({routine} reports {info})",
            hint="does a column hold numbers near the largest or smallest that float64 has?",
        )


def triangle_of(rows: Array) -> Array:
    """R (k, k) of rows (N, k), rows of zeros added where N < k."""
    k = rows.shape[1]
    R = np.zeros((k, k))
    found = np.linalg.qr(rows, mode="r")
    R[: len(found)] = found
    return R
