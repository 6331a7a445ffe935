"""`ColumnSums`: the normal matrices of parts of the rows, columns and torque behind the parallel filter.

Rows go from the kernel through the filter into sums while they are in the cache: to compute columns again takes less
time than to read them from memory, so that none are kept. Segments are worked on by threads, each on its own; what they
give is put together in order, so that it does not depend on their number.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from mindyn.algebra.values import Array
from mindyn.kernels.products import Products, mirrored
from mindyn.kernels.threads import of_each
from mindyn.logs.filters import LowpassInStretches, lowpass
from mindyn.logs.samples import Samples
from mindyn.regression.gathering import segment_ends
from mindyn.regression.regressor import Regressor

ROWS_AT_ONCE: Final = 1024
"""Rows of the kernel's columns that stay in the cache."""

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
    def of(room: Array, further: Array, widths: Sequence[int], counts: Sequence[int]) -> _Work:
        """The same, the widths and counts of the joints' columns being known."""
        ends = [np.cumsum([0, *own]).tolist() for own in (widths, counts)]
        kernel, beside = ([x[:, a:b] for a, b in pairwise(own)] for x, own in zip((room, further), ends, strict=True))
        return _Work(room, further, kernel, beside)


class Room:
    """Memory that each thread writes its columns to, again and again: fresh memory costs as much as the columns."""

    def __init__(self) -> None:
        self._own = threading.local()

    def of(self, rows: int, width: int) -> Array:
        """(rows, width), whatever is in it."""
        held: Array | None = getattr(self._own, "held", None)
        if held is None or held.size < rows * width:
            held = self._own.held = np.empty(rows * width)
        return held[: rows * width].reshape(rows, width)


