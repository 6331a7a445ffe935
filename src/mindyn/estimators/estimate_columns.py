"""An estimate as columns of a table: what `Estimate.to_frame`, parameters.parquet and `mindyn identify --json` hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from mindyn.algebra.deviations import relative_deviation
from mindyn.robots.table import format_table

if TYPE_CHECKING:
    from mindyn.estimators.estimate import Estimate

FROM_PRIOR: Final = "from the prior"
"""State of a value that the data leave to the prior."""
UNBOUNDED: Final = " Intervals are of the fit without physical bounds and may reach beyond them."


def columns_of(found: Estimate) -> dict[str, list[Any]]:
    """Every parameter; deviation and ends of the 95 % interval are None where it has none: see its state.

    What was left out has an interval where the data tell one, and no deviation: it was not fitted.
    """
    state = {**dict.fromkeys(found.unidentifiable, "cannot be told"), **dict.fromkeys(found.dropped, "left out")}
    low, high = ([None if np.isnan(end) else end for end in ends] for ends in found.intervals.tolist())
    fitted = [end is not None and name not in found.dropped for name, end in zip(found.names, low, strict=True)]
    spread = zip(found.deviations.tolist(), fitted, strict=True)
    return {
        "name": list(found.names),
        "value": found.beta.tolist(),
        "unit": list(found.units),
        "deviation": [deviation if told else None for deviation, told in spread],
        "low": low,
        "high": high,
        "state": [
            state.get(name, FROM_PRIOR if end is None else "found") for name, end in zip(found.names, low, strict=True)
        ],
    }


def table_of(estimate: Estimate) -> str:
    """Every parameter with its value, standard deviation and 95 % interval."""
    rows: list[tuple[str, ...]] = [("parameter", "value", "unit", "std. dev.", "relative", "95 % interval")]
    relative = relative_deviation(estimate.beta, estimate.deviations, estimate.intervals)
    for k, (name, value, unit) in enumerate(zip(estimate.names, estimate.beta, estimate.units, strict=True)):
        rows.append((name, f"{value:.5g}", unit, *_format_deviation(estimate, k, relative[k])))
    unbounded = estimate.physical is not None and estimate.physical.ends is None
    return f"{format_table(rows)}\n\n{estimate.status}{UNBOUNDED if unbounded else ''}"


def _format_deviation(estimate: Estimate, k: int, relative: float) -> tuple[str, str, str]:
    name, (low, high) = estimate.names[k], estimate.intervals[:, k]
    if name in estimate.dropped:
        return "-", "-", "left out" if np.isnan(low) else f"left out; {low:.2g} to {high:.2g}"
    if name in estimate.unidentifiable:
        return "-", "-", "the data cannot tell"
    if np.isnan(low):
        return "-", "-", FROM_PRIOR
    part = "-" if np.isnan(relative) else f"{100 * relative:.2g} %"
    return f"{estimate.deviations[k]:.2g}", part, f"{low:.5g} to {high:.5g}"
