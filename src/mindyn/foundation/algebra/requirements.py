"""Check arguments before anything is computed: numbers, counts, finite arrays, shapes and types."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from mindyn.foundation.errors import Code, InputError, MindynError

AnyArray = TypeVar("AnyArray", bound=NDArray[Any])


def require_positive(value: float, what: str, hint: str = "any number above 0, in SI units") -> float:
    """Return `value` as a float; raise `InputError` with the hint if it is not a finite number above zero."""
    return require_number(value, what, "(0, inf)", hint)


def require_number(value: object, what: str, interval: str, hint: str = "", subject: str = "") -> float:
    """Return `value` as a float; raise `InputError` if it is not a number in the interval, such as "[0, 1)"."""
    low, high = map(float, interval[1:-1].split(","))
    if (
        not isinstance(value, (int, float, np.floating, np.integer))
        or isinstance(value, bool)
        or not low <= value <= high
        or (value == low and interval[0] == "(")
        or (value == high and interval[-1] == ")")
    ):
        message = f"{what} must be a number in {interval}, got {value!r}"
        raise InputError(message, hint=hint, code=Code.OUT_OF_RANGE, subject=subject or what)
    return float(value)


def require_count(value: int, what: str) -> int:
    """Return `value` as an int; raise `InputError` if it is not a whole number of at least 1."""
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < 1:
        message = f"{what} must be a whole number of at least 1, got {value!r}"
        raise InputError(message, hint="such as 10", code=Code.OUT_OF_RANGE, subject=what)
    return int(value)


def make_read_only(array: AnyArray) -> AnyArray:
    """Make an array read-only and return it."""
    array.setflags(write=False)
    return array


def require_finite(array: AnyArray, what: str) -> AnyArray:
    """Return an array of finite numbers; raise `InputError` that names the first element that is not."""
    finite = np.isfinite(array)
    if not finite.all():
        where = np.argwhere(~finite)[0].tolist()
        message = f"{what}: element {where} is {array[tuple(where)]}, but finite numbers are needed"
        raise InputError(message, code=Code.NOT_FINITE, subject=what)
    return array


def require_shape(
    given: tuple[int, ...], needed: tuple[int, ...], what: str, error: type[MindynError] = InputError
) -> None:
    """Raise the error if an array does not have the shape that is needed."""
    if given != needed:
        message = f"{what} has shape {given}, but {needed} is needed"
        raise error(message, code=Code.WRONG_SHAPE, subject=what)


def require_type(value: object, kind: type, what: str, hint: str) -> None:
    """Raise `InputError` with the hint if a value is not of the class."""
    if not isinstance(value, kind):
        message = f"{what} must be of class {kind.__name__}, got {type(value).__name__}"
        raise InputError(message, hint=hint, code=Code.WRONG_TYPE, subject=what)
