"""`ClosedKernel`: a kernel of a robot with loops that solves for dependent positions and checks that the loops are
closed.
"""

from __future__ import annotations

from typing import Any, Final

import casadi
import numpy as np

from mindyn.equations.closed_motion import CLOSURE, MAX_CLOSURE_ERROR, MIN_REGULARITY
from mindyn.equations.loop_closure import home_closure
from mindyn.foundation.errors import Code, InputError, RobotError
from mindyn.kernels.kernel import Kernel
from mindyn.kernels.numerics.arrays import Array
from mindyn.robots.robot import Robot

MAX_CLOSURE_ERROR_SINGLE: Final = 1e-4
"""`MAX_CLOSURE_ERROR` in float32."""


class ClosedKernel(Kernel):
    """A kernel whose first input is q and whose last output is the closure of each sample.

    q holds either the positions (..., n) of all joints, with dependent joints near their closed positions, or the
    positions (..., k) of the primary joints alone. In the second case, the kernel solves for the dependent positions: a
    batch (N, k) is solved in order, as a motion; each sample of another shape is solved on a straight path from home.
    Derivatives with respect to q refer to the positions that were given. Samples whose loops stay open or are nearly
    singular raise an error that names the loop; `run_with_flags` marks them instead.
    """

    def __init__(self, robot: Robot, function: casadi.Function, *, not_finite_hint: str = "", **options: Any) -> None:
        cause = not_finite_hint or "a singular configuration of the loops"
        super().__init__(function, not_finite_hint=cause, **options)
        self.robot = robot
        self._primary = robot.joint_count
        self._places = [robot.joint_index(name) for name in robot.primary_names]
        self._last: Array | None = None
        self._by_positions = [output == "gradient_q" or output.endswith("_dq") for output in self._output_names]

    def run(self, arrays: tuple[Any, ...], out: Any = None, threads: int = 1) -> Any:
        """Return the outputs without the closure output, which is checked instead."""
        if self._last is not None and out is None and np.shape(arrays[0]) == (self._primary,):
            # The sample of a control loop is near the previous one, which nearly always closes the loops.
            start = self._last.astype(self.dtype)
            start[self._places] = arrays[0]
            results, closure = self._run_with_closure((start, *arrays[1:]), None, 1)
            if not self._find_failures(closure):
                return results[0] if len(results) == 1 else results
        results, closure = self._run_with_closure(arrays, out, threads)
        wrong = self._find_failures(closure)
        if wrong.any():
            raise self._closure_error(arrays, closure, np.argwhere(wrong)[0])
        return results[0] if len(results) == 1 else results

    def run_with_flags(self, *arrays: Any, threads: int = 1) -> tuple[Any, Array]:
        """Return the outputs, and for each sample (...,) whether its loops stay open or are nearly singular."""
        results, closure = self._run_with_closure(arrays, None, threads)
        return results[0] if len(results) == 1 else results, self._find_failures(closure)

    def _run_with_closure(self, arrays: tuple[Any, ...], out: Any, threads: int) -> tuple[tuple[Any, ...], Array]:
        whole = (self._positions(arrays[0]), *arrays[1:]) if arrays else arrays
        given = None
        if out is not None:
            shape = np.shape(whole[0])[:-1]
            given = (*(out if isinstance(out, tuple) else (out,)), np.empty((*shape, 2), self.dtype))
        results = super().run(whole, given, threads)
        if whole and whole[0] is not arrays[0]:  # derivatives with respect to the given positions
            pairs = zip(results, self._by_positions, strict=True)
            results = tuple(result[..., self._places] if chosen else result for result, chosen in pairs)
        return tuple(results[:-1]), results[-1]

    def _positions(self, q: Any) -> Any:
        array = np.asarray(q)
        if array.ndim == 0 or array.shape[-1] != self._primary:
            return q
        rows = np.array(array, dtype=np.float64).reshape(-1, self._primary)
        if not np.isfinite(rows).all():
            raise InputError("q must be finite, got NaN or infinity", code=Code.NOT_FINITE, subject="q")
        closure = home_closure(self.robot)
        if array.ndim == 1 and self._last is not None:
            positions = closure.continue_from(self._last, rows[0])[None]
        else:
            positions = closure.along(rows) if array.ndim == 2 else closure.positions(rows)
        if array.ndim == 1:
            self._last = positions[0]
        return positions.reshape(*array.shape[:-1], len(self.robot.joints)).astype(self.dtype)

    def _find_failures(self, closure: Array) -> Array:
        limit = MAX_CLOSURE_ERROR if self.dtype == np.float64 else MAX_CLOSURE_ERROR_SINGLE
        # Written so that NaN counts as wrong.
        return np.asarray(~((closure[..., 0] < limit) & (closure[..., 1] > MIN_REGULARITY)))

    def _closure_error(self, arrays: tuple[Any, ...], closure: Array, where: Array) -> RobotError:
        place = tuple(int(i) for i in where)
        residual, regular = (float(value) for value in closure[place])
        q = np.asarray(arrays[0], dtype=np.float64)
        state = ", ".join(f"{value:.4g}" for value in (q[place] if q.ndim > 1 else q))
        row = f"row {list(place)}, " if place else ""
        if residual < MAX_CLOSURE_ERROR:
            return RobotError(
                f"the loops of robot {self.robot.name!r} are nearly singular at {row}q = {state}: the dependent joints "
                f"{', '.join(self.robot.dependent_names)} are not determined there (regularity {regular:.1e})",
                code=Code.INACCURATE,
                subject=self.robot.name,
            )
        return RobotError(
            f"the loops of robot {self.robot.name!r} do not close at {row}q = {state} (residual {residual:.1e})",
            hint="pass q of all joints near a closed configuration, or of the primary joints only",
            code=Code.NOT_CONVERGED,
            subject=self.robot.name,
        )


def make_kernel(robot: Robot, function: casadi.Function, **options: Any) -> Kernel:
    """Return a `ClosedKernel` if the function outputs a closure, otherwise a plain kernel."""
    if CLOSURE in function.name_out():
        return ClosedKernel(robot, function, **options)
    return Kernel(function, **options)