class ColumnSums:
    """Of the samples of one conditioning, one cut-off and one friction.

    room  where columns are written to; others may write to it at other times
    """

    def __init__(self, regressor: Regressor, samples: Samples, cutoff_hz: float | None, room: Room) -> None:
        self.regressor, self.samples, self.cutoff_hz = regressor, samples, cutoff_hz
        self.segments = segment_ends(samples.segments)
        self._room = room
        self._q = regressor.positions(samples)
        self._directions = regressor.directions(self._q, samples.qd, samples.segments, samples.rate_hz)
        self._torque = self._filtered(samples.tau)
        self._matrices: dict[Part, list[Array]] = {}

    def normal_matrices(self, parts: Sequence[Part]) -> list[list[Array]]:
        """For each part and joint [Y | smooth tau | tau]^T [Y | smooth tau | tau]; a part lies in one segment."""
        new = self._by_segment([(part, part) for part in dict.fromkeys(parts) if part not in self._matrices])
        made = of_each(lambda one: self._sums(*one), new)
        for (_, own), matrices in zip(new, made, strict=True):
            self._matrices.update(zip(own, matrices, strict=True))
        return [self._matrices[part] for part in parts]

    def squared_errors(self, parts: Sequence[tuple[Part, Array]]) -> list[Array]:
        """For each part with its beta (p,): (n, 2) squares of tau - Y beta, and of tau, of every joint.

        A filtered sum of columns is a sum of filtered ones: torques are filtered, which are far fewer.
        """
        spread = self._by_segment([(part, (k, part, beta)) for k, (part, beta) in enumerate(parts)])
        found = dict.fromkeys(range(len(parts)), np.empty(0))
        for made in of_each(lambda one: self._errors(*one), spread):
            found.update(made)
        return list(found.values())

    def count(self, part: Part, joint: int) -> int:
        """Rows of the part that count for a joint."""
        if part.slowest is not None:
            return int(self._fast(part.slowest, slice(part.first, part.last, part.step))[:, joint].sum())
        return len(range(part.first, part.last, part.step))

    def _fast(self, slowest: Slowest, rows: slice) -> NDArray[np.bool_]:
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
        work = self._workspace(len(segment) if self.cutoff_hz is not None else ROWS_AT_ONCE)
        copies = {one: self._copy_of(work) for one in {part.slowest for part in parts} if one is not None}
        adding: dict[Slowest | None, Products] = {one: _products(totals, copy) for one, copy in copies.items()}
        adding[None] = _products(totals, work)
        for rows, at, numbers in self._smooth_stretches(segment, parts, work):
            for slowest, copy in copies.items():
                self._take_fast(rows, slowest, work, at, copy)
            for number in numbers:
                part = parts[number]
                taken, offset = part.within(rows), at.start if part.slowest is None else 0
                adding[part.slowest].add(slice(taken.start + offset, taken.stop + offset, part.step), number)
        for total, A in zip(totals, work.kernel, strict=True):
            for one in total:
                _complete(one, A.shape[1])
        return [list(one) for one in zip(*totals, strict=True)]

    def _workspace(self, rows: int) -> _Work:
        widths = [int((own < self.regressor.base.count).sum()) for own in self.regressor.columns]
        counts = [len(own) - width + 2 for own, width in zip(self.regressor.columns, widths, strict=True)]
        # Zeros: the filter goes over the places of the torques before they are written.
        return _Work.of(self._room.of(rows, sum(widths)), np.zeros((rows, sum(counts))), widths, counts)

    def _copy_of(self, work: _Work) -> _Work:
        """Further room for a stretch of rows of the same columns."""
        widths, counts = ([one.shape[1] for one in own] for own in (work.kernel, work.beside))
        return _Work.of(np.empty((ROWS_AT_ONCE, sum(widths))), np.empty((ROWS_AT_ONCE, sum(counts))), widths, counts)

    def _take_fast(self, rows: range, slowest: Slowest, work: _Work, at: slice, copy: _Work) -> None:
        """The columns of a stretch, zeros in the rows of joints that are too slow."""
        copy.room[: len(rows)], copy.further[: len(rows)] = work.room[at], work.further[at]
        slow = ~self._fast(slowest, slice(rows.start, rows.stop))
        for joint, own in enumerate(zip(copy.kernel, copy.beside, strict=True)):
            for one in own:
                one[: len(rows)][slow[:, joint]] = 0.0

    def _smooth_stretches(
        self, segment: range, parts: Sequence[Part], work: _Work
    ) -> Iterator[tuple[range, slice, list[int]]]:
        """Rows that parts have, where in the room their columns are, behind the filter, and the numbers of the parts.

        Without a filter the room holds one stretch of rows after the other.
        """
        if self.cutoff_hz is None:
            for rows, numbers in _stretches(segment, parts):
                at = slice(0, len(rows))
                self._write(rows, work, at)
                self._write_torques(rows, work, at)
                yield rows, at, numbers
            return
        smooth = LowpassInStretches(work.room, self.cutoff_hz, self.samples.rate_hz)
        for rows, _ in _stretches(segment, [Part(segment.start, segment.stop)]):
            at = slice(rows.start - segment.start, rows.stop - segment.start)
            self._write(rows, work, at)
            smooth.came(at.start, at.stop)
        if self.regressor.friction_columns[1]:
            lowpass(work.further, self.cutoff_hz, self.samples.rate_hz, out=work.further)
        self._write_torques(segment, work, slice(None))
        for start in reversed(range(segment.start, segment.stop, ROWS_AT_ONCE)):
            rows = range(start, min(start + ROWS_AT_ONCE, segment.stop))
            at = slice(rows.start - segment.start, rows.stop - segment.start)
            smooth.goes(at.start, at.stop)
            numbers = [k for _, found in _stretches(rows, parts) for k in found]
            if numbers:
                yield rows, at, numbers

    def _write(self, rows: range, work: _Work, at: slice) -> None:
        """The columns of consecutive rows, as they are."""
        taken, samples = slice(rows.start, rows.stop), self.samples
        given = None if self._directions is None else self._directions[taken]
        motion = self._q[taken], samples.qd[taken], samples.qdd[taken]
        found = self.regressor.parts(*motion, given, work.room[at])
        for (_, *shapes), beside in zip(found, work.beside, strict=True):
            for k, shape in enumerate(shapes):
                beside[at, k] = shape[:, 0]

    def _write_torques(self, rows: range, work: _Work, at: slice) -> None:
        """The torques of consecutive rows, filtered and not."""
        places = np.cumsum([own.shape[1] for own in work.beside])
        work.further[at, places - 2] = self._torque[rows.start : rows.stop]
        work.further[at, places - 1] = self.samples.tau[rows.start : rows.stop]

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
                fast = self._fast(part.slowest, logged)
                tau, left = np.where(fast, tau, 0.0), np.where(fast, left, 0.0)
            made.append((number, np.stack([(left**2).sum(axis=0), (tau**2).sum(axis=0)], axis=1)))
        return made

    def _torques(self, segment: range, parts: Sequence[Part], betas: Sequence[Array]) -> Array:
        """(betas, rows of the segment, n) the torque Y beta behind the filter, at rows that parts may have."""
        wanted = parts if self.cutoff_hz is None else [Part(segment.start, segment.stop)]
        joints, values = self.regressor.columns, np.stack(betas, axis=1)
        torques = np.zeros((len(segment), len(joints), len(betas)))
        work = self._workspace(ROWS_AT_ONCE)
        for rows, _ in _stretches(segment, wanted):
            at, own_rows = slice(rows.start - segment.start, rows.stop - segment.start), slice(0, len(rows))
            self._write(rows, work, own_rows)
            for joint, (own, A, Z) in enumerate(zip(joints, work.kernel, work.beside, strict=True)):
                width = A.shape[1]
                torques[at, joint] = A[own_rows] @ values[own[:width]]
                if len(own) > width:
                    torques[at, joint] += Z[own_rows, :-2] @ values[own[width:]]
        if self.cutoff_hz is not None:
            lowpass(torques, self.cutoff_hz, self.samples.rate_hz, out=torques.reshape(len(segment), -1))
        return np.moveaxis(torques, 2, 0)

    def _filtered(self, x: Array) -> Array:
        if self.cutoff_hz is None:
            return x
        return np.concatenate([lowpass(x[a:b], self.cutoff_hz, self.samples.rate_hz) for a, b in self.segments])


def _stretches(segment: range, parts: Sequence[Part]) -> Iterator[tuple[range, list[int]]]:
    """At most `ROWS_AT_ONCE` consecutive rows at a time, until all rows of the parts have come; whose they are."""
    firsts, lasts = np.array([(part.first, part.last) for part in parts]).T
    for start in range(segment.start, segment.stop, ROWS_AT_ONCE):
        stop = min(start + ROWS_AT_ONCE, segment.stop)
        own = np.flatnonzero((firsts < stop) & (lasts > start))
        if len(own):
            yield range(max(start, int(firsts[own].min())), min(stop, int(lasts[own].max()))), own.tolist()


def _products(totals: Sequence[Array], work: _Work) -> Products:
    """[A Z]^T [A Z] of the columns A and Z of every joint; of the cross products the lower left block."""
    squares, products = [], []
    for total, A, Z in zip(totals, work.kernel, work.beside, strict=True):
        width = A.shape[1]
        squares += [(total[:, :width, :width], A), (total[:, width:, width:], Z)]
        products.append((total[:, width:, :width], Z, A))
    return Products(squares, products)


def _complete(total: Array, width: int) -> None:
    """The rest of the symmetric matrix of which `_products` has made a part."""
    total[:width, width:] = total[width:, :width].T
    mirrored(total)
