"""Equations and their gradients of any order as kernels, for frameworks with automatic differentiation.

The adjoint of y = f(x) is a function of x and V that returns the gradients of <V, y> with respect to each x. The
adjoint is a `DifferentiableFunction` itself, so that higher derivatives need no further code. Parameters (phi, drive
parameters, beta) are inputs like q: one for all samples, or one for each sample.

Equations of robots with loops take the positions of all joints, as their kernels do, and correct the dependent
positions by Newton steps. Derivatives are therefore those of the closed motion with respect to the primary joints;
derivatives with respect to the dependent joints are zero. Samples whose loops do not close are NaN. `LoopSolver`
computes all positions from the primary ones.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import casadi
import numpy as np
from numpy.typing import NDArray

from mindyn.equations.catalogue import EQUATIONS, Function
from mindyn.equations.closed_motion import CLOSURE, MAX_CLOSURE_ERROR, MIN_REGULARITY, is_affine
from mindyn.equations.loop_closure import home_closure
from mindyn.foundation.errors import Code, InputError, unknown_name_error
from mindyn.kernels.closed_kernel import MAX_CLOSURE_ERROR_SINGLE
from mindyn.kernels.device import DeviceFunction
from mindyn.kernels.gpu import load_device_function
from mindyn.kernels.kernel import Kernel
from mindyn.kernels.model import MATRICES, Model
from mindyn.kernels.numerics.arrays import batch_shape, common_batch, require_arrays
from mindyn.kernels.source_text import SourceFunction
from mindyn.kernels.tracing import trace
from mindyn.robots.robot import Robot

Shape = tuple[int, ...]


class DifferentiableFunction:
    """A function on batches (..., *shape) of NumPy arrays, with its adjoint. If an input is NaN, the output is NaN."""

    def __init__(
        self,
        function: Function,
        matrices: frozenset[str] = frozenset(MATRICES),
        single: DifferentiableFunction | None = None,
    ) -> None:
        """`single` replaces the function if all inputs have single precision."""
        self.function = function
        self.single = single
        self.matrices = matrices
        self.name: str = function.name()
        self.input_names: list[str] = function.name_in()
        self._kernels: dict[np.dtype[Any], Kernel] = {}
        self._on_device: DeviceFunction | None = None

    @cached_property
    def input_shapes(self) -> tuple[Shape, ...]:
        """Shape of one sample of each input."""
        return self._kernel(np.dtype(np.float64)).input_shapes

    @cached_property
    def output_shapes(self) -> tuple[Shape, ...]:
        """Shape of one sample of each output."""
        return self._kernel(np.dtype(np.float64)).output_shapes

    @cached_property
    def adjoint(self) -> DifferentiableFunction:
        """Function of the inputs and of one V_k for each output.

        It returns the gradients of sum_k V_k * output_k with respect to each input.
        """
        f = self.function
        symbols = [casadi.SX.sym(name, *f.size_in(k)) for k, name in enumerate(self.input_names)]
        outputs = f.call(symbols)
        level = self.name.count("_adjoint")
        V = [casadi.SX.sym(f"V{level}_{name}", *f.size_out(k)) for k, name in enumerate(f.name_out())]
        total = sum(casadi.sum1(casadi.vec(v * out)) for v, out in zip(V, outputs, strict=True))
        gradients = [casadi.cse(casadi.densify(casadi.gradient(total, symbol))) for symbol in symbols]
        names = [f"gradient{level}_{name}" for name in self.input_names]
        matrices = set(self.matrices) | {f"V{level}_{name}" for name in f.name_out() if name in self.matrices}
        matrices |= {f"gradient{level}_{name}" for name in self.input_names if name in self.matrices}
        inputs = [*self.input_names, *(f"V{level}_{name}" for name in f.name_out())]
        adjoint = casadi.Function(f"{self.name}_adjoint", [*symbols, *V], gradients, inputs, names)
        return DifferentiableFunction(
            adjoint, frozenset(matrices), None if self.single is None else self.single.adjoint
        )

    def run(self, *arrays: Any) -> tuple[NDArray[Any], ...]:
        """Return the outputs for arrays whose batch dimensions broadcast; the outputs are float32 if all inputs are."""
        given = [np.asarray(array) for array in arrays]
        single = all(array.dtype == np.float32 for array in given)
        if single and self.single is not None:
            return self.single.run(*given)
        out = self._kernel(np.dtype(np.float32 if single else np.float64))(*given)
        return (out,) if len(self.output_shapes) == 1 else tuple(out)

    def run_on_device(self, *arrays: Any, out: Sequence[Any] | None = None) -> tuple[Any, ...]:
        """Return the outputs for GPU arrays of one precision, exchanged through DLPack; `out` holds device arrays to
        write into.

        An input that is one sample for the whole batch is not expanded.
        """
        if self.single is not None and all("float32" in str(array.dtype) for array in arrays):
            return self.single.run_on_device(*arrays, out=out)
        if self._on_device is None:
            self._on_device = load_device_function(self.describe(), self.name)
        results = self._on_device(*arrays, out=out)
        return tuple(results) if isinstance(results, (list, tuple)) else (results,)

    def describe(self) -> SourceFunction:
        """Return the function for source code."""
        return SourceFunction(trace(self.function, self._own_matrices), self.name, "")

    def batch(self, shapes: list[Shape]) -> Shape:
        """Return the batch shape that the inputs broadcast to; raise an error that names a wrong input."""
        require_arrays(shapes, self.input_names, self.name)
        inputs = zip(self.input_names, shapes, self.input_shapes, strict=True)
        batches = [batch_shape(tuple(shape), sample_shape, name) for name, shape, sample_shape in inputs]
        return common_batch(batches, self.input_names)

    def align_shapes(self, shapes: list[Shape]) -> list[Shape]:
        """Return the shapes with leading ones, so that all inputs have the same number of batch dimensions."""
        count = len(self.batch(shapes))
        return [
            (1,) * (count - len(shape) + len(sample_shape)) + tuple(shape)
            for shape, sample_shape in zip(shapes, self.input_shapes, strict=True)
        ]

    @property
    def _own_matrices(self) -> list[str]:
        return [name for name in (*self.input_names, *self.function.name_out()) if name in self.matrices]

    def _kernel(self, dtype: np.dtype[Any]) -> Kernel:
        if dtype not in self._kernels:
            self._kernels[dtype] = Kernel(self.function, dtype=dtype, matrices=self._own_matrices, check_finite=False)
        return self._kernels[dtype]


class LoopSolver(DifferentiableFunction):
    """Compute the positions of all joints from those of the primary joints, each sample on a path from home.

    The dependent positions are starting values for the equations, and constants in derivatives. Dependent positions are
    NaN if the loops do not close.
    """

    def __init__(self, robot: Robot) -> None:
        self.robot = robot
        self._closure = home_closure(robot)
        p = casadi.SX.sym("q", len(self._closure.primary))
        q = casadi.SX(len(robot.joints), 1)
        q[list(self._closure.primary)] = p
        super().__init__(casadi.Function("closing", [p], [casadi.densify(q)], ["q"], ["positions"]))

    def run(self, *arrays: Any) -> tuple[NDArray[Any], ...]:
        """Return the positions (..., n) of all joints from the primary positions (..., k)."""
        p = np.asarray(arrays[0])
        rows = np.array(p, dtype=np.float64).reshape(-1, p.shape[-1])
        known = np.isfinite(rows).all(axis=1)
        q = np.full((len(rows), len(self.robot.joints)), np.nan)
        if known.any():
            positions, reached = self._closure.find_reachable(rows[known])
            q[known] = np.where(reached[:, None], positions, np.nan)
        return (q.reshape(*p.shape[:-1], len(self.robot.joints)).astype(p.dtype),)

    def run_on_device(self, *arrays: Any, out: Sequence[Any] | None = None) -> tuple[Any, ...]:  # noqa: ARG002 - as an `DifferentiableFunction`
        """Raise an error: loops are solved on the CPU only."""
        raise InputError(
            f"the loops of robot {self.robot.name!r} can be solved on the CPU only",
            hint="on a GPU pass q of all joints, such as tree_state(robot, p).q",
            code=Code.UNSUPPORTED,
            subject=self.robot.name,
        )


class DifferentiableFunctions:
    """The equations of a model as `DifferentiableFunction`s by name, each created when first used."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self._ops: dict[tuple[str, str | None], DifferentiableFunction] = {}
        self._closing: LoopSolver | None = None

    def __getitem__(self, key: tuple[str, str | None]) -> DifferentiableFunction:
        """Return the equation of a name, or of a pair (name, link)."""
        name, link = key
        if name not in EQUATIONS:
            raise unknown_name_error("equation", name, EQUATIONS)
        if key not in self._ops:
            function = self.model.casadi(name, link)
            if CLOSURE in function.name_out():
                self._ops[key] = DifferentiableFunction(
                    _mask_open_loops(function, MAX_CLOSURE_ERROR),
                    single=DifferentiableFunction(_mask_open_loops(function, MAX_CLOSURE_ERROR_SINGLE)),
                )
            else:
                self._ops[key] = DifferentiableFunction(function)
        return self._ops[key]

    def loop_solver(self, joints: int) -> LoopSolver | None:
        """Return the solver that extends primary positions to all `joints` positions; None if the equations need no
        extension.
        """
        robot = self.model.robot
        if is_affine(robot) or joints != robot.joint_count:
            return None
        if self._closing is None:
            self._closing = LoopSolver(robot)
        return self._closing


