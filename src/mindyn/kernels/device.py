"""`DeviceFunction`: a function of a generated CUDA file on GPU arrays of CuPy, PyTorch or JAX.

Arrays are exchanged through DLPack without copies, and results have the type of the first array. The module imports
NumPy alone, so that GPU machines need nothing else but CuPy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, Final

import numpy as np

from mindyn.foundation.errors import Code, InputError, pluralise
from mindyn.kernels.numerics.arrays import batch_shape, require_arrays

THREADS_PER_BLOCK: Final = 128
"""A launch takes ceil(count / THREADS_PER_BLOCK) blocks."""
SUFFIXES: Final = {"float32": "f32", "float64": "f64"}
Shape = tuple[int, ...]


class DeviceFunction:
    """Function on GPU arrays (..., n), `function(q, qd, qdd)`, in the precision of the first array.

    Batch dimensions broadcast.

    Parameters
    ----------
    cupy : module
    source : callable
        Returns CUDA with kernels NAME_f32 and NAME_f64, given the names of the inputs that are one sample for the whole
        batch: they are not expanded.
    name : str
    inputs : sequence of (name, shape)
        Names, and shapes of one sample.
    outputs : sequence of shape
        Shapes of one sample. One output is returned as an array, several as a tuple.
    """

    def __init__(
        self,
        cupy: Any,
        source: Callable[[frozenset[str]], str],
        name: str,
        inputs: Sequence[tuple[str, Shape]],
        outputs: Sequence[Shape],
    ) -> None:
        self._cupy, self._source, self.name = cupy, source, name
        self.inputs = [(called, tuple(shape)) for called, shape in inputs]
        self.outputs = [tuple(shape) for shape in outputs]
        self._modules: dict[frozenset[str], Any] = {}

    def __call__(self, *arrays: Any, out: Any = None) -> Any:
        """Return the results for a batch; `out` is a device array to write into, or one for each of several results."""
        on_device = self._convert_inputs(arrays)
        batch, dtype = self._batch(on_device), on_device[0].dtype
        if out is None:
            results = [self._cupy.empty(batch + shape, dtype) for shape in self.outputs]
        else:
            results = self._prepare_outputs(out if isinstance(out, (list, tuple)) else [out], batch, dtype)
        if count := prod(batch):
            shared, given = self._share(on_device, batch)
            if shared not in self._modules:
                self._modules[shared] = self._cupy.RawModule(code=self._source(shared))
            kernel = self._modules[shared].get_function(f"{self.name}_{SUFFIXES[dtype.name]}")
            blocks = (count + THREADS_PER_BLOCK - 1) // THREADS_PER_BLOCK
            kernel((blocks,), (THREADS_PER_BLOCK,), (*given, *results, np.int64(count)))
        if out is not None:
            return out
        back = output_converter(arrays[0])
        converted = [back(result) for result in results]
        return converted[0] if len(converted) == 1 else tuple(converted)

    def _convert_inputs(self, arrays: Sequence[Any]) -> list[Any]:
        """Return the arrays as contiguous CuPy arrays of one precision."""
        require_arrays(arrays, [name for name, _ in self.inputs], self.name)
        on_device = [to_device(self._cupy, array) for array in arrays]
        dtype = on_device[0].dtype
        if dtype.name not in SUFFIXES:
            raise InputError(
                f"{dtype} arrays given; a GPU computes in float32 or float64", code=Code.WRONG_TYPE, subject=dtype
            )
        return [self._cupy.ascontiguousarray(array, dtype=dtype) for array in on_device]

    def _batch(self, arrays: Sequence[Any]) -> Shape:
        inputs = zip(arrays, self.inputs, strict=True)
        batches = [batch_shape(array.shape, shape, name) for array, (name, shape) in inputs]
        try:
            return np.broadcast_shapes(*batches)
        except ValueError as error:
            message = f"{self.name}: batch dimensions do not broadcast: {batches}"
            raise InputError(message, code=Code.WRONG_SHAPE, subject=self.name) from error

    def _share(self, arrays: Sequence[Any], batch: Shape) -> tuple[frozenset[str], list[Any]]:
        """Return the names of the inputs that are one sample for the whole batch, and all inputs; the other inputs are
        expanded.
        """
        shared, given = set(), []
        for array, (name, shape) in zip(arrays, self.inputs, strict=True):
            if prod(batch) > 1 and array.size == prod(shape):
                shared.add(name)
                given.append(array.reshape(shape))
            else:
                given.append(self._cupy.ascontiguousarray(self._cupy.broadcast_to(array, batch + shape)))
        return frozenset(shared), given

    def _prepare_outputs(self, out: Sequence[Any], batch: Shape, dtype: Any) -> list[Any]:
        if len(out) != len(self.outputs):
            raise InputError(
                f"out: {pluralise(len(out), 'array')} given, but {self.name} has {len(self.outputs)} results",
                subject="out",
                code=Code.WRONG_SHAPE,
            )
        targets = [to_device(self._cupy, array) for array in out]
        for array, shape in zip(targets, self.outputs, strict=True):
            if array.dtype != dtype or array.shape != batch + shape or not array.flags.c_contiguous:
                raise InputError(
                    f"out must be a contiguous {dtype} array of shape {batch + shape}",
                    code=Code.WRONG_SHAPE,
                    subject="out",
                )
        return targets


def to_device(cupy: Any, array: Any) -> Any:
    """Return an array as a CuPy array; copy it only if it is on the host."""
    if isinstance(array, cupy.ndarray) or not hasattr(array, "__dlpack__") or isinstance(array, np.ndarray):
        return cupy.asarray(array)
    kind, _ = array.__dlpack_device__()
    if kind != 2:  # DLPack's number of CUDA memory
        raise InputError(
            f"an array of {type(array).__module__.partition('.')[0]} is not in the memory of a CUDA device",
            code=Code.WRONG_TYPE,
            subject=type(array).__name__,
        )
    return cupy.from_dlpack(array.detach() if hasattr(array, "detach") else array)


def output_converter(array: Any) -> Callable[[Any], Any]:
    """Return the function that converts a CuPy array to an array of the framework of `array`."""
    framework = type(array).__module__.partition(".")[0]
    if framework == "torch":
        import torch

        return torch.from_dlpack  # type: ignore[no-any-return]
    if framework in ("jax", "jaxlib"):
        import jax

        return jax.dlpack.from_dlpack  # type: ignore[no-any-return]
    return lambda result: result
