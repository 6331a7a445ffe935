"""`ColumnSums`: Gram matrices of parts of the rows, of columns and torque after the parallel filter.

One pass over the rows sums the columns of all frictions that are compared: they share the columns of the links.

`Folds`: fit all blocks of rows but one, for each block, from the Gram matrices of their rows.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mindyn.foundation.algebra.values import Array
from mindyn.logs.filters import lowpass
from mindyn.logs.samples import Samples
from mindyn.regression.friction_limits import FrictionLimits, PriorGroups
from mindyn.regression.information import FACTORED_ROWS, GramMatrices
from mindyn.regression.regressor import Regressor
from mindyn.regression.row_blocks import SampleSegment, find_directions, segment_ends, windows

Slowest = float | tuple[float, ...]
"""Speeds of the joints, rad/s, that a row must exceed to count for the joint."""
Matrices = list[Array]
"""For each joint, W^T W of W = [columns of all frictions | smooth tau | tau]."""


class Part(NamedTuple):
    """Rows of a Gram matrix: first, end, step, and the speed that they must exceed (None: any)."""

    first: int
    last: int
    step: int = 1
    slowest: Slowest | None = None

    @property
    def with_slow_rows(self) -> Part:
        """Return the part with rows of any speed."""
        return self._replace(slowest=None)

    def within(self, rows: range) -> slice:
        """Return which of some consecutive rows belong to the part, counted from the first of them."""
        first = max(self.first, rows.start)
        first += -(first - self.first) % self.step
        return slice(first - rows.start, max(first, min(self.last, rows.stop)) - rows.start, self.step)


class Buffers:
    """Arrays that are used for pass after pass: the pages of new ones take as long as the sums."""

    def __init__(self) -> None:
        self._arrays: dict[Hashable, Array] = {}

    def take(self, key: Hashable, rows: int, width: int) -> Array:
        """Return an array (rows, width) with any contents, which is valid until the key is taken again."""
        known = self._arrays.get(key)
        if known is None or known.size < rows * width:
            known = self._arrays[key] = np.empty(rows * width)
        return known[: rows * width].reshape(rows, width)


class ColumnSums:
    """Sums for the samples of one conditioning and one cut-off; the regressors differ in their friction.

    places  for each regressor and joint, where the columns of the joint are in the Gram matrices
    widths  sizes of the Gram matrices of the joints
    """

    def __init__(
        self,
        regressors: Sequence[Regressor],
        samples: Samples,
        cutoff_hz: float | None,
        buffers: Buffers | None = None,
    ) -> None:
        self.samples, self.cutoff_hz = samples, cutoff_hz
        self.segments = segment_ends(samples.segments)
        self._buffers = buffers or Buffers()
        directions = {r.friction.motion_key: find_directions(r, samples) for r in regressors if r.has_directions}
        # The sign of the kernel is overwritten by other directions: the regressor that uses it comes first.
        self._frictions = [
            (regressor, directions.get(regressor.friction.motion_key) if regressor.has_directions else None)
            for regressor in sorted(regressors, key=lambda regressor: regressor.has_directions)
        ]
        columns: list[dict[Hashable, int]] = [{} for _ in regressors[0].columns]
        places: dict[Regressor, list[NDArray[np.intp]]] = {}
        self._new: list[list[list[tuple[int, int]]]] = []
        for regressor, _ in self._frictions:
            pairs = [(regressor.column_keys(joint), known) for joint, known in enumerate(columns)]
            self._new.append(
                [
                    [(k, known.setdefault(key, len(known))) for k, key in enumerate(keys) if key not in known]
                    for keys, known in pairs
                ]
            )
            places[regressor] = [np.array([known[key] for key in keys], dtype=np.intp) for keys, known in pairs]
        self.places = [places[regressor] for regressor in regressors]
        self.widths = [len(known) + 2 for known in columns]

    def normal_matrices(self, parts: Sequence[Part]) -> list[Matrices]:
        """Return W^T W, W = [Y | smooth tau | tau], for each part and joint; a part lies in one segment."""
        starts, held = [start for start, _ in self.segments], dict[int, list[Part]]()
        for part in dict.fromkeys(parts):
            held.setdefault(int(np.searchsorted(starts, part.first, side="right")) - 1, []).append(part)
        work = [(range(*self.segments[number]), segment_parts) for number, segment_parts in sorted(held.items())]
        of_part = {
            part: matrices
            for segment, segment_parts in work
            for part, matrices in zip(segment_parts, self._sums(segment, segment_parts), strict=True)
        }
        return [of_part[part] for part in parts]

    def counts(self, part: Part) -> NDArray[np.int64]:
        """Return the number of rows of the part that count for each joint."""
        rows = slice(part.first, part.last, part.step)
        if part.slowest is not None:
            return np.asarray((np.abs(self.samples.qd[rows]) > np.asarray(part.slowest)).sum(axis=0))
        return np.full(len(self.widths), len(range(part.first, part.last, part.step)))

    def _sums(self, segment: range, parts: Sequence[Part]) -> list[Matrices]:
        """Return the Gram matrix for each part and joint; without a filter only rows that parts use are computed.

        A part without slow rows is the part with them minus the slow rows, which are few.
        """
        used = segment
        if self.cutoff_hz is None:
            used = range(min(part.first for part in parts), max(part.last for part in parts))
        piece = SampleSegment(self.samples, used, 0, [(segment.start, segment.stop)])
        parts_of_rows = list(windows(piece, self.cutoff_hz, 1, 0))
        size = max((window.last - window.first for window in parts_of_rows), default=0)
        rows = [self._buffers.take(joint, size, width) for joint, width in enumerate(self.widths)]
        number_of = {part: k for k, part in enumerate(dict.fromkeys([*(p.with_slow_rows for p in parts), *parts]))}
        joints = [GramMatrices(own, len(number_of)) for own in rows]
        for first, last, kept in parts_of_rows:
            window = slice(first, last)
            used_rows = [own[: last - first] for own in rows]
            self._fill(window, used_rows)
            groups = list(self._groups(window, kept, list(number_of)))
            for joint, (own, sums) in enumerate(zip(used_rows, joints, strict=True)):
                own[:, -2] = own[:, -1] = self.samples.tau[window, joint]
                if self.cutoff_hz is not None:
                    lowpass(own[:, :-1], self.cutoff_hz, self.samples.rate_hz, out=own[:, :-1])
                sums.add((k, taken if isinstance(taken, slice) else taken[joint]) for k, taken in groups)
        matrices = [sums.matrices for sums in joints]

        def of_part(part: Part) -> Matrices:
            every = [joint[number_of[part.with_slow_rows]] for joint in matrices]
            if part.slowest is None:
                return every
            pairs = zip(every, (joint[number_of[part]] for joint in matrices), self.counts(part), strict=True)
            return [(total - slow) * bool(count) for total, slow, count in pairs]  # exactly zero without a row

        return [of_part(part) for part in parts]

    def _groups(
        self, window: slice, kept: range, parts: Sequence[Part]
    ) -> Iterator[tuple[int, slice | list[NDArray[np.intp]]]]:
        """Yield the parts that have some of the kept rows of a window, with these rows of the window; for parts without
        slow rows, with the slow rows of each joint.
        """
        by = kept.start - window.start
        for k, part in enumerate(parts):
            first, last, step = part.within(range(kept.start, kept.stop)).indices(len(kept))
            if first >= last:
                continue
            taken = slice(first + by, last + by, step)
            if part.slowest is None:
                yield k, taken
            else:
                is_slow = np.abs(self.samples.qd[window][taken]) <= np.asarray(part.slowest)
                yield k, [taken.start + step * np.flatnonzero(joint) for joint in is_slow.T]

    def _fill(self, window: slice, joints: Sequence[Array]) -> None:
        """Write the columns of all frictions of every joint, few rows at a time, which stay in the cache."""
        for start in range(window.start, window.stop, FACTORED_ROWS):
            taken = slice(start, min(start + FACTORED_ROWS, window.stop))
            within = slice(taken.start - window.start, taken.stop - window.start)
            self._fill_columns(taken, [rows[within] for rows in joints])

    def _fill_columns(self, taken: slice, joints: Sequence[Array]) -> None:
        samples, (first, _) = self.samples, self._frictions[0]
        motion = (first.positions(samples, taken), samples.qd[taken], samples.qdd[taken])
        compact = self._buffers.take("compact", taken.stop - taken.start, first.kernel.output_shapes[0][0])
        first.columns_of_kernel(*motion, compact)
        for (regressor, directions), new in zip(self._frictions, self._new, strict=True):
            parts = regressor.with_friction_columns(compact, *motion, None if directions is None else directions[taken])
            for rows, arrays, columns in zip(joints, parts, new, strict=True):
                width = arrays[0].shape[1]
                if regressor is first:
                    rows[:, :width] = arrays[0]
                for k, place in columns:
                    if k >= width:
                        rows[:, place] = arrays[k - width + 1][:, 0]
                    elif regressor is not first:
                        rows[:, place] = arrays[0][:, k]


REWEIGHTINGS: Final = 4
"""Repetitions with weights from residuals. With 4, errors of a TX40 are converged to 2e-6 of them; a start from the
weights of all blocks takes as many, since the blocks that are held out have a part in these: with 1, errors are wrong
by 4e-4, which changes the settings of three measured logs."""
SMALLEST: Final = 1e-12
"""Eigenvalues of the scaled normal matrix below this fraction of the largest count as zero in a trial."""
WELL_CONDITIONED: Final = 1e-8
"""Reciprocal condition number above which no eigenvalue is near `SMALLEST`, so that none are computed."""

LARGE_PIVOT: Final = 1e-2
"""Smallest entry on the diagonal of the Cholesky factor above which a scaled matrix counts as well conditioned."""


class Fits(NamedTuple):
    """Normal matrix (k, k) and right side (k,) of the kept parameters, beta (p,), and weights (n,), of each fit."""

    matrices: Array
    rights: Array
    betas: Array
    weights: Array


class Kept(NamedTuple):
    """Numbers of the parameters that a fit has, the priors of some of them, and the limits of friction."""

    numbers: list[int]
    priors: PriorGroups
    limits: FrictionLimits | None


@dataclass(frozen=True, slots=True, eq=False)
class Folds:
    """Blocks of rows of which each is held out in turn.

    columns  for each joint, the numbers of its parameters
    fitted   for each joint (m, k + 1, k + 1) Gram matrices [Y | tau] of the rows of m blocks to fit
    scored   for each joint (m, k + 1, k + 1) the same of the rows to score
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

    def errors(self, betas: Array) -> tuple[Array, Array]:
        """Return squared residuals (steps, m, n) of betas (m, steps, p) on their blocks, and squared torques (m, n)."""
        error = []
        for columns, matrices in zip(self.columns, self.scored, strict=True):
            v = np.concatenate([betas[:, :, columns], np.full((*betas.shape[:2], 1), -1.0)], axis=2)
            error.append(np.maximum(0.0, ((v @ matrices) * v).sum(axis=2)).T)
        return np.stack(error, axis=2), squares_of_torque(self.scored)


