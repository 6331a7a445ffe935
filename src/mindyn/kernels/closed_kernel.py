"""`ClosedKernel`: a kernel of a robot whose loops are solved for, with the closure given, polished and checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import casadi
import numpy as np

from mindyn.equations.closed_motion import CLOSURE, MAX_CLOSURE_ERROR, MIN_REGULARITY
from mindyn.equations.loop_closure import home_closure
from mindyn.errors import InputError, RobotError
from mindyn.kernels.kernel import Kernel
from mindyn.numerics.arrays import Array
from mindyn.robots.robot import Robot

MAX_CLOSURE_ERROR_SINGLE: Final = 1e-4
"""`MIN_UNEXPLAINED_FRACTION` in float32."""


class ClosedKernel(Kernel):
    """A kernel whose first input is q and whose last output is the closure of each sample.

    q has the positions (..., n) of all joints, dependent ones near where they close, or (..., k) of the primary ones
    alone: these are then solved for, of a batch (N, k) in its order, as a motion, else on a straight way from home.
    Derivatives by q are of the positions that were given. Samples whose loops stay open or are nearly singular are
    refused by name; `run_with_flags` marks them in place of an error.
    """

    def __init__(
        self,
        robot: Robot,
        function: casadi.Function,
        *,
        dtype: Any = np.float64,
        shared: Sequence[str] = (),
        compact: Sequence[str] = (),
        matrices: Sequence[str] = (),
        not_finite_hint: str = "",
    ) -> None:
        cause = not_finite_hint or "a singular configuration of the loops"
        super().__init__(
            function, dtype=dtype, shared=shared, compact=compact, matrices=matrices, not_finite_hint=cause
        )
        self.robot = robot
        self._primary = len(robot.primary_names)
        self._places = [robot.joint_index(name) for name in robot.primary_names]
        self._last: Array | None = None
        self._by_positions = [one == "gradient_q" or one.endswith("_dq") for one in self._output_names]

    def run(self, arrays: tuple[Any, ...], out: Any = None, threads: int = 1) -> Any:
        """The outputs but the closure, which is checked."""
        if self._last is not None and out is None and np.shape(arrays[0]) == (self._primary,):
            # A control loop asks near where it asked before: that closes the loops nearly always.
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
        """The outputs, and whether the closure of each sample (...,) failed or is nearly singular."""
        results, closure = self._run_with_closure(arrays, None, threads)
        return results[0] if len(results) == 1 else results, self._find_failures(closure)

    def _run_with_closure(self, arrays: tuple[Any, ...], out: Any, threads: int) -> tuple[tuple[Any, ...], Array]:
        whole = (self._positions(arrays[0]), *arrays[1:]) if arrays else arrays
        given = None
        if out is not None:
            shape = np.shape(whole[0])[:-1]
            given = (*(out if isinstance(out, tuple) else (out,)), np.empty((*shape, 2), self.dtype))
        results = super().run(whole, given, threads)
        if whole and whole[0] is not arrays[0]:  # derivatives by the positions that were given
            pairs = zip(results, self._by_positions, strict=True)
            results = tuple(one[..., self._places] if chosen else one for one, chosen in pairs)
        return tuple(results[:-1]), results[-1]

    def _positions(self, q: Any) -> Any:
        array = np.asarray(q)
        if array.ndim == 0 or array.shape[-1] != self._primary:
            return q
        rows = np.array(array, dtype=np.float64).reshape(-1, self._primary)
        if not np.isfinite(rows).all():
            raise InputError("q: finite numbers are needed")
        closure = home_closure(self.robot)
        if array.ndim == 1 and self._last is not None:
            found = closure.continue_from(self._last, rows[0])[None]
        else:
            found = closure.along(rows) if array.ndim == 2 else closure.positions(rows)
        if array.ndim == 1:
            self._last = found[0]
        return found.reshape(*array.shape[:-1], self.robot.joint_count).astype(self.dtype)

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
                f"{', '.join(self.robot.dependent_names)} are not determined there (measure {regular:.1e})"
            )
        return RobotError(
            f"the loops of robot {self.robot.name!r} do not close at {row}q = {state} (residual {residual:.1e})",
            hint="give q of all joints near where the loops close, or of the primary joints alone",
        )


def make_kernel(robot: Robot, function: casadi.Function, **options: Any) -> Kernel:
    """A `ClosedKernel` where the function gives a closure, a plain kernel else."""
    if CLOSURE in function.name_out():
        return ClosedKernel(robot, function, **options)
    return Kernel(function, **options)
