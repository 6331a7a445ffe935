"""`ColumnSums`: normal matrices of parts of the rows, of columns and torque after the parallel filter.

Rows pass from the kernel through the filter into sums while they are in the cache: computing columns again is faster
than reading them from memory, so that none are stored. Each thread works on its own segments; results are combined in
order, so that they do not depend on the number of threads.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from mindyn.algebra.values import Array, native_array
from mindyn.logs.filters import CallListLowpass, lowpass
from mindyn.logs.samples import Samples
from mindyn.numerics.call_list import CallList, RowBlock
from mindyn.numerics.products import ProductSums, mirror_upper_triangle
from mindyn.numerics.threads import map_in_threads
from mindyn.regression.listed_columns import ListedColumns
from mindyn.regression.regressor import Regressor
from mindyn.regression.row_blocks import segment_ends

ROWS_AT_ONCE: Final = 1024
"""Rows of the kernel's columns that stay in the cache."""
CHUNK_ROWS: Final = 4 * ROWS_AT_ONCE
"""Rows for which calls are listed at a time if no filter needs the whole segment: more do not stay in the cache."""

Item = TypeVar("Item")
Slowest = float | tuple[float, ...]
"""Speeds of the joints, rad/s, that a row must exceed to count for the joint."""


class Part(NamedTuple):
    """Rows of a normal matrix: first, end, step, and the speed that they must exceed (None: any)."""

    first: int
    last: int
    step: int = 1
    slowest: Slowest | None = None

    def within(self, rows: range) -> slice:
        """Return which of some consecutive rows belong to the part, counted from the first of them."""
        first = max(self.first, rows.start)
        first += -(first - self.first) % self.step
        return slice(first - rows.start, max(first, min(self.last, rows.stop)) - rows.start, self.step)


class _Work(NamedTuple):
    """Workspace for the columns of some rows: the kernel's columns, and each joint's friction shapes and two torques.

    kernel, beside  for each joint, views of its columns in `room` and in `further`; its torques, smooth and as
                    logged, come last
    """

    room: Array
    further: Array
    kernel: list[Array]
    beside: list[Array]

    @staticmethod
    def create(room: ColumnWorkspace, use: str, rows: int, widths: Sequence[int], counts: Sequence[int]) -> _Work:
        """Reserve a workspace for the given numbers of columns of each joint."""
        places = []
        for kind, column_counts in (("kernel", widths), ("beside", counts)):
            ends = np.cumsum([0, *column_counts]).tolist()
            whole = room.reserve(rows, ends[-1], f"{use} {kind}")
            places.append((whole, [whole[:, a:b] for a, b in pairwise(ends)]))
        (columns, kernel), (further, beside) = places
        return _Work(columns, further, kernel, beside)


class ColumnWorkspace:
    """Memory that each thread reuses for its columns: allocating it costs as much time as computing the columns."""

    def __init__(self) -> None:
        self._own = threading.local()

    def reserve(self, rows: int, width: int, use: str = "") -> Array:
        """Return an uninitialised array (rows, width); arrays for other uses stay valid."""
        known: dict[str, Array] = self._own.__dict__
        held = known.get(use)
        if held is None or held.size < rows * width:
            held = known[use] = np.empty(rows * width)
        return held[: rows * width].reshape(rows, width)


