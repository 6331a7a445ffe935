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
from mindyn.kernels.products import add_products, add_squares, mirrored
from mindyn.kernels.threads import of_each
from mindyn.logs.filters import lowpass
from mindyn.logs.samples import Samples
from mindyn.regression.friction import Friction
from mindyn.regression.gathering import segment_ends
from mindyn.regression.regressor import Regressor

ROWS_AT_ONCE: Final = 1024
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


class _Columns(NamedTuple):
    """Of some rows and one joint: the kernel's columns; those of friction's shapes, smooth torque and torque."""

    kernel: Array
    beside: Array


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
    """Of the samples of one conditioning and one cut-off.

    room  where columns are written to; it may be another's, which has done its work
    """

    def __init__(self, regressor: Regressor, samples: Samples, cutoff_hz: float | None, room: Room | None) -> None:
        self.samples, self.cutoff_hz = samples, cutoff_hz
        self.segments = segment_ends(samples.segments)
        self.room = room or Room()
        self._q = regressor.positions(samples)
        self._torque = self._filtered(samples.tau)
        self._matrices: dict[Part, list[Array]] = {}
        self._friction: tuple[Friction, Array | None] | None = None

    def normal_matrices(self, regressor: Regressor, parts: Sequence[Part]) -> list[list[Array]]:
        """For each part and joint [Y | smooth tau | tau]^T [Y | smooth tau | tau]; a part lies in one segment."""
        directions = self._directions(regressor)
        new = self._by_segment([(part, part) for part in dict.fromkeys(parts) if part not in self._matrices])
        made = of_each(lambda one: self._sums(regressor, directions, *one), new)
        for (_, own), matrices in zip(new, made, strict=True):
            self._matrices.update(zip(own, matrices, strict=True))
        return [self._matrices[part] for part in parts]

    def has(self, part: Part) -> bool:
        """Whether the normal matrices of a part are there already."""
        return part in self._matrices

    def squared_errors(self, regressor: Regressor, parts: Sequence[tuple[Part, Array]]) -> list[Array]:
        """For each part with its beta (p,): (n, 2) squares of tau - Y beta, and of tau, of every joint.

        A filtered sum of columns is a sum of filtered ones: torques are filtered, which are far fewer.
        """
        directions = self._directions(regressor)
        spread = self._by_segment([(part, (k, part, beta)) for k, (part, beta) in enumerate(parts)])
        found = dict.fromkeys(range(len(parts)), np.empty(0))
        for made in of_each(lambda one: self._errors(regressor, directions, *one), spread):
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

    def _directions(self, regressor: Regressor) -> Array | None:
        """Which way friction acts; where it is another than before, sums are made anew."""
        if self._friction is None or self._friction[0] != regressor.friction:
            samples = self.samples
            directions = regressor.directions(self._q, samples.qd, samples.segments, samples.rate_hz)
            self._friction = regressor.friction, directions
            self._matrices.clear()
        return self._friction[1]

    def _by_segment(self, items: Sequence[tuple[Part, Item]]) -> list[tuple[range, list[Item]]]:
        """What belongs to parts, by the segments that they lie in."""
        held: dict[int, list[Item]] = {}
        starts = [start for start, _ in self.segments]
        for part, item in items:
            held.setdefault(int(np.searchsorted(starts, part.first, side="right")) - 1, []).append(item)
        return [(range(*self.segments[number]), own) for number, own in sorted(held.items())]

    def _sums(
        self, regressor: Regressor, directions: Array | None, segment: range, parts: Sequence[Part]
    ) -> list[list[Array]]:
        """For each part and joint the normal matrix."""
        totals = [[np.zeros((len(own) + 2, len(own) + 2)) for own in regressor.columns] for _ in parts]
        widths = [int((own < regressor.base.count).sum()) for own in regressor.columns]
        for rows, columns in self._smooth_columns(regressor, directions, segment, parts):
            for part, sums in zip(parts, totals, strict=True):
                taken = part.within(rows)
                if taken.start >= taken.stop:
                    continue
                logged = slice(taken.start + rows.start, taken.stop + rows.start, part.step)
                for joint, (total, width, (A, Z)) in enumerate(zip(sums, widths, columns, strict=True)):
                    A, Z = A[taken], Z[taken]
                    if part.slowest is not None:
                        fast = self._fast(part, logged, joint)
                        A, Z = A[fast], Z[fast]
                    add_squares(total[:width, :width], A)
                    add_products(total[width:, :width], Z, A)
                    add_squares(total[width:, width:], Z)
        for sums in totals:
            for total, width in zip(sums, widths, strict=True):
                total[:width, width:] = total[width:, :width].T
        return [[mirrored(total) for total in sums] for sums in totals]

    def _smooth_columns(
        self, regressor: Regressor, directions: Array | None, segment: range, parts: Sequence[Part]
    ) -> Iterator[tuple[range, list[_Columns]]]:
        """Rows of a segment that parts may have, and their columns behind the filter; each is gone with the next."""
        width = regressor.kernel.output_shapes[0][0]
        if self.cutoff_hz is None:
            room = self.room.of(ROWS_AT_ONCE, width)
            for rows in _stretches(segment, parts):
                columns = self._columns(regressor, directions, rows, room[: len(rows)])
                for joint, (_, Z) in enumerate(columns):
                    Z[:, -2] = Z[:, -1] = self.samples.tau[rows.start : rows.stop, joint]
                yield rows, columns
            return
        room = self.room.of(len(segment), width)
        made = [
            self._columns(regressor, directions, rows, room[rows.start - segment.start : rows.stop - segment.start])
            for rows in _stretches(segment, [Part(segment.start, segment.stop)])
        ]
        lowpass(room, self.cutoff_hz, self.samples.rate_hz, out=room)
        whole = slice(segment.start, segment.stop)
        beside = [np.concatenate([columns[joint].beside for columns in made]) for joint in range(len(made[0]))]
        for joint, Z in enumerate(beside):
            if Z.shape[1] > 2:
                lowpass(Z[:, :-2], self.cutoff_hz, self.samples.rate_hz, out=Z[:, :-2])
            Z[:, -2], Z[:, -1] = self._torque[whole, joint], self.samples.tau[whole, joint]
        for rows, columns in zip(_stretches(segment, [Part(segment.start, segment.stop)]), made, strict=True):
            taken = slice(rows.start - segment.start, rows.stop - segment.start)
            yield rows, [_Columns(A, Z[taken]) for (A, _), Z in zip(columns, beside, strict=True)]

    def _columns(self, regressor: Regressor, directions: Array | None, rows: range, out: Array) -> list[_Columns]:
        """The columns of consecutive rows, those of the kernel in `out`; room for the torques, which are not set."""
        taken, samples = slice(rows.start, rows.stop), self.samples
        given = None if directions is None else directions[taken]
        found = regressor.parts(self._q[taken], samples.qd[taken], samples.qdd[taken], given, out)
        made = []
        for first, *shapes in found:
            beside = np.empty((len(rows), len(shapes) + 2))
            for k, shape in enumerate(shapes):
                beside[:, k] = shape[:, 0]
            made.append(_Columns(first, beside))
        return made

    def _errors(
        self, regressor: Regressor, directions: Array | None, segment: range, parts: Sequence[tuple[int, Part, Array]]
    ) -> list[tuple[int, Array]]:
        """For the number of each part (n, 2) squares of what beta leaves of the torque, and of the torque."""
        betas = {id(beta): beta for _, _, beta in parts}
        torques = dict(zip(betas, self._torques(regressor, directions, segment, parts, [*betas.values()]), strict=True))
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

    def _torques(
        self,
        regressor: Regressor,
        directions: Array | None,
        segment: range,
        parts: Sequence[tuple[int, Part, Array]],
        betas: Sequence[Array],
    ) -> Array:
        """(betas, rows of the segment, n) the torque Y beta behind the filter, at rows that parts may have."""
        wanted = [part for _, part, _ in parts] if self.cutoff_hz is None else [Part(segment.start, segment.stop)]
        values, n = np.stack(betas, axis=1), len(regressor.columns)
        torques = np.zeros((len(segment), n, len(betas)))
        room = self.room.of(ROWS_AT_ONCE, regressor.kernel.output_shapes[0][0])
        for rows in _stretches(segment, wanted):
            at = slice(rows.start - segment.start, rows.stop - segment.start)
            columns = self._columns(regressor, directions, rows, room[: len(rows)])
            for joint, (own, (A, Z)) in enumerate(zip(regressor.columns, columns, strict=True)):
                width = A.shape[1]
                torques[at, joint] = A @ values[own[:width]]
                if len(own) > width:
                    torques[at, joint] += Z[:, :-2] @ values[own[width:]]
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
