"""Reference results of CasADi in NumPy's row-major layout, and the tolerances of kernels."""

from __future__ import annotations

import casadi as ca
import numpy as np

TOLERANCE = {np.float64: 1e-13, np.float32: 1e-4}
"""Largest error of a kernel relative to the largest element of the result."""


def evaluate(function: ca.Function, *arrays: np.ndarray) -> list[np.ndarray]:
    """All outputs for a batch: arrays (count, ...) in, (count, r[, c]) out; unbatched arrays are repeated."""
    count = max(len(a) for k, a in enumerate(arrays) if a.ndim > _dimensions(function, k))
    samples = [_repeat(a, count, _dimensions(function, k)) for k, a in enumerate(arrays)]
    results = [function.call([ca.DM(sample[i]) for sample in samples]) for i in range(count)]
    return [_stack([result[k] for result in results]) for k in range(function.n_out())]


def _dimensions(function: ca.Function, number: int) -> int:
    return 1 if function.size2_in(number) == 1 else 2


def _repeat(array: np.ndarray, count: int, dimensions: int) -> np.ndarray:
    return array if array.ndim > dimensions else np.broadcast_to(array, (count, *array.shape))


def _stack(results: list[ca.DM]) -> np.ndarray:
    stacked = np.stack([result.full() for result in results])
    return stacked[..., 0] if stacked.shape[-1] == 1 else stacked


def random_inputs(function: ca.Function, batch: tuple[int, ...], seed: int = 0) -> list[np.ndarray]:
    """One array per input, uniform in -3 .. 3."""
    random = np.random.default_rng(seed)
    shapes = [function.sparsity_in(k).shape[: _dimensions(function, k)] for k in range(function.n_in())]
    return [random.uniform(-3.0, 3.0, batch + shape) for shape in shapes]
