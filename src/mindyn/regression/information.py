"""`Information`: the data in the form that least squares needs: one R factor for each joint. R factors can be added.

Rows of a stream are accumulated as R factors (`Triangle`, A^T A = R^T R with the accuracy of a QR factorisation), or as
Gram matrices. Every value, covariance and interval that is returned is computed from R factors, which keep all digits.
Gram matrices lose half of the digits; they are used only to compare settings.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mindyn.foundation.algebra.values import Array, ShortRepr
from mindyn.foundation.errors import Code, InputError

FEWEST: Final = 64
"""Number of rows below which Householder reflections are as fast as sums of products."""
FEWEST_FOR_BASIS: Final = 512
"""Number of rows below which reflections are as fast as choosing a basis and computing its products."""
PRODUCT_ROWS: Final = 512
"""Number of rows of one product: the columns of so many rows stay in the cache."""
SMALLEST_PIVOT: Final = 1e-2
"""If a fit by earlier columns leaves less than this fraction of a column unexplained, the column is replaced by its
residual.
"""
LARGEST_CONDITION: Final = 1e3
"""Largest condition number of the scaled columns whose products are summed: then half of the sixteen digits of a double
remain.
"""
LARGEST_GROWTH: Final = 1e2
"""Growth of the squared length of a column after which a new basis is chosen, because small values lose digits."""


class _Basis(NamedTuple):
    """Factors A = C T, where the columns of C are nearly independent: C has the columns of A, except a few.

    T       (k, k) upper triangular, the identity except for the columns that are `alone`
    alone   columns that the earlier columns nearly explain; in C, they are replaced by their scaled residual
    sums    (k, k) C^T C of all rows
    first   (k,) squared lengths of the columns when the basis was chosen
    """

    T: Array
    alone: Sequence[int]
    sums: Array
    first: Array


class Triangle:
    """Factor R (k, k) of the QR factorisation of all appended rows, with memory for one block of rows.

    If the columns are nearly independent, products of rows are summed: C^T C = L^T L and R = L T. This takes a third of
    the time of reflections. Sums of products are accurate enough for the joints of an arm, except for two kinds of
    columns: a column that other columns of the same joint explain, and a torque with little noise. These columns are
    replaced by their residuals. In other cases, or if rows differ much from the earlier rows, [R; rows] is factored by
    reflections.
    """

    def __init__(self, width: int) -> None:
        self.width = width
        self.rows = 0
        self._factor: Array | None = np.zeros((width, width))
        self._product_basis: _Basis | None = None

    @property
    def R(self) -> Array:
        """Return the factor of all rows so far."""
        from scipy.linalg.lapack import dpotrf

        if self._factor is None:
            assert self._product_basis is not None
            L, info = dpotrf(self._product_basis.sums)
            _require_factored(info, "dpotrf")
            self._factor = np.triu(L) @ self._product_basis.T
        return self._factor

    def append(self, parts: Sequence[Array], faded: float = 1.0) -> None:
        """Append rows, given as arrays (N, .) of adjacent columns. Earlier rows get the weight faded^2."""
        if not (count := len(parts[0])):
            return
        fewest = FEWEST if self._product_basis else FEWEST_FOR_BASIS
        if faded != 1.0 or count < fewest or not self._add_products(parts):
            self._factor, self._product_basis = _reflect(self.R * faded, parts), None
        self.rows += count

    def _add_products(self, parts: Sequence[Array]) -> bool:
        """Add the products of the rows to the sums.

        Return False, without a change, if sums of products would be inaccurate.
        """
        basis = self._product_basis or _product_basis(self.R)
        if basis is None:
            return False
        buffer, sums = _row_buffer(self.width), basis.sums.copy()
        for start in range(0, len(parts[0]), PRODUCT_ROWS):
            taken = [part[start : start + PRODUCT_ROWS] for part in parts]
            C = np.concatenate(taken, axis=1, out=buffer[: len(taken[0])])
            with np.errstate(over="ignore", invalid="ignore"):  # columns that were alike: the sums below show it
                for j in basis.alone:
                    C[:, j] = (C[:, j] - C[:, :j] @ basis.T[:j, j]) / basis.T[j, j]
                sums += C.T @ C
        if not (sums.diagonal() < LARGEST_GROWTH * basis.first).all():  # also if an entry is not a number
            if self._factor is not None:
                return False
            _, self._product_basis = self.R, None  # by what came since the basis was made they may be alike
            return self._add_products(parts)
        self._product_basis, self._factor = basis._replace(sums=sums), None
        return True


def _row_buffer(width: int) -> Array:
    """Return this thread's buffer (PRODUCT_ROWS, width)."""
    known: dict[int, Array] = _own.__dict__.setdefault("buffers", {})
    if width not in known:
        known[width] = np.empty((PRODUCT_ROWS, width))
    return known[width]


_own = threading.local()


