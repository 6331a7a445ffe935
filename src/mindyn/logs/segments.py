"""Process the segments of a log in pieces: split at gaps, resample uniformly, and cut into overlapping windows.

Windows overlap by the number of rows that conditioning needs. Blocks of samples overlap again, by the rows that the
equations need (see `mindyn.regression.row_blocks`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mindyn.foundation.algebra.values import Array
from mindyn.logs.interpolation import NEIGHBOUR_ROWS, interpolate_between_stamps
from mindyn.logs.log import LOG_ARRAYS, Log, join_logs


@dataclass(frozen=True, slots=True, eq=False)
class SegmentPiece:
    """Consecutive rows of a segment, with its number.

    If they are the last rows of the segment, also the gap (s) after them.
    """

    segment: int
    rows: Log
    is_last: bool
    gap_s: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class SegmentWindow:
    """Piece with the rows around it that affect its samples.

    rows         the piece and its neighbouring rows, uniform in time
    start, stop  position of the piece in `rows`
    index        index in the segment of the first of `rows`
    is_last      whether `rows` end with the segment
    """

    segment: int
    rows: Log
    start: int
    stop: int
    index: int
    is_last: bool


@dataclass(frozen=True, slots=True, eq=False)
class StepLimits:
    """Steps from row to row that do not end a segment.

    longest_s  longest time, s
    speeds     (n,) largest speed of each joint, rad/s or m/s; None: no limit
    usual_s    usual time; a shorter time is jitter of the stamps, and does not mean that a joint is fast
    """

    longest_s: float
    speeds: Array | None = None
    usual_s: float = 0.0

    def exceeded(self, q: Array, time: Array) -> NDArray[np.bool_]:
        """Return which steps (N - 1,) end a segment."""
        steps = np.diff(time)
        ends = steps > self.longest_s
        if self.speeds is not None and self.speeds.shape == q.shape[1:]:
            largest = np.outer(np.maximum(steps, self.usual_s), self.speeds)
            ends |= (np.abs(np.diff(q, axis=0)) > largest).any(axis=1)
        return ends


def split_at_gaps(chunks: Iterable[Log], limits: StepLimits | float) -> Iterator[SegmentPiece]:
    """Split the chunks wherever a step exceeds the limits. If `limits` is a number, it is the longest step in s."""
    limits = limits if isinstance(limits, StepLimits) else StepLimits(limits)
    segment = 0
    waiting: Log | None = None
    for chunk in chunks:
        if waiting is not None:
            gap = float(chunk.time[0] - waiting.time[-1])
            q, times = np.vstack([waiting.q[-1], chunk.q[0]]), np.array([waiting.time[-1], chunk.time[0]])
            ends = bool(limits.exceeded(q, times)[0])
            yield SegmentPiece(segment, waiting, ends, gap)
            segment += ends
        steps = np.diff(chunk.time)
        cuts = np.flatnonzero(limits.exceeded(chunk.q, chunk.time)) + 1
        for start, stop in zip([0, *cuts[:-1]], cuts, strict=False) if len(cuts) else []:
            yield SegmentPiece(segment, chunk.take(slice(int(start), int(stop))), True, float(steps[stop - 1]))
            segment += 1
        waiting = chunk.take(slice(int(cuts[-1]), None)) if len(cuts) else chunk
    if waiting is not None:
        yield SegmentPiece(segment, waiting, True)


def resample_pieces(parts: Iterable[SegmentPiece], rate_hz: float) -> Iterator[SegmentPiece]:
    """Interpolate the pieces of each segment at the times t_0 + k / rate."""
    rest: Log | None = None
    start, done = 0.0, 0
    for part in parts:
        if rest is None:
            start, done = float(part.rows.time[0]), 0
        known = part.rows if rest is None else join_logs([rest, part.rows])
        # Rows at the last stamps need their next neighbours, unless the segment ends.
        end = known.time[-1] if part.is_last else known.time[max(0, len(known) - 1 - NEIGHBOUR_ROWS)]
        count = int(np.floor((end - start) * rate_hz + 1e-6)) + 1
        if count > done:
            yield replace(part, rows=_interpolate_log(known, start + np.arange(done, count) / rate_hz))
            done = count
        elif part.is_last:
            yield replace(part, rows=known.take(slice(0, 0)))
        first_needed = int(np.searchsorted(known.time, start + done / rate_hz)) - 2 * NEIGHBOUR_ROWS
        rest = None if part.is_last else known.take(slice(max(0, first_needed), None))


def _interpolate_log(known: Log, wanted: Array) -> Log:
    nearest = np.clip(np.searchsorted(known.time, wanted), 1, max(1, len(known) - 1))
    left = np.abs(known.time[nearest - 1] - wanted) <= np.abs(known.time[np.minimum(nearest, len(known) - 1)] - wanted)
    values = {n: getattr(known, n) for n in LOG_ARRAYS if n not in ("time", "rows") and getattr(known, n) is not None}
    arrays: dict[str, Any] = {
        name: interpolate_between_stamps(known.time, array, wanted) for name, array in values.items()
    }
    return replace(
        known, time=wanted, rows=known.rows[np.where(left, nearest - 1, np.minimum(nearest, len(known) - 1))], **arrays
    )


def cut_windows(parts: Iterable[SegmentPiece], block: int | None, reach: int) -> Iterator[SegmentWindow]:
    """Yield pieces of at least `block` rows, with `reach` rows before and after each piece; None yields whole
    segments.
    """
    waiting: list[Log] = []
    held, done, index = 0, 0, 0
    for part in parts:
        waiting.append(part.rows)
        held += len(part.rows)
        ready = held - (0 if part.is_last else reach)
        if not part.is_last and (block is None or ready - done < block):
            continue
        rows = join_logs(waiting)
        yield SegmentWindow(part.segment, rows, done, ready, index, part.is_last)
        if part.is_last:
            waiting, held, done, index = [], 0, 0, 0
            continue
        dropped = max(0, ready - reach)
        waiting, held, done, index = [rows.take(slice(dropped, None))], held - dropped, ready - dropped, index + dropped
