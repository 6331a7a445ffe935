"""`Block`: R factors of one part of a log.

Blocks are small; they can be added, held out, or sent to another process.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from mindyn.foundation.algebra.blas import run_on_one_blas_thread
from mindyn.foundation.algebra.values import Array, ShortRepr, column_extremes
from mindyn.logs.pipeline import SampleStream
from mindyn.logs.samples import Samples
from mindyn.regression.information import Information, Triangle, accumulate, add_information
from mindyn.regression.regressor import Regressor
from mindyn.regression.row_blocks import (
    SampleSegment,
    blocks,
    information_of,
    require_joints,
    usable_rows,
    with_neighbours,
)
from mindyn.regression.settings import EquationSettings

Item = TypeVar("Item")
BLOCKS: Final = 24
"""Number of blocks of all logs, which can be divided into 2, 3, 4, 6, 8 or 12 folds. A block of a 6-joint arm takes 0.1
MB.
"""
FIRST_LENGTH: Final = 4096
"""Samples in a block of a stream of unknown length; doubled while there are more than twice `BLOCKS` blocks."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Block(ShortRepr):
    """R factors of one part of the data.

    log          number of the log; -1 for several logs
    span         number of its first sample in the log, and of the sample after its last
    phase        position, 0 to 1, on a timeline on which motions do not repeat; None if it is not computed
    information  R factors of its rows, which may be none
    reach        (2, n) smallest and largest positions of the joints
    """

    log: int
    span: tuple[int, int]
    phase: float | None
    information: Information
    reach: Array


def block_counts(rows: Sequence[int]) -> list[int]:
    """Return the number of blocks of every log, in total about `BLOCKS`, from the numbers of rows of the logs."""
    return [max(1, round(BLOCKS * row / max(1, sum(rows)))) for row in rows]


def group_evenly(items: Sequence[Item], count: int) -> list[list[Item]]:
    """Split items into `count` contiguous groups of nearly equal length; if there are fewer items, one group for each
    item.
    """
    groups: dict[int, list[Item]] = {}
    for k, item in enumerate(items):
        groups.setdefault(k * count // len(items), []).append(item)
    return list(groups.values())


def split_into_blocks(
    regressor: Regressor, samples: Samples, settings: EquationSettings, count: int = BLOCKS, log: int = 0
) -> list[Block]:
    """Split the samples of log number `log` into blocks of equal length; no blocks if there are no samples."""
    require_joints(regressor, samples)
    if not (rows := len(samples)):
        return []
    spans = list(pairwise([-(-rows * k // count) for k in range(count + 1)]))
    labels = np.repeat(np.arange(count), [stop - start for start, stop in spans])
    factors = _factors(regressor, SampleSegment(samples, range(rows)), settings, labels, count)
    return [
        Block(log, span, None, information, _position_extremes(samples, slice(*span)))
        for span, information in zip(spans, factors, strict=True)
    ]


def blocks_by_label(
    regressor: Regressor, samples: Samples, settings: EquationSettings, labels: NDArray[np.int64], count: int
) -> tuple[Block, ...]:
    """Return one block for each of the labels 0 to `count` - 1, with rows of all logs."""
    require_joints(regressor, samples)
    factors = _factors(regressor, SampleSegment(samples, range(len(samples))), settings, labels, count)
    return tuple(
        Block(
            -1, (0, int((labels == k).sum())), (k + 0.5) / count, information, _position_extremes(samples, labels == k)
        )
        for k, information in enumerate(factors)
    )


def split_stream_into_blocks(
    regressor: Regressor, stream: Iterable[Samples], settings: EquationSettings
) -> list[Block]:
    """Split the logs of a stream into blocks, at most twice `BLOCKS` for each log; the stream is read once."""
    blocks: list[Block] = []
    for piece in with_neighbours(regressor, stream, *settings.filtering.of_equations):
        require_joints(regressor, piece.samples)
        log = _log_of(stream, piece)
        before = [block for block in blocks if block.log == log]
        first = before[-1].span[1] if before else 0
        added = list(_split_stream(regressor, piece, settings, log, first))
        waiting = before + added
        while len(waiting) > 2 * BLOCKS:
            waiting = [_join_blocks(waiting[k : k + 2]) for k in range(0, len(waiting), 2)]
        blocks = [block for block in blocks if block.log != log] + waiting
    return blocks


def _split_stream(
    regressor: Regressor, piece: SampleSegment, settings: EquationSettings, log: int, first: int
) -> Iterator[Block]:
    """Yield the rows of one segment of a stream in blocks of at most `FIRST_LENGTH` samples."""
    inner, samples = piece.inner, piece.samples
    labels = (np.arange(len(samples)) - inner.start) // FIRST_LENGTH  # rows around the inner ones are in no block
    count = len(range(0, len(inner), FIRST_LENGTH))
    for k, information in enumerate(_factors(regressor, piece, settings, labels, count)):
        begin, end = k * FIRST_LENGTH, min((k + 1) * FIRST_LENGTH, len(inner))
        reach = _position_extremes(samples, slice(inner.start + begin, inner.start + end))
        yield Block(log, (first + begin, first + end), None, information, reach)


def _join_blocks(parts: list[Block]) -> Block:
    first, last = parts[0], parts[-1]
    reach = np.stack([np.minimum(first.reach[0], last.reach[0]), np.maximum(first.reach[1], last.reach[1])])
    information = add_information([part.information for part in parts])
    return Block(first.log, (first.span[0], last.span[1]), None, information, reach)


def _log_of(stream: Iterable[Samples], piece: SampleSegment) -> int:
    if not isinstance(stream, SampleStream):
        return 0
    segment = int(piece.samples.segments[piece.inner.start])
    return int(np.searchsorted(stream.first_segments, segment, side="right")) - 1


@run_on_one_blas_thread
def _factors(
    regressor: Regressor, piece: SampleSegment, settings: EquationSettings, labels: NDArray[np.int64], count: int
) -> list[Information]:
    """Return R factors of the rows of every label in one pass over the samples."""
    joints = [[Triangle(regressor.width(i) + 1) for _ in range(count)] for i in range(regressor.joint_count)]
    stream = blocks(regressor, piece, *settings.filtering.of_equations)
    accumulate(stream, joints, usable_rows(piece.samples, labels))
    return [information_of(regressor, joints, number) for number in range(count)]


def _position_extremes(samples: Samples, rows: NDArray[np.bool_] | slice) -> Array:
    q = samples.q[rows]
    if not len(q):
        return np.stack([np.full(q.shape[1], np.inf), np.full(q.shape[1], -np.inf)])
    return np.stack(column_extremes(q))
