"""`ColumnSums`: the normal matrices of parts of the rows, columns and torque behind the parallel filter.

Rows go from the kernel through the filter into sums while they are in the cache: to compute columns again takes less
time than to read them from memory, so that none are kept. Segments are worked on by threads, each on its own; what they
give is put together in order, so that it does not depend on their number.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
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

ROWS_AT_ONCE: Final = 512
"""Rows of the kernel's columns that stay in the cache."""

Item = TypeVar("Item")


class Part(NamedTuple):
    """Rows of which a normal matrix is made: first, after the last, every how many; and joints that are not too slow.

    slowest  speeds of the joints, rad/s, that a row must exceed to count for the joint; None: all rows count
    """

    first: int
    last: int
    step: int = 1
    slowest: float | tuple[float, ...] | None = None

    def within(self, rows: range) -> slice:
        """Which of some consecutive rows are the part's, counted from the first of them."""
        first = max(self.first, rows.start)
        first += -(first - self.first) % self.step
        return slice(first - rows.start, max(first, min(self.last, rows.stop)) - rows.start, self.step)


class _Work(NamedTuple):
    """Room for the columns of some rows.

    room    the kernel's columns of all joints
    kernel  for each joint, where they are
    beside  for each joint columns of friction's shapes, smooth torque and torque
    """

    room: Array
    kernel: list[Array]
    beside: list[Array]


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
        rows = slice(part.first, part.last, part.step)
        if part.slowest is not None:
            return len(self._fast(part, rows, joint))
        return len(range(part.first, part.last, part.step))

    def _fast(self, part: Part, rows: slice, joint: int) -> NDArray[np.intp]:
        """Which of the rows have a joint that is not too slow, counted from the first of them."""
        slowest = np.broadcast_to(np.asarray(part.slowest), (self.samples.qd.shape[1],))[joint]
        return np.flatnonzero(np.abs(self.samples.qd[rows, joint]) > slowest)

    def _by_segment(self, items: Sequence[tuple[Part, Item]]) -> list[tuple[range, list[Item]]]:
        """What belongs to parts, by the segments that they lie in."""
        held: dict[int, list[Item]] = {}
        starts = [start for start, _ in self.segments]
        for part, item in items:
            held.setdefault(int(np.searchsorted(starts, part.first, side="right")) - 1, []).append(item)
        return [(range(*self.segments[number]), own) for number, own in sorted(held.items())]

    def _sums(self, segment: range, parts: Sequence[Part]) -> list[list[Array]]:
        """For each part and joint the normal matrix."""
        joints = self.regressor.columns
        totals = [[np.zeros((len(own) + 2, len(own) + 2)) for own in joints] for _ in parts]
        work = self._workspace(segment)
        adding = [_products(sums, work.kernel, work.beside) for sums in totals]
        for rows, taken_rows in self._smooth_stretches(segment, parts, work):
            for part, sums, products in zip(parts, totals, adding, strict=True):
                taken = part.within(rows)
                if taken.start >= taken.stop:
                    continue
                at = slice(taken.start + taken_rows.start, taken.stop + taken_rows.start, part.step)
                if part.slowest is None:
                    products.add(at)
                    continue
                logged = slice(taken.start + rows.start, taken.stop + rows.start, part.step)
                for joint, (total, A, Z) in enumerate(zip(sums, work.kernel, work.beside, strict=True)):
                    if len(fast := self._fast(part, logged, joint)):
                        rows_of = [np.ascontiguousarray(one[at][fast]) for one in (A, Z)]
                        _products([total], rows_of[:1], rows_of[1:]).add(slice(None))
        return [[_whole(total, A) for total, A in zip(sums, work.kernel, strict=True)] for sums in totals]

    def _workspace(self, segment: range) -> _Work:
        """Room for the columns of a segment behind a filter; without one, for a stretch of its rows."""
        rows = len(segment) if self.cutoff_hz is not None else min(len(segment), ROWS_AT_ONCE)
        widths = [int((own < self.regressor.base.count).sum()) for own in self.regressor.columns]
        room = self._room.of(rows, sum(widths))
        kernel = np.split(room, np.cumsum(widths)[:-1], axis=1)
        further = [len(own) - width + 2 for own, width in zip(self.regressor.columns, widths, strict=True)]
        return _Work(room, kernel, [np.empty((rows, count)) for count in further])

    def _smooth_stretches(self, segment: range, parts: Sequence[Part], work: _Work) -> Iterator[tuple[range, slice]]:
        """Rows of a segment that parts may have, and where in the room their columns are, behind the filter."""
        if self.cutoff_hz is None:
            for rows in _stretches(segment, parts):
                at = slice(0, len(rows))
                self._write(rows, work, at)
                yield rows, at
            return
        given = self.cutoff_hz, self.samples.rate_hz
        smooth = LowpassInStretches(work.room, *given)
        whole = list(_stretches(segment, [Part(segment.start, segment.stop)]))
        for rows in whole:
            at = slice(rows.start - segment.start, rows.stop - segment.start)
            self._write(rows, work, at)
            smooth.came(at.start, at.stop)
        for Z in work.beside:
            if Z.shape[1] > 2:
                lowpass(Z[:, :-2], *given, out=Z[:, :-2])
        for rows in reversed(whole):
            at = slice(rows.start - segment.start, rows.stop - segment.start)
            smooth.goes(at.start, at.stop)
            yield rows, at

    def _write(self, rows: range, work: _Work, at: slice) -> None:
        """The columns of consecutive rows, as they are, and their torques, filtered and not."""
        taken, samples = slice(rows.start, rows.stop), self.samples
        given = None if self._directions is None else self._directions[taken]
        motion = self._q[taken], samples.qd[taken], samples.qdd[taken]
        found = self.regressor.parts(*motion, given, work.room[at])
        for joint, ((_, *shapes), Z) in enumerate(zip(found, work.beside, strict=True)):
            for k, shape in enumerate(shapes):
                Z[at, k] = shape[:, 0]
            Z[at, -2], Z[at, -1] = self._torque[taken, joint], samples.tau[taken, joint]

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
                slow = np.ones(tau.shape, dtype=np.bool_)
                for joint in range(tau.shape[1]):
                    slow[self._fast(part, logged, joint), joint] = False
                tau, left = np.where(slow, 0.0, tau), np.where(slow, 0.0, left)
            made.append((number, np.stack([(left**2).sum(axis=0), (tau**2).sum(axis=0)], axis=1)))
        return made

    def _torques(self, segment: range, parts: Sequence[Part], betas: Sequence[Array]) -> Array:
        """(betas, rows of the segment, n) the torque Y beta behind the filter, at rows that parts may have."""
        wanted = parts if self.cutoff_hz is None else [Part(segment.start, segment.stop)]
        joints, values = self.regressor.columns, np.stack(betas, axis=1)
        torques = np.zeros((len(segment), len(joints), len(betas)))
        work = self._workspace(range(min(len(segment), ROWS_AT_ONCE)))
        for rows in _stretches(segment, wanted):
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


def _stretches(segment: range, parts: Sequence[Part]) -> Iterator[range]:
    """At most `ROWS_AT_ONCE` consecutive rows at a time, until all rows of the parts have come."""
    for start in range(segment.start, segment.stop, ROWS_AT_ONCE):
        stop = min(start + ROWS_AT_ONCE, segment.stop)
        own = [part for part in parts if part.first < stop and part.last > start]
        if own:
            yield range(max(start, min(part.first for part in own)), min(stop, max(part.last for part in own)))


def _products(totals: Sequence[Array], kernel: Sequence[Array], beside: Sequence[Array]) -> Products:
    """[A Z]^T [A Z] of the columns A and Z of every joint; of the cross products the lower left block."""
    squares, products = [], []
    for total, A, Z in zip(totals, kernel, beside, strict=True):
        width = A.shape[1]
        squares += [(total[:width, :width], A), (total[width:, width:], Z)]
        products.append((total[width:, :width], Z, A))
    return Products(squares, products)


def _whole(total: Array, A: Array) -> Array:
    """The symmetric matrix of which `_products` has made a part."""
    width = A.shape[1]
    total[:width, width:] = total[width:, :width].T
    return mirrored(total)
