"""Several tables read in step: the same rows of each at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from mindyn.logs.findings import LogError
from mindyn.logs.tables import Chunk, Table, row_count


def in_step(wanted: Sequence[tuple[Table, list[str]]], rows: int, name: str) -> Iterator[list[Chunk]]:
    """Chunks of the same `rows` rows of every table; refuses tables of different lengths."""
    if len(wanted) == 1:
        table, names = wanted[0]
        yield from ([chunk] for chunk in table.chunks(names, rows))
        return
    readers = [exact_blocks(table.chunks(names, rows), rows) for table, names in wanted]
    counts = [0] * len(readers)
    while True:
        parts = [next(reader, None) for reader in readers]
        counts = [count + (row_count(part) if part else 0) for count, part in zip(counts, parts, strict=True)]
        if len(set(counts)) > 1:
            rest = [sum(map(row_count, reader)) for reader in readers]
            lengths = [f"{t.name} {count + more}" for (t, _), count, more in zip(wanted, counts, rest, strict=True)]
            raise LogError(
                f"the files of {name} have different numbers of rows: {', '.join(lengths)}",
                hint="torque and motion would be out of step; was one file cut, or recorded at another rate?",
            )
        present = [part for part in parts if part is not None]
        if not present:
            return
        yield present


def exact_blocks(chunks: Iterator[Chunk], rows: int) -> Iterator[Chunk]:
    """The same rows in blocks of exactly `rows`, but for the last."""
    waiting: list[Chunk] = []
    for chunk in chunks:
        waiting.append(chunk)
        while sum(map(row_count, waiting)) >= rows:
            whole = _joined(waiting)
            yield {name: values[:rows] for name, values in whole.items()}
            rest = {name: values[rows:] for name, values in whole.items()}
            waiting = [rest] if row_count(rest) else []
    if waiting:
        yield _joined(waiting)


def _joined(chunks: Sequence[Chunk]) -> Chunk:
    return {name: np.concatenate([chunk[name] for chunk in chunks]) for name in chunks[0]}
