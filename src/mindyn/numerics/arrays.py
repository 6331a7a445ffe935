"""NumPy arrays as a kernel sees them: an address and the stride from one sample to the next."""

from __future__ import annotations

import ctypes
import math
import sys
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from mindyn.errors import Code, InputError

Array = NDArray[Any]


class StridedSamples(NamedTuple):
    """Samples of an array: sample k starts at `address + k * stride` (bytes), and `owner` keeps the memory alive."""

    owner: Array
    address: int
    stride: int


def batch_shape(given: tuple[int, ...], shape: tuple[int, ...], name: str, hint: str = "") -> tuple[int, ...]:
    """Return the dimensions of an array's shape before the trailing `shape`; an error has the hint."""
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


def view_samples(array: Array, shape: tuple[int, ...], batch: tuple[int, ...]) -> StridedSamples:
    """Return the samples of an input, broadcast to `batch`; copy only if its samples have no common stride."""
    if array.flags.c_contiguous and array.flags.aligned and array.shape == batch + shape:
        return _make_samples(array, math.prod(shape) * array.itemsize)
    if not array.flags.aligned or not _is_packed(array, shape):
        array = np.require(array, requirements=["C", "A"])
    own_batch = array.shape[: array.ndim - len(shape)]
    if math.prod(own_batch) == 1:
        return _make_samples(array, 0)
    stride = _sample_stride(array, own_batch) if own_batch == batch else None
    if stride is None:
        array = np.ascontiguousarray(np.broadcast_to(array, batch + shape))
        stride = math.prod(shape) * array.itemsize
    return _make_samples(array, stride)


def view_results(array: Array, shape: tuple[int, ...], batch: tuple[int, ...]) -> StridedSamples | None:
    """Return the samples of an output array, or None if a kernel cannot write to it directly."""
    if array.flags.carray:
        return _make_samples(array, math.prod(shape) * array.itemsize)
    if not array.flags.aligned or not _is_packed(array, shape):
        return None
    stride = _sample_stride(array, batch)
    return None if stride is None else _make_samples(array, stride)


def _make_samples(array: Array, stride: int) -> StridedSamples:
    return StridedSamples(array, address_of(array), stride)


def _address_by_interface(array: Array) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


def _address_by_layout(array: Array) -> int:
    """Read the address from NumPy's binary interface: the first field of an array object after its header."""
    return ctypes.c_void_p.from_address(id(array) + object.__basicsize__).value or 0


def _layout_is_known() -> bool:
    if sys.implementation.name != "cpython":
        return False
    trial = np.arange(3.0)
    return all(_address_by_layout(array) == _address_by_interface(array) for array in (trial, trial[1:], trial[::-1]))


# 0.2 us instead of 1.0 us per array: a quarter of a small batch's fixed cost.
address_of = _address_by_layout if _layout_is_known() else _address_by_interface


def address_of_rows(array: Array, dtype: DTypeLike = np.float64) -> int:
    """Return the address of an array for machine code that walks along its last axis; raise if it cannot.

    All addresses of rows come from here, because another layout or byte order gives wrong numbers, not an error.
    """
    if array.dtype != dtype or not array.flags.aligned or not _is_packed(array, array.shape[-1:]):
        raise InputError(
            f"machine code cannot read an array of {array.dtype.str} with strides {array.strides}",
            hint=f"pass numpy.ascontiguousarray(array, dtype={np.dtype(dtype).name!r})",
            code=Code.WRONG_TYPE,
            subject=array.dtype.str,
        )
    return address_of(array)


class RowBlock(NamedTuple):
    """Rows of a float64 array (N, width) in memory: the address of the first, and the numbers from one to the next."""

    address: int
    step: int
    width: int

    @staticmethod
    def from_array(array: Array) -> RowBlock:
        """Return the rows of an array (..., N, width), which must live as long as they are used."""
        return RowBlock(address_of_rows(array), array.strides[-2] // array.itemsize, array.shape[-1])


def _is_packed(array: Array, shape: tuple[int, ...]) -> bool:
    """Return whether each sample is row-major without gaps."""
    expected = array.itemsize
    for size, stride in zip(reversed(shape), reversed(array.strides), strict=False):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True


def _sample_stride(array: Array, batch: tuple[int, ...]) -> int | None:
    """Return the stride between consecutive samples in bytes, or None if it is not constant."""
    strides = [(size, stride) for size, stride in zip(batch, array.strides[: len(batch)], strict=True) if size != 1]
    if not strides:
        return 0
    for (_, outer), (size, inner) in pairwise(strides):
        if outer != size * inner:
            return None
    return strides[-1][1]
