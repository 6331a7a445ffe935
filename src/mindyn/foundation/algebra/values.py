"""Immutable values: read-only arrays, and equality by content."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, Final, Union

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from mindyn.foundation.errors import Code, InputError, shorten_text

Array = NDArray[np.float64]

RandomSource = Union[int, "np.random.Generator", None]
"""What public functions accept as `rng`: a seed, a generator, or None for a new seed in every call."""

_REAL_KINDS: Final = "fiub"
_ROWS_PER_COMPARISON: Final = 64
"""Rows that are compared at once with the next block of as many rows."""


def seed_from(rng: RandomSource) -> int:
    """Return a seed: the given number, the next random number of a generator, or a random seed for None."""
    if isinstance(rng, np.integer | int) and not isinstance(rng, bool) and rng >= 0:
        return int(rng)
    if rng is None or isinstance(rng, np.random.Generator):
        return int(np.random.default_rng(rng).integers(2**63))
    raise InputError(
        f"rng must be a seed (a whole number of at least 0), a numpy Generator or None, got {rng!r}",
        hint="rng=0 gives the same numbers in every run",
        code=Code.OUT_OF_RANGE if isinstance(rng, int) else Code.WRONG_TYPE,
        subject="rng",
    )


def require_unmasked(value: object, what: str) -> None:
    """Raise `InputError` for a masked array, because computations would use its masked entries like all other
    entries.
    """
    # Importing it takes 20 ms, and without it there are no masked arrays. Another thread may still be importing it.
    masked = getattr(sys.modules.get("numpy.ma"), "MaskedArray", None)
    if masked is not None and isinstance(value, masked):
        raise InputError(
            f"{what} is a masked array, which is not supported",
            hint="remove the masked samples, or replace them: value.filled(number)",
            code=Code.WRONG_TYPE,
            subject=what,
        )


def real_array(value: object, dtype: DTypeLike, name: str) -> NDArray[Any]:
    """Return `value` as an array of `dtype`; raise `InputError` if it does not contain real numbers."""
    require_unmasked(value, name)
    try:
        array = np.asarray(value)
    except ValueError as error:
        message = f"{name} must be an array of numbers: {error}"
        raise InputError(message, code=Code.WRONG_TYPE, subject=name) from error
    if array.dtype.kind not in _REAL_KINDS:
        message = f"{name} must contain real numbers, got dtype {array.dtype}"
        raise InputError(message, code=Code.WRONG_TYPE, subject=name)
    return array.astype(dtype, copy=False)


def native_array(value: object, name: str) -> Array:
    """Return `value` as a C-contiguous, aligned float64 array in native byte order; copy it only if it is not.

    The last bits of NumPy's sums depend on the layout, and machine code expects one layout.
    """
    return np.require(real_array(value, np.float64, name), requirements=["C", "A"])


def frozen_array(value: ArrayLike, shape: tuple[int, ...], what: str) -> Array:
    """Return a read-only, finite float64 copy of `value`, named `what`; raise `InputError` for another shape."""
    require_unmasked(value, what)
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        message = f"{what} must be numbers of shape {shape}, got {shorten_text(repr(value), 300)}"
        raise InputError(message, code=Code.WRONG_TYPE, subject=what) from error
    if array.shape != shape:
        message = f"{what} must have shape {shape}, got shape {array.shape}: {value!r}"
        raise InputError(message, code=Code.WRONG_SHAPE, subject=what)
    if not np.isfinite(array).all():
        raise InputError(f"{what} must be finite, got {value!r}", code=Code.NOT_FINITE, subject=what)
    array.flags.writeable = False
    return array


def column_extremes(x: Array, *, gaps: bool = False) -> tuple[Array, Array]:
    """Return the smallest and the largest number of every column of x (N, k). With `gaps`, NaN entries are ignored;
    without it, they make the result NaN.

    Blocks of rows are compared at once: for few columns NumPy compares row by row, twenty times as slowly.
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
    """Return a hashable copy of a value. Two copies are equal if and only if the contents of the values are equal."""
    if isinstance(value, Value):
        return (type(value).__name__, *(hashable_content(getattr(value, f.name)) for f in fields(value) if f.compare))  # type: ignore[arg-type]
    if isinstance(value, np.ndarray):
        return (value.shape, *map(float, value.flat))
    if isinstance(value, Mapping):
        return tuple(sorted((key, hashable_content(item)) for key, item in value.items()))
    if isinstance(value, Sequence) and not isinstance(value, str):
        return tuple(map(hashable_content, value))
    return value


LONGEST_REPR: Final = 200


class ShortRepr:
    """Base of dataclasses that print few characters: arrays by shape, containers by length (use `repr=False`)."""

    __slots__ = ()

    def __repr__(self) -> str:
        parts = ", ".join(f"{entry.name}={_brief(getattr(self, entry.name))}" for entry in fields(self))  # type: ignore[arg-type]
        text = f"{type(self).__name__}({parts})"
        return text if len(text) <= LONGEST_REPR else f"{text[: LONGEST_REPR - 5]} ...)"


def _brief(value: object) -> str:
    """Return a short text of one value, for a repr."""
    if isinstance(value, np.ndarray):
        return f"array{value.shape}"
    if isinstance(value, Mapping | Sequence) and not isinstance(value, str | bytes) and len(repr(value)) > 40:
        return f"<{len(value)} entries>"
    text = repr(value)
    return text if len(text) <= 40 else f"<{type(value).__name__}>"


class Value:
    """Base of frozen dataclasses with array fields: `==` and `hash` use the content (declare them with `eq=False`)."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and hashable_content(self) == hashable_content(other)

    def __hash__(self) -> int:
        return hash(hashable_content(self))
