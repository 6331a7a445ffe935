"""Turn samples of any length into equations and R factors, block by block. Columns and torque pass the same filter."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from math import ceil
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mindyn.foundation.algebra.blas import run_on_one_blas_thread
from mindyn.foundation.algebra.values import Array, column_extremes
from mindyn.foundation.errors import Code, InputError, list_names, pluralise
from mindyn.logs.filters import edge_duration_s, lowpass, settling_rows
from mindyn.logs.pipeline import SampleStream, join_samples
from mindyn.logs.samples import Samples, segment_ends
from mindyn.regression.information import FACTORED_ROWS, Group, Information, RowStream, Triangle, accumulate
from mindyn.regression.regressor import Parts, Regressor

FILTERED_ROWS: Final = 4096
"""Smallest number of rows that are filtered at once, without their overlap."""
STOP_ROWS: Final = 8192
"""Number of rows of the previous block from which the state of a stop operator is computed."""
RowWeight = Callable[[int, Array], Array]
LEAST_MOVE: Final = 1e-9
"""Range of positions, rad or m, below which a joint counts as not moving."""


class Window(NamedTuple):
    """Samples `first` to `last` - 1, which are filtered together, and the rows to keep."""

    first: int
    last: int
    kept_rows: range


@run_on_one_blas_thread
def gather(
    regressor: Regressor,
    samples: Samples | Iterable[Samples],
    *,
    cutoff_hz: float | None = None,
    decimation: int = 1,
    row_weight: RowWeight | None = None,
) -> Information:
    """Return the R factors of all rows.

    cutoff_hz   zero-phase low-pass filter of columns and torque ("parallel filter"); the ends of segments are excluded
    decimation  keep every n-th row of a segment
    row_weight  for joint i and its rows [Y_i | tau_i] (N, p_i + 1), the weights (N,) of their squared residuals
    """
    joints = [[Triangle(regressor.width(i) + 1)] for i in range(regressor.joint_count)]
    reach: Array | None = None
    for piece in with_neighbours(regressor, samples, cutoff_hz, decimation):
        block = piece.samples
        require_joints(regressor, block)
        ends = np.stack(column_extremes(block.q))
        reach = ends if reach is None else np.stack([np.minimum(reach[0], ends[0]), np.maximum(reach[1], ends[1])])
        stream = blocks(regressor, piece, cutoff_hz, decimation)
        weighted = stream if row_weight is None else _apply_weights(stream, row_weight)
        accumulate(weighted, joints, usable_rows(block))
    information = information_of(regressor, joints, 0)
    require_enough_rows(regressor, information.counts, reach)
    return information


def information_of(regressor: Regressor, joints: Sequence[Sequence[Triangle]], number: int) -> Information:
    """Return the R factors of one group of rows."""
    triangles = [groups[number] for groups in joints]
    factors, counts = tuple(one.R for one in triangles), tuple(one.rows for one in triangles)
    names, columns = regressor.joint_names, regressor.columns
    return Information(names, regressor.names, columns, factors, counts, regressor.unforced)


def usable_rows(
    samples: Samples, labels: NDArray[np.int64] | None = None
) -> Callable[[NDArray[np.intp], int], list[Group]]:
    """Return a function that gives the usable rows of a joint, grouped by the labels of samples; without labels, one
    group.
    """
    usable = samples.usable

    def groups_of(numbers: NDArray[np.intp], joint: int) -> list[Group]:
        own = np.zeros(1, dtype=np.int64) if labels is None else labels[numbers]
        present = np.unique(own).tolist()
        if usable is None and len(present) == 1:
            return [(present[0], slice(None))]
        kept = np.ones(len(numbers), dtype=np.bool_) if usable is None else usable[numbers, joint]
        return [(label, kept & (own == label)) for label in present]

    return groups_of


def _apply_weights(stream: RowStream, row_weight: RowWeight) -> RowStream:
    """Multiply rows by the roots of their weights."""
    for parts, numbers in stream:
        rows = [np.concatenate(arrays, axis=1) for arrays in parts]
        yield [[one * np.sqrt(row_weight(joint, one))[:, None]] for joint, one in enumerate(rows)], numbers


class SampleSegment(NamedTuple):
    """Samples with the rows to use, and the number of rows of the first segment that precede the samples.

    found_ends  `segment_ends` of the samples, if they are already computed
    """

    samples: Samples
    inner: range
    begun: int = 0
    found_ends: list[tuple[int, int]] | None = None

    @property
    def ends(self) -> list[tuple[int, int]]:
        """Return for every segment its first row and the row after its last."""
        return segment_ends(self.samples.segments) if self.found_ends is None else self.found_ends


def with_neighbours(
    regressor: Regressor, samples: Samples | Iterable[Samples], cutoff_hz: float | None, decimation: int
) -> Iterator[SampleSegment]:
    """Yield the samples. A block of a stream is extended by the neighbouring rows on which its equations depend.

    This is the second overlap of a stream. The first overlap (`mindyn.logs.segments.cut_windows`) has as many raw rows
    as the conditioning needs. The second overlap has as many samples as the low-pass filter and the memory of friction
    need. There are two overlaps because the first belongs to the conditioning and the second to the settings: many
    settings share the samples of one conditioning, and a stream of samples does not have to come from a log.
    """
    listed = [samples] if isinstance(samples, Samples) else samples
    reach = _dependence_rows(regressor, cutoff_hz, listed.rate_hz) if isinstance(listed, SampleStream) else 0
    if reach or (isinstance(listed, SampleStream) and decimation > 1):
        yield from _overlapping(listed, max(1, reach))
    else:
        yield from (SampleSegment(block, range(len(block))) for block in listed)


def _overlapping(blocks_of_stream: Iterable[Samples], reach: int) -> Iterator[SampleSegment]:
    """Yield every block with `reach` rows before and after it, taken from as many blocks as necessary."""
    before: Samples | None = None
    begun = 0
    waiting: list[Samples] = []
    for block in chain(blocks_of_stream, (None,)):
        waiting += [] if block is None else [block]
        while waiting and (block is None or sum(map(len, waiting[1:])) >= reach):
            yield _with_overlap(before, waiting[0], waiting[1:], reach, begun)
            held = join_samples([waiting[0]] if before is None else [before, waiting[0]])
            cut = max(0, len(held) - reach)
            start = int(np.searchsorted(held.segments, held.segments[cut]))
            begun = cut - start + (begun if start == 0 else 0)
            before, waiting = held.take(slice(cut, None)), waiting[1:]


def _with_overlap(
    before: Samples | None, block: Samples, after: list[Samples], reach: int, begun: int
) -> SampleSegment:
    start = 0 if before is None else len(before)
    parts = [*([] if before is None else [before]), block, *after]
    whole = join_samples(parts).take(slice(start + len(block) + reach))
    return SampleSegment(whole, range(start, start + len(block)), begun)


def _dependence_rows(regressor: Regressor, cutoff_hz: float | None, rate_hz: float) -> int:
    """Return how many rows before and after a sample affect its columns. A stop operator needs `STOP_ROWS`."""
    filtered = 0 if cutoff_hz is None else max(settling_rows(cutoff_hz, rate_hz), _edge_rows(cutoff_hz, rate_hz))
    return filtered + (STOP_ROWS if regressor.friction.direction == "stop" else 0)


def blocks(
    regressor: Regressor, data: Samples | SampleSegment, cutoff_hz: float | None = None, decimation: int = 1
) -> Iterator[tuple[Parts, NDArray[np.intp]]]:
    """Yield blocks of [columns | torque] for every joint, with the sample numbers of the rows.

    A block has the first row of every segment and each `decimation`-th row after it, without the ends of segments that
    a filter distorts.
    """
    piece = data if isinstance(data, SampleSegment) else SampleSegment(data, range(len(data)))
    directions = find_directions(regressor, piece.samples)
    room = np.empty((0, *regressor.kernel.output_shapes[0]))
    for first, last, kept in windows(piece, cutoff_hz, decimation):
        # Without a filter, only the rows to keep are computed.
        taken = slice(first, last, decimation if cutoff_hz is None else 1)
        count = len(range(*taken.indices(last)))
        if len(room) < count:
            room = np.empty((count, *room.shape[1:]))
        parts = _filter_torque_and_columns(regressor, piece.samples, directions, taken, cutoff_hz, room[:count])
        for at in range(0, len(kept), FACTORED_ROWS):
            rows = np.asarray(kept[at : at + FACTORED_ROWS])
            chosen = slice(
                (rows[0] - first) // taken.step, (rows[-1] - first) // taken.step + 1, decimation // taken.step
            )
            yield [[array[chosen] for array in arrays] for arrays in parts], rows


def find_directions(regressor: Regressor, samples: Samples) -> Array | None:
    """Return the direction of every friction along the samples."""
    return regressor.directions(regressor.positions(samples), samples.qd, samples.segments, samples.rate_hz)


def _even_sequences(piece: SampleSegment, decimation: int) -> Iterator[tuple[int, int]]:
    """Return the first row and the row after the last for each sequence of evenly spaced rows."""
    meant = piece.inner
    if decimation == 1:
        yield meant.start, meant.stop
        return
    for start, stop in piece.ends:
        first = max(start, meant.start)
        yield first + (-_since_start(piece, start, first)) % decimation, min(stop, meant.stop)


def _since_start(piece: SampleSegment, start: int, row: int) -> int:
    """Return the number of rows between the start of its segment and a row; `start` is the first row of the segment."""
    return row - start + (piece.begun if start == 0 else 0)


def windows(
    piece: SampleSegment, cutoff_hz: float | None, decimation: int, edge_rows: int | None = None
) -> Iterator[Window]:
    """Yield the rows that `blocks` takes, as windows that are filtered separately. Windows without rows are omitted.

    edge_rows  number of rows that are excluded at the ends of segments; None: the rows that a filter distorts
    """
    if cutoff_hz is None:
        size = FACTORED_ROWS * decimation
        for first, last in _even_sequences(piece, decimation):
            for start in range(first, last, size):
                stop = min(start + size, last)
                yield Window(start, stop, range(start, stop, decimation))
        return
    edge = _edge_rows(cutoff_hz, piece.samples.rate_hz) if edge_rows is None else edge_rows
    for segment in piece.ends:
        yield from (
            part for part in _filter_windows(piece, segment, cutoff_hz, decimation, edge) if len(part.kept_rows)
        )


def _filter_at_once(cutoff_hz: float, rate_hz: float) -> tuple[int, int]:
    """Return the number of rows of a window, and the number of rows of its two overlaps together."""
    reach = settling_rows(cutoff_hz, rate_hz)
    return max(FILTERED_ROWS, 2 * reach), 2 * reach


def _filter_windows(
    piece: SampleSegment, segment: tuple[int, int], cutoff_hz: float, decimation: int, edge: int
) -> Iterator[Window]:
    size, overlap = _filter_at_once(cutoff_hz, piece.samples.rate_hz)
    begin, end = max(segment[0] + edge, piece.inner.start), min(segment[1] - edge, piece.inner.stop)
    for start in range(begin, end, size):
        first, last = max(segment[0], start - overlap // 2), min(segment[1], start + size + overlap // 2)
        after = (-_since_start(piece, segment[0], start)) % decimation
        yield Window(first, last, range(start + after, min(start + size, end), decimation))


def _filter_torque_and_columns(
    regressor: Regressor,
    samples: Samples,
    directions: Array | None,
    taken: slice,
    cutoff_hz: float | None,
    out: Array,
) -> Parts:
    """Return filtered columns and torque of every joint; `out` (N, .) is a buffer for the columns of the kernel."""
    motion = (regressor.positions(samples, taken), samples.qd[taken], samples.qdd[taken])
    parts = regressor.parts(*motion, None if directions is None else directions[taken], out)
    torque = lowpass(samples.tau[taken], cutoff_hz, samples.rate_hz)
    if cutoff_hz is not None:
        lowpass(out, cutoff_hz, samples.rate_hz, out=out)
    for joint, (columns, *shapes) in enumerate(parts):
        further = [lowpass(shape, cutoff_hz, samples.rate_hz) for shape in shapes]
        parts[joint] = [columns, *further, torque[:, joint : joint + 1]]
    return parts


def _edge_rows(cutoff_hz: float, rate_hz: float) -> int:
    """Return the number of rows at the ends of a segment for which the output of the filter is not accurate."""
    return ceil(edge_duration_s(cutoff_hz) * rate_hz)


def require_joints(regressor: Regressor, samples: Samples) -> None:
    """Raise an error if the samples belong to another robot."""
    if samples.joint_names != regressor.joint_names:
        raise InputError(
            f"the samples are of joints {', '.join(samples.joint_names)}; "
            f"the robot has {', '.join(regressor.joint_names)}",
            code=Code.DISAGREEMENT,
            subject="joint_names",
        )


def require_enough_rows(regressor: Regressor, counts: tuple[int, ...], reach: Array | None) -> None:
    """Raise an error with the names of joints that cannot be fitted, before anything is computed."""
    names = regressor.joint_names
    if reach is None:
        raise InputError("no samples were given", code=Code.MISSING_VALUE, subject="samples")
    still = {
        name: float(f"{low:.4g}")
        for name, low, high in zip(names, *reach, strict=True)
        if high - low < LEAST_MOVE and name not in regressor.unforced
    }
    if still:
        which, their = (
            (f"joint {next(iter(still))} never moves", "its")
            if len(still) == 1
            else (f"joints {list_names(still)} never move", "their")
        )
        locks = " ".join(f"--lock {name}={place}" for name, place in still.items())
        raise InputError(
            f"{which}: {their} friction and inertia are not identifiable",
            hint=f"record a motion in which they move, or lock them: {locks}, in Python robot.lock({still})",
            code=Code.NOT_IDENTIFIABLE,
            subject=next(iter(still)),
        )
    short = [
        f"{name} ({pluralise(count, 'row')} for {pluralise(regressor.width(i), 'parameter')})"
        for i, (name, count) in enumerate(zip(names, counts, strict=True))
        if count <= regressor.width(i) and (count or name not in regressor.unforced)
    ]
    if short:
        raise InputError(
            f"too few rows: {', '.join(short)}",
            hint="use a longer log, fewer masked rows or less decimation",
            code=Code.TOO_LITTLE_DATA,
            subject=short[0].partition(" (")[0],
        )
