"""Reduce long columns for a screen, keeping the extremes of every bucket, and pack numbers as text."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from mindyn.algebra.values import Array

MAX_LEVEL: Final = 65535
"""Levels between the least and the greatest value of a packed column: finer than any screen."""


@dataclass(frozen=True, slots=True)
class PackedNumbers:
    """Numbers as base64 of little-endian bytes: "f64" unchanged, "u16" as low + k (high - low) / MAX_LEVEL.

    Nonnegative integers: "index16" and "index32" unchanged.
    """

    kind: Literal["f64", "u16", "index16", "index32"]
    data: str
    low: float = 0.0
    high: float = 0.0


def bucket_rows(count: int, buckets: int) -> int:
    """Return the number of rows of a bucket, of which two are kept; 1 if all rows can stay."""
    return 1 if count <= 2 * buckets else -(-count // buckets)


def bucket_extremes(values: Array, buckets: int) -> Array:
    """Return the least and greatest value of every bucket of consecutive values (N,), in their order of occurrence."""
    rows = bucket_rows(len(values), buckets)
    if rows == 1:
        return values
    table = _split_buckets(values, rows)
    places = np.sort([table.argmin(axis=1), table.argmax(axis=1)], axis=0)
    return np.asarray(table[np.arange(len(table))[:, None], places.T].ravel())


def bucket_times(time: Array, buckets: int) -> Array:
    """Return the times of the first and last row of every bucket, which match `bucket_extremes` and preserve slopes."""
    rows = bucket_rows(len(time), buckets)
    return time if rows == 1 else np.asarray(_split_buckets(time, rows)[:, [0, -1]].ravel())


def _split_buckets(values: Array, rows: int) -> Array:
    padding = -len(values) % rows
    return np.append(values, np.full(padding, values[-1])).reshape(-1, rows)


def round_to_six_digits(values: Array) -> tuple[float, ...]:
    """Round every value to six significant digits."""
    return tuple(float(f"{value:.6g}") for value in values)


def pack_levels(values: Array) -> PackedNumbers:
    """Pack values with two bytes each; the least and the greatest are preserved exactly."""
    low, high = float(values.min()), float(values.max())
    span = high - low if high > low else 1.0
    levels = np.rint((values - low) / span * MAX_LEVEL).astype("<u2")
    return PackedNumbers("u16", b64encode(levels.tobytes()).decode(), low, high)


def pack_exactly(values: Array) -> PackedNumbers:
    """Pack values with eight bytes each, exactly."""
    return PackedNumbers("f64", b64encode(values.astype("<f8").tobytes()).decode())


def pack_indices(values: NDArray[np.int64]) -> PackedNumbers:
    """Pack nonnegative integers with two bytes each, or four if one of them is too large."""
    short = values.max(initial=0) <= MAX_LEVEL
    text = b64encode(values.astype("<u2" if short else "<u4").tobytes()).decode()
    return PackedNumbers("index16" if short else "index32", text)