def _product_basis(R: Array) -> _Basis | None:
    """Return the basis in which products of columns may be summed; None if there is no such basis."""
    from scipy.linalg.lapack import dtrtri, dtrtrs

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
    from scipy.linalg.lapack import dgeqrf

    k = len(R)
    work = np.empty((k + len(parts[0]), k), order="F")
    work[:k] = R
    np.concatenate(parts, axis=1, out=work[k:])
    factored, _, _, info = dgeqrf(work, overwrite_a=1)
    _require_factored(info, "dgeqrf")
    return np.triu(factored[:k])


def _require_factored(info: int, routine: str) -> None:
    """Raise an error if a LAPACK routine failed."""
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


class GramMatrices:
    """Products A^T A (k, k) of the rows A of each group; the rows are in a buffer (size, k)."""

    def __init__(self, rows: Array, count: int = 1) -> None:
        self.matrices, self._rows = np.zeros((count, rows.shape[1], rows.shape[1])), rows

    def add(self, groups: Iterable[tuple[int, slice | NDArray[np.intp]]]) -> None:
        """Add rows of the buffer to the groups that they belong to."""
        for number, taken in groups:
            rows = self._rows[taken]
            self.matrices[number] += rows.T @ rows


def accumulate(
    stream: RowStream,
    joints: Sequence[Sequence[Triangle]],
    groups_of: Callable[[NDArray[np.intp], int], Iterable[Group]],
) -> None:
    """Add the rows of a stream to the R factors of each joint and group.

    groups_of  returns the groups of rows with given sample numbers, for the number of a joint
    """
    for parts, numbers in stream:
        for joint, (triangles, arrays) in enumerate(zip(joints, parts, strict=True)):
            for number, taken in groups_of(numbers, joint):
                triangles[number].append([array[taken] for array in arrays])


RANK_TOLERANCE: Final = 1e-9
"""A singular value of the column-scaled matrix below this fraction of the largest counts as zero. Rounding of the QR is
1e-14; on exciting data, the structural base set has no singular value that small, and a joint that stands still gives
exact zeros.
"""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Information(ShortRepr):
    """R factors of [Y_i | tau_i] for each joint i: R_i^T R_i = [Y_i | tau_i]^T [Y_i | tau_i].

    joint_names  n names
    names        of the p parameters
    columns      for each joint the numbers of its p_i parameters
    factors      for each joint R_i (p_i + 1, p_i + 1); its last column holds Q^T tau
    counts       rows of each joint
    unforced     joints of a floating base; a torque that is always zero counts as measured at these joints, and as not
    logged at others
    """

    joint_names: tuple[str, ...]
    names: tuple[str, ...]
    columns: tuple[NDArray[np.intp], ...]
    factors: tuple[Array, ...]
    counts: tuple[int, ...]
    unforced: tuple[str, ...] = ()

    def __add__(self, other: Information) -> Information:
        """Return the sum of both, as if their rows had been gathered together."""
        return add_information((self, other))

    def stacked(self, weights: Array | None = None) -> tuple[Array, Array]:
        """Return R (rows, p) and z (rows,) with |R beta - z|^2 = sum_i weights_i |Y_i beta - tau_i|^2."""
        weights = np.ones(len(self.factors)) if weights is None else weights
        blocks = []
        for columns, factor, weight in zip(self.columns, self.factors, weights, strict=True):
            block = np.zeros((len(factor), len(self.names) + 1))
            block[:, [*columns, -1]] = np.sqrt(weight) * factor
            blocks.append(block)
        R = np.vstack(blocks)
        return R[:, :-1], R[:, -1]

    def unused_columns(self, weights: Array) -> tuple[Array, Array] | None:
        """Return R and z of the joints without weight; None if every joint has a weight."""
        return None if weights.all() else self.stacked(np.equal(weights, 0.0).astype(np.float64))

    def residuals(self, beta: Array) -> Array:
        """Return the sum of squared residuals (..., n) of every joint for beta (..., p)."""
        return np.stack([self.residuals_of(joint, beta) for joint in range(len(self.factors))], axis=-1)

    def residuals_of(self, joint: int, beta: Array) -> Array:
        """Return the sum of squared residuals (...,) of one joint."""
        factor = self.factors[joint]
        error = beta[..., self.columns[joint]] @ factor[:, :-1].T - factor[:, -1]
        return np.asarray(np.einsum("...k,...k->...", error, error))

    def torques(self) -> Array:
        """Return the sum of squared torques (n,) of every joint."""
        return np.array([float(factor[:, -1] @ factor[:, -1]) for factor in self.factors])

    def measured(self) -> NDArray[np.bool_]:
        """For each joint (n,), whether its torque is measured: it is not always zero, or the joint is `unforced`."""
        return np.asarray((self.torques() > 0) | np.isin(self.joint_names, self.unforced))

    def torque_sizes(self) -> Array:
        """Sum of squared torques (n,) of every joint; joints whose torque is zero get the largest sum of all joints."""
        torques = self.torques()
        return np.where(torques > 0, torques, torques.max() or 1.0)

    def without_torques(self, joints: Sequence[bool]) -> Information:
        """Return the information with zero torque of the marked joints."""
        factors = [np.array(triangle) for triangle in self.factors]
        for factor, gone in zip(factors, joints, strict=True):
            factor[:, -1] *= not gone
        return replace(self, factors=tuple(factors))

    def condition_number(self, weights: Array | None = None) -> float:
        """Return the condition number with columns of unit length; infinite if parameters are unidentifiable."""
        s = np.linalg.svd(_scale_columns(self.stacked(weights)[0])[0], compute_uv=False)
        return float(s[0] / s[-1]) if s[-1] > RANK_TOLERANCE * s[0] else float("inf")

    def unidentifiable(self, weights: Array | None = None) -> dict[str, tuple[str, ...]]:
        """Return the unidentifiable parameters, each with the parameters that it forms a combination with."""
        V = null_space(self.stacked(weights)[0])
        touched = np.abs(V) > 1e-6
        names_by_joint = {}
        for k in np.flatnonzero(touched.any(axis=1)):
            mixed = touched[:, touched[k]].any(axis=1)
            names_by_joint[self.names[k]] = tuple(self.names[j] for j in np.flatnonzero(mixed) if j != k)
        return names_by_joint


