"""Columns of an estimate's table, for `Estimate.to_frame`, parameters.parquet and `mindyn identify --json`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from mindyn.algebra.deviations import relative_deviation
from mindyn.robots.table import format_table

if TYPE_CHECKING:
    from mindyn.estimators.estimate import Estimate

FROM_PRIOR: Final = "from the prior"
"""State of a value that the prior determines."""
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
            state.get(name, FROM_PRIOR if end is None else "estimated")
            for name, end in zip(estimate.names, low, strict=True)
        ],
    }


def table_of(estimate: Estimate) -> str:
    """Return a text table of all parameters with value, standard deviation and 95 % interval."""
    rows: list[tuple[str, ...]] = [("parameter", "value", "unit", "std. dev.", "relative", "95 % interval")]
    relative = relative_deviation(estimate.beta, estimate.deviations, estimate.intervals)
    for k, (name, value, unit) in enumerate(zip(estimate.names, estimate.beta, estimate.units, strict=True)):
        rows.append((name, f"{value:.5g}", unit, *_format_deviation(estimate, k, relative[k])))
    unbounded = estimate.physical is not None and estimate.physical.ends is None
    return f"{format_table(rows)}\n\n{estimate.status}{UNBOUNDED if unbounded else ''}"


def _format_deviation(estimate: Estimate, k: int, relative: float) -> tuple[str, str, str]:
    name, (low, high) = estimate.names[k], estimate.intervals[:, k]
    if name in estimate.dropped:
        return "-", "-", "dropped" if np.isnan(low) else f"dropped; {low:.2g} to {high:.2g}"
    if name in estimate.unidentifiable:
        return "-", "-", "unidentifiable"
    if np.isnan(low):
        return "-", "-", FROM_PRIOR
    part = "-" if np.isnan(relative) else f"{100 * relative:.2g} %"
    return f"{estimate.deviations[k]:.2g}", part, f"{low:.5g} to {high:.5g}"
