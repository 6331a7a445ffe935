"""Held-out torque error: root mean square for each joint, relative for each joint and in total.

RMSE_j = sqrt(mean (tau - tau_hat)^2), rel_j = |tau_j - tau_hat_j| / |tau_j|, and total = |tau - tau_hat| / |tau| over
all joints and rows. tau is the torque as logged, never filtered or decimated. Rows near ends and gaps are not scored;
their number is reported.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mindyn.foundation.algebra.values import Array, native_array
from mindyn.foundation.errors import Code, InputError
from mindyn.logs.filters import LOWEST_HZ, MIN_EDGE_S, edge_duration_s
from mindyn.robots.table import format_table

EDGE_S: Final = edge_duration_s(LOWEST_HZ)
"""Time from an end or gap of a held-out log within which rows are not scored, s: the settling time of the slowest
filter that settings may select, so that every model is scored on the same rows."""
MAX_EDGE_FRACTION: Final = 0.05
"""Largest fraction of a segment that is not scored at each end."""


@dataclass(frozen=True, slots=True, eq=False)
class TorqueError:
    """Torque error of a prediction.

    Attributes
    ----------
    joint_names : tuple of str
    rmse : ndarray, shape (n,)
        Root mean square error, N m or N.
    relative : ndarray, shape (n,)
        Error relative to the torque.
    total : float
        Relative error of all joints together.
    rows : int
        Number of scored samples.
    unscored : int
        Samples at the ends of segments that are not scored (`EDGE_S`, `MAX_EDGE_FRACTION`).
    """

    joint_names: tuple[str, ...]
    rmse: Array
    relative: Array
    total: float
    rows: int
    unscored: int = 0

    def table(self) -> str:
        """Return joints and the total as a text table."""
        shown = [("joint", "RMSE [N m or N]", "relative [%]")]
        for name, rmse, relative in zip(self.joint_names, self.rmse, self.relative, strict=True):
            shown.append((name, f"{rmse:.4g}", f"{100 * relative:.2f}"))
        rest = f" ({self.unscored} at ends and gaps not scored)" if self.unscored else ""
        return format_table([*shown, (f"total, {self.rows} samples{rest}", "", f"{100 * self.total:.2f}")])


def torque_error(joint_names: Sequence[str], tau: ArrayLike, predicted: ArrayLike) -> TorqueError:
    """Return the error of predicted torques (N, n) relative to logged torques (N, n)."""
    logged, hat = native_array(tau, "the logged torque"), native_array(predicted, "the prediction")
    if logged.ndim != 2 or logged.shape != hat.shape or logged.shape[1] != len(joint_names) or not len(logged):
        raise InputError(
            f"torques and predictions need shape (rows, {len(joint_names)}), got {logged.shape} and {hat.shape}",
            code=Code.WRONG_SHAPE,
            subject="predicted",
        )
    for name, values in (("torque", logged), ("prediction", hat)):
        if not np.isfinite(values).all():
            row, joint = np.argwhere(~np.isfinite(values))[0]
            raise InputError(
                f"the {name} of joint {joint_names[joint]!r} is {values[row, joint]} at row {row}",
                code=Code.NOT_FINITE,
                subject=joint_names[joint],
            )
    squares, powers, rows = ((logged - hat) ** 2).sum(axis=0), (logged**2).sum(axis=0), len(logged)
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.sqrt(squares / powers)
    total = sqrt(squares.sum() / powers.sum()) if powers.sum() > 0 else float("inf")
    return TorqueError(tuple(joint_names), np.sqrt(squares / rows), relative, total, rows)


def scored_rows(count: int, rate_hz: float) -> NDArray[np.intp]:
    """Return the row numbers of a segment without its ends; raise `InputError` if it is too short."""
    if not is_scored(count, rate_hz):
        raise InputError(
            f"the log has {count} rows at {rate_hz:g} Hz; a score needs more than {2 * MIN_EDGE_S:g} s without a gap",
            code=Code.TOO_LITTLE_DATA,
            subject="rows",
        )
    edge = min(round(EDGE_S * rate_hz), int(MAX_EDGE_FRACTION * count))
    return np.arange(edge, count - edge)


def is_scored(count: int, rate_hz: float) -> bool:
    """Return whether a segment is long enough to be scored. In a shorter segment, filters lack data at every row."""
    return count > 2 * MIN_EDGE_S * rate_hz
