"""Kernels on a GPU. Inputs are device arrays (..., n) of CuPy, PyTorch or JAX; outputs are arrays of the same type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mindyn.foundation.errors import MissingExtraError
from mindyn.foundation.hints import install_command
from mindyn.kernels.cuda_source import cuda_source
from mindyn.kernels.device import DeviceFunction
from mindyn.kernels.source_text import SourceFunction

if TYPE_CHECKING:
    from mindyn.kernels.model import Model


def import_cupy() -> Any:
    """Import CuPy, or raise an error that says how to install it."""
    try:
        import cupy
    except ImportError as error:
        raise MissingExtraError(
            "running on a GPU needs CuPy and a CUDA device",
            hint=f"{install_command('gpu')}; or export with model.write_cuda(path) and compile it with nvcc",
            subject="cupy",
        ) from error
    return cupy


def load_device_function(function: SourceFunction, title: str) -> DeviceFunction:
    """Return a function on device arrays, which CuPy compiles at the first call."""
    inputs = [(argument.name, argument.shape) for argument in function.program.inputs]
    outputs = [argument.shape for argument in function.program.outputs]
    return DeviceFunction(
        import_cupy(), lambda shared: cuda_source([function], title, sorted(shared)), function.name, inputs, outputs
    )


class GpuModel:
    """The equations of a model on a GPU: `gpu("inverse_dynamics", q, qd, qdd)` on device arrays (..., n).

    The model accepts CuPy arrays and, through DLPack without copies, PyTorch tensors and JAX arrays; results have the
    type of the inputs. float32 and float64 are computed in their own precision. Batch dimensions broadcast.
    """

    def __init__(self, model: Model) -> None:
        import_cupy()
        self._model = model
        self._loaded: dict[str, DeviceFunction] = {}

    def __call__(self, name: str, *arrays: Any, out: Any = None) -> Any:
        """Evaluate an equation for a batch; `out` is a device array to write into."""
        return self.function(name)(*arrays, out=out)

    def function(self, name: str) -> DeviceFunction:
        """Return the equation with this name; CuPy compiles it at the first use."""
        if name not in self._loaded:
            (described,) = self._model.describe_functions([name])
            self._loaded[name] = load_device_function(described, self._model.title())
        return self._loaded[name]
