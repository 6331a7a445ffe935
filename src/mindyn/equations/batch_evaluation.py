"""Evaluate a `casadi.Function` on batches of joint vectors, in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import casadi
import numpy as np

from mindyn.foundation.algebra.values import Array


class BufferedFunction:
    """A `casadi.Function` with preallocated arrays: fill `inputs`, call `run`, read `outputs` (column-major).

    A call of a small function takes 1 us, instead of 130 us through CasADi. Use one object per thread.
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
    count, (rows, width) = len(columns[0]), function.size_out(0)
    if count == 0 or rows * width == 0:
        return np.zeros((count, rows, width))
    values = np.array(function.map(count).call([column.T for column in columns])[0])
    return np.ascontiguousarray(values.reshape(rows, count, width).transpose(1, 0, 2))