class ColumnSums:
    """Sums for the samples of one conditioning, one cut-off and one friction.

    room  workspace for the columns, shared with other sums at other times
    """

    def __init__(self, regressor: Regressor, samples: Samples, cutoff_hz: float | None, room: ColumnWorkspace) -> None:
        self.regressor, self.samples, self.cutoff_hz = regressor, samples, cutoff_hz
        self.segments = segment_ends(samples.segments)
        self._room = room
        kernel = [int((columns < regressor.base.count).sum()) for columns in regressor.columns]
        self._widths = (
            kernel,
            [len(columns) - width + 2 for columns, width in zip(regressor.columns, kernel, strict=True)],
        )
        self._q = regressor.positions(samples)
        self._directions = regressor.directions(self._q, samples.qd, samples.segments, samples.rate_hz)
        self._listed = ListedColumns.create(regressor, (self._q, samples.qd, samples.qdd), self._directions)
        self._torque = self._filter_columns(samples.tau)
        self._matrices: dict[Part, list[Array]] = {}

    def normal_matrices(self, parts: Sequence[Part]) -> list[list[Array]]:
        """Return [Y | smooth tau | tau]^T [Y | smooth tau | tau] for each part and joint; a part lies in one segment."""
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
            return int(self.fast(part.slowest, slice(part.first, part.last, part.step))[:, joint].sum())
        return len(range(part.first, part.last, part.step))

    def fast(self, slowest: Slowest, rows: slice) -> NDArray[np.bool_]:
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
        """Return the normal matrix for each part and joint."""
        totals = [np.zeros((len(parts), len(columns) + 2, len(columns) + 2)) for columns in self.regressor.columns]
        chunks = self._chunks(segment, parts)
        calls, work = CallList(lambda: self._raise_not_finite(segment)), self._workspace(max(map(len, chunks)))
        adding = {speed: _SumList(self, totals, work, speed) for speed in dict.fromkeys(part.slowest for part in parts)}
        for chunk in chunks:
            self._write_further(chunk, work)
            for sum_list in adding.values():
                sum_list.begin(chunk)
            for rows, numbers in self._smooth_segments(chunk, parts, work, calls):
                for slowest, sum_list in adding.items():
                    chosen = [(number, parts[number]) for number in numbers if parts[number].slowest == slowest]
                    sum_list.list(calls, rows, chosen)
            calls.run()
        for total, A in zip(totals, work.kernel, strict=True):
            for matrix in total:
                _complete(matrix, A.shape[1])
        return [list(matrices) for matrices in zip(*totals, strict=True)]

    def _chunks(self, segment: range, parts: Sequence[Part]) -> list[range]:
        """Split the segment into rows that fit into the workspace; a filter needs all of them at once."""
        if self.cutoff_hz is not None:
            return [segment]
        first, last = min(part.first for part in parts), max(part.last for part in parts)
        first -= (first - segment.start) % ROWS_AT_ONCE
        return [range(start, min(start + CHUNK_ROWS, segment.stop)) for start in range(first, last, CHUNK_ROWS)]

    def _workspace(self, rows: int) -> _Work:
        work = _Work.create(self._room, "all", rows, *self._widths)
        if self.regressor.friction_columns[1]:
            work.further.fill(0.0)  # the filter reads the columns of the torques before they are written
        return work

    def copy_of_segment(self, slowest: Slowest) -> _Work:
        """Reserve a copy of the columns of some rows for parts that exclude slow rows."""
        return _Work.create(self._room, f"above {slowest}", ROWS_AT_ONCE, *self._widths)

    def _smooth_segments(
        self, chunk: range, parts: Sequence[Part], work: _Work, calls: CallList
    ) -> Iterator[tuple[range, list[int]]]:
        """Yield rows that parts use, and the numbers of these parts, after listing the calls that write their filtered
        columns.
        """
        write = self._writer(chunk, work, calls)
        if self.cutoff_hz is None:
            for rows, numbers in _split_segments(chunk, parts):
                write(rows.start - chunk.start, rows.stop - chunk.start)
                yield rows, numbers
            return
        smooth = CallListLowpass(work.room, self.cutoff_hz, self.samples.rate_hz, calls)
        smooth.forward(write, ROWS_AT_ONCE)
        if self.regressor.friction_columns[1]:
            lowpass(work.further, self.cutoff_hz, self.samples.rate_hz, out=work.further)
        self._write_torques(chunk, work)
        numbers_of = {rows.start: numbers for rows, numbers in _split_segments(chunk, parts, all_samples=True)}
        for start in reversed(range(chunk.start, chunk.stop, ROWS_AT_ONCE)):
            rows = range(start, min(start + ROWS_AT_ONCE, chunk.stop))
            smooth.back(rows.start - chunk.start, rows.stop - chunk.start)
            if start in numbers_of:
                yield rows, numbers_of[start]

    def _writer(self, chunk: range, work: _Work, calls: CallList) -> Callable[[int, int], None]:
        """Return a function that writes the unfiltered columns of rows of the chunk, or lists the calls that do."""
        if self._listed is None:
            return lambda start, stop: self._write(chunk, start, stop, work)
        onto = self._listed.onto(work.room, chunk.start)
        return lambda start, stop: onto(calls, chunk[start:stop])

    def _write(self, chunk: range, start: int, stop: int, work: _Work) -> None:
        for first in range(start, stop, ROWS_AT_ONCE):
            at = slice(first, min(first + ROWS_AT_ONCE, stop))
            taken, samples = slice(chunk.start + at.start, chunk.start + at.stop), self.samples
            given = None if self._directions is None else self._directions[taken]
            columns = self.regressor.parts(self._q[taken], samples.qd[taken], samples.qdd[taken], given, work.room[at])
            for (_, *shapes), beside in zip(columns, work.beside, strict=True):
                for k, shape in enumerate(shapes):
                    beside[at, k] = shape[:, 0]

    def _write_further(self, chunk: range, work: _Work) -> None:
        """Write the columns other than the kernel's, except shapes that the kernel's call writes."""
        taken, places = slice(chunk.start, chunk.stop), slice(0, len(chunk))
        if self._listed is not None and self._directions is not None and self.regressor.friction_columns[1]:
            shaped = self.regressor.shape_columns(self._q[taken], self.samples.qd[taken], self._directions[taken])
            for shapes, beside in zip(shaped, work.beside, strict=True):
                for k, shape in enumerate(shapes):
                    beside[places, k] = shape[:, 0]
        if self.cutoff_hz is None:
            self._write_torques(chunk, work)

    def _write_torques(self, chunk: range, work: _Work) -> None:
        """Write the torques of the rows, filtered and unfiltered."""
        for back, torque in ((2, self._torque), (1, self.samples.tau)):
            given = torque[chunk.start : chunk.stop]
            if len(widths := {columns.shape[1] for columns in work.beside}) == 1:  # usual case: a single assignment
                (width,) = widths
                work.further[: len(chunk), width - back :: width] = given
            else:
                for joint, columns in enumerate(work.beside):
                    columns[: len(chunk), -back] = given[:, joint]

    def _raise_not_finite(self, segment: range) -> None:
        """Raise an error that names the first sample for which the kernel gives values that are not finite."""
        taken = slice(segment.start, segment.stop)
        self.regressor.parts(self._q[taken], self.samples.qd[taken], self.samples.qdd[taken])

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
                fast = self.fast(part.slowest, logged)
                tau, left = np.where(fast, tau, 0.0), np.where(fast, left, 0.0)
            squares.append((number, np.stack([(left**2).sum(axis=0), (tau**2).sum(axis=0)], axis=1)))
        return squares

    def _torques(self, segment: range, parts: Sequence[Part], betas: Sequence[Array]) -> Array:
        """Return the filtered torque Y beta (betas, rows of the segment, n), at the rows that parts may use."""
        wanted = parts if self.cutoff_hz is None else [Part(segment.start, segment.stop)]
        joints, values = self.regressor.columns, np.stack(betas, axis=1)
        torques = np.zeros((len(segment), len(joints), len(betas)))
        calls, work = CallList(lambda: self._raise_not_finite(segment)), self._workspace(min(CHUNK_ROWS, len(segment)))
        for start in range(min(part.first for part in wanted), max(part.last for part in wanted), CHUNK_ROWS):
            chunk = range(start, min(start + CHUNK_ROWS, segment.stop))
            at, own_rows = slice(chunk.start - segment.start, chunk.stop - segment.start), slice(0, len(chunk))
            self._write_further(chunk, work)
            self._writer(chunk, work, calls)(0, len(chunk))
            calls.run()
            for joint, (columns, A, Z) in enumerate(zip(joints, work.kernel, work.beside, strict=True)):
                width = A.shape[1]
                torques[at, joint] = A[own_rows] @ values[columns[:width]]
                if len(columns) > width:
                    torques[at, joint] += Z[own_rows, :-2] @ values[columns[width:]]
        if self.cutoff_hz is not None:
            lowpass(torques, self.cutoff_hz, self.samples.rate_hz, out=torques.reshape(len(segment), -1))
        return np.moveaxis(torques, 2, 0)

    def _filter_columns(self, x: Array) -> Array:
        if self.cutoff_hz is None:
            return x
        return np.concatenate([lowpass(x[a:b], self.cutoff_hz, self.samples.rate_hz) for a, b in self.segments])