IDLE_JOINT_WEIGHT: Final = 1e-4
"""Weight of a joint without torque, relative to the joint with the largest torque. It limits combinations of parameters
that the other joints do not determine.
"""
MIN_RELATIVE_RESIDUAL: Final = 1e-4
"""Smallest residual relative to a joint's torque: exact data have no deviation that could give a weight."""


def joint_weights(information: Information, beta: Array) -> Array:
    """Return 1 / mean squared residual of each joint, (n,).

    A joint whose torque is zero in every row gets `IDLE_JOINT_WEIGHT` divided by the mean square of the largest torque.
    """
    torques, measured = information.torques(), information.measured()
    counts = np.maximum(information.counts, 1)  # a held trunk has no rows of its base
    least = MIN_RELATIVE_RESIDUAL**2 * information.torque_sizes()
    variances = np.maximum(information.residuals(beta), least) / counts
    idle = IDLE_JOINT_WEIGHT / max(float((torques / counts).max()), 1e-300)
    return np.where(measured, 1 / np.where(measured, variances, 1.0), idle)


def add_information(parts: Sequence[Information]) -> Information:
    """Return the information of all parts, which have the same joints and parameters, added in this order."""
    first = parts[0]
    if any((part.joint_names, part.names) != (first.joint_names, first.names) for part in parts):
        raise InputError(
            "information of different joints or parameters cannot be added: robot, base set or friction differ",
            code=Code.DISAGREEMENT,
            subject="information",
        )
    if len(parts) == 1:
        return first
    joints = range(len(first.factors))
    factors = tuple(triangle_of(np.vstack([part.factors[j] for part in parts])) for j in joints)
    return replace(first, factors=factors, counts=tuple(sum(part.counts[j] for part in parts) for j in joints))


def null_space(R: Array) -> Array:
    """Return directions (p, k) of scaled parameters that no row of R depends on."""
    scaled, _ = _scale_columns(R)
    _, s, Vt = np.linalg.svd(scaled, full_matrices=True)
    rank = int((s > RANK_TOLERANCE * s[0]).sum()) if len(s) and s[0] > 0 else 0
    return np.asarray(Vt[rank:].T)


def identifiable_directions(R: Array) -> Array:
    """Return B (p, k) with beta = B @ gamma: the identifiable directions, orthogonal to `null_space`.

    B is orthonormal if each parameter has the unit 1 / (length of its column of R).
    """
    (_, scales), hidden = _scale_columns(R), null_space(R)
    return np.asarray(np.linalg.svd(hidden)[0][:, hidden.shape[1] :] / scales[:, None])


def _scale_columns(R: Array) -> tuple[Array, Array]:
    scales = np.linalg.norm(R, axis=0)
    scales = np.where(scales > 0, scales, 1.0)
    return R / scales, scales


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """The least-squares solution and its unscaled covariance.

    beta     (p,) shortest in scaled columns if the data do not determine all directions
    inverse  (p, p) pseudo-inverse of R^T R
    rank     number of identifiable directions
    """

    beta: Array
    inverse: Array
    rank: int


def solve(R: Array, z: Array, then: tuple[Array, Array] | None = None) -> Solution:
    """Return the minimiser of |R beta - z|, computed from the singular values of the column-scaled R.

    then  R2, z2 of rows without weight: if there are several minimisers, take the one with the smallest |R2 beta - z2|
    """
    scaled, scales = _scale_columns(R)
    U, s, Vt = np.linalg.svd(scaled, full_matrices=False)
    kept = s > RANK_TOLERANCE * s[0]
    root = Vt[kept].T / s[kept] / scales[:, None]
    beta = root @ (U[:, kept].T @ z)
    hidden = null_space(R) / scales[:, None] if then is not None else np.zeros((len(beta), 0))
    if then is not None and hidden.size:
        beta = beta + hidden @ solve(then[0] @ hidden, then[1] - then[0] @ beta).beta
    return Solution(beta, root @ root.T, int(kept.sum()))
