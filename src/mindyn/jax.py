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
from mindyn.kernels.differentiable import DifferentiableFunction, DifferentiableModel
from mindyn.kernels.gpu import import_cupy
from mindyn.kernels.model import Model
from mindyn.kernels.xla_call import Work, make_cuda_work, make_handler, make_host_work

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
        closing = self._ops.loop_solver(given[0].shape[-1]) if given and given[0].ndim else None
        if closing is not None:
            given[0] = _build_function(closing)(given[0].astype(dtype))[0]
        shapes = op.align_shapes([one.shape for one in given])
        function = _build_function(op)
        return function(*(one.astype(dtype).reshape(shape) for one, shape in zip(given, shapes, strict=True)))[0]


def make_differentiable(model: Model) -> JaxModel:
    """The equations of a model as functions of arrays that JAX differentiates."""
    return JaxModel(model)


@cache
def _build_function(op: DifferentiableFunction) -> Callable[..., Any]:
    """The function of an `DifferentiableFunction`, on arrays with equally many batch dimensions."""

    @jax.custom_vjp  # type: ignore[untyped-decorator]  # JAX may be absent
    def function(*arrays: Any) -> Any:
        batch = op.batch([one.shape for one in arrays])
        results = tuple(jax.ShapeDtypeStruct(batch + shape, arrays[0].dtype) for shape in op.output_shapes)
        return jax.ffi.ffi_call(_register_target(op), results, vmap_method="expand_dims")(*arrays)

    def forward(*arrays: Any) -> tuple[Any, tuple[Any, ...]]:
        return function(*arrays), arrays

    def backward(arrays: tuple[Any, ...], along: tuple[Any, ...]) -> tuple[Any, ...]:
        found = _build_function(op.adjoint)(*arrays, *along)
        return tuple(_sum_repeated(one, array.shape) for one, array in zip(found, arrays, strict=True))

    function.defvjp(forward, backward)
    return function  # type: ignore[no-any-return]


@cache
def _register_target(op: DifferentiableFunction) -> str:
    """The name under which XLA calls an `DifferentiableFunction`, on the CPU and, where CuPy is there, on a CUDA device."""
    name = f"mindyn_{op.name}_{len(_HANDLERS)}"
    _register_handler(name, "cpu", make_host_work(op.run))
    try:
        cupy = import_cupy()
    except MissingExtraError:
        return name
    _register_handler(name, "CUDA", make_cuda_work(cupy, lambda given, out: op.run_on_device(*given, out=out)))
    return name


def _register_handler(name: str, platform: str, work: Work) -> None:
    made = make_handler(work)
    _HANDLERS.append(made)
    jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(made), platform=platform)


_HANDLERS: list[Any] = []
"""Kept for as long as XLA may call them."""


def _sum_repeated(gradient: Any, shape: tuple[int, ...]) -> Any:
    """Over the dimensions along which the input was repeated."""
    repeated = [k for k, (one, own) in enumerate(zip(gradient.shape, shape, strict=True)) if one != own]
    return gradient.sum(axis=tuple(repeated), keepdims=True) if repeated else gradient
