"""The section of parameters: a table to be searched, filtered and sorted, and their intervals as a forest plot."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import ceil, floor, log10
from typing import Any, Final

from mindyn.algebra.spread import CLEAR
from mindyn.pages.markup import (
    MINUS,
    SPACE,
    Column,
    Content,
    Html,
    Section,
    annotated_table,
    classed,
    figure,
    markup,
    number,
    p,
    percent,
    plural,
    tag,
    typeset,
)
from mindyn.pages.plots import axis, intervals, pane, plot
from mindyn.report.data import ParameterRow, ReportData, State

MEANINGS: Final[dict[State, str]] = {
    "clear": f"a deviation up to {percent(CLEAR)}",
    "rough": "a greater one",
    "near zero": "the interval holds zero",
    "from the prior": "the prior says more of it than the data",
    "left out": "set to zero: without it the model predicts no worse; the interval is what the data would say of it",
    "untold": "the data cannot tell it",
}
DEVIATION: Final = "Deviation: standard deviation relative to the value; none where the interval holds zero."
BOUNDED: Final = (
    "The values are held to what is physical; the intervals about them are those of the fit without bounds, and may "
    "hold values that no arm has."
)
WITHIN: Final = (
    "The values are held to what is physical; their intervals reach from the least to the greatest that data and "
    "physics allow."
)
CUT: Final = "*"
DUST: Final = 0.01
"""A value that is a smaller part of its standard deviation is printed as zero."""
ROLES: Final = ("predicted", "second", "third", "fourth")
"""Colours of the estimates; the fifth takes the first once more."""
ROW: Final = 20
"""Pixels of a row, with one estimate; each further one takes half as many."""
MOST_TICKS: Final = 4
"""On one side of zero."""

Rows = Sequence[ParameterRow]


def parameter_section(data: ReportData) -> Section:
    """Every parameter in a table that can be searched, filtered and sorted."""
    counts = Counter(row.state for row in data.parameters)
    lead = f"{plural(len(data.parameters), 'parameter')}: " + ", ".join(
        f"{counts[state]} {state}" for state in MEANINGS if counts[state]
    )
    untold = [row.name for row in data.parameters if row.state == "untold"]
    prior = any(row.prior is not None for row in data.parameters)
    columns = [Column("Parameter", sortable=True), Column("Value", number=True, sortable=True)]
    columns += [Column("95 % interval", number=True), Column("Unit"), Column("State", sortable=True)]
    columns += [Column("Deviation", number=True, sortable=True)]
    columns += [Column("Prior", number=True, sortable=True)] if prior else []
    rows = [(_parameter(row, prior), row.formula.replace("-", MINUS)) for row in data.parameters]
    shown = annotated_table(columns, rows, "All parameters", "parameter-table")
    told = classed("p", "note", f"The data cannot tell {', '.join(untold)}: a richer motion would.") if untold else ""
    figures, plots = forest(data.parameters, data.others, data.name if data.others else "found")
    drawn = tag(
        "details", {"open": True}, tag("summary", {}, "Values and intervals, drawn"), classed("div", "forest", figures)
    )
    parts: list[Content] = [p(f"{lead}."), told, drawn, _filters(counts), shown, _legend(data, counts)]
    return Section("parameters", "Parameters", markup(parts), plots)


def _parameter(row: ParameterRow, prior: bool) -> list[Content]:
    digits = _digits(row)
    low = f"0{CUT}" if row.cut else number(row.low, digits)
    interval = "–" if row.low is None else f"{low} to{SPACE}{number(row.high, digits)}"
    state = tag("span", {"class": f"state state-{row.state.replace(' ', '-')}"}, row.state)
    cells: list[Content] = [tag("code", {}, row.name), _value(row.value, row.deviation, digits), interval]
    cells += [typeset(row.unit).replace(" ", SPACE), state, _relative(row.relative)]
    return [*cells, _value(row.prior, row.deviation, 4)] if prior else cells


def _digits(row: ParameterRow) -> int:
    """So many that the second digit of the deviation shows."""
    if not row.deviation or row.value == 0:
        return 4
    return min(8, max(2, 2 + len(str(int(abs(row.value) / row.deviation))) - 1))


def _value(value: float | None, deviation: float | None, digits: int) -> Html:
    """What is far below its deviation is what a solver leaves of zero."""
    dust = value is not None and abs(value) < DUST * (deviation or 0.0)
    return tag("span", {"data-sort": repr(value)} if value is not None else {}, "0" if dust else number(value, digits))


def _relative(part: float | None) -> Html:
    return tag("span", {}, "–") if part is None else tag("span", {"data-sort": repr(part)}, percent(part))


def _filters(counts: Mapping[State, int]) -> Html:
    options = [tag("option", {"value": ""}, "all")]
    options += [tag("option", {"value": state}, f"{state} ({counts[state]})") for state in MEANINGS if counts[state]]
    search = classed("label", "choice", "Find", tag("input", {"type": "search", "id": "find", "autocomplete": "off"}))
    state = classed("label", "choice", "State", tag("select", {"id": "state"}, options))
    status = tag("p", {"class": "fine", "role": "status", "id": "found"})
    return classed("div", "filters", search, state, status)


def _legend(data: ReportData, counts: Mapping[State, int]) -> Html:
    said = "; ".join(f"{state}: {meaning}" for state, meaning in MEANINGS.items() if counts[state])
    bounded = [WITHIN if data.physical_intervals else BOUNDED] if data.constrained else []
    bounded += (
        [f"{CUT} Cut at zero: the fit allows nothing negative."] if any(row.cut for row in data.parameters) else []
    )
    return classed("p", "fine", " ".join([f"{said[0].upper()}{said[1:]}. {DEVIATION}", *bounded]))


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
