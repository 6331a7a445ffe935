"""`ColumnSums`: the normal matrices of parts of the rows, columns and torque behind the parallel filter.

Rows go from the kernel through the filter into sums while they are in the cache: to compute columns again takes less
time than to read them from memory, so that none are kept. Segments are worked on by threads, each on its own; what they
give is put together in order, so that it does not depend on their number.
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
"""Rows for which calls are listed at a time where no filter needs all of a segment: more do not stay in the cache."""

Item = TypeVar("Item")
Slowest = float | tuple[float, ...]
"""Speeds of the joints, rad/s, that a row must exceed to count for the joint."""


class Part(NamedTuple):
    """Rows of which a normal matrix is made: first, after the last, every how many, at any speed if None is slow."""

    first: int
    last: int
    step: int = 1
    slowest: Slowest | None = None

    def within(self, rows: range) -> slice:
        """Which of some consecutive rows are the part's, counted from the first of them."""
        first = max(self.first, rows.start)
        first += -(first - self.first) % self.step
        return slice(first - rows.start, max(first, min(self.last, rows.stop)) - rows.start, self.step)


class _Work(NamedTuple):
    """Room for the columns of some rows: all that the kernel gives; of every joint, friction's shapes and two torques.

    kernel, beside  for each joint, where its columns are in `room` and in `further`; its torques, smooth and as
                    logged, come last
    """

    room: Array
    further: Array
    kernel: list[Array]
    beside: list[Array]

    @staticmethod
    def create(room: ColumnWorkspace, use: str, rows: int, widths: Sequence[int], counts: Sequence[int]) -> _Work:
        """The same, the widths and counts of the joints' columns being known."""
        places = []
        for kind, own in (("kernel", widths), ("beside", counts)):
            ends = np.cumsum([0, *own]).tolist()
            whole = room.reserve(rows, ends[-1], f"{use} {kind}")
            places.append((whole, [whole[:, a:b] for a, b in pairwise(ends)]))
        (columns, kernel), (further, beside) = places
        return _Work(columns, further, kernel, beside)


class ColumnWorkspace:
    """Memory that each thread writes its columns to, again and again: fresh memory costs as much as the columns."""

    def __init__(self) -> None:
        self._own = threading.local()

    def reserve(self, rows: int, width: int, use: str = "") -> Array:
        """(rows, width), whatever is in it; what is held for another use stays."""
        known: dict[str, Array] = self._own.__dict__
        held = known.get(use)
        if held is None or held.size < rows * width:
            held = known[use] = np.empty(rows * width)
        return held[: rows * width].reshape(rows, width)


