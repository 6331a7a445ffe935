"""A model's equations as functions of PyTorch tensors (extra `torch`), with derivatives by every argument.

    dynamics = mindyn.torch.differentiable(mindyn.compile_model(robot, parameters="input"))
    tau = dynamics.inverse_dynamics(q, qd, qdd, phi)

Tensors are (..., n) on the CPU, float64 or float32; batch dimensions broadcast, those of the parameters too.
"""

from __future__ import annotations

from typing import Any

from mindyn.errors import InputError, MissingExtraError
from mindyn.kernels.differentiable import Op, Ops
from mindyn.kernels.model import Model

try:
    import torch
except ImportError as error:
    raise MissingExtraError("mindyn.torch needs PyTorch", hint="pip install 'mindyn[torch]'") from error


class TorchModel:
    """Equations of a model on tensors; the arguments are those of the `Model`'s own functions.

    Works under `torch.func.vmap`, `grad` and `jacrev`; derivatives of any order, by reverse mode. `torch.compile`
    leaves its graph for a call.
    """

    def __init__(self, model: Model) -> None:
        self._ops = Ops(model)
        self.model = model

    def inverse_dynamics(self, q: Any, qd: Any, qdd: Any, *given: Any) -> Any:
        """tau (..., n) = M(q) qdd + C(q, qd) qd + G(q); with drives, with rotors, friction and offsets."""
        return self("inverse_dynamics", q, qd, qdd, *given)

    def forward_dynamics(self, q: Any, qd: Any, tau: Any, *given: Any) -> Any:
        """qdd (..., n) under torques tau."""
        return self("forward_dynamics", q, qd, tau, *given)

    def regressor(self, q: Any, qd: Any, qdd: Any) -> Any:
        """Y (..., n, count) with tau = Y beta."""
        return self("regressor", q, qd, qdd)

    def energy(self, q: Any, qd: Any, *given: Any) -> Any:
        """(..., 2): kinetic and potential energy."""
        return self("energy", q, qd, *given)

    def __call__(self, name: str, *tensors: Any, link: str | None = None) -> Any:
        """Any equation of the model by name."""
        op = self._ops[name, link]
        given = [one if isinstance(one, torch.Tensor) else torch.as_tensor(one) for one in tensors]
        for one in given:
            if one.device.type != "cpu" or not one.dtype.is_floating_point:
                raise InputError(
                    f"a tensor is {one.dtype} on {one.device}; mindyn.torch computes in float64 or float32 on the CPU",
                    hint="model.on_gpu() has the equations, without gradients, on a GPU",
                )
        dtype = torch.float32 if all(one.dtype == torch.float32 for one in given) else torch.float64
        shapes = op.aligned([tuple(one.shape) for one in given])
        return _apply(op, *(one.to(dtype).reshape(shape) for one, shape in zip(given, shapes, strict=True)))[0]


def differentiable(model: Model) -> TorchModel:
    """The equations of a model as functions of tensors that PyTorch differentiates."""
    return TorchModel(model)


class _Apply(torch.autograd.Function):  # type: ignore[misc]  # PyTorch may be absent
    @staticmethod
    def forward(op: Op, *tensors: Any) -> tuple[Any, ...]:
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
    def vmap(info: Any, in_dims: tuple[int | None, ...], op: Op, *tensors: Any) -> tuple[Any, Any]:  # noqa: ARG004
        """The mapped dimension in front of the batch: tensors have equally many, so that they broadcast."""
        moved = [
            one.unsqueeze(0) if dim is None else one.movedim(dim, 0)
            for one, dim in zip(tensors, in_dims[1:], strict=True)
        ]
        results = _apply(op, *moved)
        return results, (0,) * len(results)


_apply: Any = _Apply.apply