def squares_of_torque(matrices: Sequence[Array]) -> Array:
    """Return (f, n) the squared torques of Gram matrices (f, k + 1, k + 1) of each joint."""
    return np.stack([joint[:, -1, -1] for joint in matrices], axis=1)


def fits_without_each(foldings: Sequence[Folds], kept: Kept) -> list[Fits]:
    """Fit all blocks but one, for each block of each folding."""
    joints = zip(*(folds.fitted for folds in foldings), strict=True)
    squares = [np.concatenate([_of_others(matrices) for matrices in joint]) for joint in joints]
    rows = np.concatenate([_of_others(folds.rows) for folds in foldings])
    fits = fit_sums(replace(foldings[0], fitted=squares, rows=rows), kept, equal_weights(squares), REWEIGHTINGS)
    ends = np.cumsum([0, *(len(folds.rows) for folds in foldings)])
    return [Fits(*(array[a:b] for array in fits)) for a, b in pairwise(ends)]


def equal_weights(squares: Sequence[Array]) -> Array:
    """Return (f, n) the weight 1 of joints with torque."""
    return (squares_of_torque(squares) > 0).astype(np.float64)


def _of_others(x: Array) -> Array:
    """Return (folds, ...) the sum over all other folds, for each fold; zero stays exactly zero."""
    return np.asarray(x.sum(axis=0) - x)


def fit_sums(folds: Folds, kept: Kept, weights: Array, repeats: int) -> Fits:
    """Fit each block alone, then weight each joint (m, n) by its residuals and repeat.

    Joints without torque have no weight. Friction has its priors, and stays within its limits. The fits only compare
    settings, so that they do not need the last digits that a QR would give. A coefficient of one joint has a prior for
    all weights of the joints or for none.
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
    return np.array([_solution(*problem) for problem in zip(scaled, scaled_rights, strict=True)]) / scales


def _solution(matrix: Array, right: Array) -> Array:
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
