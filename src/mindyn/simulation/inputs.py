"""What simulations are given, checked before anything is computed."""

from __future__ import annotations

from math import isfinite
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from mindyn.algebra.values import Array, require_unmasked
from mindyn.errors import InputError

AnyArray = TypeVar("AnyArray", bound=NDArray[Any])


def require_positive(value: float, what: str, hint: str = "any number above 0, in SI units") -> float:
    """`value` as a float; refuses what is not a finite number above zero, with that hint."""
    if not isinstance(value, (int, float, np.floating, np.integer)) or not isfinite(value) or value <= 0:
        raise InputError(f"{what} must be a finite number above 0, got {value!r}", hint=hint)
    return float(value)


def require_count(value: int, what: str) -> int:
    """`value` as an int of at least one."""
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < 1:
        raise InputError(f"{what} must be a whole number of at least 1, got {value!r}", hint="such as 10")
    return int(value)


def make_read_only(array: AnyArray) -> AnyArray:
    """The array itself, no longer writable."""
    array.setflags(write=False)
    return array


def require_real_numbers(value: Any, what: str) -> Array:
    """`value` as a float64 array of finite numbers; names the first that is not."""
    require_unmasked(value, what)
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{what} must be numbers, got {type(value).__name__}") from error
    finite = np.isfinite(array)
    if not finite.all():
        where = np.argwhere(~finite)[0].tolist()
        raise InputError(f"{what}: element {where} is {array[tuple(where)]}, but finite numbers are needed")
    return array
