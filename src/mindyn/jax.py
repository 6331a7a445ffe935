"""A model's equations as functions of JAX arrays (extra `jax`), with derivatives by every argument.

    dynamics = mindyn.jax.differentiable(mindyn.compile_model(robot, parameters="input"))
    tau = jax.jit(dynamics.inverse_dynamics)(q, qd, qdd, phi)

Arrays are (..., n); batch dimensions broadcast, those of the parameters too. float64 where JAX has it
(`jax_enable_x64`), else float32.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from mindyn.errors import MissingExtraError
from mindyn.kernels.differentiable import DifferentiableModel, Op
from mindyn.kernels.gpu import import_cupy
from mindyn.kernels.model import Model
from mindyn.kernels.xla_call import Work, handler, on_cuda, on_host

try:
    import jax
    import jax.numpy as jnp
except ImportError as error:
    raise MissingExtraError("mindyn.jax needs JAX", hint="pip install 'mindyn[jax]'") from error


class JaxModel(DifferentiableModel):
    """Equations of a model on JAX arrays; the arguments are those of the `Model`'s own functions.

    Works under `jit`, `vmap`, `grad` and `jacrev`, and derivatives of any order, by reverse mode (`jvp` and `jacfwd` do
    not apply). XLA calls our kernels on its own memory (`jax.ffi`): those of the CPU, or with CuPy, on a GPU, our CUDA
    in its own stream.
    """

    def __call__(self, name: str, *arrays: Any, link: str | None = None) -> Any:
        """Any equation of the model by name."""
        op = self._ops[name, link]
        given = [jnp.asarray(one) for one in arrays]
        dtype = jnp.result_type(jnp.float32, *given)
        closing = self._ops.closing(given[0].shape[-1]) if given and given[0].ndim else None
        if closing is not None:
            given[0] = _function(closing)(given[0].astype(dtype))[0]
        shapes = op.aligned([one.shape for one in given])
        function = _function(op)
        return function(*(one.astype(dtype).reshape(shape) for one, shape in zip(given, shapes, strict=True)))[0]


def differentiable(model: Model) -> JaxModel:
    """The equations of a model as functions of arrays that JAX differentiates."""
    return JaxModel(model)


@cache
def _function(op: Op) -> Callable[..., Any]:
    """The function of an `Op`, on arrays with equally many batch dimensions."""

    @jax.custom_vjp  # type: ignore[untyped-decorator]  # JAX may be absent
    def function(*arrays: Any) -> Any:
        batch = op.batch([one.shape for one in arrays])
        results = tuple(jax.ShapeDtypeStruct(batch + shape, arrays[0].dtype) for shape in op.output_shapes)
        return jax.ffi.ffi_call(_target(op), results, vmap_method="expand_dims")(*arrays)

    def forward(*arrays: Any) -> tuple[Any, tuple[Any, ...]]:
        return function(*arrays), arrays

    def backward(arrays: tuple[Any, ...], along: tuple[Any, ...]) -> tuple[Any, ...]:
        found = _function(op.adjoint)(*arrays, *along)
        return tuple(_summed(one, array.shape) for one, array in zip(found, arrays, strict=True))

    function.defvjp(forward, backward)
    return function  # type: ignore[no-any-return]


@cache
def _target(op: Op) -> str:
    """The name under which XLA calls an `Op`, on the CPU and, where CuPy is there, on a CUDA device."""
    name = f"mindyn_{op.name}_{len(_HANDLERS)}"
    _register(name, "cpu", on_host(op.run))
    try:
        cupy = import_cupy()
    except MissingExtraError:
        return name
    _register(name, "CUDA", on_cuda(cupy, lambda given, out: op.run_on_device(*given, out=out)))
    return name


def _register(name: str, platform: str, work: Work) -> None:
    made = handler(work)
    _HANDLERS.append(made)
    jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(made), platform=platform)


_HANDLERS: list[Any] = []
"""Kept for as long as XLA may call them."""


def _summed(gradient: Any, shape: tuple[int, ...]) -> Any:
    """Over the dimensions along which the input was repeated."""
    repeated = [k for k, (one, own) in enumerate(zip(gradient.shape, shape, strict=True)) if one != own]
    return gradient.sum(axis=tuple(repeated), keepdims=True) if repeated else gradient
