"""Parameters that the data do not determine: their names, and infinite variances (null in files)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mindyn.algebra.values import Array
from mindyn.regression.information import null_space

NULL_SPACE_ENTRY: Final = 1e-6
"""Smallest entry of a unit vector of the null space that makes its parameter unidentifiable."""


def find_unidentifiable(R: Array, names: Sequence[str], dropped: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the parameters in the null space of equations with R factor (m, p), without dropped parameters."""
    kept = np.array([name not in dropped for name in names])
    is_open = (np.abs(null_space(R[:, kept])) > NULL_SPACE_ENTRY).any(axis=1)
    return tuple(names[k] for k in np.flatnonzero(kept)[is_open])


def infinite_variances(covariance: Array, names: Sequence[str], unidentifiable: Sequence[str]) -> Array:
    """Return the covariance with infinite variances of unidentifiable parameters."""
    result = np.array(covariance)
    places = [names.index(name) for name in unidentifiable]
    result[places, places] = np.inf
    return result


def depends_on_unidentifiable(covariance: Array, identifiable: NDArray[np.bool_]) -> Array:
    """Return the (p, p) covariance from that of the identifiable parameters, which a (p,) mask marks."""
    result = np.diag(np.where(identifiable, 0.0, np.inf))
    result[np.ix_(identifiable, identifiable)] = covariance
    return result


def save_covariance(covariance: Array) -> list[list[float | None]]:
    """Return the covariance for JSON, with None for infinity."""
    return [[float(v) if np.isfinite(v) else None for v in row] for row in covariance]


def read_covariance(rows: Sequence[Sequence[float | None]]) -> Array:
    """Return the covariance from `save_covariance`."""
    return np.array([[np.inf if v is None else v for v in row] for row in rows], dtype=np.float64)
