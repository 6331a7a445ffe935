"""Long columns made short for a screen: the least and the greatest of every bucket stay; packed as text."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from mindyn.algebra.values import Array

MAX_LEVEL: Final = 65535
"""Levels of a packed value between the least and the greatest of its column: finer than any screen."""


@dataclass(frozen=True, slots=True)
class PackedNumbers:
    """Numbers as base64 of little-endian bytes: "f64" as they are, "u16" as low + k (high - low) / LEVELS.

    Whole numbers from 0 on: "index16" and "index32" as they are.
    """

    kind: Literal["f64", "u16", "index16", "index32"]
    data: str
    low: float = 0.0
    high: float = 0.0


def bucket_rows(count: int, buckets: int) -> int:
    """Rows of one bucket; 1 where all rows may stay (two are kept of every bucket)."""
    return 1 if count <= 2 * buckets else -(-count // buckets)


def bucket_extremes(values: Array, buckets: int) -> Array:
    """The least and the greatest of every bucket of consecutive values (N,), in the order in which they occur."""
    rows = bucket_rows(len(values), buckets)
    if rows == 1:
        return values
    table = _split_buckets(values, rows)
    places = np.sort([table.argmin(axis=1), table.argmax(axis=1)], axis=0)
    return np.asarray(table[np.arange(len(table))[:, None], places.T].ravel())


def bucket_times(time: Array, buckets: int) -> Array:
    """Two times for every bucket, to go with `extremes`: of its first and of its last row, so that slopes stay."""
    rows = bucket_rows(len(time), buckets)
    return time if rows == 1 else np.asarray(_split_buckets(time, rows)[:, [0, -1]].ravel())


def _split_buckets(values: Array, rows: int) -> Array:
    padding = -len(values) % rows
    return np.append(values, np.full(padding, values[-1])).reshape(-1, rows)


def round_to_six_digits(values: Array) -> tuple[float, ...]:
    """Six digits of every value."""
    return tuple(float(f"{value:.6g}") for value in values)


def pack_levels(values: Array) -> PackedNumbers:
    """Two bytes for every value; the least and the greatest come back exactly."""
    low, high = float(values.min()), float(values.max())
    span = high - low if high > low else 1.0
    levels = np.rint((values - low) / span * MAX_LEVEL).astype("<u2")
    return PackedNumbers("u16", b64encode(levels.tobytes()).decode(), low, high)


def pack_exactly(values: Array) -> PackedNumbers:
    """Eight bytes for every value."""
    return PackedNumbers("f64", b64encode(values.astype("<f8").tobytes()).decode())


def pack_indices(values: NDArray[np.int64]) -> PackedNumbers:
    """Two bytes for every whole number from 0 on, four where one of them needs them."""
    short = values.max(initial=0) <= MAX_LEVEL
    text = b64encode(values.astype("<u2" if short else "<u4").tobytes()).decode()
    return PackedNumbers("index16" if short else "index32", text)
