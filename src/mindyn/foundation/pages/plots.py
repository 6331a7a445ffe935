"""Describe plots as plain values that the script of the page draws (see assets/plot.js).

Long columns are reduced to the number of points of a screen; the extremes of every group of consecutive values stay.
Numbers are packed as text.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from mindyn.foundation.algebra.values import Array

MAX_LEVEL: Final = 65535
"""Levels between the least and the greatest value of a packed column: finer than any screen."""


@dataclass(frozen=True, slots=True)
class PackedNumbers:
    """Numbers as base64 of little-endian bytes.

    "f64" numbers, unchanged "u16" low + k (high - low) / MAX_LEVEL, with integers k "index16" and "index32" integers
    that are not negative, unchanged
    """

    kind: Literal["f64", "u16", "index16", "index32"]
    data: str
    low: float = 0.0
    high: float = 0.0


def bucket_rows(count: int, buckets: int) -> int:
    """Return the number of rows of a bucket, which keeps two of them; 1 if all rows fit."""
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
    """Return the times (s) of the first and the last row of every bucket, for the values of `bucket_extremes`."""
    rows = bucket_rows(len(time), buckets)
    return time if rows == 1 else np.asarray(_split_buckets(time, rows)[:, [0, -1]].ravel())


def _split_buckets(values: Array, rows: int) -> Array:
    return np.pad(values, (0, -len(values) % rows), mode="edge").reshape(-1, rows)


def pack_levels(values: Array) -> PackedNumbers:
    """Pack values with two bytes each; the least and the greatest are preserved exactly."""
    low, high = float(values.min()), float(values.max())
    span = high - low if high > low else 1.0
    levels = np.rint((values - low) / span * MAX_LEVEL).astype("<u2")
    return PackedNumbers("u16", b64encode(levels.tobytes()).decode(), low, high)


def pack_exactly(values: Array) -> PackedNumbers:
    """Pack values with eight bytes each, exactly."""
    return PackedNumbers("f64", b64encode(values.astype("<f8").tobytes()).decode())


def pack_times(time: Array, buckets: int) -> PackedNumbers:
    """Pack the times of `thinned_series`."""
    return pack_exactly(bucket_times(time, buckets))


def pack_indices(values: NDArray[np.int64]) -> PackedNumbers:
    """Pack nonnegative integers with two bytes each, or four if one of them is too large."""
    short = values.max(initial=0) <= MAX_LEVEL
    text = b64encode(values.astype("<u2" if short else "<u4").tobytes()).decode()
    return PackedNumbers("index16" if short else "index32", text)


SeriesKind = Literal["line", "band", "bars", "cells", "points"]
PlotValues = Sequence[float] | Array | PackedNumbers | str
"""Numbers (arrays are rounded to six digits), packed numbers, or the name of numbers that several series share."""


def to_json_values(values: PlotValues) -> Any:
    """Convert values to a form that JSON can represent."""
    if isinstance(values, PackedNumbers):
        return asdict(values)
    if isinstance(values, np.ndarray):
        return [float(f"{value:.6g}") for value in values]
    return values if isinstance(values, str) else list(values)


def series(
    name: str, role: str, x: PlotValues, y: PlotValues, *, kind: SeriesKind = "line", y2: PlotValues | None = None
) -> Any:
    """Describe a curve; `role` selects its colour, `y2` is the second edge of a band."""
    curve = {"name": name, "role": role, "kind": kind, "x": to_json_values(x), "y": to_json_values(y)}
    return curve if y2 is None else {**curve, "y2": to_json_values(y2)}


def thinned_series(name: str, role: str, time: str, values: Array, buckets: int) -> Any:
    """Describe a long signal (N,) by its extremes. `time` is the name of its times, which several series share (see
    `pack_times`).
    """
    return series(name, role, time, pack_levels(bucket_extremes(values, buckets)))


def interval_series(
    name: str,
    role: str,
    rows: Sequence[str],
    places: Sequence[tuple[float, ...]],
    raw: Sequence[tuple[float | None, ...]],
) -> Any:
    """Describe values with their intervals, one row each, for a pane whose y axis has `names`.

    rows    names of the rows
    places  (x, row, low, high) on the axes; low and high are NaN without an interval
    raw     (value, low, high) in original units, for tooltips and downloads
    """
    x, y, low, high = (list(column) for column in zip(*places, strict=True))
    ends = [[None if end != end else end for end in column] for column in (low, high)]
    texts = [f"{v:.4g}" if a is None or b is None else f"{v:.4g} ({a:.4g} to {b:.4g})" for v, a, b in raw]
    curve = {"name": name, "role": role, "kind": "intervals", "x": x, "y": y, "low": ends[0], "high": ends[1]}
    return {**curve, "names": list(rows), "raw": [list(row) for row in raw], "texts": texts}


def axis(
    label: str,
    unit: str = "",
    *,
    log: bool = False,
    ticks: Sequence[tuple[float, str]] | None = None,
    names: Sequence[str] | None = None,
    extent: tuple[float, float] | None = None,
) -> dict[str, Any]:
    """Describe an axis.

    ticks   values and texts that replace the automatic ones
    names   of the rows of a y axis, from the top
    extent  of an x axis, which replaces that of the curves
    """
    settings: dict[str, Any] = {"label": label, "unit": unit, "log": log}
    settings |= {"ticks": [list(tick) for tick in ticks]} if ticks is not None else {}
    settings |= {"names": list(names)} if names is not None else {}
    return settings | ({"range": list(extent)} if extent is not None else {})


def pane(y: dict[str, Any], curves: Sequence[Any], *, height: int, zero: bool = False) -> dict[str, Any]:
    """Describe overlaid curves on a common y axis; `zero` keeps zero visible."""
    return {"y": y, "series": list(curves), "height": height, "zero": zero}


def plot(
    x: dict[str, Any], panes: Sequence[dict[str, Any]], *, group: str = "", shaded: Sequence[tuple[float, float]] = ()
) -> dict[str, Any]:
    """Describe panes stacked on a common x axis; plots of the same group zoom together.

    shaded  ranges of x with a grey background
    """
    return {"x": x, "panes": list(panes), "group": group, "shaded": list(shaded)}
