"""Columns of an estimate's table, for `Estimate.to_frame`, parameters.parquet and `mindyn identify --json`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from mindyn.algebra.deviations import relative_deviation
from mindyn.robots.table import format_table

if TYPE_CHECKING:
    from mindyn.estimators.estimate import Estimate

ESTIMATED: Final = "estimated"
FROM_PRIOR: Final = "from the prior"
"""States of a value with an interval, and of one that the prior determines."""
CONDITIONAL: Final = (
    "Intervals of friction coefficients hold for the selected friction law and the temperature of the logs."
)
UNBOUNDED: Final = " Intervals are of the fit without physical bounds and may reach beyond them."


def columns_of(estimate: Estimate) -> dict[str, list[Any]]:
    """Return the columns of all parameters; deviation and interval are None if a parameter has none, see its state.

    Dropped parameters may have an interval, but no deviation, since they were not fitted.
    """
    state = {**dict.fromkeys(estimate.unidentifiable, "unidentifiable"), **dict.fromkeys(estimate.dropped, "dropped")}
    low, high = ([None if np.isnan(end) else end for end in ends] for ends in estimate.intervals.tolist())
    fitted = [end is not None and name not in estimate.dropped for name, end in zip(estimate.names, low, strict=True)]
    spread = zip(estimate.deviations.tolist(), fitted, strict=True)
    return {
        "name": list(estimate.names),
        "value": estimate.beta.tolist(),
        "unit": list(estimate.units),
        "deviation": [deviation if is_known else None for deviation, is_known in spread],
        "low": low,
        "high": high,
        "state": [
            state.get(name, FROM_PRIOR if end is None else ESTIMATED)
            for name, end in zip(estimate.names, low, strict=True)
        ],
    }


def table_of(estimate: Estimate) -> str:
    """Return a text table of all parameters with value, standard deviation and 95 % interval."""
    rows: list[tuple[str, ...]] = [("parameter", "value", "unit", "std. dev.", "relative", "95 % interval")]
    relative = relative_deviation(estimate.beta, estimate.deviations, estimate.intervals)
    columns = zip(*columns_of(estimate).values(), relative, strict=True)
    for name, value, unit, deviation, low, high, state, part in columns:
        cells = ("-", "-", state if low is None else f"{state}; {low:.2g} to {high:.2g}")
        if state == ESTIMATED:
            cells = (f"{deviation:.2g}", "-" if np.isnan(part) else f"{100 * part:.2g} %", f"{low:.5g} to {high:.5g}")
        rows.append((name, f"{value:.5g}", unit, *cells))
    unbounded = estimate.physical is not None and estimate.physical.ends is None
    conditional = any(parameter.is_friction for parameter in estimate.parameters)
    notes = (f" {CONDITIONAL}" if conditional else "") + (UNBOUNDED if unbounded else "")
    return f"{format_table(rows)}\n\n{estimate.status}{notes}"
