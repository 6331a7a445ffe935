"""`rollout`: thousands of motions at once, with a fixed step and one compiled kernel for the whole step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

import casadi
import numpy as np
from numpy.typing import NDArray

from mindyn.algebra.values import real_array
from mindyn.equations.catalogue import Function
from mindyn.errors import InputError, unknown_name_error
from mindyn.kernels.closed_kernel import MAX_CLOSURE_ERROR_SINGLE
from mindyn.kernels.kernel import Kernel
from mindyn.kernels.model import Precision
from mindyn.robots.robot import CACHED_ROBOTS, Robot
from mindyn.simulation.control_laws import require_law
from mindyn.simulation.inputs import make_read_only, require_count, require_positive
from mindyn.simulation.plant import Plant, create_plant
from mindyn.simulation.results import Rollouts, SimulationError
from mindyn.simulation.runge_kutta import step_function
from mindyn.simulation.time_loop import TimeLoop

Batch = NDArray[Any]
ROLLOUT_STATES = ("q", "qd", "lam")


def rollout(
    robot: Robot,
    q0: Any,
    qd0: Any,
    tau: Any,
    *,
    dt: float,
    steps: int,
    drives: bool = False,
    signals: Mapping[str, Any] | None = None,
    threads: int = 1,
    dtype: Precision = "float64",
) -> Rollouts:
    """B motions of `steps` Runge-Kutta steps of dt (order 4; dry friction as in `runge_kutta`).

    q0, qd0  (B, n) or (n,), where they are the same for all
    tau      (B, steps, n), (steps, n) or (n,): held in each step; or a law, a `casadi.Function` of inputs named q, qd
             and others, whose output (n,) is held from the beginning of each step, as a digital controller's is
    signals  for each other input of the law (a reference, gains) its values: (B, steps, size), (steps, size) or (size,)
    threads  share the rollouts; the numbers do not depend on how many

    For control loops and sampling planners the second call with the same robot costs no compilation.
    """
    return compile_rollout(robot, law=tau if _is_law(tau) else None, drives=drives, dtype=dtype)(
        q0, qd0, {"tau": tau} if not _is_law(tau) else dict(signals or {}), dt=dt, steps=steps, threads=threads
    )


class CompiledRollout:
    """The step of one robot (and law) as machine code; see `rollout`, whose `tau` and `signals` are `given` here."""

    def __init__(self, plant: Plant, law: Function | None, dtype: Precision) -> None:
        self.plant, self.dtype = plant, np.dtype(dtype)
        if law is not None:
            require_law(law, plant, reserved=("lam", "dt", "tau"))
        kernel = Kernel(step_function(plant, law), dtype=dtype, shared=["dt"])
        self._shapes = {one.name: one.size for one in kernel.program.arguments}
        self._inputs = [one.name for one in kernel.program.inputs]
        self._outputs = [one.name for one in kernel.program.outputs]
        self._loop = TimeLoop(kernel)

    def __call__(self, q0: Any, qd0: Any, given: Mapping[str, Any], *, dt: float, steps: int, threads: int) -> Rollouts:
        """The rollouts from these states under these signals."""
        dt, steps, threads = (
            require_positive(dt, "dt"),
            require_count(steps, "steps"),
            require_count(threads, "threads"),
        )
        signals = self._signals(given, steps)
        starts = [self._start(q0, "q0"), self._start(qd0, "qd0")]
        count = _count_rollouts(starts, signals)
        arrays = self._arrays(starts, count, steps) | signals | {"dt": np.full((1, 1, 1), dt, dtype=self.dtype)}
        series = [self._loop.series(arrays[name], count) for name in self._inputs]
        for name in self._outputs:
            series.append(self._loop.series(arrays[name.removesuffix("_next")], count, later=name.endswith("_next")))
        status = self._loop.run(series, count, steps, threads)
        self._require_finite(status, arrays)
        times = make_read_only(np.arange(steps + 1) * np.float64(dt))
        arrays["q"] = arrays["q"][..., self.plant.primary] if self.plant.is_solved else arrays["q"]
        return Rollouts(times, *(make_read_only(arrays[name]) for name in ("q", "qd", "tau")))

    def _signals(self, given: Mapping[str, Any], steps: int) -> dict[str, Batch]:
        wanted = [name for name in self._inputs if name not in (*ROLLOUT_STATES, "dt")]
        for name in given:
            if name not in wanted:
                raise unknown_name_error("signal", name, wanted)
        if missing := [name for name in wanted if name not in given]:
            raise InputError(f"the law reads {', '.join(missing)}, which signals does not give")
        return {name: self._signal(given[name], name, steps) for name in wanted}

    def _signal(self, value: Any, name: str, steps: int) -> Batch:
        """(B or 1, steps, size), possibly with strides of zero over the steps."""
        array, size = real_array(value, self.dtype, name), self._shapes[name]
        shapes = f"(B, {steps}, {size}), ({steps}, {size}) or ({size},)"
        if array.ndim not in (1, 2, 3) or array.shape[-1] != size:
            raise InputError(f"{name} has shape {array.shape}, but {shapes} is needed")
        if array.ndim > 1 and array.shape[-2] != steps:
            short = f"{name} has {array.shape[-2]} steps, but the rollouts take {steps}"
            raise InputError(f"{short}: {shapes} is needed")
        array = np.require(array, requirements=["C", "A"])
        if array.ndim == 1:
            return np.broadcast_to(array, (1, steps, size))
        return array if array.ndim == 3 else array[None]

    def _start(self, value: Any, name: str) -> Batch:
        array, n = real_array(value, self.dtype, name), self.plant.joint_count  # positions of primary joints
        if array.ndim not in (1, 2) or array.shape[-1] != n:
            raise InputError(f"{name} has shape {array.shape}, but (B, {n}) or ({n},) is needed")
        if not np.isfinite(array).all():
            where = np.argwhere(~np.isfinite(array))[0].tolist()
            raise InputError(f"{name}: element {where} is not finite")
        rows = np.atleast_2d(array)
        return self.plant.start(rows).astype(self.dtype) if name == "q0" else rows

    def _arrays(self, starts: list[Batch], count: int, steps: int) -> dict[str, Batch]:
        """Arrays of the states, with their first rows filled in, and of the law's torques."""
        states = [name for name in ROLLOUT_STATES if name in self._inputs]
        arrays = {name: np.empty((count, steps + 1, self._shapes[name]), self.dtype) for name in states}
        for name, start in zip(("q", "qd"), starts, strict=True):
            arrays[name][:, 0] = start
        if "lam" in arrays:
            arrays["lam"][:, 0] = 0.0
        if "tau" in self._outputs:
            arrays["tau"] = np.empty((count, steps, self._shapes["tau"]), self.dtype)
        return arrays

    def _require_finite(self, status: int, arrays: Mapping[str, Batch]) -> None:
        for name in self._inputs if status else ():
            if name not in (*ROLLOUT_STATES, "dt") and not np.isfinite(arrays[name]).all():
                where = np.argwhere(~np.isfinite(arrays[name]))[0].tolist()
                raise InputError(f"{name}: element {where} is not finite")
        if status or not (np.isfinite(arrays["q"][:, -1]).all() and np.isfinite(arrays["qd"][:, -1]).all()):
            lost = np.asarray(~(np.isfinite(arrays["q"]) & np.isfinite(arrays["qd"])).all(axis=-1))
            if not lost.any():
                return
            first = int(np.argwhere(lost.any(axis=0))[0, 0])
            raise SimulationError(
                f"{lost[:, -1].sum()} of {len(lost)} rollouts are not finite any more, rollout "
                f"{int(np.flatnonzero(lost[:, first])[0])} since step {first}",
                hint="take a smaller dt, or look for torques or gains too large for the robot"
                + (", or for a singular configuration of its loops" if self.plant.is_solved else ""),
            )


