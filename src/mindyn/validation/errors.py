"""Held-out torque error: root mean square for each joint, relative for each joint and in total.

RMSE_j = sqrt(mean (tau - tau_hat)^2), rel_j = |tau_j - tau_hat_j| / |tau_j|, total = |tau - tau_hat| / |tau| over all
joints and rows; tau as logged, never filtered or decimated. Rows near ends and gaps are not scored: the measure
says how many.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mindyn.algebra.values import Array, native_array
from mindyn.errors import InputError
from mindyn.logs.filters import MIN_EDGE_S
from mindyn.robots.table import format_table

EDGE_S: Final = MIN_EDGE_S
"""s; rows nearer to an end of a held-out log, or to a gap, are not scored, and counted: filters have one side alone."""


@dataclass(frozen=True, slots=True, eq=False)
class TorqueError:
    """The measure: rmse (n,) N m or N, relative (n,), total, and the number of samples (rows) scored.

    unscored  samples left out: those nearer than `EDGE_S` to an end of a log or to a gap in it
    """

    joint_names: tuple[str, ...]
    rmse: Array
    relative: Array
    total: float
    rows: int
    unscored: int = 0

    def table(self) -> str:
        """Joints and the total as text."""
        shown = [("joint", "RMSE [N m or N]", "relative [%]")]
        for name, rmse, relative in zip(self.joint_names, self.rmse, self.relative, strict=True):
            shown.append((name, f"{rmse:.4g}", f"{100 * relative:.2f}"))
        rest = f" ({self.unscored} at ends and gaps not scored)" if self.unscored else ""
        return format_table([*shown, (f"total, {self.rows} samples{rest}", "", f"{100 * self.total:.2f}")])


def torque_error(joint_names: Sequence[str], tau: ArrayLike, predicted: ArrayLike) -> TorqueError:
    """The measure of predictions (N, n) against logged torques (N, n)."""
    logged, hat = native_array(tau, "the logged torque"), native_array(predicted, "the prediction")
    if logged.ndim != 2 or logged.shape != hat.shape or logged.shape[1] != len(joint_names) or not len(logged):
        raise InputError(f"torques {logged.shape} and predictions {hat.shape} must both be (rows, {len(joint_names)})")
    for name, values in (("torque", logged), ("prediction", hat)):
        if not np.isfinite(values).all():
            row, joint = np.argwhere(~np.isfinite(values))[0]
            raise InputError(f"the {name} of joint {joint_names[joint]!r} is {values[row, joint]} at row {row}")
    return _build_error(tuple(joint_names), ((logged - hat) ** 2).sum(axis=0), (logged**2).sum(axis=0), len(logged))


def pool_errors(errors: Sequence[TorqueError]) -> TorqueError:
    """The measure of all rows of several logs together."""
    squares = sum((one.rmse**2 * one.rows for one in errors), np.zeros(1))
    powers = sum((one.rmse**2 / one.relative**2 * one.rows for one in errors), np.zeros(1))
    found = _build_error(
        errors[0].joint_names, np.asarray(squares), np.asarray(powers), sum(one.rows for one in errors)
    )
    return replace(found, unscored=sum(one.unscored for one in errors))


def _build_error(names: tuple[str, ...], squares: Array, powers: Array, rows: int) -> TorqueError:
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.sqrt(squares / powers)
    total = sqrt(squares.sum() / powers.sum()) if powers.sum() > 0 else float("inf")
    return TorqueError(names, np.sqrt(squares / rows), relative, total, rows)


def scored_rows(count: int, rate_hz: float, edge_s: float = EDGE_S) -> NDArray[np.intp]:
    """Row numbers of a held-out log less its ends."""
    edge = round(edge_s * rate_hz)
    if count <= 2 * edge:
        raise InputError(f"{count} rows at {rate_hz:g} Hz leave nothing to score after {edge} at both ends")
    return np.arange(edge, count - edge)
