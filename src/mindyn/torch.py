"""A model's equations as functions of PyTorch tensors (extra `torch`), with derivatives by every argument.

    dynamics = mindyn.torch.differentiable(mindyn.compile_model(robot, parameters="input"))
    tau = dynamics.inverse_dynamics(q, qd, qdd, phi)

Tensors are (..., n), float64 or float32, on the CPU or, with CuPy, on a GPU; batch dimensions broadcast, those of the
parameters too.
"""

from __future__ import annotations

from typing import Any

from mindyn.errors import InputError, MissingExtraError
from mindyn.kernels.differentiable import DifferentiableFunction, DifferentiableModel
from mindyn.kernels.model import Model

try:
    import torch
except ImportError as error:
    raise MissingExtraError("mindyn.torch needs PyTorch", hint="pip install 'mindyn[torch]'") from error


class TorchModel(DifferentiableModel):
    """Equations of a model on tensors; the arguments are those of the `Model`'s own functions.

    Works under `torch.func.vmap`, `grad` and `jacrev`; derivatives of any order, by reverse mode. `torch.compile`
    leaves its graph for a call.
    """

    def __call__(self, name: str, *tensors: Any, link: str | None = None) -> Any:
        """Any equation of the model by name."""
        op = self._ops[name, link]
        given = [one if isinstance(one, torch.Tensor) else torch.as_tensor(one) for one in tensors]
        for one in given:
            if one.device.type not in ("cpu", "cuda") or not one.dtype.is_floating_point:
                raise InputError(
                    f"a tensor is {one.dtype} on {one.device}; mindyn.torch computes in float64 or float32, "
                    "on the CPU or a CUDA device"
                )
            if one.device != given[0].device:
                raise InputError(f"tensors are on {given[0].device} and {one.device}; one device is needed")
        dtype = torch.float32 if all(one.dtype == torch.float32 for one in given) else torch.float64
        closing = self._ops.loop_solver(given[0].shape[-1]) if given and given[0].dim() else None
        if closing is not None:
            given[0] = _apply(closing, given[0])[0]
        shapes = op.align_shapes([tuple(one.shape) for one in given])
        return _apply(op, *(one.to(dtype).reshape(shape) for one, shape in zip(given, shapes, strict=True)))[0]


def make_differentiable(model: Model) -> TorchModel:
    """The equations of a model as functions of tensors that PyTorch differentiates."""
    return TorchModel(model)


class _Apply(torch.autograd.Function):  # type: ignore[misc]  # PyTorch may be absent
    @staticmethod
    def forward(op: DifferentiableFunction, *tensors: Any) -> tuple[Any, ...]:
        if tensors[0].is_cuda:
            return op.run_on_device(*tensors)
        results = op.run(*(one.detach().resolve_neg().numpy() for one in tensors))
        return tuple(torch.from_numpy(result) for result in results)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:  # noqa: ARG004 - PyTorch's signature
        ctx.op, *tensors = inputs
        ctx.save_for_backward(*tensors)

    @staticmethod
    def backward(ctx: Any, *along: Any) -> tuple[Any, ...]:
        tensors = ctx.saved_tensors
        found = _apply(ctx.op.adjoint, *tensors, *along)
        return (None, *(one.sum_to_size(tensor.shape) for one, tensor in zip(found, tensors, strict=True)))

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], op: DifferentiableFunction, *tensors: Any) -> tuple[Any, Any]:  # noqa: ARG004
        """The mapped dimension in front of the batch: tensors have equally many, so that they broadcast."""
        moved = [
            one.unsqueeze(0) if dim is None else one.movedim(dim, 0)
            for one, dim in zip(tensors, in_dims[1:], strict=True)
        ]
        results = _apply(op, *moved)
        return results, (0,) * len(results)


_apply: Any = _Apply.apply
