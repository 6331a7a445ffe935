"""Describe plots as plain values that the script of the page draws (see assets/plot.js)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Literal

from mindyn.pages.decimation import PackedNumbers

SeriesKind = Literal["line", "band", "bars", "cells", "points"]
PlotValues = Sequence[float] | PackedNumbers | str
"""Numbers, packed numbers, or the name of numbers that several series share."""


def to_json_values(values: PlotValues) -> Any:
    """Convert values to a form that JSON can represent."""
    return asdict(values) if isinstance(values, PackedNumbers) else values if isinstance(values, str) else list(values)


def series(
    name: str, role: str, x: PlotValues, y: PlotValues, *, kind: SeriesKind = "line", y2: PlotValues | None = None
) -> Any:
    """Describe a curve; `role` selects its colour, `y2` is the second edge of a band."""
    curve = {"name": name, "role": role, "kind": kind, "x": to_json_values(x), "y": to_json_values(y)}
    return curve if y2 is None else {**curve, "y2": to_json_values(y2)}


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
