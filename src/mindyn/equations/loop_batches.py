"""Evaluate a `casadi.Function` on batches of joint vectors, in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import casadi
import numpy as np
from numpy.typing import ArrayLike

from mindyn.algebra.values import Array, require_unmasked
from mindyn.errors import Code, InputError


class BufferedFunction:
    """A `casadi.Function` with its own arrays: fill `inputs`, call `run`, read `outputs` (column-major).

    A call of a small function takes 1 us, CasADi's own call 130 us. Do not share it between threads.
    """

    def __init__(self, function: Any) -> None:
        self.function = function if _is_dense(function) else _densify(function)
        self.inputs = [np.zeros(self.function.nnz_in(i)) for i in range(self.function.n_in())]
        self.outputs = [np.zeros(self.function.nnz_out(i)) for i in range(self.function.n_out())]
        pair: tuple[Any, Callable[[], None]] = self.function.buffer()
        self._buffer, self.run = pair
        for i, array in enumerate(self.inputs):
            self._buffer.set_arg(i, array.data)
        for i, array in enumerate(self.outputs):
            self._buffer.set_res(i, array.data)


def _is_dense(function: Any) -> bool:
    return all(function.sparsity_out(i).is_dense() for i in range(function.n_out()))


def _densify(function: Any) -> Any:
    inputs = function.sx_in()
    return casadi.Function("dense", inputs, [casadi.densify(output) for output in function.call(inputs)])


def evaluate_batch(function: Any, *columns: Array) -> Array:
    """Return the values (N, rows, columns) of a function at N samples; each argument is (N, size)."""
    count = columns[0].shape[0]
    rows, width = function.size_out(0)
    values = np.zeros((count, width * rows))
    if count == 0 or rows * width == 0:
        return values.reshape(count, rows, width)
    buffered = BufferedFunction(function)
    (result, *_), run = buffered.outputs, buffered.run
    pairs = list(zip(buffered.inputs, columns, strict=True))
    for k in range(count):
        for array, column in pairs:
            array[:] = column[k]
        run()
        values[k] = result
    return np.ascontiguousarray(values.reshape(count, width, rows).transpose(0, 2, 1))


def to_rows(value: ArrayLike, size: int, what: str) -> tuple[Array, tuple[int, ...]]:
    """Return a copy (N, size) of an array (..., size) of finite numbers, and its batch shape."""
    require_unmasked(value, what)
    array = np.array(value, dtype=np.float64)
    if array.ndim == 0 or array.shape[-1] != size:
        raise InputError(
            f"{what} must have shape (..., {size}), one column for each primary joint; got {array.shape}",
            code=Code.WRONG_SHAPE,
            subject=what,
        )
    if not np.isfinite(array).all():
        raise InputError(f"{what} has entries that are not finite", code=Code.NOT_FINITE, subject=what)
    return array.reshape(-1, size), array.shape[:-1]