def _mask_open_loops(function: Function, is_still_closed: float) -> Function:
    """Return the function's first output, NaN with all its derivatives where the loops are open."""
    inputs = [casadi.SX.sym(name, *function.size_in(k)) for k, name in enumerate(function.name_in())]
    result, closure = function.call(inputs)
    good = casadi.logic_and(closure[0] < is_still_closed, closure[1] > MIN_REGULARITY)
    flagged = casadi.densify(result) * casadi.sqrt(2 * good - 1)
    return casadi.Function(function.name(), inputs, [flagged], function.name_in(), function.name_out()[:1])


class DifferentiableModel(ABC):
    """Equations of a model on the arrays of a framework, with the arguments of the functions of `Model`.

    For a robot with loops, q holds the primary joints or all joints; samples whose loops do not close are NaN.
    """

    def __init__(self, model: Model) -> None:
        self._ops = DifferentiableFunctions(model)
        self.model = model

    def __call__(self, name: str, *arrays: Any, link: str | None = None) -> Any:
        """Evaluate an equation of the model.

        Parameters
        ----------
        name : str
            Name of the equation, such as "inverse_dynamics".
        *arrays : array_like, shape (..., n)
            Arguments of the equation; batch dimensions broadcast.
        link : str, optional
            Link of the equation, if the equation needs one.

        Returns
        -------
        array
            Value of the equation, in the framework's own type.

        Raises
        ------
        InputError
            If an array has a wrong shape, or a type or device that kernels do not compute on.
        """
        op, inputs = self._ops[name, link], self._convert(arrays)
        closing = self._ops.loop_solver(inputs[0].shape[-1]) if inputs and inputs[0].ndim else None
        if closing is not None:
            inputs[0] = self._apply(closing, inputs[0])[0]
        shapes = op.align_shapes([tuple(array.shape) for array in inputs])
        return self._apply(op, *(array.reshape(shape) for array, shape in zip(inputs, shapes, strict=True)))[0]

    @abstractmethod
    def _convert(self, arrays: Sequence[Any]) -> list[Any]:
        """Return the arguments as arrays of the framework, all of one precision."""

    @abstractmethod
    def _apply(self, op: DifferentiableFunction, *arrays: Any) -> tuple[Any, ...]:
        """Evaluate a function on arrays with the same number of batch dimensions."""

    def inverse_dynamics(self, q: Any, qd: Any, qdd: Any, *given: Any) -> Any:
        """Return tau (..., n) = M(q) qdd + C(q, qd) qd + G(q); `with_drives=True` adds rotors, friction and offsets."""
        return self("inverse_dynamics", q, qd, qdd, *given)

    def forward_dynamics(self, q: Any, qd: Any, tau: Any, *given: Any) -> Any:
        """Return the accelerations qdd (..., n) under torques tau."""
        return self("forward_dynamics", q, qd, tau, *given)

    def regressor(self, q: Any, qd: Any, qdd: Any) -> Any:
        """Return Y (..., n, count) with tau = Y beta."""
        return self("regressor", q, qd, qdd)

    def energy(self, q: Any, qd: Any, *given: Any) -> Any:
        """Return the kinetic and potential energy (..., 2)."""
        return self("energy", q, qd, *given)
