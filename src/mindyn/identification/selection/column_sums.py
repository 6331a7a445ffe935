"""`ColumnSums`: Gram matrices of columns and torque after the parallel filter, for ranges of the rows.

One pass over the rows computes the sums for all friction models that are compared, because they share the columns of
the links.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mindyn.foundation.algebra.values import Array
from mindyn.logs.filters import lowpass
from mindyn.logs.samples import Samples, segment_ends
from mindyn.regression.information import FACTORED_ROWS, GramMatrices
from mindyn.regression.regressor import Regressor
from mindyn.regression.row_blocks import SampleSegment, find_directions, windows

Slowest = float | tuple[float, ...]
"""Speeds of the joints, rad/s; a row counts for a joint only if the joint is faster."""
Matrices = list[Array]
"""For each joint, W^T W of W = [columns of all frictions | smooth tau | tau]."""


class RowRange(NamedTuple):
    """Rows of a Gram matrix: first, end, step, and the speed that a joint must exceed (None: any speed)."""

    first: int
    last: int
    step: int = 1
    slowest: Slowest | None = None

    @property
    def with_slow_rows(self) -> RowRange:
        """Return the range with rows of any speed."""
        return self._replace(slowest=None)

    def within(self, rows: range) -> slice:
        """Return the slice of the range's rows among consecutive rows, counted from the first of these rows."""
        first = max(self.first, rows.start)
        first += -(first - self.first) % self.step
        return slice(first - rows.start, max(first, min(self.last, rows.stop)) - rows.start, self.step)


class Buffers:
    """Arrays that every pass reuses, because allocating new memory would take as long as computing the sums."""

    def __init__(self) -> None:
        self._arrays: dict[Hashable, Array] = {}

    def take(self, key: Hashable, rows: int, width: int) -> Array:
        """Return an array (rows, width) with undefined contents, valid until the same key is requested again."""
        known = self._arrays.get(key)
        if known is None or known.size < rows * width:
            known = self._arrays[key] = np.empty(rows * width)
        return known[: rows * width].reshape(rows, width)


class ColumnSums:
    """Sums for the samples of one conditioning and one cut-off; the regressors differ in their friction.

    places  for each regressor and joint, the positions of the joint's columns in the Gram matrices
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

    def normal_matrices(self, ranges: Sequence[RowRange]) -> list[Matrices]:
        """Return W^T W with W = [Y | smooth tau | tau] for each range and joint. Each range must lie in one segment."""
        starts, held = [start for start, _ in self.segments], dict[int, list[RowRange]]()
        for row_range in dict.fromkeys(ranges):
            held.setdefault(int(np.searchsorted(starts, row_range.first, side="right")) - 1, []).append(row_range)
        work = [(range(*self.segments[number]), segment_ranges) for number, segment_ranges in sorted(held.items())]
        sums_of_range = {
            row_range: matrices
            for segment, segment_ranges in work
            for row_range, matrices in zip(segment_ranges, self._sums(segment, segment_ranges), strict=True)
        }
        return [sums_of_range[row_range] for row_range in ranges]

    def counts(self, row_range: RowRange) -> NDArray[np.int64]:
        """Return the number of rows of the range that count for each joint."""
        rows = slice(row_range.first, row_range.last, row_range.step)
        if row_range.slowest is not None:
            return np.asarray((np.abs(self.samples.qd[rows]) > np.asarray(row_range.slowest)).sum(axis=0))
        return np.full(len(self.widths), len(range(row_range.first, row_range.last, row_range.step)))

    def _sums(self, segment: range, ranges: Sequence[RowRange]) -> list[Matrices]:
        """Return the Gram matrix for each range and joint.

        Without a filter, only rows that belong to ranges are computed.

        The sum of a range without slow rows is the sum with slow rows minus that of the slow rows, which are few.
        """
        used = segment
        if self.cutoff_hz is None:
            used = range(min(row_range.first for row_range in ranges), max(row_range.last for row_range in ranges))
        piece = SampleSegment(self.samples, used, 0, [(segment.start, segment.stop)])
        parts_of_rows = list(windows(piece, self.cutoff_hz, 1, 0))
        size = max((window.last - window.first for window in parts_of_rows), default=0)
        rows = [self._buffers.take(joint, size, width) for joint, width in enumerate(self.widths)]
        number_of = {
            row_range: k for k, row_range in enumerate(dict.fromkeys([*(p.with_slow_rows for p in ranges), *ranges]))
        }
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

        def sums_of_range(row_range: RowRange) -> Matrices:
            every = [joint[number_of[row_range.with_slow_rows]] for joint in matrices]
            if row_range.slowest is None:
                return every
            pairs = zip(every, (joint[number_of[row_range]] for joint in matrices), self.counts(row_range), strict=True)
            return [(total - slow) * bool(count) for total, slow, count in pairs]  # exactly zero without a row

        return [sums_of_range(row_range) for row_range in ranges]

    def _groups(
        self, window: slice, kept: range, ranges: Sequence[RowRange]
    ) -> Iterator[tuple[int, slice | list[NDArray[np.intp]]]]:
        """Yield for each range the kept rows of a window that belong to it.

        For ranges without slow rows, also yield the slow rows of each joint.
        """
        by = kept.start - window.start
        for k, row_range in enumerate(ranges):
            first, last, step = row_range.within(range(kept.start, kept.stop)).indices(len(kept))
            if first >= last:
                continue
            taken = slice(first + by, last + by, step)
            if row_range.slowest is None:
                yield k, taken
            else:
                is_slow = np.abs(self.samples.qd[window][taken]) <= np.asarray(row_range.slowest)
                yield k, [taken.start + step * np.flatnonzero(joint) for joint in is_slow.T]

    def _fill(self, window: slice, joints: Sequence[Array]) -> None:
        """Write the columns of all friction models of every joint, for a few rows at a time, which stay in the
        cache.
        """
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
