"""The section of parameters: a table that can be searched, filtered and sorted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

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
    markup,
    number,
    p,
    percent,
    plural,
    tag,
    typeset,
)
from mindyn.report.data import ParameterRow, ReportData, State
from mindyn.report.forest import forest

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
