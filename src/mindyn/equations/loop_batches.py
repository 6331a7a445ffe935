"""Evaluating a `casadi.Function` on batches of joint vectors, in NumPy."""

from __future__ import annotations

from typing import Any

import casadi
import numpy as np
from numpy.typing import ArrayLike

from mindyn.algebra.values import Array, require_unmasked
from mindyn.errors import InputError


def evaluated(function: Any, *columns: Array) -> Array:
    """(N, rows, columns) values of a function at N samples; each argument (N, size)."""
    count = columns[0].shape[0]
    rows, width = function.size_out(0)
    if count == 0:
        return np.zeros((0, rows, width))
    result = np.array(casadi.DM(function.map(count)(*(casadi.DM(column.T) for column in columns))))
    return np.ascontiguousarray(result.reshape(rows, count, width).transpose(1, 0, 2))


def as_rows(value: ArrayLike, size: int, what: str) -> tuple[Array, tuple[int, ...]]:
    """(N, size) copy of an array (..., size) of finite numbers, and its batch shape."""
    require_unmasked(value, what)
    array = np.array(value, dtype=np.float64)
    if array.ndim == 0 or array.shape[-1] != size:
        raise InputError(f"{what} must have shape (..., {size}), one column for each primary joint; got {array.shape}")
    if not np.isfinite(array).all():
        raise InputError(f"{what} has entries that are not finite")
    return array.reshape(-1, size), array.shape[:-1]
