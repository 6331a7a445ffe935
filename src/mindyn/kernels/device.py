"""`DeviceFunction`: one function of a generated CUDA file on arrays of a GPU that CuPy, PyTorch or JAX hold.

Needs NumPy and CuPy alone. Arrays are taken through DLPack, without copies, and results are of the first one's kind.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, Final

import numpy as np

try:
    from mindyn.errors import InputError
except ImportError:  # the file alone, on a machine without mindyn

    class InputError(ValueError):  # type: ignore[no-redef]
        """Arguments that do not fit."""


THREADS_PER_BLOCK: Final = 128
"""Threads of a block; a launch takes ceil(count / THREADS) blocks."""
SUFFIXES: Final = {"float32": "f32", "float64": "f64"}
Shape = tuple[int, ...]


class DeviceFunction:
    """`function(q, qd, qdd)` on arrays (..., n) of one GPU, in the precision of the first; batches are equal.

    source   CUDA with kernels NAME_f32 and NAME_f64
    inputs   names and shapes of one sample
    outputs  shapes of one sample; one comes as an array, several as a tuple
    shared   names of inputs that are one sample for the whole batch
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
        """The results for a batch; `out` is an array of the device to write into, one for each of several results."""
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
        found = [back(one) for one in results]
        return found[0] if len(found) == 1 else tuple(found)

    def _convert_inputs(self, arrays: Sequence[Any]) -> tuple[list[Any], Callable[[Any], Any]]:
        """The arrays as CuPy sees them, contiguous and of one precision; and how results go back."""
        if len(arrays) != len(self.inputs):
            wanted = ", ".join(name for name, _ in self.inputs)
            raise InputError(f"{len(arrays)} arrays given, but {self.name} takes: {wanted}")
        seen = [to_device(self._cupy, one) for one in arrays]
        dtype = seen[0].dtype
        if dtype.name not in SUFFIXES:
            raise InputError(f"{dtype} arrays given; a GPU computes in float32 or float64")
        taken = [self._cupy.ascontiguousarray(one, dtype=dtype) for one in seen]
        return taken, output_converter(arrays[0])

    def _prepare_outputs(self, out: Sequence[Any], batch: Shape, dtype: Any) -> list[Any]:
        if len(out) != len(self.outputs):
            raise InputError(f"{len(out)} arrays to write into, but {self.name} has {len(self.outputs)} results")
        seen = [to_device(self._cupy, one) for one in out]
        for one, own in zip(seen, self.outputs, strict=True):
            if one.dtype != dtype or one.shape != batch + own or not one.flags.c_contiguous:
                raise InputError(f"out must be a contiguous {dtype} array of shape {batch + own}")
        return seen

    def _batch(self, arrays: Sequence[Any]) -> Shape:
        batches = set()
        for (name, own), array in zip(self.inputs, arrays, strict=True):
            split = array.ndim - len(own)
            if split < 0 or array.shape[split:] != own:
                raise InputError(f"{name}: has shape {array.shape}, but (..., {', '.join(map(str, own))}) is needed")
            if name in self._shared and split:
                raise InputError(f"{name}: has shape {array.shape}, but one {own} for all samples is needed")
            if name not in self._shared:
                batches.add(array.shape[:split])
        if len(batches) > 1:
            raise InputError(f"batch shapes differ: {sorted(batches)}")
        return batches.pop() if batches else ()


def to_device(cupy: Any, array: Any) -> Any:
    """An array as CuPy's, without a copy where it is on the GPU; numbers of the host are copied there."""
    if isinstance(array, cupy.ndarray) or not hasattr(array, "__dlpack__") or isinstance(array, np.ndarray):
        return cupy.asarray(array)
    kind, _ = array.__dlpack_device__()
    if kind != 2:  # DLPack's number of CUDA memory
        raise InputError(
            f"an array of {type(array).__module__.partition('.')[0]} is not in the memory of a CUDA device"
        )
    return cupy.from_dlpack(array.detach() if hasattr(array, "detach") else array)


def output_converter(array: Any) -> Callable[[Any], Any]:
    """How a CuPy array becomes one of the framework that `array` is of."""
    framework = type(array).__module__.partition(".")[0]
    if framework == "torch":
        import torch

        return torch.from_dlpack  # type: ignore[no-any-return]
    if framework in ("jax", "jaxlib"):
        import jax

        return jax.dlpack.from_dlpack  # type: ignore[no-any-return]
    return lambda found: found