def compile_rollout(
    robot: Robot, *, law: Function | None = None, drives: bool = False, dtype: Precision = "float64"
) -> CompiledRollout:
    """The compiled rollout of a robot and law; that of the last ones is kept."""
    return _compile_cached(robot, None if law is None else law.serialize(), drives, dtype)


@lru_cache(maxsize=CACHED_ROBOTS)
def _compile_cached(robot: Robot, law: str | None, drives: bool, dtype: Precision) -> CompiledRollout:
    plant = create_plant(robot, drives=drives)
    if dtype == "float32":
        plant = replace(plant, closed_within=MAX_CLOSURE_ERROR_SINGLE)
    return CompiledRollout(plant, None if law is None else casadi.Function.deserialize(law), dtype)


def _is_law(tau: Any) -> bool:
    return hasattr(tau, "name_in")


def _count_rollouts(starts: list[Batch], signals: Mapping[str, Batch]) -> int:
    counts = {"q0": len(starts[0]), "qd0": len(starts[1])} | {name: len(array) for name, array in signals.items()}
    largest = max(counts.values())
    if any(count not in (1, largest) for count in counts.values()) or min(counts.values()) == 0:
        given = ", ".join(f"{name} {count}" for name, count in counts.items())
        raise InputError(f"the numbers of rollouts differ: {given}")
    return largest
