"""Evaluate a model's equations on PyTorch tensors (extra `torch`), with derivatives with respect to every argument.

    dynamics = mindyn.kernels.torch.make_differentiable(mindyn.compile_model(robot, parameters="input"))
    tau = dynamics.inverse_dynamics(q, qd, qdd, phi)

Tensors are (..., n), float64 or float32, on the CPU or, with CuPy, on a GPU; batch dimensions broadcast, including
those of the parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mindyn.foundation.errors import Code, InputError, MissingExtraError
from mindyn.foundation.hints import install_command
from mindyn.kernels.differentiable import DifferentiableFunction, DifferentiableModel
from mindyn.kernels.model import Model

try:
    import torch
except ImportError as error:
    raise MissingExtraError(
        "mindyn.kernels.torch needs PyTorch", hint=install_command("torch"), subject="torch"
    ) from error


class TorchModel(DifferentiableModel):
    """Equations of a model on tensors; the arguments are those of the functions of `Model`.

    `torch.func.vmap`, `grad`, `jacrev` and derivatives of any order work, in reverse mode. `torch.compile` breaks its
    graph at each call.
    """

    def _convert(self, arrays: Sequence[Any]) -> list[Any]:
        tensors = [array if isinstance(array, torch.Tensor) else torch.as_tensor(array) for array in arrays]
        for tensor in tensors:
            if tensor.device.type not in ("cpu", "cuda") or not tensor.dtype.is_floating_point:
                message = (
                    f"tensors must be float64 or float32 on the CPU or CUDA, got {tensor.dtype} on {tensor.device}"
                )
                raise InputError(message, code=Code.WRONG_TYPE, subject=tensor.dtype)
            if tensor.device != tensors[0].device:
                message = f"all tensors must be on the same device, got {tensors[0].device} and {tensor.device}"
                raise InputError(message, code=Code.DISAGREEMENT, subject=tensor.device)
        dtype = torch.float32 if all(tensor.dtype == torch.float32 for tensor in tensors) else torch.float64
        return [tensor.to(dtype) for tensor in tensors]

    def _apply(self, op: DifferentiableFunction, *arrays: Any) -> Any:
        return _apply(op, *arrays)


def make_differentiable(model: Model) -> TorchModel:
    """Convert the equations of a model to functions that PyTorch can differentiate.

    Parameters
    ----------
    model : Model
        Compiled model; with ``parameters="input"`` the parameters are an argument too.

    Returns
    -------
    TorchModel
        Functions of the same names and arguments as those of `model`.
    """
    return TorchModel(model)


class _Apply(torch.autograd.Function):  # type: ignore[misc]  # PyTorch may be absent
    @staticmethod
    def forward(op: DifferentiableFunction, *tensors: Any) -> tuple[Any, ...]:
        if tensors[0].is_cuda:
            return op.run_on_device(*tensors)
        results = op.run(*(tensor.detach().resolve_neg().numpy() for tensor in tensors))
        return tuple(torch.from_numpy(result) for result in results)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:  # noqa: ARG004 - PyTorch's signature
        ctx.op, *tensors = inputs
        ctx.save_for_backward(*tensors)

    @staticmethod
    def backward(ctx: Any, *along: Any) -> tuple[Any, ...]:
        tensors = ctx.saved_tensors
        gradients = _apply(ctx.op.adjoint, *tensors, *along)
        pairs = zip(gradients, tensors, strict=True)
        return (None, *(gradient.sum_to_size(tensor.shape) for gradient, tensor in pairs))

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], op: DifferentiableFunction, *tensors: Any) -> tuple[Any, Any]:  # noqa: ARG004
        """Move the mapped dimension to the front of the batch, so that all tensors broadcast."""
        moved = [
            tensor.unsqueeze(0) if dim is None else tensor.movedim(dim, 0)
            for tensor, dim in zip(tensors, in_dims[1:], strict=True)
        ]
        results = _apply(op, *moved)
        return results, (0,) * len(results)


_apply: Any = _Apply.apply
