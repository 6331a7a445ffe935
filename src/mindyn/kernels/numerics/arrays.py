"""Addresses and row strides of NumPy arrays, for machine code."""

from __future__ import annotations

import ctypes
import math
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from mindyn.foundation.errors import Code, InputError, pluralise

Array = NDArray[Any]


def require_arrays(given: Sequence[Any], names: Sequence[str], function: str) -> None:
    """Raise `InputError` unless a function is given one array for each name."""
    if len(given) != len(names):
        message = f"{pluralise(len(given), 'array')} given, but {function} takes: {', '.join(names)}"
        raise InputError(message, code=Code.WRONG_SHAPE, subject=function)


def batch_shape(given: tuple[int, ...], shape: tuple[int, ...], name: str, hint: str = "") -> tuple[int, ...]:
    """Return the batch dimensions of an array: its shape without the trailing `shape`.

    A wrong shape raises an error with the hint.
    """
    split = len(given) - len(shape)
    if split < 0 or given[split:] != shape:
        expected = ", ".join(["..."] + [str(n) for n in shape])
        message = f"{name}: has shape {given}, but ({expected}) is needed"
        raise InputError(message, hint=hint, code=Code.WRONG_SHAPE, subject=name)
    return given[:split]


def common_batch(batches: Sequence[tuple[int, ...]], names: Sequence[str]) -> tuple[int, ...]:
    """Return the shape that all batches broadcast to."""
    if all(batch == batches[0] for batch in batches):
        return batches[0] if batches else ()
    try:
        return np.broadcast_shapes(*batches)
    except ValueError:
        given = ", ".join(f"{name} {batch}" for name, batch in zip(names, batches, strict=True))
        raise InputError(
            f"batch dimensions do not broadcast: {given}", code=Code.WRONG_SHAPE, subject=names[0]
        ) from None


def contiguous_samples(array: Array, shape: tuple[int, ...], batch: tuple[int, ...]) -> tuple[Array, int]:
    """Return an input as a contiguous array, either of one sample or broadcast to `batch`, and the bytes between two
    samples.
    """
    is_single = array.size == math.prod(shape)
    if not is_single and array.shape != batch + shape:
        array = np.broadcast_to(array, batch + shape)
    if not (array.flags.c_contiguous and array.flags.aligned):
        array = np.require(array, requirements=["C", "A"])
    return array, 0 if is_single else math.prod(shape) * array.itemsize


def _address_by_interface(array: Array) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


def _address_by_layout(array: Array) -> int:
    """Read the address from NumPy's binary interface: the first field of an array object after its header."""
    return ctypes.c_void_p.from_address(id(array) + object.__basicsize__).value or 0


def _layout_is_known() -> bool:
    """Return whether NumPy's arrays have the binary layout that `_address_by_layout` reads."""
    if sys.implementation.name != "cpython":
        return False
    trial = np.arange(3.0)
    return all(_address_by_layout(array) == _address_by_interface(array) for array in (trial, trial[1:], trial[::-1]))


# 0.2 us instead of 1.0 us per array: a quarter of a small batch's fixed cost.
address_of = _address_by_layout if _layout_is_known() else _address_by_interface


def address_of_rows(array: Array, dtype: DTypeLike = np.float64) -> int:
    """Return the address of an array for machine code that reads along its last axis.

    Raise an error if the layout does not allow this.

    All addresses of rows are computed here, because a wrong layout or byte order would give wrong numbers instead of an
    error.
    """
    is_packed = array.shape[-1] == 1 or array.strides[-1] == array.itemsize
    if array.dtype != dtype or not array.flags.aligned or not is_packed:
        raise InputError(
            f"machine code cannot read an array of {array.dtype.str} with strides {array.strides}",
            hint=f"pass numpy.ascontiguousarray(array, dtype={np.dtype(dtype).name!r})",
            code=Code.WRONG_TYPE,
            subject=array.dtype.str,
        )
    return address_of(array)


class RowBlock(NamedTuple):
    """Rows of a float64 array (N, width) in memory: address of the first row, and distance between rows, counted in
    numbers.
    """

    address: int
    step: int
    width: int

    @staticmethod
    def from_array(array: Array) -> RowBlock:
        """Return the rows of an array (..., N, width), which must live as long as they are used."""
        return RowBlock(address_of_rows(array), array.strides[-2] // array.itemsize, array.shape[-1])
