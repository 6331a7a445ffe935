"""Parameters with their intervals: one row each, several estimates below one another, all sizes on one axis."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, floor, log10
from typing import Any, Final

from mindyn.pages.markup import Html, figure, number, typeset
from mindyn.pages.plots import axis, intervals, pane, plot
from mindyn.report.data import ParameterRow

ROLES: Final = ("predicted", "second", "third", "fourth")
"""Colours of the estimates; the fifth takes the first once more."""
ROW: Final = 20
"""Pixels of a row, with one estimate; each further one takes half as many."""
MOST_TICKS: Final = 4
"""On one side of zero."""

Rows = Sequence[ParameterRow]


def forest(parameters: Rows, others: Sequence[tuple[str, Rows]], name: str) -> tuple[list[Html], dict[str, Any]]:
    """One figure for each unit, and their plots; parameters that were left out by all are not drawn.

    others  further estimates by name; their parameters go by name, and those that the first has not are left out
    """
    estimates = [(name, parameters), *others]
    figures, plots = [], {}
    for k, unit in enumerate(dict.fromkeys(row.unit for row in parameters)):
        names = [row.name for row in parameters if row.unit == unit and _drawn(row.name, estimates)]
        if not names:
            continue
        plots[f"forest-{k}"] = _plot(names, unit, estimates)
        shown = typeset(unit) or "without a unit"
        caption = f"Parameters in {shown}: value and 95 % interval. Near zero the axis is even, beyond it logarithmic."
        figures.append(figure(f"forest-{k}", f"Values and intervals of parameters in {shown}", caption))
    return figures, plots


def _drawn(name: str, estimates: Sequence[tuple[str, Rows]]) -> bool:
    return any(row.name == name and row.state != "left out" for _, rows in estimates for row in rows)


def _plot(names: Sequence[str], unit: str, estimates: Sequence[tuple[str, Rows]]) -> object:
    taken = [[row for row in rows if row.name in names] for _, rows in estimates]
    axis_of = _Symlog.of([row for rows in taken for row in rows])
    curves = []
    for k, ((title, _), rows) in enumerate(zip(estimates, taken, strict=True)):
        shift = 0.0 if len(estimates) == 1 else 0.6 * (k / (len(estimates) - 1) - 0.5)
        places = [
            (axis_of(row.value), names.index(row.name) + shift, axis_of(row.low), axis_of(row.high)) for row in rows
        ]
        raw = [(row.value, row.low, row.high) for row in rows]
        if rows:
            curves.append(intervals(title, ROLES[k % len(ROLES)], [row.name for row in rows], places, raw))
    height = len(names) * (ROW + (len(estimates) - 1) * ROW // 2)
    x = axis("value", typeset(unit), ticks=axis_of.ticks(), extent=axis_of.extent)
    return plot(x, [pane(axis("parameter", names=names), curves, height=height)])


class _Symlog:
    """x -> sign(x) log10(1 + |x| / even): about even below `even`, logarithmic above, so that signs and sizes show."""

    def __init__(self, even: float, largest: float) -> None:
        self.even, self.largest = even, largest

    @classmethod
    def of(cls, rows: Rows) -> _Symlog:
        """The axis that holds the values and intervals of these rows."""
        ends = [abs(v) for row in rows for v in (row.value, row.low, row.high) if v is not None and v == v]
        largest = max(ends, default=0.0) or 1.0
        halves = sorted((row.high - row.low) / 2 for row in rows if row.low is not None and row.high is not None)
        typical = halves[len(halves) // 2] if halves and halves[len(halves) // 2] > 0 else 1e-3 * largest
        return cls(10.0 ** floor(log10(min(typical, largest))), largest)

    def __call__(self, value: float | None) -> float:
        if value is None:
            return float("nan")
        size = log10(1 + abs(value) / self.even)
        return size if value >= 0 else -size

    @property
    def extent(self) -> tuple[float, float]:
        """Both sides alike, with a little room."""
        end = 1.06 * self(self.largest)
        return -end, end

    def ticks(self) -> list[tuple[float, str]]:
        """Zero and powers of ten to both sides."""
        first, last = round(log10(self.even)), floor(log10(self.largest) + 1e-9)
        stride = max(1, ceil((last - first + 1) / MOST_TICKS))
        powers = [10.0**k for k in range(last, first - 1, -stride)]
        return [(0.0, "0"), *((self(sign * one), number(sign * one, 1)) for one in powers for sign in (-1.0, 1.0))]
