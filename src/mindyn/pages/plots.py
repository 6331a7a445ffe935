"""Plots as plain values that the page's script draws; see assets/plot.js."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Literal

from mindyn.pages.decimation import Packed

Kind = Literal["line", "band", "bars", "cells"]
Values = Sequence[float] | Packed | str
"""Numbers, packed numbers, or the name of numbers that several series share."""


def plain(values: Values) -> Any:
    """As JSON can hold it."""
    return asdict(values) if isinstance(values, Packed) else values if isinstance(values, str) else list(values)


def series(name: str, role: str, x: Values, y: Values, *, kind: Kind = "line", y2: Values | None = None) -> Any:
    """One curve; `role` decides its colour, `y2` is the other edge of a band."""
    made = {"name": name, "role": role, "kind": kind, "x": plain(x), "y": plain(y)}
    return made if y2 is None else {**made, "y2": plain(y2)}


def axis(label: str, unit: str = "", *, log: bool = False) -> dict[str, Any]:
    """What an axis measures."""
    return {"label": label, "unit": unit, "log": log}


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
