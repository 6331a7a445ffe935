"""`Op`: an equation and its gradients of any order as kernels, for frameworks that differentiate.

The adjoint of y = f(x) is the function of x and V with the gradients of <V, y> by each x. It is an `Op` itself, so
that derivatives of derivatives are there without more. Parameters (phi, drive parameters, beta) are inputs like any
other: one for all samples, or one for each.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from math import prod
from typing import Any

import casadi
import numpy as np
from numpy.typing import NDArray

from mindyn.equations.catalogue import EQUATIONS, Function
from mindyn.errors import InputError, RobotError, unknown_name
from mindyn.kernels.cuda_source import cuda_source
from mindyn.kernels.device import DeviceFunction, kind_of, on_device
from mindyn.kernels.gpu import import_cupy
from mindyn.kernels.kernel import Kernel
from mindyn.kernels.model import MATRICES, Model
from mindyn.kernels.source_text import Described
from mindyn.kernels.tracing import trace

Shape = tuple[int, ...]


class Op:
    """A function on batches (..., *shape) of NumPy arrays, with its adjoint; not-a-number in gives not-a-number out."""

    def __init__(self, function: Function, matrices: frozenset[str] = frozenset(MATRICES)) -> None:
        self.function = function
        self.matrices = matrices
        self.name: str = function.name()
        self.input_names: list[str] = function.name_in()
        self._kernels: dict[np.dtype[Any], Kernel] = {}
        self._on_device: dict[frozenset[str], DeviceFunction] = {}

    @cached_property
    def input_shapes(self) -> tuple[Shape, ...]:
        """Of one sample, for each input."""
        return self._kernel(np.dtype(np.float64)).input_shapes

    @cached_property
    def output_shapes(self) -> tuple[Shape, ...]:
        """Of one sample, for each output."""
        return self._kernel(np.dtype(np.float64)).output_shapes

    @cached_property
    def adjoint(self) -> Op:
        """Gradients of the sum of V_k * output_k by each input; the V follow the inputs."""
        f = self.function
        symbols = [casadi.SX.sym(name, *f.size_in(k)) for k, name in enumerate(self.input_names)]
        outputs = f.call(symbols)
        level = self.name.count("_adjoint")
        V = [casadi.SX.sym(f"V{level}_{name}", *f.size_out(k)) for k, name in enumerate(f.name_out())]
        total = sum(casadi.sum1(casadi.vec(v * out)) for v, out in zip(V, outputs, strict=True))
        found = [casadi.cse(casadi.densify(casadi.gradient(total, symbol))) for symbol in symbols]
        names = [f"gradient{level}_{name}" for name in self.input_names]
        matrices = set(self.matrices) | {f"V{level}_{name}" for name in f.name_out() if name in self.matrices}
        matrices |= {f"gradient{level}_{name}" for name in self.input_names if name in self.matrices}
        inputs = [*self.input_names, *(f"V{level}_{name}" for name in f.name_out())]
        adjoint = casadi.Function(f"{self.name}_adjoint", [*symbols, *V], found, inputs, names)
        return Op(adjoint, frozenset(matrices))

    def run(self, *arrays: Any) -> tuple[NDArray[Any], ...]:
        """The outputs for arrays whose batch dimensions broadcast; in float32 where all inputs are."""
        given = [np.asarray(array) for array in arrays]
        single = all(array.dtype == np.float32 for array in given)
        kernel = self._kernel(np.dtype(np.float32 if single else np.float64))
        batch = self.batch([array.shape for array in given])
        if prod(batch) == 0:
            return tuple(np.zeros(batch + shape, kernel.dtype) for shape in self.output_shapes)
        out = kernel(*given)
        return (out,) if len(self.output_shapes) == 1 else tuple(out)

    def run_on_device(self, *arrays: Any, out: Sequence[Any] | None = None) -> tuple[Any, ...]:
        """The outputs for arrays of one precision on a GPU, through DLPack; inputs that are one for all stay one.

        out  arrays of the device to write into
        """
        cupy = import_cupy()
        batch = self.batch([tuple(array.shape) for array in arrays])
        given, shared = [], set()
        for name, own, array in zip(self.input_names, self.input_shapes, arrays, strict=True):
            seen = on_device(cupy, array)
            if prod(batch) > 1 and prod(seen.shape) == prod(own):
                shared.add(name)
                given.append(seen.reshape(own))
            else:
                given.append(cupy.broadcast_to(seen, batch + own))
        results = self.device_function(frozenset(shared))(*given, out=out)
        if out is not None:
            return tuple(out)
        back = kind_of(arrays[0])
        return tuple(back(one) for one in (results if isinstance(results, tuple) else (results,)))

    def device_function(self, shared: frozenset[str]) -> DeviceFunction:
        """The function in CUDA, with inputs that are one sample for the whole batch."""
        if shared not in self._on_device:
            self._on_device[shared] = DeviceFunction(
                import_cupy(),
                self.device_source(shared),
                self.name,
                list(zip(self.input_names, self.input_shapes, strict=True)),
                self.output_shapes,
                sorted(shared),
            )
        return self._on_device[shared]

    def device_source(self, shared: frozenset[str]) -> str:
        """Its CUDA."""
        program = trace(self.function, self._own_matrices)
        return cuda_source([Described(program, self.name, "")], self.name, sorted(shared))

    def batch(self, shapes: list[Shape]) -> Shape:
        """The batch shape that the inputs broadcast to; an error that names the input that does not fit."""
        if len(shapes) != len(self.input_names):
            raise InputError(f"{len(shapes)} arrays given, but {self.name} takes: {', '.join(self.input_names)}")
        batches = []
        for name, shape, own in zip(self.input_names, shapes, self.input_shapes, strict=True):
            split = len(shape) - len(own)
            if split < 0 or tuple(shape[split:]) != own:
                raise InputError(f"{name}: has shape {tuple(shape)}, but (..., {', '.join(map(str, own))}) is needed")
            batches.append(tuple(shape[:split]))
        try:
            return np.broadcast_shapes(*batches)
        except ValueError as error:
            raise InputError(f"{self.name}: batch dimensions do not broadcast: {batches}") from error

    def aligned(self, shapes: list[Shape]) -> list[Shape]:
        """Shapes with the same number of batch dimensions for every input, ones put in front."""
        count = len(self.batch(shapes))
        return [
            (1,) * (count - len(shape) + len(own)) + tuple(shape)
            for shape, own in zip(shapes, self.input_shapes, strict=True)
        ]

    @property
    def _own_matrices(self) -> list[str]:
        return [name for name in (*self.input_names, *self.function.name_out()) if name in self.matrices]

    def _kernel(self, dtype: np.dtype[Any]) -> Kernel:
        if dtype not in self._kernels:
            self._kernels[dtype] = Kernel(
                self.function,
                dtype=dtype,
                matrices=self._own_matrices,
                check_finite=False,
            )
        return self._kernels[dtype]


class Ops:
    """The equations of a model as `Op`s, by name, each made when first asked for."""

    def __init__(self, model: Model) -> None:
        if model.robot.loops:
            raise RobotError(
                f"robot {model.robot.name!r} has closed loops, whose positions are solved for outside the equations",
                hint="mindyn.loop_dynamics has their derivatives",
            )
        self.model = model
        self._ops: dict[tuple[str, str | None], Op] = {}

    def __getitem__(self, key: tuple[str, str | None]) -> Op:
        """The equation of a name, and of a link where it belongs to one."""
        name, link = key
        if name not in EQUATIONS:
            raise unknown_name("equation", name, EQUATIONS)
        if key not in self._ops:
            self._ops[key] = Op(self.model.casadi(name, link))
        return self._ops[key]


class DifferentiableModel(ABC):
    """Equations of a model on the arrays of a framework; the arguments are those of the `Model`'s own functions."""

    def __init__(self, model: Model) -> None:
        self._ops = Ops(model)
        self.model = model

    @abstractmethod
    def __call__(self, name: str, *arrays: Any, link: str | None = None) -> Any:
        """Any equation of the model by name."""

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
