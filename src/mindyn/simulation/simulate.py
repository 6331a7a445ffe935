"""`simulate`: one motion of a robot under a controller or a torque log.

`FixedStepIntegrator` is one motion by the fixed Runge-Kutta step that rollouts use; `adaptive` has the other
integrator.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal, Protocol, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mindyn.algebra.values import Array, frozen_array
from mindyn.errors import InputError, require_choice
from mindyn.kernels.kernel import Kernel
from mindyn.robots.robot import CACHED_ROBOTS, Robot
from mindyn.simulation.adaptive import AdaptiveIntegrator
from mindyn.simulation.dormand_prince import Tolerance
from mindyn.simulation.inputs import make_read_only, require_positive
from mindyn.simulation.plant import Plant, create_plant
from mindyn.simulation.results import Simulation, SimulationError, TorqueLog
from mindyn.simulation.runge_kutta import slope_function, step_function
from mindyn.simulation.sensors import Sensors, measure

Controller = Callable[[float, Array, Array], ArrayLike]
"""tau (n,) of (t, q, qd)."""
IntegrationMethod = Literal["adaptive", "fixed"]
_TICK_S = 1e-10
"""Seconds within which two instants are one."""


class Integrator(Protocol):
    """A state that moves on in time under a held torque."""

    t: float
    events: int

    @property
    def q(self) -> Array: ...  # noqa: D102
    @property
    def positions(self) -> Array: ...  # noqa: D102
    @property
    def qd(self) -> Array: ...  # noqa: D102
    @property
    def stuck(self) -> NDArray[np.bool_]: ...  # noqa: D102
    def hold(self, tau: Array) -> tuple[Array, Array]: ...  # noqa: D102
    def advance(self, until: float) -> None: ...  # noqa: D102


def simulate(
    robot: Robot,
    torque: Controller | TorqueLog,
    *,
    seconds: float,
    q0: ArrayLike,
    qd0: ArrayLike | None = None,
    rate_hz: float = 1000.0,
    control_rate_hz: float | None = None,
    drives: bool = False,
    method: IntegrationMethod = "adaptive",
    longest_step_s: float | None = None,
    tolerance: Tolerance | None = None,
    sensors: Sensors | None = None,
) -> Simulation:
    """The motion from (q0, qd0); qd0 left out is rest.

    torque          a controller (t, q, qd) -> tau (n,), called at control_rate_hz (rate_hz if left out) and held in
                    between; or a torque log, whose first sample is at the motion's beginning
    rate_hz         of the rows of the result
    drives          rotor inertia, friction (Coulomb friction too) and offsets of the drives take part
    method          "adaptive": Dormand-Prince 8(5,3) to `tolerance`, friction by events (see `adaptive`);
                    "fixed": Runge-Kutta steps of at most longest_step_s (1 / rate_hz if left out; see `runge_kutta`)
    sensors         what they would read becomes `measured` of the result
    """
    seconds, rate_hz = require_positive(seconds, "seconds", "such as 10.0"), require_positive(rate_hz, "rate_hz")
    require_choice(method, get_args(IntegrationMethod), "method")
    plant = create_plant(robot, drives=drives)
    n = plant.joint_count
    q = frozen_array(q0, (n,), "q0")
    qd = frozen_array(np.zeros(n) if qd0 is None else qd0, (n,), "qd0")
    longest = require_positive(1 / rate_hz if longest_step_s is None else longest_step_s, "longest_step_s")
    source = _create_source(torque, seconds, n, require_positive(control_rate_hz or rate_hz, "control_rate_hz"))
    motion: Integrator = (
        AdaptiveIntegrator(plant, q, qd, tolerance or Tolerance()) if method == "adaptive"
        else FixedStepIntegrator(plant, q, qd, longest)
    )  # fmt: skip
    found = _run_simulation(motion, source, plant, seconds, rate_hz)
    return found if sensors is None else replace(found, measured=measure(robot, found, sensors))


@dataclass(frozen=True, slots=True)
class TorqueSource:
    """Torques that change at `instants` (s) only: torque(t, q, qd) from then on."""

    instants: Array
    torque: Controller


def _create_source(torque: Controller | TorqueLog, seconds: float, n: int, control_rate_hz: float) -> TorqueSource:
    if isinstance(torque, TorqueLog):
        return _create_log_source(torque, seconds, n)
    if not callable(torque):
        raise InputError(f"torque must be a controller (t, q, qd) -> tau or a TorqueLog, got {type(torque).__name__}")
    return TorqueSource(np.arange(int(seconds * control_rate_hz + 1e-6) + 1) / control_rate_hz, torque)


def _create_log_source(log: TorqueLog, seconds: float, n: int) -> TorqueSource:
    if log.tau.shape[1] != n:
        raise InputError(f"the torque log has {log.tau.shape[1]} columns, but the robot has {n} joints")
    lasts = log.end - float(log.t[0])
    if lasts < seconds - 1e-6 * seconds:
        raise InputError(
            f"the torque log lasts {lasts:.6g} s, but the motion is to last {seconds:.6g} s",
            hint="shorten the motion, or give torques for all of it",
        )
    instants = log.t - log.t[0]

    def torque(t: float, q: Array, qd: Array) -> Array:  # noqa: ARG001 - a log does not look at the state
        return np.asarray(log.tau[np.searchsorted(instants, t + _TICK_S, side="right") - 1])

    return TorqueSource(instants[instants <= seconds], torque)


def _run_simulation(
    motion: Integrator, source: TorqueSource, plant: Plant, seconds: float, rate_hz: float
) -> Simulation:
    n, times = plant.joint_count, np.arange(int(seconds * rate_hz + 1e-6) + 1) / rate_hz
    instants, is_row, is_change = _schedule_instants(times, source.instants[source.instants <= times[-1] + _TICK_S])
    rows = {name: np.empty((len(times), n)) for name in ("q", "qd", "qdd", "tau", "friction")}
    stuck = np.zeros((len(times), len(plant.levels)), dtype=np.bool_)
    tau, row = np.zeros(n), 0
    for t, shown, changes in zip(instants, is_row, is_change, strict=True):
        motion.advance(t)
        if changes:
            tau = _require_torque(source.torque(motion.t, motion.q, motion.qd), motion.t, plant)
        qdd, lam = motion.hold(tau)
        if shown:
            values = (motion.q, motion.qd, qdd, tau, plant.rows_at(motion.positions).T @ lam)
            for array, value in zip(rows.values(), values, strict=True):
                array[row] = value
            stuck[row] = motion.stuck
            row += 1
    q, qd, qdds, taus, friction = (make_read_only(array) for array in rows.values())
    names = plant.joint_names
    return Simulation(
        names, rate_hz, make_read_only(times), q, qd, qdds, taus, friction, make_read_only(stuck), motion.events
    )


def _schedule_instants(times: Array, changes: Array) -> tuple[list[float], NDArray[np.bool_], NDArray[np.bool_]]:
    """All instants in order, and which of them are rows of the result, or changes of the torque."""
    together = np.concatenate([times, changes])
    ticks, first = np.unique(np.round(together / _TICK_S), return_index=True)
    return together[first].tolist(), *(np.isin(ticks, np.round(part / _TICK_S)) for part in (times, changes))


def _require_torque(value: ArrayLike, t: float, plant: Plant) -> Array:
    tau, names = np.asarray(value, dtype=np.float64), plant.joint_names
    if tau.shape != (len(names),):
        raise InputError(
            f"the controller gave torques of shape {tau.shape} at {t:.6g} s, but ({len(names)},) is needed"
        )
    if not np.isfinite(tau).all():
        joint = int(np.flatnonzero(~np.isfinite(tau))[0])
        raise InputError(f"the controller gave {tau[joint]} for joint {names[joint]!r} at {t:.6g} s")
    return tau


class FixedStepIntegrator:
    """The state (q, qd) at time t, moved on by `advance` in equal steps of at most `longest` seconds."""

    events = 0
    """Fixed steps know no events."""

    def __init__(self, plant: Plant, q0: Array, qd0: Array, longest: float) -> None:
        self._plant, self._longest = plant, longest
        kernel, look = _compile_kernels(plant)
        self._step, self._look = kernel.bind(), look.bind()
        self._step["q"][:], self._step["qd"][:] = plant.start(q0), qd0
        self._lam = np.zeros(len(plant.levels))
        self.t = 0.0

    @property
    def q(self) -> Array:
        """Positions (n,)."""
        return np.array(self._step["q"])[self._plant.primary]

    @property
    def positions(self) -> Array:
        """Of the state."""
        return np.array(self._step["q"])

    @property
    def qd(self) -> Array:
        """Velocities (n,)."""
        return np.array(self._step["qd"])

    @property
    def stuck(self) -> NDArray[np.bool_]:
        """(m,) which frictions take less than their Coulomb torque."""
        return np.abs(self._lam) < self._plant.levels

    def hold(self, tau: Array) -> tuple[Array, Array]:
        """From now on tau acts; gives qdd (n,), and lam (m,) at the frictions."""
        self._step["tau"][:] = tau
        look = self._look
        for name, array in zip(look.input_names, look.inputs, strict=True):
            array[:] = self._longest if name == "dt" else self._step[name]
        look.run()
        if self._plant.has_friction:
            self._lam = look["lam_next"].copy()
        return look["qdd"].copy(), self._lam

    def advance(self, until: float) -> None:
        """Moves on to time `until` under the torque held."""
        run, count = self._step, max(1, int(np.ceil((until - self.t) / self._longest - 1e-6)))
        run["dt"][:] = (until - self.t) / count
        for _ in range(count):
            run.run()
            for name in ("q", "qd", "lam")[: 3 if self._plant.has_friction else 2]:
                run[name][:] = run[f"{name}_next"]
        self.t = until
        if not (np.isfinite(run["q"]).all() and np.isfinite(run["qd"]).all()):
            raise SimulationError(
                f"the motion is not finite any more at {until:.6g} s",
                hint='take a smaller step, or method="adaptive"; gains or torques may be too large for the robot'
                + (", or its loops come to a singular configuration" if self._plant.is_solved else ""),
            )


@lru_cache(maxsize=CACHED_ROBOTS)
def _compile_kernels(plant: Plant) -> tuple[Kernel, Kernel]:
    """The step, and what its first stage sees."""
    look = slope_function(plant) if plant.has_friction else plant.function("forward_dynamics")
    return Kernel(step_function(plant)), Kernel(look)
