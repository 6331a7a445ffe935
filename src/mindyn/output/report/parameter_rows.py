"""`parameter_rows`: value, interval and state of every parameter of an estimate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from mindyn.foundation.algebra.significance import MAX_WELL_DETERMINED_DEVIATION, relative_deviation
from mindyn.identification.estimators.estimate import ESTIMATED, FROM_PRIOR, Estimate, columns_of
from mindyn.identification.feasibility.conditions.physical_space import space_of

ParameterState = Literal[
    "well determined", "poorly determined", "not significant", "from the prior", "dropped", "unidentifiable"
]


@dataclass(frozen=True, slots=True)
class ParameterRow:
    """One parameter: formula, value, uncertainty, and the value of the prior model.

    relative  standard deviation relative to the value; None if the interval includes zero
    clipped   whether the interval was clipped at zero, because the fit does not allow negative values
    """

    name: str
    formula: str
    unit: str
    value: float
    deviation: float | None
    relative: float | None
    low: float | None
    high: float | None
    clipped: bool
    state: ParameterState
    prior: float | None


def parameter_rows(estimate: Estimate, prior: Estimate | None = None) -> tuple[ParameterRow, ...]:
    """Return all parameters; unidentifiable parameters have no interval, dropped parameters no deviation."""
    formulas = [*estimate.base.shown_expressions, *[""] * (len(estimate.names) - estimate.base.count)]
    rows, not_negative = [], _nonnegative_names(estimate)
    relative = relative_deviation(estimate.beta, estimate.deviations, estimate.intervals)
    columns = zip(*columns_of(estimate).values(), relative.tolist(), formulas, strict=True)
    for k, (name, value, unit, deviation, low, high, state, part, formula) in enumerate(columns):
        clipped = low is not None and low < 0 and name in not_negative
        rows.append(
            ParameterRow(
                name,
                "" if formula == name else formula,
                unit,
                value,
                deviation,
                None if low is None or np.isnan(part) else part,
                0.0 if clipped else low,
                high,
                clipped,
                _parameter_state(state, part, is_finite=bool(np.isfinite(estimate.deviations[k]))),
                None if prior is None else float(prior.beta[k]),
            )
        )
    return tuple(rows)


def _nonnegative_names(estimate: Estimate) -> tuple[str, ...]:
    """Return names of parameters that a constrained fit keeps nonnegative: rotor inertias and friction."""
    if not estimate.values.is_constrained:
        return ()
    space = space_of(estimate.regressor)
    others = np.delete(space.matrix, list(space.nonnegative), axis=1)
    kept = (others == 0).all(axis=1) & (space.matrix >= 0).all(axis=1)
    return tuple(name for name, bounded in zip(estimate.names, kept, strict=True) if bounded)


def _parameter_state(state: str, relative: float, *, is_finite: bool) -> ParameterState:
    """Return the state for a report from that of `columns_of`."""
    if state == FROM_PRIOR:
        return FROM_PRIOR if is_finite else "unidentifiable"
    if state != ESTIMATED:
        return "dropped" if state == "dropped" else "unidentifiable"
    if np.isnan(relative):
        return "not significant"
    return "well determined" if relative <= MAX_WELL_DETERMINED_DEVIATION else "poorly determined"
