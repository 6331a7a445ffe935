"""`roll_out`: simulate thousands of motions at once, with a fixed step in a single compiled kernel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

import casadi
import numpy as np
from numpy.typing import NDArray

from mindyn.equations.catalogue import Function
from mindyn.foundation.algebra.requirements import make_read_only, require_count, require_finite, require_positive
from mindyn.foundation.algebra.values import real_array
from mindyn.foundation.errors import Code, InputError, unknown_name_error
from mindyn.kernels.closed_kernel import MAX_CLOSURE_ERROR_SINGLE
from mindyn.kernels.kernel import Kernel
from mindyn.kernels.model import Precision
from mindyn.motions.simulation.controllers import require_law
from mindyn.motions.simulation.plant import Plant, create_plant
from mindyn.motions.simulation.results import Rollouts, SimulationError
from mindyn.motions.simulation.runge_kutta import step_function
from mindyn.motions.simulation.time_loop import TimeLoop
from mindyn.robots.robot import CACHED_ROBOTS, Robot

Batch = NDArray[Any]
ROLLOUT_STATES = ("q", "qd", "lam")


def roll_out(
    robot: Robot,
    q0: Any,
    qd0: Any,
    tau: Any,
    *,
    dt: float,
    steps: int,
    with_drives: bool = False,
    signals: Mapping[str, Any] | None = None,
    threads: int = 1,
    dtype: Precision = "float64",
) -> Rollouts:
    """Simulate B motions with a fixed Runge-Kutta step of order 4.

    The step is compiled for a robot on the first call, and reused in later calls.

    Parameters
    ----------
    robot : Robot
        Robot to simulate.
    q0, qd0 : array_like of shape (B, n) or (n,)
        Initial positions (rad or m) and velocities (rad/s or m/s).
    tau : array_like of shape (B, steps, n), (steps, n) or (n,), or casadi.Function
        Torques that are held in each step, in N m or N; or a control law with inputs named q, qd and others, whose
        output (n,) is computed at the start of each step and held.
    dt : float
        Length of a step, in s.
    steps : int
        Number of steps.
    with_drives : bool
        Whether to include rotor inertia, friction and offsets of the drives.
    signals : mapping, optional
        Values of the law's other inputs (a reference, gains): (B, steps, size), (steps, size) or (size,).
    threads : int
        Number of threads; the results do not depend on it.
    dtype : {"float64", "float32"}
        Precision of the simulation.

    Returns
    -------
    Rollouts
        Times (steps + 1,), positions and velocities (B, steps + 1, n), and torques.

    Raises
    ------
    InputError
        If an argument has the wrong shape or is not finite.
    SimulationError
        If a motion is no longer finite.
    """
    is_law = hasattr(tau, "name_in")
    run = compile_rollout(robot, law=tau if is_law else None, with_drives=with_drives, dtype=dtype)
    return run(q0, qd0, signals or {} if is_law else {"tau": tau}, dt=dt, steps=steps, threads=threads)


class CompiledRollout:
    """Compiled step of a robot and a control law. `given` are the arguments `tau` or `signals` of `roll_out`."""

    def __init__(self, plant: Plant, law: Function | None, dtype: Precision) -> None:
        self.plant, self.dtype = plant, np.dtype(dtype)
        if law is not None:
            require_law(law, plant, reserved=("lam", "dt", "tau"))
        self._loop = TimeLoop(Kernel(step_function(plant, law), dtype=dtype, shared=["dt"]))

    def __call__(self, q0: Any, qd0: Any, given: Mapping[str, Any], *, dt: float, steps: int, threads: int) -> Rollouts:
        """Simulate motions from these states with these signals."""
        dt = require_positive(dt, "dt")
        steps, threads = require_count(steps, "steps"), require_count(threads, "threads")
        signals = self._signals(given, steps)
        starts = [self._start(q0, "q0"), self._start(qd0, "qd0")]
        count = _count_rollouts(starts, signals)
        arrays = self._arrays(starts, count, steps) | signals | {"dt": np.full((1, 1, 1), dt, dtype=self.dtype)}
        status = self._loop.run(arrays, count, steps, threads)
        self._require_finite_motions(status, arrays)
        times = make_read_only(np.arange(steps + 1) * np.float64(dt))
        arrays["q"] = arrays["q"][..., self.plant.primary] if self.plant.is_solved else arrays["q"]
        return Rollouts(times, *(make_read_only(arrays[name]) for name in ("q", "qd", "tau")))

    def _signals(self, given: Mapping[str, Any], steps: int) -> dict[str, Batch]:
        wanted = [name for name in self._loop.inputs if name not in (*ROLLOUT_STATES, "dt")]
        for name in given:
            if name not in wanted:
                raise unknown_name_error("signal", name, wanted)
        if missing := [name for name in wanted if name not in given]:
            message = f"the law reads {', '.join(missing)}, which are missing in signals"
            raise InputError(message, code=Code.MISSING_VALUE, subject=missing[0])
        return {name: self._signal(given[name], name, steps) for name in wanted}

    def _signal(self, value: Any, name: str, steps: int) -> Batch:
        """Return a signal as (B or 1, steps, size), possibly with a stride of zero over the steps."""
        array, size = real_array(value, self.dtype, name), self._loop.sizes[name]
        shapes = f"(B, {steps}, {size}), ({steps}, {size}) or ({size},)"
        if array.ndim not in (1, 2, 3) or array.shape[-1] != size or (array.ndim > 1 and array.shape[-2] != steps):
            message = f"{name} has shape {array.shape}, but {shapes} is needed"
            raise InputError(message, code=Code.WRONG_SHAPE, subject=name)
        array = np.require(array, requirements=["C", "A"])
        if array.ndim == 1:
            return np.broadcast_to(array, (1, steps, size))
        return array if array.ndim == 3 else array[None]

    def _start(self, value: Any, name: str) -> Batch:
        array, n = real_array(value, self.dtype, name), self.plant.joint_count  # primary joints
        if array.ndim not in (1, 2) or array.shape[-1] != n:
            message = f"{name} has shape {array.shape}, but (B, {n}) or ({n},) is needed"
            raise InputError(message, code=Code.WRONG_SHAPE, subject=name)
        rows = np.atleast_2d(require_finite(array, name))
        return self.plant.start(rows).astype(self.dtype) if name == "q0" else rows

    def _arrays(self, starts: list[Batch], count: int, steps: int) -> dict[str, Batch]:
        """Return arrays of the states with their first rows, and of the law's torques."""
        states = [name for name in ROLLOUT_STATES if name in self._loop.inputs]
        arrays = {name: np.zeros((count, steps + 1, self._loop.sizes[name]), self.dtype) for name in states}
        for name, start in zip(("q", "qd"), starts, strict=True):
            arrays[name][:, 0] = start
        if "tau" in self._loop.outputs:
            arrays["tau"] = np.empty((count, steps, self._loop.sizes["tau"]), self.dtype)
        return arrays

    def _require_finite_motions(self, status: int, arrays: Mapping[str, Batch]) -> None:
        for name in self._loop.inputs if status else ():
            if name not in (*ROLLOUT_STATES, "dt"):
                require_finite(arrays[name], name)
        if status or not (np.isfinite(arrays["q"][:, -1]).all() and np.isfinite(arrays["qd"][:, -1]).all()):
            lost = np.asarray(~(np.isfinite(arrays["q"]) & np.isfinite(arrays["qd"])).all(axis=-1))
            if not lost.any():
                return
            first = int(np.argwhere(lost.any(axis=0))[0, 0])
            raise SimulationError(
                f"{lost[:, -1].sum()} of {len(lost)} rollouts are no longer finite, rollout "
                f"{int(np.flatnonzero(lost[:, first])[0])} since step {first}",
                hint="use a smaller dt, or check for torques or gains that are too large for the robot"
                + (", or for a singular configuration of its loops" if self.plant.is_solved else ""),
                code=Code.NOT_FINITE,
                subject="q",
            )


