"""`DeviceFunction`: a function of a generated CUDA file on GPU arrays of CuPy, PyTorch or JAX.

It needs only NumPy and CuPy. Arrays are exchanged through DLPack without copies, and results have the type of the first
array.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, Final

import numpy as np

try:
    from mindyn.errors import Code, InputError
except ImportError:  # this file is also used without mindyn

    class Code:  # type: ignore[no-redef]
        """Codes are dropped."""

        WRONG_SHAPE = WRONG_TYPE = None

    class InputError(ValueError):  # type: ignore[no-redef]
        """Invalid arguments."""

        def __init__(self, message: str, **_: object) -> None:
            super().__init__(message)


THREADS_PER_BLOCK: Final = 128
"""A launch takes ceil(count / THREADS_PER_BLOCK) blocks."""
SUFFIXES: Final = {"float32": "f32", "float64": "f64"}
Shape = tuple[int, ...]


class DeviceFunction:
    """Function on GPU arrays (..., n), `function(q, qd, qdd)`, in the precision of the first; batch shapes must be
    equal.

    Parameters
    ----------
    cupy : module
    source : str
        CUDA with kernels NAME_f32 and NAME_f64.
    name : str
    inputs : sequence of (name, shape)
        Names, and shapes of one sample.
    outputs : sequence of shape
        Shapes of one sample. One output is returned as an array, several as a tuple.
    shared : collection of str
        Names of inputs that are one sample for the whole batch.
    """

    def __init__(
        self,
        cupy: Any,
        source: str,
        name: str,
        inputs: Sequence[tuple[str, Shape]],
        outputs: Sequence[Shape],
        shared: Sequence[str] = (),
    ) -> None:
        self._cupy = cupy
        self._module = cupy.RawModule(code=source)
        self.name = name
        self.inputs = [(called, tuple(shape)) for called, shape in inputs]
        self.outputs = [tuple(shape) for shape in outputs]
        self._shared = frozenset(shared)

    def __call__(self, *arrays: Any, out: Any = None) -> Any:
        """Return the results for a batch; `out` is a device array to write into, or one for each of several results."""
        given, back = self._convert_inputs(arrays)
        batch = self._batch(given)
        dtype = given[0].dtype
        if out is None:
            results = [self._cupy.empty(batch + shape, dtype) for shape in self.outputs]
        else:
            results = self._prepare_outputs(out if isinstance(out, (list, tuple)) else [out], batch, dtype)
        count = prod(batch)
        if count:
            kernel = self._module.get_function(f"{self.name}_{SUFFIXES[dtype.name]}")
            kernel(
                ((count + THREADS_PER_BLOCK - 1) // THREADS_PER_BLOCK,),
                (THREADS_PER_BLOCK,),
                (*given, *results, np.int64(count)),
            )
        if out is not None:
            return out
        converted = [back(result) for result in results]
        return converted[0] if len(converted) == 1 else tuple(converted)

    def _convert_inputs(self, arrays: Sequence[Any]) -> tuple[list[Any], Callable[[Any], Any]]:
        """Return the arrays as contiguous CuPy arrays of one precision, and the function that converts results back."""
        if len(arrays) != len(self.inputs):
            wanted = ", ".join(name for name, _ in self.inputs)
            raise InputError(
                f"{len(arrays)} arrays given, but {self.name} takes: {wanted}", subject=self.name, code=Code.WRONG_SHAPE
            )
        on_device = [to_device(self._cupy, array) for array in arrays]
        dtype = on_device[0].dtype
        if dtype.name not in SUFFIXES:
            raise InputError(
                f"{dtype} arrays given; a GPU computes in float32 or float64", code=Code.WRONG_TYPE, subject=dtype
            )
        contiguous = [self._cupy.ascontiguousarray(array, dtype=dtype) for array in on_device]
        return contiguous, output_converter(arrays[0])

    def _prepare_outputs(self, out: Sequence[Any], batch: Shape, dtype: Any) -> list[Any]:
        if len(out) != len(self.outputs):
            raise InputError(
                f"out: {len(out)} arrays given, but {self.name} has {len(self.outputs)} results",
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

    def _batch(self, arrays: Sequence[Any]) -> Shape:
        batches = set()
        for (name, shape), array in zip(self.inputs, arrays, strict=True):
            split = array.ndim - len(shape)
            if split < 0 or array.shape[split:] != shape:
                raise InputError(
                    f"{name}: has shape {array.shape}, but (..., {', '.join(map(str, shape))}) is needed",
                    code=Code.WRONG_SHAPE,
                    subject=name,
                )
            if name in self._shared and split:
                raise InputError(
                    f"{name}: has shape {array.shape}, but one {shape} for all samples is needed",
                    code=Code.WRONG_SHAPE,
                    subject=name,
                )
            if name not in self._shared:
                batches.add(array.shape[:split])
        if len(batches) > 1:
            raise InputError(f"batch shapes differ: {sorted(batches)}", code=Code.WRONG_SHAPE, subject=self.name)
        return batches.pop() if batches else ()


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
    """Return the function that converts a CuPy array to the framework of `array`."""
    framework = type(array).__module__.partition(".")[0]
    if framework == "torch":
        import torch

        return torch.from_dlpack  # type: ignore[no-any-return]
    if framework in ("jax", "jaxlib"):
        import jax

        return jax.dlpack.from_dlpack  # type: ignore[no-any-return]
    return lambda result: result
