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
from mindyn.kernels.model import Model

try:
    import jax
    import jax.numpy as jnp
except ImportError as error:
    raise MissingExtraError("mindyn.jax needs JAX", hint="pip install 'mindyn[jax]'") from error


class JaxModel(DifferentiableModel):
    """Equations of a model on JAX arrays; the arguments are those of the `Model`'s own functions.

    Works under `jit`, `vmap`, `grad` and `jacrev`, and derivatives of any order, by reverse mode: kernels are called
    on the host (`jax.pure_callback`), so that `jvp` and `jacfwd` do not apply.
    """

    def __call__(self, name: str, *arrays: Any, link: str | None = None) -> Any:
        """Any equation of the model by name."""
        op = self._ops[name, link]
        given = [jnp.asarray(one) for one in arrays]
        dtype = jnp.result_type(jnp.float32, *given)
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
        return jax.pure_callback(op.run, results, *arrays, vmap_method="expand_dims")

    def forward(*arrays: Any) -> tuple[Any, tuple[Any, ...]]:
        return function(*arrays), arrays

    def backward(arrays: tuple[Any, ...], along: tuple[Any, ...]) -> tuple[Any, ...]:
        found = _function(op.adjoint)(*arrays, *along)
        return tuple(_summed(one, array.shape) for one, array in zip(found, arrays, strict=True))

    function.defvjp(forward, backward)
    return function  # type: ignore[no-any-return]


def _summed(gradient: Any, shape: tuple[int, ...]) -> Any:
    """Over the dimensions along which the input was repeated."""
    repeated = [k for k, (one, own) in enumerate(zip(gradient.shape, shape, strict=True)) if one != own]
    return gradient.sum(axis=tuple(repeated), keepdims=True) if repeated else gradient