def compile_rollout(
    robot: Robot, *, law: Function | None = None, with_drives: bool = False, dtype: Precision = "float64"
) -> CompiledRollout:
    """Compile the step of `roll_out` for a robot and a control law; the last results are cached.

    Parameters
    ----------
    robot : Robot
        Robot to simulate.
    law : casadi.Function, optional
        Control law with inputs named q, qd and others, and the output tau (n,).
    with_drives : bool
        Whether to include rotor inertia, friction and offsets of the drives.
    dtype : {"float64", "float32"}
        Precision of the simulation.

    Returns
    -------
    CompiledRollout
        Callable (q0, qd0, given, dt=, steps=, threads=) -> Rollouts.

    Raises
    ------
    InputError
        If the law does not fit the robot.
    """
    return _compile_cached(robot, None if law is None else law.serialize(), with_drives, dtype)


@lru_cache(maxsize=CACHED_ROBOTS)
def _compile_cached(robot: Robot, law: str | None, with_drives: bool, dtype: Precision) -> CompiledRollout:
    plant = create_plant(robot, with_drives=with_drives)
    if dtype == "float32":
        plant = replace(plant, closure_tolerance=MAX_CLOSURE_ERROR_SINGLE)
    return CompiledRollout(plant, None if law is None else casadi.Function.deserialize(law), dtype)


def _count_rollouts(starts: list[Batch], signals: Mapping[str, Batch]) -> int:
    counts = {"q0": len(starts[0]), "qd0": len(starts[1])} | {name: len(array) for name, array in signals.items()}
    largest = max(counts.values())
    if any(count not in (1, largest) for count in counts.values()) or min(counts.values()) == 0:
        given = ", ".join(f"{name} {count}" for name, count in counts.items())
        raise InputError(f"the numbers of rollouts differ: {given}", code=Code.WRONG_SHAPE, subject="q0")
    return largest
