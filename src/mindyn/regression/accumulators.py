"""Accumulate the rows of a stream: as R factors, or as Gram matrices.

Every value, covariance and interval that is returned comes from R factors, which keep all digits. Gram matrices lose
half of them and only compare settings.

`Triangle`: the R factor of rows that come in blocks, A^T A = R^T R, with the accuracy of a QR factorisation.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dgeqrf, dpotrf, dtrtri, dtrtrs

from mindyn.algebra.values import Array
from mindyn.errors import Code, InputError
from mindyn.numerics.products import SquareSums, mirror_upper_triangle

FEWEST: Final = 64
"""Number of rows below which reflections are as fast as products."""
FEWEST_FOR_BASIS: Final = 512
"""Number of rows below which reflections are as fast as choosing a basis and its products."""
PRODUCT_ROWS: Final = 512
"""Rows of one product: its columns stay in the cache."""
SMALLEST_PIVOT: Final = 1e-2
"""Fraction of a column that earlier columns leave unexplained, below which its remainder replaces it."""
LARGEST_CONDITION: Final = 1e3
"""Condition number of the scaled columns whose squares are summed: half of the sixteen digits of a double remain."""
LARGEST_GROWTH: Final = 1e2
"""Growth of the squared length of a column after which a new basis is chosen, because small values lose digits."""


class _Basis(NamedTuple):
    """A = C T, where the columns of C are nearly independent: those of A except a few.

    T       (k, k) upper triangular, the identity except for the columns that are `alone`
    alone   columns that the earlier columns nearly explain: in C they are the scaled remainder
    sums    (k, k) C^T C of all rows
    first   (k,) squared lengths of the columns when the basis was chosen
    """

    T: Array
    alone: Sequence[int]
    sums: Array
    first: Array


class Triangle:
    """R (k, k) of the QR factorisation of all appended rows, in memory for one block of rows.

    If the columns are nearly independent, products of rows are summed: C^T C = L^T L and R = L T. This takes a third of
    the time of reflections. It applies to the joints of an arm, except for columns that others of the same joint
    explain, and the torque if it has little noise; they are replaced by their remainders. Otherwise, or if rows differ
    much from the earlier ones, [R; rows] is factored by reflections.
    """

    def __init__(self, width: int) -> None:
        self.width = width
        self.rows = 0
        self._factor: Array | None = np.zeros((width, width))
        self._basis: _Basis | None = None

    @property
    def R(self) -> Array:
        """Return the factor of all rows so far."""
        if self._factor is None:
            assert self._basis is not None
            L, info = dpotrf(self._basis.sums)
            _require_factored(info, "dpotrf")
            self._factor = np.triu(L) @ self._basis.T
        return self._factor

    def append(self, parts: Sequence[Array], faded: float = 1.0) -> None:
        """Append rows, given as arrays (N, .) of adjacent columns; earlier rows get the weight faded^2."""
        if not (count := len(parts[0])):
            return
        fewest = FEWEST if self._basis else FEWEST_FOR_BASIS
        if faded != 1.0 or count < fewest or not self._summed(parts):
            self._factor, self._basis = _reflect(self.R * faded, parts), None
        self.rows += count

    def _summed(self, parts: Sequence[Array]) -> bool:
        """Add the products of the rows to the sums and return True; return False if that is inaccurate."""
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
    """Buffers of a thread for rows of one width, and for the sums of their products."""

    rows: Array
    sums: Array
    products: SquareSums

    @staticmethod
    def of(width: int) -> _Workspace:
        """Return the buffers of this thread."""
        known: dict[int, _Workspace] = _own.__dict__.setdefault("rooms", {})
        if width not in known:
            rows, sums = np.empty((PRODUCT_ROWS, width)), np.zeros((width, width))
            known[width] = _Workspace(rows, sums, SquareSums(sums, rows))
        return known[width]


_own = threading.local()


def _basis(R: Array) -> _Basis | None:
    """Return the basis in which products of columns may be summed; None if there is none."""
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
    """Return the factor of [R; rows] by Householder reflections."""
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
            code=Code.NOT_FINITE,
            subject=routine,
        )


def triangle_of(rows: Array) -> Array:
    """Return R (k, k) of rows (N, k); rows of zeros are added if N < k."""
    k = rows.shape[1]
    R = np.zeros((k, k))
    triangle = np.linalg.qr(rows, mode="r")
    R[: len(triangle)] = triangle
    return R


FACTORED_ROWS: Final = 1024
"""Rows of a block: the columns of a 6-joint arm (1.3 MB) stay in the cache. 512 to 4096 differ by 10 %."""

Group = tuple[int, slice | NDArray[np.bool_]]
"""The number of a group, and which rows of a block belong to it."""
RowStream = Iterable[tuple[list[list[Array]], NDArray[np.intp]]]
"""Blocks of [columns | torque], as arrays side by side for each joint, with the sample numbers of their rows."""


class Accumulator(Protocol):
    """Sums over the rows of a joint, for each of several groups of rows."""

    def append(self, parts: Sequence[Array], groups: Iterable[Group]) -> None:
        """Add rows (N, k), given as arrays side by side, to the groups that they belong to."""


class Factors:
    """R factors (k, k) with R^T R = A^T A for the rows A of each group."""

    def __init__(self, width: int, count: int = 1) -> None:
        self.groups = [Triangle(width) for _ in range(count)]

    def append(self, parts: Sequence[Array], groups: Iterable[Group]) -> None:
        """Add rows to the groups that they belong to."""
        for number, taken in groups:
            self.groups[number].append([part[taken] for part in parts])


class GramMatrices:
    """A^T A (k, k) for the rows A of each group."""

    def __init__(self, width: int, count: int = 1, size: int = FACTORED_ROWS) -> None:
        self._totals, self.rows = np.zeros((count, width, width)), np.empty((size, width))
        self._products = SquareSums(self._totals, self.rows)

    def append(self, parts: Sequence[Array], groups: Iterable[Group]) -> None:
        """Add at most `size` rows to the groups that they belong to."""
        count = len(np.concatenate(parts, axis=1, out=self.rows[: len(parts[0])]))
        self.add(
            (number, slice(*taken.indices(count)) if isinstance(taken, slice) else taken) for number, taken in groups
        )

    def add(self, groups: Iterable[Group]) -> None:
        """Add rows of the buffer `rows` to the groups that they belong to."""
        for number, taken in groups:
            if isinstance(taken, slice):
                self._products.add(taken, number)
            else:
                chosen = self.rows[: len(taken)][taken]
                self._totals[number] += chosen.T @ chosen

    @property
    def matrices(self) -> list[Array]:
        """The matrix of each group."""
        return [mirror_upper_triangle(total) for total in self._totals]


def accumulate(
    stream: RowStream,
    joints: Sequence[Accumulator],
    groups_of: Callable[[NDArray[np.intp], int], Iterable[Group]],
) -> None:
    """Add the rows of a stream to the accumulator of each joint.

    groups_of  returns the groups of rows with given sample numbers, for the number of a joint
    """
    for parts, numbers in stream:
        for joint, (accumulator, arrays) in enumerate(zip(joints, parts, strict=True)):
            accumulator.append(arrays, groups_of(numbers, joint))