class ColumnSums:
    """Of the samples of one conditioning, one cut-off and one friction.

    room  where columns are written to; others may write to it at other times
    """

    def __init__(self, regressor: Regressor, samples: Samples, cutoff_hz: float | None, room: ColumnWorkspace) -> None:
        self.regressor, self.samples, self.cutoff_hz = regressor, samples, cutoff_hz
        self.segments = segment_ends(samples.segments)
        self._room = room
        kernel = [int((own < regressor.base.count).sum()) for own in regressor.columns]
        self._widths = kernel, [len(own) - width + 2 for own, width in zip(regressor.columns, kernel, strict=True)]
        self._q = regressor.positions(samples)
        self._directions = regressor.directions(self._q, samples.qd, samples.segments, samples.rate_hz)
        self._listed = ListedColumns.create(regressor, (self._q, samples.qd, samples.qdd), self._directions)
        self._torque = self._filter_columns(samples.tau)
        self._matrices: dict[Part, list[Array]] = {}

    def normal_matrices(self, parts: Sequence[Part]) -> list[list[Array]]:
        """For each part and joint [Y | smooth tau | tau]^T [Y | smooth tau | tau]; a part lies in one segment."""
        new = self._by_segment([(part, part) for part in dict.fromkeys(parts) if part not in self._matrices])
        made = map_in_threads(lambda one: self._sums(*one), new)
        for (_, own), matrices in zip(new, made, strict=True):
            self._matrices.update(zip(own, matrices, strict=True))
        return [self._matrices[part] for part in parts]

    def squared_errors(self, parts: Sequence[tuple[Part, Array]]) -> list[Array]:
        """For each part with its beta (p,): (n, 2) squares of tau - Y beta, and of tau, of every joint.

        A filtered sum of columns is a sum of filtered ones: torques are filtered, which are far fewer.
        """
        spread = self._by_segment([(part, (k, part, beta)) for k, (part, beta) in enumerate(parts)])
        found = dict.fromkeys(range(len(parts)), np.empty(0))
        for made in map_in_threads(lambda one: self._errors(*one), spread):
            found.update(made)
        return list(found.values())

    def count(self, part: Part, joint: int) -> int:
        """Rows of the part that count for a joint."""
        if part.slowest is not None:
            return int(self.fast(part.slowest, slice(part.first, part.last, part.step))[:, joint].sum())
        return len(range(part.first, part.last, part.step))

    def fast(self, slowest: Slowest, rows: slice) -> NDArray[np.bool_]:
        """(rows, n) which joints are not too slow."""
        return np.asarray(np.abs(self.samples.qd[rows]) > np.asarray(slowest))

    def _by_segment(self, items: Sequence[tuple[Part, Item]]) -> list[tuple[range, list[Item]]]:
        """What belongs to parts, by the segments that they lie in."""
        held: dict[int, list[Item]] = {}
        starts = [start for start, _ in self.segments]
        for part, item in items:
            held.setdefault(int(np.searchsorted(starts, part.first, side="right")) - 1, []).append(item)
        return [(range(*self.segments[number]), own) for number, own in sorted(held.items())]

    def _sums(self, segment: range, parts: Sequence[Part]) -> list[list[Array]]:
        """For each part and joint the normal matrix."""
        totals = [np.zeros((len(parts), len(own) + 2, len(own) + 2)) for own in self.regressor.columns]
        chunks = self._chunks(segment, parts)
        calls, work = CallList(lambda: self._raise_not_finite(segment)), self._workspace(max(map(len, chunks)))
        adding = {one: _SumList(self, totals, work, one) for one in dict.fromkeys(part.slowest for part in parts)}
        for chunk in chunks:
            self._write_further(chunk, work)
            for one in adding.values():
                one.begin(chunk)
            for rows, numbers in self._smooth_segments(chunk, parts, work, calls):
                for slowest, one in adding.items():
                    own = [(number, parts[number]) for number in numbers if parts[number].slowest == slowest]
                    one.list(calls, rows, own)
            calls.run()
        for total, A in zip(totals, work.kernel, strict=True):
            for matrix in total:
                _complete(matrix, A.shape[1])
        return [list(one) for one in zip(*totals, strict=True)]

    def _chunks(self, segment: range, parts: Sequence[Part]) -> list[range]:
        """Rows whose columns there is room for at a time; the filter needs all of them."""
        if self.cutoff_hz is not None:
            return [segment]
        first, last = min(part.first for part in parts), max(part.last for part in parts)
        first -= (first - segment.start) % ROWS_AT_ONCE
        return [range(start, min(start + CHUNK_ROWS, segment.stop)) for start in range(first, last, CHUNK_ROWS)]

    def _workspace(self, rows: int) -> _Work:
        work = _Work.create(self._room, "all", rows, *self._widths)
        if self.regressor.friction_columns[1]:
            work.further.fill(0.0)  # the filter goes over the places of the torques before they are written
        return work

    def copy_of_segment(self, slowest: Slowest) -> _Work:
        """Room for the columns of a stretch once more, of parts that leave out slow rows."""
        return _Work.create(self._room, f"above {slowest}", ROWS_AT_ONCE, *self._widths)

    def _smooth_segments(
        self, chunk: range, parts: Sequence[Part], work: _Work, calls: CallList
    ) -> Iterator[tuple[range, list[int]]]:
        """Rows that parts have and the numbers of the parts; when one comes, calls are listed that write its columns,
        behind the filter.
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
        """Writes the columns of rows of the chunk, counted from its first, as they are; or lists calls that do."""
        if self._listed is None:
            return lambda start, stop: self._write(chunk, start, stop, work)
        onto = self._listed.onto(work.room, chunk.start)
        return lambda start, stop: onto(calls, chunk[start:stop])

    def _write(self, chunk: range, start: int, stop: int, work: _Work) -> None:
        for first in range(start, stop, ROWS_AT_ONCE):
            at = slice(first, min(first + ROWS_AT_ONCE, stop))
            taken, samples = slice(chunk.start + at.start, chunk.start + at.stop), self.samples
            given = None if self._directions is None else self._directions[taken]
            found = self.regressor.parts(self._q[taken], samples.qd[taken], samples.qdd[taken], given, work.room[at])
            for (_, *shapes), beside in zip(found, work.beside, strict=True):
                for k, shape in enumerate(shapes):
                    beside[at, k] = shape[:, 0]

    def _write_further(self, chunk: range, work: _Work) -> None:
        """What stands beside the kernel's columns, but for shapes that come with them."""
        taken, places = slice(chunk.start, chunk.stop), slice(0, len(chunk))
        if self._listed is not None and self._directions is not None and self.regressor.friction_columns[1]:
            shaped = self.regressor.shape_columns(self._q[taken], self.samples.qd[taken], self._directions[taken])
            for shapes, beside in zip(shaped, work.beside, strict=True):
                for k, shape in enumerate(shapes):
                    beside[places, k] = shape[:, 0]
        if self.cutoff_hz is None:
            self._write_torques(chunk, work)

    def _write_torques(self, chunk: range, work: _Work) -> None:
        """The torques of the rows, filtered and not."""
        for back, torque in ((2, self._torque), (1, self.samples.tau)):
            given = torque[chunk.start : chunk.stop]
            if len(widths := {own.shape[1] for own in work.beside}) == 1:  # at once, as most often
                (width,) = widths
                work.further[: len(chunk), width - back :: width] = given
            else:
                for joint, own in enumerate(work.beside):
                    own[: len(chunk), -back] = given[:, joint]

    def _raise_not_finite(self, segment: range) -> None:
        """Names the sample that the kernel has no finite numbers for, if there is one."""
        taken = slice(segment.start, segment.stop)
        self.regressor.parts(self._q[taken], self.samples.qd[taken], self.samples.qdd[taken])

    def _errors(self, segment: range, parts: Sequence[tuple[int, Part, Array]]) -> list[tuple[int, Array]]:
        """For the number of each part (n, 2) squares of what beta leaves of the torque, and of the torque."""
        betas = {id(beta): beta for _, _, beta in parts}
        wanted = [part for _, part, _ in parts]
        torques = dict(zip(betas, self._torques(segment, wanted, [*betas.values()]), strict=True))
        made = []
        for number, part, beta in parts:
            taken, logged = part.within(segment), slice(part.first, part.last, part.step)
            tau = self.samples.tau[logged]
            left = tau - torques[id(beta)][taken]
            if part.slowest is not None:
                fast = self.fast(part.slowest, logged)
                tau, left = np.where(fast, tau, 0.0), np.where(fast, left, 0.0)
            made.append((number, np.stack([(left**2).sum(axis=0), (tau**2).sum(axis=0)], axis=1)))
        return made

    def _torques(self, segment: range, parts: Sequence[Part], betas: Sequence[Array]) -> Array:
        """(betas, rows of the segment, n) the torque Y beta behind the filter, at rows that parts may have."""
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
            for joint, (own, A, Z) in enumerate(zip(joints, work.kernel, work.beside, strict=True)):
                width = A.shape[1]
                torques[at, joint] = A[own_rows] @ values[own[:width]]
                if len(own) > width:
                    torques[at, joint] += Z[own_rows, :-2] @ values[own[width:]]
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
    """At most `ROWS_AT_ONCE` consecutive rows at a time, until all rows of the parts have come; whose they are.

    whole  also rows of a stretch that no part has
    """
    found = []
    for start in range(segment.start, segment.stop, ROWS_AT_ONCE):
        stop = min(start + ROWS_AT_ONCE, segment.stop)
        if own := [k for k, part in enumerate(parts) if part.first < stop and part.last > start]:
            first, last = min(parts[k].first for k in own), max(parts[k].last for k in own)
            found.append((range(start, stop) if all_samples else range(max(start, first), min(stop, last)), own))
    return found


