"""Group rows by the conditions of the motion: speed, load, posture and direction.

Blocks of time have different noise. On another motion, a model must also predict other speeds, loads and postures. Rows
are therefore grouped in four ways. Each way uses one number per row:

    speed      root mean square over joints of the speed, relative to the joint's root mean square over all rows
    load       the same of the predicted torque; measured torques would group rows by their noise
    posture    first principal component of the positions, each relative to the joint's standard deviation
    direction  sign of the speed along the first principal component of the speeds
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mindyn.foundation.algebra.values import Array
from mindyn.logs.samples import Samples

Condition = Literal["speed", "load", "posture", "direction"]
LEVELS: Final = 4
"""Number of groups for speed, load and posture; each has equally many rows."""


class Grouping(NamedTuple):
    """Rows grouped by a condition.

    condition  what differs between groups
    labels     (N,) number of the group of each row
    groups     number of groups
    held_out   groups at the ends of the range; a fit of the other groups predicts them by extrapolation
    """

    condition: Condition
    labels: NDArray[np.int64]
    groups: int
    held_out: tuple[int, ...]


def group_by_conditions(samples: Samples, load: Array) -> list[Grouping]:
    """Return the groups of each condition that differs between rows; `load` (N, n) are predicted torques."""
    speed, torque = _mean_size(samples.qd), _mean_size(load)
    posture = _principal_component(samples.q - samples.q.mean(axis=0))
    along = _principal_component(samples.qd)
    last = LEVELS - 1
    groupings = [
        Grouping("speed", _equal_levels(speed), LEVELS, (last,)),
        Grouping("load", _equal_levels(torque), LEVELS, (last,)),
        Grouping("posture", _equal_levels(posture), LEVELS, (0, last)),
        Grouping("direction", (along > 0).astype(np.int64), 2, (0, 1)),
    ]
    return [grouping for grouping in groupings if len(np.unique(grouping.labels)) == grouping.groups]


def _mean_size(values: Array) -> Array:
    """Return for each row (N,) the root mean square over joints, where each joint is relative to its own root mean
    square.
    """
    sizes = np.sqrt((values**2).mean(axis=0))
    return np.asarray(
        np.sqrt((values[:, sizes > 0] ** 2 / sizes[sizes > 0] ** 2).mean(axis=1))
        if sizes.any()
        else np.zeros(len(values))
    )


def _principal_component(values: Array) -> Array:
    """Return the first principal component (N,) of values, where each joint is relative to its own root mean square."""
    sizes = np.sqrt((values**2).mean(axis=0))
    scaled = values[:, sizes > 0] / sizes[sizes > 0]
    if not scaled.size:
        return np.zeros(len(values))
    return np.asarray(scaled @ np.linalg.eigh(scaled.T @ scaled)[1][:, -1])


def _equal_levels(values: Array) -> NDArray[np.int64]:
    """Divide values (N,) into levels with equally many rows; return the level of each value."""
    ends = np.quantile(values, np.arange(1, LEVELS) / LEVELS)
    return np.searchsorted(ends, values, side="right").astype(np.int64)
