"""`ColumnSums`: Gram matrices of parts of the rows, of columns and torque after the parallel filter.

Columns are computed again for each set of parts: that is faster than reading them from memory. Each thread works on
its own segments; results are combined in order, so that they do not depend on the number of threads.

Fit all folds but one, for each fold, from the normal matrices of their rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpocon, dpotrf, dpotrs

from mindyn.algebra.values import Array
from mindyn.logs.filters import lowpass
from mindyn.logs.samples import Samples
from mindyn.numerics.threads import map_in_threads
from mindyn.regression.accumulators import FACTORED_ROWS, GramMatrices, Group, accumulate
from mindyn.regression.friction_limits import FrictionLimits, prior_precision
from mindyn.regression.regressor import Parts, Regressor
from mindyn.regression.row_blocks import SampleSegment, blocks_along, find_directions, segment_ends

Item = TypeVar("Item")
Slowest = float | tuple[float, ...]
"""Speeds of the joints, rad/s, that a row must exceed to count for the joint."""


class Part(NamedTuple):
    """Rows of a Gram matrix: first, end, step, and the speed that they must exceed (None: any)."""

    first: int
    last: int
    step: int = 1
    slowest: Slowest | None = None

    def within(self, rows: range) -> slice:
        """Return which of some consecutive rows belong to the part, counted from the first of them."""
        first = max(self.first, rows.start)
        first += -(first - self.first) % self.step
        return slice(first - rows.start, max(first, min(self.last, rows.stop)) - rows.start, self.step)


class ColumnSums:
    """Sums for the samples of one conditioning, one cut-off and one friction."""

    def __init__(self, regressor: Regressor, samples: Samples, cutoff_hz: float | None) -> None:
        self.regressor, self.samples, self.cutoff_hz = regressor, samples, cutoff_hz
        self.segments = segment_ends(samples.segments)
        self._directions = find_directions(regressor, samples)
        self._matrices: dict[Part, list[Array]] = {}

    def normal_matrices(self, parts: Sequence[Part]) -> list[list[Array]]:
        """Return W^T W, W = [Y | smooth tau | tau], for each part and joint; a part lies in one segment."""
        new = self._by_segment([(part, part) for part in dict.fromkeys(parts) if part not in self._matrices])
        sums = map_in_threads(lambda work: self._sums(*work), new)
        for (_, segment_parts), matrices in zip(new, sums, strict=True):
            self._matrices.update(zip(segment_parts, matrices, strict=True))
        return [self._matrices[part] for part in parts]

    def squared_errors(self, parts: Sequence[tuple[Part, Array]]) -> list[Array]:
        """Return (n, 2) squares of tau - Y beta and of tau of each joint, for each part with its beta (p,).

        Filtering Y beta equals summing filtered columns; the torques are far fewer.
        """
        spread = self._by_segment([(part, (k, part, beta)) for k, (part, beta) in enumerate(parts)])
        squares = dict.fromkeys(range(len(parts)), np.empty(0))
        for errors in map_in_threads(lambda work: self._errors(*work), spread):
            squares.update(errors)
        return list(squares.values())

    def count(self, part: Part, joint: int) -> int:
        """Return the number of rows of the part that count for a joint."""
        if part.slowest is not None:
            return int(self._fast(part.slowest, slice(part.first, part.last, part.step))[:, joint].sum())
        return len(range(part.first, part.last, part.step))

    def _fast(self, slowest: Slowest, rows: slice) -> NDArray[np.bool_]:
        """Return (rows, n) which joints exceed the slowest speed."""
        return np.asarray(np.abs(self.samples.qd[rows]) > np.asarray(slowest))

    def _by_segment(self, items: Sequence[tuple[Part, Item]]) -> list[tuple[range, list[Item]]]:
        """Group the items of parts by the segments in which the parts lie."""
        held: dict[int, list[Item]] = {}
        starts = [start for start, _ in self.segments]
        for part, item in items:
            held.setdefault(int(np.searchsorted(starts, part.first, side="right")) - 1, []).append(item)
        return [(range(*self.segments[number]), segment_items) for number, segment_items in sorted(held.items())]

    def _sums(self, segment: range, parts: Sequence[Part]) -> list[list[Array]]:
        """Return the Gram matrix for each part and joint."""
        joints = [GramMatrices(len(columns) + 2, len(parts)) for columns in self.regressor.columns]
        latest: dict[int, list[tuple[int, slice | NDArray[np.bool_]]]] = {}

        def groups_of(numbers: NDArray[np.intp], joint: int) -> Iterator[Group]:
            first = int(numbers[0])
            if first not in latest:  # the joints of a block follow each other
                latest.clear()
                latest[first] = list(self._groups(range(first, int(numbers[-1]) + 1), parts))
            for k, taken in latest[first]:
                yield k, taken if isinstance(taken, slice) else taken[:, joint]

        accumulate(self._with_torque(self._rows(segment, parts, self.cutoff_hz)), joints, groups_of)
        return [list(matrices) for matrices in zip(*(sums.matrices for sums in joints), strict=True)]

    def _groups(self, rows: range, parts: Sequence[Part]) -> Iterator[tuple[int, slice | NDArray[np.bool_]]]:
        """Yield the parts that have some of these rows, with the rows, or with (rows, n) which count for each joint."""
        for k, part in enumerate(parts):
            taken = part.within(rows)
            if taken.start >= taken.stop:
                continue
            if part.slowest is None:
                yield k, taken
            else:
                chosen = np.zeros((len(rows), len(self.regressor.columns)), dtype=np.bool_)
                chosen[taken] = self._fast(part.slowest, slice(rows.start, rows.stop))[taken]
                yield k, chosen

    def _rows(
        self, segment: range, parts: Sequence[Part], cutoff_hz: float | None
    ) -> Iterator[tuple[Parts, NDArray[np.intp]]]:
        """Yield the rows of a segment; without a filter only the blocks that parts use.

        Blocks begin at the same rows whatever the parts are, so that sums have the same bits.
        """
        meant = segment
        if cutoff_hz is None:
            first, last = min(part.first for part in parts), max(part.last for part in parts)
            meant = range(first - (first - segment.start) % FACTORED_ROWS, last)
        piece = SampleSegment(self.samples, meant, 0, [(segment.start, segment.stop)])
        return blocks_along(self.regressor, piece, self._directions, cutoff_hz, 1, edge_rows=0)

    def _with_torque(
        self, stream: Iterator[tuple[Parts, NDArray[np.intp]]]
    ) -> Iterator[tuple[Parts, NDArray[np.intp]]]:
        """Append the unfiltered torque to the rows."""
        for parts, numbers in stream:
            tau = self.samples.tau[numbers[0] : numbers[-1] + 1]
            yield [[*arrays, tau[:, joint : joint + 1]] for joint, arrays in enumerate(parts)], numbers

    def _errors(self, segment: range, parts: Sequence[tuple[int, Part, Array]]) -> list[tuple[int, Array]]:
        """Return the number of each part with the squares (n, 2) of the residual torque and of the torque."""
        betas = {id(beta): beta for _, _, beta in parts}
        wanted = [part for _, part, _ in parts]
        torques = dict(zip(betas, self._torques(segment, wanted, [*betas.values()]), strict=True))
        squares = []
        for number, part, beta in parts:
            taken, logged = part.within(segment), slice(part.first, part.last, part.step)
            tau = self.samples.tau[logged]
            left = tau - torques[id(beta)][taken]
            if part.slowest is not None:
                fast = self._fast(part.slowest, logged)
                tau, left = np.where(fast, tau, 0.0), np.where(fast, left, 0.0)
            squares.append((number, np.stack([(left**2).sum(axis=0), (tau**2).sum(axis=0)], axis=1)))
        return squares

    def _torques(self, segment: range, parts: Sequence[Part], betas: Sequence[Array]) -> Array:
        """Return the filtered torque Y beta (betas, rows of the segment, n), at the rows that parts may use."""
        wanted = parts if self.cutoff_hz is None else [Part(segment.start, segment.stop)]
        joints, values = self.regressor.columns, np.stack(betas, axis=1)
        torques = np.zeros((len(segment), len(joints), len(betas)))
        for blocks, numbers in self._rows(segment, wanted, None):
            at = slice(numbers[0] - segment.start, numbers[-1] + 1 - segment.start)
            for joint, (columns, arrays) in enumerate(zip(joints, blocks, strict=True)):
                ends = np.cumsum([0, *(array.shape[1] for array in arrays[:-1])])
                for array, first, last in zip(arrays[:-1], ends[:-1], ends[1:], strict=True):
                    torques[at, joint] += array @ values[columns[first:last]]
        if self.cutoff_hz is not None:
            lowpass(torques, self.cutoff_hz, self.samples.rate_hz, out=torques.reshape(len(segment), -1))
        return np.moveaxis(torques, 2, 0)


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
    """Numbers of the parameters that a fit has, `prior_groups` among them, and the limits of friction."""

    numbers: list[int]
    priors: list[tuple[int, list[int]]]
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

    Friction has its priors, and stays within its limits. The fits only compare settings, so that they do not need the
    last digits that a QR would give. A coefficient of one joint has a prior for all weights of the joints or for none.
    """
    fits, n, size, _ = squares.shape
    torques = squares[:, :, -1, -1]
    # Rounding may make the residual of a fully explained torque negative.
    least = np.maximum(1e-12 * torques, 1e-18 * torques.max(axis=1, keepdims=True) + 1e-300)
    alive, betas = torques > 0, np.zeros((fits, size))
    weights = alive.astype(np.float64)
    numbers = np.array(kept.numbers, dtype=np.intp)
    betas[:, -1], chosen, groups = -1.0, np.append(numbers, size - 1), kept.priors
    several = np.count_nonzero(np.einsum("fnkk->nk", squares), axis=0) > 1  # joints with a column
    for _ in range(REWEIGHTINGS + 1):
        whole = (weights[:, None] @ squares.reshape(fits, n, -1)).reshape(fits, size, size)
        precisions = [prior_precision(whole[:, np.array([k, *others])[:, None], [k, *others]]) for k, others in groups]
        for (k, _), precision in zip(groups, precisions, strict=True):
            whole[:, k, k] += precision
        pairs = zip(groups, precisions, strict=True)
        groups = [group for group, precision in pairs if precision.any() or several[group[0]]]
        whole = whole if len(chosen) == size else whole[:, chosen[:, None], chosen]
        matrices, rights = whole[:, :-1, :-1], whole[:, :-1, -1]
        betas[:, numbers] = _solve_folds(matrices, rights)
        if len(kept.limits.rows):
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
