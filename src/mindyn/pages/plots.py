"""Plots as plain values that the page's script draws; see assets/plot.js."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Literal

from mindyn.pages.decimation import PackedNumbers

SeriesKind = Literal["line", "band", "bars", "cells", "points"]
PlotValues = Sequence[float] | PackedNumbers | str
"""Numbers, packed numbers, or the name of numbers that several series share."""


def to_json_values(values: PlotValues) -> Any:
    """As JSON can hold it."""
    return asdict(values) if isinstance(values, PackedNumbers) else values if isinstance(values, str) else list(values)


def series(
    name: str, role: str, x: PlotValues, y: PlotValues, *, kind: SeriesKind = "line", y2: PlotValues | None = None
) -> Any:
    """One curve; `role` decides its colour, `y2` is the other edge of a band."""
    made = {"name": name, "role": role, "kind": kind, "x": to_json_values(x), "y": to_json_values(y)}
    return made if y2 is None else {**made, "y2": to_json_values(y2)}


def interval_series(
    name: str,
    role: str,
    rows: Sequence[str],
    places: Sequence[tuple[float, ...]],
    raw: Sequence[tuple[float | None, ...]],
) -> Any:
    """Values with the ends of their intervals, one row each, for a pane whose y axis has `names`.

    rows    names of the rows
    places  (x, row, low, high) on the axes; low and high NaN where there is no interval
    raw     (value, low, high) as they are, for those who read or save them
    """
    x, y, low, high = (list(column) for column in zip(*places, strict=True))
    ends = [[None if end != end else end for end in column] for column in (low, high)]
    texts = [f"{v:.4g}" if a is None or b is None else f"{v:.4g} ({a:.4g} to {b:.4g})" for v, a, b in raw]
    made = {"name": name, "role": role, "kind": "intervals", "x": x, "y": y, "low": ends[0], "high": ends[1]}
    return {**made, "names": list(rows), "raw": [list(one) for one in raw], "texts": texts}


def axis(
    label: str,
    unit: str = "",
    *,
    log: bool = False,
    ticks: Sequence[tuple[float, str]] | None = None,
    names: Sequence[str] | None = None,
    extent: tuple[float, float] | None = None,
) -> dict[str, Any]:
    """What an axis measures.

    ticks   values and texts in place of those that fit
    names   of the rows of a y axis, from the top
    extent  of an x axis, in place of that of the curves
    """
    made: dict[str, Any] = {"label": label, "unit": unit, "log": log}
    made |= {"ticks": [list(one) for one in ticks]} if ticks is not None else {}
    made |= {"names": list(names)} if names is not None else {}
    return made | ({"range": list(extent)} if extent is not None else {})


def pane(y: dict[str, Any], curves: Sequence[Any], *, height: int, zero: bool = False) -> dict[str, Any]:
    """Curves over one another on a common y axis; `zero`: which is always in sight."""
    return {"y": y, "series": list(curves), "height": height, "zero": zero}


def plot(
    x: dict[str, Any], panes: Sequence[dict[str, Any]], *, group: str = "", shaded: Sequence[tuple[float, float]] = ()
) -> dict[str, Any]:
    """Panes below one another on a common x axis; plots of one group are zoomed together, those of none are not.

    shaded  ranges of x behind which the ground is grey
    """
    return {"x": x, "panes": list(panes), "group": group, "shaded": list(shaded)}
