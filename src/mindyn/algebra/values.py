"""Frozen values: read-only arrays, and equality by content."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from mindyn.errors import InputError, shorten_text

Array = NDArray[np.float64]

_REAL_KINDS: Final = "fiub"
_ROWS_PER_COMPARISON: Final = 64
"""Rows that are compared with the next as many, all their columns together."""


def require_unmasked(value: object, what: str) -> None:
    """Refuse a masked array: what its mask hides would be computed with as if it were measured."""
    if isinstance(value, np.ma.MaskedArray):
        raise InputError(
            f"{what} is a masked array, and masks are not looked at",
            hint="leave the masked samples out, or give value.filled(number) where a number stands for them",
        )


def real_array(value: object, dtype: DTypeLike, name: str) -> NDArray[Any]:
    """`value` as an array of `dtype`; refuses what is not an array of real numbers."""
    require_unmasked(value, name)
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise InputError(f"{name}: not an array of numbers ({error})") from error
    if array.dtype.kind not in _REAL_KINDS:
        raise InputError(f"{name}: has dtype {array.dtype}, but real numbers are needed")
    return array.astype(dtype, copy=False)


def native_array(value: object, name: str) -> Array:
    """Return `value` as a C-contiguous, aligned float64 array in native byte order; copy it only if it is not.

    NumPy's sums depend on the layout in their last bits, and machine code reads one layout.
    """
    return np.require(real_array(value, np.float64, name), requirements=["C", "A"])


def frozen_array(value: ArrayLike, shape: tuple[int, ...], what: str) -> Array:
    """A read-only finite float64 copy of `value` with the given shape; `what` names it in the error."""
    require_unmasked(value, what)
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"{what} must be numbers of shape {shape}, got {shorten_text(repr(value), 300)}") from error
    if array.shape != shape:
        raise InputError(f"{what} must have shape {shape}, got shape {array.shape}: {value!r}")
    if not np.isfinite(array).all():
        raise InputError(f"{what} must be finite, got {value!r}")
    array.flags.writeable = False
    return array


def column_extremes(x: Array, *, gaps: bool = False) -> tuple[Array, Array]:
    """Least and largest number of every column of x (N, k); NaN where it has one, or with `gaps` of the others.

    Many rows are compared at once: NumPy goes down few columns one row at a time, twenty times as slowly.
    """
    least, largest = (np.fmin, np.fmax) if gaps else (np.minimum, np.maximum)
    whole = len(x) // _ROWS_PER_COMPARISON * _ROWS_PER_COMPARISON
    if not whole or not x.flags.c_contiguous:
        return least.reduce(x, axis=0), largest.reduce(x, axis=0)
    wide, rest = x[:whole].reshape(-1, _ROWS_PER_COMPARISON * x.shape[1]), x[whole:]
    low, high = (
        one.reduce(np.concatenate([one.reduce(wide, axis=0).reshape(_ROWS_PER_COMPARISON, -1), rest]), axis=0)
        for one in (least, largest)
    )
    return low, high


def hashable_content(value: Any) -> Any:
    """A hashable copy of a value: equal contents, and only they, compare equal."""
    if isinstance(value, Value):
        return (type(value).__name__, *(hashable_content(getattr(value, f.name)) for f in fields(value) if f.compare))  # type: ignore[arg-type]
    if isinstance(value, np.ndarray):
        return (value.shape, *map(float, value.flat))
    if isinstance(value, Mapping):
        return tuple(sorted((key, hashable_content(item)) for key, item in value.items()))
    if isinstance(value, Sequence) and not isinstance(value, str):
        return tuple(map(hashable_content, value))
    return value


class Value:
    """Base of frozen dataclasses with array fields: `==` and `hash` by content (declare them `eq=False`)."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and hashable_content(self) == hashable_content(other)

    def __hash__(self) -> int:
        return hash(hashable_content(self))