class _SumList:
    """Adds the products of rows of parts that leave out joints at or below a speed, or of all rows.

    Where joints are left out, the columns are copied first, times zero in their rows.
    """

    def __init__(self, sums: ColumnSums, totals: Sequence[Array], work: _Work, slowest: Slowest | None) -> None:
        self._sums, self._work, self._slowest = sums, work, slowest
        self._copy = work if slowest is None else sums.copy_of_segment(slowest)
        self._products, self._chunk = _products(totals, self._copy), range(0)
        self._fast = np.empty((0, 0))

    def begin(self, chunk: range) -> None:
        """Rows that come now."""
        self._chunk = chunk
        if self._slowest is not None:
            self._fast = native_array(self._sums.fast(self._slowest, slice(chunk.start, chunk.stop)), "fast")

    def list(self, calls: CallList, rows: range, parts: Sequence[tuple[int, Part]]) -> None:
        """Lists the products of the parts' rows among those of a stretch."""
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
        for joint, (x, y) in ((k, pair) for one, other in pairs for k, pair in enumerate(zip(one, other, strict=True))):
            given, made = RowBlock.from_array(x), RowBlock.from_array(y)
            factor = fast.row(at) + 8 * joint, fast.step
            calls.scale(count, given.width, factor, (given.row(at), given.step), (made.address, made.step))


def _products(totals: Sequence[Array], work: _Work) -> ProductSums:
    """[A Z]^T [A Z] of the columns A and Z of every joint; of the cross products the lower left block."""
    squares, products = [], []
    for total, A, Z in zip(totals, work.kernel, work.beside, strict=True):
        width = A.shape[1]
        squares += [(total[:, :width, :width], A), (total[:, width:, width:], Z)]
        products.append((total[:, width:, :width], Z, A))
    return ProductSums(squares, products)


def _complete(total: Array, width: int) -> None:
    """The rest of the symmetric matrix of which `_products` has made a part."""
    total[:width, width:] = total[width:, :width].T
    mirror_upper_triangle(total)
