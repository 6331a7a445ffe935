"""Parameters that data cannot tell have an infinite variance: in memory infinity, in files null."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mindyn.algebra.values import Array


def infinite_variances(covariance: Array, names: Sequence[str], unidentifiable: Sequence[str]) -> Array:
    """The covariance with infinite variance of the parameters that the data cannot tell."""
    found = np.array(covariance)
    places = [names.index(name) for name in unidentifiable]
    found[places, places] = np.inf
    return found


def depends_on_unidentifiable(covariance: Array, told: NDArray[np.bool_]) -> Array:
    """(p, p) from the covariance of the parameters that are told, (p,) marks; of the others infinite variances."""
    found = np.diag(np.where(told, 0.0, np.inf))
    found[np.ix_(told, told)] = covariance
    return found


def save_covariance(covariance: Array) -> list[list[float | None]]:
    """As JSON can hold it, which has no infinity."""
    return [[float(v) if np.isfinite(v) else None for v in row] for row in covariance]


def read_covariance(rows: Sequence[Sequence[float | None]]) -> Array:
    """The inverse of `save_covariance`."""
    return np.array([[np.inf if v is None else v for v in row] for row in rows], dtype=np.float64)
