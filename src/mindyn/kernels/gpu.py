"""Kernels on a GPU: arrays (..., n) of CuPy, PyTorch or JAX on the device in, arrays of the same kind out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mindyn.errors import MissingExtraError
from mindyn.kernels.cuda_source import cuda_source
from mindyn.kernels.device import DeviceFunction

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


def require_cuda_device() -> Any:
    """CuPy with a device that it can compute on; an error that says which of them is missing."""
    cupy = import_cupy()
    try:
        found = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise MissingExtraError(f"CuPy finds no CUDA device: {error}", hint="look at nvidia-smi") from error
    if not found:
        raise MissingExtraError("CuPy finds no CUDA device", hint="look at nvidia-smi")
    return cupy


class GpuModel:
    """The equations of a model on a GPU: `gpu("inverse_dynamics", q, qd, qdd)` on arrays (..., n) of the device.

    CuPy arrays, and tensors and arrays of PyTorch and JAX through DLPack, without copies; results are of the same kind.
    float32 and float64 are computed in their own precision. Batch dimensions must be equal.
    """

    def __init__(self, model: Model) -> None:
        self._cupy = import_cupy()
        self._model = model
        self._loaded: dict[str, DeviceFunction] = {}

    def __call__(self, name: str, *arrays: Any, out: Any = None) -> Any:
        """The equation for a batch; `out` is an array of the device to write into."""
        return self.function(name)(*arrays, out=out)

    def function(self, name: str) -> DeviceFunction:
        """The equation of a name, compiled by CuPy when first asked for."""
        if name not in self._loaded:
            (described,) = self._model.describe_functions([name])
            source = cuda_source([described], self._model.title(), self._model.shared)
            program, shared = described.program, self._model.shared
            inputs = [(one.name, one.shape) for one in program.inputs]
            outputs = [one.shape for one in program.outputs]
            self._loaded[name] = DeviceFunction(self._cupy, source, name, inputs, outputs, shared)
        return self._loaded[name]
