"""Report section on parameters: a searchable table and a forest plot of their intervals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import ceil, floor, log10
from typing import Any, Final

from mindyn.foundation.algebra.significance import MAX_WELL_DETERMINED_DEVIATION
from mindyn.foundation.pages.document import (
    MINUS,
    NO_BREAK_SPACE,
    Column,
    Content,
    Html,
    Section,
    annotated_table,
    class_tag,
    figure,
    format_number,
    format_percent,
    format_plural,
    p,
    tag,
    typeset,
)
from mindyn.foundation.pages.plots import axis, interval_series, pane, plot
from mindyn.identification.estimators.estimate import CONDITIONAL
from mindyn.output.report.parameter_rows import ParameterRow, ParameterState
from mindyn.output.report.report_data import ReportData, estimate_name

STATE_MEANINGS: Final[dict[ParameterState, str]] = {
    "well determined": f"a deviation up to {format_percent(MAX_WELL_DETERMINED_DEVIATION)}",
    "poorly determined": "a larger deviation",
    "not significant": "the interval includes zero",
    "from the prior": "the prior determines it more than the data",
    "dropped": "set to zero, because the model predicts as well without it; the interval is from a fit with it",
    "unidentifiable": "the data do not determine it",
}
DEVIATION_NOTE: Final = "Deviation: standard deviation relative to the value; none if the interval includes zero."
UNBOUNDED_INTERVALS_NOTE: Final = (
    "The values are physically consistent. Their intervals are those of the unconstrained fit and may include "
    "inconsistent values."
)
PHYSICAL_INTERVALS_NOTE: Final = (
    "The values are physically consistent. Their intervals include all values that both the data and physical "
    "consistency allow."
)
CLIPPED_MARK: Final = "*"
MIN_VALUE_IN_DEVIATIONS: Final = 0.01
"""Values that are smaller, relative to their standard deviation, are printed as zero."""
ESTIMATE_ROLES: Final = ("predicted", "second", "third", "fourth")
"""Colours of the estimates; the fifth estimate repeats the first colour."""
ROW_PIXELS: Final = 20
"""Height of a row with one estimate; each further estimate adds half of it."""
MAX_TICKS: Final = 4
"""Most ticks on one side of zero."""

Rows = Sequence[ParameterRow]


def parameter_section(data: ReportData) -> Section:
    """Return the section with all parameters in a table that can be searched, filtered and sorted."""
    counts = Counter(row.state for row in data.parameters)
    lead = f"{format_plural(len(data.parameters), 'parameter')}: " + ", ".join(
        f"{counts[state]} {state}" for state in STATE_MEANINGS if counts[state]
    )
    unidentifiable = [row.name for row in data.parameters if row.state == "unidentifiable"]
    prior = any(row.prior is not None for row in data.parameters)
    columns = [
        Column("Parameter", sortable=True),
        Column("Value", number=True, sortable=True),
        Column("95 % interval", number=True),
        Column("Unit"),
        Column("State", sortable=True),
        Column("Deviation", number=True, sortable=True),
        *([Column("Prior", number=True, sortable=True)] if prior else []),
    ]
    rows = [(_parameter_cells(row, prior), row.formula.replace("-", MINUS)) for row in data.parameters]
    shown = annotated_table(columns, rows, "All parameters", "parameter-table")
    parts: list[Content] = [p(f"{lead}.")]
    if unidentifiable:
        words = f"The data do not determine {', '.join(unidentifiable)}: a more exciting trajectory can."
        parts.append(class_tag("p", "note", words))
    name = estimate_name(data.run) if data.others else "identified"
    figures, plots = draw_forest(data.parameters, data.others, name)
    title = tag("summary", {}, "Plot of values and intervals")
    parts.append(tag("details", {"open": True}, title, class_tag("div", "forest", figures)))
    parts += [_table_filters(counts), shown, _table_legend(data, counts)]
    return Section("parameters", "Parameters", parts, plots)


def _parameter_cells(row: ParameterRow, prior: bool) -> list[Content]:
    digits = _count_digits(row)
    low = f"0{CLIPPED_MARK}" if row.clipped else format_number(row.low, digits)
    interval = "–" if row.low is None else f"{low} to{NO_BREAK_SPACE}{format_number(row.high, digits)}"
    state = tag("span", {"class": f"state state-{row.state.replace(' ', '-')}"}, row.state)
    relative = "–" if row.relative is None else format_percent(row.relative)
    cells: list[Content] = [tag("code", {}, row.name), _format_parameter(row.value, row.deviation, digits), interval]
    cells += [typeset(row.unit).replace(" ", NO_BREAK_SPACE), state, _sortable(row.relative, relative)]
    return [*cells, _format_parameter(row.prior, row.deviation, 4)] if prior else cells


def _count_digits(row: ParameterRow) -> int:
    """Return the number of digits that shows two digits of the deviation."""
    if not row.deviation or row.value == 0:
        return 4
    return min(8, max(2, 2 + len(str(int(abs(row.value) / row.deviation))) - 1))


def _format_parameter(value: float | None, deviation: float | None, digits: int) -> Html:
    """Format a value; values far below their deviation are solver noise and shown as zero."""
    dust = value is not None and abs(value) < MIN_VALUE_IN_DEVIATIONS * (deviation or 0.0)
    return _sortable(value, "0" if dust else format_number(value, digits))


def _sortable(value: float | None, text: str) -> Html:
    return tag("span", {} if value is None else {"data-sort": repr(value)}, text)


def _table_filters(counts: Mapping[ParameterState, int]) -> Html:
    options = [tag("option", {"value": ""}, "all")]
    options += [
        tag("option", {"value": state}, f"{state} ({counts[state]})") for state in STATE_MEANINGS if counts[state]
    ]
    search = class_tag("label", "choice", "Find", tag("input", {"type": "search", "id": "find", "autocomplete": "off"}))
    state = class_tag("label", "choice", "State", tag("select", {"id": "state"}, options))
    status = tag("p", {"class": "fine", "role": "status", "id": "found"})
    return class_tag("div", "filters", search, state, status)


def _table_legend(data: ReportData, counts: Mapping[ParameterState, int]) -> Html:
    meanings = "; ".join(f"{state}: {meaning}" for state, meaning in STATE_MEANINGS.items() if counts[state])
    notes, physical = [f"{meanings[0].upper()}{meanings[1:]}. {DEVIATION_NOTE}"], data.estimate.values.physical
    if data.estimate.values.is_constrained:
        is_bounded = physical is not None and physical.ends is not None
        notes.append(PHYSICAL_INTERVALS_NOTE if is_bounded else UNBOUNDED_INTERVALS_NOTE)
    if any(row.clipped for row in data.parameters):
        notes.append(f"{CLIPPED_MARK} Clipped at zero: the fit does not allow negative values.")
    if data.logs and data.estimate.base.with_drives:
        notes.append(CONDITIONAL)
    return class_tag("p", "fine", " ".join(notes))


def draw_forest(parameters: Rows, others: Sequence[tuple[str, Rows]], name: str) -> tuple[list[Html], dict[str, Any]]:
    """Return one figure and plot for each unit; parameters that all estimates dropped are not drawn.

    `others` are further estimates by name; parameters that the first estimate does not have are omitted.
    """
    estimates = [(name, parameters), *others]
    drawn = {row.name for _, rows in estimates for row in rows if row.state != "dropped"}
    figures, plots = [], {}
    for k, unit in enumerate(dict.fromkeys(row.unit for row in parameters)):
        names = [row.name for row in parameters if row.unit == unit and row.name in drawn]
        if not names:
            continue
        plots[f"forest-{k}"] = _forest_plot(names, unit, estimates)
        shown = f"arameters in {typeset(unit)}" if unit else "arameters without a unit"
        caption = f"P{shown}: value and 95 % interval. The axis is linear near zero and logarithmic beyond."
        figures.append(figure(f"forest-{k}", f"Values and intervals of p{shown}", caption))
    return figures, plots


def _forest_plot(names: Sequence[str], unit: str, estimates: Sequence[tuple[str, Rows]]) -> object:
    taken = [[row for row in rows if row.name in names] for _, rows in estimates]
    axis_of = _Symlog([row for rows in taken for row in rows])
    curves = []
    for k, ((title, _), rows) in enumerate(zip(estimates, taken, strict=True)):
        shift = 0.0 if len(estimates) == 1 else 0.6 * (k / (len(estimates) - 1) - 0.5)
        places = [
            (axis_of(row.value), names.index(row.name) + shift, axis_of(row.low), axis_of(row.high)) for row in rows
        ]
        raw = [(row.value, row.low, row.high) for row in rows]
        if rows:
            curves.append(
                interval_series(title, ESTIMATE_ROLES[k % len(ESTIMATE_ROLES)], [row.name for row in rows], places, raw)
            )
    height = len(names) * (ROW_PIXELS + (len(estimates) - 1) * ROW_PIXELS // 2)
    x = axis("value", typeset(unit), ticks=axis_of.ticks(), extent=axis_of.extent)
    return plot(x, [pane(axis("parameter", names=names), curves, height=height)])


class _Symlog:
    """Axis x -> sign(x) log10(1 + |x| / even): nearly linear below `even`, logarithmic above."""

    def __init__(self, rows: Rows) -> None:
        """Cover the values and intervals of these rows."""
        ends = [abs(v) for row in rows for v in (row.value, row.low, row.high) if v is not None and v == v]
        self.largest = max(ends, default=0.0) or 1.0
        halves = sorted((row.high - row.low) / 2 for row in rows if row.low is not None and row.high is not None)
        typical = halves[len(halves) // 2] if halves and halves[len(halves) // 2] > 0 else 1e-3 * self.largest
        self.even = 10.0 ** floor(log10(min(typical, self.largest)))

    def __call__(self, value: float | None) -> float:
        if value is None:
            return float("nan")
        size = log10(1 + abs(value) / self.even)
        return size if value >= 0 else -size

    @property
    def extent(self) -> tuple[float, float]:
        """Symmetric range of the axis with a small margin."""
        end = 1.06 * self(self.largest)
        return -end, end

    def ticks(self) -> list[tuple[float, str]]:
        """Return ticks at zero and at powers of ten on both sides."""
        first, last = round(log10(self.even)), floor(log10(self.largest) + 1e-9)
        stride = max(1, ceil((last - first + 1) / MAX_TICKS))
        powers = [10.0**k for k in range(last, first - 1, -stride)]
        return [
            (0.0, "0"),
            *((self(sign * power), format_number(sign * power, 1)) for power in powers for sign in (-1.0, 1.0)),
        ]
