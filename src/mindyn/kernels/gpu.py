"""Kernels on a GPU through CuPy: arrays (..., n) of the device in, arrays of the device out."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from mindyn.errors import InputError, MissingExtraError
from mindyn.kernels.cuda_source import THREADS, cuda_source
from mindyn.kernels.program import Program

if TYPE_CHECKING:
    from mindyn.kernels.model import Model


def import_cupy() -> Any:
    """CuPy, or an error that says how to install it."""
    try:
        import cupy
    except ImportError as error:
        raise MissingExtraError(
            "running on a GPU needs CuPy and a CUDA device",
            hint="pip install 'mindyn[gpu]'; or export with model.write_cuda(path) and compile it with nvcc",
        ) from error
    return cupy


class GpuModel:
    """The equations of a model on a GPU: `gpu("inverse_dynamics", q, qd, qdd)` on CuPy arrays (..., n).

    float32 and float64 arrays are computed in their own precision. Batch dimensions must be equal.
    """

    def __init__(self, model: Model) -> None:
        self._cupy = import_cupy()
        self._model = model
        self._loaded: dict[tuple[str, str], tuple[Any, Program]] = {}

    def __call__(self, name: str, *arrays: Any, out: Any = None) -> Any:
        """The equation for a batch; `out` is an array of the device to write into."""
        dtype = np.dtype(arrays[0].dtype) if arrays and hasattr(arrays[0], "dtype") else np.dtype(np.float64)
        run, program = self._kernel(name, dtype)
        given = [self._cupy.ascontiguousarray(self._cupy.asarray(array, dtype=dtype)) for array in arrays]
        batch = self._batch(program, given)
        result = self._cupy.empty(batch + program.outputs[0].shape, dtype) if out is None else out
        if result.dtype != dtype or result.shape != batch + program.outputs[0].shape or not result.flags.c_contiguous:
            raise InputError(f"out must be a contiguous {dtype} array of shape {batch + program.outputs[0].shape}")
        count = prod(batch)
        if count:
            run(((count + THREADS - 1) // THREADS,), (THREADS,), (*given, result, np.int64(count)))
        return result

    def _kernel(self, name: str, dtype: np.dtype[Any]) -> tuple[Any, Program]:
        suffix = {"float32": "f32", "float64": "f64"}.get(dtype.name)
        if suffix is None:
            raise InputError(f"{dtype} arrays given; a GPU computes in float32 or float64")
        if (name, suffix) not in self._loaded:
            (described,) = self._model.described([name])
            module = self._cupy.RawModule(code=cuda_source([described], self._model.title(), self._model.shared))
            self._loaded[name, suffix] = (module.get_function(f"{name}_{suffix}"), described.program)
        return self._loaded[name, suffix]

    def _batch(self, program: Program, arrays: Sequence[Any]) -> tuple[int, ...]:
        if len(arrays) != len(program.inputs):
            wanted = ", ".join(one.name for one in program.inputs)
            raise InputError(f"{len(arrays)} arrays given, but {program.name} takes: {wanted}")
        batches = set()
        for one, array in zip(program.inputs, arrays, strict=True):
            split = array.ndim - len(one.shape)
            if split < 0 or array.shape[split:] != one.shape:
                raise InputError(
                    f"{one.name}: has shape {array.shape}, but (..., {', '.join(map(str, one.shape))}) is needed"
                )
            if one.name in self._model.shared and split:
                raise InputError(f"{one.name}: has shape {array.shape}, but one {one.shape} for all samples is needed")
            if one.name not in self._model.shared:
                batches.add(array.shape[:split])
        if len(batches) > 1:
            raise InputError(f"batch shapes differ: {sorted(batches)}")
        return batches.pop() if batches else ()
