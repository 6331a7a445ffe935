"""Evaluate a model's equations on JAX arrays (extra `jax`), with derivatives with respect to every argument.

    dynamics = mindyn.kernels.jax.make_differentiable(mindyn.compile_model(robot, parameters="input"))
    tau = jax.jit(dynamics.inverse_dynamics)(q, qd, qdd, phi)

Arrays are (..., n); batch dimensions broadcast, including those of the parameters. Numbers are float64 if it is enabled
in JAX (`jax_enable_x64`), and float32 otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from mindyn.foundation.errors import MissingExtraError
from mindyn.foundation.hints import install_command
from mindyn.kernels.differentiable import DifferentiableFunction, DifferentiableModel
from mindyn.kernels.gpu import import_cupy
from mindyn.kernels.model import Model
from mindyn.kernels.xla_call import Work, make_cuda_work, make_handler, make_host_work

try:
    import jax
    import jax.numpy as jnp
except ImportError as error:
    raise MissingExtraError("mindyn.kernels.jax needs JAX", hint=install_command("jax"), subject="jax") from error


class JaxModel(DifferentiableModel):
    """Equations of a model on JAX arrays; the arguments are those of the functions of `Model`.

    `jit`, `vmap`, `grad`, `jacrev` and derivatives of any order work, in reverse mode (`jvp` and `jacfwd` are not
    supported). XLA calls mindyn's kernels on its own memory (`jax.ffi`): the CPU kernels, or with CuPy the CUDA kernels
    in the stream of XLA.
    """

    def _convert(self, arrays: Sequence[Any]) -> list[Any]:
        inputs = [jnp.asarray(array) for array in arrays]
        dtype = jnp.result_type(jnp.float32, *inputs)
        return [array.astype(dtype) for array in inputs]

    def _apply(self, op: DifferentiableFunction, *arrays: Any) -> Any:
        return _build_function(op)(*arrays)


def make_differentiable(model: Model) -> JaxModel:
    """Convert the equations of a model to functions that JAX can differentiate.

    Parameters
    ----------
    model : Model
        Compiled model; with ``parameters="input"`` the parameters are an argument too.

    Returns
    -------
    JaxModel
        Functions of the same names and arguments as those of `model`.
    """
    return JaxModel(model)


@cache
def _build_function(op: DifferentiableFunction) -> Callable[..., Any]:
    """Build the JAX function of an `DifferentiableFunction` for arrays with the same number of batch dimensions."""

    @jax.custom_vjp  # type: ignore[untyped-decorator]  # JAX may be absent
    def function(*arrays: Any) -> Any:
        batch = op.batch([array.shape for array in arrays])
        results = tuple(jax.ShapeDtypeStruct(batch + shape, arrays[0].dtype) for shape in op.output_shapes)
        return jax.ffi.ffi_call(_register_target(op), results, vmap_method="expand_dims")(*arrays)

    def forward(*arrays: Any) -> tuple[Any, tuple[Any, ...]]:
        return function(*arrays), arrays

    def backward(arrays: tuple[Any, ...], along: tuple[Any, ...]) -> tuple[Any, ...]:
        gradients = _build_function(op.adjoint)(*arrays, *along)
        return tuple(_sum_repeated(gradient, array.shape) for gradient, array in zip(gradients, arrays, strict=True))

    function.defvjp(forward, backward)
    return function  # type: ignore[no-any-return]


@cache
def _register_target(op: DifferentiableFunction) -> str:
    """Register a `DifferentiableFunction` with XLA for the CPU, and for CUDA if CuPy is installed; return its name."""
    name = f"mindyn_{op.name}_{len(_HANDLERS)}"
    _register_handler(name, "cpu", make_host_work(op.run))
    try:
        cupy = import_cupy()
    except MissingExtraError:
        return name
    _register_handler(name, "CUDA", make_cuda_work(cupy, lambda given, out: op.run_on_device(*given, out=out)))
    return name


def _register_handler(name: str, platform: str, work: Work) -> None:
    _HANDLERS.append(make_handler(work))
    jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(_HANDLERS[-1]), platform=platform)


_HANDLERS: list[Any] = []
"""Handlers, which must live as long as XLA may call them."""


def _sum_repeated(gradient: Any, shape: tuple[int, ...]) -> Any:
    """Sum a gradient over the dimensions along which the input was broadcast."""
    sizes = zip(gradient.shape, shape, strict=True)
    repeated = [k for k, (broadcast_size, size) in enumerate(sizes) if broadcast_size != size]
    return gradient.sum(axis=tuple(repeated), keepdims=True) if repeated else gradient