def _split_segments(
    segment: range, parts: Sequence[Part], *, all_samples: bool = False
) -> list[tuple[range, list[int]]]:
    """Split the segment into at most `ROWS_AT_ONCE` consecutive rows, each with the numbers of the parts in it.

    all_samples  include rows of a piece that no part uses
    """
    pieces = []
    for start in range(segment.start, segment.stop, ROWS_AT_ONCE):
        stop = min(start + ROWS_AT_ONCE, segment.stop)
        if numbers := [k for k, part in enumerate(parts) if part.first < stop and part.last > start]:
            first, last = min(parts[k].first for k in numbers), max(parts[k].last for k in numbers)
            pieces.append((range(start, stop) if all_samples else range(max(start, first), min(stop, last)), numbers))
    return pieces


class _SumList:
    """Adds the products of the rows of parts with the same slowest speed.

    If slow rows are excluded, the columns are copied first and multiplied by zero in these rows.
    """

    def __init__(self, sums: ColumnSums, totals: Sequence[Array], work: _Work, slowest: Slowest | None) -> None:
        self._sums, self._work, self._slowest = sums, work, slowest
        self._copy = work if slowest is None else sums.copy_of_segment(slowest)
        self._products, self._chunk = _products(totals, self._copy), range(0)
        self._fast = np.empty((0, 0))

    def begin(self, chunk: range) -> None:
        """Start with the rows of a chunk."""
        self._chunk = chunk
        if self._slowest is not None:
            self._fast = native_array(self._sums.fast(self._slowest, slice(chunk.start, chunk.stop)), "fast")

    def list(self, calls: CallList, rows: range, parts: Sequence[tuple[int, Part]]) -> None:
        """List the products of the parts' rows within a piece."""
        at = rows.start - self._chunk.start
        if self._slowest is not None and parts:
            self._list_copy(calls, at, len(rows))
            at = 0
        for number, part in parts:
            taken = part.within(rows)
            self._products.add(slice(taken.start + at, taken.stop + at, part.step), number, calls)

    def _list_copy(self, calls: CallList, at: int, count: int) -> None:
        fast = RowBlock.from_array(self._fast)
        calls.keep_alive(self._fast)
        pairs = [(self._work.kernel, self._copy.kernel), (self._work.beside, self._copy.beside)]
        for joint, (x, y) in (
            (k, pair) for sources, other in pairs for k, pair in enumerate(zip(sources, other, strict=True))
        ):
            given, copied = RowBlock.from_array(x), RowBlock.from_array(y)
            factor = fast.row(at) + 8 * joint, fast.step
            calls.scale(count, given.width, factor, (given.row(at), given.step), (copied.address, copied.step))


def _products(totals: Sequence[Array], work: _Work) -> ProductSums:
    """Return [A Z]^T [A Z] for the columns A and Z of each joint, with only the lower left block of the cross products."""
    squares, products = [], []
    for total, A, Z in zip(totals, work.kernel, work.beside, strict=True):
        width = A.shape[1]
        squares += [(total[:, :width, :width], A), (total[:, width:, width:], Z)]
        products.append((total[:, width:, :width], Z, A))
    return ProductSums(squares, products)


def _complete(total: Array, width: int) -> None:
    """Fill the rest of the symmetric matrix that `_products` computes in part."""
    total[:width, width:] = total[width:, :width].T
    mirror_upper_triangle(total)
